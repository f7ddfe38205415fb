"""The few exception types of weatherpp and the exit code each one means.

A message is one line for the person at the terminal: what is wrong, where (file, variable,
date), what to do.
"""

from __future__ import annotations

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
