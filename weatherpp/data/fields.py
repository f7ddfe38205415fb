"""Fields and members out of a canonical Dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.conventions import exists_on, hours
from weatherpp.errors import InputError
from weatherpp.recipe import MemberChoice


def select(
    ds: xr.Dataset,
    variable: str,
    level: int | None = None,
    step: str | pd.Timedelta | np.timedelta64 | None = None,
) -> xr.DataArray:
    """One variable, on one level, at one lead time; lazy.

    Parameters
    ----------
    ds
        Canonical forecast, analysis or static fields.
    variable
        Short name.
    level
        Pressure (hPa); needed exactly if the variable has levels.
    step
        Lead time such as ``48h``. Without it all lead times stay, as dimension ``step``.

    Returns
    -------
    DataArray without the dimensions ``level`` and (if given) ``step``, which go to its
    attributes of the same names. ``valid_time`` stays as a coordinate. Its type is that of the
    data, unless means would lose digits in it, see :func:`real`.

    Raises
    ------
    InputError
        It is not there; the message names what is.
    """
    if variable not in ds.data_vars:
        names = ", ".join(sorted(map(str, ds.data_vars))) or "no variables"
        raise InputError(f"no variable {variable} in the data; there are {names}")
    da = ds[variable].assign_attrs()  # attributes of its own, to be changed below
    if da.dtype != real(da.dtype):
        da = da.astype(real(da.dtype))
    if "level" in da.dims:
        there = [int(value) for value in exists_on(da, "levels")]
        if level is None or level not in there or level not in da["level"].values:
            asked = (
                f"{variable} at {level} hPa is not in the data"
                if level
                else (f"{variable} needs a level")
            )
            raise InputError(f"{asked}; there are {', '.join(map(str, there))} hPa")
        da = da.sel(level=level, drop=True).assign_attrs(level=level)
    elif level is not None:
        raise InputError(f"{variable} has no levels, so level {level} cannot be chosen")
    da.attrs.pop("levels", None)
    if step is None:
        return da
    wanted = pd.Timedelta(step)
    if "step" not in da.dims:
        raise InputError(f"{variable} has no lead times, so {hours(wanted):g} h cannot be chosen")
    there_h = exists_on(da, "steps")
    at = pd.TimedeltaIndex(da["step"].values).get_indexer(pd.TimedeltaIndex([wanted]))[0]
    if at < 0 or hours(wanted) not in there_h:
        known = ", ".join(f"{h:g}" for h in there_h)
        raise InputError(
            f"{variable} at lead time {hours(wanted):g} h is not in the data; there are {known} h"
        )
    da = da.isel(step=at, drop=True).assign_attrs(step=f"{hours(wanted):g}h")
    da.attrs.pop("steps", None)
    if "time" in da.dims:
        da = da.assign_coords(valid_time=("time", da["time"].values + wanted.to_timedelta64()))
    return da


def subsample(ds: xr.Dataset, choice: MemberChoice, seed: int) -> xr.Dataset:
    """The members a recipe chooses, in ascending order of number.

    With ``choice.control`` the control (number 0), if it is there, is always among them and
    counts; without, it is a member like any other. ``first`` takes the lowest numbers,
    ``random`` draws without replacement from ``seed``.

    Raises
    ------
    InputError
        There are fewer members than asked for, or a named one is missing.
    """
    if "number" not in ds.dims:
        raise InputError("the data have no ensemble members (no dimension 'number')")
    numbers = [int(number) for number in ds["number"].values]
    return ds.sel(number=choose(numbers, choice, seed))


def choose(numbers: Sequence[int], choice: MemberChoice, seed: int) -> list[int]:
    """Numbers out of ``numbers`` that ``choice`` takes, ascending; see :func:`subsample`."""
    numbers = sorted(numbers)
    if choice.choose == "named":
        wanted = set(choice.numbers)
        if choice.control and 0 in numbers:
            wanted.add(0)
        missing = sorted(wanted - set(numbers))
        if missing:
            raise InputError(f"member {missing[0]} is not in the data; there are {_span(numbers)}")
        return sorted(wanted)
    if choice.count is None:
        return numbers
    if choice.count > len(numbers):
        raise InputError(
            f"{choice.count} members asked for, the data have {len(numbers)} ({_span(numbers)})"
        )
    if choice.choose in ("all", "first"):
        return numbers[: choice.count]
    fixed = [0] if choice.control and 0 in numbers else []
    pool = [number for number in numbers if number not in fixed]
    drawn = np.random.default_rng(seed).choice(pool, choice.count - len(fixed), replace=False)
    return sorted([*fixed, *(int(number) for number in drawn)])


def combinations(
    numbers: Sequence[int], count: int, control: bool = True
) -> Iterator[tuple[int, ...]]:
    """All subsets of ``count`` members in lexical order; with ``control``, all contain 0.

    Raises
    ------
    InputError
        There are fewer members than ``count``.
    """
    numbers = sorted(numbers)
    if count > len(numbers) or count < 1:
        raise InputError(f"no subsets of {count} members out of {len(numbers)}")
    fixed = (0,) if control and 0 in numbers else ()
    pool = [number for number in numbers if number not in fixed]
    return (fixed + rest for rest in itertools.combinations(pool, count - len(fixed)))


def real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type in which means and spreads of values of a type are kept: the same for float32 and
    float64, float32 for what fits into it, float64 else. A mean of whole numbers is none."""
    return np.promote_types(dtype, np.float32)


def ensemble_mean(da: xr.DataArray) -> xr.DataArray:
    """Mean over ``number``, summed in float64, in the type of ``da`` by :func:`real`."""
    _needs_members(da, 1)
    return da.mean("number", keep_attrs=True, dtype="float64", skipna=False).astype(real(da.dtype))


def ensemble_spread(da: xr.DataArray) -> xr.DataArray:
    """Unbiased standard deviation over ``number`` (ddof = 1); NaN where a member is missing.

    Raises
    ------
    InputError
        Fewer than two members.
    """
    _needs_members(da, 2)
    wide = da.astype("float64")
    return wide.std("number", ddof=1, keep_attrs=True, skipna=False).astype(real(da.dtype))


def _needs_members(da: xr.DataArray, least: int) -> None:
    if "number" not in da.dims:
        raise InputError("the field has no ensemble members (no dimension 'number')")
    if da.sizes["number"] < least:
        raise InputError(f"the spread needs two members at least, here is {da.sizes['number']}")


def _span(numbers: Sequence[int]) -> str:
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
