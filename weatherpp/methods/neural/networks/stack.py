"""From a flat list of fields to a stack of them, for networks with a further dimension."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Stack(nn.Module):
    """Arranges the fields for a network that has a dimension of levels, lead times or members.

    Parameters
    ----------
    net
        Maps (batch, channel, place, lat, lon) to (batch, out, lat, lon).
    table
        Which field stands in (channel, place); -1 where there is none (zeros, the mean of a
        standardised field).
    """

    table: Tensor

    def __init__(self, net: nn.Module, table: Sequence[Sequence[int]]):
        super().__init__()
        self.net = net
        self.register_buffer("table", torch.tensor(table), persistent=False)

    def arranged(self, table: Sequence[Sequence[int]]) -> Stack:
        """The same network for fields that stand elsewhere."""
        return Stack(self.net, table).train(self.training)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, field, lat, lon) to (batch, out, lat, lon)."""
        batch, fields, height, width = x.shape
        # field number `fields` is the appended one of zeros
        x = torch.cat([x, torch.zeros_like(x[:, :1])], dim=1)
        index = torch.where(self.table < 0, fields, self.table).reshape(-1)
        stack = x.index_select(1, index).reshape(batch, *self.table.shape, height, width)
        out: Tensor = self.net(stack)
        return out
