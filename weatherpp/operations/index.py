"""The index beside a GRIB file on a server: which message is where in it.

One JSON object a line, as ECMWF's open data have it: keys of the message (``param``, ``levelist``,
``number``, ``type``...), all text, and its place, ``_offset`` and ``_length`` in bytes; see
https://confluence.ecmwf.int/display/DAC/ECMWF+open+data%3A+real-time+forecasts+from+IFS+and+AIFS
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from weatherpp.errors import InputError

Wanted = Mapping[str, Sequence[str]]
START, END = b"GRIB", b"7777"


class Line(NamedTuple):
    """One message: its keys, first byte and number of bytes."""

    keys: dict[str, str]
    start: int
    length: int


def read_index(path: Path, where: str) -> list[Line]:
    """All lines of an index.

    Parameters
    ----------
    path
        The file.
    where
        What to call it in a message.

    Raises
    ------
    InputError
        A line is not what it should be, as the last one of a file that is cut off.
    """
    lines = []
    for number, text in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        try:
            keys = json.loads(text)
            start, length = int(keys.pop("_offset")), int(keys.pop("_length"))
            if start < 0 or length <= 0:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{where}: line {number} is no line of an index; is it cut off?"
            ) from None
        lines.append(Line({str(key): str(value) for key, value in keys.items()}, start, length))
    return lines


def ranges(lines: Sequence[Line], wanted: Sequence[Wanted]) -> list[tuple[int, int]]:
    """First byte and length of what is wanted, in the order of the file, neighbours joined.

    Parameters
    ----------
    lines
        Of the index.
    wanted
        A message is taken if it has, for each key of any of these, one of the values.
    """
    found: list[tuple[int, int]] = []
    for start, length in sorted({(at.start, at.length) for at in _matching(lines, wanted)}):
        if found and sum(found[-1]) == start:
            found[-1] = (found[-1][0], found[-1][1] + length)
        else:
            found.append((start, length))
    return found


def lacking(lines: Sequence[Line], wanted: Sequence[Wanted]) -> list[str]:
    """Combinations of the values that are wanted and that no message has, in words."""
    absent = []
    for each in wanted:
        there = {tuple(line.keys.get(key) for key in each) for line in _matching(lines, [each])}
        for values in itertools.product(*each.values()):
            if values not in there:
                told = (f"{key} {value}" for key, value in zip(each, values, strict=True))
                absent.append(", ".join(told))
    return absent


def _matching(lines: Sequence[Line], wanted: Sequence[Wanted]) -> list[Line]:
    return [
        line
        for line in lines
        if any(all(line.keys.get(k) in values for k, values in each.items()) for each in wanted)
    ]


def check_messages(path: Path, lines: Sequence[Line], wanted: Sequence[Wanted], where: str) -> None:
    """See that what was fetched are the messages that the index told of.

    Raises
    ------
    InputError
        Where a message should start or end there is something else.
    """
    places = sorted({(at.start, at.length) for at in _matching(lines, wanted)})
    at = 0
    with path.open("rb") as stream:
        for start, length in places:
            stream.seek(at)
            first = stream.read(len(START))
            stream.seek(at + length - len(END))
            if first != START or stream.read(len(END)) != END:
                raise InputError(
                    f"{where}: no message of {length} bytes at {start}; does its index belong to "
                    "another version of it?"
                )
            at += length
