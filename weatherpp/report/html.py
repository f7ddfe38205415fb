"""The report as one HTML file that needs nothing else: no network, no other files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from weatherpp.report import figures, words
from weatherpp.report.content import Figure, ReportData, chosen
from weatherpp.report.labels import OF_MEMBERS, lead_text, members_text, number, percent, units_text
from weatherpp.report.style import colours_of
from weatherpp.report.tables import (
    gain_tables,
    has_intervals,
    known,
    of_main_region,
    wide_tables,
)
from weatherpp.report.template import render_page, write_page
from weatherpp.verify.aggregate import FEWEST_DATES


@dataclass(frozen=True)
class Group:
    """Images of one kind, one for each target; ``text`` is what their captions share."""

    text: str
    figures: list[Figure]


class Images:
    """Numbers the images of a page; one that is there already is shown only once."""

    def __init__(self) -> None:
        self._first: dict[bytes, int] = {}
        self._count = 0

    def place(self, figure: Figure) -> tuple[int, int]:
        """Number of the next image, and of the first one that is the same."""
        self._count += 1
        return self._count, self._first.setdefault(figure.png, self._count)


def render(data: ReportData) -> str:
    """The report of a run as HTML, see :func:`weatherpp.report.template.render_page`."""
    colours = _colours(data)
    drawn: dict[str, Any] = {
        "gain_groups": _gain_groups(data, colours),
        "gain_tables": gain_tables(data.gains),
        "score_groups": _score_groups(data, colours),
        "calibration_groups": _calibration_groups(data, colours),
        "tables": wide_tables(data.scores),
    }
    return render_page(
        "report.html.j2",
        data=data,
        images=Images(),
        **drawn,
        contents=_contents(data, drawn),
        switches=_switches(data),
        claims=[_claim(claim) for claim in data.claims],
        verdicts=_verdicts(data),
        other_regions=any(not table.main for table in drawn["tables"]),
        has_intervals=has_intervals(data.scores),
        has_kinds=bool(data.gains["reference_estimator"].isin(OF_MEMBERS[1:]).any()),
        has_local_bias=bool((data.scores["score"] == "local_bias").any()),
        fewest=FEWEST_DATES,
    )


def write_report(data: ReportData, path: Path) -> int:
    """Write the report under its final name once it is whole; returns its size in bytes.

    Raises
    ------
    InputError
        The folder cannot be written to.
    """
    return write_page(render(data), path)


def _colours(data: ReportData) -> dict[str, str]:
    """One colour for each method in all charts of the page."""
    drawn = [method for by_method in data.histograms.values() for method in by_method]
    return colours_of([*data.scores["method"], *data.gains["method"], *drawn])


def _each_target(
    table: pd.DataFrame, draw: Callable[[pd.DataFrame], Figure], data: ReportData
) -> list[Group]:
    """A group of one image for each target of a table; empty if it has none."""
    parts = table.groupby("target", sort=False)
    return _grouped([replace(draw(part), target=str(target)) for target, part in parts], data)


def _grouped(drawn: Sequence[Figure], data: ReportData) -> list[Group]:
    """Images as one group; a caption that all of them share is told once, above them."""
    if not drawn:
        return []
    captions = {figure.caption for figure in drawn}
    if len(drawn) == 1 or len(captions) > 1:
        return [Group("", list(drawn))]
    return [Group(captions.pop(), [replace(f, caption=_subject(data, f.target)) for f in drawn])]


def _subject(data: ReportData, target: str) -> str:
    about = data.about(target)
    return target if about is None else f"{target}, {lead_text(about.step_hours)}"


def _gain_groups(data: ReportData, colours: Mapping[str, str]) -> list[Group]:
    gains = of_main_region(known(chosen(data.gains, data.highlights), "gain"))
    if "score" not in gains:
        gains = gains.assign(score="crps")
    return [
        group
        for score, part in gains.groupby("score", sort=False)
        for group in _each_target(
            part, partial(figures.gain_bars, score=str(score), colours=colours), data
        )
    ]


def _score_groups(data: ReportData, colours: Mapping[str, str]) -> list[Group]:
    shown = known(chosen(data.scores, data.highlights), "value")
    return [
        group
        for score in ("crps", "spread_rmse")
        for group in _each_target(
            shown[shown["score"] == score],
            partial(figures.score_bars, score=score, colours=colours),
            data,
        )
    ]


def _calibration_groups(data: ReportData, colours: Mapping[str, str]) -> list[Group]:
    shown = known(chosen(data.scores, data.highlights), "value")
    ratios = shown[shown["score"] == "spread_skill"]
    groups = _each_target(ratios, partial(figures.spread_skill, colours=colours), data)
    drawn = []
    for target, by_method in data.histograms.items():
        kept = {m: h for m, h in by_method.items() if not data.highlights or m in data.highlights}
        if any(len(counts) for counts in kept.values()):
            figure = figures.rank_histograms({target: kept}, colours)
            drawn.append(replace(figure, target=target))
    return [*groups, *_grouped(drawn, data)]


def _switches(data: ReportData) -> dict[str, list[Any]]:
    """What the reader may choose among; a choice of one is none."""
    names = dict.fromkeys([*data.targets, *map(str, data.scores["target"])])
    abouts = [about for about in map(data.about, names) if about is not None]
    members = {
        str(row["method"]): members_text(row["members"]) for row in data.scores.to_dict("records")
    }
    counts = sorted({int(count) for count in members.values() if count})
    leads = [lead_text(hours) for hours in sorted({about.step_hours for about in abouts})]
    found: dict[str, list[Any]] = {
        "variables": list(dict.fromkeys(about.variable for about in abouts)),
        "leads": leads,
        "members": [str(count) for count in counts],
        "methods": list(members.items()),
    }
    return {name: values if len(values) > 1 else [] for name, values in found.items()}


def _contents(data: ReportData, drawn: Mapping[str, Any]) -> list[dict[str, str]]:
    """The parts that the page has, in its order."""
    parts = [
        ("claims", "Claims", data.claims, ""),
        ("summary", "In words", data.summary or data.notes, ""),
        ("gains", "Gains", drawn["gain_groups"], ""),
        ("scores", "Scores", drawn["tables"], ""),
        ("calibration", "Calibration", drawn["calibration_groups"], ""),
        *((f"part-{i}", part.title, True, part.target) for i, part in enumerate(data.sections, 1)),
        ("made", "How it was made", data.provenance or data.recipe_text or data.left_out, ""),
    ]
    return [
        {"id": name, "title": title, "target": target}
        for name, title, there, target in parts
        if there
    ]


def _verdicts(data: ReportData) -> dict[str, Any] | None:
    if not data.claims:
        return None
    failed = any(claim["holds"] is not None and not claim["holds"] for claim in data.claims)
    return {"text": words.claims_sentence(data.claims), "failed": failed}


def _claim(claim: Mapping[str, Any]) -> dict[str, str]:
    """A claim as the page shows it."""
    units = claim.get("units")

    def shown(value: Any) -> str:
        return percent(value) if units is None else number(value)

    unit = "%" if units is None else units_text(str(units))
    kind, mark, verdict = "information", "i", "For information"
    if claim["holds"] is not None:
        kind = "holds" if claim["holds"] else "fails"
        mark, verdict = ("✓", "Holds") if claim["holds"] else ("✗", "Does not hold")
    low, high = shown(claim["low"]), shown(claim["high"])
    bound = shown(claim["bound"])
    return {
        "name": str(claim["name"]),
        "text": str(claim["text"] or ""),
        "value": f"{shown(claim['value'])} {unit}".strip(),
        "interval": "" if "–" in (low, high) else f"{low} to {high} {unit}".strip(),
        "bound": "" if bound == "–" else f"at least {bound} {unit}".strip(),
        "kind": kind,
        "mark": mark,
        "verdict": verdict,
    }
