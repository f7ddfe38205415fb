"""The logistic family, censored at zero, and squared."""

from __future__ import annotations

import numpy as np
from scipy import special

from weatherpp.families.base import TINY, Array, Family


def softplus(z: Array) -> Array:
    """log(1 + exp(z))."""
    out: Array = np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))
    return out


def fermi2(z: Array) -> Array:
    r"""Integral of :func:`softplus` from minus infinity: :math:`-\mathrm{Li}_2(-e^z)`."""
    small = -special.spence(1.0 + np.exp(-np.abs(z)))
    out: Array = np.where(z > 0, 0.5 * z**2 + np.pi**2 / 6 - small, small)
    return out


def fermi4(z: Array) -> Array:
    r"""Twofold integral of :func:`fermi2`: :math:`-\mathrm{Li}_4(-e^z)`.

    Alternating series where z is not above zero, else by inversion; two partial sums averaged.
    """
    k = np.arange(1.0, 42.0)
    terms = -((-1.0) ** k) / k**4
    terms[-1] /= 2
    power = np.exp(-np.abs(np.asarray(z, np.float64)))[..., None] ** k
    small = power @ terms
    inverse = z**4 / 24 + np.pi**2 * z**2 / 12 + 7 * np.pi**4 / 360
    out: Array = np.where(z > 0, inverse - small, small)
    return out


class Logistic(Family):
    r"""Logistic distribution; its standard deviation is :math:`\sigma\pi/\sqrt3`."""

    name = "logistic"
    floor = -np.inf

    def _cdf(self, y: Array, *p: Array) -> Array:
        out: Array = special.expit((y - p[0]) / p[1])
        return out

    def ppf(self, level: Array, *p: Array) -> Array:
        out: Array = p[0] + p[1] * special.logit(level)
        return out

    def mean(self, *p: Array) -> Array:
        return p[0]

    def sd(self, *p: Array) -> Array:
        return p[1] * float(np.pi / np.sqrt(3.0))

    def _crps(self, y: Array, *p: Array) -> Array:
        r""":math:`\sigma\,(\mathrm{sp}(z) + \mathrm{sp}(-z) - 1)`."""
        z = (y - p[0]) / p[1]
        return p[1] * (softplus(z) + softplus(-z) - 1)

    def crps_slopes(self, y: Array, *p: Array) -> tuple[Array, ...]:
        odd = 2 * self._cdf(y, *p) - 1
        by_scale = (self._crps(y, *p) - (y - p[0]) * odd) / p[1]
        return -odd, by_scale

    def log_score(self, y: Array, *p: Array) -> Array:
        z = (y - p[0]) / p[1]
        return np.log(p[1]) + softplus(z) + softplus(-z)


class CensoredLogistic(Logistic):
    """Logistic distribution of which all below zero is put at zero."""

    name = "censored-logistic"
    floor = 0.0
    mass_at_floor = True

    def ppf(self, level: Array, *p: Array) -> Array:
        return np.maximum(super().ppf(level, *p), 0.0)

    def mean(self, *p: Array) -> Array:
        return p[1] * softplus(p[0] / p[1])

    def sd(self, *p: Array) -> Array:
        second = 2 * fermi2(p[0] / p[1])
        return p[1] * np.sqrt(np.maximum(second - softplus(p[0] / p[1]) ** 2, 0.0))

    def _crps(self, y: Array, *p: Array) -> Array:
        r"""That of the logistic less :math:`\sigma\,(\mathrm{sp}(-a) - 1 / (1 + e^a))`."""
        a = p[0] / p[1]
        return super()._crps(y, *p) - p[1] * (softplus(-a) - special.expit(-a))

    def crps_slopes(self, y: Array, *p: Array) -> tuple[Array, ...]:
        """By location from the integral of the squares; by scale from CRPS(ky; km, ks) = k CRPS."""
        y = np.maximum(y, 0.0)
        odd = 2 * self._cdf(y, *p) - 1
        by_location = special.expit(-p[0] / p[1]) ** 2 - odd
        return by_location, (self._crps(y, *p) - p[0] * by_location - y * odd) / p[1]

    def log_score(self, y: Array, *p: Array) -> Array:
        above = super().log_score(y, *p)
        return np.where(np.asarray(y) > 0, above, softplus(p[0] / p[1]) + 0.0 * above)


class SquaredCensoredLogistic(CensoredLogistic):
    r"""Square of a value whose distribution is the censored logistic.

    For precipitation whose square root was regressed (Messner et al. 2014); location and scale
    have the square root of the field's unit, all that is told and scored has the field's. With
    :math:`u = \sqrt y` the CRPS is :math:`\int_0^u 2xF^2 dx + \int_u^\infty 2x(1-F)^2 dx`, in
    closed form by the dilogarithm.
    """

    name = "squared-censored-logistic"
    powers = (0.5, 0.5)

    def _cdf(self, y: Array, *p: Array) -> Array:
        return super()._cdf(np.sqrt(y), *p)

    def ppf(self, level: Array, *p: Array) -> Array:
        return super().ppf(level, *p) ** 2

    def mean(self, *p: Array) -> Array:
        return 2 * p[1] ** 2 * fermi2(p[0] / p[1])

    def sd(self, *p: Array) -> Array:
        fourth, mean = 24 * p[1] ** 4 * fermi4(p[0] / p[1]), self.mean(*p)
        return np.sqrt(np.maximum(fourth - mean**2, 0.0))

    def _crps(self, y: Array, *p: Array) -> Array:
        root = np.sqrt(y)
        z, low = (root - p[0]) / p[1], -p[0] / p[1]
        above = z * softplus(-z) + fermi2(-z) - z * special.expit(-z) - softplus(-z)
        moment = _below(z) - _below(low) + above
        return 2 * p[1] * (p[0] / p[1] * super()._crps(root, *p) + p[1] * moment)

    def crps_slopes(self, y: Array, *p: Array) -> tuple[Array, ...]:
        """By location from the integral; by scale from CRPS(k^2 y; km, ks) = k^2 CRPS."""
        y = np.maximum(y, 0.0)
        odd = 2 * self._cdf(y, *p) - 1
        by_location = 2 * (CensoredLogistic._crps(self, np.sqrt(y), *p) - np.sqrt(y) * odd)
        return by_location, (2 * self._crps(y, *p) - p[0] * by_location - 2 * y * odd) / p[1]

    def log_score(self, y: Array, *p: Array) -> Array:
        root = np.sqrt(np.maximum(y, 0.0))
        jacobian = np.where(root > 0, np.log(2 * np.maximum(root, TINY)), 0.0)
        return super().log_score(root, *p) + jacobian


def _below(w: Array) -> Array:
    """Integral of w F(w)^2 for the standard logistic, up to a constant."""
    return (w + 1) * softplus(w) - fermi2(w) - w * special.expit(w)
