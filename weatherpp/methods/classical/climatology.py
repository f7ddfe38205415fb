"""Climatology: what one would say without any forecast."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
import xarray as xr
from pydantic import Field

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

LEVELS = (np.arange(100) + 0.5) / 100  # evenly, so that their mean is that of the distribution


class ClimatologySettings(PointSettings):
    """Settings of :class:`Climatology`."""

    form: Literal["normal", "quantiles"] = Field(
        default="normal",
        description="form of the distribution; quantiles for what is far from normal, such as rain",
    )


class Climatology(ParameterMethod):
    """Distribution of the training analyses at each grid point, the same every date.

    All training dates count alike, whatever their season: meant for archives of one season or
    without seasons. Points with too few analyses take the distribution of all points together.
    """

    name: ClassVar[str] = "climatology"
    Settings = ClimatologySettings
    min_members: ClassVar[int] = 0

    def fit(self, data: FitData) -> Self:
        """Mean and standard deviation (divided by n - 1) of the analyses, or their quantiles.

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
        if self.settings.form == "normal":
            parts = {
                "mean": truth.mean("time").where(~few, truth.mean()),
                "spread": truth.std("time", ddof=1).where(~few, truth.std(ddof=1)),
            }
        else:
            own, pooled = truth.quantile(LEVELS, "time"), truth.quantile(LEVELS)
            parts = {"value": own.where(~few, pooled)}
        self.parameters = xr.Dataset(
            {name: part.assign_attrs(truth.attrs) for name, part in parts.items()},
            attrs={"dates": truth.sizes["time"], "pooled": int(few.sum())},
        )
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Normal distribution or quantiles, in the type of the forecast.

        NaN where a member is missing: it could be told there, but is then not comparable with
        methods that need the forecast.
        """
        members = target_members(forecast, self.target)
        field = members.isel(number=0, drop=True).transpose("time", ...)
        parameters = self.fitted()
        same_grid(parameters.drop_dims("quantile", errors="ignore"), field)
        there = members.notnull().all("number") if has_gaps(members) else None

        def everywhere(part: xr.DataArray) -> xr.DataArray:
            dims = [*field.dims, *(dim for dim in part.dims if dim not in field.dims)]
            out = part.broadcast_like(field).transpose(*dims).astype(field.dtype)
            out = out.assign_coords(field.coords)
            return out if there is None else out.where(there).assign_attrs(part.attrs)

        fields = {name: everywhere(part) for name, part in parameters.items()}
        if self.settings.form == "quantiles":
            return distribution.quantiles(fields["value"], **self.dist_attrs())
        return distribution.normal(fields["mean"], fields["spread"], **self.dist_attrs())
