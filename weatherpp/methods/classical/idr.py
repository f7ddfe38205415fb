r"""Isotonic distributional regression: no parameters, only an order.

The truth is taken to be stochastically larger where the mean of the members :math:`x` is larger.
For every threshold :math:`z` the distribution function :math:`F_x(z)` is the least-squares fit of
:math:`1\{y \le z\}` that does not rise with :math:`x`, found exactly by pooling adjacent violators
(PAV). Of all distributions in that order, the result has the least mean CRPS over the training
pairs. Between two training predictors the distribution functions are mixed linearly, beyond the
outermost they stay those of the outermost.

Every value that can be predicted is one of the training truths: nothing beyond them has any
probability. What is kept as the model is the training pairs.

References
----------
Henzi, A., Ziegel, J. F. and Gneiting, T. (2021), J. R. Statist. Soc. B 83, 963-993,
doi:10.1111/rssb.12450.
Bröcker, J. (2012), Q. J. R. Meteorol. Soc. 138, 1611-1617, for the levels.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from weatherpp import distribution
from weatherpp.data.fields import ensemble_mean
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    same_grid,
    target_members,
    thinned,
    too_few,
    training_pairs,
)

Array = NDArray[np.float64]
POOLED_PAIRS = 4000  # the work grows with the square


def quantile_levels(count: int) -> Array:
    """Levels (k - 1/2) / count, whose quantiles stand for a distribution with the least CRPS."""
    return (np.arange(count) + 0.5) / count


def regress(x: NDArray[Any], y: NDArray[Any], at: NDArray[Any], levels: NDArray[Any]) -> Array:
    """Quantiles of the isotonic distributional regression of each point.

    Parameters
    ----------
    x, y
        (points, pairs): predictor and truth. A pair with NaN does not count.
    at
        (points, dates): predictors to predict for.
    levels
        (levels,) ascending, within (0, 1).

    Returns
    -------
    (points, dates, levels) float64: the lowest training truth where the distribution function
    reaches the level; NaN where ``at`` is.

    Raises
    ------
    InputError
        Shapes differ, or a point has no pair.
    """
    from weatherpp.methods.classical import idr_loop

    if x.shape != y.shape or x.ndim != 2 or at.ndim != 2 or len(at) != len(x):
        raise InputError(f"IDR: shapes {x.shape}, {y.shape}, {at.shape} do not fit")
    there = np.isfinite(x) & np.isfinite(y)
    if not there.any(axis=1).all():
        raise InputError("IDR: a point has no pair of forecast and analysis")
    # NaN goes last
    x, y = (np.where(there, part, np.nan).astype(np.float64) for part in (x, y))
    order = x.argsort(axis=1)
    rank = np.take_along_axis(y, order, axis=1).argsort(axis=1)
    x = np.take_along_axis(x, order, axis=1)
    out = np.full((*at.shape, len(levels)), np.nan)
    at = np.ascontiguousarray(at, np.float64)
    y.sort(axis=1)
    idr_loop.quantiles(x, there.sum(axis=1), rank, y, at, levels, out)
    return out


class IdrSettings(PointSettings):
    """Settings of :class:`IsotonicRegression`."""

    scope: Literal["local", "global"] = "local"
    levels: int = Field(
        default=100, ge=3, le=1000, description="equally spaced quantiles to give, tails included"
    )


class IsotonicRegression(ParameterMethod):
    """IDR on the mean of the members, at each point (``scope: global``: all points as one).

    Points with too few pairs take the regression of all points together. Of more than
    ``POOLED_PAIRS`` pairs of all points, that many are taken, evenly spaced in time and place.
    """

    name: ClassVar[str] = "idr"
    Settings = IdrSettings

    def fit(self, data: FitData) -> Self:
        """Keep the training pairs.

        Raises
        ------
        InputError
            No training dates, no analyses, NaN, or different grids.
        """
        mean, truth = training_pairs(data, self.name)
        few = too_few(mean.notnull(), self.settings.least_dates)
        if self.settings.scope == "global":
            few = xr.ones_like(few)
        there = mean.notnull().values
        every = thinned(there, POOLED_PAIRS)
        pooled = [
            part.transpose(*mean.dims).values[there][every if bool(few.any()) else slice(0)]
            for part in (mean, truth)
        ]
        fields = {
            # a point that takes the common pairs keeps none of its own
            "predictor": mean.rename(time="pair").where(~few),
            "truth": truth.transpose(*mean.dims).rename(time="pair").where(~few),
            "common_predictor": ("common", pooled[0]),
            "common_truth": ("common", pooled[1]),
        }
        counts = {"dates": len(data.train), "pooled": int(few.sum())}
        parameters = xr.Dataset(fields, attrs=counts)
        self.parameters = parameters.drop_vars(("pair", "valid_time"), errors="ignore")
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Quantiles, in the type of the forecast; NaN where a member is."""
        members = target_members(forecast, self.target)
        parameters = self.fitted()
        grid = parameters["predictor"].isel(pair=0, drop=True)
        same_grid(grid.to_dataset(), members)
        mean = ensemble_mean(members)
        levels = quantile_levels(self.settings.levels)
        value = xr.apply_ufunc(
            _predict,
            mean,
            *(parameters[name] for name in ("predictor", "truth")),
            kwargs={
                "common": tuple(parameters[f"common_{n}"].values for n in ("predictor", "truth")),
                "levels": levels,
            },
            input_core_dims=[["time"], ["pair"], ["pair"]],
            output_core_dims=[["time", "quantile"]],
            dask="parallelized",
            dask_gufunc_kwargs={
                "allow_rechunk": True,
                "output_sizes": {"quantile": levels.size},
            },
            output_dtypes=[members.dtype],
        )
        value = value.assign_coords(mean.coords).assign_coords(quantile=levels)
        value = value.transpose("time", "quantile", *grid.dims).assign_attrs(members.attrs)
        return distribution.quantiles(value, **self.dist_attrs())


def _predict(
    mean: NDArray[Any],
    x: NDArray[Any],
    y: NDArray[Any],
    common: tuple[NDArray[Any], NDArray[Any]],
    levels: Array,
) -> NDArray[Any]:
    """Quantiles (grid..., time, quantile) for means (grid..., time) from pairs (grid..., pair)."""
    at, x, y = (part.reshape(-1, part.shape[-1]) for part in (mean, x, y))
    out = np.empty((*at.shape, len(levels)), mean.dtype)
    few = np.isnan(x).all(axis=1)
    if not few.all():
        out[~few] = regress(x[~few], y[~few], at[~few], levels)
    if few.any():
        # all such points share one regression
        one = regress(common[0][None], common[1][None], at[few].reshape(1, -1), levels)
        out[few] = one.reshape(-1, at.shape[1], len(levels))
    return out.reshape(*mean.shape, len(levels))
