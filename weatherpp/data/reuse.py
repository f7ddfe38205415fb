"""Blocks taken over from an older state of the same archive, so that growth costs what is new.

A block is taken over if the archive that is there has the same fields in one block too, and the
files they come from have not changed since. It is a hard link: no value is read, and the old
archive stays whole until the new one takes its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from weatherpp.data.archive import MANIFEST, Archive, Known, chunk_sizes, content_hash
from weatherpp.data.join import Layout
from weatherpp.data.writing import Block, Journal, blocks
from weatherpp.errors import WeatherppError


@dataclass(frozen=True)
class _Old:
    """One variable of the archive that is there."""

    da: xr.DataArray
    chunks: tuple[int, ...]


def take_over(
    old: Path,
    store: Path,
    layouts: Mapping[str, Layout],
    states: Mapping[str, Any],
    made: str,
    journal: Journal,
    known: Known,
) -> None:
    """Link into ``store`` the blocks of ``old`` that are still what would be written.

    Parameters
    ----------
    old
        An archive; nothing is done unless it was made in the same way (``made``).
    store
        The new store, on the same file system, with its groups created.
    layouts
        What it will hold, by group.
    states
        State (size, time of change) of each source file, by its path.
    made
        Hash of all that decides what a file's fields become: the catalog entry, the version.
    journal
        Where the blocks are noted.
    known
        Takes the hashes of the old archive's files, which are those of the blocks linked.
    """
    try:
        manifest = json.loads((old / MANIFEST).read_text(encoding="utf-8"))
        same = manifest["made"] == made
        before = {source["path"]: source["state"] for source in manifest["sources"]}
        same &= content_hash(old, known) == manifest["content"]  # damage must not be carried on
        archive = Archive.open(old)
        groups = {group: getattr(archive, group) for group in layouts} if same else {}
    except (OSError, ValueError, KeyError, TypeError, WeatherppError):
        return  # whatever is wrong with it, it is no use
    for group, ds in groups.items():
        if ds is None or not ds.data_vars:
            continue
        there = {str(name): _Old(da, _chunks(old, group, str(name))) for name, da in ds.items()}
        layout = layouts[group]
        for block in blocks(group, layout.ds):
            if block.name not in there or block.key in journal.done:
                continue
            files = layout.wholes[block.name].sources(block.part)
            if any(before.get(file) != states[file] for file in files):
                continue
            source = _place(block, layout.ds[block.name], there[block.name])
            if source is not None:
                _link(old, store, block, source, there[block.name].chunks)
                journal.add(block.key)


def _chunks(store: Path, group: str, name: str) -> tuple[int, ...]:
    array: Any = zarr.open_array(store, path=f"{group}/{name}", mode="r")
    return tuple(array.chunks)


def _place(block: Block, new: xr.DataArray, old: _Old) -> tuple[int, ...] | None:
    """Index in chunks of the block with the same labels in the old variable, if there is one."""
    if new.dims != old.da.dims or tuple(chunk_sizes(new.sizes).values()) != old.chunks:
        return None
    place: list[int] = []
    for dim, part, chunk in zip(new.dims, block.part, old.chunks, strict=True):
        if dim not in new.coords or dim not in old.da.coords:
            if new.sizes[dim] != old.da.sizes[dim]:
                return None
            place.append(0)
            continue
        wanted, having = new[dim].values[part], old.da[dim].values
        start = int(np.searchsorted(having, wanted[0])) if dim != "latitude" else 0
        whole = having[start : start + chunk]
        if start % chunk or not np.array_equal(whole, wanted):
            return None
        place.append(start // chunk)
    return tuple(place)


def _link(
    old: Path, store: Path, block: Block, place: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    def path(root: Path, index: tuple[int, ...]) -> Path:
        return root / block.group / block.name / "c" / "/".join(map(str, index))

    source = path(old, place)
    if not source.is_file():
        return  # a chunk of missing values alone is not written
    target = path(store, tuple(p.start // n for p, n in zip(block.part, chunks, strict=True)))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    os.link(source, target)
