"""One file from a server, or ranges of it, going on where an earlier attempt stopped; which
failures pass."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Progress = Callable[[str, float, float], None]
Ranges = Sequence[tuple[int, int]]
"""First byte and number of bytes of parts of a file."""
TRIES = 5
PAUSE = 0.5
"""Seconds before the second attempt; twice as long before each further one."""
FOR_A_WHILE = (408, 429, 500, 502, 503, 504)
CUT = {"ClientPayloadError", "ServerConnectionError", "ConnectionResetError", "TimeoutError"}
"""Classes of errors of a connection that broke; those of aiohttp, which may not be there."""


class Meter:
    """Counts bytes that come from several threads and shows the sum.

    Parameters
    ----------
    progress
        Called with (description, done, total).
    total
        Bytes that are to come.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """So many bytes more are there."""
        with self._lock:
            self.done += count
            if self.progress is not None:
                self.progress("fetching files", float(self.done), float(self.total))


def chain(error: BaseException) -> list[BaseException]:
    """An error and those that it came from, the first one last."""
    found = [error]
    while (cause := found[-1].__cause__) is not None:
        found.append(cause)
    return found


def passing(error: BaseException) -> bool:
    """Whether a failure may pass by itself: the server is busy, or the connection broke."""
    for each in chain(error):
        if getattr(each, "status", None) in FOR_A_WHILE:
            return True
        if CUT & {kind.__name__ for kind in type(each).__mro__}:
            return True
    return False


class _Part(io.BufferedRandom):
    """A file whose content gives way to the next byte that comes, if that is the first of all."""

    anew = False

    def write(self, data: Any) -> int:
        if self.anew:
            self.seek(0)
            self.truncate()
            self.anew = False
        return super().write(data)


def download(fs: Any, path: str, part: Path, version: Mapping[str, Any], meter: Meter) -> None:
    """Fetch a file, or the rest of it, into ``part``.

    Parameters
    ----------
    fs, path
        File system of fsspec, and the file's name there.
    part
        What is there of this version. The rest is asked for as RFC 9110, sections 13.1.5 and
        14.2, says (``Range``, ``If-Range``); a server that does not know ranges, or has another
        version now, sends everything.
    version
        What the server says of the file: ``size``, and ``ETag`` or ``Last-Modified`` if it may
        be asked for the rest.
    meter
        Told of what is there.
    """
    from fsspec.callbacks import Callback

    size, mark = int(version["size"]), _mark(version)
    ranges = "http" in fs.protocol
    have = part.stat().st_size if part.is_file() and ranges and mark is not None else 0
    have = have if have <= size else 0
    rest = size - have
    counted = have

    class Listener(Callback):  # type: ignore[misc]  # fsspec has no types
        """Learns what comes; it is told the length of an answer before the first byte of it."""

        def set_size(self, size: int | None) -> None:
            if have and size != rest:  # not the rest; all of it, or a refusal
                stream.anew = True

        def relative_update(self, inc: int = 1) -> None:
            nonlocal counted
            now = stream.tell() if ranges else counted + inc
            meter.add(now - counted)
            counted = now

    with _Part(io.FileIO(part, "r+" if have else "w+")) as stream:
        stream.seek(have)
        meter.add(have)
        try:
            if rest and ranges:
                asked = {"Range": f"bytes={have}-", "If-Range": mark} if have else {}
                headers = {"Accept-Encoding": "identity", **asked}
                fs.get_file(path, stream, callback=Listener(), headers=headers)
            elif rest:
                fs.get_file(path, str(part), callback=Listener())
        except BaseException:
            meter.add(-counted)
            raise


class _NoRanges(Exception):
    """A server sends the whole file where a part of it was asked for."""


class _Piece(io.FileIO):
    """A file to which a range is written, unless the answer turns out to be something else."""

    refuses = False

    def write(self, data: Any) -> int:
        # not sooner, as only now it is sure that the answer is not a word of failure
        if self.refuses and data:
            raise _NoRanges
        return super().write(data) or 0


def download_ranges(
    fs: Any, path: str, part: Path, version: Mapping[str, Any], meter: Meter, ranges: Ranges
) -> None:
    """Fetch parts of a file, or what is lacking of them, into ``part``, one behind the other.

    Of a server that does not know ranges the whole file is fetched, beside ``part``, and cut here.

    Parameters
    ----------
    fs, path
        File system of fsspec, and the file's name there.
    part
        What is there of these parts of this version.
    version
        As for :func:`download`.
    meter
        Told of what is there.
    ranges
        The parts.
    """
    mark = _mark(version)
    have = part.stat().st_size if part.is_file() and mark is not None else 0
    have = have if have <= sum(length for _, length in ranges) else 0
    meter.add(have)
    counted = have
    try:
        with _Piece(part, "r+" if have else "w+") as stream:
            stream.seek(have)
            for start, length in _rest(ranges, have):
                _piece(fs, path, stream, start, length, mark)
                meter.add(stream.tell() - counted)
                counted = stream.tell()
    except _NoRanges:
        meter.add(-counted)
        whole = part.with_name(f"{part.name}.whole")
        whole.unlink(missing_ok=True)  # it cannot be gone on with, without ranges
        try:
            download(fs, path, whole, version, Meter(None, 0))
            _cut(whole, ranges, part)
        finally:
            whole.unlink(missing_ok=True)
        meter.add(part.stat().st_size)
    except BaseException:
        meter.add(-counted)
        raise


def _rest(ranges: Ranges, have: int) -> Iterator[tuple[int, int]]:
    """What is left of some ranges after the first ``have`` bytes of them."""
    for start, length in ranges:
        skipped = min(have, length)
        have -= skipped
        if length > skipped:
            yield start + skipped, length - skipped


def _piece(fs: Any, path: str, stream: _Piece, start: int, length: int, mark: str | None) -> None:
    """One range; what came of it before a failure stays."""
    from fsspec.callbacks import Callback

    if "http" not in fs.protocol:
        stream.write(fs.cat_file(path, start=start, end=start + length))
        return

    class Listener(Callback):  # type: ignore[misc]  # fsspec has no types
        """Learns how long the answer is, before the first byte of it."""

        def set_size(self, size: int | None) -> None:
            stream.refuses = size != length

    headers = {"Accept-Encoding": "identity", "Range": f"bytes={start}-{start + length - 1}"}
    if mark is not None:
        headers["If-Range"] = mark
    fs.get_file(path, stream, callback=Listener(), headers=headers)


def _cut(whole: Path, ranges: Ranges, part: Path) -> None:
    with whole.open("rb") as source, part.open("wb") as stream:
        for start, length in ranges:
            source.seek(start)
            stream.write(source.read(length))


def _mark(version: Mapping[str, Any]) -> str | None:
    """What tells in a request which version is meant; a weak tag may not be used for it."""
    tag = version.get("ETag", version.get("etag"))
    if tag is not None and not str(tag).startswith("W/"):
        return str(tag)
    return version.get("Last-Modified")
