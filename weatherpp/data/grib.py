"""GRIB files: checked message by message with eccodes, then read with cfgrib.

cfgrib and eccodes log and carry on when a file is cut off or when fields do not fit together.
So every message is looked at first, and the fields that come out are counted against them.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cfgrib
import eccodes
import xarray as xr

from weatherpp.errors import InputError

WIND = ("u", "v", "u10", "v10", "u100", "v100")


@dataclass(frozen=True)
class Message:
    """What one field holds; ``variable`` is cfgrib's name of it.

    ``offset`` is where its message starts in the file, and which field of the message it is.
    """

    offset: tuple[int, int]
    variable: str
    units: str
    level_type: str
    level: int
    data_type: str
    number: int | None
    total: int
    date: int
    time: int
    step: str
    step_type: str
    grid: str
    grid_type: str
    points: int
    along_grid: bool


def scan(path: Path) -> list[Message]:
    """All messages of a file, headers only.

    Raises
    ------
    InputError
        The file is missing, is not GRIB, is cut off, or has foreign bytes between messages.
    """
    messages: list[Message] = []
    eccodes.codes_grib_multi_support_on()  # some centres pack u and v into one message
    try:
        with path.open("rb") as stream:
            eccodes.codes_grib_multi_support_reset_file(stream)
            while True:
                before = stream.tell()
                handle = eccodes.codes_grib_new_from_file(stream, headers_only=True)
                if handle is None:
                    _only_padding(path, before, None)
                    break
                try:
                    start = int(eccodes.codes_get(handle, "offset"))
                    _only_padding(path, before, start)
                    again = bool(messages) and messages[-1].offset[0] == start
                    offset = (start, messages[-1].offset[1] + 1 if again else 0)
                    messages.append(_message(handle, offset))
                finally:
                    eccodes.codes_release(handle)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except eccodes.CodesInternalError as error:
        raise InputError(
            f"{path}: damaged or cut off after message {len(messages)} ({error}); fetch it again"
        ) from None
    finally:
        eccodes.codes_grib_multi_support_off()
    if not messages:
        raise InputError(f"{path}: not a GRIB file, or an empty one")
    return messages


def _only_padding(path: Path, start: int, end: int | None) -> None:
    """Between messages only zero bytes may stand; eccodes skips anything without a word."""
    with path.open("rb") as stream:
        stream.seek(start)
        gap = stream.read() if end is None else stream.read(max(end - start, 0))
    if gap.strip(b"\0"):
        raise InputError(f"{path}: {len(gap)} bytes at {start} are no GRIB message; fetch it again")


def _message(handle: int, offset: tuple[int, int]) -> Message:
    def get(key: str, kind: type = str) -> object:
        return eccodes.codes_get(handle, key, kind) if has(key) else kind()

    def has(key: str) -> bool:
        return bool(eccodes.codes_is_defined(handle, key))

    def whole(key: str) -> int:
        return int(str(get(key, int)))

    return Message(
        offset=offset,
        variable=str(get("cfVarName")),
        units=str(get("units")),
        level_type=str(get("typeOfLevel")),
        level=whole("level"),
        data_type=str(get("dataType")),
        number=whole("number") if has("number") else None,
        total=whole("totalNumber"),
        date=whole("dataDate"),
        time=whole("dataTime"),
        step=str(get("stepRange")),
        step_type=str(get("stepType")),
        grid=str(get("md5GridSection")),
        grid_type=str(get("gridType")),
        points=whole("numberOfDataPoints"),
        along_grid=whole("uvRelativeToGrid") == 1,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """cfgrib's log of skipped fields is replaced by the count below."""
    logger = logging.getLogger("cfgrib")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def read(
    path: Path, wanted: Callable[[str], bool] | None = None, sparse: bool = False
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
    # each group on its own, so that no field can push another one out
    groups: dict[tuple[str, ...], list[Message]] = {}
    for m in messages:
        groups.setdefault((m.variable, m.level_type, m.data_type, m.step_type), []).append(m)
    with _quiet():
        pieces = [_open(path, group) for group in groups.values()]
    _count(path, messages, pieces, sparse)
    along = {m.variable: f"{m.variable}_along_grid" for m in messages if is_turned(m)}
    return [_lazy(_turned(_member(piece), along)) for piece in pieces]


class _Fields(Mapping[tuple[int, int], cfgrib.Message]):
    """Some fields of a file for cfgrib, which else goes through the whole file for each group."""

    def __init__(self, path: Path, offsets: list[tuple[int, int]]) -> None:
        self.path, self.offsets = path, offsets

    def __getitem__(self, offset: tuple[int, int]) -> cfgrib.Message:
        with self.path.open("rb") as stream:
            return cfgrib.Message.from_file(stream, offset)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)


def _open(path: Path, group: list[Message]) -> xr.Dataset:
    fields: Any = _Fields(path, [message.offset for message in group])
    try:
        ds: xr.Dataset = xr.open_dataset(
            fields, engine="cfgrib", decode_timedelta=True, backend_kwargs={"errors": "raise"}
        )
    except (ValueError, EOFError, KeyError) as error:  # cfgrib's own errors are ValueErrors
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path}: the fields of {group[0].variable} do not fit together ({text})"
        ) from None
    return ds


def _count(path: Path, messages: list[Message], pieces: list[xr.Dataset], sparse: bool) -> None:
    """As many slots as messages: none lost, none twice, none invented."""
    slots: Counter[str] = Counter()
    for piece in pieces:
        for name, da in piece.data_vars.items():
            grid = {"latitude", "longitude", "y", "x", "values"}
            slots[str(name)] += math.prod(n for dim, n in da.sizes.items() if dim not in grid)
    for name, count in Counter(message.variable for message in messages).items():
        if slots[name] < count:
            raise InputError(
                f"{path}: {count - slots[name]} of {count} fields of {name} stand twice or cannot "
                "be placed; is the file two files put together?"
            )
        if slots[name] > count and not sparse:
            raise InputError(
                f"{path}: {name} has {count} fields for {slots[name]} combinations of date, lead "
                "time and member; if gaps are meant, set missing_values: expected in the catalog "
                "entry"
            )


def _member(piece: xr.Dataset) -> xr.Dataset:
    """Drop cfgrib's number 0 from fields that are not members of an ensemble."""
    if "number" not in piece.coords or piece["number"].ndim:
        return piece
    attrs = next(iter(piece.data_vars.values())).attrs
    member = attrs.get("GRIB_dataType") in ("cf", "pf") or int(attrs.get("GRIB_totalNumber", 0)) > 1
    return piece if member else piece.drop_vars("number")


def is_turned(message: Message) -> bool:
    """Whether a wind component points along the rows of a turned grid, not to the east."""
    regular = message.grid_type in ("regular_ll", "regular_gg")
    return message.along_grid and not regular and message.variable in WIND


def _turned(piece: xr.Dataset, along: dict[str, str]) -> xr.Dataset:
    """Such winds get another name, so that nobody takes them for eastward ones."""
    for name in set(along) & set(map(str, piece.data_vars)):
        piece[name].attrs.pop("standard_name", None)
        piece = piece.rename({name: along[name]})
    return piece


def _lazy(piece: xr.Dataset) -> xr.Dataset:
    """A dask chunk for each date and lead time, so that large files need not fit in memory."""
    return piece.chunk({dim: 1 for dim in ("time", "step") if dim in piece.dims})
