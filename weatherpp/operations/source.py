"""Where a cycle's files come from: a folder that others fill, or see
:mod:`weatherpp.operations.fetch`."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd
import xarray as xr

from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.ingest import lay_out_source, read
from weatherpp.data.join import Layout
from weatherpp.errors import InputError
from weatherpp.files import file_state
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.settings import DropSource
from weatherpp.recipe import parse_step

Seen = dict[Path, tuple[object, float]]
"""State of files, and since when they are in it."""


@dataclass(frozen=True)
class Arrival:
    """Files that are there and whole as far as can be told; ``growing`` ones were left out.
    ``lacking`` says of what is not all there, or not to be had, what is wrong with it."""

    root: Path
    files: tuple[Path, ...]
    growing: tuple[Path, ...] = ()
    lacking: tuple[str, ...] = ()


class Source(Protocol):
    """What the job asks of a source: to bring files, and to say where they are."""

    def forecast(self, cycle: pd.Timestamp, patient: bool) -> Arrival:
        """The files of a cycle; waits for them if ``patient``.

        Raises
        ------
        InputError
            None came.
        """

    def analysis(self, valid: pd.Timestamp) -> Arrival:
        """The files of an analysis; none if it has not come."""


class Drop:
    """A folder; see :class:`~weatherpp.operations.settings.DropSource`."""

    def __init__(self, settings: DropSource):
        self.settings = settings

    @property
    def settle(self) -> float:
        """Seconds for which a file must not have changed."""
        return parse_step(self.settings.settle).total_seconds()

    def forecast(self, cycle: pd.Timestamp, patient: bool) -> Arrival:
        """The files of a cycle, waited for if ``patient``, those that still grow for ``settle``."""
        wait, poll = (
            parse_step(text).total_seconds() for text in (self.settings.wait, self.settings.poll)
        )
        names = self.settings.names("forecast", cycle)
        seen: Seen = {}
        start = time.monotonic()
        while True:
            passed = time.monotonic() - start
            arrival = self._look(names, seen)
            short = len(arrival.files) < (self.settings.count or len(names))
            # what grows is whole a moment later, or it is cut off; so much patience is always
            if not (arrival.growing and passed <= self.settle) and not (
                patient and passed < wait and (short or arrival.growing or arrival.lacking)
            ):
                break
            time.sleep(min(poll, self.settle) if arrival.growing and self.settle else poll)
        if arrival.lacking:
            arrival = self._look(names, seen, final=True)
        if not arrival.files:
            state = "still growing" if arrival.growing else "no such file"
            where = " or ".join(f"{self._address()}/{name}" for name in names)
            why = "; ".join(arrival.lacking) or f"{where}: {state}"
            raise InputError(
                f"{why}, so there is no forecast of {cycle_name(cycle)}; run it again "
                f"with --from {cycle_name(cycle)} --to {cycle_name(cycle)} when it has come"
            )
        return arrival

    def analysis(self, valid: pd.Timestamp) -> Arrival:
        """The files of an analysis that have been there for ``settle``; none if one still grows."""
        arrival = self._look(self.settings.names("analysis", valid), {})
        return Arrival(arrival.root, () if arrival.growing else arrival.files, arrival.growing)

    def _address(self) -> str:
        return str(self._root())

    def _root(self) -> Path:
        return _entry(self.settings, Arrival(Path(), ()), "forecast").folder(self.settings.root)

    def _look(self, names: Sequence[str], seen: Seen, final: bool = False) -> Arrival:
        """What is there now; ``seen`` is remembered from look to look."""
        root = self._root()
        found = sorted({path for name in names for path in root.glob(name)})
        whole: list[Path] = []
        growing: list[Path] = []
        for path in found:
            _refuse_odd(path)
            state = file_state(path)
            newest = max((changed for _, changed in state), default=0) / 1e9
            rests = at_rest(path, state, newest, seen, self.settle)
            (whole if rests and state else growing).append(path)
        return Arrival(root, tuple(whole), tuple(growing))


def _refuse_odd(path: Path) -> None:
    """Refuse a name that cannot be written down."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise InputError(f"{shown}: its name is not UTF-8; rename it") from None


def at_rest(path: Path, state: object, newest: float, seen: Seen, settle: float) -> bool:
    """Whether a file has not changed for ``settle`` seconds.

    Parameters
    ----------
    path, state
        The file, and what changes with it.
    newest
        Its time of change, seconds since 1970.
    seen
        State and time of earlier looks; noted here.
    settle
        Seconds.
    """
    now = time.monotonic()
    if path not in seen or seen[path][0] != state:
        seen[path] = (state, now)
    # either its own time of change is long past, or it was watched long enough
    return time.time() - newest >= settle or now - seen[path][1] >= settle


def _entry(settings: DropSource, arrival: Arrival, group: str) -> CatalogEntry:
    """Catalog entry that means these very files."""
    names = [glob.escape(path.relative_to(arrival.root).as_posix()) for path in arrival.files]
    return CatalogEntry.model_validate(
        {
            "name": "nightly",
            "title": "",
            "licence": "",
            "citation": "",
            "driver": settings.driver,
            "files": {group: names or ["-"]},
            "variables": settings.variables,
            "grid": settings.grid,
        }
    )


def lay_out_forecast(settings: DropSource, arrival: Arrival) -> Layout:
    """The forecast in some files, lazy; its values are not checked.

    Raises
    ------
    InputError
        A file cannot be read, or the files do not belong together.
    """
    return lay_out_source(_entry(settings, arrival, "forecast"), arrival.root, None)["forecast"]


def read_analysis(settings: DropSource, arrival: Arrival) -> xr.Dataset:
    """The analysis in some files, its values checked.

    Raises
    ------
    InputError
        A file cannot be read, or holds values that cannot be.
    """
    found = read(_entry(settings, arrival, "analysis"), "analysis", arrival.root)
    if found is None:
        raise InputError(f"{arrival.root}: no analysis")
    return found
