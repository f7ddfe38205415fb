"""Settings of the neural methods, and the network they describe."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from weatherpp.errors import ConfigError
from weatherpp.methods.neural.networks.padding import Topology
from weatherpp.methods.neural.networks.residual import ResidualNet
from weatherpp.methods.neural.networks.unet3d import LevelStack, UNet3d
from weatherpp.methods.neural.samples import Block, Kind
from weatherpp.recipe import Strict

Curve = list[tuple[int, float, float]]


class Training(Strict):
    """How to train.

    The number of epochs is fixed, so that the learning rate, and with it the result, does not
    depend on how fast the machine is.
    """

    epochs: int = Field(default=20, ge=1)
    batch: int = Field(default=16, ge=1, description="samples a step")
    learning_rate: float = Field(default=5e-3, gt=0, description="highest rate, after warming up")
    weight_decay: float = Field(default=0.1, ge=0, description="of AdamW")
    warm_up: float = Field(default=0.1, ge=0, lt=1, description="share of the steps")
    clip: float = Field(default=1.0, gt=0, description="highest norm of the gradient")
    average: float = Field(
        default=0.95, ge=0, lt=1, description="memory of the running mean of the weights"
    )
    patience: int = Field(default=10, ge=1, description="epochs without a better validation loss")


class NeuralSettings(Strict):
    """Settings of all neural methods; an empty choice of predictors means all there are."""

    network: Literal["residual", "unet3d"] = "residual"
    width: int = Field(default=24, ge=1, description="channels of the network's first stage")
    depth: int = Field(default=2, ge=0, description="residual blocks, or poolings of the U-Net")
    stride: Literal[1, 2] = Field(default=2, description="of the U-Net's first stage")
    dropout: float = Field(default=0.2, ge=0, lt=1)
    rows: bool = Field(default=True, description="linear weights of their own in each row")
    predictors: tuple[Kind, ...] = ("mean", "spread", "control")
    variables: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    leads: tuple[float, ...] = Field(default=(), description="lead times of predictors, hours")
    static: bool = Field(default=True, description="orography, land mask and latitude")
    box: int = Field(default=7, ge=1, description="standardisation: side of the box")
    smoothing: float | None = Field(default=None, ge=0, description="grid points; None scales it")
    cross_fit: int = Field(
        default=3, ge=1, description="parts of the training dates, each seen by a base fitted "
        "on the others; 1 fits one base on all"
    )  # fmt: skip
    tile: int = Field(default=0, ge=0, description="side of training cuts; limited areas only")
    tiles: int = Field(default=1, ge=1, description="cuts of each date an epoch")
    seeds: int = Field(default=1, ge=1, description="networks to average")
    memory: float = Field(default=4.0, gt=0, description="GB of predictors to hold in memory")
    training: Training = Training()


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


def build_network(
    settings: NeuralSettings,
    blocks: list[Block],
    others: int,
    outputs: int,
    rows: int,
    topology: Topology,
    target_level: int | None,
) -> nn.Module:
    """Untrained network mapping (batch, field, rows, columns) to (batch, output, rows, columns).

    Parameters
    ----------
    settings
        Network, width, depth and so on.
    blocks, others, target_level
        Fields, as for :func:`level_table`.
    outputs
        Number of output fields.
    rows, topology
        Of the grid.
    """
    width, depth, dropout = settings.width, settings.depth, settings.dropout
    if settings.network == "residual":
        channels = sum(len(block.names) for block in blocks) + others
        own_rows = 0 if settings.tile or not settings.rows else rows
        return ResidualNet(channels, outputs, width, depth, topology, dropout, own_rows)
    table, level = level_table(blocks, others, target_level)
    net = UNet3d(len(table), outputs, width, depth, topology, settings.stride, dropout, level)
    return LevelStack(net, table)


def level_table(
    blocks: list[Block], others: int, target_level: int | None
) -> tuple[list[list[int]], int]:
    """Which field stands in (channel, level) of the U-Net's stack.

    Parameters
    ----------
    blocks
        Their fields come first, in the order of their names.
    others
        Number of fields behind them; they stand on all levels.
    target_level
        hPa, or None for a field without levels.

    Returns
    -------
    Table for :class:`LevelStack`, and the index of the target's level (the last if it is none
    of the predictors': the one next to the ground).
    """
    levels = sorted({level for block in blocks for level in block.levels}) or [0]
    table: list[list[int]] = []
    start = 0
    for block in blocks:
        count = max(1, len(block.levels))
        for first in range(start, start + len(block.names), count):
            if block.levels:
                at = {level: first + place for place, level in enumerate(block.levels)}
                table.append([at.get(level, -1) for level in levels])
            else:
                table.append([first] * len(levels))
        start += len(block.names)
    table += [[start + number] * len(levels) for number in range(others)]
    level = levels.index(target_level) if target_level in levels else len(levels) - 1
    return table, level
