"""What a report holds, as plain data.

The columns of the tables are named here once; figures, words and the page read only these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.report.tables import WideTable

SCORE_COLUMNS = (
    "method",
    "members",
    "target",
    "step_hours",
    "region",
    "score",
    "estimator",
    "value",
    "low",
    "high",
    "units",
    "dates",
)
GAIN_COLUMNS = (
    "method",
    "target",
    "reference",
    "reference_estimator",
    "gain",
    "low",
    "high",
    "excludes_zero",
)
CLAIM_KEYS = ("name", "text", "value", "low", "high", "bound", "holds")


@dataclass(frozen=True)
class Figure:
    """One image of the report.

    Parameters
    ----------
    png
        The image file.
    alt
        What the image shows, for those who cannot see it; never empty.
    caption
        What to read from it, with units; plain text.
    chart
        Lines and bars on white, which the page may invert in dark mode; maps keep their colours.
    target, methods
        Whose image it is, if not of all; the page's switches hide it with them.
    """

    png: bytes
    alt: str
    caption: str
    chart: bool = True
    target: str = ""
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise InputError("a figure of the report needs an alt text")


@dataclass(frozen=True)
class Section:
    """A titled part of the report: paragraphs, figures, tables; of one target, or of all."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    target: str = ""
    tables: list[WideTable] = field(default_factory=list)


def empty_scores() -> pd.DataFrame:
    """Scores table without rows."""
    return pd.DataFrame(columns=list(SCORE_COLUMNS))


def empty_gains() -> pd.DataFrame:
    """Gains table without rows."""
    return pd.DataFrame(columns=list(GAIN_COLUMNS))


class About(NamedTuple):
    """What a target is about: its variable (``z500``) and its lead time in hours."""

    variable: str
    step_hours: float


@dataclass(frozen=True)
class ReportData:
    """Everything the report of one run says and shows; all text is plain text.

    Parameters
    ----------
    title, name
        Headline, and the name of the run.
    summary, notes
        Paragraphs; ``summary`` as from :func:`weatherpp.report.words.summary`.
    claims
        One mapping each with the keys ``name``, ``text``, ``value``, ``low``, ``high``,
        ``bound`` and ``holds`` (None: for information only). Values are fractions (shown in per
        cent) unless a key ``units`` names other units.
    scores
        Tidy table with the columns `SCORE_COLUMNS`. ``low`` and ``high`` bound the interval.
    gains
        Tidy table with the columns `GAIN_COLUMNS`; ``gain`` is the fraction by which the score
        lies below that of the reference. Columns ``score`` (else all are of the CRPS) and
        ``region`` (else all are of one) are optional.
    histograms
        Rank or PIT counts by target and method, as for
        :func:`weatherpp.report.figures.rank_histograms`.
    sections
        Maps, figures and text by part.
    targets
        What each target is about; those that are not named are their own variable.
    provenance
        How the report was made: label to text (seed, versions, commit, times).
    left_out
        What was not done or is not shown, and why; one line each.
    recipe_text
        The recipe as it was run.
    highlights
        Methods that the charts show; all if empty.
    level
        Of all intervals.

    Raises
    ------
    InputError
        A table lacks a column or a claim lacks a key.
    """

    title: str
    name: str
    summary: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    scores: pd.DataFrame = field(default_factory=empty_scores)
    gains: pd.DataFrame = field(default_factory=empty_gains)
    histograms: Mapping[str, Mapping[str, NDArray[np.float64] | xr.DataArray]] = field(
        default_factory=dict
    )
    sections: list[Section] = field(default_factory=list)
    targets: Mapping[str, About] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    recipe_text: str = ""
    highlights: tuple[str, ...] = ()
    level: float = 0.95

    def about(self, target: str) -> About | None:
        """What a target is about; None if neither told nor scored."""
        if target in self.targets:
            return self.targets[target]
        steps = self.scores.loc[self.scores["target"] == target, "step_hours"]
        return About(target, float(steps.iloc[0])) if len(steps) else None

    def __post_init__(self) -> None:
        need_columns(self.scores, SCORE_COLUMNS, "scores")
        need_columns(self.gains, GAIN_COLUMNS, "gains")
        for claim in self.claims:
            missing = [key for key in CLAIM_KEYS if key not in claim]
            if missing:
                raise InputError(f"claim '{claim.get('name', '')}' lacks {', '.join(missing)}")


def chosen(table: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Rows of some methods, in the order they have; all if none is named."""
    return table[table["method"].isin(list(methods))] if methods else table


def need_columns(table: pd.DataFrame, columns: tuple[str, ...], name: str) -> None:
    """Raise InputError if ``table`` lacks one of ``columns``."""
    missing = [column for column in columns if column not in table]
    if missing:
        raise InputError(f"the table of {name} lacks the column(s) {', '.join(missing)}")
