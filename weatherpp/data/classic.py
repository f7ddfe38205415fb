"""How long a classic netCDF file must be: its header read by itself.

The netCDF library reads zeros behind the end of a file that was cut off, without a word. The
layout is that of the netCDF classic format specification (CDF-1, CDF-2 with offsets of 64 bits,
CDF-5 with all counts of 64 bits).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

VERSIONS = {b"CDF\x01": (4, 4), b"CDF\x02": (4, 8), b"CDF\x05": (8, 8)}  # count, offset: bytes
# bytes of a value by the code of its type
TYPES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
DIMENSIONS, VARIABLES, ATTRIBUTES = 10, 11, 12
LONGEST = 1 << 20  # of a name or a list; more is damage


class _Header:
    def __init__(self, stream: BinaryIO, count: int, offset: int):
        self.stream, self.count, self.offset = stream, count, offset

    def number(self, size: int = 4) -> int:
        content = self.stream.read(size)
        if len(content) < size:
            raise ValueError("the header is cut off")
        return int.from_bytes(content, "big")

    def length(self) -> int:
        found = self.number(self.count)
        if found > LONGEST:
            raise ValueError("the header is damaged")
        return found

    def skip(self, size: int) -> None:
        # padded to four bytes
        self.stream.seek(size + -size % 4, 1)

    def listed(self, tag: int) -> int:
        found, length = self.number(), self.length()
        if found not in (0, tag) or (found == 0 and length):
            raise ValueError("the header is damaged")
        return length

    def attributes(self) -> None:
        for _ in range(self.listed(ATTRIBUTES)):
            self.skip(self.length())
            size = self._size_of_type()
            self.skip(size * self.number(self.count))

    def _size_of_type(self) -> int:
        found = self.number()
        if found not in TYPES:
            raise ValueError("the header is damaged")
        return TYPES[found]

    def variable(self, sizes: list[int]) -> tuple[int, int, bool]:
        """Where its values begin, their bytes (of one record), and whether it has records."""
        self.skip(self.length())
        ids = [self.number(self.count) for _ in range(self.length())]
        self.attributes()
        size = self._size_of_type()
        self.number(self.count)  # its own length, which large variables overflow
        begin = self.number(self.offset)
        if any(each >= len(sizes) for each in ids):
            raise ValueError("the header is damaged")
        shape = [sizes[each] for each in ids]
        record = bool(shape) and shape[0] == 0
        return begin, size * math.prod(shape[1:] if record else shape), record


def bytes_wanted(path: Path) -> int | None:
    """Bytes that a classic netCDF file must have to hold all its values; None for other files.

    Raises
    ------
    ValueError
        The header is cut off or damaged.
    OSError
        The file cannot be read.
    """
    with path.open("rb") as stream:
        version = VERSIONS.get(stream.read(4))
        if version is None:
            return None
        header = _Header(stream, *version)
        records = header.number(version[0])
        if records == (1 << 8 * version[0]) - 1:
            records = 0  # being written as a stream; its length says nothing
        sizes = []
        for _ in range(header.listed(DIMENSIONS)):
            header.skip(header.length())
            sizes.append(header.number(version[0]))
        header.attributes()
        found = [header.variable(sizes) for _ in range(header.listed(VARIABLES))]
        end = stream.tell()
    fixed = [begin + size for begin, size, record in found if not record]
    ours = [(begin, size) for begin, size, record in found if record]
    # records follow each other, padded to four bytes unless there is one variable alone
    step = ours[0][1] if len(ours) == 1 else sum(size + -size % 4 for _, size in ours)
    last = [begin + (records - 1) * step + size for begin, size in ours if records]
    return max([end, *fixed, *last])
