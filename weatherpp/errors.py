"""The few exception types of weatherpp and the exit code each one means.

A message is one line for the person at the terminal: what is wrong, where (file, variable,
date), what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class WeatherppError(Exception):
    """Base of all errors that are shown to a user as one line."""

    exit_code: ClassVar[int] = 1


class ConfigError(WeatherppError):
    """Wrong usage: a recipe, a catalog entry or a command-line option cannot be used."""

    exit_code: ClassVar[int] = 2


class InputError(WeatherppError):
    """Input data are missing, damaged or not what the recipe needs."""

    exit_code: ClassVar[int] = 3


class LockedError(WeatherppError):
    """Another run holds the work folder."""

    exit_code: ClassVar[int] = 4


class PartialError(WeatherppError):
    """The job is done in part; the message names what is missing."""

    exit_code: ClassVar[int] = 5


@contextmanager
def telling(where: str) -> Iterator[None]:
    """Put before the message of an error raised inside where it arose: what raises it deep within
    knows what is wrong, but not in which file or fit. A message that tells it already stays.

    Parameters
    ----------
    where
        File, method or target.
    """
    try:
        yield
    except WeatherppError as error:
        if where in str(error):
            raise
        raise type(error)(f"{where}: {error}") from None
