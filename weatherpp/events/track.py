"""Tracks of lows and highs: in the analysis, and in each member near it.

The rule: a *centre* is a grid point that none of its eight neighbours is beyond, not on the edge
of the grid; its place and value are refined by parabolas through it and its neighbours along
latitude and longitude. The analysis' track starts from the most extreme centre in the case's box
at the peak and goes forwards and backwards in time: next is the most extreme centre that can be
reached at a given speed. A member's centre at any time is the most extreme one within a given
radius of the analysis'. A track ends at the first time without such a centre; it does not go on
after a gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.boxes import Box
from weatherpp.errors import InputError
from weatherpp.events.area import distance
from weatherpp.events.case import TrackRule

Array = NDArray[np.float64]
COLUMNS = ("label", "number", "time", "latitude", "longitude", "value")


class Centre(NamedTuple):
    """Place (degrees, longitude 0 to 360) and value of an extreme."""

    latitude: float
    longitude: float
    value: float


def centres(field: xr.DataArray, extreme: str = "min") -> list[Centre]:
    """Centres of one field on (latitude, longitude), most extreme first.

    Raises
    ------
    InputError
        The field has other dimensions, or fewer than three rows or columns.
    """
    if set(field.dims) != {"latitude", "longitude"} or min(field.shape) < 3:
        raise InputError(
            "tracks need fields on latitude and longitude with three points each way at least"
        )
    ordered = field.transpose("latitude", "longitude")
    lon = ordered["longitude"].values.astype(float) % 360
    east = np.argsort((lon - _seam(lon)) % 360, kind="stable")
    values = ordered.values.astype(np.float64)[:, east] * (1.0 if extreme == "min" else -1.0)
    lat, lon = ordered["latitude"].values.astype(float), lon[east]
    wide = np.pad(values, ((1, 1), (1, 1)), constant_values=np.nan)
    if _closed(lon):
        wide[1:-1, 0], wide[1:-1, -1] = values[:, -1], values[:, 0]
    rows, columns = values.shape
    around = [
        wide[1 + dy : 1 + dy + rows, 1 + dx : 1 + dx + columns]
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
        if (dy, dx) != (0, 0)
    ]
    # a neighbour that is missing compares as false: edges are no centres
    least = np.all([values <= each for each in around], axis=0)
    # of equal neighbours only the first counts
    least &= np.all([values < each for each in around[:4]], axis=0)
    found = []
    for y, x in zip(*np.nonzero(least), strict=True):
        north_south, along = wide[y : y + 3, x + 1], wide[y + 1, x : x + 3]
        dy, gain_y = _vertex(north_south)
        dx, gain_x = _vertex(along)
        place = lat[y] + dy * (lat[y + 1] - lat[y - 1]) / 2
        gap = (lon[(x + 1) % columns] - lon[x - 1]) % 360 / 2
        value = (values[y, x] - gain_y - gain_x) * (1.0 if extreme == "min" else -1.0)
        found.append(Centre(float(place), float((lon[x] + dx * gap) % 360), float(value)))
    return sorted(found, key=lambda c: c.value if extreme == "min" else -c.value)


def _seam(lon: Array) -> float:
    """Longitude east of the widest gap, where a grid begins."""
    ring = np.sort(lon)
    gaps = np.diff(ring, append=ring[0] + 360)
    return float(ring[(int(np.argmax(gaps)) + 1) % ring.size])


def _closed(lon: Array) -> bool:
    """Whether longitudes go once around the globe."""
    gaps = np.diff(lon, append=lon[0] + 360) % 360
    return bool(gaps[-1] < 1.5 * np.median(gaps))


def _vertex(three: Array) -> tuple[float, float]:
    """Offset (-0.5 to 0.5) of the vertex of a parabola, and its depth below the middle."""
    left, middle, right = (float(v) for v in three)
    bend = left - 2 * middle + right
    if bend <= 0:
        return 0.0, 0.0
    offset = float(np.clip((left - right) / (2 * bend), -0.5, 0.5))
    return offset, (left - right) ** 2 / (8 * bend)


def _within(found: Iterable[Centre], near: Centre, km: float) -> Centre | None:
    """The most extreme of some centres (in that order) no farther than ``km`` from another."""
    for centre in found:
        if distance(near.latitude, near.longitude, centre.latitude, centre.longitude) <= km:
            return centre
    return None


def analysis_track(
    analysis: xr.DataArray, peak: pd.Timestamp, box: Box, rule: TrackRule
) -> dict[pd.Timestamp, Centre]:
    """The analysis' track through its times, from the peak both ways.

    Parameters
    ----------
    analysis
        (valid_time, latitude, longitude), ascending in time.
    peak
        One of its times.
    box
        Where the centre is at the peak.
    rule
        What to follow.

    Returns
    -------
    Centres by valid time, ascending; empty if there is none in the box at the peak.
    """
    times = pd.DatetimeIndex(analysis["valid_time"].values)
    start = int(times.get_indexer(pd.DatetimeIndex([peak]))[0])
    if start < 0:
        raise InputError(f"no analysis at {peak:%Y-%m-%d %H:%M} to start a track from")
    by_time = [centres(analysis.isel(valid_time=i), rule.extreme) for i in range(len(times))]
    first = next((c for c in by_time[start] if box.holds(c.latitude, c.longitude)), None)
    if first is None:
        return {}
    found = {start: first}
    for way in (1, -1):
        at = start
        while 0 <= at + way < len(times):
            hours = abs(times[at + way] - times[at]) / pd.Timedelta(hours=1)
            centre = _within(by_time[at + way], found[at], rule.speed * hours)
            if centre is None:
                break
            at += way
            found[at] = centre
    return {times[i]: found[i] for i in sorted(found)}


def member_tracks(
    forecast: xr.DataArray, truth: dict[pd.Timestamp, Centre], rule: TrackRule, label: str
) -> tuple[pd.DataFrame, list[str]]:
    """Tracks of the members of one forecast near the analysis' track.

    Parameters
    ----------
    forecast
        (step, latitude, longitude), with ``number`` or without, and the coordinate
        ``valid_time`` along ``step``.
    truth
        From :func:`analysis_track`.
    label
        Name in the column ``label``.

    Returns
    -------
    table
        Columns :data:`COLUMNS`, ``time`` the valid time; ``number`` is -1 without members.
    lost
        A line for each track that ends before that of the analysis, or has no centre at all.
    """
    members = [None] if "number" not in forecast.dims else list(forecast["number"].values)
    valid = pd.DatetimeIndex(np.atleast_1d(forecast["valid_time"].values))
    both = [i for i, time in enumerate(valid) if time in truth]
    rows: list[tuple[object, ...]] = []
    lost: list[str] = []
    for member in members:
        field = forecast if member is None else forecast.sel(number=member)
        who = label if member is None else f"{label}, member {int(member)}"
        number = -1 if member is None else int(member)
        there = False
        for i in both:
            near = truth[valid[i]]
            centre = _within(centres(field.isel(step=i), rule.extreme), near, rule.radius)
            if centre is not None:
                there = True
                rows.append((label, number, valid[i], *centre))
            elif there:
                lost.append(f"{who}: lost at {valid[i]:%Y-%m-%d %H:%M}")
                break
        if not there:
            lost.append(f"{who}: no centre within {rule.radius:g} km of the analysis'")
    return pd.DataFrame(rows, columns=list(COLUMNS)), lost


def track_table(truth: dict[pd.Timestamp, Centre], label: str) -> pd.DataFrame:
    """The analysis' track with the columns :data:`COLUMNS`; ``number`` is -1."""
    rows = [(label, -1, time, *centre) for time, centre in truth.items()]
    return pd.DataFrame(rows, columns=list(COLUMNS))
