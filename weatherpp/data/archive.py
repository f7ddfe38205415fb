"""The archive: canonical forecasts, analyses and static fields in one Zarr v3 store.

Groups: ``forecast``, and if there are such data ``analysis``, ``static`` and ``limit`` (what
a perfect ensemble would reach; the embedded atmosphere knows it). The attributes of the root
hold the title, licence and so on. ``manifest.json`` beside the groups holds the hash of all
content; it is written last.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray as xr
import zarr
from zarr.codecs import BloscCodec

from weatherpp.conventions import Kind, check, grid_dims
from weatherpp.errors import ConfigError, InputError
from weatherpp.files import write_whole

MANIFEST = "manifest.json"
CHUNK_BYTES = 1_000_000
LARGEST_CHUNK = 100_000_000
# Bits of like weight side by side: fields shrink by half, ten times as fast as with zarr's default
# (zstd), and are read back faster than a disk gives them.
COMPRESSION = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle")


@dataclass(frozen=True)
class Archive:
    """A store on disk; its groups open lazily, backed by dask.

    Raises
    ------
    InputError
        On access: the group is missing, damaged or not canonical.
    """

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Archive:
        """The archive at ``path``.

        Raises
        ------
        InputError
            There is no archive.
        """
        path = Path(path)
        if not path.is_dir():
            raise InputError(f"{path}: no archive there; make one with 'weatherpp ingest'")
        if not (path / "forecast" / "zarr.json").is_file():
            raise InputError(f"{path}: not an archive (no group 'forecast')")
        return cls(path)

    def has(self, group: str) -> bool:
        """Whether the store has a group."""
        return (self.path / group / "zarr.json").is_file()

    @cached_property
    def forecast(self) -> xr.Dataset:
        """Forecasts, dims (time, step, number, level, grid...)."""
        return self._group("forecast", "forecast")

    @cached_property
    def analysis(self) -> xr.Dataset | None:
        """Analyses, dims (valid_time, level, grid...), or None."""
        return self._group("analysis", "analysis") if self.has("analysis") else None

    @cached_property
    def static(self) -> xr.Dataset:
        """Static fields on the grid; empty if there are none."""
        return self._group("static", "static") if self.has("static") else xr.Dataset()

    @cached_property
    def limit(self) -> xr.Dataset | None:
        """What a perfect ensemble would reach, or None."""
        return self._group("limit", None) if self.has("limit") else None

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the whole: title, licence, citation, source..."""
        try:
            return dict(zarr.open_group(self.path, mode="r").attrs)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{self.path}: damaged archive ({error})") from None

    def identity(self) -> str:
        """Hash of the content, the same on every machine.

        Read from the manifest; without one, or if files came or went since, all files are
        read.
        """
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            if manifest["files"] == _census(self.path):
                return str(manifest["content"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return content_hash(self.path)

    def _group(self, name: str, kind: Kind | None) -> xr.Dataset:
        where = f"{self.path} ({name})"
        try:
            ds: xr.Dataset = xr.open_zarr(
                self.path,
                group=name,
                consolidated=False,
                decode_timedelta=True,
            )
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{where}: damaged archive ({error})") from None
        # coordinates are small; loading them now spares every later look a read
        ds = nanoseconds(ds.assign_coords({name: ds[name].load() for name in ds.coords}))
        # a store lists its variables as the file system does; results must not depend on that
        ds = ds[sorted(ds.data_vars, key=str)]
        if kind is not None:
            check(ds, where, kind)
        return ds


def write_archive(
    path: str | Path,
    forecast: xr.Dataset,
    analysis: xr.Dataset | None = None,
    static: xr.Dataset | None = None,
    limit: xr.Dataset | None = None,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Archive:
    """Write canonical Datasets as an archive; it appears under its name only when whole.

    Raises
    ------
    InputError
        A Dataset is not canonical.
    ConfigError
        ``path`` is there already and ``overwrite`` is False.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise ConfigError(f"{path}: is there already; remove it or choose another folder")
    kinds: list[tuple[Kind, xr.Dataset | None]] = [
        ("forecast", forecast),
        ("analysis", analysis),
        ("static", static if static is not None and static.data_vars else None),
    ]
    for kind, ds in kinds:
        if ds is not None:
            check(ds, f"{path} ({kind})", kind)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        zarr.open_group(partial, mode="w", zarr_format=3, attributes=dict(attrs or {}))
        for name, ds in [*kinds, ("limit", limit)]:
            if ds is not None:
                write_group(partial, name, ds)
        seal(partial)
        if path.exists():
            shutil.rmtree(path)
        partial.replace(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Archive.open(path)


def nanoseconds(ds: xr.Dataset) -> xr.Dataset:
    """All times in nanoseconds: mixed units join by value but not by type."""
    names = [name for name in ds.coords if ds[name].dtype.kind in "mM"]
    return ds.assign_coords(
        {name: ds[name].astype(f"{ds[name].dtype.kind}8[ns]") for name in names}
    )


def chunk_sizes(sizes: Mapping[Any, int], itemsize: int = 4) -> dict[str, int]:
    """Chunk lengths for a field's dimensions: whole grid, all members and lead times, one level,
    few dates.

    Few dates are as many as make about a megabyte, so that one sample is few whole reads and
    small grids do not fall into a crowd of tiny files. Where even one date is large, lead times
    and then members are divided, so that memory stays bounded.
    """
    out = {str(dim): 1 if dim == "level" else size for dim, size in sizes.items()}
    for dim in ("step", "number"):
        if dim in out:
            one = math.prod(n for name, n in out.items() if name not in (dim, "time")) * itemsize
            out[dim] = max(1, min(out[dim], LARGEST_CHUNK // max(one, 1)))
    for date in ("time", "valid_time"):
        if date in out:
            one = math.prod(size for dim, size in out.items() if dim != date)
            out[date] = max(1, min(out[date], CHUNK_BYTES // max(one * itemsize, 1)))
    return out


def write_group(store: Path, group: str, ds: xr.Dataset, values: bool = True) -> None:
    """Write a canonical Dataset as a group of a store, or only its metadata and coordinates."""
    ds = nanoseconds(ds)
    for name in ds.coords:
        ds[name].load()  # lazy ones would be left out with the values
    encoding: dict[Any, dict[str, Any]] = {}
    for name in ds.variables:
        ds[name].encoding = {}
    for name, da in ds.data_vars.items():
        chunks = {str(dim): size for dim, size in da.sizes.items()}
        if grid_dims(da):
            chunks = chunk_sizes(da.sizes, da.dtype.itemsize)
        shape = tuple(chunks[str(dim)] for dim in da.dims)
        encoding[name] = {"chunks": shape, "compressors": COMPRESSION}
        ds[name] = da.chunk(chunks)
    to_zarr: Any = ds.to_zarr  # its types want a literal for compute
    to_zarr(
        store,
        group=group,
        mode="w",
        zarr_format=3,
        consolidated=False,
        encoding=encoding,
        compute=values,
    )


def seal(path: Path, more: Mapping[str, Any] | None = None, known: Known | None = None) -> str:
    """Write the manifest of a finished store; returns its content hash.

    Parameters
    ----------
    path
        The store.
    more
        What else the manifest is to hold, such as the files it was made from.
    known
        See :func:`content_hash`.
    """
    for stray in path.rglob("*.partial"):
        stray.unlink()  # zarr's name for a chunk that is being written; left by a kill
    content = content_hash(path, known)
    manifest = {**(more or {}), "content": content, "files": _census(path)}
    write_whole(path / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return content


def _files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith(MANIFEST))


def _census(path: Path) -> dict[str, int]:
    files = _files(path)
    return {"count": len(files), "bytes": sum(file.stat().st_size for file in files)}


Known = dict[tuple[int, ...], str]
"""Hashes of files by device, inode, size and time of change, so that a hard link is known too."""


def content_hash(path: Path, known: Known | None = None) -> str:
    """Hash of a store's content, the same on every machine; reads all files but the manifest.

    Parameters
    ----------
    path
        The store.
    known
        Hashes found a moment ago, taken instead of reading these files again; those found now
        are added.
    """
    hashes = {} if known is None else known

    def of(file: Path) -> str:
        state = file.stat()
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        if key not in hashes:
            with file.open("rb") as stream:
                hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        return hashes[key]

    files = _files(path)
    total = hashlib.sha256()
    with ThreadPoolExecutor() as pool:
        for file, content in zip(files, pool.map(of, files), strict=True):
            total.update(f"{file.relative_to(path).as_posix()} {content}\n".encode())
    return total.hexdigest()[:32]


def sealed_hash(path: Path) -> str:
    """The :func:`content_hash` of an archive made a moment ago, as its manifest says."""
    return Archive.open(path).identity()
