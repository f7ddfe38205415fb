"""Case studies in the report: sections with maps, lines, tracks and scores; terminal lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from weatherpp.data.archive import Archive
from weatherpp.errors import ConfigError, InputError
from weatherpp.events.boxes import ALL_CASES, dates_words
from weatherpp.events.case import Case
from weatherpp.events.load import load_cases
from weatherpp.pipeline.case_page import CasePage, by_field, dates_sentence, lead_lines
from weatherpp.pipeline.case_views import Shown
from weatherpp.report.content import Figure, Section
from weatherpp.report.labels import percent
from weatherpp.verify import table

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job


def case_lines(folder: Path) -> list[str]:
    """What the cases gave, for the terminal: gains in the boxes, and what was left out.

    What cannot be read is told instead: the report leaves it out too.
    """
    try:
        gains, notes = _table(folder, "gains"), _notes(folder)
    except InputError as error:
        return [f"note: {error}"]
    lines = [
        f"{row['region']}, {row['target']}: CRPS of {row['method']} {_gain_words(row)}"
        for row in _last_of_each(gains)
    ]
    return lines + [f"note: {line}" for line in notes["left_out"]]


def _again(folder: Path) -> str:
    return f"weatherpp report RECIPE --run-dir {folder.parent} --force events"


def _table(folder: Path, name: str) -> pd.DataFrame:
    return table.read(folder / f"{name}.parquet", _again(folder))


def _notes(folder: Path) -> dict[str, Any]:
    path = folder / "notes.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"left_out": list(found["left_out"]), "cases": dict(found["cases"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: missing or damaged; make it again with '{_again(folder)}'"
        ) from None


def _cases(folder: Path, notes: Mapping[str, Any]) -> tuple[Case, ...]:
    """Cases of a run, each of which the notes know."""
    path = folder / "cases.yaml"
    try:
        cases = load_cases(path).cases
        if all(case.name in notes["cases"] for case in cases):
            return cases
        fault = f"{path}: other cases than in notes.json"
    except ConfigError as error:
        fault = str(error)
    raise InputError(f"{fault}; make it again with '{_again(folder)}'")


def _last_of_each(gains: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows of the last method in each box, against plainly scored references."""
    plain = gains[gains["reference_estimator"] != "fair"]
    plain = plain[plain["method"] == (plain["method"].iloc[-1] if len(plain) else "")]
    return plain.drop_duplicates(["region", "target", "reference"]).to_dict("records")


def _gain_words(row: dict[Any, Any]) -> str:
    size = f"{100 * abs(row['gain']):.1f} %"
    side = "below" if row["gain"] >= 0 else "above"
    if np.isnan(row["low"]):
        return f"{size} {side} {row['reference']} ({dates_words(int(row['dates']))})"
    limits = f"{100 * row['low']:.1f} to {100 * row['high']:.1f} %"
    return f"{size} {side} {row['reference']} (gain {limits}, {int(row['dates'])} dates)"


def case_sections(job: Job, left_out: list[str], colours: Mapping[str, str]) -> list[Section]:
    """A section for each case of a run, and before them one for all together.

    Parameters
    ----------
    left_out
        Is given a line for each figure that cannot be drawn.
    colours
        Of each method, as elsewhere on the page.
    """
    folder = job.run.path / "events"
    if job.recipe.cases is None or not folder.is_dir():
        return []
    archive = Archive.open(job.archive_path)
    scores, gains, tracks = (_table(folder, name) for name in ("scores", "gains", "tracks"))
    notes = _notes(folder)
    cases = _cases(folder, notes)
    sections = _joint_sections(job, scores, gains, notes["left_out"], colours)
    for place, case in enumerate(cases):
        job.terminal.update(f"case {case.name}", place, len(cases))
        page = CasePage(job, archive, case, tracks[tracks["case"] == case.name], colours)
        figures = page.figures(scores)
        left_out += page.left_out
        words = _case_words(case, notes["cases"][case.name], gains)
        sections.append(Section(f"Case: {page.heading}", words, figures))
    return sections


def _case_words(case: Case, notes: dict[str, Any], gains: pd.DataFrame) -> list[str]:
    words = [" ".join(case.story.split())] if case.story else []
    span = f"{case.start:%Y-%m-%d %H:%M} to {case.end:%Y-%m-%d %H:%M} UTC"
    source = " ".join(case.source.split()).rstrip(".")
    words.append(
        f"Box {case.box}, valid times {span}, point {case.place}."
        + (f" Source: {source}." if source else "")
    )
    words += [f"{name}: {text}" for name, text in notes["rarity"].items()]
    words += gains_in_box(_last_of_each(gains[gains["region"] == case.name]))
    if notes["lost"]:
        words.append(f"Tracks that end early or do not begin: {'; '.join(notes['lost'])}.")
    return words


def gains_in_box(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Gains of one method in a box by target, with what their dates allow said once."""
    if not rows:
        return []
    by_target: dict[str, list[str]] = {}
    for row in rows:
        side = "below" if row["gain"] >= 0 else "above"
        text = f"{percent(abs(row['gain']))} % {side} {row['reference']}"
        if np.isfinite([row["low"], row["high"]]).all():
            text += f" (gain {percent(row['low'])} to {percent(row['high'])} %)"
        by_target.setdefault(str(row["target"]), []).append(text)
    told = "; ".join(f"{target} {' and '.join(texts)}" for target, texts in by_target.items())
    counts = dates_sentence(row["dates"] for row in rows)
    return [f"CRPS of {rows[0]['method']} in the box: {told}. {counts}"]


def _joint_sections(
    job: Job,
    scores: pd.DataFrame,
    gains: pd.DataFrame,
    left_out: list[str],
    colours: Mapping[str, str],
) -> list[Section]:
    """All cases together: scores by lead time, and gains."""
    from weatherpp.report.figures import gain_bars

    figures: list[Figure] = []
    joint = scores[scores["region"] == ALL_CASES]
    labels = [entry.label for entry in Shown.of(job.recipe).entries]
    for variable, part in by_field(job, joint):
        title = f"{variable}: CRPS in the boxes of all cases"
        figures += lead_lines(part, labels, title, colours)
    against = gains[(gains["region"] == ALL_CASES) & gains["method"].isin(labels)]
    if len(against):
        figures.append(gain_bars(against, colours=colours))
    words = ["Scores in the box of each case, on its dates, averaged over all cases."]
    words += [f"Left out: {line}." for line in left_out]
    return [Section("All cases together", words, figures)] if figures or left_out else []
