"""Forecasts and the analyses that verify them, joined by valid time and by place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.conventions import grid_dims
from weatherpp.data.fields import select
from weatherpp.errors import InputError
from weatherpp.recipe import Target

TOLERANCE = 1e-3  # degrees or metres: far above float32 noise, far below any grid spacing


def matched_times(
    analysis: xr.Dataset, target: Target, times: pd.DatetimeIndex
) -> pd.DatetimeIndex:
    """Those of the initial ``times`` whose valid time is in the analysis."""
    there = pd.DatetimeIndex(analysis["valid_time"].values)
    return times[(times + target.lead).isin(there)]


def truth_for(
    analysis: xr.Dataset,
    target: Target,
    times: pd.DatetimeIndex,
    like: xr.Dataset | xr.DataArray | None = None,
) -> xr.DataArray:
    """Analysis of the target field at the valid time of each initial time; lazy.

    Parameters
    ----------
    analysis
        Canonical analysis, dims (valid_time, level, grid...).
    target
        Field and lead time.
    times
        Initial times.
    like
        If given, data whose grid the result must have; coordinates within tolerance are
        replaced by its own, so that later arithmetic drops no rows.

    Returns
    -------
    DataArray with dims (time, grid...), its ``time`` exactly ``times``, ``valid_time`` a
    coordinate along it.

    Raises
    ------
    InputError
        A valid time is not in the analysis (the first is named), or the grids differ.
    """
    da = select(analysis, target.variable, target.level)
    there = pd.DatetimeIndex(analysis["valid_time"].values)
    valid = times + target.lead
    at = there.get_indexer(valid)
    if (at < 0).any():
        first = valid[at < 0][0]
        raise InputError(
            f"no analysis of {target.name} for {first:%Y-%m-%d %H:%M} UTC "
            f"({int((at < 0).sum())} of {len(valid)} dates lack one); "
            f"the analyses run from {there[0]:%Y-%m-%d} to {there[-1]:%Y-%m-%d}"
        )
    out = da.isel(valid_time=at).rename(valid_time="time")
    # pandas may hold the times in another unit than the archive; the archive's is the rule
    index = times.as_unit("ns")
    out = out.assign_coords(time=("time", index), valid_time=("time", valid.as_unit("ns")))
    out = out.transpose("time", *grid_dims(out))
    return out if like is None else snap(out, like, f"analysis of {target.name}")


def snap(da: xr.DataArray, like: xr.Dataset | xr.DataArray, where: str) -> xr.DataArray:
    """``da`` with the grid coordinates of ``like`` if they agree within tolerance.

    Raises
    ------
    InputError
        The grids differ.
    """
    dims = grid_dims(like)
    if grid_dims(da) != dims:
        raise InputError(f"{where}: its grid is {grid_dims(da)}, the forecast's {dims}")
    names = [*dims, *(n for n in ("latitude", "longitude") if n not in dims)]
    for name in names:
        if name not in da.coords or name not in like.coords:
            continue
        one, two = da[name].values, like[name].values
        if one.shape != two.shape:
            raise InputError(
                f"{where}: {name} has {' x '.join(map(str, one.shape))} points, the forecast's "
                f"{' x '.join(map(str, two.shape))}; regrid one of them to the other's grid"
            )
        same = (
            np.array_equal(one, two)
            if one.dtype.kind not in "fiu"
            else np.allclose(
                one.astype(float), two.astype(float), rtol=0, atol=TOLERANCE, equal_nan=True
            )
        )
        if not same:
            raise InputError(f"{where}: {name} differs from the forecast's; regrid one of them")
    return da.assign_coords({n: like[n] for n in names if n in like.coords and n in da.coords})
