"""Strict models of the nightly job's recipe."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from weatherpp.data.catalog import Files, SourceVariable
from weatherpp.data.regrid import GridSettings
from weatherpp.data.urls import is_url, local_folder
from weatherpp.recipe import Bootstrap, Finite, ProductSettings, Target, parse_step
from weatherpp.strict import Label, Strict, load

FIELD = re.compile(r"\{(cycle|valid):([^{}]+)\}")
PREFIX = "WEATHERPP_NIGHTLY_"
SUFFIX = ".grib2"
WILD = re.compile(r"[*?\[]")
STEP = re.compile(r"\{step(?::(0\d))?\}")


def _as_texts(values: Any) -> Any:
    """Numbers as text, as an index has them."""
    return [str(v) if type(v) is int else v for v in values] if isinstance(values, list) else values


def _is_duration(value: str) -> str:
    parse_step(value)
    return value


Duration = Annotated[str, AfterValidator(_is_duration)]
Factor = Annotated[float, Field(gt=1, allow_inf_nan=False)]


Wanted = dict[str, Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_as_texts)]]


class DropSource(Strict):
    """A folder into which others put the files, and how their names tell what is in them; or a
    URL with the same, from which they are fetched.

    ``forecast`` and ``analysis`` are glob patterns below ``root`` with fields such as
    ``{cycle:%Y%m%dT%H}`` (initial time) and ``{valid:%Y%m%dT%H}``, in the codes of ``strftime``;
    all in UTC. ``{step}`` in a pattern, or ``{step:03}``, stands for each of ``steps``, in hours.
    ``count`` is how many files a cycle has; without it, as many as there are patterns do, once
    they no longer grow. They are looked for every ``poll`` until ``wait`` is over, and a file
    counts once it has not changed for ``settle``. ``variables`` and ``grid`` are those of a catalog
    entry.

    Below a URL, a GRIB file may have an index beside it (``.index`` for ``.grib2``, as that of
    ECMWF's open data). With ``fields``, what is fetched of such forecast files is the messages that
    any of these entries describes: ``{param: [gh, t], levelist: [500, 850]}`` is those of which
    the index says one of these values for each of these keys. ``analysis_fields`` says the same of
    the analyses.
    """

    driver: Literal["netcdf", "grib", "zarr"]
    root: str
    forecast: tuple[str, ...] = Field(min_length=1)
    analysis: tuple[str, ...] = ()
    steps: tuple[Annotated[int, Field(ge=0)], ...] = ()
    fields: tuple[Wanted, ...] = ()
    analysis_fields: tuple[Wanted, ...] = ()
    variables: dict[str, SourceVariable] = Field(default_factory=dict)
    grid: GridSettings | None = None
    count: int | None = Field(default=None, ge=1)
    wait: Duration = "0h"
    poll: Duration = "10s"
    settle: Duration = "10s"

    @model_validator(mode="after")
    def _patterns(self) -> DropSource:
        for name, field in (("forecast", "cycle"), ("analysis", "valid")):
            for pattern in getattr(self, name):
                fields = [found[1] for found in FIELD.finditer(pattern)]
                if fields != [field] * len(fields) or not fields:
                    raise ValueError(
                        f"{name}: '{pattern}' must tell its time as {{{field}:%Y%m%dT%H}}"
                    )
                other = re.search(r"[{}]", STEP.sub("", FIELD.sub("", pattern)))
                if other:
                    raise ValueError(
                        f"{name}: '{pattern}' has braces that are neither {{{field}:...}} nor "
                        "{step}"
                    )
                if STEP.search(pattern) and not self.steps:
                    raise ValueError(f"steps: say for which hours {{step}} stands in '{pattern}'")
        Files(forecast=self.names("forecast", pd.Timestamp(0)))
        if not parse_step(self.poll):
            raise ValueError("poll: must be longer than nothing")
        return self

    @model_validator(mode="after")
    def _below_a_url(self) -> DropSource:
        if self.elsewhere and self.driver == "zarr":
            raise ValueError("root: a Zarr store below a URL cannot be fetched whole")
        for name, group in (("fields", "forecast"), ("analysis_fields", "analysis")):
            if not getattr(self, name):
                continue
            if not self.elsewhere or self.driver != "grib":
                raise ValueError(f"{name}: is for GRIB files below a URL")
            for pattern in getattr(self, group):
                if WILD.search(pattern) or not pattern.endswith(SUFFIX):
                    raise ValueError(
                        f"{name}: needs names without wildcards that end with {SUFFIX}, not "
                        f"'{pattern}'"
                    )
        return self

    @property
    def elsewhere(self) -> bool:
        """Whether the files lie below a URL and are to be fetched."""
        return is_url(self.root) and local_folder(self.root) is None

    @property
    def reading(self) -> dict[str, Any]:
        """What decides how files are read, whenever and wherever they come."""
        return self.model_dump(mode="json", include={"driver", "variables", "grid"})

    def names(self, group: Literal["forecast", "analysis"], time: pd.Timestamp) -> tuple[str, ...]:
        """Glob patterns of one cycle or valid time."""
        patterns: Sequence[str] = getattr(self, group)
        dated = [FIELD.sub(lambda found: time.strftime(found[2]), each) for each in patterns]
        return tuple(name for each in dated for name in self._with_steps(each))

    def _with_steps(self, pattern: str) -> list[str]:
        found = STEP.search(pattern)
        if found is None:
            return [pattern]
        return [STEP.sub(format(step, found[1] or ""), pattern) for step in self.steps]


MemberNumber = Annotated[int, Field(ge=0, lt=10_000)]


class Members(Strict):
    """Numbers of the first and the last member, and the least number to go on with."""

    expected: tuple[MemberNumber, MemberNumber]
    minimum: int = Field(default=2, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Members:
        if self.expected[1] < self.expected[0]:
            raise ValueError("expected: name the first and the last member")
        if self.minimum > len(self.numbers):
            raise ValueError("minimum: is more than the expected members")
        return self

    @property
    def numbers(self) -> range:
        """All of them."""
        return range(self.expected[0], self.expected[1] + 1)


class NightlyTarget(Target):
    """A field to post-process, the registry folder of its models, thresholds to give the
    probability of exceeding (in the units of the field).

    ``shadow`` is a version that is run and scored beside the current one, and never published.
    """

    models: str
    shadow: Label | None = None
    thresholds: tuple[Finite, ...] = ()

    @model_validator(mode="after")
    def _different_thresholds(self) -> NightlyTarget:
        if len(set(self.thresholds)) < len(self.thresholds):
            raise ValueError("thresholds: one stands twice")
        return self

    @property
    def field(self) -> Target:
        """The field alone."""
        return Target.model_validate(self.model_dump(include=set(Target.model_fields)))

    @property
    def published(self) -> dict[str, Any]:
        """All that decides the product."""
        return self.model_dump(mode="json", exclude={"shadow"})

    @property
    def name(self) -> str:
        """Short name with the lead time, or the label."""
        return self.label or f"{super().name}-{self.lead / pd.Timedelta(hours=1):g}h"


class NightlyProducts(ProductSettings):
    """What the products hold, in which format, and whether GRIB 2 is written beside."""

    format: Literal["netcdf", "zarr"] = "netcdf"
    grib: bool = False

    @model_validator(mode="after")
    def _members(self) -> NightlyProducts:
        if self.members is not None and self.members.coupling == "schaake":
            raise ValueError(
                "members: coupling: schaake needs an archive; take one of ecc-q, -r, -s"
            )
        return self


class Verification(Strict):
    """Cycles of the last ``window`` are scored as their analyses come."""

    window: Duration = "30d"
    bootstrap: Bootstrap = Bootstrap()


class DriftLimits(Strict):
    """When the last ``cycles`` scored ones are said to drift from what the model was known for.

    ``bias``: the mean error has moved by more than this fraction of the RMSE. ``spread_skill`` and
    ``crps``: the spread over error ratio has changed by more than this factor, the CRPS has grown
    by more than it.
    """

    cycles: int = Field(default=7, ge=2)
    bias: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    spread_skill: Factor = 1.5
    crps: Factor = 1.5


class Retention(Strict):
    """How long products and maps stay, and forecasts that were fetched; analyses that were
    fetched stay as long as a product needs them, scores and the ledger for good."""

    products: Duration = "60d"
    fetched: Duration = "7d"


class Alerts(Strict):
    """Whom to tell: a text file for Prometheus' node exporter; a URL that is sent JSON on a fault
    or drift, for no longer than ``timeout``; what drift does to the exit code."""

    prometheus: str | None = None
    webhook: str | None = None
    timeout: Duration = "10s"
    drift: Literal["warn", "fail"] = "warn"

    @field_validator("webhook")
    @classmethod
    def _is_a_web_address(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
                raise ValueError("must be an address that starts with https:// or http://")
        return value


class Nightly(Strict):
    """The nightly job."""

    name: Label
    title: str = ""
    seed: int = Field(default=1, ge=0, lt=2**31)
    work: str = "nightly"
    source: DropSource
    cycles: tuple[Annotated[int, Field(ge=0, le=23)], ...] = Field(default=(0,), min_length=1)
    members: Members
    targets: tuple[NightlyTarget, ...] = Field(min_length=1)
    products: NightlyProducts = NightlyProducts()
    maps: bool = True
    verify: Verification = Verification()
    drift: DriftLimits = DriftLimits()
    retention: Retention = Retention()
    alerts: Alerts = Alerts()

    @model_validator(mode="after")
    def _consistent(self) -> Nightly:
        names = [target.name for target in self.targets]
        if len(set(names)) < len(names):
            raise ValueError("two targets have the same name; give them labels")
        needed = parse_step(self.verify.window) + max(target.lead for target in self.targets)
        if parse_step(self.retention.products) < needed:
            raise ValueError(
                f"retention.products: {self.retention.products} is less than verify.window and the "
                "longest lead time, so that products would go before they are scored"
            )
        return self


def from_environment(environment: Mapping[str, str]) -> list[str]:
    """Overrides in the environment: ``WEATHERPP_NIGHTLY_SOURCE__ROOT=x`` is ``source.root=x``."""
    return [
        f"{name.removeprefix(PREFIX).lower().replace('__', '.')}={value}"
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX)
    ]


def load_nightly(path: Path, overrides: Sequence[str] = ()) -> Nightly:
    """Read, override and check the recipe of a nightly job; overrides from the environment first.

    Raises
    ------
    ConfigError
        With one line for the user.
    """
    return load(Nightly, path, [*from_environment(os.environ), *overrides])
