"""What a report and its case studies show."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from weatherpp.recipe.targets import Finite, Positive
from weatherpp.strict import Label, ShortName, Strict


class ReportSettings(Strict):
    """What the report says and shows.

    ``highlights`` are the methods that the charts and the words are about, where a recipe has too
    many for a reader; the tables have all.
    """

    title: str = ""
    notes: tuple[str, ...] = ()
    highlights: tuple[Label, ...] = ()
    maps: int = Field(default=1, ge=0, le=2, description="dates to map for each target")
    thresholds: dict[str, tuple[Finite, ...]] = Field(
        default_factory=dict, description="exceedance probabilities to map, by target name"
    )


class FindSettings(Strict):
    """Events found by rule in the analyses of the verified dates, see
    :mod:`weatherpp.events.find`.

    Without ``tail`` geopotential and pressure have their extremes below, all others above. Events
    closer than both ``days`` and ``km`` are one.
    """

    variable: ShortName = "z"
    level: int | None = None
    count: int = Field(default=5, ge=1, le=100)
    tail: Literal["low", "high"] | None = None
    days: Positive = 4.0
    km: Positive = 3000.0


class CaseSettings(Strict):
    """Case studies: files of cases (paths, or names in ``pipelines/cases``), and events to find.

    ``raw``, ``baseline`` and ``best`` are the methods that the maps and charts show; by default the
    first, the first of EMOS, and the last one of job forecast. ``season`` compares with training
    dates no more than so many days of the year away; without it with all.
    """

    files: tuple[str, ...] = ()
    find: FindSettings | None = None
    season: float | None = Field(default=None, gt=0, le=183)
    raw: Label | None = None
    baseline: Label | None = None
    best: Label | None = None

    @model_validator(mode="after")
    def _any(self) -> CaseSettings:
        if not self.files and self.find is None:
            raise ValueError("cases needs files, or find")
        return self
