"""The 2020 paper's chain: a network for the mean, then one for the spread of what is left."""

from __future__ import annotations

from typing import Any, Literal

import xarray as xr
from pydantic import Field
from torch import Tensor

from weatherpp.data.fields import subsample
from weatherpp.methods.base import Method
from weatherpp.methods.neural.build import Depth, NeuralSettings, Parts, Training, Width
from weatherpp.methods.neural.correction import Correction, Floats, root
from weatherpp.methods.neural.heads import factor, limited
from weatherpp.methods.neural.losses import gaussian_crps, weighted_mean
from weatherpp.methods.neural.samples import Batch, Kind
from weatherpp.recipe import MemberChoice


class MeanSettings(NeuralSettings):
    """Settings of :class:`MeanNet`."""

    base: Literal["emos", "ridge", "bias", "raw"] = "emos"
    network: Literal["unet2d", "local", "tiles", "residual", "inception"] = "unet2d"
    width: Width = Field(default=16, description="channels of the network's first stage")
    depth: Depth = Field(default=1, description="poolings of the U-Net, or blocks")
    local: bool = Field(default=True, description="unet2d: a locally connected layer behind it")
    predictors: tuple[Kind, ...] = ("mean",)
    training: Training = Training(epochs=10)


class MeanNet(Correction):
    """Bias correction: a network that corrects the mean of a simple base.

    mean = base mean + base spread * d, with the network's output d; the spread stays that of the
    base. Loss: area-weighted mean square error, as for the bias networks of Groenquist et al.
    2020 (arXiv:2005.08748).
    """

    name = "mean-net"
    Settings = MeanSettings
    outputs = 1

    def __init__(self, target: Any, settings: Any = None):
        super().__init__(target, settings)
        self.base_method = self.settings.base

    def _loss(self, output: Tensor, batch: Batch) -> Tensor:
        error = (output[:, 0] - batch["goal"]) * batch["unit"]
        return weighted_mean(error**2, batch["weight"])

    def _score(self, loss: float) -> float:
        return root(loss) * self.scale

    def _result(
        self, output: Floats, mean: Floats, spread: Floats, field: xr.DataArray
    ) -> xr.Dataset:
        return self._normal(mean + spread * output[:, 0], spread, field)


class TwoStepSettings(NeuralSettings):
    """Settings of :class:`TwoStep`; those of the first network are under ``bias``."""

    network: Literal["inception", "residual", "unet2d", "tiles"] = "inception"
    width: Width = Field(default=16, description="channels of the network's first stage")
    bias: MeanSettings = MeanSettings()
    bias_members: int | None = Field(
        default=None, ge=1, description="B: how many of the members correct the mean; None: all"
    )
    spread_members: int | None = Field(
        default=None, ge=1, description="U: how many of the members tell the spread; None: all"
    )
    predictors: tuple[Kind, ...] = ("spread", "control")
    cross_fit: Parts = Field(
        default=2, description="parts of the training dates, each seen by a first network "
        "trained on the others; 1 trains one on all, whose errors there are too small"
    )  # fmt: skip
    training: Training = Training(epochs=10)


class TwoStep(Correction):
    """Bias correction with B members, then spread with U members, trained on the CRPS: "BxUyC".

    The mixed model of Groenquist et al. 2020 (arXiv:2005.08748) as it was built there, where the
    second network is trained on what the first has left:

        mean = that of MeanNet,    spread = base spread * exp(s)

    with the second network's output s. The loss is the area-weighted mean of the CRPS, whose
    gradient in the mean is not used. :class:`~weatherpp.methods.neural.mixed.Mixed` trains both
    at once.
    """

    name = "two-step"
    Settings = TwoStepSettings
    outputs = 1
    base_method = "mean-net"

    def _make_base(self) -> Method:
        return MeanNet(self.target, self.settings.bias)

    def _for_base(self, forecast: xr.Dataset) -> xr.Dataset:
        return _first(forecast, self.settings.bias_members)

    def _own(self, forecast: xr.Dataset) -> xr.Dataset:
        return _first(forecast, self.settings.spread_members)

    def _loss(self, output: Tensor, batch: Batch) -> Tensor:
        spread = limited(output[:, 0]).exp()
        crps = gaussian_crps(spread.new_zeros(()).expand_as(spread), spread, batch["goal"])
        return weighted_mean(crps * batch["unit"], batch["weight"])

    def _score(self, loss: float) -> float:
        return loss * self.scale

    def _result(
        self, output: Floats, mean: Floats, spread: Floats, field: xr.DataArray
    ) -> xr.Dataset:
        return self._normal(mean, spread * factor(output[:, 0]), field)

    def notes(self) -> list[str]:
        """Which members do what, in the paper's notation."""
        b, u = self.settings.bias_members, self.settings.spread_members
        return [f"B{b or 'all'}U{u or 'all'}C", *super().notes()]


def _first(forecast: xr.Dataset, count: int | None) -> xr.Dataset:
    """The first so many members; all for None."""
    if count is None:
        return forecast
    return subsample(forecast, MemberChoice(choose="first", count=count), seed=1)
