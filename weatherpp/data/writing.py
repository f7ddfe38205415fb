"""An archive written block by block: bounded memory, several workers, goes on after a kill.

A *block* is one chunk of one variable in the store. Workers read, check and write whole blocks, so
no two of them touch the same file, and no more blocks are in memory than there are workers. The
journal names the blocks that are there; after an interruption only the others are made.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
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


def make_block(store: str, block: Block, what: tuple[Whole, xr.DataArray], sparse: bool) -> str:
    """Read, check and write one block; returns its key.

    Parameters
    ----------
    store
        Path of the store.
    block
        Which.
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
    values = whole[block.part]
    labels = {
        dim: template[dim].values[part]
        for dim, part in zip(template.dims, block.part, strict=True)
        if dim in template.coords
    }
    da = xr.DataArray(values, labels, template.dims, block.name, template.attrs)
    check_values(da, ", ".join(whole.sources(block.part)[:1]), sparse)
    array: Any = zarr.open_array(store, path=f"{block.group}/{block.name}", mode="r+")
    array[block.part] = values
    return block.key


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
    with _workers(scheduler) as (pool, workers, share):
        shared = {
            (group, name): share((whole, _template(layout.ds[name])))
            for group, layout in layouts.items()
            for name, whole in layout.wholes.items()
        }
        waiting: set[Future[str]] = set()
        queue = iter(todo)
        while True:
            for block in itertools.islice(queue, workers * AHEAD - len(waiting)):
                what = shared[block.group, block.name]
                waiting.add(pool.submit(make_block, str(store), block, what, sparse))
            if not waiting:
                return
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                journal.add(future.result())
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
def _workers(scheduler: str | None) -> Iterator[tuple[Executor, int, Callable[[Any], Any]]]:
    """A pool, the number of its workers, and how to give them all an object once."""
    if scheduler is None:
        count = len(os.sched_getaffinity(0))
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
