"""A source below a URL: files, or the messages of them that are wanted, fetched into a folder.

What is there is what :class:`~weatherpp.operations.source.Drop` would see, so that all that
comes after is the same. A file has its final name there only when it is whole; a fetch that was
cut off or killed goes on where it was (:mod:`weatherpp.data.download`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal

import pandas as pd

from weatherpp.data.remote import Remote
from weatherpp.errors import InputError
from weatherpp.operations.index import Wanted, check_messages, lacking, ranges, read_index
from weatherpp.operations.settings import SUFFIX, WILD, DropSource
from weatherpp.operations.source import Arrival, Drop, Seen, at_rest

INDEX = ".index"


class Server(Drop):
    """Files below a URL; see :class:`~weatherpp.operations.settings.DropSource`.

    A file that the server has no more, or while it does not answer, is taken from the folder.
    Files of analyses that are in the folder are not asked for again.

    Parameters
    ----------
    settings
        Of the source.
    folder
        Where to put the files.

    Raises
    ------
    ConfigError
        The URL cannot be used.
    """

    def __init__(self, settings: DropSource, folder: Path):
        super().__init__(settings)
        self.folder = folder
        self.remote = Remote(settings.root, folder)
        self.silent = False

    def analysis(self, valid: pd.Timestamp) -> Arrival:
        """The files of an analysis; once the server has failed, it is not asked for more."""
        names = self.settings.names("analysis", valid)
        here = [self._here(name) for name in names]
        if all(here) or self.silent:
            paths = [path for found in here for path in found]
            return Arrival(self.folder, tuple(paths) if all(here) else ())
        seen: Seen = {}
        try:
            found = self._analysis(names, seen)
            if found.growing:  # or it is not known whether it does, and a moment later it is
                time.sleep(self.settle)
                found = self._analysis(names, seen)
        except InputError as error:
            self.silent = True
            return Arrival(self.folder, (), lacking=(str(error),))
        whole = len(found.files) >= len(names) and not (found.growing or found.lacking)
        return Arrival(self.folder, found.files if whole else (), found.growing)

    def _analysis(self, names: Sequence[str], seen: Seen) -> Arrival:
        fields = self.settings.analysis_fields
        return _together(
            self.folder, [self._fetch(name, fields, seen, final=False) for name in names]
        )

    def forget(self, group: Literal["forecast", "analysis"], at: pd.Timestamp) -> None:
        """Remove what was fetched of a cycle or valid time, wholly or in part."""
        for name in self.settings.names(group, at):
            folder, _, base = name.rpartition("/")
            index = base.removesuffix(SUFFIX) + INDEX
            for own in (base, f".{base}.*", index, f".{index}.*"):
                for path in list(self.folder.glob(f"{folder}/{own}" if folder else own)):
                    path.unlink(missing_ok=True)

    def _address(self) -> str:
        return self.remote.url

    def _here(self, name: str) -> list[Path]:
        return sorted(self.folder.glob(name))

    def _look(self, names: Sequence[str], seen: Seen, final: bool = False) -> Arrival:
        """Fetch what is there now; of what is there but in part, only at last."""
        arrivals = []
        for name in names:
            try:
                arrivals.append(self._fetch(name, self.settings.fields, seen, final))
            except InputError as error:
                here = tuple(self._here(name))
                enough = self.settings.count if WILD.search(name) else 1
                told = () if enough and len(here) >= enough else (str(error),)
                arrivals.append(Arrival(self.folder, here, lacking=told))
        return _together(self.folder, arrivals)

    def _fetch(self, name: str, fields: Sequence[Wanted], seen: Seen, final: bool) -> Arrival:
        if fields:
            return self._messages(name, fields, final)
        names = self.remote.names(name, stores=False)
        if not names:
            return Arrival(self.folder, tuple(self._here(name)))
        rests = {each: self._rests(each, seen) for each in names}
        whole = self.remote.fetch([each for each in names if rests[each]])
        growing = tuple(self.folder / each for each in names if not rests[each])
        return Arrival(self.folder, tuple(whole), growing)

    def _rests(self, name: str, seen: Seen) -> bool:
        if not self.remote.url.startswith("http"):
            return True  # an object of a store appears whole
        state = self.remote.stated(name)
        try:
            newest = parsedate_to_datetime(str(state.get("Last-Modified"))).timestamp()
        except ValueError:  # it does not say, so that it must be watched
            newest = time.time()
        return at_rest(self.folder / name, state, newest, seen, self.settle)

    def _messages(self, name: str, fields: Sequence[Wanted], final: bool) -> Arrival:
        """The messages that are wanted of a file with an index."""
        index = name.removesuffix(SUFFIX) + INDEX
        if not (self.remote.names(index, stores=False) and self.remote.names(name, stores=False)):
            return Arrival(self.folder, tuple(self._here(name)))
        where = f"{self.remote.url}/{name}"
        (path,) = self.remote.fetch([index])
        lines = read_index(path, f"{self.remote.url}/{index}")
        absent, wanted = lacking(lines, fields), ranges(lines, fields)
        told: tuple[str, ...] = ()
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            told = (f"{where}: its index does not tell of {absent[0]}{more}",)
        if not wanted or (absent and not final):
            return Arrival(self.folder, (), lacking=told)
        fetched = self.remote.fetch_ranges(name, wanted)
        try:
            check_messages(fetched, lines, fields, where)
        except InputError:
            fetched.unlink()
            raise
        return Arrival(self.folder, (fetched,), lacking=told)


def _together(folder: Path, arrivals: Sequence[Arrival]) -> Arrival:
    return Arrival(
        folder,
        tuple(path for each in arrivals for path in each.files),
        tuple(path for each in arrivals for path in each.growing),
        tuple(text for each in arrivals for text in each.lacking),
    )
