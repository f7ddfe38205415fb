"""Pieces of a source joined into one canonical Dataset, with nothing lost or made up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.conventions import Kind, grid_dims, hours
from weatherpp.data.matching import snap
from weatherpp.errors import InputError

ORDER = ("number", "level", "step", "time", "valid_time")


def join(pieces: Sequence[xr.Dataset], where: str, kind: Kind, sparse: bool = False) -> xr.Dataset:
    """One canonical Dataset out of canonical pieces of the same grid.

    Each variable is put together on its own, along member, level, lead time and date. A
    variable that lacks levels or lead times others have gets NaN there and says where it
    exists in its attribute ``levels`` or ``steps`` (hours).

    Parameters
    ----------
    sparse
        Fill gaps in the table of dates and members with NaN instead of refusing them.

    Raises
    ------
    InputError
        A field stands twice, the table of fields has gaps, or grids or members differ.
    """
    like = pieces[0]
    by_name: dict[str, list[xr.DataArray]] = {}
    for piece in pieces:
        for name, da in piece.data_vars.items():
            by_name.setdefault(str(name), []).append(
                snap(da.drop_vars("valid_time") if "step" in da.dims else da, like, where)
            )
    whole = {name: _table(parts, f"{where}: {name}", sparse) for name, parts in by_name.items()}
    for dim in ("time", "valid_time", "number"):
        whole = _same(whole, dim, where, sparse)
    for dim in ("level", "step"):
        whole = {name: _union(da, dim, whole) for name, da in whole.items()}
    ds = xr.Dataset(whole)
    dims = ("time", "step", "number", "valid_time", "level", *grid_dims(ds))
    ds = ds.transpose(*(dim for dim in dims if dim in ds.dims))
    if kind == "forecast":
        ds = ds.assign_coords(valid_time=ds["time"] + ds["step"])
    return ds


def _table(parts: list[xr.DataArray], where: str, sparse: bool) -> xr.DataArray:
    """One array out of parts; along each dimension in turn, parts alike otherwise are joined."""
    for dim in ORDER:
        groups: dict[tuple[object, ...], list[xr.DataArray]] = {}
        for part in parts:
            rest = [d for d in ORDER if d != dim]
            key = tuple(part[d].values.tobytes() if d in part.dims else None for d in rest)
            groups.setdefault((*key, dim in part.dims), []).append(part)
        parts = [_along(group, dim, where) for group in groups.values()]
    if len(parts) == 1:
        return parts[0]
    if len({tuple(sorted(map(str, part.dims))) for part in parts}) > 1:
        raise InputError(f"{where}: has members in some files and none in others")
    dims = [dim for dim in ORDER if dim in parts[0].dims]
    slots = pd.concat([_slots(part, dims) for part in parts])
    twice = slots[slots.duplicated()]
    if len(twice):
        at = ", ".join(f"{dim} {twice.iloc[0][dim]}" for dim in dims)
        raise InputError(f"{where}: two fields for {at}")
    full = int(np.prod([slots[dim].nunique() for dim in dims]))
    if not sparse:
        raise InputError(
            f"{where}: {len(slots)} fields for {full} combinations of {', '.join(dims)}; the "
            "files do not belong to one table, or some are missing"
        )
    out = parts[0]
    for part in parts[1:]:
        out = out.combine_first(part)
    return out


def _along(group: list[xr.DataArray], dim: str, where: str) -> xr.DataArray:
    if len(group) == 1:
        return group[0]
    if dim not in group[0].dims:
        raise InputError(f"{where}: {len(group)} fields for one place in the table")
    values = np.concatenate([part[dim].values for part in group])
    unique, counts = np.unique(values, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"{where}: {dim} {_text(unique[counts > 1][0])} stands in two files")
    out = xr.concat(group, dim, join="exact", coords="minimal", compat="override")
    return out.sortby(dim)


def _slots(part: xr.DataArray, dims: list[str]) -> pd.DataFrame:
    index = pd.MultiIndex.from_product([part[dim].values for dim in dims], names=dims)
    return index.to_frame(index=False)


def _same(
    whole: dict[str, xr.DataArray], dim: str, where: str, sparse: bool
) -> dict[str, xr.DataArray]:
    """Dates and members must be the same for all variables."""
    having = {name: da for name, da in whole.items() if dim in da.dims}
    if not having:
        return whole
    sets = {name: set(da[dim].values.tolist()) for name, da in having.items()}
    union = set.union(*sets.values())
    for name, there in sets.items():
        if there != union and not sparse:
            lacking = next(n for n in having if sets[n] - there)
            first = min(sets[lacking] - there)
            what = pd.Timestamp(first) if dim.endswith("time") else first
            raise InputError(f"{where}: {dim} {what} has {lacking} but not {name}")
    out = dict(whole)
    if any(there != union for there in sets.values()):
        values = np.unique(np.concatenate([da[dim].values for da in having.values()]))
        out |= {name: da.reindex({dim: values}) for name, da in having.items()}
    return out


def _union(da: xr.DataArray, dim: str, whole: dict[str, xr.DataArray]) -> xr.DataArray:
    """``da`` on all values of ``dim`` that any variable has, noting where it exists itself."""
    if dim not in da.dims:
        return da
    values = np.unique(np.concatenate([d[dim].values for d in whole.values() if dim in d.dims]))
    if len(values) == da.sizes[dim]:
        return da
    own = da[dim].values
    there = [hours(value) for value in own] if dim == "step" else [int(value) for value in own]
    return da.reindex({dim: values}).assign_attrs({f"{dim}s": there})


def _text(value: object) -> str:
    if isinstance(value, np.timedelta64):
        return f"{hours(value):g} h"
    if isinstance(value, np.datetime64):
        return f"{pd.Timestamp(value):%Y-%m-%d %H:%M}"
    return str(value)
