"""Numbers that figures over time draw: lead times, members, quantiles, and their analyses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.report.labels import lead_text, number

Floats = NDArray[np.float64]
BOX = (0.1, 0.25, 0.5, 0.75, 0.9)  # whiskers, box and line of a meteogram, bands of a plume
HOUR = np.timedelta64(1, "h")


def lead_hours(field: xr.DataArray) -> Floats:
    """Lead times in hours; they must be ascending.

    Raises
    ------
    InputError
        The dimension ``step`` is missing, empty or not in order.
    """
    if "step" not in field.dims or not field.sizes["step"]:
        raise InputError(
            f"a forecast to draw over its lead times needs the dimension step; "
            f"this one has {', '.join(map(str, field.dims)) or 'none'}"
        )
    hours: Floats = field["step"].values / HOUR
    if (np.diff(hours) <= 0).any():
        raise InputError("the lead times of a forecast to draw are not ascending; sort by step")
    return hours


def start_of(field: xr.DataArray) -> pd.Timestamp | None:
    """When a forecast started, if its scalar coordinate ``time`` says so."""
    time = field.coords.get("time")
    if time is None or time.size != 1 or pd.isna(time.values.reshape(())[()]):
        return None
    return pd.Timestamp(time.values.reshape(())[()])


def members_of(forecast: xr.DataArray) -> Floats:
    """Values as (step, number) or (step, quantile).

    Raises
    ------
    InputError
        The dimensions are others.
    """
    dims = set(map(str, forecast.dims))
    if dims not in ({"step", "number"}, {"step", "quantile"}):
        raise InputError(
            "a forecast of one place needs the dimensions step and number, or step and quantile; "
            f"this one has {', '.join(sorted(dims)) or 'none'}"
        )
    return np.asarray(forecast.transpose("step", ...).values, dtype=float)


def ensemble_quantiles(forecast: xr.DataArray, levels: Sequence[float]) -> Floats:
    """Quantiles at each lead time, as (level, step).

    Of members where all are there, else NaN; of quantiles linear between those given, NaN beyond
    the outermost.
    """
    values = members_of(forecast)
    if "number" in forecast.dims:
        return np.asarray(np.quantile(values, levels, axis=1), dtype=float)
    # levels such as 0.1 in single precision must not lie beyond 0.1
    given = np.round(forecast["quantile"].values.astype(float), 6)
    rows = [np.interp(levels, given, row, left=np.nan, right=np.nan) for row in values]
    return np.array(rows).T


def last_words(hours: Floats, quantiles: Floats) -> str:
    """The last lead time in words, of the quantiles `BOX`."""
    low, _, middle, _, high = (number(line[-1]) for line in quantiles)
    return f"at {lead_text(hours[-1])} median {middle}, from {low} (10 %) to {high} (90 %)"


def truth_points(truth: xr.DataArray, start: pd.Timestamp | None) -> tuple[Floats, Floats]:
    """Lead times in hours and values of an analysis at one place.

    Raises
    ------
    InputError
        It has neither the dimension ``step`` alone, nor ``valid_time`` alone with a known start.
    """
    values = np.asarray(truth.values, dtype=float)
    if truth.dims == ("step",):
        return truth["step"].values / HOUR, values
    if truth.dims == ("valid_time",) and start is not None:
        return (truth["valid_time"].values - start.to_datetime64()) / HOUR, values
    raise InputError(
        "the analysis of one place needs the dimension step, or valid_time beside forecasts with "
        f"the coordinate time; it has {', '.join(map(str, truth.dims)) or 'none'}"
    )
