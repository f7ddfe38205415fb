"""Target fields, members, and the small types that other parts share."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import pandas as pd
from pydantic import Field, field_validator, model_validator

from weatherpp.strict import Label, ShortName, Strict

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
