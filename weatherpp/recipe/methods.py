"""Methods with their settings and members, how training is followed, and what is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from weatherpp.recipe.targets import Finite, MemberChoice
from weatherpp.strict import Label, Strict


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
