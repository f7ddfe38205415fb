"""Settings of the neural methods, and the network they describe."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import nn

from weatherpp.errors import ConfigError
from weatherpp.methods.neural.arrange import arrange
from weatherpp.methods.neural.networks.bias import Local, LocallyConnected, TileNet, UNet2d
from weatherpp.methods.neural.networks.inception import InceptionNet
from weatherpp.methods.neural.networks.padding import Topology
from weatherpp.methods.neural.networks.residual import ResidualNet
from weatherpp.methods.neural.networks.sets import SetNet
from weatherpp.methods.neural.networks.stack import Stack
from weatherpp.methods.neural.networks.temporal import TemporalNet
from weatherpp.methods.neural.networks.unet3d import LevelStack, UNet3d
from weatherpp.methods.neural.samples import Block, Kind
from weatherpp.strict import Strict

Curve = list[tuple[int, float, float]]

# far beyond what is of use: a slip of the pen must not fill the memory or take for ever
MOST_EPOCHS = 100_000  # seeds of epochs of different networks do not meet below this number
MOST_PARAMETERS = 1_000_000_000
Epochs = Annotated[int, Field(ge=1, le=MOST_EPOCHS)]
BatchSize = Annotated[int, Field(ge=1, le=100_000)]
Rate = Annotated[float, Field(gt=0, le=100)]
Width = Annotated[int, Field(ge=1, le=4096)]
Depth = Annotated[int, Field(ge=0, le=64)]
Seeds = Annotated[int, Field(ge=1, le=1000)]  # 1000 to each seed of a recipe
Tiles = Annotated[int, Field(ge=1, le=1000)]
Parts = Annotated[int, Field(ge=1, le=100)]
Levels = Annotated[int, Field(ge=3, le=999)]
Dropout = Annotated[float, Field(ge=0, lt=1)]


class Training(Strict):
    """How to train.

    The number of epochs is fixed, so that the learning rate, and with it the result, does not
    depend on how fast the machine is.
    """

    epochs: Epochs = 20
    batch: BatchSize = Field(default=16, description="samples a step")
    learning_rate: Rate = Field(default=5e-3, description="highest rate, after warming up")
    weight_decay: float = Field(default=0.1, ge=0, le=1000, description="of AdamW")
    warm_up: float = Field(default=0.1, ge=0, lt=1, description="share of the steps")
    schedule: Literal["cosine", "constant", "plateau"] = Field(
        default="cosine", description="of the learning rate, after warming up; plateau lowers it "
        "by factor where the validation loss stands still"
    )  # fmt: skip
    factor: float = Field(default=0.3, gt=0, lt=1, description="of the schedule plateau")
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    clip: float = Field(default=1.0, gt=0, le=1e6, description="highest norm of the gradient")
    average: float = Field(
        default=0.95, ge=0, lt=1, description="memory of the running mean of the weights"
    )
    patience: Epochs = Field(default=10, description="epochs without a better validation loss")


class NeuralSettings(Strict):
    """Settings of all neural methods; an empty choice of predictors means all there are."""

    network: Literal[
        "residual", "set", "unet3d", "unet2d", "local", "tiles", "inception", "temporal"
    ] = "residual"
    width: Width = Field(default=24, description="channels of the network's first stage")
    depth: Depth = Field(default=2, description="blocks, layers or cells; U-Nets: poolings")
    mixing: Literal["mean", "attention"] = Field(
        default="mean", description="set: how members see each other"
    )
    heads: int = Field(default=1, ge=1, description="set: heads of the attention; divide width")
    local: bool = Field(default=False, description="unet2d: a locally connected layer behind it")
    penalty: float = Field(
        default=1.0, ge=0, le=1e6, description="local: on weights that differ nearby"
    )
    grid_tiles: tuple[Tiles, Tiles] = Field(
        default=(3, 9), description="tiles: number along rows and columns"
    )
    stride: Literal[1, 2] = Field(default=2, description="of the U-Net's first stage")
    dropout: Dropout = 0.2
    rows: bool = Field(default=True, description="linear weights of their own in each row")
    predictors: tuple[Kind, ...] = ("mean", "spread", "control")
    variables: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    leads: tuple[float, ...] = Field(default=(), description="lead times of predictors, hours")
    static: bool = Field(default=True, description="orography, land mask and latitude")
    box: int = Field(default=7, ge=1, le=999, description="standardisation: side of the box")
    smoothing: float | None = Field(
        default=None, ge=0, le=999, description="grid points; None scales it"
    )
    cross_fit: Parts = Field(
        default=3, description="parts of the training dates, each seen by a base fitted "
        "on the others; 1 fits one base on all"
    )  # fmt: skip
    tile: int = Field(
        default=0, ge=0, le=100_000, description="side of training cuts; limited areas only"
    )
    tiles: int = Field(default=1, ge=1, le=1000, description="cuts of each date an epoch")
    seeds: Seeds = Field(default=1, description="networks to average")
    memory: float = Field(default=4.0, gt=0, description="GB of predictors to hold in memory")
    training: Training = Training()

    @model_validator(mode="after")
    def _divides(self) -> NeuralSettings:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is no multiple of heads {self.heads}")
        return self


def pick_device(device: str) -> torch.device:
    """Device for ``auto``, ``cpu`` or ``cuda``.

    Raises
    ------
    ConfigError
        ``cuda`` is asked for and not there.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda was asked for, but torch finds no CUDA device; use auto")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


class Place(NamedTuple):
    """Where a network is to work.

    Attributes
    ----------
    shape
        Rows and columns of the grid.
    topology
        How its edges are joined.
    level
        Of the target, hPa; None for a field without levels.
    """

    shape: tuple[int, int]
    topology: Topology
    level: int | None


def build_network(
    settings: NeuralSettings, blocks: list[Block], others: int, outputs: int | None, place: Place
) -> nn.Module:
    """Untrained network mapping (batch, field, rows, columns) to (batch, output, rows, columns).

    Parameters
    ----------
    settings
        Network, width, depth and so on.
    blocks, others
        Fields, and number of fields behind them.
    outputs
        Number of output fields; None for one a member.
    place
        Where it is to work.

    Raises
    ------
    ConfigError
        The settings do not suit the grid or each other.
    """
    width, depth, dropout = settings.width, settings.depth, settings.dropout
    _check_poolings(settings, place)
    count = sum(len(block.names) for block in blocks) + others
    shape, topology, _ = place
    rows = 0 if settings.tile or not settings.rows else shape[0]
    sizes = (width, depth, topology)
    if settings.network == "set":
        table, _ = arrange(blocks, "layer", others)
        own = (len(table) - others, others, outputs or 1, *sizes, dropout, rows)
        net = SetNet(*own, settings.mixing, settings.heads, pooled=outputs is not None)
        return Stack(net, table)
    if outputs is None:
        raise ConfigError(f"network {settings.network} has no output for each member; use set")
    if settings.network == "residual":
        return ResidualNet(count, outputs, *sizes, dropout, rows)
    if settings.network == "inception":
        return InceptionNet(count, outputs, *sizes, dropout)
    if settings.network == "tiles":
        return TileNet(count, outputs, *sizes, settings.grid_tiles)
    if settings.network == "temporal":
        table, _ = arrange(blocks, "hour", others)
        return Stack(TemporalNet(len(table), outputs, *sizes, dropout), table)
    if settings.network == "unet3d":
        table, levels = arrange(blocks, "level", others)
        at = levels.index(place.level) if place.level in levels else len(levels) - 1
        unet = UNet3d(len(table), outputs, *sizes, settings.stride, dropout, at)
        return LevelStack(unet, table)
    return _bias_network(settings, count, outputs, place)


def _check_poolings(settings: NeuralSettings, place: Place) -> None:
    """Refuse a U-Net that halves a grid far beyond a single point: it would be padded to that."""
    if settings.network not in ("unet2d", "unet3d"):
        return
    side = settings.tile or max(place.shape)
    most = side.bit_length() + 1
    if settings.depth > most:
        raise ConfigError(
            f"network {settings.network}, depth: {settings.depth} poolings are too many for a grid "
            f"of {side} points a side; set {most} or fewer"
        )


def _bias_network(settings: NeuralSettings, count: int, outputs: int, place: Place) -> nn.Module:
    """The U-Net, the locally connected network, or one behind the other."""
    alone = settings.network == "local"
    behind = alone or settings.local

    def unet(out: int, zero: bool) -> UNet2d:
        size = (settings.width, settings.depth, place.topology, settings.dropout)
        return UNet2d(count, out, *size, zero)

    if not behind:
        return unet(outputs, True)
    if settings.tile:
        raise ConfigError("a locally connected network cannot be trained on cuts; set tile: 0")
    inner = None if alone else unet(settings.width, False)
    channels = count if alone else settings.width
    last = LocallyConnected(channels, outputs, place.shape, place.topology.periodic)
    return Local(inner, last, settings.penalty)
