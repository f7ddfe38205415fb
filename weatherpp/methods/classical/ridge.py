r"""Ridge regression on all that the forecast says at a point, then EMOS on its prediction.

The error of the ensemble mean is regressed on the mean and the spread of the members of every
variable, level and lead time of the archive at the same point:

.. math:: \hat e = w_0 + \sum_j w_j f_j, \qquad
          \min_w \; \overline{(y - \bar x - \hat e)^2} + \lambda \sum_j w_j^2

with :math:`f_j` standardised at the point. One strength :math:`\lambda` for all points is chosen
by leaving out one block of successive training dates after the other. On the predictions of the
left-out blocks, which are as good as those of later dates, the normal EMOS is fitted with
:math:`\bar x + \hat e` in place of the mean.

References
----------
Hoerl, A. E. and Kennard, R. W. (1970), Technometrics 12, 55-67.
Glahn, H. R. and Lowry, D. A. (1972), J. Appl. Meteor. 11, 1203-1211 (model output statistics).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from weatherpp import distribution
from weatherpp.conventions import exists_on
from weatherpp.data.fields import ensemble_mean, ensemble_spread, select
from weatherpp.errors import InputError
from weatherpp.families.base import Array
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    complete,
    on_dates,
    same_grid,
    target_members,
    training_pairs,
)
from weatherpp.methods.classical.emos_normal import fit_coefficients
from weatherpp.recipe import Target

STRENGTHS = 10.0 ** np.arange(-4.0, 2.25, 0.5)  # of the penalty, variances of predictors being one


class RidgeSettings(PointSettings):
    """Settings of :class:`Ridge`."""

    leads: Literal["all", "target"] = Field(
        default="all", description="lead times whose fields are predictors"
    )
    blocks: int = Field(default=5, ge=2, description="blocks of training dates, each left out once")
    prior: float = Field(
        default=2.0, ge=0, description="pull of EMOS towards all points together, in dates"
    )


class Weights(NamedTuple):
    """What the regression gives.

    Attributes
    ----------
    intercept, weights
        (points,) and (points, predictors).
    left_out
        (dates, points) prediction for each date from the other blocks; NaN where a pair is missing.
    strength
        The penalty that was chosen.
    """

    intercept: Array
    weights: Array
    left_out: Array
    strength: float


class Ridge(ParameterMethod):
    """Ridge regression of the error on all predictors, then EMOS; at least two members.

    Points with too few pairs of forecast and analysis have weights of zero.
    """

    name: ClassVar[str] = "ridge"
    Settings = RidgeSettings
    min_members: ClassVar[int] = 2

    def fit(self, data: FitData) -> Self:
        """Weights and coefficients from the training dates.

        Holds the predictors of all training dates in memory, for a while eight times over: 32 bytes
        for each date, point and predictor.

        Raises
        ------
        InputError
            No or fewer training dates than blocks, no analyses, NaN, or different grids.
        """
        mean, truth = training_pairs(data, self.name)
        grid = mean.isel(time=0, drop=True)
        forecast = data.forecast.sel(time=data.train)
        fields = complete(predictors(forecast, self.target, self.settings.leads).load(), "forecast")
        members = on_dates(target_members(data.forecast, self.target), data.train, "forecast")
        spread = complete(ensemble_spread(members).load(), "forecast")

        def flat(part: xr.DataArray, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
            lined = part.transpose("time", *grid.dims, ...).values.astype(dtype)
            return lined.reshape(len(data.train), grid.size, *lined.shape[1 + grid.ndim :])

        centre, scale = fields.mean("time"), fields.std("time")
        scale = scale.where(scale > 1e-6 * np.abs(centre), np.inf)  # a constant says nothing
        # the large array: in the type of the archive, and standardised in place
        x = flat(fields, np.float32)
        for part, change in ((centre, np.subtract), (scale, np.divide)):
            lined = part.transpose(*grid.dims, "predictor").values.reshape(x.shape[1:])
            change(x, lined.astype(np.float32), out=x)
        names = fields["predictor"]
        del fields  # no second copy while the rest is at work
        error = flat(truth) - flat(mean)
        found = fit_ridge(x, error, self.settings.blocks, self.settings.least_dates)
        fit = fit_coefficients(
            flat(mean) + found.left_out,
            flat(spread) ** 2,
            flat(truth),
            prior=self.settings.prior,
            least=self.settings.least_dates,
        )
        dims = (*grid.dims, "predictor")
        weights = xr.DataArray(
            found.weights.reshape(*grid.shape, -1),
            {**grid.coords, "predictor": names},
            dims,
        )
        weights = weights / scale
        intercept = grid.copy(data=found.intercept.reshape(grid.shape))
        intercept = intercept - (weights * centre).sum("predictor")
        own = {n: (grid.dims, v.reshape(grid.shape)) for n, v in zip("abcd", fit[:4], strict=True)}
        self.parameters = xr.Dataset(
            {"intercept": intercept, "weight": weights, **own}
        ).drop_attrs()
        self.parameters.attrs = {
            "dates": len(data.train),
            "strength": found.strength,
            "not_converged": fit.failed,
            "pooled": fit.pooled,
        }
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Normal distribution, in the type of the forecast."""
        members = target_members(forecast, self.target)
        parameters = self.fitted()
        same_grid(parameters.drop_dims("predictor"), members)
        fields = predictors(forecast, self.target, self.settings.leads)
        if list(fields["predictor"].values) != list(parameters["predictor"].values):
            raise InputError(
                f"method {self.name}: the forecast has other variables, levels or lead times than "
                "the one it was fitted on; give it the same"
            )
        mean = ensemble_mean(members)
        error = parameters["intercept"] + (parameters["weight"] * fields).sum(
            "predictor", skipna=False
        )
        centre = parameters["a"] + parameters["b"] * (mean.astype(np.float64) + error)
        variance = ensemble_spread(members).astype(np.float64) ** 2
        sd = (parameters["c"] + parameters["d"] * variance) ** 0.5
        found = {"mean": centre.transpose(*mean.dims), "spread": sd.transpose(*mean.dims)}
        return distribution.parametric("normal", found, mean, **self.dist_attrs())


def predictors(forecast: xr.Dataset, target: Target, leads: str) -> xr.DataArray:
    """Mean and spread of every field of the forecast, (predictor, time, grid...), lazy.

    Predictors are named like ``t500 24h mean``.
    """
    steps = [target.step] if leads == "target" else None
    found: dict[str, xr.DataArray] = {}
    for variable in sorted(map(str, forecast.data_vars)):
        field = forecast[variable]
        if "number" not in field.dims:
            continue
        levels = exists_on(field, "levels") if "level" in field.dims else [None]
        for level in levels:
            for step in steps or [f"{hours:g}h" for hours in exists_on(field, "steps")]:
                members = select(forecast, variable, None if level is None else int(level), step)
                name = f"{variable}{'' if level is None else int(level)} {members.attrs['step']}"
                members = members.drop_vars("valid_time", errors="ignore")
                found[f"{name} mean"] = ensemble_mean(members)
                found[f"{name} spread"] = ensemble_spread(members)
    parts = [part.expand_dims(predictor=[name]) for name, part in found.items()]
    return xr.concat(parts, "predictor", combine_attrs="drop_conflicts")


def fit_ridge(x: NDArray[np.floating[Any]], y: Array, blocks: int, least: int) -> Weights:
    """Ridge regression of ``y`` (dates, points) on ``x`` (dates, points, predictors).

    Pairs with NaN do not count; points with fewer than ``least`` have weights and predictions of
    zero. The points are gone through twice, first for the strength alone, so that no results of
    other strengths are kept.

    Raises
    ------
    InputError
        Fewer dates than blocks.
    """
    dates, points, count = x.shape
    if dates < blocks:
        raise InputError(
            f"ridge: {dates} training dates cannot be parted into {blocks} blocks; set fewer blocks"
        )
    there = np.isfinite(y) & np.isfinite(x).all(axis=-1)
    block = np.arange(dates) * blocks // dates
    enough = there.sum(axis=0) >= min(least, dates)
    squares = np.zeros(STRENGTHS.size)
    for p in np.flatnonzero(enough):
        e = y[there[:, p], p]
        unit = float((e**2).mean()) or 1.0
        _, guesses = _at_point(x[:, p], y[:, p], there[:, p], block, STRENGTHS)
        for out, guess in guesses:
            squares += ((guess - e[out]) ** 2).sum(axis=1) / unit
    best = STRENGTHS[[int(np.argmin(squares))]]
    left_out = np.where(there, 0.0, np.nan)
    own = np.zeros((points, count + 1))
    for p in np.flatnonzero(enough):
        rows = np.flatnonzero(there[:, p])
        (own[p],), guesses = _at_point(x[:, p], y[:, p], there[:, p], block, best)
        for out, (guess,) in guesses:
            left_out[rows[out], p] = guess
    left_out[:, ~enough] = np.where(np.isfinite(y[:, ~enough]), 0.0, np.nan)
    return Weights(own[:, 0], own[:, 1:], left_out, float(best[0]))


def _at_point(
    x: NDArray[np.floating[Any]],
    y: Array,
    there: NDArray[np.bool_],
    block: NDArray[np.intp],
    strengths: Array,
) -> tuple[Array, list[tuple[NDArray[np.bool_], Array]]]:
    """Solution (strengths, 1 + predictors) at one point, and for each block the rows of ``there``
    that are in it with the predictions (strengths, rows) for them from the other blocks."""
    z, e, part = x[there].astype(np.float64), y[there], block[there]
    all_in_one = np.column_stack([np.ones(len(z)), z, e])
    products = {left: _products(all_in_one[part == left]) for left in np.unique(part)}
    whole = sum(products.values(), np.zeros((z.shape[1] + 2,) * 2))
    guesses = []
    for left, without in products.items():
        out = part == left
        if not out.all():
            solution = _solutions(whole - without, strengths)
            guesses.append((out, solution[:, :1] + solution[:, 1:] @ z[out].T))
    return _solutions(whole, strengths), guesses


def _products(rows: Array) -> Array:
    """Sums over rows (1, predictors, error) of all products of two of them."""
    out: Array = rows.T @ rows
    return out


def _solutions(products: Array, strengths: Array) -> Array:
    """Intercept and weights (strengths, 1 + predictors) for each of the strengths."""
    means = products / products[0, 0]
    centre, level = means[0, 1:-1], means[0, -1]
    cov = means[1:-1, 1:-1] - np.outer(centre, centre)
    cross = means[1:-1, -1] - centre * level
    penalty = strengths[:, None, None] * np.eye(len(cov))
    weights = np.linalg.solve(cov + penalty, cross[:, None])[..., 0]
    intercept = level - weights @ centre
    return np.concatenate([intercept[:, None], weights], axis=1)
