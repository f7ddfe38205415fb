"""A dense network at every point, with a few learnt numbers of its own for each."""

from __future__ import annotations

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
