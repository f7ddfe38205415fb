"""The normal family, truncated at zero, and of the logarithm."""

from __future__ import annotations

import numpy as np
from scipy import special

from weatherpp.families.base import ROOT_2PI, TINY, Array, Family


class Normal(Family):
    """Normal distribution by its mean and standard deviation."""

    name = "normal"
    parameters = ("mean", "spread")
    floor = -np.inf

    def _cdf(self, y: Array, *p: Array) -> Array:
        with np.errstate(over="ignore"):
            out: Array = special.ndtr((y - p[0]) / np.maximum(p[1], TINY))
        return out

    def ppf(self, level: Array, *p: Array) -> Array:
        out: Array = p[0] + p[1] * special.ndtri(level)
        return out

    def mean(self, *p: Array) -> Array:
        return p[0]

    def sd(self, *p: Array) -> Array:
        return p[1]

    def _crps(self, y: Array, *p: Array) -> Array:
        r""":math:`e\,(2\Phi(z) - 1) + \sigma\,(2\varphi(z) - 1/\sqrt\pi)` with :math:`e = y-\mu`.

        Written in this form it tends to :math:`|e|` as the spread goes to zero.
        """
        error = y - p[0]
        with np.errstate(over="ignore"):
            z = error / np.maximum(p[1], TINY)
            twice_density = np.exp(-0.5 * z**2) * np.sqrt(2 / np.pi)
        out: Array = error * special.erf(z / np.sqrt(2)) + p[1] * (twice_density - np.pi**-0.5)
        return out

    def log_score(self, y: Array, *p: Array) -> Array:
        out: Array = np.log(p[1] * ROOT_2PI) + 0.5 * ((y - p[0]) / p[1]) ** 2
        return out


class TruncatedNormal(Family):
    """Normal distribution under the condition that it is above zero.

    Ratios of tail probabilities are taken by their logarithms, so locations far below zero hold.
    """

    name = "truncated-normal"

    def _ratio(self, z: Array, p: tuple[Array, ...]) -> Array:
        """Probability above ``z`` of the normal part by that above zero."""
        return np.exp(special.log_ndtr(-z) - special.log_ndtr(p[0] / p[1]))

    def _density(self, z: Array, p: tuple[Array, ...]) -> Array:
        out: Array = np.exp(-0.5 * z**2 - special.log_ndtr(p[0] / p[1])) / ROOT_2PI
        return out

    def _cdf(self, y: Array, *p: Array) -> Array:
        return 1 - self._ratio((y - p[0]) / p[1], p)

    def ppf(self, level: Array, *p: Array) -> Array:
        tail = np.log1p(-np.asarray(level)) + special.log_ndtr(p[0] / p[1])
        return np.maximum(p[0] - p[1] * special.ndtri_exp(tail), 0.0)

    def mean(self, *p: Array) -> Array:
        return p[0] + p[1] * self._density(p[0] / p[1], p)

    def sd(self, *p: Array) -> Array:
        a = p[0] / p[1]
        hazard = self._density(a, p)
        return p[1] * np.sqrt(np.maximum(1 - a * hazard - hazard**2, 0.0))

    def _crps(self, y: Array, *p: Array) -> Array:
        z, a = (y - p[0]) / p[1], p[0] / p[1]
        pair = np.exp(special.log_ndtr(np.sqrt(2) * a) - 2 * special.log_ndtr(a))
        middle = z * (1 - 2 * self._ratio(z, p)) + 2 * self._density(z, p)
        out: Array = p[1] * (middle - pair / np.sqrt(np.pi))
        return out

    def crps_slopes(self, y: Array, *p: Array) -> tuple[Array, ...]:
        """By location from the integral; by scale from CRPS(ky; km, ks) = k CRPS."""
        y = np.maximum(y, 0.0)
        z, score = (y - p[0]) / p[1], self._crps(y, *p)
        odd = 1 - 2 * self._ratio(z, p)
        hazard = self._density(p[0] / p[1], p) / p[1]
        excess = p[1] * self._density(z, p) - (y - p[0]) * self._ratio(z, p)
        by_location = -odd + 2 * hazard * (excess - (self.mean(*p) - y) - score)
        return by_location, (score - p[0] * by_location - y * odd) / p[1]

    def log_score(self, y: Array, *p: Array) -> Array:
        z = (y - p[0]) / p[1]
        out: Array = 0.5 * z**2 + np.log(p[1] * ROOT_2PI) + special.log_ndtr(p[0] / p[1])
        return out


class LogNormal(Family):
    """Log-normal distribution by its median and the standard deviation of the logarithm."""

    name = "log-normal"
    parameters = ("median", "log_spread")
    powers = (1.0, 0.0)

    def _z(self, y: Array, p: tuple[Array, ...]) -> Array:
        with np.errstate(divide="ignore"):
            out = (np.log(y) - np.log(p[0])) / p[1]
        return np.asarray(out)

    def _cdf(self, y: Array, *p: Array) -> Array:
        out: Array = special.ndtr(self._z(y, p))
        return out

    def ppf(self, level: Array, *p: Array) -> Array:
        return p[0] * np.exp(p[1] * special.ndtri(level))

    def mean(self, *p: Array) -> Array:
        return p[0] * np.exp(0.5 * p[1] ** 2)

    def sd(self, *p: Array) -> Array:
        return self.mean(*p) * np.sqrt(np.expm1(p[1] ** 2))

    def _crps(self, y: Array, *p: Array) -> Array:
        z = self._z(y, p)
        tails = special.ndtr(z - p[1]) + special.ndtr(p[1] / np.sqrt(2)) - 1
        out: Array = y * (2 * special.ndtr(z) - 1) - 2 * self.mean(*p) * tails
        return out

    def crps_slopes(self, y: Array, *p: Array) -> tuple[Array, ...]:
        """By the median from CRPS(ky; k median) = k CRPS; by the spread from the closed form."""
        y = np.maximum(y, 0.0)
        z = self._z(y, p)
        by_median = (self._crps(y, *p) - y * (2 * special.ndtr(z) - 1)) / p[0]
        tails = special.ndtr(z - p[1]) + special.ndtr(p[1] / np.sqrt(2)) - 1
        densities = np.exp(-((p[1] / 2) ** 2)) / np.sqrt(2) - np.exp(-0.5 * (z - p[1]) ** 2)
        by_spread = -2 * self.mean(*p) * (p[1] * tails + densities / ROOT_2PI)
        return by_median, by_spread

    def log_score(self, y: Array, *p: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            score = 0.5 * self._z(y, p) ** 2 + np.log(p[1] * ROOT_2PI) + np.log(y)
        return np.where(np.asarray(y) > 0, score, np.inf + 0.0 * p[0])
