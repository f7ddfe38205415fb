"""URLs: which are read, with what, and what a failure to read one means."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from weatherpp.data.download import chain
from weatherpp.errors import ConfigError, InputError

SCHEMES = ("http", "https", "s3", "gs", "memory")


def is_url(text: str) -> bool:
    """Whether a root is a URL and no folder."""
    return "://" in text


def local_folder(url: str) -> Path | None:
    """The folder that a ``file://`` URL means; None for any other URL."""
    # a URL that is none is not taken apart here, but refused where it is used
    return Path(urlsplit(url).path) if url.lower().startswith("file://") else None


def check_url(url: str) -> None:
    """Refuse a URL that is not read.

    Raises
    ------
    ConfigError
        It is of another kind or carries credentials.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{url.rpartition('@')[2]}: is no URL ({error})") from None
    if parts.scheme not in SCHEMES:
        raise ConfigError(
            f"{url}: URLs of this kind are not read; there are file, {', '.join(SCHEMES)}"
        )
    if not parts.netloc and parts.scheme != "memory":
        raise ConfigError(f"{url}: names no server; write for example https://example.org/data")
    if "@" in parts.netloc or parts.query or parts.fragment:
        bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise ConfigError(
            f"{bare}: no user, password, token or other query belongs into the URL of a root; "
            "credentials are taken from the environment"
        )


def options_of(url: str) -> dict[str, Any]:
    """For the file system: never an old listing; with http, whole files however long they take."""
    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if urlsplit(url).scheme in ("http", "https"):
        from aiohttp import ClientTimeout

        patience = ClientTimeout(total=None, sock_connect=30, sock_read=60)
        # a packed transfer would not have the size that the server states
        options["headers"] = {"Accept-Encoding": "identity"}
        options["client_kwargs"] = {"timeout": patience, "trust_env": True}
    return options


def filesystem(url: str) -> Any:
    """What fsspec reads a URL with.

    Raises
    ------
    ConfigError
        A package to read it is missing.
    """
    try:
        import fsspec

        return fsspec.filesystem(urlsplit(url).scheme, **options_of(url))
    except ImportError as error:
        name = {"s3": "s3fs", "gs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
        lacking = error.name or name.get(urlsplit(url).scheme, "fsspec")
        raise ConfigError(
            f"{url}: needs the package {lacking}: pip install 'weatherpp[remote]'"
        ) from None


def says_absent(error: BaseException) -> bool:
    """Whether the server says that there is no such file; fsspec says so also of a dead server."""
    first = chain(error)[-1]
    if isinstance(error, FileNotFoundError) and isinstance(first, FileNotFoundError | KeyError):
        return True
    return getattr(first, "status", None) in (404, 410)


def reason_of(error: BaseException) -> str:
    """What failed in the first place, in one line."""
    first = chain(error)[-1]
    message = getattr(first, "message", None)  # aiohttp's, which would show the address too
    told = f"{getattr(first, 'status', 0) or ''} {message}" if isinstance(message, str) else first
    text = " ".join(str(told).split()) or type(first).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


def no_answer(where: str, error: BaseException) -> InputError:
    """The error to raise when nothing can be fetched."""
    return InputError(
        f"{where}: cannot be fetched ({reason_of(error)}); is the address right, the server up, "
        "and are credentials needed?"
    )
