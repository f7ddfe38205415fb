"""Scores drawn against members, years of training or the size of a network, and said in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from weatherpp.errors import InputError
from weatherpp.report import style
from weatherpp.report.content import Figure, need_columns
from weatherpp.report.labels import number, score_name, units_text, with_units
from weatherpp.report.tables import has_intervals

WIDTH, HEIGHT = 7.0, 3.3  # inches, one panel
MARKERS = "osD^vPX*"
COLUMNS = ("by", "target", "score", "line", "x", "value", "low", "high", "units")
WORTH_COLUMNS = ("by", "target", "line", "x", "reference", "worth", "low", "high", "least", "most")


def curve_lines(points: pd.DataFrame) -> Figure:
    """One panel for each target, a line with its intervals for each name; x is logarithmic.

    Parameters
    ----------
    points
        One curve of :func:`weatherpp.verify.curves.points` with a column ``units``.

    Raises
    ------
    InputError
        There is no point, or a column is missing.
    """
    need_columns(points, COLUMNS, "curves")
    if points.empty:
        raise InputError("there is no point of a curve to draw")
    by, score = str(points["by"].iloc[0]), str(points["score"].iloc[0])
    blocks = list(points.groupby("target", sort=False))
    figure = style.new_figure(WIDTH, HEIGHT * len(blocks))
    colours = style.colours_of(points["line"])
    words = []
    for i, (target, block) in enumerate(blocks):
        ax = figure.add_subplot(len(blocks), 1, i + 1)
        style.plain_axes(ax, grid="y")
        style.heading(ax, str(target))
        for at, (line, rows) in enumerate(block.groupby("line", sort=False)):
            _line(ax, rows, str(line), colours[str(line)], MARKERS[at % len(MARKERS)], at)
            told = ", ".join(f"{x:g}: {number(v)}" for x, v in _pairs(rows))
            words.append(f"{target}, {line}, by {by}: {told}")
        ax.set_xscale("log")
        places = sorted(set(block["x"].astype(float)))
        ax.set_xticks(places, [f"{place:g}" for place in places])
        ax.minorticks_off()
        ax.set_xlabel(style.literal(by), fontsize=9.5)
        label = with_units(score_name(score), str(block["units"].iloc[0]))
        ax.set_ylabel(style.literal(label), fontsize=9.5)
        ax.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption = f"{score_name(score)} (lower is better) against {by}"
    if has_intervals(points):
        caption += (
            ", with the interval of the bootstrap over dates. The dates are the same for all "
            "points, so differences are surer than the bars look"
        )
    caption += ". Members are scored plainly. The axis does not start at zero."
    return Figure(style.png_of(figure), f"{score_name(score)}. {'; '.join(words)}.", caption)


def _pairs(rows: pd.DataFrame) -> list[tuple[float, float]]:
    return [(float(x), float(v)) for x, v in zip(rows["x"], rows["value"], strict=True)]


def _line(ax: Any, rows: pd.DataFrame, name: str, colour: str, marker: str, place: int) -> None:
    x, value = rows["x"].to_numpy(float), rows["value"].to_numpy(float)
    # side by side, so that bars of different lines can be told apart
    x = x * 1.012**place
    ax.plot(x, value, marker=marker, color=colour, label=style.literal(name, 30), markersize=5)
    ends = rows[["low", "high"]].to_numpy(float)
    there = np.isfinite(ends).all(axis=1)
    ax.vlines(x[there], ends[there, 0], ends[there, 1], color=colour, linewidth=1.1, alpha=0.7)


def worth_words(worth: pd.DataFrame) -> list[str]:
    """A paragraph for each target: how much of the reference every point is worth."""
    need_columns(worth, WORTH_COLUMNS, "worth")
    paragraphs = []
    for target, rows in worth.groupby("target", sort=False):
        phrases = []
        for row in rows.to_dict("records"):
            low, high = (_place(row, key) for key in ("low", "high"))
            limits = f" (interval {low} to {high})" if low and high else ""
            phrases.append(
                f"{row['line']} with {row['x']:g} as {row['reference']} with "
                f"{_place(row, 'worth')}{limits}"
            )
        by = units_text(str(rows["by"].iloc[0]))
        paragraphs.append(f"As good for {target}, by {by}: {'; '.join(phrases)}.")
    return paragraphs


def _place(row: dict[Any, Any], key: str) -> str:
    value = float(row[key])
    if not np.isfinite(value):
        return ""
    if value >= float(row["most"]):
        return f"{row['most']:g} or more"
    return f"{row['least']:g} or fewer" if value <= float(row["least"]) else f"{value:.1f}"
