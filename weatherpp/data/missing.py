"""How many values of a variable are missing, told from all of its fields or a few of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from weatherpp.data import grib
from weatherpp.data.checks import ABSURD, where_it_exists
from weatherpp.data.grib_scan import Message
from weatherpp.errors import InputError

MOST_VALUES = 4_000_000
"""Variables of up to so many values are looked at as a whole (16 MB), of others ``FEW`` fields."""
FEW = 8


class Missing(NamedTuple):
    """Missing values among those looked at.

    ``looked`` and ``fields`` count the fields looked at and all there are.
    """

    values: int
    of: int
    looked: int
    fields: int

    def __str__(self) -> str:
        """Share of the values, and how many fields it is known from if not from all."""
        percent = 100 * self.values / self.of
        share = f"{percent:.1f} %"
        if percent < 0.1 or 99.9 < percent < 100:
            share = "less than 0.1 %" if percent < 1 else "more than 99.9 %"
        where = f" in {self.looked} of {self.fields} fields looked at" if self.sampled else ""
        return f"{share} of the values are missing{where}"

    @property
    def sampled(self) -> bool:
        """Whether there are fields that were not looked at."""
        return self.looked < self.fields


def missing_values(da: xr.DataArray) -> Missing:
    """Missing values of a variable: NaN, infinite, or a fill value that is not declared.

    Parameters
    ----------
    da
        Fields along the last two dimensions (the last one of stations); levels and lead times
        that its attributes say it does not exist on are left out. May be lazy; one field is read
        at a time if there are many.

    Raises
    ------
    InputError
        Values cannot be read.
    """
    da = where_it_exists(da)
    heads = da.dims[:-1] if "station" in da.dims else da.dims[:-2]
    shape = tuple(da.sizes[dim] for dim in heads)
    fields = int(np.prod(shape))
    if da.size <= MOST_VALUES:
        return Missing(_count(da), da.size, fields, fields)
    places = [np.unravel_index(at, shape) for at in _spread(fields)]
    parts = [da.isel(dict(zip(heads, map(int, place), strict=True))) for place in places]
    return Missing(sum(map(_count, parts)), sum(part.size for part in parts), len(parts), fields)


def missing_points(path: Path, messages: Sequence[Message]) -> Missing:
    """Missing points of the fields of a variable in a GRIB file, from their bitmaps alone.

    Raises
    ------
    InputError
        A message cannot be read.
    """
    whole = sum(message.points for message in messages) <= MOST_VALUES
    looked = list(messages) if whole else [messages[at] for at in _spread(len(messages))]
    values = sum(grib.missing_points(path, message) for message in looked)
    return Missing(values, sum(m.points for m in looked), len(looked), len(messages))


def described(found: Iterable[tuple[str, Missing]]) -> list[str]:
    """A line for each variable with missing values, and one where a few fields are all that is
    known."""
    counts = list(found)
    lines = [f"{name}: {missing}" for name, missing in counts if missing.values]
    clean = [name for name, missing in counts if missing.sampled and not missing.values]
    if clean:
        lines.append(f"no missing values in the {FEW} fields looked at of {', '.join(clean)}")
    return lines


def _spread(count: int) -> list[int]:
    """A few indices, evenly spread, the first and the last among them."""
    return sorted({int(at) for at in np.linspace(0, count - 1, min(FEW, count)).round()})


def _count(da: xr.DataArray) -> int:
    try:
        values = da.values
    except (OSError, RuntimeError, ValueError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"values of {da.name} cannot be read ({text})") from None
    return int((~(np.abs(values) < ABSURD)).sum())
