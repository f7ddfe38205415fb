"""Initial, lead and valid times of any source brought into the canonical form."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from weatherpp.conventions import LEAD_UNITS, REAL_CALENDARS, YEARS, Kind, listed
from weatherpp.errors import InputError

NAMES = ("time", "valid_time", "reference")


def timed(ds: xr.Dataset, where: str, kind: Kind, lagged: bool = False) -> xr.Dataset:
    """Coordinates ``time`` and ``step`` (forecast), ``valid_time`` (analysis), or none.

    Parameters
    ----------
    ds
        Coordinates renamed to their roles, ``reference`` for the initial time.
    lagged
        Members may start at different times; their ensemble is dated by the latest.

    Raises
    ------
    InputError
        Times are missing, contradictory, of another calendar, or do not form a table.
    """
    for name in NAMES:
        if name in ds.coords:
            _refuse_other_times(ds[name], where)
            ds = _without_empty_rows(ds, name, where)
    if "reference" not in ds.coords and "step" in ds.coords and "time" in ds.coords:
        ds = ds.rename(time="reference")  # as in WeatherBench: initial time and lead time
    if "time" in ds.coords:
        ds = ds.drop_vars("valid_time", errors="ignore").rename(time="valid_time")
    if kind == "static":
        return _timeless(ds, where)
    if "step" in ds.coords:
        if _counts_months(ds):
            ds = ds.drop_vars("step")  # how long they are, the valid times tell
        else:
            ds = ds.assign_coords(step=_lead(ds["step"], where))
    return _analysis_times(ds, where) if kind == "analysis" else _forecast_times(ds, where, lagged)


def _refuse_other_times(times: xr.DataArray, where: str) -> None:
    if times.dtype.kind == "M":
        return
    calendar = getattr(times.values.flat[0], "calendar", None) if times.size else None
    if calendar in REAL_CALENDARS:
        raise InputError(
            f"{where}: '{times.name}' reaches beyond the years {YEARS[0]} to {YEARS[-1]}, "
            "which times in nanoseconds can hold; select the dates first"
        )
    state = f"the calendar is {calendar}" if calendar else f"values of type {times.dtype}"
    raise InputError(
        f"{where}: '{times.name}' is not a time of the standard calendar ({state}); forecasts are "
        "verified on real dates, so take a source that has them"
    )


def _without_empty_rows(ds: xr.Dataset, name: str, where: str) -> xr.Dataset:
    """Without rows that have neither a date nor values; only those rows are read."""
    undated = np.isnat(ds[name].values)
    if not undated.any():
        return ds
    if ds[name].dims == (name,):
        rows = ds.isel({name: np.flatnonzero(undated)})
        if all(bool(da.isnull().all()) for da in rows.data_vars.values() if name in da.dims):
            return ds.isel({name: np.flatnonzero(~undated)})
    raise InputError(f"{where}: '{name}' lacks {int(undated.sum())} dates of fields that are there")


def _timeless(ds: xr.Dataset, where: str) -> xr.Dataset:
    for name in ("reference", "valid_time", "step", "number", "level"):
        ds = ds.squeeze(name, drop=True) if name in ds.dims and ds.sizes[name] == 1 else ds
        if name in ds.dims:
            raise InputError(f"{where}: a static field has no dimension '{name}'")
        ds = ds.drop_vars(name, errors="ignore")
    return ds


def _counts_months(ds: xr.Dataset) -> bool:
    """Whether lead times are mere counts, and valid times say when each of them is."""
    step = ds["step"]
    if step.dtype.kind == "m" or str(step.attrs.get("units", "")) in LEAD_UNITS:
        return False
    return "valid_time" in ds.coords and "step" in ds["valid_time"].dims


def _lead(step: xr.DataArray, where: str) -> xr.DataArray:
    if step.dtype.kind == "m":
        return step.astype("timedelta64[ns]")
    units = str(step.attrs.get("units", ""))
    if units not in LEAD_UNITS or step.dtype.kind not in "iuf":
        state = f"in '{units}'" if units else "without units"
        hint = " (months differ in length, so they need valid times beside them)"
        raise InputError(
            f"{where}: lead time {state}; seconds, minutes, hours or days are needed"
            f"{hint if 'month' in units else ''}"
        )
    seconds = np.rint(step.values.astype("float64") * LEAD_UNITS[units]).astype("int64")
    return step.copy(data=seconds.astype("timedelta64[s]").astype("timedelta64[ns]"))


def _analysis_times(ds: xr.Dataset, where: str) -> xr.Dataset:
    if "step" in ds.dims and ds.sizes["step"] == 1:
        ds = ds.squeeze("step")
    beside_forecasts = "valid_time" in ds.coords and set(ds["valid_time"].dims) == {
        "reference",
        "step",
    }
    if beside_forecasts:  # laid out like the forecasts that they verify
        valid = ds["valid_time"]
        ds = ds.drop_vars(["valid_time", "reference", "step"], errors="ignore")
        ds = ds.stack(valid_time=valid.dims, create_index=False)
        return ds.assign_coords(valid_time=valid.values.ravel())
    if "step" in ds.dims:
        raise InputError(f"{where}: an analysis has one lead time, here are {ds.sizes['step']}")
    if "reference" in ds.dims:
        valid = ds["reference"] + ds["step"] if "step" in ds.coords else ds["reference"]
        ds = ds.assign_coords(valid_time=("reference", valid.values))
        ds = ds.swap_dims(reference="valid_time")
    if "valid_time" not in ds.coords:
        raise InputError(f"{where}: no valid time; there are {listed(ds.coords)}")
    if ds["valid_time"].ndim == 0:
        ds = ds.expand_dims("valid_time")
    return ds.drop_vars(["reference", "step"], errors="ignore")


def _forecast_times(ds: xr.Dataset, where: str, lagged: bool) -> xr.Dataset:
    if "reference" not in ds.coords:
        raise InputError(
            f"{where}: no initial time with lead times; there are {listed(ds.coords)} "
            "(an analysis or observations?)"
        )
    _agree(ds, where)
    if "number" in ds["reference"].dims:
        if not lagged:
            raise InputError(
                f"{where}: the initial time differs between members (a lagged ensemble); set "
                "lagged: true in the catalog entry to date them by the latest start"
            )
        ds = _by_latest_start(ds, where)
    if "valid_time" in ds.dims:
        ds = _table(ds, where)
    elif "step" not in ds.coords:
        ds = ds.assign_coords(step=_lead_from_valid(ds, where))
    for name in ("reference", "step"):
        if ds[name].ndim == 0:
            ds = ds.expand_dims(name)
        elif ds[name].dims != (name,):
            raise InputError(f"{where}: the {name} varies along {listed(ds[name].dims)}")
    ds = ds.assign_coords(step=ds["step"].astype("timedelta64[ns]"))
    negative = ds["step"].values < np.timedelta64(0)
    if negative.any():
        raise InputError(f"{where}: a lead time is negative; is it valid before it starts?")
    ds = ds.drop_vars("valid_time", errors="ignore").rename(reference="time")
    return ds.assign_coords(time=ds["time"].astype("datetime64[ns]"))


def _agree(ds: xr.Dataset, where: str) -> None:
    """Where a file states initial, lead and valid time, the three must add up."""
    if not {"valid_time", "step"} <= set(ds.coords):
        return
    stated, summed = ds["valid_time"], ds["reference"] + ds["step"]
    if set(stated.dims) <= set(summed.dims) and bool((stated != summed).any()):
        raise InputError(f"{where}: valid time is not initial time plus lead time")


def _by_latest_start(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Members that are valid at the same time, as one ensemble dated by its latest start."""
    starts = ds["reference"]
    if "valid_time" in ds.coords:
        valid = ds["valid_time"]
    elif "step" in ds.coords:
        valid = starts + ds["step"]
    else:
        raise InputError(f"{where}: no lead time; there are {listed(ds.coords)}")
    if "number" in valid.dims:
        if bool((valid != valid.isel(number=0)).any()):
            raise InputError(
                f"{where}: members that start at different times are valid at different times; a "
                "lagged ensemble needs common valid times"
            )
        valid = valid.isel(number=0, drop=True)
    ds = ds.drop_vars(["reference", "step", "valid_time"], errors="ignore")
    latest = starts.max("number")
    if latest.ndim == 1 and valid.dims == ("valid_time",) and latest.dims != valid.dims:
        runs = starts.transpose("number", ...).values
        latest = xr.DataArray(_run_of(runs, valid.values, where), dims="valid_time")
    ds = ds.assign_coords(reference=latest, valid_time=valid)
    return ds.swap_dims(step="valid_time") if valid.dims == ("step",) else ds


def _run_of(
    starts: npt.NDArray[np.datetime64], valid: npt.NDArray[np.datetime64], where: str
) -> npt.NDArray[np.datetime64]:
    """Latest start of the runs (number, run) that each valid time belongs to.

    A file that has runs one after the other on a single axis of valid times does not say which
    time is whose. It can be told where the axis pauses while all members start anew (seasonal
    forecasts of one season a year); each valid time then is of the runs begun last before it.
    """
    starts = np.sort(starts, axis=1)
    runs = np.stack([np.searchsorted(own, valid, side="right") - 1 for own in starts])
    fault = (runs != runs[0]).any(axis=0)
    if (runs[0, 0] < 0) or fault[0]:
        first = pd.Timestamp(valid[0])
        raise InputError(f"{where}: not all members have started by {first:%Y-%m-%d %H:%M}")
    spacing = np.diff(valid)
    fault[1:] |= (np.diff(runs[0]) != 0) & (spacing <= 2 * np.median(spacing))
    if fault.any():
        first = pd.Timestamp(valid[fault][0])
        raise InputError(
            f"{where}: which run the valid time {first:%Y-%m-%d %H:%M} belongs to cannot be told; "
            "split the file by run"
        )
    latest: npt.NDArray[np.datetime64] = starts.max(axis=0)[runs[0]]
    return latest


def _table(ds: xr.Dataset, where: str) -> xr.Dataset:
    """An axis of valid times turned into initial times and lead times.

    Combinations that the file does not have become missing values, to be refused or expected
    like any other; with fewer than half of them, it is no table.
    """
    reference, valid = ds["reference"], ds["valid_time"]
    if reference.ndim == 0:
        lead = valid - reference
        ds = ds.drop_vars("step", errors="ignore")
        return ds.assign_coords(step=("valid_time", lead.values)).swap_dims(valid_time="step")
    times = pd.DatetimeIndex(valid.values)
    if reference.dims == ("valid_time",):  # each field with its own initial time
        starts = np.unique(reference.values)
        leads = valid.values - reference.values
        steps = np.unique(leads)
        at = np.full((starts.size, steps.size), -1)
        at[np.searchsorted(starts, reference.values), np.searchsorted(steps, leads)] = np.arange(
            times.size
        )
        take = {"valid_time": xr.DataArray(at, dims=("reference", "step"))}
    elif reference.dims == ("reference",) and times.is_unique:  # each with each
        starts = reference.values
        leads = valid.values - starts[:, None]
        steps = np.unique(leads[leads >= np.timedelta64(0)])
        at = times.get_indexer((starts[:, None] + steps).ravel()).reshape(starts.size, steps.size)
        take = {
            "reference": xr.DataArray(np.arange(starts.size), dims="reference"),
            "valid_time": xr.DataArray(at, dims=("reference", "step")),
        }
    else:
        raise InputError(f"{where}: initial and valid times do not form a table; split the file")
    there = xr.DataArray(at >= 0, dims=("reference", "step"))
    if float(there.mean()) < 0.5:
        raise InputError(f"{where}: initial and valid times do not form a table; split the file")
    ds = ds.drop_vars(["reference", "step", "valid_time"], errors="ignore").isel(take)
    if not bool(there.all()):
        ds = ds.where(there)
    return ds.assign_coords(reference=("reference", starts), step=("step", steps))


def _lead_from_valid(ds: xr.Dataset, where: str) -> xr.DataArray:
    """Lead times out of valid times, which must be the same for all initial times."""
    reference = ds["reference"]
    if "valid_time" not in ds.coords or not set(ds["valid_time"].dims) <= {"reference", "step"}:
        raise InputError(f"{where}: no lead time; there are {listed(ds.coords)}")
    lead = ds["valid_time"] - reference
    if "reference" in lead.dims:
        odd = (lead != lead.isel(reference=0)).any([d for d in lead.dims if d != "reference"])
        if bool(odd.any()):
            _refuse_other_leads(lead, int(odd.values.argmax()), where)
        lead = lead.isel(reference=0, drop=True)
    return lead


def _refuse_other_leads(lead: xr.DataArray, odd: int, where: str) -> NoReturn:
    """Say why the lead times of one start are not those of the first."""
    starts = [pd.Timestamp(lead["reference"].values[i]) for i in (0, odd)]
    valid = [
        pd.DatetimeIndex(start + np.atleast_1d(lead.isel(reference=i).values))
        for i, start in zip((0, odd), starts, strict=True)
    ]
    months = [
        (v.year - s.year) * 12 + v.month - s.month for v, s in zip(valid, starts, strict=True)
    ]
    if months[0].equals(months[1]) and months[0].is_unique and months[0].max() > 0:
        why, what = "months differ in length", "take starts of one calendar month"
    elif valid[0].isin(valid[1]).any():
        why = "they are valid at the same times"
        what = (
            "split the file by start, with the members of each, and set lagged: true in the "
            "catalog entry if they are one ensemble"
        )
    else:
        why, what = "the file has no table of starts and lead times", "split it by start"
    first, other = (f"{start:%Y-%m-%d %H:%M}".removesuffix(" 00:00") for start in starts)
    raise InputError(
        f"{where}: the lead times of the start {other} are not those of {first} ({why}); {what}"
    )
