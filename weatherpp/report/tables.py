"""Views of the score tables: which rows stand for a method, and wide tables for the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from weatherpp.report.labels import (
    OF_MEMBERS,
    decimals_for,
    lead_text,
    members_text,
    number,
    percent,
    score_name,
    units_text,
)
from weatherpp.verify.table import LIMIT

# Most telling first; a score that is not in the list comes after them.
SCORE_ORDER = ("crps", "rmse", "spread_rmse", "spread_skill", "local_bias", "bias")
# Scores of which the lowest value is not the best: distance from what is perfect.
PERFECT = {"spread_skill": 1.0, "bias": 0.0}


def main_region(table: pd.DataFrame) -> str:
    """The region that stands for all: the whole grid if it was scored, else the first."""
    regions = list(dict.fromkeys(table["region"].astype(str)))
    return next((name for name in ("whole grid", "global") if name in regions), regions[0])


def of_main_region(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the main region; all of a table that tells no region."""
    if "region" not in table or table.empty:
        return table
    return table[table["region"].astype(str) == main_region(table)]


def has_intervals(table: pd.DataFrame) -> bool:
    """Whether any row of a table has an interval."""
    return bool(np.isfinite(table[["low", "high"]].astype(float)).all(axis=1).any())


def lead_score(table: pd.DataFrame) -> str:
    """The score that a table (of scores or gains) is read by first; CRPS if it does not say."""
    if "score" not in table or table.empty:
        return "crps"
    found = list(dict.fromkeys(table["score"].astype(str)))
    return next((score for score in SCORE_ORDER if score in found), found[0])


def known(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows with a finite number in a column."""
    return table[np.isfinite(table[column].astype(float))]


def own_and_kindest(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of one score: for each method its plain (or only) estimator and its kindest one."""
    keys = ["method", "members", "target", "step_hours", "region"]
    keep: list[Any] = []
    for _, rows in table.groupby(keys, sort=False, dropna=False):
        own = rows[~rows["estimator"].isin(OF_MEMBERS[1:])]
        keep += dict.fromkeys([*own.index[:1], rows["value"].astype(float).idxmin()])
    return table.loc[keep]


def kindest_gains(gains: pd.DataFrame) -> pd.DataFrame:
    """For each method and reference the smallest gain: the reference scored kindest."""
    if gains.empty:
        return gains
    keys = ["target", "method", "reference"]
    smallest = gains.groupby(keys, sort=False)["gain"].idxmin()
    return gains.loc[smallest]


@dataclass(frozen=True)
class Cell:
    """One cell: text, smaller lines below it, and what to sort by."""

    text: str
    small: tuple[str, ...] = ()
    order: float | str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One row: its cells, the first of which is its head, and whose it is."""

    cells: list[Cell]
    method: str


@dataclass(frozen=True)
class WideTable:
    """Scores of one target, lead time and region: a row for each method, a column each score.

    ``note`` tells the units, if all columns that have some share them, and the dates.
    """

    title: str
    anchor: str
    heads: list[str]
    rows: list[Row]
    note: str
    target: str
    main: bool = True


def wide_tables(scores: pd.DataFrame) -> list[WideTable]:
    """Tables to show, one for each target, lead time and region, main region first."""
    tables: list[WideTable] = []
    scores = scores.reset_index(drop=True)  # rows are told apart by it
    for (target, step), part in scores.groupby(["target", "step_hours"], sort=False):
        first = main_region(part)
        regions = sorted(dict.fromkeys(part["region"].astype(str)), key=lambda name: name != first)
        for region in regions:
            rows = part[part["region"].astype(str) == region]
            if "local_bias" in set(rows["score"]):
                # biases of both signs cancel in the mean over an area, which says little then
                rows = rows[rows["score"] != "bias"]
            title = f"{target}, {lead_text(step)}, {region}"
            anchor = f"scores-{len(tables) + 1}"
            tables.append(_wide_table(rows, title, anchor, region == first))
    return tables


def _wide_table(rows: pd.DataFrame, title: str, anchor: str, main: bool) -> WideTable:
    """A method's own estimator of the CRPS shares the first column with the plain one."""
    apart = rows["estimator"].isin(OF_MEMBERS[1:]) | (rows["score"] != "crps")
    kind = rows["estimator"].where(apart, "")
    columns_of: Any = list(zip(rows["score"].astype(str), kind, strict=True))
    rows = rows.assign(column=columns_of)
    columns = sorted(dict.fromkeys(rows["column"]), key=_place)
    units = {
        column: units_text(str(rows.loc[rows["column"] == column, "units"].iloc[0]))
        for column in columns
    }
    all_units = {unit for unit in units.values() if unit}
    common = all_units.pop() if len(all_units) == 1 else ""
    heads = ["Method", "Members"]
    for column in columns:
        name = ", ".join(filter(None, (score_name(column[0]), column[1])))
        heads.append(f"{name} ({units[column]})" if units[column] not in ("", common) else name)
    rows = rows.assign(best=_best(rows))
    places = {
        column: decimals_for(rows.loc[rows["column"] == column, "value"]) for column in columns
    }
    found: dict[Any, dict[Any, dict[Any, Any]]] = {}
    for row in rows.to_dict("records"):
        method = (str(row["method"]), members_text(row["members"]))
        found.setdefault(method, {}).setdefault(row["column"], row)
    body = [
        Row(
            [Cell(name, order=name), Cell(members or "–", order=members)]
            + [_cell(own[c], places[c]) if c in own else Cell("–") for c in columns],
            name,
        )
        for (name, members), own in found.items()
    ]
    note = "; ".join(filter(None, (common, _dates_text(rows["dates"]))))
    return WideTable(title, anchor, heads, body, note, str(rows["target"].iloc[0]), main)


def _place(column: tuple[str, str]) -> tuple[int, str, int]:
    score, estimator = column
    place = SCORE_ORDER.index(score) if score in SCORE_ORDER else len(SCORE_ORDER)
    order = ("", *OF_MEMBERS)
    return place, score, order.index(estimator) if estimator in order else len(order)


def _best(rows: pd.DataFrame) -> pd.Series[bool]:
    """Which rows are the best of their like: same column, estimator and number of members.

    A forecast that is no ensemble is scored by its own closed form, whatever its family. The limit
    of a perfect model is no method; a value without another to compare it with is not the best.
    """
    finite = known(rows[~rows["method"].astype(str).str.startswith(LIMIT)], "value")
    alike = [
        finite["column"],
        finite["estimator"].where(finite["estimator"].isin(OF_MEMBERS), ""),
        finite["members"].map(members_text),
    ]
    best = pd.Series(False, index=rows.index)
    for _, group in finite.groupby(alike, sort=False):
        values = group["value"].astype(float)
        if values.nunique() > 1:
            score = str(group["score"].iloc[0])
            distance = (values - PERFECT[score]).abs() if score in PERFECT else values
            best[distance.index[distance == distance.min()]] = True
    return best


def _cell(row: dict[Any, Any], places: int | None) -> Cell:
    value, low, high = (float(row[key]) for key in ("value", "low", "high"))
    notes = []
    if np.isfinite([low, high]).all():
        notes.append(f"{number(low, decimals=places)} to {number(high, decimals=places)}")
    if row["score"] == "crps" and row["column"][1] == "" and row["estimator"]:
        notes.append(str(row["estimator"]))
    order = value if np.isfinite(value) else ""
    return Cell(number(value, decimals=places), tuple(notes), order, bool(row["best"]))


def gain_tables(gains: pd.DataFrame) -> list[WideTable]:
    """Gains by region, one table for each target and score; none if there is one region only.

    A row for each method and reference (scored kindest), a column for each region, in per cent.
    """
    if "region" not in gains or gains["region"].nunique() < 2:
        return []
    tables: list[WideTable] = []
    gains = known(gains, "gain").assign(score=lambda t: t.get("score", "crps"))
    regions = list(dict.fromkeys(gains["region"].astype(str)))
    for (target, score), part in gains.groupby(["target", "score"], sort=False):
        by_region = {
            str(region): kindest_gains(rows).set_index(["method", "reference"])
            for region, rows in part.groupby("region", sort=False)
        }
        shown = [region for region in regions if region in by_region]
        body = []
        for method, reference in dict.fromkeys(zip(part["method"], part["reference"], strict=True)):
            cells = [Cell(str(method), order=str(method)), Cell(str(reference), (), str(reference))]
            for region in shown:
                rows = by_region[region]
                there = (method, reference) in rows.index
                cells.append(
                    _gain_cell(dict(rows.loc[(method, reference)])) if there else Cell("–")
                )
            body.append(Row(cells, str(method)))
        tables.append(
            WideTable(
                f"{target}, gain in {score_name(str(score))} by region",
                f"gains-{len(tables) + 1}",
                ["Method", "Against", *shown],
                body,
                "%; more is better",
                str(target),
            )
        )
    return tables


def _gain_cell(row: dict[Any, Any]) -> Cell:
    gain, low, high = (float(row[key]) for key in ("gain", "low", "high"))
    notes = [f"{percent(low)} to {percent(high)}"] if np.isfinite([low, high]).all() else []
    if row["reference_estimator"] in OF_MEMBERS:
        notes.append(str(row["reference_estimator"]))
    return Cell(percent(gain), tuple(notes), gain)


def _dates_text(dates: Iterable[Any]) -> str:
    counts = sorted({int(count) for count in dates})
    if len(counts) == 1:
        return f"{counts[0]} test date{'' if counts[0] == 1 else 's'}"
    return f"{counts[0]} to {counts[-1]} test dates"
