"""Strict models of recipes: what may stand in a ``pipelines/*.yaml`` and what it means.

A key that is not known is refused, with the nearest known one named. Nothing here reads data.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import (
    BaseModel,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from weatherpp.boxes import Box
from weatherpp.errors import ConfigError
from weatherpp.expand import expand
from weatherpp.strict import Label, RegionName, ShortName, Strict, load, read_yaml

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def parse_step(value: str) -> pd.Timedelta:
    """Lead time from text such as ``48h`` or ``2 days``; never negative."""
    fault = ValueError(f"'{value}' is not a lead time; write for example 48h")
    if value.strip().isdigit():  # would be taken as nanoseconds
        raise fault
    try:
        # pandas will not know a small d much longer
        step = pd.Timedelta(re.sub(r"(?<![a-zA-Z])d(?![a-zA-Z])", "D", value))
    except ValueError:
        raise fault from None
    if not step >= pd.Timedelta(0):
        raise fault
    return step


class Target(Strict):
    """The field to post-process: one variable on one level at one lead time."""

    variable: ShortName
    level: int | None = None
    step: str = "0h"
    label: Label | None = None

    @field_validator("step")
    @classmethod
    def _step_is_lead_time(cls, value: str) -> str:
        parse_step(value)
        return value

    @property
    def lead(self) -> pd.Timedelta:
        """Lead time."""
        return parse_step(self.step)

    @property
    def name(self) -> str:
        """Short name, for example ``z500`` or ``t2m``; the label if there is one."""
        return self.label or f"{self.variable}{'' if self.level is None else self.level}"


class MemberChoice(Strict):
    """Which trajectories a method sees.

    ``first`` takes the control and the first perturbed members, ``random`` draws without
    replacement (seeded), ``named`` takes ``numbers``. Every combination of a size can be had
    from :func:`weatherpp.data.fields.combinations`.
    """

    count: int | None = Field(default=None, ge=1)
    choose: Literal["all", "first", "random", "named"] = "all"
    numbers: tuple[int, ...] = ()
    control: bool = True

    @model_validator(mode="after")
    def _consistent(self) -> MemberChoice:
        if self.choose in ("first", "random") and self.count is None:
            raise ValueError(f"choose: {self.choose} needs a count")
        if (self.choose == "named") != bool(self.numbers):
            raise ValueError("numbers go with choose: named, and only with it")
        if len(set(self.numbers)) < len(self.numbers):
            raise ValueError("numbers names a member twice")
        if self.choose == "named" and self.count is not None:
            raise ValueError("count does not go with choose: named")
        return self


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

    The first dates, which have no whole window before them, are not predicted.
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


Source = Annotated[
    Annotated[TwinSource, Tag("Twin")]
    | Annotated[SpeedySource, Tag("Speedy")]
    | Annotated[CatalogSource, Tag("Catalog")],
    _closest({"Twin": TwinSource, "Speedy": SpeedySource, "Catalog": CatalogSource}),
]
Split = Annotated[
    Annotated[YearSplit, Tag("Years")]
    | Annotated[FoldSplit, Tag("Folds")]
    | Annotated[WindowSplit, Tag("Window")],
    _closest({"Years": YearSplit, "Folds": FoldSplit, "Window": WindowSplit}),
]


class Range(Strict):
    """Values from ``low`` to ``high``, both included; whole numbers if both are."""

    low: int | Finite
    high: int | Finite
    log: bool = Field(default=False, description="evenly in the logarithm")

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"low: {self.low} is not below high: {self.high}")
        if self.log and self.low <= 0:
            raise ValueError("log: true needs a low above zero")
        return self


Choices = Annotated[tuple[bool | int | float | str, ...], Field(min_length=1)]
Search = Annotated[
    Annotated[Range, Tag("Range")] | Annotated[Choices, Tag("Choices")],
    Discriminator(lambda data: "Range" if isinstance(data, (Mapping, Range)) else "Choices"),
]


class MethodEntry(Strict):
    """One method in a recipe: which one, under which label, on which members.

    ``seed`` replaces that of the recipe; ``years`` takes the last so many years of training only.
    ``full`` says whose spread a job ``spread`` is to tell: that of all members, or of the others
    than those given, so that no member is in both.
    ``search`` says what ``weatherpp tune`` tries for settings such as ``training.learning_rate``:
    a range or a list of choices; it changes no fit.
    In a recipe ``each: {count: [...], seed: [...], years: [...]}`` stands for several entries, see
    :func:`weatherpp.expand.expand`.
    """

    label: Label
    method: Label
    job: Literal["forecast", "spread"] = "forecast"
    members: MemberChoice = MemberChoice()
    full: Literal["all", "others"] = "all"
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    years: int | None = Field(default=None, ge=1, description="of training; None for all")
    settings: dict[str, Any] = Field(default_factory=dict)
    search: dict[str, Search] = Field(default_factory=dict, exclude=True)

    @model_validator(mode="after")
    def _others(self) -> MethodEntry:
        if self.full == "others" and self.job != "spread":
            raise ValueError("full: others goes with job: spread, and only with it")
        return self


class Tracking(Strict):
    """Where the networks' losses are recorded while they train; changes no fit.

    A folder for ``csv`` or ``tensorboard``, the address of a server or database for ``mlflow``.
    """

    csv: str | None = Field(default=None, min_length=1)
    tensorboard: str | None = Field(default=None, min_length=1)
    mlflow: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> Tracking:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("tracking takes one of csv, tensorboard, mlflow")
        return self

    @property
    def kind(self) -> str:
        """Which of them."""
        return next(iter(self.model_dump(exclude_none=True)))

    @property
    def place(self) -> str:
        """Folder or address."""
        return str(getattr(self, self.kind))


class Bootstrap(Strict):
    """Moving-block bootstrap over initial dates."""

    samples: int = Field(default=1000, ge=100, le=100_000)
    block: int = Field(default=4, ge=1, description="dates a block")
    level: float = Field(default=0.95, gt=0.5, lt=1.0)


class MemberProduct(Strict):
    """Members in the post-processed files, see :mod:`weatherpp.methods.copula`.

    The order of the members at each point is that of the raw members (``ecc-q``, ``ecc-r``,
    ``ecc-s``: values at equidistant, random or stratified levels), or of analyses of the training
    period (``schaake``) no more than ``window`` days of the year away.
    """

    coupling: Literal["ecc-q", "ecc-r", "ecc-s", "schaake"]
    count: int | None = Field(
        default=None, ge=2, description="members to make; by default as many raw ones as there are"
    )
    window: float | None = Field(default=30.0, gt=0, description="days of the year; None for all")

    @model_validator(mode="after")
    def _consistent(self) -> MemberProduct:
        if self.coupling == "schaake" and self.count is None:
            raise ValueError("coupling: schaake needs a count")
        if self.coupling != "schaake" and "window" in self.model_fields_set:
            raise ValueError("window goes with coupling: schaake, and only with it")
        return self


class ProductSettings(Strict):
    """What the post-processed files hold besides mean and spread."""

    members: MemberProduct | None = None
    quantiles: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.05, 0.25, 0.5, 0.75, 0.95), min_length=1
    )

    @field_validator("quantiles")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if list(value) != sorted(set(value)):
            raise ValueError("quantile levels must ascend")
        return value


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


REGIONS = ("whole grid", "northern extratropics", "tropics", "southern extratropics")
"""Regions that there are without a box, where the grid reaches so far."""
EXTREME = "extreme dates"
"""Name of the extreme dates in the column ``region`` of tables of scores."""


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


class Recipe(Strict):
    """A whole job: source, targets, split, methods, and what to make of them."""

    name: Label
    title: str = ""
    seed: int = Field(default=1, ge=0, lt=2**31)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    source: Source
    targets: tuple[Target, ...] = Field(min_length=1)
    split: Split | None = None
    methods: tuple[MethodEntry, ...] = Field(min_length=1)
    products: ProductSettings = ProductSettings()
    verify: VerifySettings = VerifySettings()
    cases: CaseSettings | None = None
    report: ReportSettings = ReportSettings()
    tracking: Tracking | None = None
    claims: tuple[Claim, ...] = ()

    @field_validator("methods", mode="before")
    @classmethod
    def _each(cls, value: Any) -> Any:
        return expand(value)

    def _scored(self, what: str, score: str, labels: Iterable[str]) -> None:
        """Refuse a score that methods of that job do not get."""
        job = "spread" if score == "spread_rmse" else "forecast"
        for entry in self.methods:
            if entry.label in labels and entry.job != job:
                raise ValueError(
                    f"{what}: {score} is a score of job: {job}, but {entry.label} has job: "
                    f"{entry.job}"
                )

    @model_validator(mode="after")
    def _labels(self) -> Recipe:
        labels = [entry.label for entry in self.methods]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise ValueError(f"two methods have the label {', '.join(sorted(twice))}")
        names = {target.name for target in self.targets}
        if len(names) < len(self.targets):
            raise ValueError("two targets have the same variable and level; give them labels")
        for name in self.report.thresholds:
            if name not in names:
                raise ValueError(f"report.thresholds names the unknown target {name}")
        for label in self.verify.references:
            if label not in labels:
                raise ValueError(f"verify.references names the unknown method {label}")
        for key in ("raw", "baseline", "best"):
            shown = getattr(self.cases, key, None)
            if shown is not None and shown not in labels:
                raise ValueError(f"cases.{key} names the unknown method {shown}")
        for label in self.report.highlights:
            if label not in labels:
                raise ValueError(f"report.highlights names the unknown method {label}")
        for curve in self.verify.curves:
            for label in curve.labels:
                if label not in labels:
                    raise ValueError(f"curve '{curve.title}' names the unknown method {label}")
            self._scored(f"curve '{curve.title}'", curve.score, curve.labels)
        if len({claim.name for claim in self.claims}) < len(self.claims):
            raise ValueError("two claims have the same name")
        for claim in self.claims:
            if claim.better == claim.than:
                raise ValueError(f"claim '{claim.name}' compares {claim.better} with itself")
            for label in (claim.better, claim.than):
                if label not in labels:
                    raise ValueError(f"claim '{claim.name}' names the unknown method {label}")
            self._scored(f"claim '{claim.name}'", claim.score, (claim.better, claim.than))
            wholes = {e.full for e in self.methods if e.label in (claim.better, claim.than)}
            if claim.score == "spread_rmse" and len(wholes) > 1:
                raise ValueError(
                    f"claim '{claim.name}' compares spreads of different ensembles; give both "
                    "methods the same full"
                )
            if claim.region == EXTREME and not self.verify.extremes:
                raise ValueError(f"claim '{claim.name}' is about extremes; set verify.extremes")
            known = (*REGIONS, EXTREME, *self.verify.regions)
            if claim.region not in known:
                raise ValueError(
                    f"claim '{claim.name}' is about the unknown region {claim.region}; known: "
                    f"{', '.join(known)}"
                )
            if claim.target not in names:
                raise ValueError(f"claim '{claim.name}' names the unknown target {claim.target}")
        return self


def load_recipe(path: Path, overrides: tuple[str, ...] = ()) -> Recipe:
    """Read, override and check a recipe file.

    Raises
    ------
    ConfigError
        With one line for the user.
    """
    data = read_yaml(path)
    source = data.get("source") if isinstance(data, dict) else None
    if isinstance(source, dict) and "driver" in source:
        raise ConfigError(
            f"{path}: is an operational recipe, of a job for each cycle; run it with "
            f"'weatherpp nightly --recipe {path}'"
        )
    return load(Recipe, path, overrides)
