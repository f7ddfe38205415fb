"""What a catalog entry says of a table: which column is what. Nothing here reads data.

A key that names a column is text; a number in its place is a constant, the same for all rows.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from weatherpp.conventions import LEAD_UNITS
from weatherpp.recipe import parse_step
from weatherpp.strict import Strict

EPOCH = "epoch"
LONGEST_NAME = 200
"""Characters of a column's name that is matched with a regular expression, and of that."""


class LeadColumn(Strict):
    """Column of lead times; ``unit`` for numbers (``h``, ``s``...), none for durations."""

    column: str
    unit: str | None = None

    @field_validator("unit")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in LEAD_UNITS:
            raise ValueError(f"'{value}' is not a unit of time; known: {', '.join(LEAD_UNITS)}")
        return value


class StationColumns(Strict):
    """Where a row belongs: by the column ``id``, by ``name`` if all rows are of one station.

    With neither, every place is a station of its own, named by its latitude and longitude.
    An id with several places (a ship, a station that was moved) is refused, or with ``moving:
    separate`` each of its places is a station, named ``ID@LATITUDE,LONGITUDE``.
    """

    id: str | None = None
    name: str | None = None
    latitude: float | str
    longitude: float | str
    altitude: float | str | None = None
    moving: Literal["refuse", "separate"] = "refuse"

    @model_validator(mode="after")
    def _one_identity(self) -> StationColumns:
        if self.id is not None and self.name is not None:
            raise ValueError("id (a column) and name (of the one station) exclude each other")
        constant = isinstance(self.latitude, float) and isinstance(self.longitude, float)
        if (self.name is not None) != constant:
            raise ValueError("name goes with one latitude and longitude as numbers")
        return self


class PercentileColumns(Strict):
    """A long table, one row for each percentile.

    Percentiles are no members: neighbours are not independent, and a few of them are no smaller
    ensemble. They are refused as a forecast unless ``as_members`` lists the levels to take for
    members, which must be those that m members stand for: 100 k / (m + 1), k = 1 to m.
    """

    level: str
    value: str
    as_members: tuple[float, ...] = ()

    @field_validator("as_members")
    @classmethod
    def _evenly_spaced(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        even = 100 * np.arange(1, len(value) + 1) / (len(value) + 1)
        if not np.allclose(value, even, atol=1e-4):
            raise ValueError(
                f"{len(value)} percentiles stand for as many members only at "
                f"{', '.join(f'{level:g}' for level in even)}"
            )
        return value


class TruthColumns(Strict):
    """Observations in tables of their own, under ``files.analysis``.

    Places are those of the forecast's table, so the id alone says which station it is. Without
    a column ``units`` the unit is that of the entry.
    """

    valid_time: str
    time_format: str | None = None
    id: str | None = None
    value: str
    units: str | None = None


def quick(pattern: str) -> bool:
    """Whether a regular expression with one group matches in a time that is bounded by the square
    of the text's length: it has two repeats at most, none of the group, and no ``(?``.

    Entries come from others, and a pattern such as ``(a+)+b`` takes for ever.
    """
    plain = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", pattern, flags=re.DOTALL)
    repeats = re.findall(r"[*+?]|\{[\d,]+\}", re.sub(r"([*+?}])[?+]", r"\1", plain))
    return len(repeats) <= 2 and not re.search(r"\(\?|\)[*+?{]", plain)


class TableLayout(Strict):
    """Columns of a table of point forecasts.

    Of initial time, valid time and lead time two are needed; if all three are there they must
    add up.

    Attributes
    ----------
    sheet
        Table within an SQLite data base.
    initial_time, valid_time
        Columns of times (UTC).
    run
        Initial time of all rows, for a table without dates.
    time_format
        As for ``strptime``, or ``epoch`` for seconds since 1970; by default ISO 8601.
    lead
        Lead time: the same for all rows (``48h``), or a column.
    members
        Columns of members in their order (numbered from 1), or a regular expression that
        matches all of a column's name and has one group, the member's number; see :func:`quick`.
    percentiles
        Instead of members.
    exchangeable
        Whether any member could stand for any other; False for members that are named models.
    observation
        Column of the observation in the same row; none if there is no truth or it is in
        tables of its own (``truth``).
    units
        Column of the unit, if there is one; it goes before that of the entry.
    window
        Time over which a value is a sum or an extreme, up to the valid time, such as ``24 h``.
    missing
        Numbers that stand for a missing value.
    duplicates
        Two rows for one place in the table: ``refuse``, or ``last`` for the row further down.
    """

    sheet: str | None = None
    initial_time: str | None = None
    valid_time: str | None = None
    run: str | None = None
    time_format: str | None = None
    lead: str | LeadColumn | None = None
    station: StationColumns
    members: tuple[str, ...] | str = ()
    percentiles: PercentileColumns | None = None
    exchangeable: bool = True
    observation: str | None = None
    truth: TruthColumns | None = None
    units: str | None = None
    window: str | None = None
    missing: tuple[float, ...] = Field(default=())
    duplicates: Literal["refuse", "last"] = "refuse"

    @field_validator("lead")
    @classmethod
    def _is_lead_time(cls, value: str | LeadColumn | None) -> str | LeadColumn | None:
        if isinstance(value, str):
            parse_step(value)
        return value

    @field_validator("members")
    @classmethod
    def _is_pattern(cls, value: tuple[str, ...] | str) -> tuple[str, ...] | str:
        if isinstance(value, str):
            if len(value) > LONGEST_NAME:
                raise ValueError(f"a regular expression of more than {LONGEST_NAME} characters")
            try:
                groups = re.compile(value).groups
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"'{value}' is no regular expression ({error})") from None
            if groups != 1:
                raise ValueError(f"'{value}' needs one group, around the member's number")
            if not quick(value):
                raise ValueError(
                    f"'{value}' might take for ever to match; write it with two of * + ? {{}} at "
                    "most, none of them on the group, and without (?"
                )
        elif len(set(value)) < len(value):
            raise ValueError("a column is named twice")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> TableLayout:
        if bool(self.members) == (self.percentiles is not None):
            raise ValueError("needs either members or percentiles")
        if self.run is not None and self.initial_time is not None:
            raise ValueError("run and initial_time exclude each other")
        initial = self.run if self.run is not None else self.initial_time
        given = [part for part in (initial, self.valid_time, self.lead) if part is not None]
        if len(given) < 2:
            raise ValueError("needs two of initial_time, valid_time and lead")
        if self.observation is not None and self.truth is not None:
            raise ValueError("observation and truth exclude each other")
        return self
