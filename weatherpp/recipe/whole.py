"""The recipe as a whole: that its parts fit together, and how it is read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from weatherpp.errors import ConfigError
from weatherpp.expand import expand
from weatherpp.recipe.methods import MethodEntry, ProductSettings, Tracking
from weatherpp.recipe.scoring import EXTREME, REGIONS, Claim, VerifySettings
from weatherpp.recipe.shown import CaseSettings, ReportSettings
from weatherpp.recipe.sources import Source, Split
from weatherpp.recipe.targets import Target
from weatherpp.strict import Label, Strict, load, read_yaml


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
        return self

    @model_validator(mode="after")
    def _claims(self) -> Recipe:
        labels = {entry.label for entry in self.methods}
        names = {target.name for target in self.targets}
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
