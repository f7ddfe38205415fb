r"""Extreme forecast index and shift of tails, against the climate of the model.

References
----------
Lalaurette, F. (2003), Q. J. R. Meteorol. Soc. 129, 3037-3057 (EFI).
Zsoter, E. (2006), ECMWF Newsletter 107, 8-17 (weight at the tails, shift of tails).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.verify import scores
from weatherpp.verify.alignment import check_aligned, check_numbers, check_units, members_of

Array = NDArray[np.float64]
PERCENTILES = tuple(float(p) for p in np.linspace(0, 1, 101))


def model_climate(
    reforecasts: xr.DataArray, over: Hashable | Iterable[Hashable] = ("time", "number")
) -> xr.DataArray:
    """Percentiles 0 to 100 of reforecasts of one lead time and season.

    Parameters
    ----------
    reforecasts
        Members of past dates.
    over
        Dimensions whose values make the climate.

    Returns
    -------
    (quantile, ...) with the remaining dimensions, units kept; NaN in any value gives NaN.

    Raises
    ------
    InputError
        A dimension that is not there.
    """
    dims = [over] if isinstance(over, str) or not isinstance(over, Iterable) else list(over)
    missing = [str(dim) for dim in dims if dim not in reforecasts.dims]
    if missing:
        raise InputError(f"reforecasts lack the dimension(s) {', '.join(missing)}")
    if reforecasts.chunks is not None:
        reforecasts = reforecasts.chunk(dict.fromkeys(dims, -1))
    return reforecasts.quantile(PERCENTILES, dim=dims, skipna=False, keep_attrs=True)


def _levels(climate: xr.DataArray) -> Array:
    if "quantile" not in climate.dims or "quantile" not in climate.coords:
        raise InputError("a model climate needs the dimension 'quantile' with its levels")
    levels = np.asarray(climate["quantile"].values, np.float64)
    if not np.all(np.diff(levels) > 0):
        raise InputError("the levels of the model climate must ascend")
    return levels


def _on_points(dist: xr.Dataset, climate: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Members and climate, the latter without labels; its points are those of the members."""
    value = members_of(dist, "the extreme forecast index")
    check_numbers(climate, "the model climate")
    units = [field.attrs.get("units") for field in (value, climate)]
    check_units(units[0], units[1], ("the forecast", "the model climate"))
    first = climate.isel(quantile=0, drop=True)
    extra = [dim for dim in value.dims if dim not in first.dims]
    like = value.isel(dict.fromkeys(extra, 0), drop=True)
    check_aligned(like, first, ("the forecast", "the model climate"))
    return value, climate.drop_vars(list(climate.coords))


def extreme_forecast_index(dist: xr.Dataset, climate: xr.DataArray) -> xr.DataArray:
    r"""Extreme forecast index (EFI) of an ensemble.

    .. math:: \frac{2}{\pi} \int_0^1 \frac{p - F(p)}{\sqrt{p(1-p)}}\, dp

    F(p) is the fraction of the members not above the climate's quantile at p (Zsoter 2006). It is
    taken as linear between the levels, and each part is integrated exactly. All members above
    all of the climate give 1, all below -1.

    Parameters
    ----------
    dist
        Members.
    climate
        (quantile, grid...) with levels from 0 to 1, see :func:`model_climate`; the dimensions
        and points of one forecast.

    Returns
    -------
    float64, -1 to 1, with the members' other dimensions; NaN where a member or the climate is
    NaN.

    Raises
    ------
    InputError
        No members, other points, levels that do not ascend from 0 to 1.
    """
    levels = _levels(climate)
    if levels[0] != 0 or levels[-1] != 1:
        raise InputError(
            f"the model climate has the levels {levels[0]:g} to {levels[-1]:g}; the index needs "
            "them from 0 (least) to 1 (greatest value)"
        )
    value, quantiles = _on_points(dist, climate)
    arc, root = np.arcsin(np.sqrt(levels)), np.sqrt(levels * (1 - levels))
    # integrals of 1 and p over sqrt(p (1 - p)) between neighbouring levels
    ones, rising = 2 * np.diff(arc), np.diff(arc) - np.diff(root)
    # p - F is linear: its values at both ends of an interval times these weights
    width = np.diff(levels)
    right = (rising - levels[:-1] * ones) / width
    weight = np.zeros(levels.size)
    weight[:-1] += ones - right
    weight[1:] += right

    def index(members: NDArray[Any], climate_values: NDArray[Any]) -> Array:
        total = np.zeros(np.broadcast_shapes(members.shape[:-1], climate_values.shape[:-1]))
        for k, level in enumerate(levels):  # one level at a time: no array of levels x members
            below = (members <= climate_values[..., k, None]).mean(axis=-1)
            total += weight[k] * (level - below)
        gone = np.isnan(members).any(axis=-1) | np.isnan(climate_values).any(axis=-1)
        result: Array = np.where(gone, np.nan, 2 / np.pi * total)
        return result

    out = _apply(index, value, quantiles)
    attrs = {"units": "1", "long_name": "extreme forecast index", "nan_policy": "propagate"}
    attrs["estimator"] = "plain"  # fraction of the members, no correction for their number
    return out.rename("efi").assign_attrs({**attrs, "members": value.sizes["number"]})


def _apply(function: Any, value: xr.DataArray, quantiles: xr.DataArray) -> xr.DataArray:
    if value.chunks is not None:
        value = value.chunk({"number": -1})
    if quantiles.chunks is not None:
        quantiles = quantiles.chunk({"quantile": -1})
    out: xr.DataArray = xr.apply_ufunc(
        function,
        value,
        quantiles,
        input_core_dims=[["number"], ["quantile"]],
        join="exact",
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    return out


def shift_of_tails(dist: xr.Dataset, climate: xr.DataArray, level: float = 0.9) -> xr.DataArray:
    r"""Shift of tails (SOT): how far the forecast's tail reaches beyond that of the climate.

    .. math:: \frac{Q_f(p) - Q_c(p')}{Q_c(p') - Q_c(p)}

    with p' = 0.99 for levels above one half, and 0.01 below (Zsoter 2006). Above zero, a tenth
    of the members (for p = 0.9) is more extreme than the hundredth most extreme of the climate.

    Parameters
    ----------
    dist
        Members.
    climate
        (quantile, grid...) with the levels p and p'.
    level
        p, usually 0.9 or 0.1.

    Returns
    -------
    float64; NaN where the climate's two quantiles are equal (a dry place) or anything is NaN.

    Raises
    ------
    InputError
        No members, other points, the climate lacks a level, or p is not between 0.01 and 0.99.
    """
    levels = _levels(climate)
    tail = 0.99 if level > 0.5 else 0.01
    if not 0.01 < level < 0.99:
        raise InputError(f"shift of tails: the level {level:g} must lie between 0.01 and 0.99")
    at = [int(np.argmin(abs(levels - wanted))) for wanted in (level, tail)]
    for wanted, k in zip((level, tail), at, strict=True):
        if abs(levels[k] - wanted) > 1e-9:
            raise InputError(f"the model climate lacks the level {wanted:g}")
    value, quantiles = _on_points(dist, climate)
    if value.chunks is not None:
        value = value.chunk({"number": -1})
    reach = value.astype(np.float64).quantile(level, dim="number", skipna=False)
    inner, outer = (quantiles.isel(quantile=k).astype(np.float64) for k in at)
    width = outer - inner
    out = (reach.drop_vars("quantile") - outer) / width.where(width != 0)
    attrs = {"units": "1", "long_name": f"shift of tails at {level:g}", "nan_policy": "propagate"}
    attrs["estimator"] = scores.quantile_estimator(dist)
    return out.rename("sot").assign_attrs({**attrs, "members": value.sizes["number"]})
