"""The archive's forecasts as they lie on disk: read by zarr itself, chunk by whole chunk.

A pass over an archive that goes through dask pays for a graph and for copies. Statistics and
training samples take one chunk after the other instead, on a few threads, a bounded number ahead
of its use.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
import zarr
from numpy.typing import NDArray

from weatherpp.conventions import exists_on, grid_dims, hours
from weatherpp.data.archive import Archive
from weatherpp.errors import InputError

T = TypeVar("T")
R = TypeVar("R")
# each call of zarr costs about as much as the decompression of a megabyte, so a few chunks are
# read in one
PIECE_BYTES = 16_000_000


class Fields(NamedTuple):
    """Fields of one variable: all lead times x levels; ``levels`` is empty if it has none."""

    variable: str
    levels: tuple[int, ...]
    hours: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        """Names such as ``z500@48h``, lead times outside, levels inside."""
        return [
            f"{self.variable}{level}@{hour:g}h"
            for hour in self.hours
            for level in (self.levels or ("",))
        ]


def own_levels(variable: xr.DataArray) -> tuple[int, ...]:
    """Levels (hPa) on which a variable has values; empty for one without levels."""
    if "level" not in variable.dims:
        return ()
    return tuple(int(level) for level in exists_on(variable, "levels"))


def known(what: str, chosen: Sequence[Any], there: Sequence[Any]) -> None:
    """Refuse a choice that is not there.

    Raises
    ------
    InputError
        Naming what is there.
    """
    for each in chosen:
        if each not in there:
            names = ", ".join(f"{k:g}" if isinstance(k, float) else str(k) for k in there)
            raise InputError(f"the forecast has no {what} {each}; there are {names or 'none'}")


def choose_fields(
    forecast: xr.Dataset,
    variables: Sequence[str] = (),
    levels: Sequence[int] = (),
    lead_hours: Sequence[float] = (),
) -> list[Fields]:
    """Which fields to take from a forecast; an empty choice means all that exist.

    Raises
    ------
    InputError
        A chosen variable, level or lead time does not exist, or nothing is left.
    """
    names = [str(name) for name, da in forecast.data_vars.items() if "number" in da.dims]
    known("variable", variables, names)
    known("level", levels, sorted({lv for name in names for lv in own_levels(forecast[name])}))
    known("lead time (hours)", lead_hours, [hours(step) for step in forecast["step"].values])
    chosen = []
    for name in variables or names:
        own = own_levels(forecast[name])
        on = tuple(level for level in own if not levels or level in levels)
        leads = exists_on(forecast[name], "steps")
        at = tuple(lead for lead in leads if not lead_hours or lead in lead_hours)
        if at and (on or not own):
            chosen.append(Fields(name, on, at))
    if not chosen:
        raise InputError("no predictors are left; check predictors, variables, levels and leads")
    return chosen


def positions(archive: Archive, times: pd.DatetimeIndex) -> NDArray[np.int64]:
    """Where initial times stand in an archive.

    Raises
    ------
    InputError
        One is not there (the first is named).
    """
    there = pd.DatetimeIndex(archive.forecast["time"].values)
    at = there.get_indexer(times)
    if not len(at):
        raise InputError(f"{archive.path}: no dates were chosen")
    if (at < 0).any():
        raise InputError(
            f"{archive.path}: no forecast of {times[at < 0][0]:%Y-%m-%d %H:%M} UTC; they run "
            f"from {there[0]:%Y-%m-%d} to {there[-1]:%Y-%m-%d}"
        )
    return at.astype(np.int64)


@dataclass(frozen=True)
class Piece:
    """What of a variable is read at once, besides the dates.

    Attributes
    ----------
    levels
        Positions read; None for a variable without levels.
    fields
        (channel, step, level): which of the :attr:`Stored.names` lies where in what is read.
    """

    levels: slice | None
    fields: tuple[tuple[int, int, int], ...]


class Stored:
    """One variable of an archive's forecasts, for reading from any thread or process.

    Parameters
    ----------
    archive, fields
        What to read.
    members
        Numbers of the members; empty means all.

    Attributes
    ----------
    members
        Positions of the members in what :meth:`read` gives.
    dates
        Length of a chunk in time.
    pieces
        Few neighbouring chunks of levels are one; together they hold all fields.

    Raises
    ------
    InputError
        A member is missing, or the values are packed.
    """

    def __init__(self, archive: Archive, fields: Fields, members: Sequence[int] = ()):
        da = archive.forecast[fields.variable]
        packed = {"scale_factor", "add_offset"} & set(da.encoding)
        if packed or np.isfinite(da.encoding.get("_FillValue", np.nan)):
            raise InputError(
                f"{archive.path}: {fields.variable} is stored packed or with a fill value; "
                "make the archive again with 'weatherpp ingest'"
            )
        self.path, self.fields, self.names = archive.path, fields, fields.names
        self.times = da["time"].values
        numbers = [int(number) for number in da["number"].values]
        known("member", members, numbers)
        member_at = [numbers.index(number) for number in (members or numbers)]
        leads = [hours(step) for step in da["step"].values]
        step_at = [leads.index(hour) for hour in fields.hours]
        self.window = {"number": _window(member_at), "step": _window(step_at)}
        self.members = np.array(member_at) - self.window["number"].start
        steps = [at - self.window["step"].start for at in step_at]
        order = ("time", "step", "number", "level", *grid_dims(da))
        self.order = tuple(dim for dim in order if dim in da.dims)
        self.dims = tuple(str(dim) for dim in da.dims)
        chunks = dict(zip(self.dims, self.array.chunks, strict=True))
        self.dates = int(chunks["time"])
        if "level" not in self.dims:
            self.pieces = [Piece(None, tuple((n, step, 0) for n, step in enumerate(steps)))]
            return
        index = [int(level) for level in da["level"].values]
        places = [index.index(level) for level in fields.levels]
        one = math.prod(min(chunks[dim], da.sizes[dim]) for dim in ("time", "level"))
        one *= math.prod(w.stop - w.start for w in self.window.values()) * da.dtype.itemsize
        one *= math.prod(da.sizes[dim] for dim in grid_dims(da))
        most = max(1, PIECE_BYTES // one)
        self.pieces = _pieces(places, steps, int(chunks["level"]), most)

    @cached_property
    def array(self) -> Any:
        """The array of zarr, opened in each process anew."""
        return zarr.open_group(self.path, mode="r")[f"forecast/{self.fields.variable}"]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "array"}

    def read(self, dates: slice, piece: Piece) -> NDArray[Any]:
        """Shape (date, step, member, level, row, column), C order; level 1 where there is none.

        Raises
        ------
        InputError
            A chunk cannot be read.
        """
        window = {**self.window, "time": dates, "level": piece.levels}
        try:
            values = self.array[tuple(window.get(dim, slice(None)) for dim in self.dims)]
        except (OSError, ValueError, RuntimeError) as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            first = pd.Timestamp(self.times[dates.start])
            raise InputError(
                f"{self.path}: {self.fields.variable} at {first:%Y-%m-%d %HZ} cannot be read "
                f"({text}); make or copy the archive again"
            ) from None
        values = values.transpose([self.dims.index(dim) for dim in self.order])
        if piece.levels is None:
            values = values[:, :, :, None]
        return np.ascontiguousarray(values)


def _window(at: Sequence[int]) -> slice:
    return slice(min(at), max(at) + 1)


def _pieces(levels: Sequence[int], steps: Sequence[int], chunk: int, most: int) -> list[Piece]:
    """Neighbouring chunks of levels, ``most`` together; fields count as in `Fields.names`."""
    together: list[list[int]] = []
    for place in sorted(range(len(levels)), key=levels.__getitem__):
        here = levels[place] // chunk
        begun = together and here - levels[together[-1][-1]] // chunk <= 1
        if begun and here - levels[together[-1][0]] // chunk < most:
            together[-1].append(place)
        else:
            together.append([place])
    out = []
    for places in together:
        window = _window([levels[place] for place in places])
        fields = tuple(
            (lead * len(levels) + place, step, levels[place] - window.start)
            for lead, step in enumerate(steps)
            for place in places
        )
        out.append(Piece(window, fields))
    return out


def blocks_of(dates: NDArray[np.int64], length: int) -> list[NDArray[np.int64]]:
    """Dates (positions, ascending) that lie in one chunk of ``length`` dates, chunk by chunk."""
    ends = np.flatnonzero(np.diff(dates // length)) + 1
    return np.split(dates, ends)


def ahead(
    function: Callable[[T], R], items: Iterable[T], threads: int, waiting: int
) -> Iterator[R]:
    """``map`` on threads: results in order, at most ``waiting`` begun before they are asked for.

    An error comes up where its result would.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="ahead") as pool:
        begun: deque[Future[R]] = deque()
        try:
            for item in items:
                begun.append(pool.submit(function, item))
                if len(begun) >= waiting:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()
