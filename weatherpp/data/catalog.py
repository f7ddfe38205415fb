"""The data catalog: one YAML file a source, saying where its files are and what to know.

A user's own folder ``./data_catalog`` comes before the shipped one, file by file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pandas as pd
from pydantic import Field, PrivateAttr, field_validator, model_validator

from weatherpp.conventions import VARIABLES
from weatherpp.data import remote
from weatherpp.data.amounts import SINCE_PREVIOUS, SINCE_START
from weatherpp.data.download import Progress
from weatherpp.data.regrid import LIKE, GridSettings
from weatherpp.data.shipped import shipped_folder
from weatherpp.data.table_layout import TableLayout
from weatherpp.data.urls import is_url, local_folder
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import parse_step
from weatherpp.strict import Label, Strict, read_yaml, validate

MOST_MEMBERS = 100_000  # of an ensemble; more are a slip of the pen
Group = Literal["forecast", "control", "analysis", "static", "apply"]


class Files(Strict):
    """Glob patterns, relative to the root.

    ``control`` are control forecasts stored apart, without a member number (alone, with no
    ``forecast`` beside them, a single run that is no ensemble); ``apply`` are forecasts without
    truth as yet.
    """

    forecast: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    analysis: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()

    @field_validator("forecast", "control", "analysis", "static", "apply")
    @classmethod
    def _stay_inside(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            path = PurePosixPath(pattern)
            if path.is_absolute() or ".." in path.parts or "\\" in pattern or ":" in pattern:
                raise ValueError(f"'{pattern}' must be relative to the root and stay inside it")
            if not path.parts or any("**" in part and part != "**" for part in path.parts):
                raise ValueError(f"'{pattern}' is no pattern; write for example '2020*/*.nc'")
        return patterns


class SourceVariable(Strict):
    """What the files call a variable, and what they do not say of it or say wrong.

    ``period`` is the time that each value holds for, such as ``24h``: of a rate, to make an
    amount of it, or of a sum. ``accumulation`` tells what a forecast sums up over:
    ``since_start``, ``since_previous`` (lead time), or the time after which sums begin anew.
    """

    source: str | None = None
    units: str | None = None
    period: str | None = None
    accumulation: str | None = None

    @field_validator("period")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None and not parse_step(value):
            raise ValueError(f"'{value}' is no time; write for example 24h")
        return value

    @field_validator("accumulation")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        return value if value in (SINCE_START, SINCE_PREVIOUS) else cls._is_a_time(value)

    def attrs(self) -> dict[str, str]:
        """Attributes that :func:`~weatherpp.data.canonical.canonicalise` goes by."""
        return self.model_dump(include={"units", "period", "accumulation"}, exclude_none=True)


class Expected(Strict):
    """What a whole source has; :mod:`weatherpp.data.catalog_check` tells what is missing of it.

    ``members`` are the first and the last number. Empty or None stands for not known beforehand.
    """

    members: tuple[int, int] | None = None
    levels: tuple[int, ...] = ()
    steps: tuple[str, ...] = ()

    @field_validator("members")
    @classmethod
    def _are_an_ensemble(cls, members: tuple[int, int] | None) -> tuple[int, int] | None:
        if members is not None and not 0 <= members[0] <= members[1] < MOST_MEMBERS:
            raise ValueError(
                f"first and last number, in this order, from 0 to {MOST_MEMBERS - 1}; found "
                f"{members[0]} and {members[1]}"
            )
        return members

    @field_validator("steps")
    @classmethod
    def _are_times(cls, steps: tuple[str, ...]) -> tuple[str, ...]:
        for step in steps:
            parse_step(step)
        return steps


class CatalogEntry(Strict):
    """One source of data.

    ``root`` is a folder or a URL (:mod:`weatherpp.data.remote`). ``variables`` lists what to
    take, by canonical name; without it, all known variables are taken. ``analysis_variables``
    says the same of the analyses where they differ from the forecasts; ``analysis_shift`` is
    added to their times, such as ``12h`` where they are dated by the beginning of a day and the
    forecasts by its middle. ``lagged`` joins runs of different initial times that are valid at
    the same time into one ensemble, dated by its latest run. ``grid`` crops, coarsens or regrids
    (:mod:`weatherpp.data.regrid`). ``table`` says what the columns of a table are.
    """

    name: Label
    title: str
    driver: Literal["grib", "netcdf", "zarr", "table", "twin"]
    root: str = "."
    files: Files = Files()
    variables: dict[str, SourceVariable] = Field(default_factory=dict)
    analysis_variables: dict[str, SourceVariable] = Field(default_factory=dict)
    analysis_shift: str | None = None
    members: str = ""
    expected: Expected = Expected()
    lagged: bool = False
    grid: GridSettings | None = None
    licence: str
    citation: str
    quirks: tuple[str, ...] = ()
    missing_values: Literal["refuse", "expected"] = "refuse"
    twin: dict[str, Any] = Field(default_factory=dict)
    table: TableLayout | None = None

    _base: Path = PrivateAttr(default_factory=Path.cwd)
    _remotes: dict[str, remote.Remote] = PrivateAttr(default_factory=dict)
    # what was found below a URL stays so for the life of the entry: one ingest, one state of it
    _listed: dict[tuple[str, str], list[str]] = PrivateAttr(default_factory=dict)
    _local: dict[tuple[str, str], Path] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _has_files(self) -> CatalogEntry:
        given = self.files.forecast or self.files.control or self.files.analysis
        if self.driver != "twin" and not given:
            raise ValueError(
                "files.forecast: needs a pattern at least (or files.control, files.analysis)"
            )
        unknown = sorted({*self.variables, *self.analysis_variables} - set(VARIABLES))
        if unknown:
            raise ValueError(
                f"variables: '{unknown[0]}' is not a known variable; known: "
                f"{', '.join(sorted(VARIABLES))}"
            )
        return self

    @model_validator(mode="after")
    def _has_columns(self) -> CatalogEntry:
        if (self.driver == "table") != (self.table is not None):
            raise ValueError("driver: table goes with a block 'table', and only with it")
        if self.grid is not None and self.driver in ("table", "twin"):
            raise ValueError(f"grid: does not go with driver: {self.driver}")
        forecasts = self.files.forecast or self.files.control
        if self.grid is not None and self.grid.regrid == LIKE and not forecasts:
            raise ValueError(f"grid.regrid: {LIKE} needs forecasts (files.forecast)")
        if self.table is None:
            return self
        if len(self.variables) != 1:
            raise ValueError("variables: a table gives one variable; name it")
        if (self.table.truth is not None) != bool(self.files.analysis):
            raise ValueError("table.truth goes with files.analysis, and only with it")
        return self

    @field_validator("analysis_shift")
    @classmethod
    def _is_a_shift(cls, value: str | None) -> str | None:
        if value is not None:
            parse_step(value.removeprefix("-"))
        return value

    @property
    def shift(self) -> pd.Timedelta:
        """Time to add to the valid times of analyses."""
        return pd.Timedelta(self.analysis_shift or 0)

    def variables_of(self, group: Group) -> dict[str, SourceVariable]:
        """What to take from the files of a group."""
        own = self.analysis_variables if group == "analysis" else {}
        return own or self.variables

    @property
    def sparse(self) -> bool:
        """Whether missing values are expected."""
        return self.missing_values == "expected"

    def folder(self, root: str | Path | None = None) -> Path:
        """Folder of the files: ``root`` if given, else the entry's own; of a URL, its cache.

        ``${NAME}`` stands for an environment variable. A relative root of the entry starts
        at the folder that holds ``data_catalog``.

        Raises
        ------
        ConfigError
            An environment variable is not set, or the URL cannot be used.
        InputError
            There is no such folder.
        """
        there = self.elsewhere(root)
        if there is not None:
            return there.folder
        text = self._root(root)
        folder = local_folder(text) or Path(text).expanduser()
        if root is None and not folder.is_absolute():
            folder = self._base / folder
        if not folder.is_dir():
            raise InputError(
                f"catalog entry {self.name}: no folder {folder}; say where its files are "
                "(source.root in the recipe, or --set source.root=FOLDER)"
            )
        return folder

    def _root(self, root: str | Path | None) -> str:
        return _with_environment(str(root if root is not None else self.root), self.name)

    def elsewhere(self, root: str | Path | None = None) -> remote.Remote | None:
        """What lies below the root if it is a URL; None if it is a folder.

        Raises
        ------
        ConfigError
            An environment variable is not set, or the URL cannot be used.
        """
        text = self._root(root)
        if not is_url(text) or local_folder(text) is not None:
            return None
        if text not in self._remotes:
            self._remotes[text] = remote.Remote(text)
        return self._remotes[text]

    def show_downloads(self, progress: Progress | None, root: str | Path | None = None) -> None:
        """Have downloads call ``progress`` with (description, done, total), in bytes."""
        there = self.elsewhere(root)
        if there is not None:
            there.progress = progress

    def names(self, group: Group, root: str | Path | None = None) -> list[str]:
        """Files of a group relative to the root, sorted within each pattern; nothing is fetched.

        Empty if the entry has no pattern for the group. Observations that stand in the rows of a
        table of forecasts are in the forecast files.

        Raises
        ------
        InputError
            A pattern matches no file.
        ConfigError
            A match lies outside the root, by a symbolic link.
        """
        if group == "analysis" and self.table is not None and self.table.observation is not None:
            group = "forecast"
        patterns: tuple[str, ...] = getattr(self.files, group)
        found = [name for pattern in patterns for name in self.matches(pattern, root, group)]
        return list(dict.fromkeys(found))

    def matches(self, pattern: str, root: str | Path | None, group: str) -> list[str]:
        """Files that match a pattern, relative to the root, sorted.

        Raises
        ------
        InputError
            There are none; ``group`` says what was looked for.
        ConfigError
            A match lies outside the root, by a symbolic link.
        """
        there = self.elsewhere(root)
        if there is not None:
            key = (there.url, pattern)
            if key not in self._listed:
                self._listed[key] = there.names(pattern, self.driver == "zarr")
            names, where = self._listed[key], f"{there.url}/{pattern}"
        else:
            folder = self.folder(root)
            found = sorted(folder.glob(pattern))
            for match in found:
                try:
                    inside = match.resolve().is_relative_to(folder.resolve())
                except (OSError, RuntimeError):  # a link that leads to itself
                    raise InputError(f"{match}: a symbolic link that leads nowhere") from None
                if not inside:
                    raise ConfigError(
                        f"{match}: leads out of the folder {folder}; copy the file into it, or "
                        "name as root a folder that holds both"
                    )
            names = [match.relative_to(folder).as_posix() for match in found]
            where = str(folder / pattern)
        if not names:
            raise InputError(f"{where}: no such {group} file")
        return names

    def paths(self, group: Group, root: str | Path | None = None) -> list[Path]:
        """Files of a group; those below a URL are fetched, of Zarr stores there are links.

        Raises
        ------
        InputError
            A pattern matches no file, or one cannot be fetched.
        ConfigError
            A match lies outside the root, by a symbolic link.
        """
        return self.local(self.names(group, root), root)

    def local(self, names: Sequence[str], root: str | Path | None = None) -> list[Path]:
        """Where files of these names are; those below a URL are fetched or linked to.

        Raises
        ------
        InputError
            A file is not there, or cannot be fetched.
        """
        there = self.elsewhere(root)
        if there is None:
            return [self.folder(root) / name for name in names]
        lacking = [name for name in names if (there.url, name) not in self._local]
        if self.driver == "zarr":
            found = [there.link(name) for name in lacking]
        else:
            found = there.fetch(lacking)
        self._local |= {(there.url, n): path for n, path in zip(lacking, found, strict=True)}
        return [self._local[there.url, name] for name in names]


def _with_environment(text: str, name: str) -> str:
    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if not found:
            raise ConfigError(
                f"catalog entry {name}: the environment variable {match[1]} is not set; "
                "it says where the files are"
            )
        return found

    return re.sub(r"\$\{(\w+)\}", value, text)


def _entry_files() -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in (shipped_folder("data_catalog"), Path.cwd() / "data_catalog"):
        files |= {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return files


def list_entries() -> list[CatalogEntry]:
    """All entries, by name.

    Raises
    ------
    ConfigError
        An entry's file is not valid.
    """
    entries, faults = readable_entries()
    if faults:
        raise faults[0]
    return entries


def readable_entries() -> tuple[list[CatalogEntry], list[ConfigError]]:
    """Entries whose file is valid, by name, and what is wrong with the others."""
    entries: list[CatalogEntry] = []
    faults: list[ConfigError] = []
    for name in sorted(_entry_files()):
        try:
            entries.append(load_entry(name))
        except ConfigError as error:
            faults.append(error)
    return entries, faults


def load_entry(name: str) -> CatalogEntry:
    """Entry by name.

    Raises
    ------
    ConfigError
        No entry of that name (the message lists them), or its file is not valid.
    """
    files = _entry_files()
    if name not in files:
        raise ConfigError(f"no catalog entry '{name}'; there are {', '.join(sorted(files))}")
    path = files[name]
    entry = validate(CatalogEntry, read_yaml(path), str(path))
    if entry.name != name:
        raise ConfigError(f"{path}: its name is '{entry.name}'; file and name must agree")
    entry._base = path.resolve().parent.parent
    return entry
