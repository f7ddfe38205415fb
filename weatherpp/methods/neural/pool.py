"""Samples of several data sets as one, for a network that serves them all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from weatherpp.methods.neural.samples import Batch, Samples


class Pool(Dataset[Batch]):
    """One data set behind the other; a batch may hold samples of all of them.

    Parameters
    ----------
    parts
        On one grid, with as many channels each.
    """

    def __init__(self, parts: Sequence[Samples | Pool]):
        self.parts = tuple(parts)

    def cut(self, tile: int, tiles: int) -> None:
        """As :meth:`Samples.cut`."""
        for part in self.parts:
            part.cut(tile, tiles)

    def reseed(self, seed: int) -> None:
        """As :meth:`Samples.reseed`; samples of one date have their squares in one place."""
        for part in self.parts:
            part.reseed(seed)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getitem__(self, index: int) -> Batch:
        return {name: value[0] for name, value in self.__getitems__([index]).items()}

    def __getitems__(self, indices: list[int]) -> Batch:
        """Batch in the order of ``indices``; each part is asked once."""
        ends = np.cumsum([len(part) for part in self.parts])
        which = np.searchsorted(ends, indices, side="right")
        local = np.asarray(indices) - np.concatenate([[0], ends])[which]
        batches = [
            self.parts[number].__getitems__(local[which == number].tolist())
            for number in np.unique(which)
        ]
        back = torch.from_numpy(np.argsort(np.argsort(which, kind="stable")))
        return {name: torch.cat([each[name] for each in batches])[back] for name in batches[0]}
