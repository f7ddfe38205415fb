"""Meridians and parallels of a map, and where their degrees are written."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import cartopy.crs as ccrs
import numpy as np

from weatherpp.report.grids import PLATE, Area, Floats, bounds

STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
MOST = 8  # lines along the longer side


class Line(NamedTuple):
    """A meridian or parallel in a map's coordinates, broken where it would jump."""

    text: str
    x: Floats
    y: Floats


class Label(NamedTuple):
    """Degrees of a line where it meets the map's edge."""

    text: str
    x: float
    y: float


@lru_cache(maxsize=16)
def graticule(area: Area) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """Parallels and meridians of a map, at round degrees.

    cartopy's own lines are clipped exactly, which takes longer than all the rest of a map.
    """
    long = max(area.east - area.west, area.north - area.south)
    flat = isinstance(area.projection, ccrs.PlateCarree)
    degrees = long if flat else long / 111e3
    west, east, south, north = bounds(area)
    step = _step(degrees)
    # meridians come together towards the poles
    narrow = 1.0 if flat else max(float(np.cos(np.radians((south + north) / 2))), 1e-3)
    apart = _step(degrees / narrow)
    if area.whole_globe:
        step = apart = STEPS[-1]
    parallels = [
        _line(area, np.linspace(west, east, 361), np.full(361, lat), _degrees(lat, "S", "N"))
        for lat in _round(south, north, step)
        if abs(lat) < 90
    ]
    meridians = [
        _line(
            area,
            np.full(361, lon),
            np.linspace(south, north, 361),
            _degrees((lon + 180) % 360 - 180, "W", "E"),
        )
        for lon in _round(west, east, apart)
    ]
    return tuple(parallels), tuple(meridians)


def _step(degrees: float) -> float:
    """Distance of lines that so many degrees have room for."""
    return next((step for step in STEPS if degrees / step <= MOST), STEPS[-1])


def _round(low: float, high: float, step: float) -> Floats:
    places: Floats = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    return places


def _degrees(value: float, negative: str, positive: str) -> str:
    number = f"{abs(round(value, 2)):g}°"
    if number in ("0°", "180°"):
        return number
    return number + (negative if value < 0 else positive)


def _line(area: Area, lon: Floats, lat: Floats, text: str) -> Line:
    points = area.projection.transform_points(PLATE, lon, lat)[:, :2]
    x, y = np.where(np.isfinite(points), points, np.nan).T
    jump = np.hypot(np.diff(x), np.diff(y)) > (area.east - area.west) / 2
    x[1:][jump] = np.nan
    return Line(text, x, y)


@lru_cache(maxsize=16)
def edge_labels(area: Area) -> tuple[tuple[Label, ...], tuple[Label, ...]]:
    """Degrees of the parallels along a map's left edge, of the meridians along its lower edge."""
    parallels, meridians = graticule(area)
    left, lower = [], []
    for line in parallels:
        y = _crossing(line.x, line.y, area.west)
        if y is not None and area.south < y < area.north:
            left.append(Label(line.text, area.west, y))
    for line in meridians:
        x = _crossing(line.y, line.x, area.south)
        if x is not None and area.west < x < area.east:
            lower.append(Label(line.text, x, area.south))
    wide = (area.east - area.west) / MOST
    return tuple(left), tuple(_apart(lower, wide, area.east))


def _apart(labels: list[Label], least: float, end: float) -> list[Label]:
    """Those along a lower edge that run neither into the one before, nor over the edge's end."""
    kept: list[Label] = []
    for label in sorted(labels, key=lambda label: label.x):
        if (not kept or label.x - kept[-1].x >= least) and label.x + 0.8 * least <= end:
            kept.append(label)
    return kept


def _crossing(along: Floats, across: Floats, at: float) -> float | None:
    """Where a line, which grows along one axis, comes to a place on it; None if it does not."""
    passed = np.flatnonzero((along[:-1] <= at) & (along[1:] > at))
    if not passed.size:
        return None
    i = int(passed[0])
    part = (at - along[i]) / (along[i + 1] - along[i])
    return float(across[i] + part * (across[i + 1] - across[i]))
