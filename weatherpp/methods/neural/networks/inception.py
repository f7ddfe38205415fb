"""The spread network of Groenquist et al. 2020 (arXiv:2005.08748): parallel kernels of three sizes.

Each layer convolves with 3 x 3, 5 x 5 and 7 x 7 kernels side by side, normalises, and joins them
with its input by a 1 x 1 convolution; the predictors enter every layer anew, and layers grow
wider by four channels. Changed here: longitude is periodic and rows join across the poles, the
target's own predictor is added by the method outside, and the last layer starts at zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from weatherpp.methods.neural.networks.padding import Topology, in_strips, pad

KERNELS = (3, 5, 7)
GROWTH = 4
STRAIT = 8  # channels of the last but two layer


class Parallel(nn.Module):
    """Convolutions of all kernel sizes, joined with their input by a 1 x 1 convolution."""

    def __init__(self, channels: int, width: int, topology: Topology):
        super().__init__()
        self.topology = topology
        self.kernels = nn.ModuleList(nn.Conv2d(channels, width, size) for size in KERNELS)
        self.norm = nn.BatchNorm2d(len(KERNELS) * width)
        self.join = nn.Conv2d(channels + len(KERNELS) * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lat, lon) to (batch, width, lat, lon)."""
        sides = [size // 2 for size in KERNELS]
        found = [
            kernel(pad(x, side, self.topology))
            for kernel, side in zip(self.kernels, sides, strict=True)
        ]
        y = functional.relu(self.norm(torch.cat(found, dim=1)))
        out: Tensor = self.join(torch.cat([x, y], dim=1))
        return out


class InceptionNet(nn.Module):
    """The network at full resolution.

    Parameters
    ----------
    channels, out
        Numbers of predictors and of outputs.
    width, depth
        Channels of the first layer (published: 64) and number of layers (published: 10).
    topology
        How the edges of the grid are joined.
    dropout
        Share of whole predictors dropped in training.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        width: int = 16,
        depth: int = 3,
        topology: Topology = Topology(),
        dropout: float = 0.0,
    ):
        super().__init__()
        self.topology = topology
        self.drop = nn.Dropout2d(dropout)
        self.first = nn.Conv2d(channels, width, 3)
        self.first_norm = nn.BatchNorm2d(width)
        widths = [width + GROWTH * max(layer, 0) for layer in range(-1, depth)]
        self.layers = nn.ModuleList(
            Parallel(widths[layer] + channels, widths[layer + 1], topology)
            for layer in range(depth)
        )
        self.strait = nn.Conv2d(widths[-1] + width, STRAIT, 3)
        self.head = nn.Conv2d(STRAIT + channels, out, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lat, lon) to (batch, out, lat, lon)."""
        return in_strips(self._whole, x, 2 + len(self.layers) * (max(KERNELS) // 2))

    def _whole(self, x: Tensor) -> Tensor:
        x = self.drop(x)
        start = y = functional.relu(self.first_norm(self.first(pad(x, 1, self.topology))))
        for layer in self.layers:
            y = layer(torch.cat([y, x], dim=1))
        y = functional.relu(self.strait(pad(torch.cat([y, start], dim=1), 1, self.topology)))
        out: Tensor = self.head(torch.cat([y, x], dim=1))
        return out
