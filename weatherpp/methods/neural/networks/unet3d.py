"""Three-dimensional U-Net over (level, latitude, longitude).

After Groenquist et al. 2019 (arXiv:1911.00630), which takes it from Cicek et al. 2016
(arXiv:1606.06650): 3 x 3 x 3 convolutions with ReLU and without batch normalisation, pooling and
up-sampling 1 x 2 x 2 (levels are too few to pool), skip connections, the raw input once more
before the last layer, several lead times as channels. Changed here: longitude is periodic and
rows join across the poles, a 1 x 1 x 1 convolution first brings the many predictors down to the
width, up-sampling repeats points instead of interpolating (deterministic on every device), and
the last layer starts at zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from weatherpp.methods.neural.networks.padding import Padded, Topology, pad
from weatherpp.methods.neural.networks.stack import Stack


class Conv3(nn.Module):
    """3 x 3 x 3 convolution and ReLU; zero beyond the lowest and highest level."""

    def __init__(self, channels: int, out: int, topology: Topology):
        super().__init__()
        self.topology = topology
        self.conv = nn.Conv3d(channels, out, 3, padding=(1, 0, 0))

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, ., level, lat, lon)."""
        return functional.relu(self.conv(pad(x, 1, self.topology)))


def _pair(channels: int, out: int, topology: Topology) -> nn.Sequential:
    return nn.Sequential(Conv3(channels, out, topology), Conv3(out, out, topology))


def upsample(x: Tensor) -> Tensor:
    """Repeat every point of the last two dimensions twice in each."""
    *front, height, width = x.shape
    x = x.reshape(*front, height, 1, width, 1).expand(*front, height, 2, width, 2)
    return x.reshape(*front, 2 * height, 2 * width)


class UNet3d(Padded):
    """The U-Net.

    Parameters
    ----------
    channels, out
        Numbers of predictors and of outputs, each on all levels.
    width
        Channels of the first stage; doubled with every stage.
    depth
        Number of poolings.
    topology
        How the edges of the grid are joined.
    stride
        1 for a first stage at full resolution, 2 for one at half resolution, which costs a
        quarter; the raw input joins at full resolution in both cases.
    dropout
        Share of whole channels dropped at the bottom in training.
    level
        Index of the only level whose output is wanted; None gives all levels.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        width: int = 8,
        depth: int = 2,
        topology: Topology = Topology(),
        stride: int = 1,
        dropout: float = 0.0,
        level: int | None = None,
    ):
        super().__init__(topology, multiple=stride * 2**depth)
        self.stride = stride
        self.kept = slice(None) if level is None else slice(level, level + 1)
        step = (1, stride, stride)
        self.stem = nn.Conv3d(channels, width, step, stride=step)
        widths = [width * 2**stage for stage in range(depth + 1)]
        self.down = nn.ModuleList(
            _pair(widths[max(stage - 1, 0)], widths[stage], topology) for stage in range(depth + 1)
        )
        self.up = nn.ModuleList(
            _pair(widths[stage + 1] + widths[stage], widths[stage], topology)
            for stage in range(depth)
        )
        self.drop = nn.Dropout3d(dropout)
        self.head = nn.Conv3d(width + channels, out, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def reach(self, x: Tensor) -> int:
        """More than two convolutions down, three up and the poolings come to, stage by stage."""
        return 8 * self.multiple

    def body(self, x: Tensor) -> Tensor:
        """Map (batch, channels, level, lat, lon) to (batch, out, level, lat, lon)."""
        y = functional.relu(self.stem(x))
        skips = []
        for stage, pair in enumerate(self.down):
            if stage:
                y = functional.avg_pool3d(y, (1, 2, 2))
            y = pair(y)
            skips.append(y)
        y = self.drop(skips.pop())
        for pair in reversed(self.up):
            y = pair(torch.cat([upsample(y), skips.pop()], dim=1))
        y, x = y[:, :, self.kept], x[:, :, self.kept]
        if self.stride == 2:
            y = upsample(y)
        out: Tensor = self.head(torch.cat([y, x], dim=1))
        return out


class LevelStack(Stack):
    """Fields of a :class:`UNet3d` with one level of output; its table is (channel, level)."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, field, lat, lon) to (batch, out, lat, lon)."""
        return super().forward(x)[:, :, 0]
