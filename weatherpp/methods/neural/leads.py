"""One network for all lead times of a field, which is told the lead time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from pydantic import Field, field_validator, model_validator
from torch import nn

from weatherpp.conventions import exists_on, hours
from weatherpp.data.chunks import known
from weatherpp.data.fields import select
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData
from weatherpp.methods.neural.mixed import Mixed, MixedSettings
from weatherpp.methods.neural.pool import Pool
from weatherpp.recipe import Target


class LeadsSettings(MixedSettings):
    """Settings of :class:`MixedLeads`."""

    hours: tuple[float, ...] = Field(
        default=(), description="lead times to train on; all above zero by default"
    )
    earlier: int = Field(
        default=0, ge=0, description="how many lead times before each are predictors too"
    )

    @field_validator("hours")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if list(value) != sorted(set(value)) or min(value, default=0.0) < 0:
            raise ValueError("lead times must ascend, and none is below zero")
        return value

    @model_validator(mode="after")
    def _no_leads(self) -> LeadsSettings:
        if self.leads:
            raise ValueError(
                "leads cannot be chosen here: predictors are those of each of the hours, and of "
                "as many lead times before it as earlier says"
            )
        return self


class OneLead(Mixed):
    """Predictors, base and statistics of one lead time; its networks are those of all.

    Attributes
    ----------
    told
        What the network is told of the lead time: a constant field behind all others.
    """

    name = "mixed-leads"
    told: float

    def _standardise(
        self, predictors: xr.DataArray, static: xr.Dataset, field: xr.DataArray
    ) -> xr.Dataset:
        inputs = super()._standardise(predictors, static, field)
        told = xr.full_like(inputs["mean"].isel(predictor=0, drop=True), self.told)
        fields = xr.concat(
            [inputs["constant"], told.expand_dims(field=["lead time"])], "field", coords="minimal"
        )
        return inputs.drop_dims("field").assign(constant=fields)

    @property
    def channels(self) -> list[tuple[Any, ...]]:
        """What the channels are, whichever the lead time."""
        return [
            (block.variable, block.levels, len(block.hours), block.kinds, block.members)
            for block in self.blocks
        ]


class MixedLeads(Mixed):
    """Distribution from one network that serves all lead times of a field.

    As :class:`~weatherpp.methods.neural.mixed.Mixed`, but the samples are pairs of date and lead
    time. Predictors are the fields at that lead time, standardised by the statistics of that lead
    time; each has a base of its own; and the network is told the lead time, standardised over
    those trained on, as a constant field among the predictors, as in MetNet (Sonderby et al.
    2020, arXiv:2003.12140).

    The CRPS is counted in mean spreads of the lead time's base: one percent less counts alike at
    every lead time. In physical units the longest, with the largest errors, would rule.

    A date is learnt from if it may be at every lead time, so that none sees what another one is
    tested on.

    Attributes
    ----------
    trained
        Lead times that the networks serve, hours.
    dates
        Number of training dates.
    parts
        What is of one lead time, by its hours: of all that were trained, or of the one that
        :meth:`at` has chosen.
    """

    name = "mixed-leads"
    Settings = LeadsSettings
    across_leads: ClassVar[bool] = True
    loss_units: ClassVar[str] = "mean spreads of the base"

    def __init__(self, target: Any, settings: Any = None):
        super().__init__(target, settings)
        self.trained: tuple[float, ...] = self.settings.hours
        self.dates = 0
        self.parts: dict[float, OneLead] = {}
        if self.trained:
            self._check_own()

    def _check_own(self) -> None:
        if hours(self.target.lead) not in self.trained:
            raise ConfigError(
                f"method {self.name}, target {self.target.name}: its lead time of "
                f"{hours(self.target.lead):g} h is none of the hours {_text(self.trained)}"
            )

    def at(self, target: Target) -> MixedLeads:
        """The same networks for another lead time.

        Raises
        ------
        InputError
            They were not trained for it.
        """
        hour = hours(target.lead)
        if target != self.target.model_copy(update={"step": target.step, "label": target.label}):
            raise InputError(f"a network for {self.target.name} cannot serve {target.name}")
        if hour not in self.parts:
            raise InputError(
                f"method {self.name} was not trained for {target.name} at {hour:g} h but for "
                f"{_text(self.parts)} h; add it to hours, or leave hours out"
            )
        other = MixedLeads(target, self.settings)
        other.trained, other.dates, other.parts = self.trained, self.dates, {hour: self.parts[hour]}
        other.device, other.nets, other.curve = self.device, self.nets, self.curve
        return other

    # fit

    def _prepare(self, data: FitData) -> tuple[Pool, Pool | None]:
        there = exists_on(data.forecast[self.target.variable], "steps")
        self.trained = self.settings.hours or tuple(hour for hour in there if hour > 0)
        self._check_own()
        known("lead time (hours)", self.trained, there)
        truths = {hour: self._truth(data, hour) for hour in self.trained}
        data = _common(data, truths.values())
        self.dates = len(data.train)
        if not self.dates:
            raise InputError(
                f"method {self.name}: no date can be trained on at every lead time of "
                f"{_text(self.trained)} h; name fewer in hours"
            )
        told = np.array(self.trained) - np.mean(self.trained)
        told /= told.std() or 1.0
        pairs = []
        for hour, value in zip(self.trained, told, strict=True):
            part = self._part(hour, self._predictors(there, hour))
            part.told = float(value)
            # the spread of all members is another method's goal, so these will do
            full = select(data.forecast, part.target.variable, part.target.level, part.target.lead)
            own = dataclasses.replace(data, target=part.target, truth=truths[hour], full=full)
            pairs.append(part._prepare(own))
            self.parts[hour] = part
        self._check_alike()
        valid = [pair[1] for pair in pairs if pair[1] is not None]
        return Pool([pair[0] for pair in pairs]), Pool(valid) if valid else None

    def _truth(self, data: FitData, hour: float) -> xr.DataArray:
        """Analysis at a lead time, on the dates that may be learnt from there."""
        if hour == hours(self.target.lead):
            return self._goal(data)
        if data.truth_at is None:
            raise InputError(
                f"method {self.name} learns from analyses at all lead times; give them"
            )
        return data.truth_at(self._other(hour))

    def _other(self, hour: float) -> Target:
        return self.target.model_copy(update={"step": f"{hour:g}h"})

    def _predictors(self, there: Sequence[float], hour: float) -> tuple[float, ...]:
        """Lead times of the predictors of one lead time."""
        at, earlier = list(there).index(hour), self.settings.earlier
        if at < earlier:
            raise ConfigError(
                f"method {self.name}: earlier: {earlier} asks for {earlier} lead times before "
                f"{hour:g} h, the archive has {at}; lower it, or name later lead times in hours"
            )
        return tuple(there[at - earlier : at + 1])

    def _part(self, hour: float, leads: tuple[float, ...] = ()) -> OneLead:
        settings = {name: getattr(self.settings, name) for name in MixedSettings.model_fields}
        return OneLead(self._other(hour), MixedSettings(**{**settings, "leads": leads}))

    def _check_alike(self) -> None:
        """One network needs the same channels at every lead time."""
        first = next(iter(self.parts))
        for hour, part in self.parts.items():
            if part.channels != self.parts[first].channels:
                raise InputError(
                    f"method {self.name}: the archive has other fields for {hour:g} h than for "
                    f"{first:g} h; name in variables and levels what it has for all"
                )

    def _score(self, loss: float) -> float:
        return loss

    def _network(self) -> nn.Module:
        return next(iter(self.parts.values()))._network()

    # predict

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Predictive distribution at the target's lead time; see :meth:`Correction.predict`."""
        part = self.parts[hours(self.target.lead)]
        part.device, part.nets = self.device, self.nets
        return part.predict(forecast)

    # model folder

    def notes(self) -> list[str]:
        """Lead times and dates; and as :meth:`Correction.notes`."""
        own = f"One fit for {_text(self.trained)} h, on {self.dates} initial dates of each"
        return [own, *super().notes()]

    def _save_inputs(self, folder: Path) -> dict[str, Any]:
        parts = {}
        for hour, part in self.parts.items():
            place = folder / f"{hour:g}h"
            place.mkdir(exist_ok=True)
            parts[f"{hour:g}"] = part._save_inputs(place)
        return {"trained": self.trained, "dates": self.dates, "parts": parts}

    def _load_inputs(self, folder: Path, extra: Mapping[str, Any]) -> None:
        self.trained, self.dates = tuple(extra["trained"]), int(extra["dates"])
        for name, content in extra["parts"].items():
            part = self._part(float(name))
            part._load_inputs(folder / f"{name}h", content)
            self.parts[float(name)] = part


def _common(data: FitData, truths: Iterable[xr.DataArray]) -> FitData:
    """Only the dates that all the analyses have."""
    train, valid = data.train, data.valid
    for truth in truths:
        times = pd.DatetimeIndex(truth["time"].values)
        train, valid = train.intersection(times), valid.intersection(times)
    return dataclasses.replace(data, train=train, valid=valid)


def _text(lead_hours: Iterable[float]) -> str:
    return ", ".join(f"{hour:g}" for hour in lead_hours)
