"""The headers of a GRIB file's messages, read with eccodes, and what they tell together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import eccodes
import numpy as np
from cfgrib.cfmessage import GRIB_STEP_UNITS_TO_SECONDS

from weatherpp.conventions import YEARS
from weatherpp.data.grib_sections import check_lengths
from weatherpp.errors import InputError

LONGEST_LEAD = 200 * 366 * 86400  # seconds; more is damage
WIND = ("u", "v", "u10", "v10", "u100", "v100")


@dataclass(frozen=True)
class Message:
    """What one field holds; ``variable`` is cfgrib's name of it.

    ``offset`` is where its message starts in the file, and which field of the message it is.
    ``length`` is that of the message in bytes, 0 where it holds several fields; ``initial`` is the
    initial time, for a hindcast that of the run, not of the model version; ``lead_seconds`` is the
    lead time, at the end of the interval if there is one.
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
    initial: np.datetime64
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
    try:
        there = check_lengths(path)
        eccodes.codes_grib_multi_support_on()  # some centres pack u and v into one message
        with path.open("rb") as stream:
            eccodes.codes_grib_multi_support_reset_file(stream)
            while (
                handle := eccodes.codes_grib_new_from_file(stream, headers_only=True)
            ) is not None:
                try:
                    start = int(eccodes.codes_get(handle, "offset"))
                    again = bool(messages) and messages[-1].offset[0] == start
                    offset = (start, messages[-1].offset[1] + 1 if again else 0)
                    messages.append(_message(handle, offset, names))
                    if again:
                        messages[-2:] = [replace(m, length=0) for m in messages[-2:]]
                finally:
                    eccodes.codes_release(handle)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(
            f"{path}: message {len(messages) + 1} has {error}; fetch the file again, or correct it "
            "(grib_set)"
        ) from None
    except eccodes.CodesInternalError as error:  # in words of its own, which --debug shows
        raise InputError(
            f"{path}: damaged or cut off after message {len(messages)}; fetch it again"
        ) from error
    finally:
        eccodes.codes_grib_multi_support_off()
    if not messages:
        raise InputError(f"{path}: not a GRIB file, or an empty one")
    if len({message.offset[0] for message in messages}) < there:
        raise InputError(
            f"{path}: damaged; {there} messages stand in it, and fewer can be read; fetch it again"
        )
    return messages


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
        initial=_initial(whole("dataDate"), whole("dataTime")),
        step=str(get("stepRange")),
        lead_seconds=_lead_seconds(whole("endStep"), whole("stepUnits")),
        step_type=str(get("stepType")),
        grid=str(get("md5GridSection")),
        grid_type=str(get("gridType")),
        points=whole("numberOfDataPoints"),
        along_grid=whole("uvRelativeToGrid") == 1,
    )


def _initial(date: int, time: int) -> np.datetime64:
    try:
        found = datetime(date // 10000, date // 100 % 100, date % 100, time // 100, time % 100)
    except ValueError:
        raise ValueError(f"the date {date:08d} {time:04d}, which is none") from None
    if found.year not in YEARS:
        raise ValueError(f"the year {found.year}, which times in nanoseconds cannot hold")
    return np.datetime64(found, "ns")


def _lead_seconds(count: int, units: int) -> int:
    known = dict(enumerate(GRIB_STEP_UNITS_TO_SECONDS))
    seconds = known.get(units)
    if seconds is None:
        raise ValueError(f"a lead time in units of code {units}, which have no fixed length")
    if abs(count * seconds) > LONGEST_LEAD:
        raise ValueError(f"a lead time of {count} times {seconds} seconds")
    return int(count * seconds)


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
