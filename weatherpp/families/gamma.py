"""The censored, shifted gamma family."""

from __future__ import annotations

import numpy as np
from scipy import special

from weatherpp.families.base import Array, Family


class CensoredShiftedGamma(Family):
    """Gamma distribution shifted down by ``shift``, of which all below zero is put at zero."""

    name = "censored-shifted-gamma"
    parameters = ("scale", "shape", "shift")
    powers = (1.0, 0.0, 1.0)
    mass_at_floor = True

    def _cdf(self, y: Array, *p: Array) -> Array:
        out: Array = special.gammainc(p[1], (y + p[2]) / p[0])
        return out

    def ppf(self, level: Array, *p: Array) -> Array:
        return np.maximum(p[0] * special.gammaincinv(p[1], level) - p[2], 0.0)

    def _partial(self, *p: Array) -> tuple[Array, Array]:
        """First and second moment of what is above zero."""
        tails = [special.gammaincc(p[1] + i, p[2] / p[0]) for i in range(3)]
        first, second = p[1] * p[0], p[1] * (p[1] + 1) * p[0] ** 2
        return (
            first * tails[1] - p[2] * tails[0],
            second * tails[2] - 2 * p[2] * first * tails[1] + p[2] ** 2 * tails[0],
        )

    def mean(self, *p: Array) -> Array:
        return self._partial(*p)[0]

    def sd(self, *p: Array) -> Array:
        first, second = self._partial(*p)
        return np.sqrt(np.maximum(second - first**2, 0.0))

    def _crps(self, y: Array, *p: Array) -> Array:
        """Closed form of Scheuerer and Hamill (2015)."""
        scale, shape, shift = p
        x, low = (y + shift) / scale, shift / scale
        at, dry = special.gammainc(shape, x), special.gammainc(shape, low)
        at_next, dry_next = special.gammainc(shape + 1, x), special.gammainc(shape + 1, low)
        pair = special.beta(0.5, shape + 0.5) / np.pi * special.gammaincc(2 * shape, 2 * low)
        unit = x * (2 * at - 1) - low * dry**2
        unit = unit + shape * (1 + 2 * dry * dry_next - dry**2 - 2 * at_next - pair)
        out: Array = scale * unit
        return out

    def log_score(self, y: Array, *p: Array) -> Array:
        x = (np.maximum(y, 0.0) + p[2]) / p[0]
        with np.errstate(divide="ignore"):
            dry = -np.log(special.gammainc(p[1], x))
            wet = np.log(p[0]) + special.gammaln(p[1]) + x - special.xlogy(p[1] - 1, x)
        return np.where(np.asarray(y) > 0, wet, dry)
