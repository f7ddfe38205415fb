"""How panels of maps are drawn and arranged: colour steps, shapes, contour lines, colour bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap
from matplotlib.figure import Figure as MplFigure
from matplotlib.patches import PathPatch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from weatherpp.report import style
from weatherpp.report.graticule import edge_labels, graticule
from weatherpp.report.grids import PLATE, Area, area_of, kind_of, on_pixels
from weatherpp.report.shapes import frame_of, outlines

Kind = Literal["sequential", "spread", "diverging", "probability"]
GROUND = "#f4f5f6"  # where nothing is known
HALO = [withStroke(linewidth=1.8, foreground="#ffffffcc")]
LEAST_FOR_DEGREES = 600  # pixels of a panel's width, below which degrees would clutter it
# Part of each colour map that is used: dark ends would hide coastlines.
COLOURS = {
    "sequential": ("viridis", 0.08, 1.0),
    "spread": ("YlGnBu", 0.0, 0.85),
    "diverging": ("RdBu_r", 0.04, 0.96),
    "probability": ("PuBu", 0.0, 0.82),
}


@dataclass(frozen=True)
class Group:
    """Panels that share one colour scale.

    ``outline`` encloses where it is true, in each panel; ``hatched`` covers where it is, one for
    each panel.
    """

    fields: Sequence[xr.DataArray]
    titles: Sequence[str]
    kind: Kind
    label: str
    contours: bool = False
    outline: xr.DataArray | None = None
    hatched: Sequence[xr.DataArray] = ()


@dataclass(frozen=True)
class Sheet:
    """A figure of maps before it is drawn: groups of panels in rows, under one title.

    Groups of one panel share rows; a larger group begins a row of its own. ``alt`` and
    ``caption`` are those of :class:`weatherpp.report.content.Figure`.
    """

    groups: Sequence[Group]
    columns: int
    title: str
    alt: str
    caption: str
    cyclic: bool | None = None
    bars: Literal["bottom", "right"] = "bottom"


def levels_of(fields: Sequence[xr.DataArray], kind: Kind) -> NDArray[np.float64]:
    """Borders of the colour steps for a group of fields: round numbers that fit all of them."""
    if kind == "probability":
        return np.array([0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100], dtype=float)
    values = np.concatenate([np.ravel(field.values) for field in fields]).astype(float)
    values = values[np.isfinite(values)]
    if not values.size:
        return np.linspace(0, 1, 6)
    # single extreme cells would wash out the rest; the bar's arrow tells that there are some
    if kind == "diverging":
        top = float(np.quantile(np.abs(values), 0.995)) or 1.0
        return np.asarray(MaxNLocator(10, symmetric=True).tick_values(-top, top))
    low, high = (float(np.quantile(values, q)) for q in (0.002, 0.998))
    if kind == "spread":
        low = min(low, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-30):
        room = abs(low) * 0.01 or 1.0
        low, high = low - room, high + room
    return np.asarray(MaxNLocator(14).tick_values(low, high))


def compose(sheet: Sheet) -> MplFigure:
    """Draw a sheet of maps."""
    groups, columns = sheet.groups, sheet.columns
    area = area_of(groups[0].fields[0], sheet.cyclic)
    single = all(len(group.fields) == 1 for group in groups)
    taken = [1 if single else -(-len(group.fields) // columns) * columns for group in groups]
    rows = -(-sum(taken) // columns)
    width = {1: 7.0, 2: 8.4, 3: 10.8}.get(columns, 2.9 * columns)  # inches
    tall = min(max(width / columns / area.aspect, 0.3), 1.1 * width / columns)
    lines = 1 + max(title.count("\n") for group in groups for title in group.titles)
    long = _bar_length(sheet, width / columns, tall)
    bars_tall = (rows if single else len(groups)) * _bar_height(sheet, long)
    whole_width = width + (0.9 if sheet.bars == "right" else 0.0)
    title = style.title_lines(sheet.title, whole_width)
    heads_tall = rows * 0.2 * lines + 0.2 * len(title)
    figure = style.new_figure(whole_width, rows * (tall + 0.05) + bars_tall + heads_tall + 0.1)
    style.title(figure, sheet.title)
    pixels = (round(width / columns * style.DPI), round(tall * style.DPI))
    first = 1
    for group, places in zip(groups, taken, strict=True):
        axes = [
            map_axes(figure, (rows, columns, first + i), area) for i in range(len(group.fields))
        ]
        first += places
        canvas = _Canvas(area, pixels, sheet.cyclic, levels_of(group.fields, group.kind))
        look = _look(group, canvas.levels)
        drawn = [_panel(ax, group, i, canvas, look) for i, ax in enumerate(axes)]
        _colour_bar(figure, drawn[0], axes, group, sheet.bars, long)
    return figure


def map_axes(figure: MplFigure, place: Any, area: Area) -> Any:
    """Empty axes in a map's own coordinates, within its outline.

    Plain axes, since all that is drawn is put into the map's coordinates before: cartopy's would
    do so again, and look for ticks and clip by outlines, for most of the time of a map.

    Parameters
    ----------
    place
        Rows, columns and number of the subplot, or its place in a grid.
    """
    ax: Any = figure.add_subplot(*place) if isinstance(place, tuple) else figure.add_subplot(place)
    ax.set(xlim=(area.west, area.east), ylim=(area.south, area.north), aspect="equal")
    ax.set_autoscale_on(False)
    ax.xaxis.set_visible(False)
    ax.yaxis.set_visible(False)
    frame = frame_of(area)
    if frame is None:
        ax.set_facecolor(GROUND)
        for side in ax.spines.values():
            side.set_edgecolor(style.FAINT)
    else:
        ax.set_axis_off()
        ax.add_artist(PathPatch(frame, facecolor=GROUND, edgecolor="none", zorder=-1))
        ax.add_artist(
            PathPatch(frame, facecolor="none", edgecolor=style.FAINT, clip_on=False, zorder=8)
        )
    return ax


def finish(ax: Any, area: Area) -> None:
    """Clip what was drawn to the map's outline; only frame and title decide the layout."""
    frame = frame_of(area)
    for artist in (*ax.collections, *ax.images, *ax.lines, *ax.patches, *ax.artists, *ax.texts):
        artist.set_in_layout(False)  # which makes the layout much quicker
        if frame is not None and artist.get_clip_on():
            artist.set_clip_path(frame, ax.transData)


def _bar_length(sheet: Sheet, wide: float, tall: float) -> float:
    """Of the longest colour bar in inches, below panels so wide or beside ones so tall."""
    most = max(len(group.fields) for group in sheet.groups)
    return tall if sheet.bars == "right" else 0.75 * wide * min(most, sheet.columns)


def _bar_height(sheet: Sheet, long: float) -> float:
    """What a colour bar with its numbers and label adds to the height of a figure, in inches."""
    if sheet.bars == "right":
        return 0.0
    lines = max(_bar_text(group.label, long).count("\n") + 1 for group in sheet.groups)
    thick = long / min(_bar_aspect(group) for group in sheet.groups)
    return thick + 0.33 + 0.16 * lines


def _bar_aspect(group: Group) -> float:
    return 45 if len(group.fields) > 1 else 22


def _bar_text(label: str, long: float) -> str:
    return style.wrapped(label, max(long, 1.6), 9.0)


def _colour_bar(
    figure: MplFigure,
    drawn: Any,
    axes: list[Any],
    group: Group,
    where: Literal["bottom", "right"],
    long: float,
) -> None:
    bar = figure.colorbar(
        drawn,
        ax=axes,
        location=where,
        aspect=_bar_aspect(group) if where == "bottom" else 22,
        shrink=0.75 if where == "bottom" else 0.92,
        pad=0.02,
    )
    bar.set_label(_bar_text(group.label, long), fontsize=9.0, color=style.INK)
    bar.ax.tick_params(labelsize=8.5, length=2, colors=style.INK)
    bar.outline.set_edgecolor(style.FAINT)


@dataclass(frozen=True)
class _Canvas:
    """What all panels of a group are drawn on: area, pixels of a panel, borders of the colours."""

    area: Area
    pixels: tuple[int, int]
    cyclic: bool | None
    levels: NDArray[np.float64]


def _look(group: Group, levels: NDArray[np.float64]) -> dict[str, Any]:
    """Colour map and steps of a group, with arrows on the bar where values lie beyond them."""
    factor = 100 if group.kind == "probability" else 1
    low = min(float(np.nanmin(f.values, initial=np.inf)) for f in group.fields) * factor
    high = max(float(np.nanmax(f.values, initial=-np.inf)) for f in group.fields) * factor
    below, above = low < levels[0], high > levels[-1]
    extend: Literal["neither", "both", "min", "max"] = (
        ("both" if above else "min") if below else ("max" if above else "neither")
    )
    if group.kind == "diverging" and extend != "neither":
        extend = "both"  # one arrow alone would move white away from zero
    name, start, end = COLOURS[group.kind]
    part = mpl.colormaps[name](np.linspace(start, end, 256))
    colours = LinearSegmentedColormap.from_list(f"part of {name}", part)
    return {"cmap": colours, "norm": BoundaryNorm(levels, colours.N, extend=extend)}


def _panel(ax: Any, group: Group, at: int, canvas: _Canvas, look: dict[str, Any]) -> Any:
    """Draw one field with its lines and coastlines; gives what the colour bar needs."""
    area, field = canvas.area, group.fields[at]
    style.heading(ax, group.titles[at])
    if group.kind == "probability":
        field = field * 100
    if kind_of(field) == "latlon":
        drawn = ax.imshow(
            on_pixels(field, area, *canvas.pixels, cyclic=canvas.cyclic),
            extent=_extent(area),
            origin="upper",
            interpolation="nearest",
            zorder=1,
            **look,
        )
    else:
        drawn = _draw_points(ax, field, area, look)
    if group.contours:
        _contours(ax, field, canvas, canvas.levels, colors="#00000099", linewidths=0.6)
    if group.outline is not None:
        event = group.outline.astype(float)
        _contours(ax, event, canvas, [0.5], colors=style.INK, linewidths=1.4)
    if group.hatched:
        _hatch(ax, group.hatched[at].astype(float), canvas)
    draw_shapes(ax, area)
    if canvas.pixels[0] > LEAST_FOR_DEGREES and area.scale == "50m":
        write_degrees(ax, area)
    finish(ax, area)
    return drawn


def write_degrees(ax: Any, area: Area) -> None:
    """Latitudes and longitudes within the left and the lower edge of a map."""
    look: dict[str, Any] = {
        "textcoords": "offset points", "fontsize": 7, "color": style.INK, "zorder": 7,
        "annotation_clip": False,
    }  # fmt: skip
    left, lower = edge_labels(area)
    for label in left:
        drawn = ax.annotate(label.text, label[1:], (3, 2), va="bottom", **look)
        drawn.set_path_effects(HALO)
    for label in lower:
        drawn = ax.annotate(label.text, label[1:], (2, 3), va="bottom", **look)
        drawn.set_path_effects(HALO)


def _extent(area: Area) -> tuple[float, float, float, float]:
    return area.west, area.east, area.south, area.north


def _places(field: xr.DataArray, area: Area) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grid points in the map's own coordinates, so that there is nothing to wrap."""
    longitudes = np.asarray(field["longitude"].values, dtype=float)
    latitudes = np.asarray(field["latitude"].values, dtype=float)
    points = area.projection.transform_points(PLATE, longitudes, latitudes)
    return points[..., 0], points[..., 1]


def _draw_points(ax: Any, field: xr.DataArray, area: Area, look: dict[str, Any]) -> Any:
    """Cells of a projected grid, or dots at stations."""
    x, y = _places(field, area)
    if kind_of(field) == "station":
        order = np.argsort(np.isfinite(field.values))
        return ax.scatter(
            x[order], y[order], c=field.values[order], s=26, edgecolors=style.INK,
            linewidths=0.5, zorder=4, plotnonfinite=False, **look,
        )  # fmt: skip
    return ax.pcolormesh(x, y, field.values, shading="nearest", rasterized=True, zorder=1, **look)


def _contours(
    ax: Any,
    field: xr.DataArray,
    canvas: _Canvas,
    levels: Sequence[float] | NDArray[np.float64],
    **look: Any,
) -> None:
    """Contour lines, drawn in the map's own coordinates."""
    if kind_of(field) == "station":
        return
    x, y, values = _sampled(field, canvas, smooth=True)
    if np.isfinite(values).any():
        ax.contour(x, y, values, levels=levels, zorder=2, **look)


def _hatch(ax: Any, mask: xr.DataArray, canvas: _Canvas) -> None:
    """Hatching where a mask is one; crosses at stations."""
    if kind_of(mask) == "station":
        x, y = _places(mask, canvas.area)
        there = np.asarray(mask.values) > 0.5
        ax.scatter(x[there], y[there], marker="x", s=18, c=style.INK, linewidths=0.8, zorder=5)
        return
    x, y, values = _sampled(mask, canvas, smooth=False)
    if np.nanmax(values, initial=0.0) > 0.5:
        hatching = ax.contourf(
            x, y, values, levels=[0.5, 1.5], colors="none", hatches=["/////"], zorder=2.2
        )
        hatching.set_edgecolor("#00000066")
        hatching.set_linewidth(0.0)


def _sampled(
    field: xr.DataArray, canvas: _Canvas, smooth: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Places and values from which lines are drawn: cells of the grid, or of every other pixel."""
    area = canvas.area
    if kind_of(field) == "projected":
        return *_places(field, area), np.asarray(field.values, dtype=float)
    width, height = (pixels // 2 for pixels in canvas.pixels)
    values = on_pixels(field, area, width, height, cyclic=canvas.cyclic, smooth=smooth)
    x = area.west + (np.arange(width) + 0.5) / width * (area.east - area.west)
    y = area.north - (np.arange(height) + 0.5) / height * (area.north - area.south)
    return x, y, values


def draw_shapes(ax: Any, area: Area) -> None:
    """Coastlines and a graticule; on maps of a part of the world also land, lakes, borders."""

    def draw(kind: str, **look: Any) -> None:
        # not add_patch, which would work out the limits of each outline anew
        ax.add_artist(PathPatch(outlines(kind, area), **look))

    line: dict[str, Any] = {"facecolor": "none", "edgecolor": "#20262c", "zorder": 3}
    draw("coastline", facecolor="none", edgecolor="white", alpha=0.45, linewidth=2.0, zorder=2.8)
    draw("coastline", linewidth=0.7 if area.whole_globe else 0.9, **line)
    if not area.whole_globe:
        draw("land", facecolor="#e1e4e7", edgecolor="none", zorder=0)
        draw("lakes", linewidth=0.5, **line)
        draw("borders", linewidth=0.5, linestyle=(0, (4, 2)), **line)
    lines = [np.column_stack([line.x, line.y]) for part in graticule(area) for line in part]
    faint = {"color": "#20262c", "alpha": 0.25, "linewidth": 0.4}
    ax.add_collection(LineCollection(lines, zorder=2.5, **faint), autolim=False)
