"""Training samples straight from the archive on disk, for archives larger than memory.

Batches are made on threads, some ahead of their use: zarr's decompression and the loop that
standardises release Python's lock, so a training step does not wait for them. Each chunk is
read once an epoch. The same data set serves in the training process, in worker processes of a
``DataLoader`` and on several ranks.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from weatherpp.data.archive import Archive
from weatherpp.data.chunks import Stored, ahead, blocks_of, choose_fields, positions
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.neural.samples import Batch, constant_fields, plane, topology_of
from weatherpp.methods.neural.tiles import Order, Sample, tiles

Raw = list[list[NDArray[Any]]]


@dataclass(frozen=True)
class Layout:
    """What a sample is.

    Attributes
    ----------
    members
        ``channels``: one after the other; ``statistics``: their mean and spread (ddof = 1);
        ``set``: a dimension of its own in front of the channels.
    leads
        ``stack``: all lead times are channels of one sample; ``each``: each is a sample.
    tile, overlap
        Rows and columns, see :func:`~weatherpp.methods.neural.tiles.tiles`; None takes the
        whole grid.
    batch
        Samples in a batch.
    """

    members: Literal["channels", "statistics", "set"] = "statistics"
    leads: Literal["stack", "each"] = "stack"
    tile: tuple[int, int] | None = None
    overlap: tuple[int, int] = (0, 0)
    batch: int = 4


def day_of_year(time: np.datetime64) -> tuple[float, float]:
    """Sine and cosine of the share of the year gone by."""
    start = time.astype("datetime64[Y]")
    year = (start + 1).astype("datetime64[s]") - start.astype("datetime64[s]")
    angle = 2 * np.pi * float((time - start) / year)
    return float(np.sin(angle)), float(np.cos(angle))


class _Take(NamedTuple):
    """One field of a sample: (source, piece, step, level) in what is read, the lead time it
    belongs to (None: any), its channel, and its place in the statistics."""

    where: tuple[int, int, int, int]
    lead: int | None
    channel: int
    field: int


class _Blocks:
    """Blocks read once each, kept until the last batch that needs them has been made."""

    def __init__(self, read: Callable[[int], Raw], uses: Counter[int]):
        self.read, self.uses = read, uses
        self.held: dict[int, Future[Raw]] = {}
        self.lock = threading.Lock()

    def take(self, block: int) -> Raw:
        with self.lock:
            first = block not in self.held
            future = self.held.setdefault(block, Future())
        if first:
            try:
                future.set_result(self.read(block))
            except BaseException as error:  # also for the threads that wait for it
                future.set_exception(error)
        raw = future.result()
        with self.lock:
            self.uses[block] -= 1
            if not self.uses[block]:
                del self.held[block]
        return raw


class ArchiveSamples(IterableDataset[Batch]):
    """Batches of standardised forecasts, read from disk as they are needed.

    Parameters
    ----------
    archive
        Its forecasts and static fields are read.
    times
        Initial times to take.
    statistics
        From :func:`weatherpp.data.statistics.statistics` of the training dates, any mode; its
        channels say which fields are taken, so it must hold all those chosen below.
    layout
        What a sample is.
    variables, levels, lead_hours, members
        What to take; empty means all.
    dated
        Further fields such as the truth, each (date, ..., rows, columns), dates in the order of
        ``times``; anything that numpy can index by date. Cut like the predictors.
    shuffle, seed
        See :class:`~weatherpp.methods.neural.tiles.Order`; :meth:`set_epoch` for the next epoch.
    rank, ranks, even
        The share of one of several training processes.
    threads, waiting
        Threads that make batches (one in a worker process), and batches being made or made and
        not yet asked for. Memory: those batches and the chunks they are made of.

    Notes
    -----
    A batch holds

    - ``x``: predictors in units of their standard deviation, 0 where there is no value; shape
      (sample, channel, rows, columns), for ``set`` (sample, member, channel, rows, columns).
      :attr:`names` names the channels. Members one after the other: all channels of the first,
      then of the second. The spread is in units of the same standard deviation, not centred.
    - ``context``: (sample, field, rows, columns): the archive's static fields and the sine of
      latitude (standardised), sine and cosine of the day of the year at the initial time, and
      with ``leads: each`` the lead time in units of ten days; see :attr:`context_names`. It is
      apart from ``x`` so that it is not repeated for each member of a set.
    - ``date``, ``lead``, ``row``, ``column``: number in ``times``, number of the lead time (0
      for a stack), and first row and column of the tile.
    - every field of ``dated``.

    Raises
    ------
    InputError
        A field, member, date or static field is missing, there is no grid, or the statistics
        are not of these fields.
    ConfigError
        The layout does not suit the data.
    """

    def __init__(
        self,
        archive: Archive,
        times: pd.DatetimeIndex,
        statistics: xr.Dataset,
        layout: Layout | None = None,
        *,
        variables: Sequence[str] = (),
        levels: Sequence[int] = (),
        lead_hours: Sequence[float] = (),
        members: Sequence[int] = (),
        dated: Mapping[str, Any] | None = None,
        shuffle: bool = True,
        seed: int = 1,
        rank: int = 0,
        ranks: int = 1,
        even: bool = False,
        threads: int = 2,
        waiting: int = 4,
    ):
        if not 0 <= rank < ranks:
            raise ConfigError(f"rank {rank} of {ranks} ranks; ranks count from 0")
        self.layout = layout or Layout()
        self.rank, self.ranks, self.even = rank, ranks, even
        self.threads, self.waiting, self.epoch = threads, waiting, 0
        self.dated = dict(dated or {})
        field = archive.forecast[choose_fields(archive.forecast)[0].variable]
        self.shape = tuple(field.sizes[dim] for dim in plane(field))
        self._choose(archive, variables, levels, lead_hours, members)
        self._scale(archive, statistics)
        self._context(archive, field)
        self.times, self.at = times, positions(archive, times)
        if (np.diff(self.at) <= 0).any():
            raise InputError(f"{archive.path}: the dates of the samples must ascend")
        whole = (self.shape[0], self.shape[1])
        self.size = self.layout.tile or whole
        self.tiles = tiles(whole, self.size, self.layout.overlap, topology_of(field))
        self.order = self._order(shuffle, seed)

    def _order(self, shuffle: bool, seed: int) -> Order:
        """Samples in the order of training; those of dates in one chunk stay together."""
        blocks = blocks_of(self.at, max(stored.dates for stored in self.sources))
        ends = np.cumsum([0, *map(len, blocks)]).tolist()
        return Order(
            [range(a, b) for a, b in itertools.pairwise(ends)],
            1 if self.layout.leads == "stack" else len(self.hours),
            len(self.tiles),
            self.layout.batch,
            shuffle,
            seed,
        )

    def _choose(
        self,
        archive: Archive,
        variables: Sequence[str],
        levels: Sequence[int],
        lead_hours: Sequence[float],
        members: Sequence[int],
    ) -> None:
        """Fields, members and where each field lies in what is read."""
        fields = choose_fields(archive.forecast, variables, levels, lead_hours)
        self.sources = [Stored(archive, each, members) for each in fields]
        self.fields = [name for each in fields for name in each.names]
        self.hours = fields[0].hours
        each_lead = self.layout.leads == "each"
        odd = next((each for each in fields if each.hours != self.hours), None)
        if each_lead and odd is not None:
            raise InputError(
                f"{odd.variable} does not have the lead times of {fields[0].variable}, so they "
                "cannot be samples of their own; choose lead times that all variables have"
            )
        self.channels: list[str] = []
        self.takes: list[_Take] = []
        for source, (each, stored) in enumerate(zip(fields, self.sources, strict=True)):
            before, count = sum(len(f.names) for f in fields[:source]), max(1, len(each.levels))
            first = len(self.channels)
            for piece, part in enumerate(stored.pieces):
                for number, step, level in part.fields:
                    lead = number // count if each_lead else None
                    own = number % count if each_lead else number
                    where = (source, piece, step, level)
                    self.takes.append(_Take(where, lead, first + own, before + number))
            short = [f"{each.variable}{level}" for level in each.levels or ("",)]
            self.channels += short if each_lead else each.names
        numbers = members or archive.forecast["number"].values.tolist()
        kinds: dict[str, list[str]] = {
            "channels": [f"member{number}:" for number in numbers],
            "statistics": ["mean:", "spread:"][: len(numbers)],
            "set": [""],
        }
        self.members = len(numbers)
        self.names = [kind + c for kind in kinds[self.layout.members] for c in self.channels]

    def _scale(self, archive: Archive, statistics: xr.Dataset) -> None:
        """Mean and reciprocal standard deviation, float32 (field, rows, columns)."""
        known = [str(name) for name in statistics["channel"].values]
        absent = [name for name in self.fields if name not in known]
        if absent:
            raise InputError(
                f"{archive.path}: no statistics of {', '.join(absent)}; make them for all fields"
            )
        at = [known.index(name) for name in self.fields]
        mean, std = (np.asarray(statistics[name].values)[at] for name in ("mean", "std"))
        if mean.shape[1:] not in ((), self.shape):
            raise InputError(
                f"{archive.path}: its grid is {self.shape[0]} x {self.shape[1]}, that of the "
                f"statistics {mean.shape[1]} x {mean.shape[2]}"
            )
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
            raise InputError(
                f"{archive.path}: the statistics have a mean or standard deviation that is not "
                "finite, or a standard deviation of 0"
            )
        full = (len(at), *self.shape)

        def spread_out(values: NDArray[np.float64]) -> NDArray[np.float32]:
            wide = values.reshape(len(at), 1, 1) if values.ndim == 1 else values
            return np.ascontiguousarray(np.broadcast_to(wide, full), np.float32)

        self.mean, self.factor = spread_out(mean), spread_out(1 / std)

    def _context(self, archive: Archive, field: xr.DataArray) -> None:
        constant = constant_fields(archive.static, field)
        self.constant = np.stack(list(constant.values())) if constant else None
        dated = ["sine of day of year", "cosine of day of year"]
        lead = ["lead time"] if self.layout.leads == "each" else []
        self.context_names = [*constant, *dated, *lead]

    def set_epoch(self, epoch: int) -> None:
        """Another order for the next pass; call it before the loader starts one."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Number of batches of this rank."""
        return len(self._batches())

    def _batches(self) -> list[list[Sample]]:
        return self.order.batches(self.epoch, self.rank, self.ranks, self.even)

    def __iter__(self) -> Iterator[Batch]:
        """Batches of this rank and, in a worker process, of this worker."""
        batches, threads = self._batches(), self.threads
        worker = get_worker_info()
        if worker is not None:
            batches, threads = batches[worker.id :: worker.num_workers], 1
        uses = Counter(block for batch in batches for block in {each.block for each in batch})
        blocks = _Blocks(self._read, uses)
        yield from ahead(lambda batch: self._make(batch, blocks), batches, threads, self.waiting)

    def _read(self, block: int) -> Raw:
        dates = self.at[list(self.order.blocks[block])]
        window = slice(int(dates[0]), int(dates[-1]) + 1)
        return [[each.read(window, piece) for piece in each.pieces] for each in self.sources]

    def _make(self, batch: Sequence[Sample], blocks: _Blocks) -> Batch:
        raw = {block: blocks.take(block) for block in sorted({each.block for each in batch})}
        many, dims = self.layout.members == "set", (len(self.channels), *self.size)
        front = (len(batch), self.members) if many else (len(batch), len(self.names) // dims[0])
        x = torch.empty(*front, *dims)
        context = torch.empty(len(batch), len(self.context_names), *self.size)
        dated: dict[str, list[NDArray[Any]]] = {name: [] for name in self.dated}
        for number, sample in enumerate(batch):
            self._predictors(sample, raw[sample.block], x[number].numpy())
            self._context_of(sample, context[number].numpy())
            for name, values in self.dated.items():
                dated[name].append(self._cut(np.asarray(values[sample.date]), sample))
        out = {"x": x if many else x.flatten(1, 2), "context": context}
        out |= {name: torch.from_numpy(np.stack(values)) for name, values in dated.items()}
        corners = [self.tiles[each.tile] for each in batch]
        labels = {
            "date": [each.date for each in batch],
            "lead": [each.lead for each in batch],
            "row": [corner.row for corner in corners],
            "column": [corner.column for corner in corners],
        }
        return out | {name: torch.tensor(values) for name, values in labels.items()}

    def _predictors(self, sample: Sample, raw: Raw, out: NDArray[np.float32]) -> None:
        """Fill ``out`` (member or kind, channel, rows, columns)."""
        from weatherpp.data import loops

        fill = loops.reduce if self.layout.members == "statistics" else loops.standardise
        date = int(self.at[sample.date] - self.at[self.order.blocks[sample.block][0]])
        corner = tuple(self.tiles[sample.tile])
        for take in self.takes:
            if take.lead in (None, sample.lead):
                source, piece, step, level = take.where
                fill(
                    raw[source][piece], date, step, self.sources[source].members, level, corner,
                    self.mean[take.field], self.factor[take.field], out, take.channel,
                )  # fmt: skip

    def _cut(self, values: NDArray[Any], sample: Sample) -> NDArray[Any]:
        if self.layout.tile is None:
            return values
        corner = self.tiles[sample.tile]
        rows = values[..., corner.row : corner.row + self.size[0], :]
        return rows.take(range(corner.column, corner.column + self.size[1]), -1, mode="wrap")

    def _context_of(self, sample: Sample, out: NDArray[np.float32]) -> None:
        count = 0
        if self.constant is not None:
            count = len(self.constant)
            out[:count] = self._cut(self.constant, sample)
        scalars = [*day_of_year(self.times.values[sample.date])]
        if self.layout.leads == "each":
            scalars.append(self.hours[sample.lead] / 240)
        out[count:] = np.array(scalars)[:, None, None]
