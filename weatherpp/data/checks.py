"""Values that no field can have: missing ones, fill values, and what is physically impossible."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import GRAVITY, VARIABLES, exists_on
from weatherpp.data.standard_atmosphere import GAS_CONSTANT, standard
from weatherpp.errors import InputError

ABSURD = 1e20
"""No field comes near, but the default fill value of netCDF is 9.97e36, and files forget to
declare it."""
TEMPERATURE, WIND = (120.0, 400.0), (-250.0, 250.0)
# Wide enough for any weather, narrow enough for a wrong unit or a damaged field; canonical units.
# Those of z and t hold where no level is known; see limits_at.
RANGES: dict[str, tuple[float, float]] = {
    "z": (-2e4, 6e5),
    "u": WIND,
    "v": WIND,
    "u10": WIND,
    "v10": WIND,
    "si10": (-1e-3, 250.0),
    "fg10": (-1e-3, 250.0),
    "w": (-100.0, 100.0),
    "q": (-0.01, 0.1),  # spectral models have small negative ones
    "r": (-50.0, 250.0),
    "msl": (8.5e4, 1.15e5),
    "sp": (3e4, 1.15e5),
    "tp": (-1e-3, 5.0),
    "lsp": (-1e-3, 5.0),
    "tcw": (-1.0, 200.0),
    "tcwv": (-1.0, 200.0),
    "tcc": (-0.01, 1.01),
    "lsm": (-0.01, 1.01),
    "orog": (-1000.0, 9500.0),
    **dict.fromkeys(("t", "t2m", "d2m", "mx2t", "mn2t", "skt", "sst"), TEMPERATURE),
}


def limits_at(name: str, level: float) -> tuple[float, float]:
    """Smallest and largest value of ``z`` (m2 s-2) or ``t`` (K) at a pressure (hPa).

    Wide around the standard atmosphere, yet height in metres under the unit of geopotential lies
    outside from 850 hPa up: nothing is lower than half the standard height, or than where
    sea-level pressure is 868 hPa (the lowest on record is 870, in typhoon Tip of 1979) under air
    of 30 °C.
    """
    height, temperature = standard(level)
    if name == "t":
        return temperature - 110.0, temperature + 90.0
    eye = GAS_CONSTANT * 303.0 / GRAVITY * math.log(868.0 / level)
    return GRAVITY * min(0.5 * height, eye), GRAVITY * (1.5 * max(height, 0.0) + 1500.0)


def where_it_exists(da: xr.DataArray) -> xr.DataArray:
    """Without the levels and lead times on which other variables exist, and this one does not."""
    if "levels" in da.attrs and "level" in da.dims:
        there = [level for level in exists_on(da, "levels") if level in da["level"]]
        da = da.sel(level=there)
    if "steps" in da.attrs and "step" in da.dims:
        leads = (pd.Timedelta(hours=h) for h in exists_on(da, "steps"))
        da = da.sel(step=[lead for lead in leads if lead in da.indexes["step"]])
    return da


def check_values(da: xr.DataArray, where: str, sparse: bool = False) -> None:
    """Refuse values that cannot be, except missing ones where the variable does not exist.

    Parameters
    ----------
    da
        A field or several of one variable, in memory, in canonical units; ``name`` says which.
    where
        Names the source in the message.
    sparse
        Missing values (NaN) are expected.

    Raises
    ------
    InputError
        Naming variable, date, how many values, and what to do.
    """
    da = where_it_exists(da)
    if not da.size:
        return
    values = da.values
    low, high, axes = _limits(da)
    if bool(((low <= values.min(axes)) & (values.max(axes) <= high)).all()):  # False for NaN
        return
    missing = ~(np.abs(values) < ABSURD)
    if sparse:
        missing &= ~np.isnan(values)
    if missing.any():
        count, when, size = _count(da, missing)
        if sparse:
            raise InputError(
                f"{where}: {da.name}{when} has {count} values of {size} that are infinite or "
                f"beyond {ABSURD:g}, as undeclared fill values are; state _FillValue in the file"
            )
        raise InputError(
            f"{where}: {da.name}{when} has {count} missing values of {size}; if that is meant, set "
            "missing_values: expected in the catalog entry"
        )
    if not low.ndim:
        _refuse_outside(da, float(low), float(high), where)
        return
    for place, level in enumerate(da["level"].values):
        one = da.isel(level=place)
        _refuse_outside(one, float(low[place]), float(high[place]), where, f" on {level:g} hPa")


def _limits(
    da: xr.DataArray,
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, ...]]:
    """Smallest and largest possible value, for each level where it matters, and the other axes."""
    name = str(da.name)
    if name in ("z", "t") and "level" in da.coords:
        levels = da["level"].values
        found = np.array([limits_at(name, float(level)) for level in np.atleast_1d(levels)])
        low, high = found.T if levels.ndim else found[0]
    else:
        low, high = map(np.asarray, RANGES.get(name, (-ABSURD, ABSURD)))
    own = da.dims.index("level") if low.ndim else None
    return low, high, tuple(axis for axis in range(da.ndim) if axis != own)


def _refuse_outside(da: xr.DataArray, low: float, high: float, where: str, at: str = "") -> None:
    values = da.values
    outside = (values < low) | (values > high)
    if outside.any():
        count, when, size = _count(da, outside)
        units = VARIABLES[str(da.name)].units
        raise InputError(
            f"{where}: {da.name}{at}{when} has {count} values of {size} outside {low:g} to "
            f"{high:g} {units} (from {np.nanmin(values):g} to {np.nanmax(values):g}); a wrong unit "
            "or a damaged field?"
        )


def _count(da: xr.DataArray, bad: NDArray[np.bool_]) -> tuple[int, str, int]:
    """How many are bad at the first date that has some, its text, how many values it has."""
    dates = next((dim for dim in ("time", "valid_time") if dim in da.dims), None)
    if dates is None:
        return int(bad.sum()), "", da.size
    by_date = np.moveaxis(bad, da.dims.index(dates), 0).reshape(da.sizes[dates], -1)
    first = int(np.argmax(by_date.any(axis=1)))
    when = pd.Timestamp(da[dates].values[first])
    return int(by_date[first].sum()), f" at {when:%Y-%m-%d %HZ}", by_date.shape[1]


def check_dataset(ds: xr.Dataset, where: str, sparse: bool = False) -> None:
    """:func:`check_values` for all variables, chunk by chunk, so that memory stays bounded."""
    for da in ds.data_vars.values():
        stored = da.variable.chunksizes  # those of coordinates may differ
        chunks = stored.get("time") or stored.get("valid_time")
        dim = "time" if "time" in da.dims else "valid_time"
        if not chunks:
            check_values(da.compute(), where, sparse)
            continue
        start = 0
        for size in chunks:
            check_values(da.isel({dim: slice(start, start + size)}).compute(), where, sparse)
            start += size
