"""Amounts summed over time, such as rain: over what, and from buckets to sums since the start.

A canonical amount of a forecast is summed since its start (ECMWF's way) and says so in its
attribute ``accumulation``, unless its attribute ``window`` names the time before each valid time
that it holds for; that of an analysis has a ``window``. Where neither the file nor the catalog
entry says, the values are carried as they are and nothing is claimed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.conventions import LEAD_UNITS, exists_on, hours
from weatherpp.errors import InputError

SINCE_START, SINCE_PREVIOUS = "since_start", "since_previous"
# what the entry (first two) and the file (GRIB ranges of lead time, netCDF bounds) say
ATTRS = ("period", "accumulation", "step_ranges")
_RANGE = re.compile(r"([\d.]+)([a-z]*)-([\d.]+)([a-z]*)")


def window_text(period: pd.Timedelta | np.timedelta64) -> str:
    """As in the attribute ``window``, for example ``24 h``."""
    return f"{hours(period):g} h"


def summed_over(da: xr.DataArray, name: str, where: str) -> dict[str, str]:
    """Attributes ``accumulation`` and ``window`` of an amount, out of what is said about it.

    Parameters
    ----------
    da
        Its attribute ``step_ranges`` lists the lead times that its values are summed between
        (``0-6``, ``6-12``, hours without a unit); ``accumulation`` and ``period`` are those of
        the catalog entry.

    Raises
    ------
    InputError
        Sums begin anew on the way and the entry does not say how, or it says otherwise.
    """
    out: dict[str, str] = {}
    if "period" in da.attrs:
        out["window"] = window_text(pd.Timedelta(da.attrs["period"]))
    how = da.attrs.get("accumulation")
    windows = _windows(da.attrs.get("step_ranges", ()))
    anew = next(((start, end) for start, end in windows if start > 0), None)
    if how is None and anew is not None and "window" not in out:
        raise InputError(
            f"{where}: {name} is summed over {anew[0]:g} to {anew[1]:g} h, not since the start; "
            f"state variables.{name}.accumulation in the catalog entry (since_previous, or how "
            "often sums begin anew, for example 6h)"
        )
    if how is None and windows and anew is None and "window" not in out:
        how = SINCE_START
    if how is None:
        return out
    ends = [end for _, end in windows]
    for place, (start, end) in enumerate(windows):
        first = how == SINCE_PREVIOUS and place == 0  # the one before may be in another file
        stated = _begin(str(how), ends, place)
        if start != stated and not first:
            raise InputError(
                f"{where}: {name} is summed over {start:g} to {end:g} h; the catalog entry says "
                f"accumulation: {how}, which is from {stated:g} h"
            )
    return out | {"accumulation": str(how)}


def bounds_as_ranges(bounds: xr.DataArray, units: str) -> list[str]:
    """Bounds (..., 2) of lead times as hours in the way of GRIB, ``0-6``; none without units."""
    if units not in LEAD_UNITS or bounds.dtype.kind not in "iuf":
        return []
    pairs = bounds.values.reshape(-1, 2).astype("float64") * LEAD_UNITS[units] / 3600
    return [f"{start:g}-{end:g}" for start, end in pairs]


def _windows(ranges: Iterable[str]) -> list[tuple[float, float]]:
    """First and last hour of ranges such as ``0-6`` or ``0m-30m``, sorted by the last."""
    found: list[tuple[float, float]] = []
    for text in ranges:
        if match := _RANGE.fullmatch(str(text)):
            start, end = (
                float(match[at]) * LEAD_UNITS[match[at + 1] or match[4] or "h"] / 3600
                for at in (1, 3)
            )
            found.append((start, end))
    return sorted(found, key=lambda window: window[::-1])


def _begin(how: str, ends: list[float], place: int) -> float:
    """Hour at which the sum that ends at ``ends[place]`` begins."""
    if how == SINCE_START:
        return 0.0
    if how == SINCE_PREVIOUS:
        return ends[place - 1] if place else 0.0
    period = hours(pd.Timedelta(how))
    return max(math.ceil(ends[place] / period - 1e-9) - 1, 0) * period


def since_start(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Amounts that are summed in buckets, summed since the start of the forecast; lazy.

    Parameters
    ----------
    ds
        Canonical forecast with all lead times. The attribute ``accumulation`` of a variable is
        ``since_previous`` (lead time) or the time after which its sums begin anew, ``6h``.

    Raises
    ------
    InputError
        A bucket on the way to a lead time is missing.
    """
    sums = {
        str(name): _chained(da, f"{where}: {name}")
        for name, da in ds.data_vars.items()
        if da.attrs.get("accumulation", SINCE_START) != SINCE_START
    }
    return ds.assign(sums)


def _chained(da: xr.DataArray, where: str) -> xr.DataArray:
    ends = sorted(exists_on(da, "steps"))
    da = da.drop_vars("valid_time")
    totals: dict[float, xr.DataArray] = {}
    for place, end in enumerate(ends):
        bucket = da.sel(step=[pd.Timedelta(hours=end)]).astype("float64")
        begin = _begin(da.attrs["accumulation"], ends, place)
        if begin == 0:
            totals[end] = bucket
        elif begin in totals:
            totals[end] = bucket + totals[begin].squeeze("step", drop=True)
        else:
            raise InputError(
                f"{where}: the sum from {begin:g} to {end:g} h goes on from {begin:g} h, which is "
                f"not there (there are {', '.join(f'{h:g}' for h in ends)} h)"
            )
    out = xr.concat(list(totals.values()), "step").reindex(step=da["step"])
    out = out.astype(da.dtype).transpose(*da.dims)
    out.attrs = {k: v for k, v in da.attrs.items() if k != "window"}
    return out.assign_attrs(accumulation=SINCE_START)
