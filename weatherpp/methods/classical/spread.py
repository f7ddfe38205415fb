"""Spread of the full ensemble from that of a few members, by local linear regression."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import xarray as xr
from pydantic import Field

from weatherpp import distribution
from weatherpp.data.fields import ensemble_mean, ensemble_spread
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    complete,
    on_dates,
    same_grid,
    target_members,
    too_few,
)
from weatherpp.verify.alignment import check_aligned

FLOOR = 0.05  # of the mean full spread at a grid point: a prediction is never below this


class SpreadSettings(PointSettings):
    """Settings of :class:`SpreadRegression`."""

    prior: float = Field(
        default=2.0, ge=0, description="weight of the slope of all points together, in dates"
    )


class SpreadRegression(ParameterMethod):
    r"""Regresses the spread of the full ensemble on the spread of the given members.

    At each grid point :math:`S = a + b\,s` over the training dates, by least squares. The
    slope is drawn towards that of all points together, :math:`b_0`, as if this had been seen
    on ``prior`` dates of average variance:
    :math:`b = (\sum s'S' + n_0 v_0 b_0) / (\sum s'^2 + n_0 v_0)`; so it works with few dates,
    and the pull is lost among many. Points with gaps and few dates take the line of all points.
    """

    name: ClassVar[str] = "spread-regression"
    Settings = SpreadSettings
    needs_truth: ClassVar[bool] = False
    min_members: ClassVar[int] = 2

    def fit(self, data: FitData) -> Self:
        """Least squares over the training dates; spreads are divided by m - 1.

        Raises
        ------
        InputError
            No training dates, fewer than two members, NaN, or different grids.
        """
        members = on_dates(target_members(data.forecast, self.target), data.train, "forecast")
        full = on_dates(data.full, data.train, "full ensemble")
        x = complete(ensemble_spread(members).load(), "forecast").astype(np.float64)
        y = complete(ensemble_spread(full).load(), "full ensemble").astype(np.float64)
        check_aligned(x, y, ("the forecast", "the full ensemble"))
        both = x.notnull() & y.notnull()
        if not bool(both.any()):
            raise InputError(f"method {self.name}: every training date lacks a member")
        few = too_few(both, self.settings.least_dates)
        x, y = x.where(both), y.where(both)
        dx, dy = x - x.mean("time"), y - y.mean("time")
        pooled = float(((x - x.mean()) ** 2).sum())
        slope0 = float(((x - x.mean()) * (y - y.mean())).sum()) / pooled if pooled > 0 else 0.0
        prior = self.settings.prior * float((dx**2).mean())
        over = (dx * dy).sum("time") + prior * slope0
        under = (dx**2).sum("time") + prior
        slope = (over / under.where(under > 0, 1.0)).where(~few & (under > 0), slope0)
        units = y.attrs.get("units", "1")
        centre_x, centre_y = (part.mean("time").where(~few, part.mean()) for part in (x, y))
        self.parameters = xr.Dataset(
            {
                "slope": slope,
                "intercept": (centre_y - slope * centre_x).assign_attrs(units=units),
                "floor": (FLOOR * centre_y).assign_attrs(units=units),
            },
            attrs={
                "dates": x.sizes["time"],
                "pooled_slope": slope0,
                "pooled": int(few.sum()),
            },
        ).drop_vars("step", errors="ignore")
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Normal distribution: mean of the members and the regressed spread."""
        members = target_members(forecast, self.target)
        parameters = self.fitted()
        same_grid(parameters, members)
        sample = ensemble_spread(members)
        spread = parameters["intercept"] + parameters["slope"] * sample
        spread = spread.clip(min=parameters["floor"]).astype(members.dtype)
        return distribution.normal(
            ensemble_mean(members), spread.transpose(*sample.dims), **self.dist_attrs()
        )
