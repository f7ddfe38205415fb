"""What a case study is about: strict models of ``pipelines/cases/*.yaml``."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import AfterValidator, BeforeValidator, model_validator

from weatherpp.boxes import Box, Latitude, Longitude, degrees_in_words, signed
from weatherpp.conventions import VARIABLES
from weatherpp.data.checks import RANGES, limits_at
from weatherpp.recipe import Finite, Positive
from weatherpp.strict import Label, ShortName, Strict


def _moment(value: Any) -> datetime:
    """A date with its hour, as YAML or JSON have it; numbers would be taken as seconds."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value) if len(value.strip()) > 10 else None
        except ValueError:
            value = None
    if not isinstance(value, datetime):
        raise ValueError("not a date with its hour; write for example 2016-02-20 00:00:00 (UTC)")
    return value


def _utc(value: datetime) -> datetime:
    """In UTC, without a zone; what has no zone is in UTC."""
    try:
        found = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        pd.Timestamp(found).as_unit("ns")
    except (OverflowError, pd.errors.OutOfBoundsDatetime):
        raise ValueError("a date must lie between the years 1678 and 2261") from None
    return found


Moment = Annotated[datetime, BeforeValidator(_moment), AfterValidator(_utc)]


class Point(Strict):
    """A place, for plume and meteogram."""

    latitude: Latitude
    longitude: Longitude

    def __str__(self) -> str:
        latitude = degrees_in_words(self.latitude, "SN")
        return f"{latitude}, {degrees_in_words(signed(self.longitude), 'WE')}"


class CaseField(Strict):
    """A variable that the case is told by; ``level`` in hPa for one that has levels."""

    variable: ShortName
    level: int | None = None

    @property
    def name(self) -> str:
        """Short name, for example ``z500``."""
        return f"{self.variable}{'' if self.level is None else self.level}"


class Threshold(CaseField):
    """An event of a yes or no: values of a variable ``above`` or ``below`` a limit (SI units)."""

    above: Finite | None = None
    below: Finite | None = None

    @model_validator(mode="after")
    def _one(self) -> Threshold:
        if (self.above is None) == (self.below is None):
            raise ValueError("a threshold takes one of above, below")
        low, high = RANGES.get(self.variable, (-math.inf, math.inf))
        if self.variable in ("z", "t") and self.level is not None and self.level > 0:
            low, high = limits_at(self.variable, self.level)
        if not low <= self.limit <= high:
            units = VARIABLES[self.variable].units
            raise ValueError(
                f"{self.name} never is {self.limit:g} {units}; thresholds are in {units}, here "
                f"from {low:.3g} to {high:.3g}"
            )
        return self

    @property
    def limit(self) -> float:
        """The value."""
        return float(self.above if self.above is not None else self.below or 0.0)


class TrackRule(CaseField):
    """What is followed, see :mod:`weatherpp.events.track`.

    ``radius`` (km): how far from the analysis' centre a member's may be. ``speed`` (km/h): how fast
    the analysis' centre may move.
    """

    extreme: Literal["min", "max"] = "min"
    radius: Positive = 750.0
    speed: Positive = 40.0


class Case(Strict):
    """One event: where, when, told by what.

    ``start`` and ``end`` bound the valid times, both included, in UTC; ``peak`` is the valid time
    to show (by default that nearest the middle). Without ``variables`` all targets of the recipe
    are shown; ``point`` is by default the middle of the box. ``recipe`` names the recipe that can
    run it, ``source`` where its facts are from.
    """

    name: Label
    title: str = ""
    kind: str = ""
    start: Moment
    end: Moment
    peak: Moment | None = None
    box: Box
    point: Point | None = None
    variables: tuple[CaseField, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    track: TrackRule | None = None
    story: str = ""
    source: str = ""
    recipe: Label | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Case:
        if self.end < self.start:
            raise ValueError(f"end {self.end} comes before start {self.start}")
        if self.peak is not None and not self.start <= self.peak <= self.end:
            raise ValueError(f"peak {self.peak} is not between start and end")
        if self.point is not None and not self.box.holds(self.point.latitude, self.point.longitude):
            raise ValueError(f"point {self.point} is not in the box {self.box}")
        names = [field.name for field in self.variables]
        if len(set(names)) < len(names):
            raise ValueError("variables names one twice")
        for threshold in self.thresholds:
            if names and threshold.name not in names:
                raise ValueError(f"thresholds: {threshold.name} is none of the case's variables")
        return self

    @property
    def heading(self) -> str:
        """Title, or name if it has none."""
        return self.title or self.name

    @property
    def place(self) -> Point:
        """The point, or the middle of the box."""
        latitude, longitude = self.box.centre
        return self.point or Point(latitude=latitude, longitude=longitude)

    @property
    def middle(self) -> pd.Timestamp:
        """The peak, or half way between start and end."""
        first = pd.Timestamp(self.start)
        return (
            pd.Timestamp(self.peak) if self.peak else first + (pd.Timestamp(self.end) - first) / 2
        )

    def covers(self, valid: pd.DatetimeIndex) -> Any:
        """Which of some valid times are the case's; booleans."""
        return (valid >= pd.Timestamp(self.start)) & (valid <= pd.Timestamp(self.end))
