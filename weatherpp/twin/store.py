"""The store of a twin archive: its dates, its empty arrays, and writing into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import dask.array as da
import numpy as np
import torch
import xarray as xr
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec

from weatherpp import conventions
from weatherpp.twin import settings, surface
from weatherpp.twin.ensemble import Output
from weatherpp.twin.fields import ARCHIVE_LEVELS, VARIABLE_LEVELS, to_fields
from weatherpp.twin.settings import TwinConfig
from weatherpp.twin.spectral import Transform

COMPRESSION = BloscCodec(cname="lz4", clevel=1, shuffle="shuffle")
"""Reads twice as fast as the default of Zarr and takes less room."""


def dates_per_chunk(config: TwinConfig) -> int:
    """Initial dates in a chunk of forecasts; a chunk never spans two years."""
    return _chunk(config.number_of_dates, 21)


class Dates(Protocol):
    """The part of a configuration that decides the initial dates."""

    first_year: int

    @property
    def number_of_years(self) -> int: ...

    @property
    def number_of_dates(self) -> int: ...


def initial_times(config: Dates) -> NDArray[np.datetime64]:
    """Initial dates, shape (year, date), datetime64[ns] UTC.

    The first is 1 January, 00 UTC in odd and 12 UTC in even years, then every 84 h; so no two
    realisations ever have a valid time in common.
    """
    years = config.first_year + np.arange(config.number_of_years)
    first = [np.datetime64(f"{y:04d}-01-01T{0 if y % 2 else 12:02d}", "ns") for y in years]
    offsets = np.arange(config.number_of_dates) * np.timedelta64(settings.INTERVAL_HOURS, "h")
    return np.asarray(np.array(first)[:, None] + offsets.astype("timedelta64[ns]"))


def valid_times(
    config: Dates, hours: tuple[int, ...] = settings.STEP_HOURS
) -> NDArray[np.datetime64]:
    """Valid times, shape (year, date, step), datetime64[ns] UTC."""
    steps = np.array(hours, dtype="timedelta64[h]").astype("timedelta64[ns]")
    return np.asarray(initial_times(config)[..., None] + steps)


def limit_dates(config: TwinConfig) -> list[tuple[int, int]]:
    """(year, date) of the perfect-model limit, ascending: every second date of the last years."""
    wanted, dates = config.number_of_limit_dates, config.number_of_dates
    chosen: list[tuple[int, int]] = []
    for parity in (0, 1):
        for year in reversed(range(config.number_of_years)):
            chosen += [(year, date) for date in range(parity, dates, 2)]
    return sorted(chosen[:wanted])


def create_group(
    store: Path,
    group: str,
    transform: Transform,
    times: NDArray[np.datetime64],
    members: int | None,
    dates: int,
    hours: tuple[int, ...] = settings.STEP_HOURS,
) -> None:
    """Write coordinates, attributes and empty arrays of a group.

    ``members`` None: an analysis; ``dates``: dates in a chunk; ``hours``: lead times.
    """
    sizes: dict[str, int] = {"latitude": transform.nlat, "longitude": transform.nlon}
    coords: dict[str, Any] = {
        "level": np.array(ARCHIVE_LEVELS),
        "latitude": transform.latitude,
        "longitude": transform.longitude,
    }
    dims: tuple[str, ...]
    if members is None:
        dims = ("valid_time", "level", "latitude", "longitude")
        coords["valid_time"] = times
        chunks = {"valid_time": dates}
    else:
        dims = ("time", "step", "number", "level", "latitude", "longitude")
        steps = np.array(hours, dtype="timedelta64[h]").astype("timedelta64[ns]")
        coords |= {"time": times, "step": steps, "number": np.arange(members)}
        coords["valid_time"] = (("time", "step"), times[:, None] + steps)
        chunks = {"time": dates, "step": steps.size, "number": members}
    ds = xr.Dataset(coords=coords)
    ds.attrs["Conventions"] = "CF-1.11"
    chunk = [{**sizes, "level": 1, **chunks}[dim] for dim in dims]
    # only its shape and type are used: nothing is written with compute=False
    shape = [ds.sizes[dim] for dim in dims]
    lazy = da.full(shape, np.nan, chunks=chunk, dtype=np.float32)  # type: ignore[no-untyped-call]
    for name in VARIABLE_LEVELS:
        ds[name] = xr.Variable(dims, lazy)
    ds = conventions.annotate(ds)
    for name, levels in VARIABLE_LEVELS.items():
        ds[name].attrs["levels"] = list(levels)
    encoding: dict[str, dict[str, Any]] = {
        name: {
            "chunks": tuple(chunk),
            "compressors": (COMPRESSION,),
            "_FillValue": np.float32(np.nan),
        }
        for name in VARIABLE_LEVELS
    }
    for name in ("time", "valid_time"):
        if name in ds.coords:
            encoding[name] = {"units": "hours since 1970-01-01", "dtype": "int64"}
    ds.to_zarr(
        store, group=group, mode="a", compute=False, encoding=encoding, zarr_format=3,
        consolidated=False, write_empty_chunks=False,
    )  # fmt: skip


def _chunk(size: int, preferred: int) -> int:
    """The largest chunk up to the preferred one that divides the size into equal parts."""
    return next(n for n in range(min(size, preferred), 0, -1) if size % n == 0)


def write_static(store: Path, transform: Transform) -> None:
    lat, lon = transform.latitude, transform.longitude
    ds = xr.Dataset(
        {
            "orog": (("latitude", "longitude"), surface.orography(lat, lon).astype(np.float32)),
            "lsm": (("latitude", "longitude"), surface.land_fraction(lat, lon).astype(np.float32)),
        },
        coords={"latitude": lat, "longitude": lon},
    )
    conventions.annotate(ds).to_zarr(
        store, group="static", mode="a", zarr_format=3, consolidated=False
    )


class Writer:
    """Writes one chunk of dates at a time."""

    def __init__(self, store: Path, config: TwinConfig, years: range, transform: Transform) -> None:
        self.config, self.years, self.transform = config, years, transform
        self.root = zarr.open_group(store, mode="r+")
        self.pending: list[Output] = []
        self.size = dates_per_chunk(config)
        valid = valid_times(config, config.steps)
        order = np.argsort(valid.ravel(), kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        self.rank = rank.reshape(valid.shape)
        self.limit = {index: row for row, index in enumerate(limit_dates(config))}

    def add(self, output: Output) -> None:
        """Take one date; write when a chunk is whole."""
        self.pending.append(output)
        for index, psi in output.limit.items():
            row = self.limit[self.years[index], output.date]
            self._write_forecast("limit", row, to_fields(self.transform, psi.unsqueeze(6)))
        if len(self.pending) == self.size:
            self._write()
            self.pending = []

    def _arrays(self, group: str) -> dict[str, zarr.Array[Any]]:
        arrays = {}
        for name in VARIABLE_LEVELS:
            array = self.root[f"{group}/{name}"]
            assert isinstance(array, zarr.Array)
            arrays[name] = array
        return arrays

    def _write(self) -> None:
        first = self.pending[0].date
        for index, year in enumerate(self.years):
            row = year * self.config.number_of_dates + first
            # date by date: few states at a time stay in the cache
            dates = [to_fields(self.transform, o.forecast[..., index, :]) for o in self.pending]
            fields = {name: np.stack([date[name] for date in dates]) for name in VARIABLE_LEVELS}
            self._write_forecast("forecast", row, fields)
            truth = torch.stack([o.truth[..., index] for o in self.pending], dim=6)
            fields = to_fields(self.transform, truth.flatten(6))
            rows = self.rank[year, first : first + self.size].ravel()
            for name, array in self._arrays("analysis").items():
                for position, level in enumerate(VARIABLE_LEVELS[name]):
                    where = ARCHIVE_LEVELS.index(level)
                    array.oindex[rows, where] = fields[name][:, position]

    def _write_forecast(self, group: str, row: int, fields: dict[str, NDArray[np.float32]]) -> None:
        for name, array in self._arrays(group).items():
            values = fields[name]
            for position, level in enumerate(VARIABLE_LEVELS[name]):
                where = ARCHIVE_LEVELS.index(level)
                array[row : row + len(values), :, :, where] = values[:, :, :, position]
