"""How forecasts are scored, and what the scores must bear out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from weatherpp.boxes import Box
from weatherpp.strict import Label, RegionName, Strict

REGIONS = ("whole grid", "northern extratropics", "tropics", "southern extratropics")
"""Regions that there are without a box, where the grid reaches so far."""
EXTREME = "extreme dates"
"""Name of the extreme dates in the column ``region`` of tables of scores."""


class Bootstrap(Strict):
    """Moving-block bootstrap over initial dates."""

    samples: int = Field(default=1000, ge=100, le=100_000)
    block: int = Field(default=4, ge=1, description="dates a block")
    level: float = Field(default=0.95, gt=0.5, lt=1.0)


class Curve(Strict):
    """A score drawn against what it depends on, such as the number of members.

    ``lines`` names, for each line, the method at each x; several methods at one x, which differ in
    their seed, are averaged. ``worth`` names the line that the others are measured along: how many
    members of that one a method is worth. ``by`` says what x is.
    """

    title: str = Field(min_length=1)
    by: str = Field(min_length=1)
    score: Literal["crps", "rmse", "spread_rmse"] = "crps"
    lines: dict[
        Label, dict[Annotated[float, Field(gt=0, allow_inf_nan=False)], tuple[Label, ...]]
    ] = Field(min_length=1)
    worth: Label | None = None

    @field_validator("lines", mode="before")
    @classmethod
    def _one_method(cls, value: Any) -> Any:
        """A point of one method may be written without a list."""
        if not isinstance(value, Mapping):
            return value
        return {
            line: {x: [at] if isinstance(at, str) else at for x, at in methods.items()}
            if isinstance(methods, Mapping)
            else methods
            for line, methods in value.items()
        }

    @model_validator(mode="after")
    def _whole(self) -> Curve:
        for line, methods in self.lines.items():
            if not methods or not all(methods.values()):
                raise ValueError(f"line {line} lacks a method")
        if self.worth is not None and self.worth not in self.lines:
            raise ValueError(f"worth names the unknown line {self.worth}")
        return self

    @property
    def labels(self) -> list[str]:
        """All methods on its lines."""
        found = itertools.chain(*(methods.values() for methods in self.lines.values()))
        return list(itertools.chain(*found))


class VerifySettings(Strict):
    """How to score.

    ``references`` are the methods that gains are told against; by default the first method of
    each job. ``extremes`` is the share of the test dates, those whose analyses are farthest from
    the climate, that are scored by themselves too, as the region ``extreme dates``. ``regions`` are
    boxes by name to score apart, beside the bands of latitude; ``clusters`` is the number of groups
    of neighbouring stations to score apart, see :mod:`weatherpp.verify.regions`.
    """

    bootstrap: Bootstrap = Bootstrap()
    references: tuple[Label, ...] = ()
    extremes: float = Field(default=0.0, ge=0, le=0.5)
    regions: dict[RegionName, Box] = Field(default_factory=dict, max_length=50)
    clusters: int = Field(default=0, ge=0, le=50)
    curves: tuple[Curve, ...] = ()

    @field_validator("regions")
    @classmethod
    def _own_names(cls, value: dict[str, Box]) -> dict[str, Box]:
        for name in value:
            if name in {*REGIONS, EXTREME} or name.startswith("cluster "):
                raise ValueError(f"weatherpp has a region {name} of its own; choose another name")
        return value


class Claim(Strict):
    """A statement that the scores must bear out: method ``better`` scores lower than ``than``.

    It holds if the relative gain is at least ``gain`` (a fraction) and the interval of the
    gain excludes zero. ``estimator`` and ``than_estimator`` choose among the estimators that
    a method is scored with (``plain``, ``fair``, ``gaussian``); by default the first. ``region``
    may be a band of latitude, one of ``verify.regions``, or ``extreme dates`` if
    ``verify.extremes`` is set.
    """

    name: str
    target: str
    score: Literal["crps", "rmse", "spread_rmse"] = "crps"
    estimator: str | None = None
    better: Label
    than: Label
    than_estimator: str | None = None
    region: str = "whole grid"
    gain: float = Field(default=0.0, allow_inf_nan=False)
