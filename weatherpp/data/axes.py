"""Weights between grids of rows and columns: a sum across the rows, then one along each row.

Grids of latitude and longitude factor, so that the weights are two small sparse matrices; see the
note of S. Hoyer that xarray-regrid goes by, https://discourse.pangeo.io/t/2715/3. Here areas are
exact: a cell between two latitudes has the area of the difference of their sines, also at a pole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Method = Literal["conservative", "bilinear", "bilinear-winds"]
KNOWN = 0.5
"""Part of the weight that known values must carry, lest a value be missing."""


def mean_of_known(weigh: Callable[[Array], Array], values: Array) -> Array:
    """``weigh(values)``, with weights that add up to one, of the known values alone.

    A result is missing (NaN) where they carry less than half of the weight.
    """
    known = np.isfinite(values)
    if known.all():
        return weigh(values)
    weight, total = weigh(known.astype(np.float64)), weigh(np.where(known, values, 0.0))
    enough = weight >= KNOWN - 1e-9
    return np.where(enough, total / np.where(enough, weight, 1.0), np.nan)


@dataclass(frozen=True)
class Grid:
    """A canonical grid: latitudes north to south, longitudes west to east, in degrees."""

    latitude: tuple[float, ...]
    longitude: tuple[float, ...]

    @classmethod
    def of(cls, latitude: Any, longitude: Any) -> Grid:
        """From arrays of one dimension."""
        return cls(
            tuple(np.asarray(latitude, dtype=float).tolist()),
            tuple(np.asarray(longitude, dtype=float).tolist()),
        )

    @property
    def rows(self) -> Array:
        """Latitudes."""
        return np.array(self.latitude)

    @property
    def columns(self) -> Array:
        """Longitudes."""
        return np.array(self.longitude)

    @property
    def ring(self) -> bool:
        """Whether the columns go all round."""
        steps = np.diff(self.columns)
        return bool(360 - (self.columns[-1] - self.columns[0]) <= 1.01 * steps.max(initial=0.0))

    @property
    def row_edges(self) -> Array:
        """Borders of the cells of the rows, north to south; the outermost end at a pole that is
        less than one spacing away."""
        edges = _edges(self.rows)
        spacing = -np.diff(self.rows)
        if 90 - self.rows[0] < 0.999 * spacing[0]:
            edges[0] = 90.0
        if self.rows[-1] + 90 < 0.999 * spacing[-1]:
            edges[-1] = -90.0
        return np.clip(edges, -90.0, 90.0)

    @property
    def column_edges(self) -> Array:
        """Borders of the cells of the columns, west to east."""
        edges = _edges(self.columns)
        if self.ring:
            edges[0] = (self.columns[0] + self.columns[-1] - 360) / 2
            edges[-1] = edges[0] + 360
        return edges


def _edges(points: Array) -> Array:
    middles = (points[1:] + points[:-1]) / 2
    return np.concatenate([2 * points[:1] - middles[:1], middles, 2 * points[-1:] - middles[-1:]])


@dataclass(frozen=True)
class Weights:
    """A linear map of fields on one grid to another.

    ``columns`` is (new longitudes, longitudes); ``rows`` is (new latitudes, latitudes + 2), where
    the first and last column stand for the mean of the first and of the last row, which is the
    value at the pole. The weights of each new value add up to one.
    """

    rows: sparse.csr_array[Any, Any]
    columns: sparse.csr_array[Any, Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the new field."""
        return int(self.rows.shape[0]), int(self.columns.shape[0])

    def apply(self, field: NDArray[Any]) -> Array:
        """The new field of one field (latitudes, longitudes); see :func:`mean_of_known`."""
        return mean_of_known(self._sum, field.astype(np.float64))

    def _sum(self, field: Array) -> Array:
        ends = [np.full((1, field.shape[1]), field[at].mean()) for at in (0, -1)]
        across = self.rows @ np.concatenate([ends[0], field, ends[1]])
        summed: Array = (self.columns @ across.T).T
        return summed

    def needed(self) -> tuple[slice, NDArray[Any], Weights]:
        """Rows and columns that have weight, and the weights of these alone."""
        used = np.unique(self.rows.indices)
        poles = bool((used == 0).any() or (used == self.rows.shape[1] - 1).any())
        last = self.rows.shape[1] - 2
        first, end = int(used[0].clip(1, last)), int(used[-1].clip(1, last))
        columns = np.unique(self.columns.indices)
        if poles:  # a mean over the whole row
            columns = np.arange(self.columns.shape[1])
        keep = np.r_[0, first : end + 1, self.rows.shape[1] - 1]
        part = Weights(self.rows[:, keep], self.columns[:, columns])
        return slice(first - 1, end), columns, part


@lru_cache(maxsize=16)
def between(source: Grid, target: Grid, method: Method) -> Weights:
    """Weights from one grid to another that it covers.

    ``conservative`` gives the mean over each new cell of the old cells in it, by area;
    ``bilinear`` goes linearly along the rows and then across them, between the outermost row and
    a pole to the mean of that row. Components of the wind have no such mean, as their directions
    turn with the meridian: ``bilinear-winds`` keeps the outermost value of the meridian. Beyond
    the outermost points of a region, within their cells, their values hold.
    """
    if method == "conservative":
        return _normalised(
            _overlap(-np.sin(np.radians(source.row_edges)), -np.sin(np.radians(target.row_edges))),
            np.sum(
                [
                    _overlap(source.column_edges + turn, target.column_edges)
                    for turn in (-360.0, 0.0, 360.0)
                ],
                axis=0,
            ),
        )
    rows, edges = source.rows, source.row_edges
    mean = method == "bilinear" and source.ring
    north = int(mean and edges[0] == 90 and rows[0] < 90 - 1e-6)
    south = int(mean and edges[-1] == -90 and rows[-1] > -90 + 1e-6)
    points = np.r_[[90.0] * north, rows, [-90.0] * south]
    size = rows.size + 2
    across = _linear(-points, -target.rows, 1 - north, size)
    columns = source.columns
    if source.ring:
        new = (target.columns - columns[0]) % 360 + columns[0]
        along = _linear(np.r_[columns, columns[0] + 360], new, 0, columns.size)
    else:
        middle = columns.mean()
        new = (target.columns - middle + 180) % 360 - 180 + middle
        along = _linear(columns, new, 0, columns.size)
    return Weights(across, along)


def blocks(source: Grid, size: int) -> tuple[Grid, Weights]:
    """Means by area over ``size`` x ``size`` cells, whose numbers must be multiples of it."""
    heights = -np.diff(np.sin(np.radians(source.row_edges)))
    widths = np.diff(source.column_edges)
    latitude, longitude = (x.reshape(-1, size).mean(1) for x in (source.rows, source.columns))
    return (
        Grid.of(latitude, longitude + 360 * (longitude[-1] < 0)),
        _normalised(_blocks(heights, size), _blocks(widths, size)),
    )


def _blocks(sizes: Array, size: int) -> Array:
    return np.kron(np.eye(sizes.size // size), np.ones((1, size))) * sizes


def _normalised(rows: Array, columns: Array) -> Weights:
    rows = np.pad(rows, ((0, 0), (1, 1)))
    return Weights(*(sparse.csr_array(w / w.sum(axis=1, keepdims=True)) for w in (rows, columns)))


def _overlap(source: Array, target: Array) -> Array:
    """Length that each new interval (rows) shares with each old one; edges ascend."""
    low = np.maximum(target[:-1, None], source[None, :-1])
    shared: Array = np.minimum(target[1:, None], source[None, 1:]) - low
    return np.maximum(shared, 0.0)


def _linear(points: Array, new: Array, offset: int, size: int) -> sparse.csr_array[Any, Any]:
    """Weights (new, size) of the two of ascending ``points`` around each new one; beyond the
    outermost its own. The first point stands at ``offset`` of ``size``, which wraps round."""
    at = np.clip(np.searchsorted(points, new, side="right") - 1, 0, points.size - 2)
    part = np.clip((new - points[at]) / (points[at + 1] - points[at]), 0.0, 1.0)
    # a rounding error off a point is on it, so that fields on their own grid do not change
    part = np.where(np.abs(part - np.rint(part)) < 1e-9, np.rint(part), part)
    place = np.arange(new.size)
    out = sparse.csr_array(
        (
            np.r_[1 - part, part],
            (np.r_[place, place], np.r_[at + offset, (at + 1 + offset) % size]),
        ),
        shape=(new.size, size),
    )
    out.eliminate_zeros()
    return out
