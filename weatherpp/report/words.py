"""Sentences from tables: what the scores say, with the numbers, and no more than they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from weatherpp.report.content import GAIN_COLUMNS, SCORE_COLUMNS, need_columns
from weatherpp.report.labels import (
    OF_MEMBERS,
    estimator_text,
    lead_text,
    members_text,
    number,
    percent,
    score_name,
    units_text,
)
from weatherpp.report.tables import kindest_gains, known, lead_score, main_region, of_main_region
from weatherpp.verify.table import LIMIT


def summary(
    scores: pd.DataFrame,
    gains: pd.DataFrame,
    claims: Sequence[Mapping[str, Any]],
    *,
    level: float = 0.95,
) -> list[str]:
    """Paragraphs of the summary: the verdicts on the claims, then one paragraph a target.

    A reference that was scored in several ways is taken in the way that leaves a method the
    least gain.

    Parameters
    ----------
    scores, gains, claims
        As in :class:`weatherpp.report.content.ReportData`.
    level
        Of the intervals in the tables.
    """
    need_columns(scores, SCORE_COLUMNS, "scores")
    need_columns(gains, GAIN_COLUMNS, "gains")
    # no method: the charts show it, but it cannot win
    scores, gains = (
        table[~table["method"].astype(str).str.startswith(LIMIT)] for table in (scores, gains)
    )
    paragraphs = []
    if claims:
        paragraphs.append(claims_sentence(claims))
    targets = list(dict.fromkeys([*scores["target"], *gains["target"]]))
    gains = of_main_region(gains)
    for target in targets:
        own_scores = scores[scores["target"] == target]
        of_target = known(gains[gains["target"] == target], "gain")
        score = lead_score(of_target if len(of_target) else own_scores)
        if "score" in of_target:
            of_target = of_target[of_target["score"] == score]
        of_target = kindest_gains(of_target)
        best, sentences = _best(own_scores, score, level)
        rows = of_target.to_dict("records")
        # the level is said once in a paragraph
        told = None if sentences else level
        own = [gain_phrase(row, level=told) for row in rows if row["method"] == best]
        if own:
            sentences.append(f"That is {_and(own)}.")
        # against the other references only the best is told; the table of gains has the rest
        first = rows[0]["reference"] if rows else ""
        others = [r for r in rows if r["method"] != best and r["reference"] == first]
        judged = [row for row in others if np.isfinite([row["low"], row["high"]]).all()]
        sentences += _also_better(judged, told) + _not_better(judged, score, told)
        sentences += _unjudged([row for row in others if row not in judged], score)
        if sentences:
            paragraphs.append(" ".join(sentences))
    return paragraphs or ["This run has no scores."]


def claims_sentence(claims: Sequence[Mapping[str, Any]]) -> str:
    """How many claims hold, and which do not."""
    judged = [claim for claim in claims if claim["holds"] is not None]
    failed = [str(claim["name"]) for claim in judged if not claim["holds"]]
    if not judged:
        return "No claim was put to the test; those below are for information."
    count = len(judged)
    if not failed:
        return "The one claim holds." if count == 1 else f"All {count} claims hold."
    if count == 1:
        return f"The one claim does not hold: {failed[0]}."
    verb = "does" if len(failed) == 1 else "do"
    if len(failed) == count:
        return f"None of the {count} claims holds."
    return f"{count - len(failed)} of {count} claims hold; {', '.join(failed)} {verb} not."


def gain_phrase(row: Mapping[Any, Any], *, level: float | None = 0.95) -> str:
    """A gain as a phrase: ``9.3 % (95 % interval 8.1 to 10.4) below emos``.

    A negative gain is turned round into ``above``; an interval that includes zero is said to.
    Without ``level`` the interval stands alone in the brackets.
    """
    side = "below" if float(row["gain"]) >= 0 else "above"
    return f"{_amount(row, level)} {side} {reference_name(row)}"


def reference_name(row: Mapping[Any, Any]) -> str:
    """Name of a gain's reference; if members could be scored in several ways, in which."""
    estimator = row["reference_estimator"]
    if estimator in OF_MEMBERS:
        return f"{row['reference']} ({estimator} CRPS)"
    return str(row["reference"])


def _amount(row: Mapping[Any, Any], level: float | None) -> str:
    """Size of a gain or loss in per cent with its interval."""
    gain, low, high = (float(row[key]) for key in ("gain", "low", "high"))
    if gain < 0:
        gain, low, high = -gain, -high, -low
    if not np.isfinite([low, high]).all():
        return f"{percent(gain)} % (no interval)"
    doubt = "" if row["excludes_zero"] else ", which includes zero"
    kind = "" if level is None else f"{percent(level, 0)} % interval "
    return f"{percent(gain)} % ({kind}{percent(low)} to {percent(high)}{doubt})"


def _best(scores: pd.DataFrame, score: str, level: float) -> tuple[str, list[str]]:
    """Method with the lowest score of a target, whichever it is, and a sentence about it."""
    table = known(scores[scores["score"] == score], "value")
    if table.empty:
        return "", []
    table = table[table["region"].astype(str) == main_region(table)]
    # the fair score is of an ensemble of endless size, which other forms do not claim to be
    plain = table[~table["estimator"].isin(["fair", "gaussian"])]
    table = plain if len(plain) else table
    best = table.sort_values("value", kind="stable").iloc[0]
    units = units_text(best["units"])
    value = f"{number(best['value'])} {units}".rstrip()
    text = (
        f"On {_counted(best['dates'], 'test date')}, {best['method']}"
        f"{_with_members(best['members'])} has the lowest "
        f"{score_name(score)}{estimator_text(best['estimator'])} for {best['target']} at "
        f"{lead_text(best['step_hours'])}: {value}"
    )
    if np.isfinite([float(best["low"]), float(best["high"])]).all():
        text += f" ({percent(level, 0)} % interval {number(best['low'])} to {number(best['high'])})"
    return str(best["method"]), [f"{text}."]


def _also_better(rows: Sequence[Mapping[Any, Any]], level: float | None) -> list[str]:
    """One sentence for each reference: which other methods are surely better than it."""
    sure: dict[str, list[str]] = {}
    for row in rows:
        if float(row["gain"]) > 0 and row["excludes_zero"]:
            phrase = f"{row['method']} by {_amount(row, level)}"
            sure.setdefault(reference_name(row), []).append(phrase)
    return [f"Also better than {name}: {_and(phrases)}." for name, phrases in sure.items()]


def _not_better(rows: Sequence[Mapping[Any, Any]], score: str, level: float | None) -> list[str]:
    """One sentence for each reference: which methods it is not surely worse than."""
    lost: dict[str, list[Mapping[Any, Any]]] = {}
    for row in rows:
        if not (float(row["gain"]) > 0 and row["excludes_zero"]):
            lost.setdefault(reference_name(row), []).append(row)
    sentences = []
    for name, group in lost.items():
        told = [
            f"{_amount(r, level)} {'below' if float(r['gain']) >= 0 else 'above'}" for r in group
        ]
        if len(group) == 1:
            method = group[0]["method"]
            sentences.append(
                f"{method} does not beat {name}: its {score_name(score)} is {told[0]}."
            )
        else:
            phrases = [f"{r['method']} is {text}" for r, text in zip(group, told, strict=True)]
            sentences.append(f"{len(group)} do not beat {name}: {_and(phrases)}.")
    return sentences


def _unjudged(rows: Sequence[Mapping[Any, Any]], score: str) -> list[str]:
    """What can only be told without an interval, and so is no verdict."""
    found: dict[str, list[str]] = {}
    for row in rows:
        side = "below" if float(row["gain"]) >= 0 else "above"
        text = f"{row['method']} {percent(abs(float(row['gain'])))} % {side}"
        found.setdefault(reference_name(row), []).append(text)
    return [
        f"Against {name}, on too few dates to say which is better, the {score_name(score)} is: "
        f"{_and(texts)}."
        for name, texts in found.items()
    ]


def _counted(count: Any, noun: str) -> str:
    return f"{int(count)} {noun}{'' if int(count) == 1 else 's'}"


def _with_members(members: Any) -> str:
    return f" with {_counted(members, 'member')}" if members_text(members) else ""


def _and(phrases: Sequence[str]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"
