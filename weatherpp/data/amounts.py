"""Amounts summed over time, such as rain: over what, and from buckets to sums since the start.

A canonical amount of a forecast is summed since its start (ECMWF's way) and says so in its
attribute ``accumulation``, unless its attribute ``window`` names the time before each valid time
that it holds for; that of an analysis has a ``window``. Where neither the file nor the catalog
entry says, the values are carried as they are and nothing is claimed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import LEAD_UNITS, RATES, Kind, exists_on, hours, label_text
from weatherpp.errors import InputError

SINCE_START, SINCE_PREVIOUS = "since_start", "since_previous"
# what the entry (first two) and the file (GRIB ranges of lead time, netCDF bounds of lead times
# as such ranges, netCDF bounds of valid times) say
ATTRS = ("period", "accumulation", "step_ranges", "time_bounds")
_RANGE = re.compile(r"([\d.]+)([a-z]*)-([\d.]+)([a-z]*)")
_TIME_METHOD = re.compile(r"\b(?:valid_)?time:(?:\s+\w+:)*\s+(\w+)")


def window_text(period: pd.Timedelta | np.timedelta64) -> str:
    """As in the attribute ``window``, for example ``24 h``."""
    return f"{hours(period):g} h"


def summed_over(da: xr.DataArray, name: str, where: str, kind: Kind) -> dict[str, str]:
    """Attributes ``accumulation`` and ``window`` of an amount, out of what is said about it.

    Parameters
    ----------
    da
        Its attribute ``step_ranges`` lists the lead times that its values are summed between
        (``0-6``, ``6-12``, hours without a unit), ``time_bounds`` is that of
        :func:`bounds_of_times`; ``accumulation`` and ``period`` are those of the catalog entry.
    kind
        What the data are; an analysis has a window alone.

    Raises
    ------
    InputError
        Sums begin anew on the way and the entry does not say how, or it says otherwise, or they
        are not dated by their end.
    """
    windows = _windows(da.attrs.get("step_ranges", ()))
    length: float | None = None
    if "time_bounds" in da.attrs:
        length = _length(da, name, where)
        windows = windows or _leads(da)
    if kind != "forecast" and length is not None:
        windows = []  # it has a window of its own, whatever forecast it is from
    out: dict[str, str] = {}
    how = da.attrs.get("accumulation")
    anew = next(((start, end) for start, end in windows if start > 0), None)
    if "period" in da.attrs:
        out["window"] = window_text(pd.Timedelta(da.attrs["period"]))
        if how is None:
            _agree(windows, str(da.attrs["period"]), f"{where}: {name}")
    elif length is not None and how is None and (anew is not None or not windows):
        out["window"] = f"{length:g} h"
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


def bounds_of_times(times: xr.DataArray, bounds: xr.DataArray) -> dict[str, NDArray[np.float64]]:
    """Attribute ``time_bounds``: hours from each valid time to its bounds (..., 2)."""
    if not times.dtype.kind == bounds.dtype.kind == "M" or bounds.size != 2 * times.size:
        return {}
    away = bounds.values.reshape(-1, 2) - times.values.reshape(-1, 1)
    return {"time_bounds": (away / np.timedelta64(1, "h")).round(6)}


def with_time_bounds(da: xr.DataArray) -> xr.DataArray:
    """An amount or a rate with ``time_bounds`` only if its values are its sums or means over them.

    The attribute ``cell_methods`` tells (CF conventions 7.3); amounts for which it is silent are
    sums (CF 7.3.4, extensive quantities), rates taken for means.
    """
    said = _TIME_METHOD.search(str(da.attrs.get("cell_methods", "")))
    wanted = "mean" if str(da.attrs.get("units", "")).replace("**", "") in RATES else "sum"
    # beside lead times, a single time is the initial one
    initial = "step" in da.coords and not {"reference", "valid_time"} & set(da.coords)
    if (said is None or said[1] == wanted) and not initial:
        return da
    out = da.copy(deep=False)
    out.attrs = {k: v for k, v in da.attrs.items() if k != "time_bounds"}
    return out


def period_of(da: xr.DataArray) -> pd.Timedelta | None:
    """Time that each value holds for: that of the entry, else that of equal time bounds."""
    if "period" in da.attrs:
        return pd.Timedelta(da.attrs["period"])
    lengths = np.unique(np.diff(da.attrs.get("time_bounds", np.empty((0, 2)))).round(6))
    lengths = lengths[~np.isnan(lengths)]  # of rows without a date
    return pd.Timedelta(hours=float(lengths[0])) if lengths.size == 1 else None


def same_sums(parts: Sequence[tuple[xr.DataArray, str]], where: str) -> dict[str, str]:
    """What the parts of an amount, each with the name of its file, say it is summed over.

    Raises
    ------
    InputError
        Two that say it do not agree.
    """
    first: tuple[dict[str, str], str] | None = None
    for da, file in parts:
        said = {key: str(da.attrs[key]) for key in ("accumulation", "window") if key in da.attrs}
        if not said:
            continue
        first = first or (said, file)
        if said != first[0]:
            texts = (", ".join(f"{k}: {v}" for k, v in each.items()) for each in (first[0], said))
            raise InputError(
                f"{where}: sums in {Path(first[1]).name} ({next(texts)}) are not those in "
                f"{Path(file).name} ({next(texts)}); state period or accumulation of the variable "
                "in the catalog entry"
            )
    return {} if first is None else first[0]


def _length(da: xr.DataArray, name: str, where: str) -> float | None:
    """Hours of the time bounds if all are equally long; they must be what the entry says."""
    bounds = da.attrs["time_bounds"]
    lengths = np.diff(bounds)[:, 0].round(6)
    there = ~np.isnan(lengths)
    dated = da["valid_time" if "valid_time" in da.coords else "time"].values.ravel()
    period = period_of(da)
    if "period" in da.attrs and period is not None:
        wrong = np.flatnonzero(there & (lengths != hours(period)))
        if wrong.size:
            raise InputError(
                f"{where}: {name} of {label_text(dated[wrong[0]])} is over "
                f"{lengths[wrong[0]]:g} h by the bounds of its time; the catalog entry says "
                f"period: {da.attrs['period']}"
            )
    elif (away := there & (bounds[:, 1] != 0)).any():
        off = np.flatnonzero(away)[0]
        begin, end = (dated[off] + pd.Timedelta(hours=h).to_timedelta64() for h in bounds[off])
        raise InputError(
            f"{where}: {name} is over {label_text(begin)} to {label_text(end)} and dated "
            f"{label_text(dated[off])}, not by its end; to take the dates as they are, state "
            f"variables.{name}.period in the catalog entry, and analysis_shift if analyses are to "
            "be dated otherwise"
        )
    return None if period is None else hours(period)


def _leads(da: xr.DataArray) -> list[tuple[float, float]]:
    """First and last hour since the start, if each time has one start."""
    if "reference" not in da.coords:
        return []
    time = da["valid_time" if "valid_time" in da.coords else "time"]
    lead = time - da["reference"]
    if lead.dims != time.dims:
        return []
    own = lead.values.reshape(-1, 1) / np.timedelta64(1, "h")
    ends: NDArray[np.float64] = (own + da.attrs["time_bounds"]).round(6)
    ends = ends[~np.isnan(ends).any(axis=1)]
    return sorted({(start, end) for start, end in ends.tolist()}, key=lambda w: w[::-1])


def _agree(windows: list[tuple[float, float]], period: str, where: str) -> None:
    """Windows of lead times must be as long as the entry says."""
    stated = hours(pd.Timedelta(period))
    for start, end in windows:
        if start < end and round(end - start, 6) != stated:
            raise InputError(
                f"{where} is over {start:g} to {end:g} h; the catalog entry says period: {period}"
            )


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
