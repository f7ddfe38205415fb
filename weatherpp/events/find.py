"""Events found by rule in the analyses alone; no forecast is looked at.

The rule: the anomaly of an analysis is its difference to the mean of the climate at each point.
The largest one of all times and points (for lows: the most negative) is the first event. What
lies within some days *and* some kilometres of an event is the same event; the largest anomaly of
the rest is the next one, and so on. It is the anomaly in the field's own units, which chooses
storms where storms are; divided by the local standard deviation it would choose quiet places.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.events.area import around, distance
from weatherpp.events.case import Case, CaseField, Point, Threshold, TrackRule
from weatherpp.recipe import FindSettings

LOWS = ("z", "msl", "sp")
"""Variables whose extremes are lows, if nothing else is said."""
BOX_HEIGHT = 40.0  # degrees
# for tracks on grids as coarse as that of the embedded atmosphere, whose points are 600 km apart
RADIUS, SPEED = 1250.0, 60.0  # km, km/h
THRESHOLD = 0.01
"""Fraction of the climate's times that are beyond the threshold of a case that was found."""


class Peak(NamedTuple):
    """Where and when an event is strongest.

    Attributes
    ----------
    time
        Valid time.
    latitude, longitude
        Degrees, of the grid point.
    anomaly, value
        Difference to the climate's mean there, and the value itself; units of the field.
    threshold
        Quantile :data:`THRESHOLD` of the climate at the point, counted from the event's side.
    """

    time: pd.Timestamp
    latitude: float
    longitude: float
    anomaly: float
    value: float
    threshold: float


def tail_of(variable: str, settings: FindSettings) -> Literal["low", "high"]:
    """Which side is extreme."""
    return settings.tail or ("low" if variable in LOWS else "high")


def find_peaks(
    analysis: xr.DataArray,
    climate: xr.DataArray,
    *,
    count: int,
    tail: Literal["low", "high"],
    days: float,
    km: float,
) -> list[Peak]:
    """The largest anomalies that are no neighbours of each other, largest first.

    Parameters
    ----------
    analysis
        Where to look, (valid_time, latitude, longitude).
    climate
        Other times, on the same points and with the same dimensions.
    count
        Events wanted at most.
    tail
        ``low`` for the most negative anomalies.
    days, km
        Events closer than both are one.

    Raises
    ------
    InputError
        No times to look at or to compare with, other points, or no valid value.
    """
    dims = ("valid_time", "latitude", "longitude")
    if set(analysis.dims) != set(dims) or set(climate.dims) != set(dims):
        raise InputError("events are found on grids of latitude and longitude alone")
    if not analysis.sizes["valid_time"] or climate.sizes["valid_time"] < 2:
        raise InputError("events need analyses to look at, and a climate of two times at least")
    for dim in dims[1:]:
        if not np.array_equal(analysis[dim].values, climate[dim].values):
            raise InputError(f"the analyses and their climate differ in the coordinate '{dim}'")
    field, past = (each.transpose(*dims).load() for each in (analysis, climate))
    sign = -1.0 if tail == "low" else 1.0
    mean = past.mean("valid_time", dtype=np.float64).values
    size = sign * (field.values.astype(np.float64) - mean)
    if not np.isfinite(size).any():
        raise InputError("no analysis has a valid value to find an event by")
    size = np.where(np.isfinite(size), size, -np.inf)
    times = pd.DatetimeIndex(field["valid_time"].values)
    latitude, longitude = (field[name].values.astype(float) for name in dims[1:])
    beyond = THRESHOLD if tail == "low" else 1 - THRESHOLD
    found: list[Peak] = []
    while len(found) < count and np.isfinite(size).any():
        t, y, x = map(int, np.unravel_index(int(np.argmax(size)), size.shape))
        found.append(
            Peak(
                times[t],
                float(latitude[y]),
                float(longitude[x]),
                sign * float(size[t, y, x]),
                float(field.values[t, y, x]),
                float(np.nanquantile(past.values[:, y, x].astype(np.float64), beyond)),
            )
        )
        apart, limit = times - times[t], pd.Timedelta(days=days)
        soon = np.flatnonzero((apart >= -limit) & (apart <= limit))
        near = distance(latitude[:, None], longitude, latitude[y], longitude[x]) <= km
        size[soon] = np.where(near, -np.inf, size[soon])
    return found


def as_case(peak: Peak, place: int, settings: FindSettings, units: str) -> Case:
    """A peak as a case: a box around it, some days before and after it, and its track."""
    tail = tail_of(settings.variable, settings)
    field = CaseField(variable=settings.variable, level=settings.level)
    limit = float(f"{peak.threshold:.5g}")
    threshold = Threshold(
        variable=field.variable,
        level=field.level,
        below=limit if tail == "low" else None,
        above=limit if tail == "high" else None,
    )
    track = TrackRule(
        variable=field.variable,
        level=field.level,
        extreme="min" if tail == "low" else "max",
        radius=RADIUS,
        speed=SPEED,
    )
    margin = pd.Timedelta(days=settings.days)
    side = "below" if tail == "low" else "above"
    point = Point(latitude=round(peak.latitude, 3), longitude=round(peak.longitude, 3))
    return Case(
        name=f"{field.name}-{place}-{peak.time:%Y%m%dT%H}",
        title=f"{field.name} {side} its climate by {abs(peak.anomaly):.4g} {units} at {point}",
        kind="found by rule",
        start=(peak.time - margin).to_pydatetime(),
        end=(peak.time + margin).to_pydatetime(),
        peak=peak.time.to_pydatetime(),
        box=around(peak.latitude, peak.longitude, BOX_HEIGHT),
        point=point,
        variables=(field,),
        thresholds=(threshold,),
        track=track,
        story=(
            f"Number {place} of the analyses of the dates that nothing was fitted on, by the "
            f"difference to the mean of the training dates at each point; closer than "
            f"{settings.days:g} days and {settings.km:g} km is one event. No forecast was looked "
            "at. The threshold is what one in a hundred analyses of the training dates is beyond."
        ),
        source="weatherpp events find",
    )
