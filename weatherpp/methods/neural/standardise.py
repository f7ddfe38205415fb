"""Standardisation of predictors, whatever they were made of.

See :mod:`weatherpp.data.statistics` for how. Every predictor is scaled by its own statistics
(the published code leaves spreads as they are).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.data.chunks import Fields
from weatherpp.data.statistics import Moments, local_area
from weatherpp.methods.neural.samples import Block

DATES_AT_ONCE = 32


def _parts(x: xr.DataArray) -> Iterator[slice]:
    """Dates to read together: whole chunks, so that each is read once, of about 32 dates."""
    chunks = x.chunksizes["time"] if x.chunks is not None else (1,) * x.sizes["time"]
    start = stop = 0
    for length in chunks:
        stop += length
        if stop - start >= DATES_AT_ONCE:
            yield slice(start, stop)
            start = stop
    if stop > start:
        yield slice(start, stop)


def local_standardisation(
    predictors: xr.DataArray, *, periodic: bool, box: int = 7, smoothing: float | None = None
) -> xr.Dataset:
    """Statistics for local area-wise standardisation, in one pass over the dates.

    Parameters
    ----------
    predictors
        Dims (time, predictor, y, x) in any units, dask or numpy; the training dates only. NaN
        and infinite values do not count.
    periodic
        The last dimension closes on itself.
    box
        Side of the box, grid points.
    smoothing
        Standard deviation of the Gaussian smoothing, grid points; None scales the published one.

    Returns
    -------
    Dataset ``mean`` and ``std``, dims (predictor, y, x), float64, units of the predictors. A
    field that is constant, or has no value at all, gets the standard deviation 1.
    """
    x = predictors.transpose("time", ...)
    moments = Moments.empty(x.shape[1:])
    for part in _parts(x):
        moments.add(Moments.of(x[part].values))
    parts = zip(moments.count, moments.mean, moments.m2, strict=True)
    local = [
        local_area(Moments(*each), periodic=periodic, box=box, smoothing=smoothing)
        for each in parts
    ]
    dims = x.dims[1:]
    return xr.Dataset(
        {
            "mean": (dims, np.stack([mean for mean, _ in local])),
            "std": (dims, np.stack([std for _, std in local])),
        }
    )


def alike(inputs: xr.Dataset, blocks: Sequence[Block]) -> tuple[xr.Dataset, list[str]]:
    """Statistics that all members share, and names such as ``member:z500@48h``.

    Parameters
    ----------
    inputs
        From :func:`local_standardisation`, for each member of its own.
    blocks
        What the predictors are.

    Returns
    -------
    ``mean`` and ``std`` of the fields of one member, float32; and the names of these.
    """
    at = places_in_member(blocks)
    mean, std = (inputs[name].values for name in ("mean", "std"))
    parts = [np.flatnonzero(at == place) for place in range(at.max() + 1)]
    common = np.stack([mean[part].mean(axis=0) for part in parts])
    squares = np.stack([(std[part] ** 2 + mean[part] ** 2).mean(axis=0) for part in parts])
    dims = inputs["mean"].dims
    out = xr.Dataset({"mean": (dims, common), "std": (dims, np.sqrt(squares - common**2))})
    names = [f"member:{name}" for block in blocks for name in Fields(*block.fields).names]
    return out.astype(np.float32), names


def places_in_member(blocks: Sequence[Block]) -> NDArray[np.int64]:
    """Which of the fields of a member each predictor is."""
    places: list[int] = []
    start = 0
    for block in blocks:
        count = len(Fields(*block.fields).names)
        places += [start + number for _ in block.members for number in range(count)]
        start += count
    return np.array(places)
