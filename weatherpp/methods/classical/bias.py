"""Local bias correction."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import xarray as xr

from weatherpp import distribution
from weatherpp.data.fields import ensemble_mean
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    complete,
    on_dates,
    same_grid,
    target_members,
    training_truth,
)
from weatherpp.verify.scores import check_aligned


class LocalBias(ParameterMethod):
    """Takes the mean error of the ensemble mean at each grid point off every member."""

    name: ClassVar[str] = "bias"

    def fit(self, data: FitData) -> Self:
        """Mean over training dates of ensemble mean minus analysis.

        Raises
        ------
        InputError
            No training dates, no analyses, NaN, or different grids.
        """
        truth = training_truth(data, self.name)
        members = on_dates(target_members(data.forecast, self.target), data.train, "forecast")
        mean = complete(ensemble_mean(members).load(), "forecast")
        check_aligned(mean, truth, ("the forecast", "the analysis"))
        error = mean.astype(np.float64) - truth.astype(np.float64)
        bias = error.mean("time").assign_attrs(units=truth.attrs.get("units", "1"))
        self.parameters = xr.Dataset({"bias": bias}, attrs={"dates": truth.sizes["time"]})
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Distribution of members, in the type of the forecast."""
        members = target_members(forecast, self.target)
        parameters = self.fitted()
        same_grid(parameters, members)
        value = (members - parameters["bias"]).astype(members.dtype).transpose(*members.dims)
        return distribution.members(value.assign_attrs(members.attrs), **self.dist_attrs())
