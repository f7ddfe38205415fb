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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr
from pydantic import TypeAdapter, ValidationError

from weatherpp.conventions import listed
from weatherpp.data.archive import Archive
from weatherpp.data.fields import select
from weatherpp.errors import ConfigError, InputError
from weatherpp.files import write_whole
from weatherpp.methods.base import Method, load_model, read_card
from weatherpp.pipeline.products import members_for
from weatherpp.strict import Label, digest

VERSION = "version.json"
CURRENT = "current"
HISTORY = "history.json"
FAR = 5.0
"""Standard deviations, over dates and places: no weather, but other units."""
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


@dataclass(frozen=True)
class Chosen:
    """A model with the members that it is given."""

    version: Version
    name: str
    method: Method
    digest: str
    members: xr.Dataset


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
    try:
        TypeAdapter(Label).validate_python(version)
    except ValidationError:
        raise ConfigError(
            f"--version {version}: letters, digits, dot, dash and underscore"
        ) from None
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
    found = read_version(path)
    if use_it:
        use(registry, version)
    return found


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


def check_climate(version: Version, field: xr.DataArray) -> None:
    """Refuse a forecast that has nothing to do with those that a version was fitted on.

    Parameters
    ----------
    version
        Of the models of the field.
    field
        Its members, in memory.

    Raises
    ------
    InputError
        Its mean is further from theirs than :data:`FAR` of their standard deviations.
    """
    if not version.climate:
        return
    now, mean, std = float(field.mean()), version.climate["mean"], version.climate["std"]
    if abs(now - mean) > FAR * std:
        raise InputError(
            f"{field.name} is {now:.4g} in the mean, far from the {mean:.4g} (standard deviation "
            f"{std:.3g}) of the forecasts that {version.path} was fitted on; other units, or "
            "another field?"
        )


def use(registry: Path, version: str) -> None:
    """Make a version the current one, in one step; also the way back to an older one.

    Raises
    ------
    ConfigError
        There is no such version.
    InputError
        A model in it is damaged.
    """
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
        _load(found, name)
    link = registry / f".{CURRENT}.part"
    link.unlink(missing_ok=True)
    link.symlink_to(Path("versions") / version)
    os.replace(link, registry / CURRENT)


def named(registry: Path, version: str) -> Version:
    """A version by its name.

    Raises
    ------
    ConfigError
        There is no such version.
    """
    path = registry / "versions" / version
    if not (path / VERSION).is_file():
        known = listed(found.name for found in versions(registry))
        raise ConfigError(f"{registry}: no version '{version}'; there are {known}")
    return read_version(path)


def _load(version: Version, name: str) -> tuple[Method, dict[str, Any]]:
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


def versions(registry: Path) -> list[Version]:
    """All whole versions, by name."""
    return [read_version(path.parent) for path in sorted(registry.glob(f"versions/*/{VERSION}"))]


def current(registry: Path) -> Version:
    """The version in use.

    Raises
    ------
    ConfigError
        There is none.
    """
    link = registry / CURRENT
    if not link.is_dir():
        raise ConfigError(
            f"{registry}: no current model; add one with 'weatherpp models add {registry} MODEL "
            "--version NAME --use'"
        )
    return read_version(link.resolve())


def read_version(path: Path) -> Version:
    """A version by its folder.

    Raises
    ------
    InputError
        It is not whole.
    """
    try:
        content: dict[str, Any] = json.loads((path / VERSION).read_text(encoding="utf-8"))
        names, scores = tuple(map(str, content["models"])), dict(content["scores"])
        digests, climate = dict(content["digests"]), dict(content["climate"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not a whole version of a registry; add it again") from None
    return Version(path.name, path, names, scores, digests, climate)


def identity(version: Version) -> str:
    """Hash of all models of a version, by their names and contents."""
    cards = [str(read_card(version.path / name)["digest"]) for name in version.models]
    return digest(version.name, list(version.models), cards)


def choose(version: Version, forecast: xr.Dataset, expected: int) -> Chosen:
    """The model for the members that have come.

    The preferred one if it takes them; with fewer members than expected else the one that was
    fitted on the most members that there are.

    Parameters
    ----------
    version
        Of the models of one field.
    forecast
        Canonical forecast with the members that have come.
    expected
        How many there should be.

    Raises
    ------
    InputError
        No model takes so few members; what the preferred one says.
    """
    there = forecast.sizes["number"]
    candidates: list[Chosen] = []
    faults: list[InputError] = []
    for name in version.models if there < expected else version.models[:1]:
        folder = version.path / name
        method, card = _load(version, name)
        if method.needs_recent:
            raise ConfigError(
                f"{folder}: method {method.name} needs recent forecasts, which the nightly job "
                "does not keep; take another method"
            )
        try:
            given = members_for(method, card, forecast, folder, fewer=True)
        except InputError as error:
            faults.append(error)
            continue
        candidates.append(Chosen(version, name, method, str(card["digest"]), given))
        if name == version.models[0]:
            break
    if not candidates:
        raise faults[0]
    return max(candidates, key=lambda each: each.members.sizes["number"])
