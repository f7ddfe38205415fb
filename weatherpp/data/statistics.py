"""Means and standard deviations of an archive's fields over its training dates.

One pass: every chunk is read once, its count, mean and sum of squared deviations are found in
float64 while it is in memory, and merged into the total (Chan, Golub and LeVeque 1983,
doi:10.1080/00031305.1983.10483115). Threads read ahead; one merges, in the order of the dates, so
that the result does not depend on their number.

Local area-wise statistics are after Groenquist et al. 2020 (arXiv:2005.08748): mean and standard
deviation over all training dates and a small box of grid points, both smoothed, so that
neighbouring points share their scale while tropics and storm tracks keep their own.

Deviations from the published code, on purpose: the standard deviation is the pooled one of all
training dates (the code averages yearly standard deviations); longitude is periodic in the box
as well where the grid is; only training dates are used; the smoothing is given in grid points of
the published half-degree grid and scaled to the grid at hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import ndimage

from weatherpp.conventions import grid_dims
from weatherpp.data import netcdf
from weatherpp.data.archive import Archive
from weatherpp.data.chunks import Fields, Piece, Stored, ahead, blocks_of, choose_fields, positions
from weatherpp.errors import ConfigError, InputError

Array = NDArray[np.float64]
Modes = Sequence[Literal["nearest", "wrap"]]
Mode = Literal["local", "point", "level", "global"]
REFERENCE_ROWS = 361
REFERENCE_SMOOTHING = 10.0
# a standard deviation below this share of the mean is rounding noise of float32
CONSTANT = 1e-6
# a point varies at least by this share of what the points of its field do, root mean square
LEAST_SHARE = 1e-2
READ_AHEAD = 4  # pieces of a few chunks


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of finite values; float64 of any one shape.

    Where there was no value all three are 0.
    """

    count: Array
    mean: Array
    m2: Array

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Self:
        """Of no values."""
        return cls(*(np.zeros(shape) for _ in range(3)))

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self:
        """Over the first dimension of real values; NaN and infinite ones do not count."""
        from weatherpp.data import loops

        shape = values.shape
        slab = np.ascontiguousarray(values).reshape(shape[0], 1, 1, 1, -1)
        out = cls.empty((slab.shape[-1],))
        dates, member = np.arange(shape[0]), np.arange(1)
        loops.accumulate(slab, dates, 0, member, 0, out.count, out.mean, out.m2)
        return cls(*(part.reshape(shape[1:]) for part in (out.count, out.mean, out.m2)))

    def add(self, other: Moments) -> None:
        """Take in the moments of further values, in place."""
        from weatherpp.data import loops

        parts = (self.count, self.mean, self.m2, other.count, other.mean, other.m2)
        loops.merge(*(part.reshape(-1) for part in parts))

    def pooled(self) -> Moments:
        """Those of all points together, shape ()."""
        count = self.count.sum()
        mean = (self.count * self.mean).sum() / max(count, 1.0)
        between = self.count * (self.mean - mean) ** 2
        return Moments(*map(np.asarray, (count, mean, (self.m2 + between).sum())))

    @property
    def variance(self) -> Array:
        """Mean squared deviation (ddof = 0); 0 where there is no value."""
        out: Array = self.m2 / np.maximum(self.count, 1.0)
        return out


def default_smoothing(rows: int) -> float:
    """Standard deviation of the smoothing in grid points: 10 at 361 rows, in proportion."""
    return REFERENCE_SMOOTHING * rows / REFERENCE_ROWS


def _smooth(field: Array, weight: Array, smoothing: float, modes: Modes) -> Array:
    """Gaussian smoothing in which points of weight 0 do not count; 0 where nothing counts."""
    if smoothing <= 0:
        return field
    total = ndimage.gaussian_filter(field * weight, smoothing, mode=modes)
    norm = ndimage.gaussian_filter(weight, smoothing, mode=modes)
    return np.divide(total, norm, out=np.zeros_like(total), where=norm > 0)


def local_area(
    moments: Moments, *, periodic: bool, box: int = 7, smoothing: float | None = None
) -> tuple[Array, Array]:
    """Mean and standard deviation over a box of grid points, smoothed.

    Parameters
    ----------
    moments
        Of one field, shape (rows, columns).
    periodic
        Columns close on themselves.
    box
        Side of the box, grid points.
    smoothing
        Standard deviation of the Gaussian smoothing, grid points; None scales the published one.

    Returns
    -------
    Both (rows, columns). A field that is constant, or has no value at all, gets the standard
    deviation 1.
    """
    count, mean = moments.count, moments.mean
    modes: Modes = ("nearest", "wrap" if periodic else "nearest")
    if smoothing is None:
        smoothing = default_smoothing(count.shape[0])

    def boxed(values: Array) -> Array:
        out: Array = ndimage.uniform_filter(values, box, mode=modes)
        return out

    if not count.any():
        return np.zeros_like(mean), np.ones_like(mean)
    # centred first: squares of a geopotential would cost half of the digits
    centre = float(moments.pooled().mean)
    anomaly = mean - centre
    number = boxed(count)
    there = number > 1e-9 * number.max()
    share = np.where(there, number, 1.0)
    first = boxed(count * anomaly) / share
    second = boxed(count * (moments.variance + anomaly**2)) / share
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    weight = there.astype(np.float64)
    local_mean = centre + _smooth(first, weight, smoothing, modes)
    local_std = _smooth(spread, weight, smoothing, modes)
    return local_mean, _not_constant(local_mean, local_std)


def _not_constant(mean: Array, std: Array) -> Array:
    """``std``, or 1 where it is nothing but rounding."""
    constant = std <= CONSTANT * np.maximum(np.abs(mean), np.finfo(float).tiny)
    return np.where(constant, 1.0, std)


def _points(moments: Moments) -> tuple[Array, Array]:
    """Mean and standard deviation of each point of a field, bounded below; see `statistics`."""
    whole = moments.pooled()
    inside = float(moments.m2.sum() / max(float(whole.count), 1.0)) ** 0.5
    typical = _not_constant(whole.mean, np.asarray(inside))
    there = moments.count > 0
    mean = np.where(there, moments.mean, whole.mean)
    std = np.where(there, np.sqrt(moments.variance), np.sqrt(whole.variance))
    return mean, np.maximum(std, LEAST_SHARE * typical)


def _accumulate(
    sources: Sequence[Stored], dates: NDArray[np.int64], pooled: bool, threads: int
) -> dict[str, Moments]:
    """Moments of each field by its name, of each point or ``pooled`` over all; one pass."""
    from weatherpp.data import loops

    Job = tuple[Stored, Piece, NDArray[np.int64]]

    def read(job: Job) -> tuple[Job, NDArray[Any]]:
        stored, piece, block = job
        return job, stored.read(slice(int(block[0]), int(block[-1]) + 1), piece)

    jobs = (
        (stored, piece, block)
        for stored in sources
        for block in blocks_of(dates, stored.dates)
        for piece in stored.pieces
    )
    totals: dict[str, Moments] = {}
    for (stored, piece, block), slab in ahead(read, jobs, threads, READ_AHEAD):
        shape = () if pooled else slab.shape[4:]
        flat = slab.reshape(*slab.shape[:4], -1)
        for field, step, level in piece.fields:
            name = stored.names[field]
            if name not in totals:
                totals[name] = Moments.empty(shape)
            total = totals[name]
            parts = (each.reshape(-1) for each in (total.count, total.mean, total.m2))
            loops.accumulate(flat, block - block[0], step, stored.members, level, *parts)
    return totals


def statistics(
    archive: Archive,
    times: pd.DatetimeIndex,
    mode: Mode,
    *,
    variables: Sequence[str] = (),
    levels: Sequence[int] = (),
    lead_hours: Sequence[float] = (),
    members: Sequence[int] = (),
    periodic: bool = False,
    box: int = 7,
    smoothing: float | None = None,
    threads: int = 2,
    keep: Path | None = None,
) -> xr.Dataset:
    """Mean and standard deviation of fields, over initial times and members.

    Parameters
    ----------
    archive
        Its forecasts are read.
    times
        Initial times; the training dates only.
    mode
        ``point``: of each field (variable, level, lead time) at each grid point; ``local``:
        these over a box of points, see :func:`local_area`; ``level``: one for each variable and
        level; ``global``: one for each variable.
    variables, levels, lead_hours, members
        What to take; empty means all. Lead times in hours.
    periodic, box, smoothing
        For ``local``.
    threads
        That read; they do not change the result. Memory: the moments, and a few chunks.
    keep
        Folder for the result, a netCDF file named by archive, dates and settings; what is
        there already is read back. It is not in the archive, whose identity is the hash of all
        its files.

    Returns
    -------
    Dataset ``mean``, ``std`` and ``count`` (of finite values), float64, units of the fields; dim
    ``channel`` with names such as ``z500@48h``, in the order of
    :func:`~weatherpp.data.chunks.choose_fields`, and the grid's for ``point`` and ``local``.
    Every mean is finite and every standard deviation positive: constant fields get 1; a point
    varies at least by a hundredth of what the points of its field do on average, and one that
    never has a value gets mean and standard deviation of its field.

    Raises
    ------
    InputError
        A field has no value at any of the dates, there is no such field, or a chunk is damaged.
    ConfigError
        No such mode.
    """
    if mode not in get_args(Mode):
        raise ConfigError(f"statistics '{mode}'; known: {', '.join(get_args(Mode))}")
    fields = choose_fields(archive.forecast, variables, levels, lead_hours)
    dates = np.unique(positions(archive, times))
    sources = [Stored(archive, each, members) for each in fields]
    settings = [mode, fields, sorted(set(members)), dates.tolist(), periodic, box, smoothing]
    file = None if keep is None else keep / f"statistics-{_key(archive, settings)}.nc"
    if file is not None and file.is_file():
        return xr.load_dataset(file, engine="netcdf4")
    shared = mode in ("level", "global")
    totals = _accumulate(sources, dates, shared, threads)
    _refuse_empty(archive, totals)
    if mode == "local":
        parts = {
            name: (*local_area(each, periodic=periodic, box=box, smoothing=smoothing), each.count)
            for name, each in totals.items()
        }
    elif mode == "point":
        parts = {name: (*_points(each), each.count) for name, each in totals.items()}
    else:
        parts = _shared(fields, totals, mode)
    out = _as_dataset(fields, parts, () if shared else grid_dims(archive.forecast))
    out.attrs = {"mode": mode, "dates": len(dates)}
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        netcdf.write(out, file)
    return out


def _as_dataset(
    fields: Sequence[Fields], parts: Mapping[str, tuple[Array, Array, Array]], dims: tuple[str, ...]
) -> xr.Dataset:
    names = [name for each in fields for name in each.names]
    variables = {
        what: (("channel", *dims), np.stack([parts[name][at] for name in names]))
        for at, what in enumerate(("mean", "std", "count"))
    }
    return xr.Dataset(variables, {"channel": names})


def _key(archive: Archive, settings: Sequence[Any]) -> str:
    text = json.dumps([archive.identity(), *settings])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _refuse_empty(archive: Archive, totals: dict[str, Moments]) -> None:
    empty = [name for name, each in totals.items() if not each.count.any()]
    if empty:
        raise InputError(
            f"{archive.path}: {', '.join(empty)} has no value at any training date; leave it out"
        )


def _shared(
    fields: Sequence[Fields], totals: dict[str, Moments], mode: Mode
) -> dict[str, tuple[Array, Array, Array]]:
    """Statistics that the lead times of a level, or all fields of a variable, share."""
    out = {}
    for each in fields:
        groups = [each.names]
        if mode == "level":
            count = max(1, len(each.levels))
            groups = [each.names[place::count] for place in range(count)]
        for group in groups:
            total = Moments.empty(())
            for name in group:
                total.add(totals[name])
            std = _not_constant(total.mean, np.sqrt(total.variance))
            out.update(dict.fromkeys(group, (total.mean, std, total.count)))
    return out
