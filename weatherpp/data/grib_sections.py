"""Where the messages of a GRIB file lie, told from the lengths that they state.

eccodes follows a wrong length to wherever it leads; where several fields in a message are
allowed for, it may end the process on the way (double free). So the chain of sections is walked
here first, without eccodes, and must end where the message does.
"""

from __future__ import annotations

from io import FileIO
from pathlib import Path

from weatherpp.errors import InputError

END = b"7777"
# GRIB 2: which section may follow which, and the least that one holds (WMO FM 92, section 0 to 8)
AFTER = {0: (1,), 1: (2, 3), 2: (3,), 3: (4,), 4: (5,), 5: (6,), 6: (7,), 7: (2, 3, 4)}
LEAST = {1: 21, 2: 5, 3: 14, 4: 9, 5: 11, 6: 6, 7: 5}
MULTIPLE = 1 << 23  # of GRIB 1: the length counts 120 bytes each
PADDING_BYTES = 1 << 20  # looked through at once


def check_lengths(path: Path) -> int:
    """Refuse a file whose messages do not follow each other whole; how many there are.

    Between messages only zero bytes may stand; eccodes skips anything without a word.

    Raises
    ------
    InputError
        Naming the message and what is wrong with it.
    OSError
        The file cannot be read.
    """
    count, at = 0, 0
    with path.open("rb", buffering=0) as stream:  # a few bytes here and there
        while (start := _next(stream, at)) is not None:
            stream.seek(start)
            if stream.read(4) != b"GRIB":
                raise InputError(
                    f"{path}: the bytes at {start}, after message {count}, are no GRIB message; "
                    "fetch the file again"
                )
            try:
                at = start + _length(stream, start)
            except ValueError as error:
                raise InputError(
                    f"{path}: damaged or cut off after message {count} ({error}); fetch it again"
                ) from None
            count += 1
    return count


def _next(stream: FileIO, at: int) -> int | None:
    """The first byte from here that is not zero; None at the end of the file."""
    stream.seek(at)
    size = len(END)  # most often the next message stands right here
    while block := stream.read(size):
        rest = block.lstrip(b"\0")
        if rest:
            return stream.tell() - len(rest)
        size = PADDING_BYTES
    return None


def _length(stream: FileIO, start: int) -> int:
    """Bytes of the message, whose sections reach just as far."""
    stream.seek(start)
    head = _bytes(stream, 8)
    if head[7] == 1:
        return _length_1(stream, start, int.from_bytes(head[4:7], "big"))
    if head[7] == 2:
        return _length_2(stream, start)
    raise ValueError(f"GRIB edition {head[7]}; 1 and 2 are known")


def _length_1(stream: FileIO, start: int, total: int) -> int:
    product = _section_1(stream, start + 8, 28)
    stream.seek(start + 8 + 7)
    flags = _bytes(stream, 1)[0]
    at = 8 + product
    for flag, least in ((0x80, 32), (0x40, 6)):  # grid, bitmap
        if flags & flag:
            at += _section_1(stream, start + at, least)
    data = _section_1(stream, start + at, 0)
    if total & MULTIPLE and data < 120:  # how ECMWF states more than 8 MB
        total = (total & ~MULTIPLE) * 120 - data + 4
        data = total - len(END) - at
    if data < 11:
        raise ValueError("a section is too short")
    return _ended(stream, start, at + data, total)


def _section_1(stream: FileIO, at: int, least: int) -> int:
    stream.seek(at)
    found = int.from_bytes(_bytes(stream, 3), "big")
    if found < least:
        raise ValueError("a section is too short")
    return found


def _length_2(stream: FileIO, start: int) -> int:
    total = int.from_bytes(_bytes(stream, 8), "big")
    at, last = 16, 0
    while True:
        stream.seek(start + at)
        head = _bytes(stream, 4)
        if head == END and last == 7:
            return _ended(stream, start, at, total)
        number, size = _bytes(stream, 1)[0], int.from_bytes(head, "big")
        if number not in AFTER[last]:
            raise ValueError(f"section {number} follows section {last}")
        if size < LEAST[number]:
            raise ValueError(f"section {number} is too short")
        at, last = at + size, number
        if at > total - len(END):
            raise ValueError(f"section {number} is longer than its message")


def _ended(stream: FileIO, start: int, at: int, total: int) -> int:
    """The length of a message whose sections end here."""
    stream.seek(start + at)
    if at + len(END) != total or _bytes(stream, len(END)) != END:
        raise ValueError("its sections are not as long as the message")
    return total


def _bytes(stream: FileIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise ValueError("the file ends in a message")
    return content
