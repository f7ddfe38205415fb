"""Reduced grids, whose rows have fewer points towards the poles, made full row by row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import dask.array
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import Kind
from weatherpp.data.axes import mean_of_known
from weatherpp.data.canonical import canonical_name
from weatherpp.data.regrid import LIKE, GridSettings

Array = NDArray[np.float64]


def filled(raw: xr.Dataset, settings: GridSettings | None, kind: Kind) -> xr.Dataset:
    """A Dataset on a reduced grid with all rows as long as the longest; lazy.

    That is the first half of the way to a regular grid, for :func:`weatherpp.data.regrid.to_grid`
    to go on from. Along a row, amounts and fractions are spread over the new cells so that their
    sum stays, all else is interpolated linearly.

    Parameters
    ----------
    raw
        As read, with ``latitude`` and ``longitude`` along one dimension of points.
    settings
        What the catalog entry asks for. Without a new grid in it, and for a grid without rows,
        the Dataset comes back as it is, to be refused as such.
    kind
        What the Dataset is to become.
    """
    regrid = None if settings is None else settings.regrid
    if settings is None or regrid is None or (regrid == LIKE and kind == "forecast"):
        return raw
    dim = _points(raw)
    starts = None if dim is None else _rows(raw["latitude"].values, raw["longitude"].values)
    if dim is None or starts is None:
        return raw
    rows = np.split(raw["longitude"].values.astype(np.float64), starts[1:])
    width = max(row.size for row in rows)
    longitude = np.arange(width) * (360.0 / width)
    out: dict[Hashable, xr.DataArray] = {}
    for name, da in raw.data_vars.items():
        if dim not in da.dims:
            out[name] = da
            continue
        kept = settings.method_for(canonical_name(str(name), da)) == "conservative"
        wide = da.transpose(..., dim).chunk({dim: -1})
        data: Any = wide.data
        full = dask.array.map_blocks(  # type: ignore[no-untyped-call]
            _fill,
            data,
            rows=rows,
            longitude=longitude,
            along=_spread if kept else _interpolated,
            dtype=np.float32,
            chunks=(*data.chunks[:-1], (len(rows),), (width,)),
            new_axis=data.ndim,
            meta=np.empty((0,) * (data.ndim + 1), np.float32),
        )
        out[name] = xr.DataArray(full, dims=(*wide.dims[:-1], "latitude", "longitude"))
        out[name].attrs = da.attrs
    coords = {name: c.variable for name, c in raw.coords.items() if dim not in c.dims}
    places = {
        "latitude": ("latitude", raw["latitude"].values[starts], raw["latitude"].attrs),
        "longitude": ("longitude", longitude, raw["longitude"].attrs),
    }
    return xr.Dataset(out, {**coords, **places}, raw.attrs)


def _points(raw: xr.Dataset) -> Hashable | None:
    """The dimension of points that have both a latitude and a longitude, if there is one."""
    if not {"latitude", "longitude"} <= set(raw.coords):
        return None
    dims = raw["latitude"].dims
    return dims[0] if len(dims) == 1 and dims == raw["longitude"].dims else None


def _rows(latitude: NDArray[Any], longitude: NDArray[Any]) -> NDArray[Any] | None:
    """Where each row begins; None if the points do not stand in rows evenly all round."""
    starts: NDArray[Any] = np.r_[0, np.flatnonzero(np.diff(latitude)) + 1]
    if np.unique(latitude[starts]).size < starts.size or starts.size < 2:
        return None
    for row in np.split(longitude.astype(np.float64), starts[1:]):
        even = row[0] + np.arange(row.size) * (360.0 / row.size)
        if row.size < 2 or np.abs(row - even).max() > 1e-3:
            return None
    return starts


def _fill(
    values: NDArray[Any],
    rows: Sequence[Array],
    longitude: Array,
    along: Callable[..., Array],
) -> NDArray[np.float32]:
    """Fields (..., points) as (..., rows, longitudes)."""
    heads = values.shape[:-1]
    fields = values.reshape(-1, values.shape[-1])
    out = np.empty((len(fields), len(rows), longitude.size), np.float32)
    for number, field in enumerate(fields.astype(np.float64)):
        begin = 0
        for place, row in enumerate(rows):
            weigh = partial(along, row=row, longitude=longitude)
            out[number, place] = mean_of_known(weigh, field[begin : begin + row.size])
            begin += row.size
    return out.reshape(*heads, len(rows), longitude.size)


def _interpolated(values: Array, row: Array, longitude: Array) -> Array:
    """Linearly between the two neighbours on a ring that begins at ``row[0]``."""
    place = (longitude - row[0]) % 360
    out: Array = np.interp(place, np.r_[row - row[0], 360.0], np.r_[values, values[0]])
    return out


def _spread(values: Array, row: Array, longitude: Array) -> Array:
    """Means over the new cells, by the sum of the old ones from the west border on."""
    old, new = 360.0 / row.size, 360.0 / longitude.size
    # edges of the old cells, one turn more than the new ones can reach
    edges = row[0] - old / 2 + old * np.arange(2 * row.size + 1)
    sums = np.r_[0.0, np.cumsum(np.r_[values, values])] * old
    west = (longitude - new / 2 - edges[0]) % 360 + edges[0]
    mean: Array = (np.interp(west + new, edges, sums) - np.interp(west, edges, sums)) / new
    return mean
