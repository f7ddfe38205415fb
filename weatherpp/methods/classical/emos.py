"""EMOS: a distribution whose parameters are regressed on the ensemble.

The normal family with the CRPS is in :mod:`weatherpp.methods.classical.emos_normal`, all others are
in :mod:`weatherpp.methods.classical.regression`; both say what is regressed on what.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field, model_validator

from weatherpp import distribution
from weatherpp.data.fields import ensemble_mean, ensemble_spread
from weatherpp.families import FAMILIES
from weatherpp.families.base import Array
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.clusters import clusters
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    complete,
    on_dates,
    same_grid,
    target_members,
    training_pairs,
)
from weatherpp.methods.classical.emos_normal import fit_coefficients, fit_groups
from weatherpp.methods.classical.regression import (
    Criterion,
    Link,
    LocationScale,
    Regression,
    Sample,
    fit_regression,
    regression,
)
from weatherpp.methods.season import harmonics


class EmosSettings(PointSettings):
    """Settings of :class:`LocalEmos`."""

    scope: Literal["local", "semi-local", "global"] = Field(
        default="local",
        description="points with coefficients of their own, in clusters of alike ones, or together",
    )
    prior: float = Field(
        default=2.0,
        ge=0,
        description="pull of a grid point towards all points together, in dates",
    )
    family: Literal[
        "normal",
        "logistic",
        "truncated-normal",
        "log-normal",
        "censored-logistic",
        "squared-censored-logistic",
        "censored-shifted-gamma",
    ] = "normal"
    criterion: Criterion = Field(
        default="crps", description="what is least over the training dates"
    )
    link: Link = Field(
        default="variance",
        description="squared scale by the variance of the members, or logarithm by their spread",
    )
    dry: float | None = Field(
        default=None,
        ge=0,
        description="the fraction of members up to this amount, in the unit of the field, is a "
        "predictor",
    )
    clusters: int = Field(default=8, ge=2, description="number of clusters of scope semi-local")
    season: int = Field(
        default=0, ge=0, le=4, description="harmonics of the year in location and scale; 0 for none"
    )

    @model_validator(mode="after")
    def _consistent(self) -> EmosSettings:
        family = FAMILIES[self.family]
        if self.dry is not None and not family.mass_at_floor:
            raise ValueError(
                f"dry goes with families that give zero a probability, not {family.name}"
            )
        by_location = isinstance(regression(self.family, self.link, False), LocationScale)
        asked = {"link log": self.link == "log", "season": self.season > 0}
        for setting in (name for name, wanted in asked.items() if wanted and not by_location):
            raise ValueError(
                f"{setting} goes with families of a location and a scale, not {family.name}"
            )
        return self


class LocalEmos(ParameterMethod):
    """EMOS with coefficients of its own at each grid point, or in clusters, or of all together.

    With one member the variance is constant (d = 0). The normal family with the CRPS, the
    default, has a fast search of its own.
    """

    name: ClassVar[str] = "emos"
    Settings = EmosSettings

    @property
    def model(self) -> Regression:
        """How the parameters hang on the ensemble."""
        own: EmosSettings = self.settings
        return regression(own.family, own.link, own.dry is not None, own.season)

    @property
    def fast(self) -> bool:
        """Whether the fast search is enough."""
        own: EmosSettings = self.settings
        simple = ("normal", "crps", "variance", 0)
        return (own.family, own.criterion, own.link, own.season) == simple

    def fit(self, data: FitData) -> Self:
        """Coefficients from the training dates.

        Raises
        ------
        InputError
            No training dates, no analyses, NaN, different grids, or analyses that the family
            gives no probability.
        """
        mean, truth = training_pairs(data, self.name)
        members = on_dates(target_members(data.forecast, self.target), data.train, "forecast")
        grid = mean.isel(time=0, drop=True)

        def flat(part: xr.DataArray) -> Array:
            values = part.transpose("time", *grid.dims).values
            return values.astype(np.float64).reshape(len(data.train), -1)

        own: EmosSettings = self.settings
        obs, centre = flat(truth), flat(mean)
        groups = self._groups(centre, obs, data.seed)
        if self.fast:
            variance = flat(complete(_spread(members).load(), "forecast")) ** 2
            if own.scope == "local":
                found = fit_coefficients(
                    centre, variance, obs, prior=own.prior, least=own.least_dates
                )
            else:
                found = fit_groups(centre, variance, obs, groups)
            coefficients = dict(zip("abcd", found[:4], strict=True))
            failed, pooled = found.failed, found.pooled
        else:
            centre, sd, dry = (
                flat(complete(part.load(), "forecast")) for part in self._predictors(members)
            )
            coefficients, failed, pooled = fit_regression(
                self.model,
                Sample(centre, sd, dry, obs),
                groups,
                criterion=own.criterion,
                prior=own.prior,
                waves=self._waves(data.train) if own.season else None,
            )
        fields = {
            name: xr.DataArray(values.reshape(grid.shape), dims=grid.dims, coords=grid.coords)
            for name, values in coefficients.items()
        }
        if self.fast:
            units = truth.attrs.get("units", "1")
            fields["a"].attrs["units"], fields["c"].attrs["units"] = units, f"({units})2"
        if own.scope == "semi-local":
            fields["cluster"] = grid.copy(data=groups.reshape(grid.shape)).drop_attrs()
        pooled = 0 if own.scope == "global" else pooled  # all of them, as asked for
        counts = {"dates": len(data.train), "not_converged": failed, "pooled": pooled}
        self.parameters = xr.Dataset(fields, attrs=counts)
        return self

    def _groups(self, mean: Array, truth: Array, seed: int) -> NDArray[np.intp]:
        """Group of each point; below zero for those that take the coefficients of all."""
        own: EmosSettings = self.settings
        if own.scope == "global":
            return np.full(truth.shape[1], -1)
        few = np.isfinite(truth).sum(axis=0) < min(own.least_dates, truth.shape[0])
        if own.scope == "local":
            groups = np.arange(truth.shape[1])
        else:
            groups = clusters(truth, truth - mean, ~few, own.clusters, seed)
        return np.where(few, -1, groups)

    def _predictors(self, members: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
        """Mean and spread of the members, on the scale of the location, and the dry fraction."""
        family, dry = FAMILIES[self.settings.family], self.settings.dry
        fraction = xr.zeros_like(members.isel(number=0, drop=True))
        if dry is not None:
            fraction = (members <= dry).mean("number").where(members.notnull().all("number"))
        if family.floor == 0:
            members = members.clip(min=0, keep_attrs=True)  # rounding of packed fields
        if family.powers[0] != 1:
            members = (members ** family.powers[0]).assign_attrs(members.attrs)
        return ensemble_mean(members), _spread(members), fraction.assign_attrs(members.attrs)

    def _waves(self, times: pd.DatetimeIndex) -> Array:
        """Harmonics of the year at the valid times of forecasts, (dates, number)."""
        return harmonics(times + self.target.lead, self.settings.season)

    def mean_spread(self, forecast: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
        """Calibrated mean and standard deviation, (time, grid...), in the type of the forecast.

        Raises
        ------
        InputError
            Not fitted, or another grid.
        """
        dist = self.predict(forecast)
        return distribution.mean(dist), distribution.spread(dist)

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Distribution of the family, in the type of the forecast."""
        members = target_members(forecast, self.target)
        parameters = self.fitted()
        same_grid(parameters, members)
        own, model = self.settings, self.model
        mean, sd, dry = (part.astype(np.float64) for part in self._predictors(members))
        coefficients = {name: parameters[name] for name in model.names}
        waves = [
            xr.DataArray(wave, {"time": members["time"]}, ["time"])
            for wave in self._waves(pd.DatetimeIndex(members["time"].values)).T
        ]
        parts = model.parameters(coefficients, mean, sd, dry, waves)
        found = [part.transpose(*mean.dims) for part in parts]
        like = mean.astype(members.dtype).assign_attrs(members.attrs)
        named = dict(zip(model.family.parameters, found, strict=True))
        return distribution.parametric(own.family, named, like, **self.dist_attrs())


def _spread(members: xr.DataArray) -> xr.DataArray:
    """Spread of the members; that of one member is zero."""
    if members.sizes["number"] == 1:
        return xr.zeros_like(members.isel(number=0, drop=True))
    return ensemble_spread(members)
