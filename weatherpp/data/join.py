"""Pieces of a source laid out in one table of fields, with nothing lost or made up.

Only coordinates are looked at to find out which field stands where; the values are read when a
part of the whole is asked for, from the pieces that hold it and from no other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import ACCUMULATED, Kind, annotate, grid_dims, hours, label_text
from weatherpp.data.amounts import same_sums
from weatherpp.data.archive import chunk_sizes
from weatherpp.data.lagged import lagged_hint
from weatherpp.data.matching import snap
from weatherpp.errors import InputError, WeatherppError

ORDER = ("time", "step", "number", "valid_time", "level")
Index = NDArray[np.intp]
PORTION_BYTES = 16_000_000


@dataclass(frozen=True)
class Part:
    """Fields of one piece: values, the place of each along every dimension, where they are from."""

    da: xr.DataArray
    at: Mapping[str, Index]
    where: str


class Whole:
    """One variable of a source as an array of float32, read when it is indexed.

    Parameters
    ----------
    dims, shape
        Of the whole, without and with the grid at the end.
    parts
        What it is made of; all with the same dimensions, in the order of ``dims``.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, dims: tuple[str, ...], shape: tuple[int, ...], parts: Sequence[Part]):
        self.dims, self.shape, self.parts = dims, shape, tuple(parts)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @cached_property
    def _by_first(self) -> dict[int, list[int]]:
        """Parts that have fields at each index of the first dimension."""
        found: dict[int, list[int]] = {}
        for number, part in enumerate(self.parts):
            for index in part.at[self.dims[0]].tolist() if self.dims else [0]:
                found.setdefault(index, []).append(number)
        return found

    def __getitem__(self, index: tuple[Any, ...]) -> NDArray[np.float32]:
        heads = [np.arange(n)[i] for n, i in zip(self.shape, index[: len(self.dims)], strict=False)]
        wanted = dict(zip(self.dims, map(np.atleast_1d, heads), strict=True))
        items = list(wanted.items())
        inside = index[len(self.dims) :]
        grid = self.shape[len(self.dims) :]
        out = np.full((*(w.size for w in wanted.values()), *grid), np.nan, dtype=np.float32)
        for part in self.holding(wanted):
            for mine in _portions(part, wanted):
                there = [np.searchsorted(want, part.at[dim][mine[dim]]) for dim, want in items]
                chosen = {dim: _as_slice(at) for dim, at in mine.items()}
                out[np.ix_(*there)] = _values(part, chosen)
        squeezed = out[tuple(0 if head.ndim == 0 else slice(None) for head in heads)]
        return squeezed[(..., *inside)] if inside else squeezed

    def sources(self, index: tuple[slice, ...]) -> list[str]:
        """Where the fields of a part of the whole are from, without repeats."""
        wanted = {
            dim: np.arange(n)[i] for dim, n, i in zip(self.dims, self.shape, index, strict=False)
        }
        return list(dict.fromkeys(part.where for part in self.holding(wanted)))

    @cached_property
    def _stored(self) -> list[tuple[tuple[int, int], ...]]:
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.shape[0])]
        for number, part in enumerate(self.parts):
            at = part.at[self.dims[0]]
            sizes = part.da.variable.chunksizes.get(self.dims[0], (at.size,))
            for index, chunk in zip(at.tolist(), np.repeat(range(len(sizes)), sizes), strict=True):
                found[index].append((number, int(chunk)))
        return [tuple(each) for each in found]

    def stored(self, index: int) -> tuple[tuple[int, int], ...]:
        """Where the fields at a place along the first dimension are: equal places have all their
        fields in the same chunks of the same parts, so that they are best read together."""
        return self._stored[index] if self.dims else ()

    def holding(self, wanted: Mapping[str, Index]) -> list[Part]:
        """The parts that have at least one of the fields at these places."""
        first = wanted[self.dims[0]].tolist() if self.dims else [0]
        numbers = dict.fromkeys(n for i in first for n in self._by_first.get(i, ()))
        parts = [self.parts[number] for number in numbers]
        return [p for p in parts if all(np.isin(p.at[d], w).any() for d, w in wanted.items())]


def _portions(part: Part, wanted: Mapping[str, Index]) -> Iterator[dict[str, Index]]:
    """Places in a part that are wanted, in portions along the chunks it is stored in: one after
    the other they take less memory than all at once."""
    mine = {dim: np.flatnonzero(np.isin(part.at[dim], want)) for dim, want in wanted.items()}
    size = math.prod(part.da.sizes[dim] for dim in part.da.dims if dim not in mine) * 4
    size *= math.prod(at.size for at in mine.values())
    single: list[str] = []
    for dim, at in mine.items():
        if size > PORTION_BYTES and max(part.da.variable.chunksizes.get(dim, (0,))) == 1:
            single.append(dim)
            size //= max(at.size, 1)
    for place in itertools.product(*(mine[dim] for dim in single)):
        yield mine | {dim: np.array([at]) for dim, at in zip(single, place, strict=True)}


def _values(part: Part, chosen: Mapping[str, slice | Index]) -> NDArray[Any]:
    try:
        with dask.config.set(scheduler="synchronous"):
            values: NDArray[Any] = part.da.isel(chosen).values
    except (WeatherppError, MemoryError):
        raise
    except Exception as error:  # those of netCDF4, zarr and its codecs have no common base
        if isinstance(error, OSError) and (error.errno or 0) > 0:
            raise  # the disk's, which may pass; what is written stays
        raise InputError(
            f"{part.where}: values of {part.da.name} cannot be read (damaged?); fetch the file "
            "again"
        ) from error
    return values


def _as_slice(at: Index) -> slice | Index:
    """Neighbouring places as a slice, which dask takes a hundredth of the time for."""
    if at.size and at[-1] - at[0] + 1 == at.size:  # they ascend
        return slice(int(at[0]), int(at[-1]) + 1)
    return at


class Derived(Whole):
    """A variable worked out lazily from a whole, field for field in the same table."""

    def __init__(self, source: Whole, da: xr.DataArray):
        super().__init__(source.dims, source.shape, source.parts)
        self.da = da

    def __getitem__(self, index: tuple[Any, ...]) -> NDArray[np.float32]:
        with dask.config.set(scheduler="synchronous"):
            found: NDArray[np.float32] = np.asarray(self.da.data[index], dtype=np.float32)
        return found


@dataclass(frozen=True)
class Layout:
    """A canonical Dataset, lazy, and the wholes that its values come from."""

    ds: xr.Dataset
    wholes: Mapping[str, Whole]


def join(pieces: Sequence[xr.Dataset], where: str, kind: Kind, sparse: bool = False) -> xr.Dataset:
    """The Dataset of :func:`lay_out`."""
    return lay_out(pieces, where, kind, sparse).ds


def lay_out(
    pieces: Sequence[xr.Dataset],
    where: str,
    kind: Kind,
    sparse: bool = False,
) -> Layout:
    """One canonical Dataset out of canonical pieces of the same grid; lazy, float32.

    A variable that lacks levels or lead times others have gets NaN there and says where it
    exists in its attribute ``levels`` or ``steps`` (hours).

    Parameters
    ----------
    pieces
        Canonical Datasets; the attribute ``from`` of each names its file in error messages.
    where
        Names the whole in error messages.
    kind
        What the pieces are.
    sparse
        Fill gaps in the table of dates and members with NaN instead of refusing them.

    Raises
    ------
    InputError
        A field stands twice, the table of fields has gaps, or grids or members differ.
    """
    like = pieces[0]
    by_name: dict[str, list[tuple[xr.DataArray, str]]] = {}
    for piece in pieces:
        name = str(piece.attrs.get("from", where))
        for variable, da in piece.data_vars.items():
            bare = da.drop_vars("valid_time") if "step" in da.dims else da
            by_name.setdefault(str(variable), []).append((snap(bare, like, name), name))
    tables = {name: _own_labels(parts, f"{where}: {name}") for name, parts in by_name.items()}
    labels = _labels(tables, where, sparse)
    out: dict[str, xr.DataArray] = {}
    wholes: dict[str, Whole] = {}
    for name, parts in by_name.items():
        out[name], wholes[name] = _variable(parts, tables[name], labels, f"{where}: {name}", sparse)
    ds = xr.Dataset(out)
    if kind == "forecast":
        ds = ds.assign_coords(valid_time=ds["time"] + ds["step"])
    return Layout(annotate(ds), wholes)


Labels = dict[str, NDArray[Any]]


def _own_labels(parts: list[tuple[xr.DataArray, str]], where: str) -> Labels:
    """All labels of one variable along each dimension of the table."""
    having = {dim: [dim in da.dims for da, _ in parts] for dim in ORDER}
    for dim, there in having.items():
        if any(there) and not all(there):
            what = "members" if dim == "number" else f"dimension '{dim}'"
            raise InputError(f"{where}: has {what} in some files and none in others")
    return {
        dim: np.unique(np.concatenate([da[dim].values for da, _ in parts]))
        for dim, there in having.items()
        if all(there)
    }


def _labels(tables: dict[str, Labels], where: str, sparse: bool) -> Labels:
    """Labels of the whole; dates and members must be the same for all variables."""
    labels: Labels = {}
    for dim in ORDER:
        own = {name: table[dim] for name, table in tables.items() if dim in table}
        if not own:
            continue
        labels[dim] = np.unique(np.concatenate(list(own.values())))
        if dim in ("level", "step") or sparse:
            continue
        for name, values in own.items():
            if values.size < labels[dim].size:
                first = np.setdiff1d(labels[dim], values)[0]
                lacking = next(n for n, other in own.items() if first in other)
                raise InputError(f"{where}: {dim} {label_text(first)} has {lacking} but not {name}")
    return labels


def _variable(
    found: list[tuple[xr.DataArray, str]], own: Labels, labels: Labels, where: str, sparse: bool
) -> tuple[xr.DataArray, Whole]:
    dims = tuple(dim for dim in ORDER if dim in own)
    like = found[0][0]
    grid = grid_dims(like)
    parts = [
        Part(
            da.transpose(*dims, *grid),
            {dim: np.searchsorted(labels[dim], da[dim].values) for dim in dims},
            name,
        )
        for da, name in found
    ]
    _occupied(parts, own, labels, where, sparse)
    shape = (*(labels[dim].size for dim in dims), *(like.sizes[dim] for dim in grid))
    whole = Whole(dims, shape, parts)
    chunks = list(chunk_sizes(dict(zip((*dims, *grid), shape, strict=True))).values())
    data = dask.array.from_array(whole, chunks, name=False, asarray=False)  # type: ignore
    coords = {name: c.variable for name, c in like.coords.items() if not set(c.dims) & set(ORDER)}
    coords |= {dim: (dim, labels[dim]) for dim in dims}
    attrs = dict(like.attrs)
    if like.name in ACCUMULATED:
        attrs |= same_sums(found, where)
    for dim in ("level", "step"):
        if dim in own and own[dim].size < labels[dim].size:
            there = [hours(v) if dim == "step" else int(v) for v in own[dim]]
            attrs[f"{dim}s"] = there
    return xr.DataArray(data, coords, (*dims, *grid), attrs=attrs), whole


def _occupied(parts: list[Part], own: Labels, labels: Labels, where: str, sparse: bool) -> None:
    """Each field of the variable's own table is there once."""
    dims = list(own)
    places = {dim: np.searchsorted(labels[dim], own[dim]) for dim in dims}
    count = np.zeros([own[dim].size for dim in dims], dtype=np.uint8)
    for part in parts:
        at = np.ix_(*(np.searchsorted(places[dim], part.at[dim]) for dim in dims))
        count[at] += 1
        if (count[at] > 1).any():
            text = _first(count > 1, own)
            raise InputError(
                f"{where}: a second field for {text}, in {Path(part.where).name}; take one of the "
                "files out"
            )
    if not sparse and (count == 0).any():
        raise InputError(
            f"{where}: {int(count.sum())} fields for {count.size} combinations of "
            f"{', '.join(dims)}; the files do not belong to one table, or some are missing "
            f"(the first: {_first(count == 0, own)}){lagged_hint(count > 0, dims, own)}"
        )


def _first(found: NDArray[np.bool_], own: Labels) -> str:
    """Labels of the first place in a variable's table where something is true."""
    place = np.argwhere(found)[0]
    labels = (f"{dim} {label_text(own[dim][i])}" for dim, i in zip(own, place, strict=True))
    return ", ".join(labels)
