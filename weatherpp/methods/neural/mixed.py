"""Mean and spread together, trained on the CRPS against the analysis."""

from __future__ import annotations

from typing import Any, Literal

import xarray as xr
from torch import Tensor

from weatherpp.errors import InputError
from weatherpp.methods.base import FitData
from weatherpp.methods.neural.build import NeuralSettings
from weatherpp.methods.neural.correction import (
    Correction,
    Floats,
    factor,
    limited,
)
from weatherpp.methods.neural.losses import gaussian_crps, weighted_mean
from weatherpp.methods.neural.samples import Batch


class MixedSettings(NeuralSettings):
    """Settings of :class:`Mixed`."""

    base: Literal["emos", "bias", "raw"] = "emos"


class Mixed(Correction):
    """Normal distribution whose mean and spread a network corrects, after a simple base.

    After the mixed model of Groenquist et al. 2020 (arXiv:2005.08748), which corrects the mean
    first and trains the spread on the CRPS then; here both are trained together:

        mean = base mean + base spread * d,    spread = base spread * exp(s)

    with the network's outputs d and s. Loss: area-weighted mean of the CRPS in physical units.
    """

    name = "mixed"
    Settings = MixedSettings
    outputs = 2

    def __init__(self, target: Any, settings: Any = None):
        super().__init__(target, settings)
        self.base_method = self.settings.base

    def _goal(self, data: FitData) -> xr.DataArray:
        if data.truth is None:
            raise InputError(f"method {self.name} learns from analyses; the archive has none")
        return data.truth

    def _relative(self, goal: Floats, mean: Floats, spread: Floats) -> Floats:
        return (goal - mean) / spread

    def _loss(self, output: Tensor, batch: Batch) -> Tensor:
        crps = gaussian_crps(output[:, 0], limited(output[:, 1]).exp(), batch["goal"])
        return weighted_mean(crps * batch["unit"], batch["weight"])

    def _score(self, loss: float) -> float:
        return loss * self.scale

    def _correct(self, output: Floats, mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
        return mean + spread * output[:, 0], spread * factor(output[:, 1])
