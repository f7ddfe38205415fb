"""The spread the full ensemble would have, from a few of its members."""

from __future__ import annotations

from typing import Any, Literal

import xarray as xr
from pydantic import Field
from torch import Tensor

from weatherpp.data.fields import ensemble_spread
from weatherpp.methods.base import FitData
from weatherpp.methods.neural.build import (
    Depth,
    Dropout,
    Epochs,
    NeuralSettings,
    Rate,
    Training,
    Width,
)
from weatherpp.methods.neural.correction import Correction, Floats, root
from weatherpp.methods.neural.heads import factor, limited
from weatherpp.methods.neural.losses import weighted_mean
from weatherpp.methods.neural.samples import Batch, Kind


class SpreadTraining(Training):
    """Fewer epochs than for the other networks: one of the U-Net costs more."""

    epochs: Epochs = 10
    learning_rate: Rate = Field(default=4e-3, description="highest rate, after warming up")


class SpreadSettings(NeuralSettings):
    """Settings of :class:`SpreadNet`."""

    base: Literal["spread-regression", "raw"] = "spread-regression"
    predictors: tuple[Kind, ...] = ("spread", "control")
    network: Literal["residual", "unet3d"] = "unet3d"
    width: Width = Field(default=6, description="channels of the network's first stage")
    depth: Depth = Field(default=2, description="poolings of the U-Net, or residual blocks")
    dropout: Dropout = 0.0
    training: SpreadTraining = SpreadTraining()


class SpreadNet(Correction):
    """Spread (standard deviation, ddof = 1) of the full ensemble at the target's lead time.

    The job and the network of Groenquist et al. 2019 (arXiv:1911.00630), as a factor on a local
    regression on the sample spread:

        spread = base spread * exp(s),    mean = mean of the members given

    with the network's output s. Loss: area-weighted mean square error of the spread.
    """

    name = "spread-net"
    Settings = SpreadSettings
    needs_truth = False
    min_members = 2
    outputs = 1

    def __init__(self, target: Any, settings: Any = None):
        super().__init__(target, settings)
        self.base_method = self.settings.base

    def _goal(self, data: FitData) -> xr.DataArray:
        return ensemble_spread(data.full)

    def _base_values(self, base: Any, forecast: xr.Dataset) -> tuple[Floats, Floats]:
        _, spread = super()._base_values(base, forecast)
        return self._members(self._field(forecast)), spread

    def _relative(self, goal: Floats, mean: Floats, spread: Floats) -> Floats:
        return goal / spread

    def _loss(self, output: Tensor, batch: Batch) -> Tensor:
        error = limited(output[:, 0]).exp() - batch["goal"]
        return weighted_mean((error * batch["unit"]) ** 2, batch["weight"])

    def _score(self, loss: float) -> float:
        return root(loss) * self.scale

    def _result(
        self, output: Floats, mean: Floats, spread: Floats, field: xr.DataArray
    ) -> xr.Dataset:
        return self._normal(mean, spread * factor(output[:, 0]), field)
