"""A small two-dimensional residual network with its core on every second grid point.

Two by two points enter the core as channels, so nothing is averaged away, and the convolutions
cost a quarter. A linear path from the predictors of each point to the outputs, with weights of
its own for every row when ``rows`` is given, stands beside the core: it is a ridge regression by
latitude, which a few hundred dates can fit well. Both heads start at zero, so that the untrained
network changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from weatherpp.methods.neural.networks.padding import Padded, Topology, pad


class Block(nn.Module):
    """Two 3 x 3 convolutions round a ReLU, added to their input; starts as the identity."""

    def __init__(self, width: int, topology: Topology, dropout: float):
        super().__init__()
        self.topology = topology
        self.first = nn.Conv2d(width, width, 3)
        self.second = nn.Conv2d(width, width, 3)
        self.drop = nn.Dropout2d(dropout)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, width, lat, lon), kept."""
        y = functional.relu(self.first(pad(functional.relu(x), 1, self.topology)))
        out: Tensor = x + self.second(pad(self.drop(y), 1, self.topology))
        return out


class Core(Padded):
    """Space to channels, residual blocks, channels to space; shape (batch, ., lat, lon)."""

    def __init__(
        self, channels: int, out: int, width: int, depth: int, topology: Topology, dropout: float
    ):
        super().__init__(topology, multiple=2)
        self.drop = nn.Dropout2d(dropout)
        self.stem = nn.Conv2d(channels, width, 2, stride=2)
        self.blocks = nn.Sequential(*(Block(width, topology, dropout) for _ in range(depth)))
        self.head = nn.Conv2d(width, 4 * out, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def reach(self, x: Tensor) -> int:
        """Two rows of the core, of two rows each, for every block."""
        return 4 * len(self.blocks)

    def body(self, x: Tensor) -> Tensor:
        """Core on an even grid."""
        y = functional.relu(self.blocks(self.stem(self.drop(x))))
        return functional.pixel_shuffle(self.head(y), 2)


def by_row(weights: Tensor, x: Tensor) -> Tensor:
    """Linear map of (batch, channel, lat, lon); weights (out, channel, lat), or 1 for all rows."""
    if weights.shape[-1] == 1:
        return functional.conv2d(x, weights[..., None])
    # rows as the batch of a matrix product: (lat, out, channels) x (lat, channels, .)
    return torch.einsum("ocy,bcyx->boyx", weights, x)


class ResidualNet(nn.Module):
    """Core plus linear path.

    Parameters
    ----------
    channels, out
        Numbers of predictors and of outputs.
    width, depth
        Channels and residual blocks of the core. Forward cost, multiply-adds a grid point:
        ``width * channels + 4.5 * depth * width**2`` and a little for the heads.
    topology
        How the edges of the grid are joined.
    dropout
        Share of whole channels dropped in training.
    rows
        Number of rows, for linear weights of their own in each row; 0 for common weights,
        which is needed if training tiles differ from the grid of the prediction.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        width: int = 32,
        depth: int = 3,
        topology: Topology = Topology(),
        dropout: float = 0.0,
        rows: int = 0,
    ):
        super().__init__()
        self.core = Core(channels, out, width, depth, topology, dropout)
        self.linear = nn.Parameter(torch.zeros(out, channels, rows or 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lat, lon) to (batch, out, lat, lon)."""
        out: Tensor = self.core(x) + by_row(self.linear, x)
        return out
