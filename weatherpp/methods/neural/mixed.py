"""Mean and spread together, trained on the CRPS against the analysis."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from weatherpp.data.fields import ensemble_mean
from weatherpp.errors import InputError
from weatherpp.methods.neural.build import Levels, NeuralSettings
from weatherpp.methods.neural.correction import Correction, Floats
from weatherpp.methods.neural.heads import Name, make_head, mean_factor, relative_members
from weatherpp.methods.neural.losses import weighted_mean
from weatherpp.methods.neural.samples import Batch, plane


class MixedSettings(NeuralSettings):
    """Settings of :class:`Mixed`."""

    base: Literal["emos", "ridge", "bias", "raw"] = "emos"
    head: Name = Field(default="normal", description="form of the result")
    quantiles: Levels = Field(default=21, description="of the head quantiles; odd")
    alpha: float = Field(default=0.95, ge=0, le=1, description="share of the fair CRPS; members")
    tails: float = Field(default=0.0, ge=0, le=1e6, description="weight of both tails in the loss")
    tail: float = Field(
        default=0.9,
        gt=0.5,
        lt=1,
        description="quantile of the analyses where the upper tail starts",
    )

    @model_validator(mode="after")
    def _suits(self) -> MixedSettings:
        if self.head == "members" and self.network != "set":
            raise ValueError(
                "head: members needs network: set, which has an output for each member"
            )
        if self.quantiles % 2 == 0:
            raise ValueError("quantiles must be odd, so that the median is one of them")
        return self


class Mixed(Correction):
    """Distribution that a network corrects after a simple base.

    After the mixed model of Groenquist et al. 2020 (arXiv:2005.08748), which corrects the mean
    first and trains the spread on the CRPS then; here both are trained together:

        mean = base mean + base spread * d,    spread = base spread * exp(s)

    with the network's outputs d and s; or quantiles or members in the same units, see
    :mod:`weatherpp.methods.neural.heads`. Loss: area-weighted mean of the CRPS in physical units,
    to which that of the two tails can be added.
    """

    name = "mixed"
    Settings = MixedSettings

    def __init__(self, target: Any, settings: Any = None):
        super().__init__(target, settings)
        self.base_method = self.settings.base
        self.head = make_head(self.settings.head, self.settings.quantiles, self.settings.alpha)
        self.outputs = self.head.outputs

    def _more(
        self, field: xr.DataArray, goal: Floats, mean: Floats, spread: Floats, train: NDArray[Any]
    ) -> dict[str, Floats]:
        more = {}
        if self.settings.head == "members":
            factor = mean_factor(field.values[train].astype(np.float64), spread[train])
            self.inputs["factor"] = (plane(field), factor)
            more["members"] = self._relative_members(field, spread)
        if self.settings.tails > 0:
            share = self.settings.tail
            bounds = np.nanquantile(goal[train], (1 - share, share), axis=0)
            for name, bound in zip(("lower", "upper"), bounds, strict=True):
                more[name] = np.nan_to_num((bound - mean) / spread)
        return more

    def _relative_members(self, field: xr.DataArray, spread: Floats) -> Floats:
        if field.sizes["number"] < 2:
            raise InputError(f"method {self.name}, head: members: give at least two members")
        factor = self.inputs["factor"].values
        return relative_members(field.values.astype(np.float64), factor, spread)

    def _loss(self, output: Tensor, batch: Batch) -> Tensor:
        crps = self.head.crps(output, batch)
        if self.settings.tails > 0:
            crps = crps + self.settings.tails * self.head.tail(output, batch)
        return weighted_mean(crps * batch["unit"], batch["weight"])

    def _score(self, loss: float) -> float:
        return loss * self.scale

    def _result(
        self, output: Floats, mean: Floats, spread: Floats, field: xr.DataArray
    ) -> xr.Dataset:
        batch = {"mean": mean, "spread": spread}
        if self.settings.head == "members":
            batch["members"] = self._relative_members(field, spread)
        attrs = {"variable": self.target.variable, "target": self.target.name}
        result = self.head.result(output, batch, ensemble_mean(field), **attrs)
        if "number" in result.dims:
            result = result.assign_coords(number=field["number"].values)
        return result
