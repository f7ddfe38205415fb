"""The bias-correction networks of Groenquist et al. 2020 (arXiv:2005.08748).

A U-Net, a locally connected network (weights of its own at every grid point) behind it or alone,
and a network with convolutions of its own in each of a few tiles. Changed here: longitude is
periodic and rows join across the poles, up-sampling repeats points instead of interpolating, and
the last layer starts at zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from weatherpp.methods.neural.networks.padding import (
    Padded,
    Topology,
    missing_to_multiple,
    pad,
    pad_columns,
    pad_rows,
)
from weatherpp.methods.neural.networks.unet3d import upsample


class Conv(nn.Module):
    """3 x 3 convolution, batch normalisation and ReLU."""

    def __init__(self, channels: int, out: int, topology: Topology):
        super().__init__()
        self.topology = topology
        self.conv = nn.Conv2d(channels, out, 3, bias=False)
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, ., lat, lon)."""
        return functional.relu(self.norm(self.conv(pad(x, 1, self.topology))))


def _pair(channels: int, middle: int, out: int, topology: Topology) -> nn.Sequential:
    return nn.Sequential(Conv(channels, middle, topology), Conv(middle, out, topology))


class UNet2d(Padded):
    """U-Net over (latitude, longitude).

    Parameters
    ----------
    channels, out
        Numbers of predictors and of outputs.
    width
        Channels of the first convolution (published: 32); doubled with every stage.
    depth
        Number of poolings, 0 to 3 in the paper.
    topology
        How the edges of the grid are joined.
    dropout
        Share of whole channels dropped at the bottom in training.
    zero
        Start with an output of zero.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        width: int = 32,
        depth: int = 1,
        topology: Topology = Topology(),
        dropout: float = 0.0,
        zero: bool = True,
    ):
        super().__init__(topology, multiple=2**depth)
        # stage by stage: channels of its first convolution and of its second
        widths = [(width * 2**stage, width * 2 ** (stage + 1)) for stage in range(depth + 1)]
        before = [channels, *(second for _, second in widths)]
        self.down = nn.ModuleList(
            _pair(before[stage], first, second, topology)
            for stage, (first, second) in enumerate(widths)
        )
        self.shrink = nn.ModuleList(
            Conv(widths[stage + 1][1], widths[stage][1], topology) for stage in range(depth)
        )
        self.up = nn.ModuleList(
            _pair(2 * second, second, second, topology) for _, second in widths[:-1]
        )
        self.drop = nn.Dropout2d(dropout)
        self.head = nn.Conv2d(widths[0][1], out, 1)
        if zero:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def reach(self, x: Tensor) -> int:
        """More than two convolutions down, three up and the poolings come to, stage by stage."""
        return 8 * self.multiple

    def body(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lat, lon) to (batch, out, lat, lon)."""
        skips: list[Tensor] = []
        for stage, pair in enumerate(self.down):
            x = pair(functional.avg_pool2d(x, 2) if stage else x)
            skips.append(x)
        x = self.drop(skips.pop())
        for shrink, pair in zip(reversed(self.shrink), reversed(self.up), strict=True):
            x = pair(torch.cat([shrink(upsample(x)), skips.pop()], dim=1))
        out: Tensor = self.head(x)
        return out


class LocallyConnected(nn.Module):
    """Linear map with weights and an offset of its own at every grid point; starts at zero.

    Parameters
    ----------
    channels, out
        Numbers of fields.
    shape
        Rows and columns of the grid.
    periodic
        Columns close on themselves.
    """

    def __init__(self, channels: int, out: int, shape: tuple[int, int], periodic: bool):
        super().__init__()
        self.periodic = periodic
        self.weight = nn.Parameter(torch.zeros(out, channels, *shape))
        self.offset = nn.Parameter(torch.zeros(out, 1, *shape))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lat, lon) to (batch, out, lat, lon)."""
        local = torch.einsum("ocyx,bcyx->boyx", self.weight, x)
        return local + self.offset[:, 0]

    def roughness(self) -> Tensor:
        """Mean absolute difference between neighbouring points, of weights and offsets.

        The published penalty; there rows also wrapped from pole to pole.
        """
        every = torch.cat([self.weight, self.offset], dim=1)
        east = every.roll(-1, -1) - every if self.periodic else every.diff(dim=-1)
        parts = [part.abs().mean() for part in (every.diff(dim=-2), east) if part.numel()]
        # a single point has no neighbours
        return torch.stack(parts).mean() if parts else every.new_zeros(())


class Local(nn.Module):
    """A locally connected network behind another network, or alone.

    Parameters
    ----------
    inner
        Network in front; None for the predictors themselves.
    last
        Locally connected network.
    penalty
        Factor of :meth:`LocallyConnected.roughness` in the loss (published text: 10, published
        code: 1).
    """

    def __init__(self, inner: nn.Module | None, last: LocallyConnected, penalty: float):
        super().__init__()
        self.inner, self.last, self.factor = inner, last, penalty

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lat, lon) to (batch, out, lat, lon)."""
        out: Tensor = self.last(x if self.inner is None else self.inner(x))
        return out

    def penalty(self) -> Tensor:
        """To be added to the loss in training."""
        return self.factor * self.last.roughness()


class TileNet(nn.Module):
    """Convolutions with weights of their own in each of a few tiles of the grid.

    Every tile reads beyond its edges as far as its convolutions reach, so that neighbouring
    tiles see the same fields there.

    Parameters
    ----------
    channels, out
        Numbers of predictors and of outputs.
    width, depth
        Channels, and number of 3 x 3 convolutions before the last.
    topology
        How the edges of the grid are joined.
    tiles
        Number of tiles along rows and columns (published: 3 and 9).
    """

    def __init__(
        self,
        channels: int,
        out: int,
        width: int = 16,
        depth: int = 2,
        topology: Topology = Topology(),
        tiles: tuple[int, int] = (3, 9),
    ):
        super().__init__()
        self.topology, self.tiles, self.reach = topology, tiles, depth
        count = tiles[0] * tiles[1]
        before = [channels, *[width] * depth]
        self.layers = nn.ModuleList(
            nn.Conv2d(count * before[layer], count * width, 3, groups=count)
            for layer in range(depth)
        )
        self.head = nn.Conv2d(count * before[-1], count * out, 1, groups=count)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lat, lon) to (batch, out, lat, lon)."""
        batch, _, height, width = x.shape
        (down, across), reach = self.tiles, self.reach
        north, south = missing_to_multiple(height, down)
        west, east = missing_to_multiple(width, across)
        x = pad_rows(x, north + reach, south + reach, self.topology)
        x = pad_columns(x, west + reach, east + reach, self.topology)
        size = ((height + north + south) // down, (width + west + east) // across)
        tiles = [
            x[..., i * size[0] : (i + 1) * size[0] + 2 * reach,
              j * size[1] : (j + 1) * size[1] + 2 * reach]
            for i in range(down)
            for j in range(across)
        ]  # fmt: skip
        y = torch.cat(tiles, dim=1)
        for layer in self.layers:
            y = functional.relu(layer(y))
        y = self.head(y).reshape(batch, down, across, -1, *size)
        y = y.permute(0, 3, 1, 4, 2, 5).reshape(batch, -1, down * size[0], across * size[1])
        out: Tensor = y[..., north : north + height, west : west + width]
        return out
