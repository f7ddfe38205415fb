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
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from weatherpp.report import style
from weatherpp.report.grids import PLATE, Area, area_of, graticule, kind_of, on_pixels
from weatherpp.report.shapes import outlines

Kind = Literal["sequential", "spread", "diverging", "probability"]
# Part of each colour map that is used: dark ends would hide coastlines.
COLOURS = {
    "sequential": ("viridis", 0.08, 1.0),
    "spread": ("YlGnBu", 0.0, 0.85),
    "diverging": ("RdBu_r", 0.04, 0.96),
    "probability": ("PuBu", 0.0, 0.82),
}


@dataclass(frozen=True)
class Group:
    """Panels that share one colour scale."""

    fields: Sequence[xr.DataArray]
    titles: Sequence[str]
    kind: Kind
    label: str
    contours: bool = False
    outline: xr.DataArray | None = None


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


def compose(
    groups: Sequence[Group],
    columns: int,
    title: str,
    cyclic: bool | None,
    *,
    bars: Literal["bottom", "right"] = "bottom",
) -> bytes:
    """Draw groups of panels under one title and give the PNG.

    Groups of one panel share rows; a larger group begins a row of its own.
    """
    area = area_of(groups[0].fields[0], cyclic)
    single = all(len(group.fields) == 1 for group in groups)
    taken = [1 if single else -(-len(group.fields) // columns) * columns for group in groups]
    rows = -(-sum(taken) // columns)
    width = {1: 7.0, 2: 8.4}.get(columns, 3.6 * columns)  # inches
    tall = min(max(width / columns / area.aspect, 0.8), 1.4 * width / columns)
    bars_tall = 0.0 if bars == "right" else 0.55 * (rows if single else len(groups))
    figure = style.new_figure(
        width + (0.8 if bars == "right" else 0.0), rows * (tall + 0.25) + bars_tall + 0.45
    )
    figure.suptitle(style.literal(title, 240), x=0.01, ha="left", fontsize=10.5, color=style.INK)
    pixels = (round(width / columns * style.DPI), round(tall * style.DPI))
    first = 1
    for group, places in zip(groups, taken, strict=True):
        axes = [
            figure.add_subplot(rows, columns, first + i, projection=area.projection)
            for i in range(len(group.fields))
        ]
        first += places
        levels = levels_of(group.fields, group.kind)
        look = _look(group, levels)
        drawn = [
            _panel(ax, field, title, group, area, pixels, cyclic, levels, look)
            for ax, field, title in zip(axes, group.fields, group.titles, strict=True)
        ]
        _colour_bar(figure, drawn[0], axes, group.label, bars)
    return style.png_of(figure)


def _colour_bar(
    figure: MplFigure, drawn: Any, axes: list[Any], label: str, where: Literal["bottom", "right"]
) -> None:
    wide = where == "bottom" and len(axes) > 1
    bar = figure.colorbar(
        drawn,
        ax=axes,
        location=where,
        aspect=45 if wide else 22,
        shrink=0.75 if where == "bottom" else 0.92,
        pad=0.02,
    )
    bar.set_label(style.literal(label, 80), fontsize=9.5, color=style.INK)
    bar.ax.tick_params(labelsize=8.5, length=2, colors=style.INK)
    bar.outline.set_edgecolor(style.FAINT)


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


def _panel(
    ax: Any,
    field: xr.DataArray,
    title: str,
    group: Group,
    area: Area,
    pixels: tuple[int, int],
    cyclic: bool | None,
    levels: NDArray[np.float64],
    look: dict[str, Any],
) -> Any:
    """Draw one field with its lines and coastlines; gives what the colour bar needs."""
    style.heading(ax, title)
    ax.set_facecolor("#f4f5f6")
    for side in ax.spines.values():
        side.set_edgecolor(style.FAINT)
    if group.kind == "probability":
        field = field * 100
    if kind_of(field) == "latlon":
        drawn = ax.imshow(
            on_pixels(field, area, *pixels, cyclic=cyclic),
            extent=_extent(area),
            origin="upper",
            transform=area.projection,
            interpolation="nearest",
            zorder=1,
            **look,
        )
    else:
        drawn = _draw_points(ax, field, area, look)
    if group.contours:
        _contours(ax, field, area, pixels, cyclic, levels, colors="#00000099", linewidths=0.6)
    if group.outline is not None:
        event = group.outline.astype(float)
        _contours(ax, event, area, pixels, cyclic, [0.5], colors=style.INK, linewidths=1.4)
    _shapes(ax, area)
    for artist in (*ax.collections, *ax.images, *ax.patches, *ax.artists):
        artist.set_in_layout(False)  # frame and title decide the layout, which is much quicker
    if area.whole_globe:
        ax.set_global()
    else:
        ax.set_extent(_extent(area), crs=area.projection)
    return drawn


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
            linewidths=0.5, transform=area.projection, zorder=4, plotnonfinite=False, **look,
        )  # fmt: skip
    return ax.pcolormesh(
        x, y, field.values, shading="nearest", transform=area.projection, zorder=1, **look
    )


def _contours(
    ax: Any,
    field: xr.DataArray,
    area: Area,
    pixels: tuple[int, int],
    cyclic: bool | None,
    levels: Sequence[float] | NDArray[np.float64],
    **look: Any,
) -> None:
    """Contour lines, drawn in the map's own coordinates."""
    kind = kind_of(field)
    if kind == "station":
        return
    if kind == "projected":
        x, y = _places(field, area)
        values = np.asarray(field.values, dtype=float)
    else:
        size = (pixels[0] // 2, pixels[1] // 2)  # lines need no more than half the resolution
        values = on_pixels(field, area, *size, cyclic=cyclic, smooth=True)
        x = area.west + (np.arange(size[0]) + 0.5) / size[0] * (area.east - area.west)
        y = area.north - (np.arange(size[1]) + 0.5) / size[1] * (area.north - area.south)
    if np.isfinite(values).any():
        ax.contour(x, y, values, levels=levels, transform=area.projection, zorder=2, **look)


def _shapes(ax: Any, area: Area) -> None:
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
    lines = [np.column_stack(xy) for xy in graticule(area)]
    faint = {"color": "#20262c", "alpha": 0.25, "linewidth": 0.4}
    ax.add_collection(LineCollection(lines, zorder=2.5, **faint), autolim=False)
