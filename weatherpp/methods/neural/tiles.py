"""Overlapping tiles of a grid, and which rank trains on which sample when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weatherpp.errors import ConfigError
from weatherpp.methods.neural.networks.padding import Topology


class Tile(NamedTuple):
    """Its first row and column; columns go on round the globe."""

    row: int
    column: int


def tiles(
    shape: tuple[int, int], size: tuple[int, int], overlap: tuple[int, int], topology: Topology
) -> list[Tile]:
    """Tiles of one size that cover a grid.

    Where longitude is periodic they go round, one of them across Greenwich; elsewhere the last
    is moved back to end with the grid. Rows are never joined across a pole: a tile ends there,
    and a network pads it as it does any other edge.

    Parameters
    ----------
    shape
        Rows and columns of the grid.
    size
        Rows and columns of a tile.
    overlap
        Points that neighbours share at least.

    Raises
    ------
    ConfigError
        A tile is larger than the grid or not larger than the overlap.
    """
    for whole, length, shared in zip(shape, size, overlap, strict=True):
        if not 0 <= shared < length <= whole:
            raise ConfigError(
                f"a tile of {size[0]} x {size[1]} points that overlaps by {overlap[0]} x "
                f"{overlap[1]} does not suit a grid of {shape[0]} x {shape[1]}; the tile must be "
                "larger than its overlap and no larger than the grid"
            )
    rows = _starts(shape[0], size[0], overlap[0], around=False)
    columns = _starts(shape[1], size[1], overlap[1], around=topology.periodic)
    return [Tile(row, column) for row in rows for column in columns]


def _starts(whole: int, length: int, shared: int, around: bool) -> list[int]:
    step = length - shared
    if length == whole:
        return [0]
    if around:
        return list(range(0, whole, step))
    return [*range(0, whole - length, step), whole - length]


class Sample(NamedTuple):
    """Where a sample lies: number of the block of dates, date, lead and tile in their lists."""

    block: int
    date: int
    lead: int
    tile: int


@dataclass(frozen=True)
class Order:
    """The order of samples in each epoch; a function of the seed alone.

    Blocks (dates that lie in one chunk on disk) are shuffled and dealt out to the ranks in turn;
    the samples of a block stay together, shuffled, so that a chunk is read once an epoch. On a
    large grid a block is one date.

    Attributes
    ----------
    blocks
        Numbers of the dates in each block.
    leads, tiles
        Samples of each date.
    batch
        Samples in a batch; the last may have fewer.
    shuffle
        False keeps the order of the dates.
    seed
        Of the shuffling.
    """

    blocks: Sequence[Sequence[int]]
    leads: int
    tiles: int
    batch: int
    shuffle: bool
    seed: int

    def batches(self, epoch: int, rank: int, ranks: int, even: bool) -> list[list[Sample]]:
        """Batches of one rank; each sample is in exactly one batch of one rank.

        With ``even`` batches at the end are left out (other ones each epoch), so that all ranks
        have the same number: a rank that runs out would leave the others waiting.
        """
        rng = np.random.default_rng([self.seed, epoch])
        numbers = np.arange(len(self.blocks))
        order = rng.permutation(numbers) if self.shuffle else numbers
        parts = [self._rank(order[each::ranks], epoch) for each in range(ranks)]
        batches = parts[rank]
        return batches[: min(map(len, parts))] if even else batches

    def _rank(self, blocks: NDArray[np.int64], epoch: int) -> list[list[Sample]]:
        samples: list[Sample] = []
        for block in blocks.tolist():
            own = [
                Sample(block, date, lead, tile)
                for date in self.blocks[block]
                for lead in range(self.leads)
                for tile in range(self.tiles)
            ]
            if self.shuffle:
                rng = np.random.default_rng([self.seed, epoch, block])
                own = [own[at] for at in rng.permutation(len(own))]
            samples += own
        return [samples[at : at + self.batch] for at in range(0, len(samples), self.batch)]
