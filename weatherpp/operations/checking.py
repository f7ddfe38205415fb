"""Whether the files of a cycle hold the forecast they should; the first fault is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from dask.array.core import slices_from_chunks

from weatherpp.conventions import ACCUMULATED, VARIABLES, grid_dims, label_text
from weatherpp.data.checks import check_values, where_it_exists
from weatherpp.data.fields import select
from weatherpp.data.join import Layout, Whole
from weatherpp.errors import InputError
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.settings import DropSource, Nightly
from weatherpp.operations.source import Arrival, lay_out_forecast
from weatherpp.strict import Strict

# fields of these are the same everywhere on many a day
MAY_BE_CONSTANT = (*ACCUMULATED, "cape", "tcc", "lsm")


class Found(Strict):
    """What a cycle's files hold: member numbers, and those of the expected that are missing."""

    members: tuple[int, ...]
    missing: tuple[int, ...]

    def lacking(self) -> str:
        """In words; empty if no member is missing."""
        if not self.missing:
            return ""
        total = len(self.members) + len(self.missing)
        numbers = ", ".join(map(str, self.missing))
        return f"{len(self.missing)} of {total} members missing ({numbers})"


def check_cycle(
    layout: Layout, cycle: pd.Timestamp, settings: Nightly, files: Sequence[Path]
) -> Found:
    """Look at all coordinates, then at all values, chunk by chunk.

    Raises
    ------
    InputError
        Another date, a variable, level or lead time missing, fewer members than the minimum,
        values that are missing, impossible or all the same, or a file that cannot be read to its
        end.
    """
    where = str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} files)"
    ds = layout.ds
    _check_date(ds, cycle, where)
    for target in settings.targets:
        try:
            select(ds, target.variable, target.level, target.lead)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    there = {int(number) for number in ds["number"].values}
    members = tuple(number for number in settings.members.numbers if number in there)
    missing = tuple(number for number in settings.members.numbers if number not in there)
    found = Found(members=members, missing=missing)
    if len(members) < settings.members.minimum:
        raise InputError(
            f"{where}: {found.lacking()}, and members.minimum is {settings.members.minimum}; run "
            "again when more have come"
        )
    for name in known(ds):
        _check_variable(ds[name], layout.wholes[name])
    return found


def refuse_other_dates(settings: DropSource, arrival: Arrival, cycle: pd.Timestamp) -> None:
    """Where files do not go together, name the one that is of another date.

    Raises
    ------
    InputError
        There is one.
    """
    for path in arrival.files:
        alone = lay_out_forecast(settings, Arrival(arrival.root, (path,)))
        _check_date(alone.ds, cycle, str(path))


def _check_date(ds: xr.Dataset, cycle: pd.Timestamp, where: str) -> None:
    dates = [cycle_name(pd.Timestamp(time)) for time in ds["time"].values]
    if dates != [cycle_name(cycle)]:
        raise InputError(f"{where}: holds {', '.join(dates)}, not {cycle_name(cycle)}")


def known(ds: xr.Dataset) -> list[str]:
    """Names of the variables that a method may look at."""
    return [str(name) for name in ds.data_vars if name in VARIABLES]


def _check_variable(da: xr.DataArray, whole: Whole) -> None:
    blocks: list[tuple[slice, ...]] = slices_from_chunks(da.data.chunks)  # type: ignore[no-untyped-call]
    for block in blocks:
        where = ", ".join(whole.sources(block))
        try:
            part = da[block].compute()
        except (OSError, RuntimeError, ValueError) as error:
            text = " ".join(str(error).split())
            raise InputError(
                f"{where}: {da.name} cannot be read ({text}); is the file cut off? fetch it again"
            ) from None
        heads = part.shape[: part.ndim - len(grid_dims(part))]
        try:
            _check_block(part, where)
        except InputError:
            # field by field, to name the one file that is at fault
            for place in np.ndindex(heads):
                at = tuple(slice(i, i + 1) for i in place)
                of = tuple(
                    slice(b.start + i, b.start + i + 1)
                    for b, i in zip(block[: len(heads)], place, strict=True)
                )
                _check_block(part[at], ", ".join(whole.sources(of)))
            raise


def _check_block(part: xr.DataArray, where: str) -> None:
    part = where_it_exists(part)
    if not part.size:
        return
    check_values(part, where)
    refuse_constant(part, where)


def refuse_constant(part: xr.DataArray, where: str) -> None:
    """Refuse fields that are the same at all points, as no weather is.

    Raises
    ------
    InputError
        One is.
    """
    points = grid_dims(part)
    if part.name in MAY_BE_CONSTANT or np.prod([part.sizes[dim] for dim in points]) < 2:
        return
    low, high = part.min(points), part.max(points)
    same = (low == high).values
    if same.any():
        at = low[tuple(slice(i, i + 1) for i in np.argwhere(same)[0])]
        labels = ", ".join(
            f"{dim} {label_text(at[dim].values[0])}" for dim in at.dims if dim != "time"
        )
        raise InputError(
            f"{where}: {part.name} is the same at all points ({float(at.squeeze()):g}; {labels}); "
            "a damaged field?"
        )
