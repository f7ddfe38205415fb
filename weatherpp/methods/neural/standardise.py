"""Local area-wise standardisation of predictors.

After Groenquist et al. 2020 (arXiv:2005.08748): every field is centred and scaled by the mean and
the standard deviation over all training dates and a small box of grid points, both smoothed, so
that neighbouring points share their scale while tropics and storm tracks keep their own.

Deviations from the published code, on purpose: the standard deviation is the pooled one of all
training dates (the code averages yearly standard deviations); longitude is periodic in the box
as well where the grid is; only training dates are used; every predictor is scaled by its own
statistics (the code leaves spreads as they are); the smoothing is given in grid points of the
published half-degree grid and scaled to the grid at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import dask.array
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float64]
Modes = Sequence[Literal["nearest", "wrap"]]
REFERENCE_ROWS = 361
REFERENCE_SMOOTHING = 10.0
# a standard deviation below this share of the mean is rounding noise of float32
CONSTANT = 1e-6
DATES_AT_ONCE = 32  # in double precision


def default_smoothing(rows: int) -> float:
    """Standard deviation of the smoothing in grid points: 10 at 361 rows, in proportion."""
    return REFERENCE_SMOOTHING * rows / REFERENCE_ROWS


# dask.array is not annotated
da: Any = dask.array


def _moments(x: xr.DataArray) -> tuple[Array, Array, Array]:
    """Count, mean and variance over time of finite values, float64, shape (predictor, y, x)."""
    data = x.transpose("time", ...).data
    if x.chunks is None:
        data = da.from_array(data, chunks=(DATES_AT_ONCE, *data.shape[1:]))
    data = data.astype(np.float64)
    valid = da.isfinite(data)
    count = valid.sum(axis=0)
    total = da.where(valid, data, 0.0).sum(axis=0)
    # two passes, each its own computation: in one, dask would keep all dates for the second
    number, sums = da.compute(count.astype(np.float64), total)
    mean: Array = sums / np.maximum(number, 1)
    squares = (da.where(valid, data - mean, 0.0) ** 2).sum(axis=0).compute()
    return number, mean, squares / np.maximum(number, 1)


def _smooth(field: Array, weight: Array, smoothing: float, modes: Modes) -> Array:
    """Gaussian smoothing in which points of weight 0 do not count; 0 where nothing counts."""
    if smoothing <= 0:
        return field
    total = ndimage.gaussian_filter(field * weight, smoothing, mode=modes)
    norm = ndimage.gaussian_filter(weight, smoothing, mode=modes)
    return np.divide(total, norm, out=np.zeros_like(total), where=norm > 0)


def _local(
    count: Array, mean: Array, variance: Array, box: int, smoothing: float, periodic: bool
) -> tuple[Array, Array]:
    """Mean and standard deviation of one field; shape (y, x) each."""
    modes: Modes = ("nearest", "wrap" if periodic else "nearest")

    def boxed(values: Array) -> Array:
        out: Array = ndimage.uniform_filter(values, box, mode=modes)
        return out

    if not count.any():
        return np.zeros_like(mean), np.ones_like(mean)
    # centred first: squares of a geopotential would cost half of the digits
    centre = float((mean * count).sum() / count.sum())
    anomaly = mean - centre
    number = boxed(count)
    there = number > 1e-9 * number.max()
    share = np.where(there, number, 1.0)
    first = boxed(count * anomaly) / share
    second = boxed(count * (variance + anomaly**2)) / share
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    weight = there.astype(np.float64)
    local_mean = centre + _smooth(first, weight, smoothing, modes)
    local_std = _smooth(spread, weight, smoothing, modes)
    constant = local_std <= CONSTANT * np.maximum(np.abs(local_mean), np.finfo(float).tiny)
    return local_mean, np.where(constant, 1.0, local_std)


def local_standardisation(
    predictors: xr.DataArray, *, periodic: bool, box: int = 7, smoothing: float | None = None
) -> xr.Dataset:
    """Statistics for local area-wise standardisation.

    Parameters
    ----------
    predictors
        Dims (time, predictor, y, x) in any units, dask or numpy; the training dates only. NaN
        and infinite values do not count.
    periodic
        The last dimension closes on itself.
    box
        Side of the box, grid points.
    smoothing
        Standard deviation of the Gaussian smoothing, grid points; None scales the published one.

    Returns
    -------
    Dataset ``mean`` and ``std``, dims (predictor, y, x), float64, units of the predictors. A
    field that is constant, or has no value at all, gets the standard deviation 1.
    """
    if smoothing is None:
        smoothing = default_smoothing(predictors.sizes[predictors.dims[-2]])
    moments = _moments(predictors)
    local = [_local(*each, box, smoothing, periodic) for each in zip(*moments, strict=True)]
    dims = predictors.dims[1:]
    return xr.Dataset(
        {
            "mean": (dims, np.stack([mean for mean, _ in local])),
            "std": (dims, np.stack([std for _, std in local])),
        }
    )
