"""The headers of a GRIB file's messages, read with eccodes, and what they tell together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import eccodes
import numpy as np
from cfgrib.cfmessage import GRIB_STEP_UNITS_TO_SECONDS

from weatherpp.errors import InputError

WIND = ("u", "v", "u10", "v10", "u100", "v100")


@dataclass(frozen=True)
class Message:
    """What one field holds; ``variable`` is cfgrib's name of it.

    ``offset`` is where its message starts in the file, and which field of the message it is.
    ``length`` is that of the message in bytes, 0 where it holds several fields; ``lead_seconds``
    is the lead time, at the end of the interval if there is one.
    """

    offset: tuple[int, int]
    length: int
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
    lead_seconds: int
    step_type: str
    grid: str
    grid_type: str
    points: int
    along_grid: bool

    @property
    def place(self) -> tuple[int, int, int]:
        """Offset in the file, number in the message, length of the message."""
        return (*self.offset, self.length)

    @property
    def initial(self) -> np.datetime64:
        """Initial time; for a hindcast that of the run, not of the model version."""
        text = f"{self.date:08d}"
        day = np.datetime64(f"{text[:4]}-{text[4:6]}-{text[6:]}", "ns")
        return day + np.timedelta64(self.time // 100 * 60 + self.time % 100, "m")

    @property
    def lead(self) -> np.timedelta64:
        """Lead time."""
        return np.timedelta64(self.lead_seconds * 10**9, "ns")


def scan(path: Path) -> list[Message]:
    """All messages of a file, headers only.

    Raises
    ------
    InputError
        The file is missing, is not GRIB, is cut off, or has foreign bytes between messages.
    """
    messages: list[Message] = []
    names: dict[int, tuple[str, str]] = {}
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
                    again = bool(messages) and messages[-1].offset[0] == start
                    if start > before:
                        _only_padding(path, before, start)
                    offset = (start, messages[-1].offset[1] + 1 if again else 0)
                    messages.append(_message(handle, offset, names))
                    if again:
                        messages[-2:] = [replace(m, length=0) for m in messages[-2:]]
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


def _message(handle: int, offset: tuple[int, int], names: dict[int, tuple[str, str]]) -> Message:
    def get(key: str, kind: type = str) -> object:
        return eccodes.codes_get(handle, key, kind) if has(key) else kind()

    def has(key: str) -> bool:
        return bool(eccodes.codes_is_defined(handle, key))

    def whole(key: str) -> int:
        return int(str(get(key, int)))

    # looking a parameter up in the tables takes longer than all the rest together
    parameter = whole("paramId")
    if parameter not in names or not parameter:  # 0: not in the tables
        names[parameter] = str(get("cfVarName")), str(get("units"))
    variable, units = names[parameter]
    return Message(
        offset=offset,
        length=whole("totalLength"),
        variable=variable,
        units=units,
        level_type=str(get("typeOfLevel")),
        level=whole("level"),
        data_type=str(get("dataType")),
        number=whole("number") if has("number") else None,
        total=whole("totalNumber"),
        date=whole("dataDate"),
        time=whole("dataTime"),
        step=str(get("stepRange")),
        lead_seconds=whole("endStep") * GRIB_STEP_UNITS_TO_SECONDS[whole("stepUnits")],
        step_type=str(get("stepType")),
        grid=str(get("md5GridSection")),
        grid_type=str(get("gridType")),
        points=whole("numberOfDataPoints"),
        along_grid=whole("uvRelativeToGrid") == 1,
    )


def ensemble_types(messages: Sequence[Message]) -> frozenset[str]:
    """Data types (``pf``, ``an``...) whose fields are members of an ensemble.

    A number 0 alone may also be written where there is no ensemble.
    """
    sure = {m.data_type for m in messages if m.number is not None and (m.number or m.total > 1)}
    return frozenset(sure | {"cf", "pf"})


def is_turned(message: Message) -> bool:
    """Whether a wind component points along the rows of a turned grid, not to the east."""
    regular = message.grid_type in ("regular_ll", "regular_gg")
    return message.along_grid and not regular and message.variable in WIND
