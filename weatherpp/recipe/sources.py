"""Where data come from, and how their dates are parted into training and test."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    Tag,
    field_validator,
    model_validator,
)

from weatherpp.recipe.targets import parse_step
from weatherpp.strict import Label, Strict


class YearSplit(Strict):
    """Training, validation and test by years, each an inclusive range [first, last].

    Dates whose valid time reaches into another split's first initial time are dropped from
    the earlier one: the gap is the lead time.
    """

    train: tuple[int, int]
    valid: tuple[int, int]
    test: tuple[int, int]

    @model_validator(mode="after")
    def _ordered(self) -> YearSplit:
        ranges = {"train": self.train, "valid": self.valid, "test": self.test}
        for name, (first, last) in ranges.items():
            if first > last:
                raise ValueError(f"{name}: {first} comes after {last}")
        items = sorted(ranges.items(), key=lambda item: item[1])
        for (one, a), (two, b) in itertools.pairwise(items):
            if b[0] <= a[1]:
                raise ValueError(f"{one} and {two} share the year {b[0]}")
        return self


class FoldSplit(Strict):
    """Cross validation: what is left out once, and with it those dates that are no more than the
    lead time away.

    ``time``: each initial time, for short samples. ``year``: each calendar year; the one before it
    (for the first, the last) validates.
    """

    leave_out: Literal["time", "year"]


class WindowSplit(Strict):
    """A sliding window: each date is predicted by a model of its own, fitted on the dates whose
    valid times lie before its initial time and no more than ``window`` before it.

    The first dates, which have no whole window before them, are not predicted, nor are those
    after a gap whose window holds less than half of the dates of the fullest.
    """

    window: str

    @field_validator("window")
    @classmethod
    def _window_is_a_time(cls, value: str) -> str:
        if not parse_step(value) > pd.Timedelta(0):
            raise ValueError("a window of no length has no dates to train on")
        return value

    @property
    def length(self) -> pd.Timedelta:
        """Length of the window."""
        return parse_step(self.window)


class TwinSource(Strict):
    """The embedded atmosphere; settings go to :class:`weatherpp.twin.TwinConfig`."""

    twin: dict[str, Any]


class SpeedySource(Strict):
    """The embedded atmosphere SPEEDY; settings go to :class:`weatherpp.speedy.SpeedyConfig`."""

    speedy: dict[str, Any]


class CatalogSource(Strict):
    """A source of the data catalog, by name; ``root`` overrides where its files are."""

    catalog: Label
    root: str | None = None


def _closest(models: Mapping[str, type[BaseModel]]) -> Discriminator:
    """Choose the union member by the keys given, misspelt ones included, so that a fault is
    told of the model that was meant."""

    def tag(data: Any) -> str:
        if isinstance(data, BaseModel):
            return next(name for name, model in models.items() if isinstance(data, model))
        keys = [str(key) for key in data] if isinstance(data, Mapping) else []

        def likeness(name: str) -> float:
            known = models[name].model_fields
            ratio = difflib.SequenceMatcher
            return sum(max(ratio(None, key, k).ratio() for k in known) for key in keys)

        return max(models, key=likeness)

    return Discriminator(tag)


def _names_one(data: Any) -> Any:
    if data is None or data == {}:
        raise ValueError("names no data; write one of twin, speedy and catalog below it")
    return data


Source = Annotated[
    Annotated[TwinSource, Tag("Twin")]
    | Annotated[SpeedySource, Tag("Speedy")]
    | Annotated[CatalogSource, Tag("Catalog")],
    _closest({"Twin": TwinSource, "Speedy": SpeedySource, "Catalog": CatalogSource}),
    BeforeValidator(_names_one),
]
Split = Annotated[
    Annotated[YearSplit, Tag("Years")]
    | Annotated[FoldSplit, Tag("Folds")]
    | Annotated[WindowSplit, Tag("Window")],
    _closest({"Years": YearSplit, "Folds": FoldSplit, "Window": WindowSplit}),
]
