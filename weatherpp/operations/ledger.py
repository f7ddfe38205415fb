"""The ledger: what the nightly job did, when, with which files, and how good it was.

An SQLite database (write-ahead log) in the work folder, opened by each process for itself. It
is a record, not the state: whether a stage is done, its marker beside the products tells (see
:mod:`weatherpp.pipeline.stages`), and what is missing here is written again by the next run.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd

from weatherpp.conventions import listed
from weatherpp.errors import InputError, LockedError, WeatherppError
from weatherpp.files import file_digest, file_state

NAME = "ledger.sqlite"
SCORE_COLUMNS = (
    *("cycle", "target", "variable", "level", "step_hours", "method", "model", "members"),
    *("score", "estimator", "value", "pairs", "units"),
)
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, started REAL, ended REAL, code INTEGER, cycles TEXT);
CREATE TABLE IF NOT EXISTS cycles (
    cycle TEXT PRIMARY KEY, state TEXT, code INTEGER, seconds REAL, ended REAL,
    members INTEGER, expected INTEGER, text TEXT);
CREATE TABLE IF NOT EXISTS stages (
    cycle TEXT, stage TEXT, state TEXT, seconds REAL, at REAL, PRIMARY KEY (cycle, stage));
CREATE TABLE IF NOT EXISTS inputs (
    path TEXT PRIMARY KEY, cycle TEXT, state TEXT, sha256 TEXT);
CREATE TABLE IF NOT EXISTS outputs (
    cycle TEXT, stage TEXT, path TEXT, sha256 TEXT, PRIMARY KEY (cycle, stage, path));
CREATE TABLE IF NOT EXISTS scores (
    cycle TEXT, target TEXT, variable TEXT, level REAL, step_hours REAL, method TEXT, model TEXT,
    members INTEGER, score TEXT, estimator TEXT, value REAL, pairs INTEGER, units TEXT,
    PRIMARY KEY (cycle, target, method, score, estimator));
CREATE TABLE IF NOT EXISTS faults (
    id INTEGER PRIMARY KEY, at REAL, cycle TEXT, severity TEXT, code INTEGER, text TEXT);
"""

COLUMNS = (
    "SELECT tables.name || '.' || columns.name FROM sqlite_master AS tables, "
    "pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
)


class UnfitLedger(WeatherppError):
    """The file is damaged, or another version of weatherpp made it."""


class Ledger:
    """One connection; use it as a context manager.

    Parameters
    ----------
    work
        The work folder.
    there
        Refuse to make a new one; only read the one that is there.

    Raises
    ------
    InputError
        There is none, if it must be there.
    UnfitLedger
        It is damaged.
    LockedError
        Another process writes, and does not come to an end.
    WeatherppError
        It cannot be opened or written; with the reason.
    """

    def __init__(self, work: Path, there: bool = False):
        self.path = work / NAME
        if there and not self.path.is_file():
            raise InputError(f"{self.path}: no ledger; run 'weatherpp nightly' first")
        try:
            self.connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?{self._mode(there)}",
                timeout=60,
                isolation_level=None,
                uri=True,
            )
            if there:
                return
            self.connection.execute("PRAGMA journal_mode=WAL")
            self.connection.execute("PRAGMA synchronous=NORMAL")
            self.connection.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise self._fault(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()

    def _mode(self, reads: bool) -> str:
        if not reads:
            return "mode=rwc"
        # SQLite reads the log only where it may write beside it; where nobody may, nothing changes
        alone = not os.access(self.path.parent, os.W_OK) and not self._beside("-wal").exists()
        return "immutable=1" if alone else "mode=ro"

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _fault(self, error: sqlite3.Error) -> WeatherppError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return LockedError(
                f"{self.path}: another process writes to it and does not end ({error}); see who "
                f"with 'fuser -v {self.path}', and run again"
            )
        if not isinstance(error, sqlite3.OperationalError):
            return UnfitLedger(f"{self.path}: {error}; move it away and run again")
        if name == "SQLITE_ERROR":  # of a statement, whose tables are others
            return UnfitLedger(
                f"{self.path}: {error}; another version of weatherpp made it, move it away and run "
                "again"
            )
        return WeatherppError(f"{self.path}: {error}; check the disk and its permissions")

    def check(self) -> None:
        """Look at the whole file, and at the columns of its tables.

        Raises
        ------
        UnfitLedger
            It is damaged, or lacks columns.
        """
        found = self.table("PRAGMA quick_check(1)")
        if list(found.iloc[:, 0]) != ["ok"]:
            text = " ".join(str(found.iloc[0, 0]).split())
            raise UnfitLedger(f"{self.path}: damaged ({text}); move it away and run again")
        with closing(sqlite3.connect(":memory:")) as new:
            new.executescript(SCHEMA)
            wanted = {name for (name,) in new.execute(COLUMNS)}
        lacking = sorted(wanted - set(self.table(COLUMNS).iloc[:, 0]))
        if lacking:
            raise UnfitLedger(
                f"{self.path}: lacks {listed(lacking)}; another version of weatherpp made it, move "
                "it away and run again"
            )

    def _do(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """One transaction."""
        try:
            with self.connection:
                self.connection.execute("BEGIN IMMEDIATE")
                self.connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._fault(error) from None

    def _put(self, table: str, names: str, rows: Sequence[Sequence[Any]]) -> None:
        """Rows in place of those with the same key; a newer version may know more columns."""
        marks = ", ".join("?" * len(names.split(",")))
        self._do(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", rows)

    def table(self, query: str, values: Sequence[Any] = ()) -> pd.DataFrame:
        """Result of a query."""
        try:
            found = self.connection.execute(query, values)
            names = [column[0] for column in found.description]
            return pd.DataFrame(found.fetchall(), columns=names)
        except sqlite3.Error as error:
            raise self._fault(error) from None

    def run_started(self, cycles: str) -> int:
        """Note that a run begins; returns its number."""
        self._do("INSERT INTO runs (started, cycles) VALUES (?, ?)", [(time.time(), cycles)])
        return int(self.table("SELECT max(id) AS id FROM runs")["id"].iloc[0])

    def run_ended(self, number: int, code: int) -> None:
        """Note how a run ended."""
        self._do("UPDATE runs SET ended = ?, code = ? WHERE id = ?", [(time.time(), code, number)])

    def cycle(
        self,
        cycle: str,
        state: str,
        code: int | None = None,
        seconds: float | None = None,
        members: int | None = None,
        expected: int | None = None,
        text: str = "",
    ) -> None:
        """Note where a cycle stands: ``started``, ``done``, ``partial`` or ``failed``."""
        row = (cycle, state, code, seconds, time.time(), members, expected, text)
        names = "cycle, state, code, seconds, ended, members, expected, text"
        self._put("cycles", names, [row])

    def stage(self, cycle: str, stage: str, state: str, seconds: float | None = None) -> None:
        """Note where a stage stands: ``started`` or ``done``."""
        row = (cycle, stage, state, seconds, time.time())
        self._put("stages", "cycle, stage, state, seconds, at", [row])

    def outputs(self, cycle: str, stage: str, paths: Iterable[tuple[str, str]]) -> None:
        """Note the hash of what a stage has made."""
        rows = [(cycle, stage, path, sha256) for path, sha256 in paths]
        self._put("outputs", "cycle, stage, path, sha256", rows)

    def noted(self, cycle: str, stage: str, paths: Iterable[tuple[str, str]]) -> bool:
        """Whether these very hashes of what a stage has made are noted."""
        query = "SELECT path, sha256 FROM outputs WHERE cycle = ? AND stage = ?"
        known = self.table(query, [cycle, stage])
        return set(paths) <= set(zip(known["path"], known["sha256"], strict=True))

    def fault(self, cycle: str, severity: str, code: int, text: str) -> None:
        """Note a fault or warning."""
        row = (time.time(), cycle, severity, code, text)
        self._do(
            "INSERT INTO faults (at, cycle, severity, code, text) VALUES (?, ?, ?, ?, ?)", [row]
        )

    def hashes(self, paths: Sequence[Path], cycle: str) -> list[str]:
        """Hash of each input file; one that has not changed since the last look is not read."""
        found, new = [], []
        for path in paths:
            name, state = str(path.resolve()), json.dumps(file_state(path))
            known = self.table("SELECT state, sha256 FROM inputs WHERE path = ?", [name])
            if len(known) and known["state"].iloc[0] == state:
                found.append(str(known["sha256"].iloc[0]))
                continue
            found.append(file_digest(path))
            new.append((name, cycle, state, found[-1]))
        if new:
            self._put("inputs", "path, cycle, state, sha256", new)
        return found

    def put_scores(self, rows: pd.DataFrame) -> None:
        """Note scores, columns :data:`SCORE_COLUMNS`, in place of those there of the same cycle
        and target."""
        table = (
            rows[list(SCORE_COLUMNS)].astype(object).where(rows[list(SCORE_COLUMNS)].notna(), None)
        )
        self._put("scores", ", ".join(SCORE_COLUMNS), table.to_numpy().tolist())

    def scores(self, since: str = "") -> pd.DataFrame:
        """All scores of cycles from ``since`` on, in order."""
        order = "ORDER BY cycle, target, method, score, estimator"
        found = self.table(f"SELECT * FROM scores WHERE cycle >= ? {order}", [since])
        try:
            return found.astype({"value": float, "level": float, "step_hours": float})
        except (ValueError, TypeError):
            raise UnfitLedger(
                f"{self.path}: a score in it is no number; move it away and run again"
            ) from None


def whole_ledger(work: Path) -> tuple[Ledger, UnfitLedger | None]:
    """The ledger to write to, and what was wrong with the one before, which is set aside, as a
    record that is lost must not cost a night. Whoever calls holds the work folder.

    Raises
    ------
    WeatherppError
        There can be none.
    """
    try:
        ledger = Ledger(work)
        try:
            ledger.check()
            ledger.scores()
        except BaseException:
            ledger.connection.close()
            raise
        return ledger, None
    except UnfitLedger as error:
        aside = _set_aside(work / NAME)
        told = str(error).replace("move it away and run again", f"it is now {aside.name}")
        return Ledger(work), UnfitLedger(
            f"{told}, and a new one holds the scores that are in the work folder; those of cycles "
            "that are gone are in the old one alone"
        )


def _set_aside(path: Path) -> Path:
    """Rename a database with its log; returns the new name."""
    number = next(n for n in itertools.count(1) if not Path(f"{path}.aside-{n}").exists())
    aside = Path(f"{path}.aside-{number}")
    for suffix in ("-wal", "-shm", ""):  # the log first, as alone it would go with the new one
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside


def main_estimator(scores: pd.DataFrame) -> pd.DataFrame:
    """Of each method's CRPS one estimator: the plain one of members, else its own."""
    kept = scores["estimator"].isin(["plain"])
    has_plain = scores.groupby(["target", "method", "score"])["estimator"].transform(
        lambda names: "plain" in set(names)
    )
    return scores[kept | ~has_plain.astype(bool)]
