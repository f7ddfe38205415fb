"""The data catalog: one YAML file a source, saying where its files are and what to know.

A user's own folder ``./data_catalog`` comes before the shipped one, file by file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from weatherpp.conventions import VARIABLES
from weatherpp.data.shipped import shipped_folder
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import Label, Strict, read_yaml, validate

Group = Literal["forecast", "analysis", "static", "apply"]


class Files(Strict):
    """Glob patterns, relative to the root. ``apply`` are forecasts without truth as yet."""

    forecast: tuple[str, ...] = ()
    analysis: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()

    @field_validator("forecast", "analysis", "static", "apply")
    @classmethod
    def _stay_inside(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            path = PurePosixPath(pattern)
            if path.is_absolute() or ".." in path.parts or "\\" in pattern or ":" in pattern:
                raise ValueError(f"'{pattern}' must be relative to the root and stay inside it")
        return patterns


class SourceVariable(Strict):
    """What the files call a variable, and its units where they do not say or say it wrong."""

    source: str | None = None
    units: str | None = None


class CatalogEntry(Strict):
    """One source of data.

    ``variables`` lists what to take, by canonical name; without it, all known variables are
    taken. ``lagged`` joins runs of different initial times that are valid at the same time
    into one ensemble, dated by its latest run.
    """

    name: Label
    title: str
    driver: Literal["grib", "netcdf", "zarr", "twin"]
    root: str = "."
    files: Files = Files()
    variables: dict[str, SourceVariable] = Field(default_factory=dict)
    members: str = ""
    lagged: bool = False
    licence: str
    citation: str
    quirks: tuple[str, ...] = ()
    missing_values: Literal["refuse", "expected"] = "refuse"
    twin: dict[str, Any] = Field(default_factory=dict)

    _base: Path = PrivateAttr(default_factory=Path.cwd)

    @model_validator(mode="after")
    def _has_files(self) -> CatalogEntry:
        if self.driver != "twin" and not self.files.forecast:
            raise ValueError("files.forecast: needs a pattern at least")
        unknown = sorted(set(self.variables) - set(VARIABLES))
        if unknown:
            raise ValueError(
                f"variables: '{unknown[0]}' is not a known variable; known: "
                f"{', '.join(sorted(VARIABLES))}"
            )
        return self

    @property
    def sparse(self) -> bool:
        """Whether missing values are expected."""
        return self.missing_values == "expected"

    def folder(self, root: str | Path | None = None) -> Path:
        """Folder of the files: ``root`` if given, else the entry's own.

        ``${NAME}`` stands for an environment variable. A relative root of the entry starts
        at the folder that holds ``data_catalog``.

        Raises
        ------
        ConfigError
            An environment variable is not set.
        InputError
            There is no such folder.
        """
        text = _with_environment(str(root if root is not None else self.root), self.name)
        folder = Path(text).expanduser()
        if root is None and not folder.is_absolute():
            folder = self._base / folder
        if not folder.is_dir():
            raise InputError(
                f"catalog entry {self.name}: no folder {folder}; say where its files are "
                "(source.root in the recipe, or --set source.root=FOLDER)"
            )
        return folder

    def paths(self, group: Group, root: str | Path | None = None) -> list[Path]:
        """Files of a group, sorted; empty if the entry has no pattern for it.

        Raises
        ------
        InputError
            A pattern matches no file.
        ConfigError
            A match lies outside the root, by a symbolic link.
        """
        folder = self.folder(root)
        found: list[Path] = []
        for pattern in getattr(self.files, group):
            matches = sorted(folder.glob(pattern))
            if not matches:
                raise InputError(f"{folder / pattern}: no such {group} file")
            for match in matches:
                if not match.resolve().is_relative_to(folder.resolve()):
                    raise ConfigError(f"{match}: leads out of the folder {folder}")
            found += [match for match in matches if match not in found]
        return found


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
    return [load_entry(name) for name in sorted(_entry_files())]


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
