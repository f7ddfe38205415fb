"""Figures over time: one place through a forecast, tracks, scores by lead time and by date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from weatherpp.errors import InputError
from weatherpp.report import style
from weatherpp.report.content import Figure, need_columns
from weatherpp.report.ensembles import (
    BOX,
    Floats,
    ensemble_quantiles,
    last_words,
    lead_hours,
    members_of,
    start_of,
    truth_points,
)
from weatherpp.report.labels import (
    field_name,
    lead_text,
    moment,
    number,
    origin_text,
    place_text,
    units_text,
    with_units,
)
from weatherpp.report.tables import has_intervals
from weatherpp.report.tracks import track_map as track_map

WIDTH = 7.0  # inches; the width of the report's text column
LEAD_COLUMNS = ("method", "step_hours", "value", "low", "high", "units")
DATE_COLUMNS = ("method", "date", "value")
MARKERS = "osD^vPX*"
OUTER, INNER = 0.16, 0.3  # opacity of the bands of a plume
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 9, "loc": "outside lower left"}


def plume(
    forecasts: Mapping[str, xr.DataArray],
    truth: xr.DataArray | None,
    *,
    title: str,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Forecasts of one place over their lead times, a panel for each, on one scale.

    Parameters
    ----------
    forecasts
        By label: one variable at one point, dimensions (step, number) or (step, quantile) in any
        order. Scalar coordinates ``time``, ``station``, ``latitude`` and ``longitude`` are told
        in the title.
    truth
        The analysis or observation at that point, dimension ``step`` or ``valid_time``.
    colours
        By label, as elsewhere on the page.

    Raises
    ------
    InputError
        There is no forecast, the units differ, or dimensions are missing.
    """
    first = _alike(forecasts.values())
    units = str(first.attrs.get("units", ""))
    columns = min(2, len(forecasts))
    rows = -(-len(forecasts) // columns)
    figure = style.new_figure(WIDTH, 2.5 * rows + 1.1)
    style.title(figure, _heading(title, first))
    points = None if truth is None else truth_points(truth, start_of(first))
    hours = np.unique(np.concatenate([lead_hours(field) for field in forecasts.values()]))
    colours = colours or style.colours_of(forecasts)
    words: list[str] = []
    axes: list[Axes] = []
    for i, (label, forecast) in enumerate(forecasts.items()):
        shared: dict[str, Any] = {"sharex": axes[0], "sharey": axes[0]} if axes else {}
        ax = figure.add_subplot(rows, columns, i + 1, **shared)
        axes.append(ax)
        style.plain_axes(ax, grid="y")
        style.heading(ax, label)
        words.append(f"{label}: {_draw_plume(ax, forecast, colours[label])}")
        if points is not None:
            ax.plot(*points, "o", color="black", markersize=4, zorder=5)
        if i % columns == 0:
            ax.set_ylabel(
                style.wrapped(with_units(field_name(first), units), 2.4, 9.5), fontsize=9.5
            )
        _lead_axis(ax, hours, start_of(first), wide=columns == 1)
    drawn = [field for field in forecasts.values() if "number" in field.dims]
    _place_legend(figure, _plume_handles(bool(drawn), points is not None))
    name = with_units(field_name(first), units)
    caption = (
        f"{name}. Shaded: from the 10 % to the 90 % and from the 25 % to the 75 % quantile; the "
        "line is the median, thin lines are members."
    )
    caption += " Dots: the analysis." if points is not None else ""
    alt = f"{title}. {name} over the lead time. {'; '.join(words)}."
    return Figure(style.png_of(figure), alt, caption)


def _draw_plume(ax: Axes, forecast: xr.DataArray, colour: str) -> str:
    """One panel of a plume; gives its last lead time in words."""
    hours = lead_hours(forecast)
    if "number" in forecast.dims:
        ax.plot(hours, members_of(forecast), color=colour, linewidth=0.5, alpha=0.35)
    quantiles = ensemble_quantiles(forecast, BOX)
    low, lower, middle, upper, high = quantiles
    ax.fill_between(hours, low, high, color=colour, alpha=OUTER, linewidth=0)
    ax.fill_between(hours, lower, upper, color=colour, alpha=INNER, linewidth=0)
    ax.plot(hours, middle, color=colour, linewidth=2.0)
    return last_words(hours, quantiles)


def meteogram(
    forecasts: Mapping[str, Mapping[str, xr.DataArray]],
    truth: Mapping[str, xr.DataArray] | None = None,
    *,
    title: str,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Boxes of one or several forecasts of a place over the lead time, a row for each variable.

    Parameters
    ----------
    forecasts
        By variable (any text, the title of its row), then by method (``raw``, ``mixed``), as in
        :func:`plume`. A box is from the 25 % to the 75 % quantile with the median as a line; its
        whiskers end at 10 and 90 %.
    truth
        Analyses by variable, as far as there are any.
    colours
        By method, as elsewhere on the page.

    Raises
    ------
    InputError
        There is no forecast, the units within a row differ, or dimensions are missing.
    """
    if not forecasts:
        raise InputError("a meteogram needs at least one forecast")
    firsts = {name: _alike(row.values()) for name, row in forecasts.items()}
    colours = colours or style.colours_of(method for row in forecasts.values() for method in row)
    figure = style.new_figure(WIDTH, 1.9 * len(forecasts) + 1.1)
    any_field = next(iter(firsts.values()))
    style.title(figure, _heading(title, any_field))
    axes = list(figure.subplots(len(forecasts), 1, squeeze=False, sharex=True)[:, 0])
    words = []
    all_hours = [lead_hours(field) for field in firsts.values()]
    for ax, (name, row) in zip(axes, forecasts.items(), strict=True):
        units = str(firsts[name].attrs.get("units", ""))
        style.plain_axes(ax, grid="y")
        style.heading(ax, with_units(name, units))
        for place, (method, forecast) in enumerate(row.items()):
            last = _boxes(ax, forecast, place, len(row), colours[method], method)
            words.append(f"{name}, {method}: {last} {units_text(units)}".rstrip())
        if truth is not None and name in truth:
            hours, values = truth_points(truth[name], start_of(firsts[name]))
            ax.plot(hours, values, "o", color="black", markersize=3.5, zorder=5, label="analysis")
            all_hours.append(hours)
        _not_below_zero(ax, row)
    _lead_axis(axes[-1], np.unique(np.concatenate(all_hours)), start_of(any_field), wide=True)
    for ax in axes[:-1]:
        ax.tick_params(labelbottom=False)
        ax.set_xlabel("")
    _legend(figure, axes)
    caption = (
        "Boxes from the 25 % to the 75 % quantile, the line within is the median, whiskers end at "
        "10 and 90 %."
    )
    caption += "" if truth is None else " Dots: the analysis."
    return Figure(style.png_of(figure), f"{title}. {'; '.join(words)}.", caption)


def _boxes(
    ax: Axes, forecast: xr.DataArray, place: int, count: int, colour: str, label: str
) -> str:
    """Boxes of one method, beside those of the others; gives the last one in words."""
    hours = lead_hours(forecast)
    quantiles = ensemble_quantiles(forecast, BOX)
    low, lower, middle, upper, high = quantiles
    apart = float(np.diff(hours).min()) if hours.size > 1 else 6.0
    width = 0.78 * apart / count
    x = hours + (place - (count - 1) / 2) * width
    ax.vlines(x, low, high, color=colour, linewidth=1.0)
    ax.bar(
        x, upper - lower, 0.84 * width, lower, facecolor=colour, edgecolor=colour, alpha=0.55,
        linewidth=0.6, label=style.literal(label, 40),
    )  # fmt: skip
    ax.hlines(middle, x - 0.42 * width, x + 0.42 * width, color=style.INK, linewidth=1.2)
    return last_words(hours, quantiles)


def _not_below_zero(ax: Axes, row: Mapping[str, xr.DataArray]) -> None:
    """The axis of amounts, which cannot be negative, begins at zero."""
    lowest = min(float(field.min()) for field in row.values())
    if lowest >= 0 and ax.get_ylim()[0] < 0:
        ax.set_ylim(bottom=0)


def score_over_leads(
    table: pd.DataFrame,
    *,
    title: str = "",
    name: str = "Score",
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """A score over the lead time: a line for each method, a band for its interval.

    Parameters
    ----------
    table
        Columns `LEAD_COLUMNS`; NaN in ``low`` and ``high`` where there is no interval.
    name
        Of the score, for the axis.
    colours
        By method, as elsewhere on the page.

    Raises
    ------
    InputError
        A column is missing, there is no value, or the units differ.
    """
    need_columns(table, LEAD_COLUMNS, "scores by lead time")
    table = table[table["value"].notna()].sort_values("step_hours", kind="stable")
    if table.empty:
        raise InputError("there is no score by lead time to draw")
    units = sorted(set(table["units"].astype(str)))
    if len(units) > 1:
        raise InputError(f"scores in the units {' and '.join(units)} cannot share one axis")
    figure, ax = _one_panel(title)
    colours = colours or style.colours_of(table["method"])
    count = table["method"].nunique()
    several = table["step_hours"].nunique() > 1
    words = []
    for at, (method, rows) in enumerate(table.groupby("method", sort=False)):
        hours, value, low, high = (rows[c].to_numpy(float) for c in LEAD_COLUMNS[1:5])
        colour = colours[str(method)]
        # a band of one lead time has no width; bars side by side can be told apart
        x = hours + (0.0 if several else 0.4 * (at - (count - 1) / 2))
        ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        ax.vlines(x, low, high, color=colour, linewidth=1.0, alpha=0.4 if several else 1.0)
        ax.plot(x, value, color=colour, marker=MARKERS[at % len(MARKERS)], markersize=5,
                label=style.literal(str(method), 40))  # fmt: skip
        told = ", ".join(f"{lead_text(h)} {number(v)}" for h, v in zip(hours, value, strict=True))
        words.append(f"{method}: {told}")
    if not several:
        ax.margins(x=0.4)
    _lead_axis(ax, np.unique(table["step_hours"].to_numpy(float)), None, wide=True)
    ax.set_ylabel(style.wrapped(with_units(name, units[0]), 2.6, 9.5), fontsize=9.5)
    _legend(figure, [ax])
    caption = f"{with_units(name, units[0])} by lead time"
    caption += "; bands are intervals." if has_intervals(table) else "."
    return Figure(style.png_of(figure), f"{name} by lead time. {'; '.join(words)}.", caption)


def score_over_dates(
    table: pd.DataFrame, *, title: str = "", name: str = "Score", units: str = ""
) -> Figure:
    """A score by date: a line for each method, interrupted where dates are missing.

    Parameters
    ----------
    table
        Columns `DATE_COLUMNS`. The usual distance of the dates is the smallest one there is
        between any of them; a line is interrupted where two of its dates are farther apart, or
        its value is NaN.

    Raises
    ------
    InputError
        A column is missing, or there is no value.
    """
    need_columns(table, DATE_COLUMNS, "scores by date")
    if not table["value"].notna().any():
        raise InputError("there is no score by date to draw")
    table = table.assign(date=pd.to_datetime(table["date"])).sort_values("date", kind="stable")
    all_dates = pd.DatetimeIndex(table["date"]).unique()
    usual = pd.Timedelta(all_dates.to_series().diff().min()) if len(all_dates) > 1 else None
    figure, ax = _one_panel(title)
    colours = style.colours_of(table["method"])
    words = []
    for at, (method, rows) in enumerate(table.groupby("method", sort=False)):
        dates, values = _with_gaps(rows, usual)
        ax.plot(dates, values, color=colours[str(method)], marker=MARKERS[at % len(MARKERS)],
                markersize=3.5, linewidth=1.3, label=style.literal(str(method), 40))  # fmt: skip
        good = rows["value"].dropna()
        mean = number(good.mean()) if len(good) else "no value"
        words.append(f"{method}: mean {mean} over {len(good)} date{'' if len(good) == 1 else 's'}")
    style.date_axis(ax, all_dates, 9)
    ax.set_ylabel(style.wrapped(with_units(name, units), 2.6, 9.5), fontsize=9.5)
    _legend(figure, [ax])
    ends = (f"{date.day} {date:%B %Y}" for date in all_dates[[0, -1]])
    span = " to ".join(dict.fromkeys(ends))
    ax.set_xlabel(span, fontsize=9.5)
    alt = f"{name} by date, {span}. {'; '.join(words)}."
    caption = (
        f"{with_units(name, units)} by date, {span}. A line is interrupted where dates are missing."
    )
    return Figure(style.png_of(figure), alt, caption)


def _with_gaps(rows: pd.DataFrame, usual: pd.Timedelta | None) -> tuple[pd.DatetimeIndex, Floats]:
    """Dates and values with a missing value in each gap, which interrupts the line there."""
    dates = pd.DatetimeIndex(rows["date"])
    values = rows["value"].to_numpy(float)
    if usual is None:
        return dates, values
    after = np.flatnonzero(np.diff(dates) > 1.5 * usual)
    return (
        pd.DatetimeIndex(dates.append(dates[after] + usual).sort_values()),
        np.insert(values, after + 1, np.nan),
    )


def _one_panel(title: str) -> tuple[MplFigure, Axes]:
    figure = style.new_figure(WIDTH, 3.6)
    ax = figure.add_subplot()
    style.plain_axes(ax, grid="y")
    if title:
        style.title(figure, title)
    return figure, ax


def _alike(fields: Any) -> xr.DataArray:
    """The first of several forecasts, which must have one unit."""
    fields = list(fields)
    if not fields:
        raise InputError("there is no forecast to draw")
    units = sorted({str(field.attrs.get("units", "")) for field in fields})
    if len(units) > 1:
        raise InputError(f"forecasts in the units {' and '.join(units)} cannot share one axis")
    first: xr.DataArray = fields[0]
    return first


def _heading(title: str, field: xr.DataArray) -> str:
    """Title, then place and start in words, and a mark if the data are synthetic."""
    start, origin = start_of(field), origin_text(field)
    begun = "" if start is None else f"forecast started {moment(start)}"
    line = ", ".join(filter(None, (place_text(field), begun)))
    line = line[:1].upper() + line[1:]
    return f"{title}{f' [{origin}]' if origin else ''}\n{line}".rstrip()


def _lead_axis(ax: Axes, hours: Floats, start: pd.Timestamp | None, *, wide: bool) -> None:
    """Ticks at the lead times, or at round ones if these are too many; with their dates."""
    most = 9 if wide else 5
    low, high = ax.get_xlim()  # wider than the lead times, as boxes and analyses lie beside them
    span = max(high - low, float(hours[-1] - hours[0]), 1.0)
    steps = (1, 2, 3, 6, 12, 24, 48, 72, 120, 240, 480, 720, 1440)
    step = next((s for s in steps if span / s <= most), steps[-1])
    ticks = np.arange(np.ceil(hours[0] / step), np.floor(hours[-1] / step) + 1) * step
    if ticks.size < 2 or (np.diff(hours) >= span / most).all():
        ticks = hours[:: -(-hours.size // most)]
    clock = start is not None and (start.hour != 0 or bool((ticks % 24 != 0).any()))
    ax.set_xticks(ticks, [_tick(float(tick), start, clock, wide) for tick in ticks])
    ax.set_xlabel("Lead time (h)" if start is None else "Lead time (h), valid time (UTC)",
                  fontsize=9.5)  # fmt: skip


def _tick(hours: float, start: pd.Timestamp | None, clock: bool, wide: bool) -> str:
    if start is None:
        return f"{hours:g}"
    valid = start + pd.Timedelta(hours=hours)
    day = f"{valid:%a} {valid.day} {valid:%b}" if wide else f"{valid.day} {valid:%b}"
    return f"{hours:g}\n{day}" + (f"\n{valid:%H:%M}" if clock else "")


def _legend(figure: MplFigure, axes: list[Axes]) -> None:
    """One legend for all panels, each name once."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    _place_legend(figure, found)


def _place_legend(figure: MplFigure, found: Mapping[str, Any]) -> None:
    """A legend below all panels, with as many columns as there is room for."""
    inches = 0.6 + 0.075 * max(map(len, found))  # of the longest entry
    columns = min(len(found), max(1, int(WIDTH / inches)))
    figure.legend(list(found.values()), list(found), ncols=columns, **LEGEND)


def _plume_handles(members: bool, truth: bool) -> dict[str, Any]:
    """Entries of a plume's legend, in grey, as each panel has a colour of its own."""
    handles: dict[str, Any] = {
        "members": Line2D([], [], color="grey", linewidth=0.6),
        "10 to 90 %": Patch(color="grey", alpha=OUTER, linewidth=0),
        # the inner band lies on the outer one
        "25 to 75 %": Patch(color="grey", alpha=1 - (1 - OUTER) * (1 - INNER), linewidth=0),
        "median": Line2D([], [], color="grey", linewidth=2.0),
        "analysis": Line2D([], [], color="black", marker="o", markersize=4, linestyle=""),
    }
    absent = ([] if members else ["members"]) + ([] if truth else ["analysis"])
    return {name: handle for name, handle in handles.items() if name not in absent}
