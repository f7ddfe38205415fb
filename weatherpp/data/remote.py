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
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zarr.storage import FsspecStore, WrapperStore

from weatherpp.errors import ConfigError, InputError, WeatherppError
from weatherpp.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

SCHEMES = ("http", "https", "s3", "gs", "memory")
LINK = ".link.json"
METADATA = (".zmetadata", "zarr.json", ".zgroup")
VERSION = ("size", "ETag", "etag", "Last-Modified", "LastModified", "md5Hash", "generation")
AT_ONCE = 4  # downloads


def is_url(text: str) -> bool:
    """Whether a root is a URL and no folder."""
    return "://" in text


def local_folder(url: str) -> Path | None:
    """The folder that a ``file://`` URL means; None for any other URL."""
    parts = urlsplit(url)
    return Path(parts.path) if parts.scheme == "file" else None


class Remote:
    """Everything below one URL.

    Parameters
    ----------
    url
        ``http://``, ``https://``, ``s3://``, ``gs://`` or ``memory://``.

    Raises
    ------
    ConfigError
        The URL is of another kind or carries credentials, or a package to read it is missing.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        _check_url(url)
        self.fs = _filesystem(url)
        label = re.sub(r"[^\w.-]+", "_", self.url.split("://", 1)[1])[-60:]
        self.folder = _cache() / f"{label}-{hashlib.sha256(self.url.encode()).hexdigest()[:12]}"

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
            if _absent(error):
                return []
            raise _no_answer(f"{self.url}/{pattern}", error) from None
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
        return sum(int(self._stated(name)["size"]) for name in names)

    def fetch(self, names: Sequence[str]) -> list[Path]:
        """Files in the cache, fetched if they are not there yet or have changed.

        Raises
        ------
        InputError
            A file is not there, the server does not answer or does not state the size, or what
            came is not as long.
        """
        with ThreadPoolExecutor(AT_ONCE, "fetch") as pool:
            return list(pool.map(self._fetch, names))

    def _fetch(self, name: str) -> Path:
        where, target = f"{self.url}/{name}", self.folder / name
        version = self._stated(name)
        text, note = (
            json.dumps(version, sort_keys=True),
            target.with_name(f".{target.name}.version"),
        )
        whole = target.is_file() and target.stat().st_size == version["size"]
        if whole and note.is_file() and note.read_text(encoding="utf-8") == text:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            self.fs.get_file(f"{self._top}/{name}", str(part))
            came = part.stat().st_size
            if came != version["size"]:
                raise InputError(
                    f"{where}: cut off after {came} of {version['size']} bytes; try again"
                )
            note.unlink(missing_ok=True)  # while the two do not belong together
            part.replace(target)
            write_whole(note, text)
        except InputError:
            raise
        except OSError as error:
            if error.filename is not None and str(part) == str(error.filename):
                raise
            raise _no_answer(where, error) from None
        except Exception as error:
            raise _no_answer(where, error) from None
        finally:
            part.unlink(missing_ok=True)
        return target

    def _stated(self, name: str) -> dict[str, Any]:
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
        try:
            info = self.fs.info(f"{self._top}/{name}")
        except Exception as error:
            if _absent(error):
                return None
            raise _no_answer(f"{self.url}/{name}", error) from None
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
                if not _absent(error):
                    raise _no_answer(f"{self.url}/{name}", error) from None
        return None


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
    _check_url(url)
    _filesystem(url)  # refuses what cannot be read
    store = FsspecStore.from_url(url, storage_options=_options(url), read_only=True)
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
                f"{self._store.path}/{key}: cannot be read now ({_reason(error)}); run the same "
                "command again to go on"
            ) from None


def _cache() -> Path:
    named = os.environ.get("WEATHERPP_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "weatherpp"


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ConfigError(
            f"{url}: URLs of this kind are not read; there are file, {', '.join(SCHEMES)}"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise ConfigError(
            f"{bare}: no user, password, token or other query belongs into the URL of a root; "
            "credentials are taken from the environment"
        )


def _options(url: str) -> dict[str, Any]:
    """For the file system: never an old listing; with http, whole files however long they take."""
    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if urlsplit(url).scheme in ("http", "https"):
        from aiohttp import ClientTimeout

        patience = ClientTimeout(total=None, sock_connect=30, sock_read=60)
        # a packed transfer would not have the size that the server states
        options["headers"] = {"Accept-Encoding": "identity"}
        options["client_kwargs"] = {"timeout": patience, "trust_env": True}
    return options


def _filesystem(url: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(urlsplit(url).scheme, **_options(url))
    except ImportError as error:
        name = {"s3": "s3fs", "gs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
        lacking = error.name or name.get(urlsplit(url).scheme, "fsspec")
        raise ConfigError(
            f"{url}: needs the package {lacking}: pip install 'weatherpp[remote]'"
        ) from None


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    while (cause := found[-1].__cause__) is not None:
        found.append(cause)
    return found


def _absent(error: BaseException) -> bool:
    """Whether the server says that there is no such file; fsspec says so also of a dead server."""
    first = _chain(error)[-1]
    if isinstance(error, FileNotFoundError) and isinstance(first, FileNotFoundError | KeyError):
        return True
    return getattr(first, "status", None) in (404, 410)


def _reason(error: BaseException) -> str:
    first = _chain(error)[-1]
    text = " ".join(str(first).split()) or type(first).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


def _no_answer(where: str, error: BaseException) -> InputError:
    return InputError(
        f"{where}: cannot be fetched ({_reason(error)}); is the address right, the server up, and "
        "are credentials needed?"
    )
