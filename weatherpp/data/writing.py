"""An archive written block by block: bounded memory, several workers, goes on after a kill.

A *block* is one chunk of one variable in the store. Workers read, check and write whole blocks, so
no two of them touch the same file, and no more blocks are in memory than there are workers. The
journal names the blocks that are there; after an interruption only the others are made.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from weatherpp.data.archive import chunk_sizes
from weatherpp.data.checks import check_values
from weatherpp.data.join import Layout, Whole
from weatherpp.errors import ConfigError

JOURNAL = "blocks.done"
M_ARENA_MAX = -8  # malloc.h
AHEAD = 2
"""Blocks handed to a worker before it asks, so that it never waits for the next one."""
BUNDLE_BYTES = 128_000_000
WORKER_BYTES = 600_000_000
"""What the threads may take each, on average; where blocks are large there are fewer threads."""
COPIES = 4
"""Of a bundle in memory at the same time: as it is read, converted, put in place, encoded."""
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Block:
    """One chunk of one variable: its place in the store and which part of the whole it is."""

    group: str
    name: str
    part: tuple[slice, ...]

    @property
    def key(self) -> str:
        """Name in the journal."""
        return f"{self.group}/{self.name}/{'.'.join(str(part.start) for part in self.part)}"

    @property
    def bytes(self) -> int:
        """Size of its values in single precision."""
        return 4 * math.prod(int(part.stop - part.start) for part in self.part)


def blocks(group: str, ds: xr.Dataset) -> Iterator[Block]:
    """All blocks of a group that hold fields, date after date, as files mostly are."""
    found: list[tuple[int, Block]] = []
    for name, da in ds.data_vars.items():
        sizes = chunk_sizes(da.sizes)
        starts = [range(0, da.sizes[dim], sizes[str(dim)]) for dim in da.dims]
        levels = da.attrs.get("levels") if "level" in da.dims else None
        for corner in itertools.product(*starts):
            part = tuple(
                slice(at, min(at + sizes[str(dim)], da.sizes[dim]))
                for at, dim in zip(corner, da.dims, strict=True)
            )
            if levels is not None:
                level = da["level"].values[part[da.dims.index("level")]]
                if not np.isin(level, levels).any():
                    continue  # does not exist there; an absent chunk reads as missing
            found.append((corner[0], Block(group, str(name), part)))
    return iter(block for _, block in sorted(found, key=lambda item: item[0]))


def bundles(
    todo: Iterable[Block], wholes: Mapping[tuple[str, str], Whole]
) -> list[tuple[Block, ...]]:
    """Blocks to read together: those of neighbouring dates that lie in the same chunk of a source.

    Each alone would have the chunk read and unpacked again.

    Parameters
    ----------
    todo
        Blocks, date after date.
    wholes
        Where their values come from, by group and name.
    """
    found: dict[int, list[Block]] = {}
    last: dict[Any, int] = {}
    for number, block in enumerate(todo):
        date, others = block.part[0], tuple(part.start for part in block.part[1:])
        stored = wholes[block.group, block.name].stored(date.start)
        key = (block.group, block.name, others, stored)
        bundle = found.get(last.get(key, -1), [])
        size = block.bytes + sum(each.bytes for each in bundle)
        if bundle and bundle[-1].part[0].stop == date.start and size <= BUNDLE_BYTES:
            bundle.append(block)
        else:
            found[number], last[key] = [block], number
    return [tuple(bundle) for bundle in found.values()]


def make_blocks(
    store: str, bundle: tuple[Block, ...], what: tuple[Whole, xr.DataArray], sparse: bool
) -> list[str]:
    """Read, check and write neighbouring blocks; returns their keys.

    Parameters
    ----------
    store
        Path of the store.
    bundle
        Which; of one variable, one date after the other.
    what
        The whole, and a variable with its labels and attributes.
    sparse
        Missing values are expected.

    Raises
    ------
    InputError
        A value cannot be.
    """
    whole, template = what
    first = bundle[0]
    whole_part = (slice(first.part[0].start, bundle[-1].part[0].stop), *first.part[1:])
    values = whole[whole_part]
    labels = {
        dim: template[dim].values[part]
        for dim, part in zip(template.dims, whole_part, strict=True)
        if dim in template.coords
    }
    da = xr.DataArray(values, labels, template.dims, first.name, template.attrs)
    check_values(da, ", ".join(whole.sources(whole_part)[:1]), sparse)
    array: Any = zarr.open_array(store, path=f"{first.group}/{first.name}", mode="r+")
    array[whole_part] = values
    return [block.key for block in bundle]


class Journal:
    """Blocks that are written, one a line; a line cut off by a kill counts for nothing."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else [""]
        self.done = set(lines[:-1])
        if lines[-1]:
            path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
        self._stream = path.open("a", encoding="utf-8")

    def add(self, key: str) -> None:
        """Note a block."""
        self.done.add(key)
        self._stream.write(f"{key}\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def write(
    store: Path,
    layouts: Mapping[str, Layout],
    journal: Journal,
    *,
    sparse: bool = False,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Write all blocks that the journal does not name.

    Parameters
    ----------
    store
        A store that holds each of ``layouts`` without its values, see
        :func:`weatherpp.data.archive.write_group`.
    layouts
        What to write, by group.
    journal
        What is there.
    sparse
        Missing values are expected.
    scheduler
        Address of a dask.distributed scheduler whose workers see the same files; without it, as
        many threads as there are cores.
    progress
        Called with (description, done, total) after each block.

    Raises
    ------
    InputError
        A value cannot be; what was written stays, and counts at the next attempt.
    ConfigError
        There is no such scheduler.
    """
    todo = [block for group, layout in layouts.items() for block in blocks(group, layout.ds)]
    total = len(todo)
    todo = [block for block in todo if block.key not in journal.done]
    done = total - len(todo)
    wholes = {(g, n): whole for g, layout in layouts.items() for n, whole in layout.wholes.items()}
    jobs = bundles(todo, wholes)
    largest = max((sum(block.bytes for block in bundle) for bundle in jobs), default=0)
    with _workers(scheduler, largest) as (pool, workers, share):
        shared = {
            (group, name): share((whole, _template(layouts[group].ds[name])))
            for (group, name), whole in wholes.items()
        }
        waiting: set[Future[list[str]]] = set()
        queue = iter(jobs)
        while True:
            for bundle in itertools.islice(queue, workers * AHEAD - len(waiting)):
                what = shared[bundle[0].group, bundle[0].name]
                waiting.add(pool.submit(make_blocks, str(store), bundle, what, sparse))
            if not waiting:
                return
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                for key in future.result():
                    journal.add(key)
                    done += 1
                    if progress is not None:
                        progress("writing fields", float(done), float(total))


def _template(da: xr.DataArray) -> xr.DataArray:
    """The same variable without values and places, small enough to send."""
    empty = np.broadcast_to(np.float32(0), da.shape)
    labels = {name: c.variable for name, c in da.coords.items() if c.dims == (name,)}
    return xr.DataArray(empty, labels, da.dims, da.name, da.attrs)


def share_memory() -> None:
    """Let threads begun from now on take memory from one pool: else each keeps what it freed to
    itself, which adds half as much again. Only glibc knows how; elsewhere nothing is done."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


@contextmanager
def _workers(
    scheduler: str | None, largest: int
) -> Iterator[tuple[Executor, int, Callable[[Any], Any]]]:
    """A pool, the number of its workers, and how to give them all an object once.

    ``largest`` is the size of the largest piece of work, bytes.
    """
    if scheduler is None:
        cores = len(os.sched_getaffinity(0))
        count = max(1, min(cores, cores * WORKER_BYTES // max(COPIES * largest, 1)))
        with ThreadPoolExecutor(count, "block") as pool:
            try:
                yield pool, count, lambda item: item
            finally:
                pool.shutdown(cancel_futures=True)
        return
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError(
            "--scheduler needs the package distributed: pip install 'weatherpp[distributed]'"
        ) from None
    if not re.fullmatch(r"(\w+://)?[\w.\-\[\]:]+:\d+", scheduler):
        raise ConfigError(f"--scheduler {scheduler}: no address; write for example tcp://host:8786")
    make: Any = Client  # untyped
    try:
        client = make(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--scheduler {scheduler}: no scheduler answers ({error})") from None
    with client:
        count = sum(client.nthreads().values())
        if not count:
            raise ConfigError(f"--scheduler {scheduler}: it has no workers")
        with client.get_executor(pure=False, retries=0) as pool:
            yield pool, count, lambda item: client.scatter([item], broadcast=True)[0]
