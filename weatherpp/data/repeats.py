"""Analyses and observations that stand in a file once for each forecast that reaches them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import label_text
from weatherpp.errors import InputError


def once(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Each valid time once, if its fields are equal; lazy.

    Observations laid out by initial and lead time (EUPPBench) repeat a valid time for each start
    that reaches it. Where a value is missing in one copy and there in another, it is there. That
    copies agree is checked chunk by chunk when the values are read.

    Parameters
    ----------
    ds
        Analysis with the dimension ``valid_time``, in any order.
    where
        Names the file in the message.

    Raises
    ------
    InputError
        When the values are read: two copies differ; variable and date are named.
    """
    times = pd.DatetimeIndex(ds["valid_time"].values)
    if times.is_unique:
        return ds
    copy = pd.Series(0, times).groupby(level=0).cumcount().to_numpy()
    kept = np.flatnonzero(copy == 0)
    firsts = times[kept]
    out = ds.isel(valid_time=kept)
    for number in range(1, int(copy.max()) + 1):
        rows = np.flatnonzero(copy == number)
        # times with fewer copies are held against themselves
        at = kept.copy()
        at[firsts.get_indexer(times[rows])] = rows
        other = ds.isel(valid_time=at).assign_coords(valid_time=out["valid_time"])
        for name, da in out.data_vars.items():
            if "valid_time" in da.dims:
                out[name] = _merged(da, other[name], f"{where}: {name}")
    return out


def _merged(one: xr.DataArray, two: xr.DataArray, where: str) -> xr.DataArray:
    merged: xr.DataArray = xr.apply_ufunc(
        _agreed,
        one,
        two,
        xr.DataArray(one["valid_time"].values, dims="valid_time"),
        kwargs={"where": where},
        dask="parallelized",
        output_dtypes=[one.dtype],
        keep_attrs=True,
    )
    return merged.transpose(*one.dims).assign_attrs(one.attrs)


def _agreed(
    one: NDArray[np.floating],
    two: NDArray[np.floating],
    dates: NDArray[np.datetime64],
    where: str,
) -> NDArray[np.floating]:
    """What two copies say together."""
    differ = (one != two) & ~np.isnan(one) & ~np.isnan(two)
    if differ.any():
        place = tuple(np.argwhere(differ)[0])
        date = np.broadcast_to(dates, differ.shape)[place]
        raise InputError(
            f"{where} has two values for {label_text(date)} ({one[place]:g} and {two[place]:g}); "
            "which of them holds cannot be told, so keep one"
        )
    return np.where(np.isnan(one), two, one)
