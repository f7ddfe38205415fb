"""Climatology: what one would say without any forecast."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from weatherpp import distribution
from weatherpp.conventions import has_gaps
from weatherpp.errors import InputError
from weatherpp.families.base import Array
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    same_grid,
    target_members,
    too_few,
    training_truth,
)
from weatherpp.methods.season import days_apart

DAYS = np.arange(1, 367)
LEVELS = (np.arange(100) + 0.5) / 100  # evenly, so that their mean is that of the distribution


class ClimatologySettings(PointSettings):
    """Settings of :class:`Climatology`."""

    form: Literal["normal", "quantiles"] = Field(
        default="normal",
        description="form of the distribution; quantiles for what is far from normal, such as rain",
    )
    window: int | None = Field(
        default=None,
        ge=1,
        le=182,
        description="days of the year on either side of a date whose analyses count; None for all",
    )


class Climatology(ParameterMethod):
    """Distribution of the training analyses at each grid point.

    All training dates count alike, whatever their season, unless ``window`` takes those near in
    the year; where these are fewer than ``least_dates``, all count. Points with too few analyses
    take the distribution of all points together. With a window each point has 366 distributions:
    meant for stations.
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
        truth = training_truth(data, self.name).astype(np.float64).transpose("time", ...)
        if truth.sizes["time"] < 2:
            raise InputError("climatology needs at least two training dates")
        few = too_few(truth.notnull(), self.settings.least_dates)
        if int(truth.notnull().sum()) < 2:
            raise InputError("climatology needs at least two analyses, the others are missing")
        parts = self._parts(truth.values, few.values)
        inner = ["quantile"] if self.settings.form == "quantiles" else []
        if self.settings.window is not None:
            near = self._near(truth, self.settings.window)
            parts = self._by_day(truth.values, few.values, near, parts)
            inner = ["day", *inner]
        dims = (*inner, *few.dims)
        coords: dict[Hashable, Any] = dict(few.coords)
        coords |= {dim: {"day": DAYS, "quantile": LEVELS}[dim] for dim in inner}
        self.parameters = xr.Dataset(
            {name: (dims, part, truth.attrs) for name, part in parts.items()},
            coords,
            attrs={"dates": truth.sizes["time"], "pooled": int(few.sum())},
        )
        return self

    def _parts(self, values: Array, few: NDArray[np.bool_]) -> dict[str, Array]:
        """Parameters of the distribution of ``values`` (dates, grid...) over the dates, that of all
        points where ``few`` (grid...) is true."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # points without any value
            if self.settings.form == "normal":
                mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0, ddof=1)
                return {
                    "mean": np.where(few, np.nanmean(values), mean),
                    "spread": np.where(few, np.nanstd(values, ddof=1), spread),
                }
            own, pooled = np.nanquantile(values, LEVELS, axis=0), np.nanquantile(values, LEVELS)
        return {"value": np.where(few, pooled.reshape(-1, *(1,) * few.ndim), own)}

    def _by_day(
        self,
        values: Array,
        few: NDArray[np.bool_],
        near: NDArray[np.bool_],
        every: dict[str, Array],
    ) -> dict[str, Array]:
        """The same for each day of the year, from the dates that are ``near`` (day, date) to it."""
        found: dict[str, list[Array]] = {name: [] for name in every}
        for dates in near:
            part = values[dates]
            enough = np.isfinite(part).sum(axis=0) >= self.settings.least_dates
            own = self._parts(part, few) if enough.any() else every
            for name, parameter in own.items():
                found[name].append(np.where(enough, parameter, every[name]))
        return {name: np.stack(parameters) for name, parameters in found.items()}

    def _near(self, field: xr.DataArray, window: int) -> NDArray[np.bool_]:
        """Which dates are no more than ``window`` days of the year away, (day, date)."""
        days = self._days(field).astype(np.float64)
        return np.stack([days_apart(days, float(day)) <= window for day in DAYS])

    def _days(self, field: xr.DataArray) -> NDArray[np.intp]:
        """Day of the year of each valid time."""
        valid = pd.DatetimeIndex(field["time"].values) + self.target.lead
        return valid.day_of_year.to_numpy(dtype=np.intp)

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Normal distribution or quantiles, in the type of the forecast.

        NaN where a member is missing: it could be told there, but is then not comparable with
        methods that need the forecast.
        """
        members = target_members(forecast, self.target)
        field = members.isel(number=0, drop=True).transpose("time", ...)
        parameters = self.fitted()
        same_grid(parameters.drop_dims(["quantile", "day"], errors="ignore"), field)
        if self.settings.window is not None:
            days = xr.DataArray(self._days(field), {"time": field["time"]}, ["time"])
            parameters = parameters.sel(day=days).drop_vars("day")
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
