r"""Quantile mapping: members moved so that their climate is that of the analyses.

A member's value :math:`x` becomes :math:`F_o^{-1}(F_f(x))`, with :math:`F_f` and :math:`F_o` the
empirical distributions of all members and of the analyses at a point over the training dates. Both
are told by quantiles at the same levels, linear between. Beyond the outermost of them the
correction is that of the outermost, so that new extremes stay possible.

It knows nothing of how good the forecast was on a date: a forecast without skill keeps all its
spread of dates. Members keep their order, and so the patterns of a field.

References
----------
Panofsky, H. A. and Brier, G. W. (1968), Some applications of statistics to meteorology,
Pennsylvania State University, 40-45.
Themeßl, M. J., Gobiet, A. and Heinrich, G. (2012), Climatic Change 112, 449-468 (the tails).
Zhao, T. et al. (2017), J. Climate 30, 3185-3196 (that it gives no reliability).
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from weatherpp import distribution
from weatherpp.families.base import Array
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    on_dates,
    same_grid,
    target_members,
    too_few,
    training_pairs,
)


class QuantileMappingSettings(PointSettings):
    """Settings of :class:`QuantileMapping`."""

    levels: int = Field(
        default=99, ge=3, le=999, description="equally spaced quantiles that are compared"
    )


class QuantileMapping(ParameterMethod):
    """Maps the quantiles of all members at a point to those of its analyses.

    Values that several levels of the forecast share, such as no rain, are mapped to the mean of
    what stands at these levels. Where no training value is below zero, no result is. Points with
    too few pairs of forecast and analysis take the map of all points together.
    """

    name: ClassVar[str] = "quantile-mapping"
    Settings = QuantileMappingSettings

    def fit(self, data: FitData) -> Self:
        """Quantiles of members and analyses over the training dates that have both.

        Raises
        ------
        InputError
            No training dates, no analyses, NaN, or different grids.
        """
        mean, truth = training_pairs(data, self.name)
        members = on_dates(target_members(data.forecast, self.target), data.train, "forecast")
        members = members.where(mean.notnull()).astype(np.float64).load()
        few = too_few(mean.notnull(), self.settings.least_dates)
        levels = (np.arange(self.settings.levels) + 0.5) / self.settings.levels

        def quantiles(field: xr.DataArray, over: list[str]) -> xr.DataArray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # points without any value
                own = field.quantile(levels, over, skipna=True)
            return own.where(~few, field.quantile(levels, skipna=True))

        forecast = quantiles(members, ["time", "number"]).transpose(..., "quantile")
        analysis = quantiles(truth.astype(np.float64), ["time"]).transpose(*forecast.dims)
        shared = forecast.copy(data=_share_ties(forecast.values, analysis.values))
        units = {"units": truth.attrs.get("units", "1")}
        positive = float(truth.min()) >= 0 and float(members.min()) >= 0
        self.parameters = xr.Dataset(
            {"forecast": forecast.assign_attrs(units), "analysis": shared.assign_attrs(units)},
            attrs={
                "dates": truth.sizes["time"],
                "pooled": int(few.sum()),
                "not_below_zero": int(positive),
            },
        )
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Distribution of members, in the type of the forecast; NaN where a member is."""
        members = target_members(forecast, self.target)
        parameters = self.fitted()
        same_grid(parameters.drop_dims("quantile"), members)
        grid = [dim for dim in parameters["forecast"].dims if dim != "quantile"]
        lined = members.transpose("time", *grid, "number")
        if lined.chunks is not None:
            lined = lined.chunk({"number": -1})
        value: xr.DataArray = xr.apply_ufunc(
            _map,
            lined,
            *(parameters[name].transpose(*grid, "quantile") for name in ("forecast", "analysis")),
            input_core_dims=[["number"], ["quantile"], ["quantile"]],
            output_core_dims=[["number"]],
            dask="parallelized",
            output_dtypes=[np.float64],
        )
        if parameters.attrs["not_below_zero"]:
            value = value.clip(min=0)
        value = value.astype(members.dtype).transpose(*members.dims)
        return distribution.members(value.assign_attrs(members.attrs), **self.dist_attrs())


def _share_ties(forecast: Array, analysis: Array) -> Array:
    """``analysis`` (..., quantile) with its mean over levels at which ``forecast`` is the same."""
    out = analysis.copy()
    for own, into in zip(
        forecast.reshape(-1, forecast.shape[-1]), out.reshape(-1, out.shape[-1]), strict=True
    ):
        _, place, count = np.unique(own, return_inverse=True, return_counts=True)
        if count.max(initial=1) > 1:
            into[:] = (np.bincount(place, into) / count)[place]
    return out


def _map(members: NDArray[Any], forecast: Array, analysis: Array) -> Array:
    """``members`` (time, grid..., number) by quantiles (grid..., quantile)."""
    out = np.empty(members.shape)
    points = int(np.prod(forecast.shape[:-1], dtype=np.int64))
    x = members.reshape(len(members), points, -1)
    y = out.reshape(x.shape)
    for p, (own, wanted) in enumerate(
        zip(forecast.reshape(points, -1), analysis.reshape(points, -1), strict=True)
    ):
        inside = np.clip(x[:, p].astype(np.float64), own[0], own[-1])
        y[:, p] = np.interp(inside, own, wanted) + (x[:, p] - inside)
    return out
