"""What a network's outputs mean: a normal distribution, quantiles, or corrected members.

All heads work in units of a base's distribution, N(0, 1) where nothing is corrected, and give it
back for outputs of zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from weatherpp import distribution
from weatherpp.methods.neural.losses import (
    ensemble_crps,
    gaussian_crps,
    gaussian_upper_crps,
    quantile_crps,
)
from weatherpp.methods.neural.samples import Batch

Floats = NDArray[np.float64]
Name = Literal["normal", "quantiles", "members"]
# the logarithm of a factor on a spread stays within this
LARGEST_FACTOR = 2.0


def limited(logarithm: Tensor) -> Tensor:
    """Keep the logarithm of a factor within +-``LARGEST_FACTOR``, smoothly."""
    return LARGEST_FACTOR * torch.tanh(logarithm / LARGEST_FACTOR)


def factor(logarithm: Floats) -> Floats:
    """The factor of :func:`limited`, in numpy."""
    return np.exp(LARGEST_FACTOR * np.tanh(logarithm / LARGEST_FACTOR))


class Head(ABC):
    """Outputs of a network, shape (batch, ``outputs``, rows, columns).

    Attributes
    ----------
    outputs
        How many; None for one a member.
    """

    outputs: int | None

    @abstractmethod
    def crps(self, output: Tensor, batch: Batch) -> Tensor:
        """CRPS against ``batch["goal"]``, shape (batch, rows, columns), units of the base."""

    @abstractmethod
    def tail(self, output: Tensor, batch: Batch) -> Tensor:
        """CRPS of what lies above ``batch["upper"]`` and below ``batch["lower"]``."""

    @abstractmethod
    def result(
        self, output: Floats, batch: dict[str, Floats], like: xr.DataArray, **attrs: Any
    ) -> xr.Dataset:
        """Predictive distribution.

        Parameters
        ----------
        output
            Of the network.
        batch
            ``mean`` and ``spread`` of the base, (batch, rows, columns), units of the target; and
            ``members`` where the head needs them.
        like
            A field (time, rows, columns) with the attributes of the target.
        attrs
            Of the distribution.
        """


class Normal(Head):
    """mean = base mean + base spread * d,  spread = base spread * exp(s)."""

    outputs = 2

    def _parts(self, output: Tensor) -> tuple[Tensor, Tensor]:
        return output[:, 0], limited(output[:, 1]).exp()

    def crps(self, output: Tensor, batch: Batch) -> Tensor:
        """Closed form."""
        return gaussian_crps(*self._parts(output), batch["goal"])

    def tail(self, output: Tensor, batch: Batch) -> Tensor:
        """Closed form; the lower tail is the upper one of the negative."""
        mean, spread = self._parts(output)
        above = gaussian_upper_crps(mean, spread, batch["goal"], batch["upper"])
        return above + gaussian_upper_crps(-mean, spread, -batch["goal"], -batch["lower"])

    def result(
        self, output: Floats, batch: dict[str, Floats], like: xr.DataArray, **attrs: Any
    ) -> xr.Dataset:
        """Form ``normal``."""
        values = (
            batch["mean"] + batch["spread"] * output[:, 0],
            batch["spread"] * factor(output[:, 1]),
        )
        mean, spread = (like.copy(data=each.astype(like.dtype)) for each in values)
        return distribution.normal(mean, spread, **attrs)


class Values(Head):
    """Base of the heads that give values instead of parameters."""

    def tail(self, output: Tensor, batch: Batch) -> Tensor:
        """CRPS after everything between the thresholds is moved to the nearer one: the chaining
        function of Allen et al. 2023 (doi:10.1137/22M1532184), for each tail by itself."""
        upper, lower = batch["upper"], batch["lower"]
        values, goal = self.values(output, batch), batch["goal"]
        above = self._score(torch.maximum(values, upper[:, None]), torch.maximum(goal, upper))
        below = self._score(torch.minimum(values, lower[:, None]), torch.minimum(goal, lower))
        return above + below

    def crps(self, output: Tensor, batch: Batch) -> Tensor:
        """From the values."""
        return self._score(self.values(output, batch), batch["goal"])

    @abstractmethod
    def values(self, output: Tensor, batch: Batch) -> Tensor:
        """Shape (batch, value, rows, columns), units of the base."""

    @abstractmethod
    def _score(self, values: Tensor, goal: Tensor) -> Tensor:
        """CRPS, shape (batch, rows, columns)."""

    def _in_units(self, output: Floats, batch: dict[str, Floats]) -> Floats:
        """Shape (batch, value, rows, columns), units of the target."""
        tensors = {name: torch.from_numpy(each) for name, each in batch.items()}
        relative = self.values(torch.from_numpy(output), tensors).numpy()
        out: Floats = batch["mean"][:, None] + batch["spread"][:, None] * relative
        return out


class Quantiles(Values):
    """Quantiles that cannot cross: a shift, and a factor on each distance between two of them.

    Parameters
    ----------
    count
        Levels (k - 1/2) / count, whose pinball losses add up to the CRPS best; odd, so that the
        median is one of them.
    """

    def __init__(self, count: int):
        if count % 2 == 0:
            raise ValueError("the number of quantiles must be odd")
        self.outputs = count
        self.levels = (np.arange(count) + 0.5) / count
        self._base = torch.from_numpy(special.ndtri(self.levels))

    def values(self, output: Tensor, batch: Batch) -> Tensor:
        """Ascending in the second dimension."""
        gaps = self._base.diff().to(output)[:, None, None] * limited(output[:, 1:]).exp()
        place = torch.cat([torch.zeros_like(output[:, :1]), gaps.cumsum(dim=1)], dim=1)
        middle = len(self.levels) // 2
        return output[:, :1] + place - place[:, middle : middle + 1]

    def _score(self, values: Tensor, goal: Tensor) -> Tensor:
        return quantile_crps(values, torch.from_numpy(self.levels).to(values), goal)

    def result(
        self, output: Floats, batch: dict[str, Floats], like: xr.DataArray, **attrs: Any
    ) -> xr.Dataset:
        """Form ``quantiles``."""
        values = self._in_units(output, batch).astype(like.dtype)
        time, *plane = like.dims
        value = xr.DataArray(values, dims=(time, "quantile", *plane), attrs=like.attrs)
        value = value.assign_coords(like.coords).assign_coords(quantile=self.levels)
        return distribution.quantiles(value, **attrs)


class Members(Values):
    """Corrected members, which keep the pattern of the raw ones.

    The base for member k is the base's mean + f (x_k - mean of x), with a factor f for each point,
    see :func:`mean_factor`; the network adds a correction to each.

    Parameters
    ----------
    alpha
        Share of the fair CRPS in the loss, see
        :func:`~weatherpp.methods.neural.losses.ensemble_crps`.
    """

    outputs = None

    def __init__(self, alpha: float):
        self.alpha = alpha

    def values(self, output: Tensor, batch: Batch) -> Tensor:
        """In the order of the members given."""
        return batch["members"].to(output) + output

    def _score(self, values: Tensor, goal: Tensor) -> Tensor:
        return ensemble_crps(values, goal, self.alpha)

    def result(
        self, output: Floats, batch: dict[str, Floats], like: xr.DataArray, **attrs: Any
    ) -> xr.Dataset:
        """Form ``members``, numbered from 0; the method numbers them as the forecast does."""
        values = self._in_units(output, batch).astype(like.dtype)
        time, *plane = like.dims
        value = xr.DataArray(values, dims=(time, "number", *plane), attrs=like.attrs)
        value = value.assign_coords(like.coords)
        return distribution.members(value.assign_coords(number=np.arange(len(values[0]))), **attrs)


def mean_factor(members: Floats, spread: Floats) -> Floats:
    """Factor on the members' distance from their mean that gives them, over the dates, the base's
    variance; shape (rows, columns).

    One of its own for each date would make every member depend on all of them, and a fair score
    takes members for independent draws.

    Parameters
    ----------
    members
        Raw members, shape (time, member, rows, columns).
    spread
        Of the base, shape (time, rows, columns).
    """
    own, base = members.var(axis=1, ddof=1), spread**2
    both = np.isfinite(own) & np.isfinite(base)
    own, base = (np.where(both, each, 0).sum(axis=0) for each in (own, base))
    apart = own > 1e-12 * base  # members that are all alike differ by rounding
    out: Floats = np.sqrt(np.divide(base, own, out=np.ones_like(base), where=apart))
    return out


def relative_members(members: Floats, factor: Floats, spread: Floats) -> Floats:
    """Stretched members less their mean, in spreads of the base; shapes as for `mean_factor`."""
    away = members - members.mean(axis=1, keepdims=True)
    out: Floats = factor * away / spread[:, None]
    return out


def make_head(name: Name, quantiles: int, alpha: float) -> Head:
    """The head of a name; see the classes for ``quantiles`` and ``alpha``."""
    if name == "normal":
        return Normal()
    return Quantiles(quantiles) if name == "quantiles" else Members(alpha)
