"""Which model of a version is for the members that have come, and whether the field is one that it
knows."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import Method
from weatherpp.operations.registry import Version, load
from weatherpp.pipeline.products import members_for

FAR = 5.0
"""Standard deviations, over dates and places: no weather, but other units."""


@dataclass(frozen=True)
class Chosen:
    """A model with the members that it is given."""

    version: Version
    name: str
    method: Method
    digest: str
    members: xr.Dataset


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
    if not {"mean", "std"} <= set(version.climate):
        return
    now, mean, std = float(field.mean()), version.climate["mean"], version.climate["std"]
    if abs(now - mean) > FAR * std:
        raise InputError(
            f"{field.name} is {now:.4g} in the mean, far from the {mean:.4g} (standard deviation "
            f"{std:.3g}) of the forecasts that {version.path} was fitted on; other units, or "
            "another field?"
        )


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
        method, card = load(version, name)
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
