"""Dense networks at every point, with a few learnt numbers of its own for each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class DenseNet(nn.Module):
    """The same layers at every point; points differ by their predictors and their embedding.

    Parameters
    ----------
    channels, outputs
        Of the fields.
    width, depth
        Hidden layers: units, and number.
    points
        Number of points (columns).
    embedding
        Learnt numbers of each point. They start at zero, where all points are alike, and a point
        without training data stays there.
    dropout
        Behind each hidden layer.
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        width: int,
        depth: int,
        points: int,
        embedding: int,
        dropout: float,
    ):
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(1, points, embedding))
        layers: list[nn.Module] = []
        for number in range(depth):
            before = width if number else channels + embedding
            layers += [nn.Linear(before, width), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width if depth else channels + embedding, outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, 1, points) to (batch, outputs, 1, points); zero at first."""
        own = self.embedding.expand(len(x), -1, -1, -1)
        out: Tensor = self.head(self.layers(torch.cat([x.movedim(1, -1), own], dim=-1)))
        return out.movedim(-1, 1)


class DenseSetNet(nn.Module):
    """A dense network that sees each member, in no order (Zaheer et al. 2017, arXiv:1703.06114).

    An encoder takes what the fields of one member differ by from the mean over all, beside what
    they have in common; the mean of what it gives for all members is predictor of a
    :class:`DenseNet`, which starts at zero.

    Parameters
    ----------
    members
        Of each member the places of its fields among the channels, in the same order.
    channels, outputs, width, depth, points, embedding, dropout
        As for :class:`DenseNet`.
    """

    own: Tensor
    common: Tensor

    def __init__(
        self,
        members: Sequence[Sequence[int]],
        channels: int,
        outputs: int,
        width: int,
        depth: int,
        points: int,
        embedding: int,
        dropout: float,
    ):
        super().__init__()
        taken = {at for places in members for at in places}
        common = [at for at in range(channels) if at not in taken]
        self.register_buffer("own", torch.tensor(members), persistent=False)
        self.register_buffer("common", torch.tensor(common), persistent=False)
        self.encoder = nn.Sequential(
            nn.Linear(len(members[0]) + len(common), width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        size = (width, depth, points, embedding, dropout)
        self.dense = DenseNet(len(common) + width, outputs, *size)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, 1, points) to (batch, outputs, 1, points); zero at first."""
        own, common = x[:, self.own], x[:, self.common]
        own = own - own.mean(dim=1, keepdim=True)
        beside = common[:, None].expand(-1, own.shape[1], -1, -1, -1)
        seen = self.encoder(torch.cat([own, beside], dim=2).movedim(2, -1)).mean(dim=1)
        out: Tensor = self.dense(torch.cat([common, seen.movedim(-1, 1)], dim=1))
        return out
