"""Sources below a URL: files fetched whole into a cache folder, Zarr stores read where they are.

The cache is ``$WEATHERPP_CACHE``, else ``~/.cache/weatherpp``. A file there has its final name only
once it is as long as the server says; one that has changed on the server is fetched again. For a
Zarr store the cache holds a link, a small file with the URL and the hash of the store's metadata,
so that whoever compares files also learns that a store has grown.

Credentials come from the environment, in the way of the storage's own library: ``AWS_...``,
``GOOGLE_APPLICATION_CREDENTIALS``, ``~/.netrc``; ``FSSPEC_S3_ANON=true`` asks for none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from zarr.storage import FsspecStore, WrapperStore

from weatherpp.data.download import (
    PAUSE,
    TRIES,
    Meter,
    Progress,
    Ranges,
    download,
    download_ranges,
    passing,
)
from weatherpp.data.urls import (
    check_url,
    filesystem,
    no_answer,
    options_of,
    reason_of,
    says_absent,
)
from weatherpp.errors import InputError, WeatherppError
from weatherpp.files import in_turn, write_whole
from weatherpp.strict import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

LINK = ".link.json"
METADATA = (".zmetadata", "zarr.json", ".zgroup")
VERSION = ("size", "ETag", "etag", "Last-Modified", "LastModified", "md5Hash", "generation")
AT_ONCE = 4  # downloads


class Remote:
    """Everything below one URL.

    Parameters
    ----------
    url
        ``http://``, ``https://``, ``s3://``, ``gs://`` or ``memory://``.
    folder
        Where files are fetched to, if not into the cache.

    Raises
    ------
    ConfigError
        The URL is of another kind or carries credentials, or a package to read it is missing.
    """

    def __init__(self, url: str, folder: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self.progress: Progress | None = None
        check_url(url)
        self.fs = filesystem(url)
        label = re.sub(r"[^\w.-]+", "_", self.url.split("://", 1)[1])[-60:]
        named = f"{label}-{hashlib.sha256(self.url.encode()).hexdigest()[:12]}"
        self.folder = folder or _cache() / named

    @cached_property
    def _top(self) -> str:
        return str(self.fs._strip_protocol(self.url)).rstrip("/")

    def names(self, pattern: str, stores: bool) -> list[str]:
        """What matches a pattern, relative to the URL, sorted; empty if nothing does.

        Parameters
        ----------
        pattern
            Glob pattern. Without wildcards nothing is listed, so that servers that do not list
            their folders can be read.
        stores
            Zarr stores are looked for, not files.

        Raises
        ------
        InputError
            The server does not answer, or lists a name that leads out of the URL.
        """
        if not re.search(r"[*?\[]", pattern):
            there = self._metadata(pattern) if stores else self._version(pattern)
            return [] if there is None else [pattern]
        try:
            found = [str(path).rstrip("/") for path in self.fs.glob(f"{self._top}/{pattern}")]
        except Exception as error:  # each storage library has its own
            if says_absent(error):
                return []
            raise no_answer(f"{self.url}/{pattern}", error) from None
        names = sorted({path.removeprefix(f"{self._top}/") for path in found})
        for name in names:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise InputError(f"{self.url}: lists '{name}', which leads out of it")
        return names

    def size(self, names: Sequence[str]) -> int:
        """Bytes of some files together, as the server says.

        Raises
        ------
        InputError
            A file is not there, or the server does not state its size.
        """
        return sum(int(self.stated(name)["size"]) for name in names)

    def fetch(self, names: Sequence[str]) -> list[Path]:
        """Files in the cache, fetched if they are not there yet or have changed.

        A download that was cut off goes on where it stopped, also in a later call, where the
        server can do so (HTTP ranges); one that fails for a while is tried again.

        Raises
        ------
        InputError
            A file is not there, the server does not answer or does not state the size, or what
            came is not as long.
        """
        with ThreadPoolExecutor(AT_ONCE, "fetch") as pool:
            versions = dict(zip(names, pool.map(self.stated, names), strict=True))
            lacking = [name for name in names if not self._cached(name, versions[name])]
            meter = Meter(self.progress, sum(int(versions[name]["size"]) for name in lacking))
            list(pool.map(lambda name: self._fetch(name, versions[name], meter), lacking))
        return [self.folder / name for name in names]

    def fetch_ranges(self, name: str, ranges: Ranges) -> Path:
        """Parts of a file, one behind the other, in the cache under the name of the file.

        As :meth:`fetch` otherwise. A server that does not know ranges sends the whole file.

        Raises
        ------
        InputError
            As for :meth:`fetch`; or the file ends before a range does.
        """
        version = self.stated(name)
        if max(start + length for start, length in ranges) > int(version["size"]):
            raise InputError(f"{self.url}/{name}: ends before its last field does; is it growing?")
        if not self._cached(name, version, ranges):
            meter = Meter(self.progress, _length(version, ranges))
            self._fetch(name, version, meter, ranges)
        return self.folder / name

    def _cached(self, name: str, version: Mapping[str, Any], ranges: Ranges = ()) -> bool:
        target, note = self.folder / name, _beside(self.folder / name, "version")
        whole = target.is_file() and target.stat().st_size == _length(version, ranges)
        return whole and _text(note) == _as_text(version, ranges)

    def _fetch(
        self, name: str, version: Mapping[str, Any], meter: Meter, ranges: Ranges = ()
    ) -> None:
        where, target = f"{self.url}/{name}", self.folder / name
        part, begun = _beside(target, "part"), _beside(target, "part.version")
        get = partial(download_ranges, ranges=ranges) if ranges else download
        target.parent.mkdir(parents=True, exist_ok=True)
        with in_turn(_beside(target, "lock")):
            if self._cached(name, version, ranges):
                return  # by another process, meanwhile
            for pauses in range(TRIES):
                if _text(begun) != _as_text(version, ranges):
                    part.unlink(missing_ok=True)
                    write_whole(begun, _as_text(version, ranges))
                try:
                    get(self.fs, f"{self._top}/{name}", part, version, meter)
                except Exception as error:  # each storage library has its own
                    if _is_own(error, part):
                        raise
                    if not passing(error) or pauses == TRIES - 1:
                        raise no_answer(where, error) from None
                    time.sleep(PAUSE * 2**pauses)
                    continue
                now = self.stated(name)
                if now == version:
                    break
                version = now  # changed while it came: all over again
            else:
                raise InputError(f"{where}: changes while it is fetched; try again later")
            came, wanted = part.stat().st_size, _length(version, ranges)
            if came != wanted:
                part.unlink()
                raise InputError(f"{where}: cut off after {came} of {wanted} bytes; try again")
            note = _beside(target, "version")
            note.unlink(missing_ok=True)  # while the two do not belong together
            part.replace(target)
            begun.replace(note)

    def stated(self, name: str) -> dict[str, Any]:
        """What tells one version of a file from another: its size, tag, time of change.

        Raises
        ------
        InputError
            It is not there, the server does not answer or does not state the size.
        """
        version = self._version(name)
        if version is None:
            raise InputError(f"{self.url}/{name}: no such file")
        if version.get("size") is None:
            raise InputError(
                f"{self.url}/{name}: the server does not state its size, so a cut-off download "
                "cannot be told from a whole one; fetch it by other means and name its folder as "
                "root"
            )
        return version

    def _version(self, name: str) -> dict[str, Any] | None:
        """What tells one version of a file from another; None if there is no such file."""
        for pauses in range(TRIES):
            try:
                info = self.fs.info(f"{self._top}/{name}")
                break
            except Exception as error:
                if says_absent(error):
                    return None
                if not passing(error) or pauses == TRIES - 1:
                    raise no_answer(f"{self.url}/{name}", error) from None
                time.sleep(PAUSE * 2**pauses)
        return {
            key: info[key] if key == "size" else str(info[key]) for key in VERSION if key in info
        }

    def link(self, name: str) -> Path:
        """A link in the cache to a Zarr store, for :func:`open_store`.

        Raises
        ------
        InputError
            There is no such store, or the server does not answer.
        """
        found = self._metadata(name)
        if found is None:
            raise InputError(f"{self.url}/{name}: no Zarr store")
        kind, content = found
        consolidated = kind == ".zmetadata" or b'"consolidated_metadata"' in content
        text = json.dumps(
            {
                "url": f"{self.url}/{name}",
                "consolidated": consolidated,
                "metadata": hashlib.sha256(content).hexdigest(),
            }
        )
        target = self.folder / f"{name}{LINK}"
        # not written again when it is the same, as its time of change tells of a change
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            write_whole(target, text)
        return target

    def _metadata(self, name: str) -> tuple[str, bytes] | None:
        for kind in METADATA:
            try:
                return kind, bytes(self.fs.cat_file(f"{self._top}/{name}/{kind}"))
            except Exception as error:
                if not says_absent(error):
                    raise no_answer(f"{self.url}/{name}", error) from None
        return None


def _beside(target: Path, what: str) -> Path:
    """A hidden file of ours beside a file of the cache."""
    return target.with_name(f".{target.name}.{what}")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _as_text(version: Mapping[str, Any], ranges: Ranges = ()) -> str:
    parts = {"ranges": digest([list(each) for each in ranges])} if ranges else {}
    return json.dumps({**version, **parts}, sort_keys=True)


def _length(version: Mapping[str, Any], ranges: Ranges) -> int:
    """Bytes of a file, or of the parts that are wanted."""
    return sum(length for _, length in ranges) or int(version["size"])


def _is_own(error: Exception, part: Path) -> bool:
    """Whether it is our disk that fails, and not the server."""
    return isinstance(error, OSError) and str(error.filename) == str(part)


def is_link(path: Path) -> bool:
    """Whether a file of the cache stands for a Zarr store elsewhere."""
    return path.name.endswith(LINK)


def open_store(link: Path) -> tuple[_Guarded, bool]:
    """The Zarr store that a link stands for, and whether it has consolidated metadata.

    Raises
    ------
    InputError
        The link is damaged.
    ConfigError
        A package to read the store is missing.
    """
    try:
        content = json.loads(link.read_text(encoding="utf-8"))
        url, consolidated = str(content["url"]), bool(content["consolidated"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{link}: not a link to a Zarr store; remove it") from None
    check_url(url)
    filesystem(url)  # refuses what cannot be read
    store = FsspecStore.from_url(url, storage_options=options_of(url), read_only=True)
    return _Guarded(store), consolidated


class _Guarded(WrapperStore[FsspecStore]):
    """A store whose failures are told in one line.

    They are no InputError: that one would throw away what an ingest has written so far.
    """

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        try:
            return await super().get(key, prototype, byte_range)
        except Exception as error:  # each storage library has its own
            raise WeatherppError(
                f"{self._store.path}/{key}: cannot be read now ({reason_of(error)}); run the same "
                "command again to go on"
            ) from None


def _cache() -> Path:
    named = os.environ.get("WEATHERPP_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "weatherpp"
