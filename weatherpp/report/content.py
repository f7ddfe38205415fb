"""What a report holds, as plain data.

The columns of the tables are named here once; figures, words and the page read only these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError

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
    """

    png: bytes
    alt: str
    caption: str
    chart: bool = True

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise InputError("a figure of the report needs an alt text")


@dataclass(frozen=True)
class Section:
    """A titled part of the report: paragraphs, then figures."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


def empty_scores() -> pd.DataFrame:
    """Scores table without rows."""
    return pd.DataFrame(columns=list(SCORE_COLUMNS))


def empty_gains() -> pd.DataFrame:
    """Gains table without rows."""
    return pd.DataFrame(columns=list(GAIN_COLUMNS))


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
        lies below that of the reference. A column ``score`` is optional (else all are of the
        CRPS).
    histograms
        Rank or PIT counts by target and method, as for
        :func:`weatherpp.report.figures.rank_histograms`.
    sections
        Maps, figures and text by part.
    provenance
        How the report was made: label to text (seed, versions, commit, times).
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
    provenance: dict[str, str] = field(default_factory=dict)
    recipe_text: str = ""
    highlights: tuple[str, ...] = ()
    level: float = 0.95

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
