"""Registry of models: versions side by side, and one pointer that is switched in one step.

``REGISTRY/versions/NAME/`` holds one or more model folders, the preferred one first, and
``version.json``, which is written last and names them with their hashes and what they scored when
they were fitted. ``REGISTRY/current`` is a symbolic link to the version in use, replaced by rename;
``REGISTRY/history.json`` names the versions that have been in use, the last one last.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import Field, TypeAdapter, ValidationError

from weatherpp.conventions import listed
from weatherpp.data.archive import Archive
from weatherpp.data.fields import select
from weatherpp.errors import ConfigError, InputError
from weatherpp.files import in_turn, write_whole
from weatherpp.methods.base import Method, load_model, read_card
from weatherpp.strict import Label, Strict, digest

VERSION = "version.json"
CURRENT = "current"
HISTORY = "history.json"
NOTED = ("crps", "rmse", "bias", "spread_skill")


@dataclass(frozen=True)
class Version:
    """One version of the models of a field.

    Attributes
    ----------
    name, path
        Its name and folder.
    models
        Names of its model folders, the preferred one first.
    scores
        For each model what it scored on the dates of its run that it was not fitted on (``crps``,
        ``rmse``, ``bias``, ``spread_skill``); empty if that is not known.
    digests
        Hash of each model as it was added.
    climate
        ``mean`` and ``std`` of the raw forecasts of the field in the archive of the run, over all
        dates, members and points; empty if that is not known.
    """

    name: str
    path: Path
    models: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]]
    digests: Mapping[str, str]
    climate: Mapping[str, float]


def add(registry: Path, version: str, models: Sequence[Path], use_it: bool = False) -> Version:
    """Copy fitted models into a registry as a new version.

    Parameters
    ----------
    registry
        Folder; made if it is not there.
    version
        Name of the version.
    models
        Model folders of one field, the preferred one first. The others are for nights with fewer
        members.
    use_it
        Make it the current version.

    Raises
    ------
    ConfigError
        The name is taken or no name, no model is given, or they are for different fields.
    InputError
        A model folder is damaged.
    """
    if not _is_name(version):
        raise ConfigError(f"--version {version}: letters, digits, dot, dash and underscore")
    with _held(registry):
        added = _add(registry, version, models)
        if use_it:
            _use(registry, version)
    return added


def _is_name(version: str) -> bool:
    try:
        TypeAdapter(Label).validate_python(version)
    except ValidationError:
        return False
    return True


@contextmanager
def _held(registry: Path) -> Iterator[None]:
    """One change of a registry at a time."""
    try:
        registry.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{registry}: cannot be a registry ({error.strerror})") from None
    with in_turn(registry / ".lock"):
        yield


def _add(registry: Path, version: str, models: Sequence[Path]) -> Version:
    path = registry / "versions" / version
    if path.exists():
        raise ConfigError(f"{path}: this version is there already; give the new one another name")
    if not models:
        raise ConfigError("name at least one model folder")
    targets = [load_model(model).target.model_dump(exclude={"label"}) for model in models]
    if any(target != targets[0] for target in targets):
        raise ConfigError(f"{models[0]}: the others are not of the same field and lead time")
    names = [model.resolve().name for model in models]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: two models have the name {names[0]}; rename a folder")
    partial = path.with_name(f".{version}.part")
    shutil.rmtree(partial, ignore_errors=True)
    for name, model in zip(names, models, strict=True):
        shutil.copytree(model, partial / name)
    noted = {
        name: scores
        for name, model in zip(names, models, strict=True)
        if (scores := _scores(model))
    }
    digests = {name: str(read_card(partial / name)["digest"]) for name in names}
    climate = _climate(models[0])
    content = {"models": names, "scores": noted, "digests": digests, "climate": climate}
    write_whole(partial / VERSION, json.dumps(content, indent=1, sort_keys=True) + "\n")
    partial.replace(path)
    return read_version(path)


def _scores(model: Path) -> dict[str, float]:
    """What a model scored in the run it stands in, ``RUN/models/TARGET/LABEL``."""
    folder = model.resolve()
    table = folder.parents[2] / "scores" / "scores.parquet"
    if folder.parents[1].name != "models" or not table.is_file():
        return {}
    rows = pd.read_parquet(table)
    own = rows[(rows["method"] == folder.name) & (rows["target"] == folder.parent.name)]
    own = own[own["region"] == "whole grid"].drop_duplicates("score")
    values = dict(zip(own["score"], own["value"], strict=True))
    return {name: float(values[name]) for name in NOTED if pd.notna(values.get(name))}


def _climate(model: Path) -> dict[str, float]:
    """Mean and spread of what the run that a model stands in knew of its field."""
    folder = model.resolve()
    archive = folder.parents[2] / "archive.zarr"
    if folder.parents[1].name != "models" or not archive.is_dir():
        return {}
    target = load_model(folder).target
    forecast = Archive.open(archive).forecast
    field = select(forecast, target.variable, target.level, target.lead).astype(float)
    return {"mean": float(field.mean()), "std": float(field.std())}


def use(registry: Path, version: str) -> None:
    """Make a version the current one, in one step; also the way back to an older one.

    Raises
    ------
    ConfigError
        There is no such version.
    InputError
        A model in it is damaged.
    """
    named(registry, version)
    with _held(registry):
        _use(registry, version)


def _use(registry: Path, version: str) -> None:
    before = _past(registry)
    _switch(registry, version)
    write_whole(registry / HISTORY, json.dumps([*before, version]) + "\n")


def roll_back(registry: Path) -> str:
    """Make the version current that was so before; returns its name.

    Raises
    ------
    ConfigError
        There was none before.
    InputError
        A model in it is damaged.
    """
    current(registry)  # or a folder would be made for the lock
    with _held(registry):
        return _roll_back(registry)


def _roll_back(registry: Path) -> str:
    before, now = _past(registry), current(registry).name
    # the history is written after the switch, so that a kill between the two leaves it one behind
    at = len(before) - 1 - before[::-1].index(now) if now in before else len(before)
    earlier = [name for name in before[:at] if name != now]
    if not earlier:
        raise ConfigError(f"{registry}: no version was current before {now}")
    _switch(registry, earlier[-1])
    write_whole(registry / HISTORY, json.dumps(earlier) + "\n")
    return earlier[-1]


def _past(registry: Path) -> list[str]:
    path = registry / HISTORY
    if not path.is_file():
        return []
    try:
        return TypeAdapter(list[str]).validate_json(path.read_bytes())
    except ValidationError:
        raise InputError(f"{path}: not a list of versions; remove it") from None


def _switch(registry: Path, version: str) -> None:
    """Point at a version, all of whose models are whole."""
    found = named(registry, version)
    for name in found.models:
        load(found, name)
    now = registry / CURRENT
    if now.is_dir() and not now.is_symlink():
        raise _no_link(now)
    link = registry / f".{CURRENT}.part"
    link.unlink(missing_ok=True)
    link.symlink_to(Path("versions") / version)
    os.replace(link, now)


def _no_link(path: Path) -> ConfigError:
    return ConfigError(
        f"{path}: is a folder and no link, as in a copy that followed its links; remove it, then "
        f"'weatherpp models use {path.parent} VERSION'"
    )


def named(registry: Path, version: str) -> Version:
    """A version by its name.

    Raises
    ------
    ConfigError
        There is no such version.
    """
    path = registry / "versions" / version
    if not _is_name(version) or not (path / VERSION).is_file():
        known = listed(found.name for found in versions(registry))
        raise ConfigError(f"{registry}: no version '{version}'; there are {known}")
    return read_version(path)


def load(version: Version, name: str) -> tuple[Method, dict[str, Any]]:
    """A model and its ``model.json``, as it was added.

    Raises
    ------
    InputError
        It is damaged, or another one.
    """
    folder = version.path / name
    method, card = load_model(folder), read_card(folder)
    if card["digest"] != version.digests.get(name):
        raise InputError(
            f"{folder}: is not the model that was added as {version.name}; add it as a new version"
        )
    return method, card


def folders(registry: Path) -> list[Path]:
    """Folders of all versions, by name, whole or not; none of one that is just being added."""
    return [path for path in sorted(registry.glob("versions/*")) if _is_name(path.name)]


def versions(registry: Path) -> list[Version]:
    """All versions, by name.

    Raises
    ------
    InputError
        One is damaged.
    """
    return [read_version(path) for path in folders(registry) if (path / VERSION).is_file()]


def current(registry: Path) -> Version:
    """The version in use.

    Raises
    ------
    ConfigError
        There is none.
    """
    link = registry / CURRENT
    if link.is_dir() and not link.is_symlink():
        raise _no_link(link)
    if not link.is_symlink():
        raise ConfigError(
            f"{registry}: no current model; add one with 'weatherpp models add {registry} MODEL "
            "--version NAME --use'"
        )
    there = os.readlink(link)
    path = registry / "versions" / Path(there).name
    if not (path.is_dir() and link.is_dir() and path.samefile(link)):
        raise ConfigError(
            f"{link}: leads to {there}, which is no version of this registry; set it right with "
            f"'weatherpp models use {registry} VERSION'"
        )
    return read_version(path)


class _Content(Strict):
    """What stands in ``version.json``."""

    models: tuple[Annotated[str, Field(pattern="^[^/]+$")], ...] = Field(min_length=1)
    scores: dict[str, dict[str, float]]
    digests: dict[str, str]
    climate: dict[str, float]


def read_version(path: Path) -> Version:
    """A version by its folder.

    Raises
    ------
    InputError
        It is not whole.
    """
    try:
        content = _Content.model_validate_json((path / VERSION).read_bytes())
    except (OSError, ValidationError):
        raise InputError(
            f"{path}: not a whole version of a registry; remove it and add it again"
        ) from None
    return Version(
        path.name, path, content.models, content.scores, content.digests, content.climate
    )


def identity(version: Version) -> str:
    """Hash of all models of a version, by their names and contents."""
    cards = [str(read_card(version.path / name)["digest"]) for name in version.models]
    return digest(version.name, list(version.models), cards)
