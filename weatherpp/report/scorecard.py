"""Scorecards: gains by variable, lead time, region and score at one glance.

Size is told by colour (blue better, red worse: told apart with any common kind of colour vision),
direction by a triangle that points up or down, certainty by its filling. The same card is a figure,
tables for a page, and text for a terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.colors import BoundaryNorm

from weatherpp.errors import InputError
from weatherpp.report import style
from weatherpp.report.content import Figure, Section, need_columns
from weatherpp.report.labels import estimator_text, lead_text, percent, score_name
from weatherpp.report.tables import Cell, Row, WideTable

COLUMNS = (
    *("variable", "step_hours", "region", "score", "method", "reference", "gain", "low", "high"),
    *("p_value", "significant", "dates"),
)
STEPS = (1.0, 2.0, 5.0, 10.0, 20.0)  # per cent: borders of the colours, either way
KEY = (
    "▲ better and ▼ worse than the reference, significantly; △ ▽ not significantly: at most "
    "{level} % of all marks of this card are expected to be chance (Benjamini and Hochberg 1995)."
)


def key_text(alpha: float = 0.05) -> str:
    """What the signs mean."""
    return KEY.format(level=percent(alpha, 0))


def mark(gain: float, significant: bool) -> str:
    """Triangle up or down, filled if significant; a dot where there is nothing to tell."""
    if not np.isfinite(gain) or gain == 0:
        return "·"
    return ("▲" if significant else "△") if gain > 0 else ("▼" if significant else "▽")


def _signed(gain: float) -> str:
    text = percent(gain)
    return text if text.startswith(("−", "–")) else f"+{text}"


def each_method(card: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Parts of a card, one for each method and reference, with their title.

    Raises
    ------
    InputError
        The card lacks a column.
    """
    need_columns(card, COLUMNS, "the scorecard")
    for (method, reference), part in card.groupby(["method", "reference"], sort=False):
        yield f"{method} against {reference}", part


def figure(card: pd.DataFrame, alpha: float = 0.05) -> Figure:
    """The card of one method: a row for each variable and score, leads by region side by side.

    Parameters
    ----------
    card
        Columns :data:`COLUMNS`, one method and one reference.

    Raises
    ------
    InputError
        The card is empty, lacks a column, or is of several methods.
    """
    parts = list(each_method(card))
    if len(parts) != 1:
        raise InputError(f"a scorecard shows one method against one reference, not {len(parts)}")
    title, card = parts[0]
    rows = list(dict.fromkeys(zip(card["variable"], card["score"], strict=True)))
    regions = list(dict.fromkeys(card["region"].astype(str)))
    leads = sorted(set(card["step_hours"].astype(float)))
    cell = min(0.62, 6.0 / max(1, len(regions) * len(leads)))
    drawing = style.new_figure(
        2.2 + len(regions) * max(1.2, len(leads) * max(cell, 0.3)), 1.5 + 0.36 * len(rows)
    )
    drawing.suptitle(style.literal(title), x=0.01, ha="left", fontsize=10.5, color=style.INK)
    norm, colours = _colours()
    for at, region in enumerate(regions):
        ax = drawing.add_subplot(1, len(regions), at + 1)
        part = card[card["region"].astype(str) == region]
        for row in part.to_dict("records"):
            x, y = (
                leads.index(float(row["step_hours"])),
                rows.index((row["variable"], row["score"])),
            )
            _draw_cell(ax, x, y, row, colours, norm)
        style.heading(ax, textwrap.fill(region, 14))
        ax.set(xlim=(-0.5, len(leads) - 0.5), ylim=(len(rows) - 0.5, -0.5))
        ax.set_xticks(range(len(leads)), [lead_text(lead) for lead in leads], fontsize=8)
        names = [f"{variable}, {score_name(score)}" for variable, score in rows]
        ax.set_yticks(range(len(rows)), names if at == 0 else [""] * len(rows), fontsize=8.5)
        ax.tick_params(length=0, colors=style.INK)
        for side in ax.spines.values():
            side.set_edgecolor(style.GRID)
    bar = drawing.colorbar(
        mpl.cm.ScalarMappable(norm, colours), ax=drawing.axes, location="bottom",
        aspect=45, shrink=0.7, pad=0.02, extend="both", ticks=[*(-s for s in STEPS[::-1]), *STEPS],
    )  # fmt: skip
    bar.set_label("Gain, % (blue: better; filled: significant)", fontsize=9, color=style.INK)
    bar.ax.tick_params(labelsize=8, length=2, colors=style.INK)
    alt = f"Scorecard of {title}. " + "; ".join(
        f"{row['variable']}, {lead_text(row['step_hours'])}, {row['region']}, "
        f"{score_name(str(row['score']))}: {_words(row)}"
        for row in card.to_dict("records")
    )
    return Figure(style.png_of(drawing), f"{alt}.", f"{title}. {key_text(alpha)}")


def _colours() -> tuple[BoundaryNorm, Any]:
    borders = [*(-step for step in STEPS[::-1]), *STEPS]
    colours = mpl.colormaps["RdBu"]
    return BoundaryNorm(borders, colours.N, extend="both"), colours


def _draw_cell(ax: Any, x: int, y: int, row: Mapping[Any, Any], colours: Any, norm: Any) -> None:
    gain, sure = float(row["gain"]), bool(row["significant"])
    known = np.isfinite(gain)
    shade = colours(norm(100 * gain)) if known else style.GRID
    ax.add_patch(mpl.patches.Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=shade))
    if not known or gain == 0:
        return
    dark = sum(mpl.colors.to_rgb(shade)) < 1.5
    ink = "white" if dark else style.INK
    ax.plot(
        x, y, "^" if gain > 0 else "v", markersize=7, markeredgecolor=ink,
        markerfacecolor=ink if sure else "none", markeredgewidth=1.0,
    )  # fmt: skip


def _words(row: Mapping[Any, Any]) -> str:
    gain = float(row["gain"])
    if not np.isfinite(gain):
        return "not known"
    side = "better" if gain >= 0 else "worse"
    sure = "significant" if row["significant"] else "not significant"
    return f"{percent(abs(gain))} % {side}, {sure}"


def tables(card: pd.DataFrame) -> list[WideTable]:
    """The card as tables: one for each method and region, a column for each lead time."""
    found: list[WideTable] = []
    for title, part in each_method(card):
        for region, rows in part.groupby("region", sort=False):
            leads = sorted(set(rows["step_hours"].astype(float)))
            body = [
                Row(_cells(own, str(variable), str(score), leads), str(own["method"].iloc[0]))
                for (variable, score), own in rows.groupby(["variable", "score"], sort=False)
            ]
            anchor = f"card-{len(found) + 1}"
            heads = ["Variable", "Score", *(lead_text(lead) for lead in leads)]
            note = "gain in %, with its interval and p value"
            found.append(WideTable(f"{title}, {region}", anchor, heads, body, note, "", False))
    return found


def _cells(own: pd.DataFrame, variable: str, score: str, leads: list[float]) -> list[Cell]:
    cells = [Cell(variable, order=variable), Cell(score_name(score), order=score)]
    by_lead = {float(row["step_hours"]): row for row in own.to_dict("records")}
    for lead in leads:
        row = by_lead.get(lead)
        if row is None:
            cells.append(Cell("–"))
            continue
        gain = float(row["gain"])
        small = [f"{percent(row['low'])} to {percent(row['high'])}"]
        small = small if np.isfinite([float(row["low"]), float(row["high"])]).all() else []
        small += [p_text(float(row["p_value"]))] if np.isfinite(float(row["p_value"])) else []
        order = gain if np.isfinite(gain) else ""
        text = f"{mark(gain, bool(row['significant']))} {_signed(gain)}"
        cells.append(Cell(text, tuple(small), order))
    return cells


def p_text(p_value: float) -> str:
    """A p value as it is read: ``p = 0.013``, ``p < 0.001``."""
    if not np.isfinite(p_value):
        return "too few dates for a test"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def sections(card: pd.DataFrame, alpha: float = 0.05, title: str = "Scorecard") -> list[Section]:
    """The card as a part of a report: a figure for each method, tables below; none if empty."""
    if card.empty:
        return []
    text = (
        "The gain of each method over its reference by variable, lead time, region and score; "
        "for spread / error, how much nearer to one the ratio is. Intervals by a moving-block "
        "bootstrap over dates, p values by the Diebold-Mariano test with autocorrelation."
    )
    # what the signs mean is told once, above the figures
    figures = [replace(figure(part, alpha), caption=f"{name}.") for name, part in each_method(card)]
    return [Section(title, [text, key_text(alpha)], figures, tables=tables(card))]


def text(card: pd.DataFrame, alpha: float = 0.05) -> str:
    """The card for a terminal."""
    lines = []
    for title, part in each_method(card):
        leads = sorted(set(part["step_hours"].astype(float)))
        body = [["", "", "", *(lead_text(lead) for lead in leads)]]
        for (variable, score, region), own in part.groupby(
            ["variable", "score", "region"], sort=False
        ):
            by_lead = {float(row["step_hours"]): row for row in own.to_dict("records")}
            shown = [
                f"{mark(float(row['gain']), bool(row['significant']))} {_signed(row['gain'])}"
                if (row := by_lead.get(lead)) is not None
                else "–"
                for lead in leads
            ]
            body.append([str(variable), score_name(str(score)), str(region), *shown])
        wide = [max(len(line[i]) for line in body) for i in range(len(body[0]))]
        lines.append(f"{title}: gain in %")
        lines += [
            "  ".join(
                word.ljust(size) if i < 3 else word.rjust(size)
                for i, (word, size) in enumerate(zip(line, wide, strict=True))
            ).rstrip()
            for line in body
        ]
    return "\n".join([*lines, key_text(alpha)]) if lines else "no two methods to compare"


def sentence(row: Mapping[Any, Any], *, names: tuple[str, str] = ("B", "A")) -> str:
    """One cell in words: whether it is better, by how much, how surely.

    Parameters
    ----------
    row
        Of a card.
    names
        What to call the method and its reference.
    """
    gain, low, high = (float(row[key]) for key in ("gain", "low", "high"))
    where = f"{row['variable']}, {lead_text(row['step_hours'])}, {row['region']}"
    what = f"{score_name(str(row['score']))}{estimator_text(row.get('estimator', ''))}"
    head = f"{where}, {row['method']}, {what}: "
    if not np.isfinite(gain):
        return f"{head}cannot be compared"
    if gain == 0 and low == high == 0:
        return f"{head}{names[0]} and {names[1]} are the same, {int(row['dates'])} dates"
    side = "better" if gain >= 0 else "worse"
    interval = "no interval"
    if np.isfinite([low, high]).all():
        interval = f"interval {_signed(low)} to {_signed(high)} %"
    doubt = "significant" if row["significant"] else "not significant"
    return (
        f"{head}{names[0]} is {side} than {names[1]} by {percent(abs(gain))} % ({interval}, "
        f"{p_text(float(row['p_value']))}), {doubt}, {int(row['dates'])} dates"
    )
