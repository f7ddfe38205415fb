"""A network that steps through the lead times: convolutional long short-term memory.

Shi et al. 2015 (arXiv:1506.04214), without the peephole terms; the temporal model that
Groenquist et al. 2019 (arXiv:1911.00630) compare with lead times as channels. The core runs on
every second grid point, as that of :class:`ResidualNet`, and starts at zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from weatherpp.methods.neural.networks.padding import Padded, Topology, pad


class Cell(nn.Module):
    """One step of the memory, 3 x 3 convolutions throughout."""

    def __init__(self, channels: int, width: int, topology: Topology):
        super().__init__()
        self.topology, self.width = topology, width
        self.gates = nn.Conv2d(channels + width, 4 * width, 3)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """New output and memory, both (batch, width, lat, lon)."""
        output, memory = state
        gates = self.gates(pad(torch.cat([x, output], dim=1), 1, self.topology))
        enter, keep, show, new = gates.chunk(4, dim=1)
        # a memory that keeps nothing at the start learns slowly
        memory = (keep + 1).sigmoid() * memory + enter.sigmoid() * new.tanh()
        return show.sigmoid() * memory.tanh(), memory


class TemporalNet(Padded):
    """Lead time after lead time through cells of memory.

    Parameters
    ----------
    channels, out
        Numbers of predictors at each lead time and of outputs.
    width, depth
        Channels of the memory and number of cells on top of each other.
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
        depth: int = 1,
        topology: Topology = Topology(),
        dropout: float = 0.0,
    ):
        super().__init__(topology, multiple=2)
        self.width = width
        self.drop = nn.Dropout2d(dropout)
        self.stem = nn.Conv2d(channels, width, 2, stride=2)
        self.cells = nn.ModuleList(Cell(width, width, topology) for _ in range(max(depth, 1)))
        self.head = nn.Conv2d(2 * width, 4 * out, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def reach(self, x: Tensor) -> int:
        """A row of the core, of two rows, for every cell and lead time."""
        return 2 * len(self.cells) * x.shape[2]

    def body(self, x: Tensor) -> Tensor:
        """Map (batch, channels, lead time, lat, lon) to (batch, out, lat, lon)."""
        batch, _, leads, height, columns = x.shape
        steps = functional.relu(self.stem(self.drop(x.transpose(1, 2).flatten(0, 1))))
        steps = steps.reshape(batch, leads, *steps.shape[1:])
        series = list(steps.unbind(dim=1))
        empty = x.new_zeros(batch, self.width, height // 2, columns // 2)
        for cell in self.cells:
            output, memory = empty, empty
            outputs = []
            for step in series:
                output, memory = cell(step, (output, memory))
                outputs.append(output)
            series = outputs
        # the last lead time's predictors once more, past the gates
        last = torch.cat([series[-1], steps[:, -1]], dim=1)
        return functional.pixel_shuffle(self.head(last), 2)
