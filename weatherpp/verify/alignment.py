"""What must agree before anything is scored: dimensions, coordinates, units, kinds of values.

Nothing is broadcast, reordered by label, converted or cut to a common part.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.families import FAMILIES

SPREADS = ("spread", "scale", "log_spread")
"""Parameters of families that are never negative."""


def check_aligned(one: xr.DataArray, two: xr.DataArray, names: tuple[str, str]) -> None:
    """Refuse two fields that do not lie on exactly the same points and dates.

    Raises
    ------
    InputError
        Naming the dimension, and what was found on each side.
    """
    if set(one.dims) != set(two.dims):
        raise InputError(
            f"{names[0]} has the dimensions ({', '.join(map(str, one.dims))}), {names[1]} "
            f"({', '.join(map(str, two.dims))}); they must be the same"
        )
    for dim in one.dims:
        if one.sizes[dim] != two.sizes[dim]:
            raise InputError(
                f"'{dim}' has {one.sizes[dim]} values in {names[0]} and {two.sizes[dim]} in "
                f"{names[1]}; select the same ones first"
            )
    flat = ({"latitude", "longitude"} & set(one.coords) & set(two.coords)) - set(one.dims)
    for name in [*one.dims, *sorted(flat, key=str)]:
        if (name in one.coords) != (name in two.coords):
            raise InputError(f"only one of {names[0]} and {names[1]} has the coordinate '{name}'")
        if name not in one.coords:
            continue
        left, right = one[name], two[name].transpose(*one[name].dims)
        differ = left.values != right.values
        # a place that neither knows, as that of an index, is no difference
        differ &= ~((left.values != left.values) & (right.values != right.values))
        if np.any(differ):
            at = np.unravel_index(int(np.argmax(differ)), differ.shape)
            raise InputError(
                f"the coordinate '{name}' differs in {int(np.sum(differ))} of {differ.size} "
                f"values between {names[0]} and {names[1]}, first {left.values[at]} and "
                f"{right.values[at]}; select the same points and dates first"
            )


def check_numbers(field: xr.DataArray, what: str) -> None:
    """Refuse values that are no numbers: text, objects, complex and truth values.

    Raises
    ------
    InputError
        Naming the type that was found.
    """
    if field.dtype.kind not in "fiu":
        raise InputError(
            f"{what}: the values are of the type {field.dtype}, not numbers; convert them first, "
            "for example with .astype(float)"
        )


def check_units(one: str | None, two: str | None, names: tuple[str, str]) -> None:
    """Refuse two fields that say that they are in different units; nothing is converted.

    Raises
    ------
    InputError
        Naming both units.
    """
    if one is not None and two is not None and one != two:
        raise InputError(
            f"{names[0]} is in '{one}', {names[1]} in '{two}'; convert one of them first"
        )


def check_form(dist: xr.Dataset) -> str:
    """Form of a distribution whose values can be scored.

    Raises
    ------
    InputError
        It has no member, levels of quantiles that do not ascend between 0 and 1 (as those in per
        cent), a negative spread (unless it is lazy), or values that are no numbers.
    """
    form = distribution.form_of(dist)
    for name in distribution.FORMS[form]:
        check_numbers(dist[name], "the forecast")
        if name in SPREADS and dist[name].chunks is None and bool((dist[name] < 0).any()):
            raise InputError(
                f"the {name} of the forecast is negative in {int((dist[name] < 0).sum())} of "
                f"{dist[name].size} values"
            )
    if form == "members" and dist.sizes["number"] == 0:
        raise InputError("the forecast has no member")
    if form == "quantiles":
        if "quantile" not in dist.coords:
            raise InputError("the quantiles of the forecast have no levels (coordinate 'quantile')")
        levels = np.asarray(dist["quantile"].values, np.float64)
        whole = levels.size and np.all((levels > 0) & (levels < 1)) and np.all(np.diff(levels) > 0)
        if not whole:
            shown = ", ".join(f"{level:g}" for level in levels[:4]) or "none"
            raise InputError(
                f"the levels of the forecast's quantiles must ascend between 0 and 1, not {shown}"
            )
    return form


def aligned(dist: xr.Dataset, truth: xr.DataArray) -> tuple[str, xr.DataArray]:
    """Form of the distribution, and the truth in its order of dimensions.

    Raises
    ------
    InputError
        The two, or the variables of the distribution, are not aligned; values that are no
        numbers; different units; a faulty distribution, see :func:`check_form`.
    """
    form = check_form(dist)
    field, names = distribution.pattern(dist), distribution.FORMS[form]
    for name in names[1:]:
        check_aligned(dist[names[0]], dist[name], (f"the {names[0]}", f"the {name}"))
    check_numbers(truth, "the truth")
    check_aligned(field, truth, ("the forecast", "the truth"))
    units = field.attrs.get("units")
    units = dist.attrs.get("units", units) if form in FAMILIES else units
    check_units(units, truth.attrs.get("units"), ("the forecast", "the truth"))
    return form, truth.transpose(*field.dims)


def members_of(dist: xr.Dataset, what: str) -> xr.DataArray:
    """The members of a distribution given by members.

    Raises
    ------
    InputError
        It has another form; ``what`` names the score that needs members.
    """
    form = check_form(dist)
    if form != "members":
        raise InputError(
            f"{what} needs members, not a distribution of the form '{form}'; take members from "
            "it (products.members in a recipe)"
        )
    return dist["value"]
