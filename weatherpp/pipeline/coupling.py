"""Members in the products of methods that predict each point by itself."""

from __future__ import annotations

import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.data.archive import Archive
from weatherpp.data.fields import choose, select
from weatherpp.data.matching import truth_for
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods import copula
from weatherpp.recipe import Recipe, Target

DRAWS: dict[str, copula.Draw] = {
    "ecc-q": "quantiles",
    "ecc-r": "random",
    "ecc-s": "stratified",
    "schaake": "quantiles",
}


def check_members(recipe: Recipe, archive: Archive) -> None:
    """Refuse, before anything is fitted, members that cannot be made.

    Raises
    ------
    ConfigError
        A method has fewer raw members than are to be made, or there is no training period.
    InputError
        The Schaake shuffle is asked for and there are no analyses.
    """
    wanted = recipe.products.members
    if wanted is None:
        return
    if wanted.coupling == "schaake":
        if archive.analysis is None:
            raise InputError(
                f"{archive.path}: no analyses for products.members.coupling: schaake to take its "
                "template from; take one of ecc-q, ecc-r, ecc-s"
            )
        if recipe.split is None:
            raise ConfigError(
                "products.members.coupling: schaake takes its template from the training period, "
                "but the recipe has no split; take one of ecc-q, ecc-r, ecc-s"
            )
        return
    numbers = [int(number) for number in archive.forecast["number"].to_numpy()]
    for entry in recipe.methods:
        there = len(choose(numbers, entry.members, recipe.seed))
        least = wanted.count or 2
        if there < least:
            raise ConfigError(
                f"products.members: {wanted.coupling} orders {least} members or more as the raw "
                f"ones are, but method {entry.label} sees {there}; lower count, or take "
                "coupling: schaake"
            )


def with_members(
    dist: xr.Dataset,
    raw: xr.Dataset,
    archive: Archive,
    target: Target,
    train: pd.DatetimeIndex,
    recipe: Recipe,
) -> xr.Dataset:
    """A prediction with the variable ``members`` (time, number, grid...), if the recipe has any.

    A prediction in the form of members stays as it is.

    Parameters
    ----------
    dist
        Predictive distribution.
    raw
        Canonical forecast of the same dates, with the members that the method saw.
    archive, target
        Where analyses come from, and of which field.
    train
        Training dates.
    recipe
        One that :func:`check_members` lets pass.

    Raises
    ------
    InputError
        There are fewer training dates than members to be made.
    """
    wanted = recipe.products.members
    if wanted is None or distribution.form_of(dist) == "members":
        return dist
    if archive.analysis is not None and wanted.coupling == "schaake":
        past = truth_for(archive.analysis, target, train, archive.forecast).load()
        times = pd.DatetimeIndex(dist["time"].values)
        count = wanted.count or len(past)
        template = copula.past_template(past, times, count, wanted.window, recipe.seed)
    else:
        members = select(raw, target.variable, target.level, target.lead)
        template = members.isel(number=slice(wanted.count))
    return coupled(dist, template, wanted.coupling, recipe.seed)


def coupled(dist: xr.Dataset, template: xr.DataArray, coupling: str, seed: int) -> xr.Dataset:
    """A prediction with the variable ``members``, in the order that a template has.

    Parameters
    ----------
    dist
        Predictive distribution, of another form than members.
    template
        Dims (time, number, grid...), see :func:`weatherpp.methods.copula.couple`.
    coupling
        Key of :data:`DRAWS`.
    seed
        Of random levels and of ties.
    """
    value = copula.couple(dist, template, DRAWS[coupling], seed)["value"]
    return dist.assign(members=value.assign_attrs(coupling=coupling))
