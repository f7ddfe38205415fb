"""Files of our own: hashes of content, and writing that shows a final name only when whole."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from weatherpp.errors import InputError


class Digest(NamedTuple):
    """A file's hash, and the state in which it was just before it was read for it."""

    state: list[list[int]]
    sha256: str


def file_digest(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder with their names; hexadecimal."""
    hasher = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
        if path.is_dir():
            hasher.update(file.relative_to(path).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                hasher.update(block)
    return hasher.hexdigest()


def file_state(path: Path) -> list[list[int]]:
    """Sizes and times of change of a file or of all files of a folder: tells, without reading
    it, that it is still the same.

    Raises
    ------
    InputError
        It is neither file nor folder, or cannot be read.
    """
    try:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        states = [file.stat() for file in files]
        if files == [path]:
            if not path.is_file():
                raise InputError(f"{path}: neither a file nor a folder; name the file itself")
            path.open("rb").close()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); check the file, its links and permissions"
        ) from None
    return [[state.st_size, state.st_mtime_ns] for state in states]


@contextmanager
def partial_name(path: Path) -> Iterator[Path]:
    """Where to write what is to be ``path``: it gets that name at the end, or is removed if the
    writing failed. An error of the system names the file, which that of a full disk does not."""
    partial = path.with_name(path.name + ".part")
    try:
        yield partial
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):  # the first error is the one to tell
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def partial_folder(path: Path) -> Iterator[Path]:
    """As :func:`partial_name`, for a folder; one that is there is replaced at the end.

    The two exchange their names in one step where the file system can do so, as the local ones of
    Linux can; elsewhere (NFS, macOS) there is a moment in which neither has the name, and what a
    kill in it leaves aside is put back by the next call.
    """
    partial, old = (path.with_name(f".{path.name}.{what}") for what in ("part", "old"))
    if old.is_dir() and not path.exists():
        old.replace(path)
    for stray in (partial, old):
        shutil.rmtree(stray, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        if not path.exists():
            partial.replace(path)
        elif not _exchange(partial, path):
            path.replace(old)
            partial.replace(path)
    finally:
        for stray in (partial, old):
            shutil.rmtree(stray, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Give each of two folders the name of the other, in one step; whether that was possible."""
    # Python has no name for it; see renameat2(2)
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    if call is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


@contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """One at a time among all processes; the system frees the lock if the one that has it dies."""
    with lock.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def write_whole(path: Path, text: str) -> None:
    """Write a text file so that its final name never shows a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with partial_name(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
