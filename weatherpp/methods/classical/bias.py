"""Local bias correction."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import xarray as xr

from weatherpp import distribution
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    same_grid,
    target_members,
    too_few,
    training_pairs,
)


class LocalBias(ParameterMethod):
    """Takes the mean error of the ensemble mean at each grid point off every member.

    Points with too few pairs of forecast and analysis take the mean over all pairs.
    """

    name: ClassVar[str] = "bias"
    Settings = PointSettings

    def fit(self, data: FitData) -> Self:
        """Mean over training dates of ensemble mean minus analysis.

        Raises
        ------
        InputError
            No training dates, no analyses, NaN, or different grids.
        """
        mean, truth = training_pairs(data, self.name)
        error = mean.astype(np.float64) - truth.astype(np.float64)
        few = too_few(error.notnull(), self.settings.least_dates)
        bias = error.mean("time").where(~few, error.mean())
        self.parameters = xr.Dataset(
            {"bias": bias.assign_attrs(units=truth.attrs.get("units", "1"))},
            attrs={"dates": truth.sizes["time"], "pooled": int(few.sum())},
        )
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Distribution of members, in the type of the forecast; NaN where a member is."""
        members = target_members(forecast, self.target)
        same_grid(self.fitted(), members)
        value = (members - self._error(members)).astype(members.dtype).transpose(*members.dims)
        return distribution.members(value.assign_attrs(members.attrs), **self.dist_attrs())

    def _error(self, members: xr.DataArray) -> xr.DataArray:
        """What to take off the members; dims (grid...) or (time, grid...)."""
        return self.fitted()["bias"]
