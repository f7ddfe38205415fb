"""Climatology: what one would say without any forecast."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import xarray as xr

from weatherpp import distribution
from weatherpp.conventions import has_gaps
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    same_grid,
    target_members,
    too_few,
    training_truth,
)


class Climatology(ParameterMethod):
    """Normal distribution of the training analyses at each grid point, the same every date.

    All training dates count alike, whatever their season: meant for archives of one season or
    without seasons. Points with too few analyses take the distribution of all points together.
    """

    name: ClassVar[str] = "climatology"
    Settings = PointSettings
    min_members: ClassVar[int] = 0

    def fit(self, data: FitData) -> Self:
        """Mean and standard deviation (divided by n - 1) of the analyses.

        Raises
        ------
        InputError
            Fewer than two training dates, no analyses, or NaN.
        """
        truth = training_truth(data, self.name).astype(np.float64)
        if truth.sizes["time"] < 2:
            raise InputError("climatology needs at least two training dates")
        few = too_few(truth.notnull(), self.settings.least_dates)
        if int(truth.notnull().sum()) < 2:
            raise InputError("climatology needs at least two analyses, the others are missing")
        mean = truth.mean("time").where(~few, truth.mean())
        spread = truth.std("time", ddof=1).where(~few, truth.std(ddof=1))
        self.parameters = xr.Dataset(
            {
                "mean": mean.assign_attrs(truth.attrs),
                "spread": spread.assign_attrs(units=truth.attrs.get("units", "1")),
            },
            attrs={"dates": truth.sizes["time"], "pooled": int(few.sum())},
        )
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Normal distribution, in the type of the forecast; NaN where a member is missing.

        It could be told there, but is then not comparable with methods that need the forecast.
        """
        members = target_members(forecast, self.target)
        field = members.isel(number=0, drop=True)
        parameters = self.fitted()
        same_grid(parameters, field)
        like = field.transpose("time", ...)
        mean, spread = (
            parameters[name].broadcast_like(like).transpose(*like.dims).astype(field.dtype)
            for name in ("mean", "spread")
        )
        mean, spread = (part.assign_coords(like.coords) for part in (mean, spread))
        if has_gaps(members):
            there = members.notnull().all("number")
            mean, spread = (part.where(there).assign_attrs(part.attrs) for part in (mean, spread))
        return distribution.normal(mean, spread, **self.dist_attrs())
