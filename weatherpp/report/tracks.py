"""Tracks of storms: where each member puts one, its mean, and the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.gridspec import GridSpec
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.report import style
from weatherpp.report.content import Figure, need_columns
from weatherpp.report.grids import PLATE, Area, area_around, area_within
from weatherpp.report.labels import number
from weatherpp.report.panels import draw_shapes, finish, map_axes, write_degrees

TRACK_COLUMNS = ("label", "number", "time", "latitude", "longitude", "value")
TRUTH_COLUMNS = ("time", "latitude", "longitude")
LEAST_SHARE = 0.5  # of the members: with fewer there is no mean
LEAST_KM = 1500.0  # across a map: below it a storm's surroundings tell nothing
EARTH_KM = 6371.0
Box = tuple[float, float, float, float]


def track_map(
    tracks: pd.DataFrame,
    truth: pd.DataFrame | None,
    *,
    title: str,
    area: Box | None = None,
    value_label: str = "",
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Tracks of all members of one or several forecasts, a panel for each.

    Parameters
    ----------
    tracks
        Columns `TRACK_COLUMNS`; ``label`` names the forecast, ``value`` is what makes the storm
        (its least pressure, its greatest wind).
    truth
        The analysed track, columns ``time``, ``latitude``, ``longitude`` and, to be drawn below,
        ``value``.
    area
        North, south, west and east of the map in degrees; by default all tracks with a margin,
        1500 km across at least.
    value_label
        Name and units of ``value``; if given, it is drawn over time below each map.
    colours
        By label, as elsewhere on the page.

    Raises
    ------
    InputError
        A column is missing, or there is no position.
    """
    need_columns(tracks, TRACK_COLUMNS, "tracks")
    tracks = _whole(tracks)
    if truth is not None:
        need_columns(truth, TRUTH_COLUMNS, "the analysed track")
        truth = None if _whole(truth).empty else _whole(truth)
    if tracks.empty:
        raise InputError("there is no position of a track to draw")
    place = _area(tracks, truth, area)
    groups = list(tracks.groupby("label", sort=False))
    figure, grid = _sheet(place, len(groups), bool(value_label))
    style.title(figure, f"{title}\n{_span(tracks)}")
    colours = colours or style.colours_of(str(label) for label, _ in groups)
    hour = min({time.hour for time in tracks["time"]})  # of dots: midnight, if it has positions
    below: list[Axes] = []
    words = []
    for i, (label, members) in enumerate(groups):
        colour = colours[str(label)]
        mean = mean_track(members)
        ax = map_axes(figure, grid[0, i], place)
        style.heading(ax, str(label))
        draw_shapes(ax, place)
        _draw_tracks(ax, members, mean, truth, place, colour, hour)
        write_degrees(ax, place)
        finish(ax, place)
        words.append(_words(str(label), members, mean, truth))
        if value_label:
            shared = {"sharey": below[0]} if below else {}
            below.append(figure.add_subplot(grid[1, i], **shared))
            _draw_values(below[-1], members, mean, truth, colour)
    if value_label:
        below[0].set_ylabel(style.wrapped(value_label, 1.8, 9.5), fontsize=9.5)
    caption = (
        "Thin: members; thick: their mean position (where at least half of them have one)"
        f"{'; black: the analysis' if truth is not None else ''}. "
        f"Dots at {hour:02d} UTC, with the day."
    )
    return Figure(style.png_of(figure), f"{title}. {' '.join(words)}", caption, chart=False)


def _sheet(place: Area, columns: int, below: bool) -> tuple[MplFigure, GridSpec]:
    """An empty figure with a map for each column, and axes ``below`` them if asked for."""
    width = 7.0 if columns == 1 else 4.2 * columns
    wide = width / columns - (0.8 if below else 0.1)  # beside the numbers of the axis below
    tall = min(max(wide / place.aspect, 1.5), 1.3 * wide)
    figure = style.new_figure(width, tall + 0.7 + (2.1 if below else 0.0))
    rows = [tall, 1.8] if below else [tall]
    return figure, figure.add_gridspec(len(rows), columns, height_ratios=rows)


def mean_track(members: pd.DataFrame) -> pd.DataFrame:
    """Mean position and value by time, where at least half of the members have a position.

    Positions are averaged as directions from the Earth's centre, since a mean of longitudes
    fails at Greenwich or the dateline.
    """
    lam, phi = np.radians(members["longitude"]), np.radians(members["latitude"])
    parts = pd.DataFrame(
        {
            "time": members["time"],
            "x": np.cos(phi) * np.cos(lam),
            "y": np.cos(phi) * np.sin(lam),
            "z": np.sin(phi),
            "value": members["value"],
        }
    )
    groups = parts.groupby("time", sort=True)
    enough = groups.size() >= LEAST_SHARE * members["number"].nunique()
    mean = groups.mean()[enough]
    x, y, z = (mean[name].to_numpy(float) for name in "xyz")
    return pd.DataFrame(
        {
            "time": mean.index,
            "latitude": np.degrees(np.arctan2(z, np.hypot(x, y))),
            "longitude": np.degrees(np.arctan2(y, x)),
            "value": mean["value"].to_numpy(float),
        }
    )


def _whole(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with a position, in the order of time."""
    there = table["latitude"].notna() & table["longitude"].notna()
    return table.assign(time=pd.to_datetime(table["time"]))[there].sort_values("time")


def _area(tracks: pd.DataFrame, truth: pd.DataFrame | None, box: Box | None) -> Area:
    if box is not None:
        return area_within(*box)
    tables = [tracks] if truth is None else [tracks, truth]
    lons, lats = (
        np.concatenate([t[name].to_numpy(float) for t in tables])
        for name in ("longitude", "latitude")
    )
    return area_around(lons, lats, margin=0.12, least=LEAST_KM)


def _xy(track: pd.DataFrame, area: Area) -> NDArray[np.float64]:
    """Places on the map, one row for each."""
    lons, lats = track["longitude"].to_numpy(float), track["latitude"].to_numpy(float)
    points: NDArray[np.float64] = area.projection.transform_points(PLATE, lons, lats)[:, :2]
    return points


def _draw_tracks(
    ax: Any,
    members: pd.DataFrame,
    mean: pd.DataFrame,
    truth: pd.DataFrame | None,
    area: Area,
    colour: str,
    hour: int,
) -> None:
    for member in _each(members):
        _line(ax, member, area, color=colour, linewidth=0.6, alpha=0.55, zorder=4)
    # days of the mean stand to the left of its dots, those of the analysis to the right
    for track, shade, width, side in ((mean, colour, 2.6, "right"), (truth, "black", 2.2, "left")):
        if track is None or track.empty:
            continue
        _line(ax, track, area, color=shade, linewidth=width, zorder=5)
        for (x, y), time in zip(_xy(track, area), track["time"], strict=True):
            if time.hour == hour and area.west < x < area.east and area.south < y < area.north:
                ax.plot(x, y, "o", color=shade, markeredgecolor="white", markersize=6, zorder=6)
                ax.annotate(
                    f"{time.day}", (x, y), xytext=(5 if side == "left" else -5, 0), ha=side,
                    va="center", textcoords="offset points", zorder=7, fontsize=8, color=shade,
                    fontweight="bold",
                )  # fmt: skip


def _line(ax: Any, track: pd.DataFrame, area: Area, **look: Any) -> None:
    """A track as a line, broken where the map's edge lies between two places.

    Far apart on the map and on either side of the meridian opposite its middle: either alone may
    be so on a narrow map, or near the pole.
    """
    xy = _xy(track, area)
    middle = float(area.projection.proj4_params.get("lon_0", 0.0))
    east = (track["longitude"].to_numpy(float) - middle + 180) % 360 - 180
    far = np.hypot(*np.diff(xy, axis=0).T) > (area.east - area.west) / 2
    far &= np.abs(np.diff(east)) > 180
    broken = np.insert(xy, np.flatnonzero(far) + 1, np.nan, axis=0)
    ax.plot(broken[:, 0], broken[:, 1], **look)


def _draw_values(
    ax: Axes, members: pd.DataFrame, mean: pd.DataFrame, truth: pd.DataFrame | None, colour: str
) -> None:
    style.plain_axes(ax, grid="y")
    for track in _each(members):
        ax.plot(track["time"], track["value"], color=colour, linewidth=0.6, alpha=0.55)
    ax.plot(mean["time"], mean["value"], color=colour, linewidth=2.4)
    if truth is not None and "value" in truth:
        ax.plot(truth["time"], truth["value"], color="black", linewidth=2.0)
    style.date_axis(ax, pd.DatetimeIndex(members["time"].unique()), 6)


def _each(members: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for _, track in members.groupby("number", sort=True):
        yield track


def _span(tracks: pd.DataFrame) -> str:
    first, last = tracks["time"].min(), tracks["time"].max()
    return " to ".join(f"{t:%a} {t.day} {t:%B %Y, %H:%M} UTC" for t in (first, last))


def _words(
    label: str, members: pd.DataFrame, mean: pd.DataFrame, truth: pd.DataFrame | None
) -> str:
    """How many members, and how far the last common mean position is off, in kilometres."""
    text = f"{label}: {members['number'].nunique()} members"
    if truth is None or mean.empty:
        return f"{text}."
    both = mean.merge(truth, on="time", suffixes=("", "_true"))
    if both.empty:
        return f"{text}."
    last = both.iloc[-1]
    lat, lon, lat0, lon0 = np.radians(
        last[["latitude", "longitude", "latitude_true", "longitude_true"]].to_numpy(float)
    )
    across = np.cos(lat) * np.cos(lat0) * np.sin((lon - lon0) / 2) ** 2
    distance = 2 * EARTH_KM * np.arcsin(np.sqrt(np.sin((lat - lat0) / 2) ** 2 + across))
    when = f"{last['time'].day} {last['time']:%B, %H:%M} UTC"
    return f"{text}; on {when} their mean is {number(distance)} km from the analysis."
