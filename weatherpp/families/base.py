"""What every family of distributions gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROOT_2PI = float(np.sqrt(2 * np.pi))
TINY = float(np.finfo(np.float64).tiny)
STEP = 6e-6  # relative step of central differences, near the cube root of float64's precision


class Family(ABC):
    """A family of distributions.

    Attributes
    ----------
    name
        Value of the attribute ``distribution`` of a predictive distribution.
    parameters
        Names of the variables that hold the parameters, in the order of the arguments below.
    powers
        Power of the field's unit that each parameter has.
    floor
        Lowest possible value.
    mass_at_floor
        Whether the lowest value has a probability above zero.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ("location", "scale")
    powers: ClassVar[tuple[float, ...]] = (1.0, 1.0)
    floor: ClassVar[float] = 0.0
    mass_at_floor: ClassVar[bool] = False

    @abstractmethod
    def _cdf(self, y: Array, *p: Array) -> Array:
        """Distribution function at ``y``, which is not below the floor."""

    @abstractmethod
    def ppf(self, level: Array, *p: Array) -> Array:
        """Quantile at ``level``, in (0, 1)."""

    @abstractmethod
    def mean(self, *p: Array) -> Array:
        """Mean."""

    @abstractmethod
    def sd(self, *p: Array) -> Array:
        """Standard deviation."""

    @abstractmethod
    def _crps(self, y: Array, *p: Array) -> Array:
        """CRPS at ``y``, which is not below the floor."""

    @abstractmethod
    def log_score(self, y: Array, *p: Array) -> Array:
        """Minus the logarithm of the density (of the probability, where ``y`` has one)."""

    def cdf(self, y: Array, *p: Array) -> Array:
        """Probability of a value not above ``y``."""
        inside = self._cdf(np.maximum(y, self.floor), *p)
        return np.where(np.asarray(y) < self.floor, 0.0 * inside, inside)

    def pit(self, y: Array, *p: Array) -> tuple[Array, Array]:
        """Limits of the probability integral transform; they differ where ``y`` has a mass."""
        upper = self.cdf(y, *p)
        if not self.mass_at_floor:
            return upper, upper
        return np.where(np.asarray(y) <= self.floor, 0.0 * upper, upper), upper

    def crps(self, y: Array, *p: Array) -> Array:
        """CRPS in closed form, in the units of ``y``."""
        inside = np.maximum(y, self.floor)
        below = 0.0 if self.floor == -np.inf else inside - y
        return self._crps(inside, *p) + below

    def crps_slopes(self, y: Array, *p: Array) -> tuple[Array, ...]:
        """Derivative of the CRPS by each parameter."""
        return differences(self.crps, y, *p)

    def log_slopes(self, y: Array, *p: Array) -> tuple[Array, ...]:
        """Derivative of the logarithmic score by each parameter."""
        return differences(self.log_score, y, *p)


def differences(function: Any, y: Array, *p: Array) -> tuple[Array, ...]:
    """Central differences of ``function(y, *p)`` by each of the parameters."""
    out = []
    for i, value in enumerate(p):
        step = STEP * np.maximum(np.abs(value), 1e-3)
        up, down = ([*p[:i], value + sign * step, *p[i + 1 :]] for sign in (1, -1))
        out.append((function(y, *up) - function(y, *down)) / (2 * step))
    return tuple(out)
