"""GRIB files: every message looked at first, then placed in a table and read when needed.

cfgrib and eccodes log and carry on when a file is cut off or when fields do not fit together, and
cfgrib goes through the file again for every kind of field, one thread at a time. So the headers
are read here, once, and counted; cfgrib says what one field of each kind means; and the values
come straight from the message, from several threads if asked to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import cfgrib
import dask.array
import eccodes
import numpy as np
import xarray as xr
from cfgrib.dataset import get_values_in_order
from numpy.typing import NDArray

from weatherpp.data.grib_scan import Message, ensemble_types, is_turned, scan
from weatherpp.data.lagged import lagged_hint
from weatherpp.errors import InputError

HEADS = ("number", "time", "step")
MISSING = -1e30
"""Stands for missing points while decoding; far from any value, exact enough in float32."""
_MULTI = Lock()


@contextmanager
def _quiet() -> Iterator[None]:
    """What cfgrib logs is an error here or of no concern."""
    logger = logging.getLogger("cfgrib")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def read(
    path: Path,
    wanted: Callable[[str], bool] | None = None,
    sparse: bool = False,
    apart: bool = False,
) -> list[xr.Dataset]:
    """Pieces of a GRIB file, each a Dataset in cfgrib's names, lazy.

    Parameters
    ----------
    path
        The file. No index is written beside it.
    wanted
        Tells by cfgrib's name of a variable whether to take it; None takes all.
    sparse
        Allow combinations of date, lead time and member that the file does not hold; they
        become NaN.
    apart
        A piece for each initial time and for members that have the same lead times and levels,
        so that no piece has fields that are not in the file (of a lagged ensemble, whose runs
        have members of their own).

    Raises
    ------
    InputError
        The file is damaged, has no wanted variable, mixes grids, or its fields do not form a
        full table.
    """
    messages = scan(path)
    names = sorted({message.variable for message in messages})
    messages = [m for m in messages if wanted is None or wanted(m.variable)]
    if not messages:
        raise InputError(f"{path}: none of the wanted variables; there are {', '.join(names)}")
    grids = {m.grid: m for m in messages}
    if len(grids) > 1:
        sizes = ", ".join(str(m.points) for m in grids.values())
        raise InputError(f"{path}: {len(grids)} different grids ({sizes} points); split the file")
    members = ensemble_types(messages)
    groups = _runs(messages) if apart else _kinds(messages)
    first = groups[0][0]
    _check_places(path, first, _example(path, first))
    return [_piece(path, group, group[0].data_type in members, sparse) for group in groups]


def _kinds(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages of one variable, type of level, of data and of step."""
    groups: dict[tuple[str, ...], list[Message]] = {}
    for m in messages:
        groups.setdefault((m.variable, m.level_type, m.data_type, m.step_type), []).append(m)
    return list(groups.values())


def _runs(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages of one kind and run, of members that have the same lead times and levels."""
    groups: list[list[Message]] = []
    for kind in _kinds(messages):
        members: dict[tuple[Any, int | None], list[Message]] = {}
        for m in kind:
            members.setdefault((m.initial, m.number), []).append(m)
        runs: dict[tuple[Any, frozenset[tuple[int, int]]], list[Message]] = {}
        for (start, _), own in members.items():
            there = frozenset((m.lead_seconds, m.level) for m in own)
            runs.setdefault((start, there), []).extend(own)
        groups += runs.values()
    return groups


def _piece(path: Path, group: list[Message], members: bool, sparse: bool) -> xr.Dataset:
    """All fields of one kind as a table."""
    first = group[0]
    example = _example(path, first)
    (name,) = example.data_vars
    grid = [str(dim) for dim in example[name].dims]
    keys: dict[str, list[Any]] = {
        "number": [m.number or 0 for m in group],
        "time": [m.initial for m in group],
        "step": [m.lead for m in group],
        first.level_type: [m.level for m in group],
    }
    if not members:
        del keys["number"]
    values = {dim: np.unique(np.asarray(found)) for dim, found in keys.items()}
    # what has one value is a scalar coordinate, as in cfgrib
    dims = [dim for dim, found in values.items() if found.size > 1]
    at = tuple(np.searchsorted(values[dim], keys[dim]) for dim in dims)
    table = np.full([values[dim].size for dim in dims], -1, dtype=np.int64)
    if dims:
        table[at] = np.arange(len(group))
    else:
        table[()] = 0
    _count(path, name, table, len(group), sparse, lagged_hint(table >= 0, dims, values))
    shape = tuple(example[name].sizes[dim] for dim in grid)
    fields = Fields(path, tuple(m.place for m in group), table, shape)
    # one date, lead time and level at a time, so that large files need not fit in memory
    chunks = [-1 if dim == "number" else 1 for dim in dims] + [-1] * len(grid)
    data = dask.array.from_array(fields, chunks, name=False, asarray=False)  # type: ignore
    coords = {dim: _coordinate(example, dim, found, dim in dims) for dim, found in values.items()}
    geography = {k: v.variable for k, v in example.coords.items() if set(v.dims) & set(grid)}
    # cfgrib keeps the end of these ranges only
    attrs = {**example[name].attrs, "step_ranges": sorted({m.step for m in group})}
    out = xr.Dataset({name: ([*dims, *grid], data, attrs)}, {**geography, **coords})
    return _turned(out.assign_coords(valid_time=out["time"] + out["step"]), first)


def _coordinate(
    example: xr.Dataset, dim: str, values: NDArray[Any], whole: bool
) -> tuple[tuple[str, ...], NDArray[Any], dict[str, Any]]:
    attrs = dict(example[dim].attrs) if dim in example.coords else {}
    return (dim,) if whole else (), values if whole else values[0], attrs


def _count(
    path: Path, name: object, table: NDArray[np.int64], fields: int, sparse: bool, hint: str
) -> None:
    """As many slots as fields: none lost, none twice, none invented."""
    placed = int((table >= 0).sum())
    if placed < fields:
        raise InputError(
            f"{path}: {fields - placed} of {fields} fields of {name} stand twice; is the file two "
            "files put together?"
        )
    if table.size > fields and not sparse:
        raise InputError(
            f"{path}: {name} has {fields} fields for {table.size} combinations of date, lead "
            "time and member; if gaps are meant, set missing_values: expected in the catalog "
            f"entry{hint}"
        )


class _One(Mapping[tuple[int, int], cfgrib.Message]):
    """One field of a file, for cfgrib."""

    def __init__(self, path: Path, message: Message) -> None:
        self.path, self.message = path, message

    def __getitem__(self, offset: tuple[int, int]) -> cfgrib.Message:
        return _message(self.path, self.message.place)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter([self.message.offset])  # which one does not matter

    def __len__(self) -> int:
        return 1


def _message(path: Path, place: tuple[int, int, int]) -> cfgrib.Message:
    offset, number, length = place
    with _MULTI, path.open("rb") as stream:
        # cfgrib switches the support of several fields in a message on and off for all threads
        return cfgrib.Message.from_file(stream, offset if length else (offset, number))


def missing_points(path: Path, message: Message) -> int:
    """How many points of a field its bitmap leaves out; the values are not decoded.

    Raises
    ------
    InputError
        The message cannot be read.
    """
    try:
        field = _message(path, message.place)
        return int(field["numberOfMissing"]) if field["bitmapPresent"] else 0
    except (KeyError, EOFError, eccodes.CodesInternalError) as error:
        raise _unreadable(path, f"a field of {message.variable}") from error


def _unreadable(path: Path, what: str) -> InputError:
    """What eccodes and cfgrib say is for those who know them, and --debug shows it."""
    return InputError(f"{path}: {what} cannot be decoded; is the file damaged? fetch it again")


def _example(path: Path, message: Message) -> xr.Dataset:
    """What cfgrib makes of one field: names, attributes, grid."""
    one: Any = _One(path, message)
    try:
        with _quiet():
            ds: xr.Dataset = xr.open_dataset(
                one, engine="cfgrib", decode_timedelta=True, backend_kwargs={"errors": "raise"}
            )
    except Exception as error:  # those of cfgrib and eccodes have no common base
        raise InputError(
            f"{path}: what a field of {message.variable} ({message.level_type}, grid "
            f"{message.grid_type}) is cannot be understood; damaged? fetch it again, or name under "
            "'variables' of the catalog entry only those that are needed"
        ) from error
    return ds


def _check_places(path: Path, message: Message, example: xr.Dataset) -> None:
    """Refuse a grid whose points are not where cfgrib says, such as one stored by columns."""
    if not {"latitude", "longitude"} <= set(example.coords):
        return
    (da,) = example.data_vars.values()
    field = _message(path, message.place)
    for name in ("latitude", "longitude"):
        said = example[name].broadcast_like(da).transpose(*da.dims).values
        try:
            points = np.asarray(field[f"{name}s"], dtype=float).reshape(da.shape)
        except KeyError:  # no places for such a grid; what uses it says so
            return
        except (ValueError, eccodes.CodesInternalError) as error:
            raise _unreadable(path, f"the grid of {message.variable}") from error
        away = (points - said + 180.0) % 360.0 - 180.0
        if np.abs(away).max() > 1e-3:
            raise InputError(
                f"{path}: the points of {message.variable} are stored in an order that cannot be "
                "read; convert the file to rows from west to east (cdo, eccodes)"
            )


class Fields:
    """Fields of one kind in a file as an array, decoded when they are indexed.

    Parameters
    ----------
    path
        The file.
    places
        (offset of the message, number of the field in it, length of the message, 0 if it holds
        several fields) of each field.
    table
        Which of them stands where; -1 where there is none.
    grid
        Shape of a field.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self,
        path: Path,
        places: tuple[tuple[int, int, int], ...],
        table: NDArray[np.int64],
        grid: tuple[int, ...],
    ) -> None:
        self.path, self.places, self.table, self.grid = path, places, table, grid

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the table and of a field."""
        return (*self.table.shape, *self.grid)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, index: tuple[Any, ...]) -> NDArray[np.float32]:
        head, inside = index[: self.table.ndim], index[self.table.ndim :]
        chosen = self.table[head]
        out = np.full((*np.shape(chosen), *self.grid), np.nan, dtype=np.float32)
        with self.path.open("rb") as stream:
            for at, field in np.ndenumerate(chosen):
                if field >= 0:
                    out[at] = _decode(self.path, stream, self.places[field], self.grid)
        return out[(..., *inside)] if inside else out


def _decode(path: Path, stream: Any, place: tuple[int, int, int], grid: tuple[int, ...]) -> Any:
    offset, _, length = place
    try:
        if not length:
            message = _message(path, place)
            message["missingValue"] = MISSING
            found = get_values_in_order(message, grid)
        else:
            stream.seek(offset)
            found = _values(stream.read(length), grid)
        values = np.asarray(found, dtype=np.float32).reshape(grid)
    except (ValueError, KeyError, EOFError, eccodes.CodesInternalError) as error:
        raise _unreadable(path, f"the message at byte {offset}") from error
    missing = values == np.float32(MISSING)
    if missing.any():
        values[missing] = np.nan
    return values


def _values(content: bytes, grid: tuple[int, ...]) -> Any:
    handle = eccodes.codes_new_from_message(content)
    try:
        eccodes.codes_set(handle, "missingValue", MISSING)
        try:
            values = eccodes.codes_get_array(handle, "values", np.float32)
        except eccodes.FunctionNotImplementedError:  # some packings know double precision alone
            values = eccodes.codes_get_array(handle, "values", float).astype(np.float32)
        if len(grid) == 2 and eccodes.codes_get(handle, "alternativeRowScanning", int):
            values = values.reshape(grid)
            values[1::2] = values[1::2, ::-1].copy()
    finally:
        eccodes.codes_release(handle)
    return values


def _turned(piece: xr.Dataset, message: Message) -> xr.Dataset:
    """Winds along a turned grid get another name, so that nobody takes them for eastward ones."""
    if not is_turned(message):
        return piece
    (name,) = piece.data_vars
    piece[name].attrs.pop("standard_name", None)
    return piece.rename({name: f"{name}_along_grid"})
