"""A network over the set of members: any number of them, in any order.

Every member goes through the same convolutions; in each block it also sees the mean over all
members (deep sets, Zaheer et al. 2017, arXiv:1703.06114) or what attention over the members
picks at each point (PoET, Ben Bouallegue et al. 2024, arXiv:2303.17195, and Finn 2021,
arXiv:2106.13924). What the members have in common, their mean and spread, is predictor of its own,
so that the network holds :class:`ResidualNet` on mean and spread within it. As there, the core
runs on every second grid point, linear paths with weights of their own for every row stand
beside it, and both start at zero.

Attention across members lets one member depend on the others, so that a fair score no longer
treats them as independent draws (Roberts et al. 2026, arXiv:2602.15830): check spread against
skill.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from weatherpp.methods.neural.networks.padding import Padded, Topology, pad
from weatherpp.methods.neural.networks.residual import by_row

Mixing = Literal["mean", "attention"]
# spreads of standardised members below this are rounding
SMALL = 1e-3


class Attention(nn.Module):
    """Attention over members at each grid point; shape (batch, member, width, lat, lon), kept.

    Starts at zero.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.both = nn.Conv2d(width, width, 1), nn.Conv2d(width, 2 * width, 1)
        self.out = nn.Conv2d(width, width, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """What each member takes from all of them."""
        batch, count, width, height, columns = x.shape
        flat = x.flatten(0, 1)

        def split(y: Tensor) -> Tensor:
            # (batch, lat, lon, head, member, feature)
            shape = (batch, count, self.heads, width // self.heads, height, columns)
            return y.reshape(shape).permute(0, 4, 5, 2, 1, 3)

        query = split(self.query(flat))
        key, value = (split(part) for part in self.both(flat).chunk(2, dim=1))
        found = functional.scaled_dot_product_attention(query, key, value)
        found = found.permute(0, 4, 3, 5, 1, 2).reshape(flat.shape)
        out: Tensor = self.out(found).reshape(x.shape)
        return out


class MemberBlock(nn.Module):
    """Two 3 x 3 convolutions on each member, with a look at the others in between."""

    def __init__(self, width: int, topology: Topology, dropout: float, mixing: Mixing, heads: int):
        super().__init__()
        self.topology = topology
        self.first = nn.Conv2d(width, width, 3)
        self.second = nn.Conv2d(width, width, 3)
        self.common = nn.Conv2d(width, width, 1)
        self.attention = Attention(width, heads) if mixing == "attention" else None
        self.drop = nn.Dropout2d(dropout)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, member, width, lat, lon), kept."""
        y = functional.relu(x)
        common = self.common(y.mean(dim=1))[:, None]
        y = self.first(pad(y.flatten(0, 1), 1, self.topology)).reshape(x.shape)
        y = self.drop(functional.relu(y + common).flatten(0, 1))
        out: Tensor = x + self.second(pad(y, 1, self.topology)).reshape(x.shape)
        return out if self.attention is None else out + self.attention(out)


class Core(Padded):
    """Space to channels, blocks, channels to space; the members' fields after the common ones."""

    def __init__(
        self,
        common: int,
        own: int,
        out: int,
        width: int,
        depth: int,
        topology: Topology,
        dropout: float,
        mixing: Mixing,
        heads: int,
    ):
        super().__init__(topology, multiple=2)
        self.sizes = (common, own)
        self.drop = nn.Dropout2d(dropout)
        self.common = nn.Conv2d(common, width, 2, stride=2)
        self.own = nn.Conv2d(own, width, 2, stride=2, bias=False)
        self.blocks = nn.Sequential(
            *(MemberBlock(width, topology, dropout, mixing, heads) for _ in range(depth))
        )
        self.head = nn.Conv2d(width, 4 * out, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def reach(self, x: Tensor) -> int:
        """Two rows of the core, of two rows each, for every block."""
        return 4 * len(self.blocks)

    def body(self, x: Tensor) -> Tensor:
        """Map (batch, common + member * own, lat, lon) to (batch, member * out, lat, lon)."""
        common, own = self.sizes
        batch, members = len(x), (x.shape[1] - common) // own
        shared = self.common(self.drop(x[:, :common]))[:, None]
        each = x[:, common:].reshape(batch * members, own, *x.shape[-2:])
        y = shared + torch.unflatten(self.own(self.drop(each)), 0, (batch, members))
        y = functional.relu(self.blocks(y)).flatten(0, 1)
        out = functional.pixel_shuffle(self.head(y), 2)
        return out.reshape(batch, -1, *out.shape[-2:])


class SetNet(nn.Module):
    """Network over members.

    Parameters
    ----------
    fields
        Predictors of each member.
    others
        Predictors that all members share.
    out
        Outputs of each member.
    width, depth, topology, dropout, rows
        As for :class:`~weatherpp.methods.neural.networks.residual.ResidualNet`.
    mixing
        How members see each other.
    heads
        Of the attention; divides ``width``.
    pooled
        Give the mean over members of the outputs instead of each.
    """

    own_linear: nn.Parameter | None

    def __init__(
        self,
        fields: int,
        others: int,
        out: int,
        width: int = 24,
        depth: int = 2,
        topology: Topology = Topology(),
        dropout: float = 0.0,
        rows: int = 0,
        mixing: Mixing = "mean",
        heads: int = 1,
        pooled: bool = True,
    ):
        super().__init__()
        self.fields = fields
        common = 2 * fields + others
        self.core = Core(common, fields, out, width, depth, topology, dropout, mixing, heads)
        self.linear = nn.Parameter(torch.zeros(out, common, rows or 1))
        # the members' anomalies sum to zero, and so does what is linear in them
        own = None if pooled else nn.Parameter(torch.zeros(out, fields, rows or 1))
        self.register_parameter("own_linear", own)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, field, member, lat, lon) to (batch, out or member * out, lat, lon).

        The fields that all members share come last, and are read from the first member.
        """
        members, others = x[:, : self.fields], x[:, self.fields :, 0]
        mean = members.mean(dim=2)
        away = (members - mean[:, :, None]).transpose(1, 2)
        variance = away.square().sum(dim=1) / max(away.shape[1] - 1, 1)
        # the slope of a square root has no bound at zero
        spread = (variance + SMALL**2).sqrt() - SMALL
        common = torch.cat([mean, spread, others], dim=1)
        out = self.core(torch.cat([common, away.flatten(1, 2)], dim=1))
        out = torch.unflatten(out, 1, (away.shape[1], -1))
        out = out + by_row(self.linear, common)[:, None]
        if self.own_linear is None:
            pooled: Tensor = out.mean(dim=1)
            return pooled
        own = by_row(self.own_linear, away.flatten(0, 1))
        each: Tensor = (out + own.reshape(out.shape)).flatten(1, 2)
        return each
