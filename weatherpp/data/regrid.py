"""Fields brought to another grid while they are ingested: cropped, coarsened or regridded.

What stands in a catalog entry as ``grid`` is done to canonical pieces, each of which stays lazy:
one chunk of a source is read, checked and brought to the new grid at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import dask.array
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from weatherpp.boxes import Box
from weatherpp.conventions import ACCUMULATED, grid_dims
from weatherpp.data.axes import Grid, Method, Weights, between, blocks
from weatherpp.data.checks import check_values
from weatherpp.errors import InputError
from weatherpp.strict import Strict

LIKE: Literal["like-forecast"] = "like-forecast"
CONSERVED = (*ACCUMULATED, "tcc", "lsm")  # amounts and fractions of an area
WINDS = ("u", "v", "u10", "v10")
TOLERANCE = 1e-3
"""Degrees that a place may lie beyond the cells of a grid; files round their places."""
ROWS_AND_COLUMNS = ("latitude", "longitude")


class Regular(Strict):
    """The grid of all multiples of ``resolution`` (degrees) in latitude and longitude."""

    resolution: float = Field(ge=0.01, le=30)

    @field_validator("resolution")
    @classmethod
    def _divides(cls, value: float) -> float:
        parts = 180 / value
        if abs(parts - round(parts)) > 1e-6:
            raise ValueError(f"{value:g} does not divide 180 degrees; take for example 0.5 or 1.5")
        return 180 / round(parts)


def _kind(data: Any) -> str:
    return "Like" if isinstance(data, str) else "Regular"


class GridSettings(Strict):
    """What to do to the grids of a source.

    Parameters
    ----------
    crop
        Take what lies in a box only.
    coarsen
        Means by area over blocks of so many rows and columns, from the north-west on. Blocks must
        come out even.
    regrid
        To a regular grid, or ``like-forecast``: analyses and static fields to the grid of the
        forecasts, which stay on theirs. Fields of a region are taken to those points of a
        regular grid whose cells it covers.
    method
        ``conservative`` (means by area) or ``bilinear``. By default amounts and fractions are
        conserved and all else is interpolated.
    """

    crop: Box | None = None
    coarsen: int | None = Field(default=None, ge=2)
    regrid: (
        Annotated[
            Annotated[Literal["like-forecast"], Tag("Like")] | Annotated[Regular, Tag("Regular")],
            Discriminator(_kind),
        ]
        | None
    ) = None
    method: Literal["conservative", "bilinear"] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> GridSettings:
        if self.coarsen is not None and isinstance(self.regrid, Regular):
            raise ValueError("coarsen and regrid.resolution both set the grid; drop one")
        if self.method is not None and self.regrid is None:
            raise ValueError("method goes with regrid, and only with it")
        if not self.model_fields_set:
            raise ValueError("says nothing; give crop, coarsen or regrid")
        return self

    def method_for(self, name: str) -> Method:
        """How a variable is regridded."""
        if (self.method or ("conservative" if name in CONSERVED else "")) == "conservative":
            return "conservative"
        return "bilinear-winds" if name in WINDS else "bilinear"


def to_grid(
    pieces: Sequence[xr.Dataset],
    settings: GridSettings | None,
    where: str,
    sparse: bool = False,
    like: xr.Dataset | None = None,
) -> list[xr.Dataset]:
    """Canonical pieces on the grid that a catalog entry asks for; lazy.

    Parameters
    ----------
    pieces
        Canonical Datasets, dims (..., latitude, longitude).
    settings
        None leaves them as they are.
    where
        Names the file in error messages.
    sparse
        Missing values are expected. A new value is missing where less than half of its weight is
        on known ones.
    like
        The forecast (on its own new grid) that analyses and static fields are for; without it,
        ``like-forecast`` leaves them on their grid.

    Raises
    ------
    InputError
        The grid has no rows and columns of latitude and longitude, nothing lies in the box,
        blocks do not come out even, or the source does not cover the new grid. When values are
        read: they cannot be.
    """
    if settings is None:
        return list(pieces)
    return [_changed(piece, settings, where, sparse, like) for piece in pieces]


def _changed(
    ds: xr.Dataset, settings: GridSettings, where: str, sparse: bool, like: xr.Dataset | None
) -> xr.Dataset:
    for one, whose in ((ds, "the data"), (like, "the forecasts")):
        if one is not None and grid_dims(one) != ROWS_AND_COLUMNS:
            raise InputError(
                f"{where}: the block grid of a catalog entry is for rows and columns of latitude "
                f"and longitude; {whose} have the grid ({', '.join(grid_dims(one))})"
            )
    source = _grid_of(ds)
    if settings.regrid is not None:
        _check_several(source, where)
    target: Grid | None = None
    if settings.regrid is not None and like is not None:
        target = _grid_of(like)
    elif isinstance(settings.regrid, Regular):
        target = _regular(source, settings.regrid.resolution, settings.crop, where)
    if target is not None:
        return _regridded(ds, source, target, settings, where, sparse)
    if settings.crop is not None:
        ds = _cropped(ds, source, settings.crop, where)
    if settings.coarsen is not None:
        ds = _coarsened(ds, settings.coarsen, where, sparse)
    return ds


def _grid_of(ds: xr.Dataset) -> Grid:
    return Grid.of(ds["latitude"].values, ds["longitude"].values)


def _cropped(ds: xr.Dataset, source: Grid, crop: Box, where: str) -> xr.Dataset:
    rows, columns, longitude = _inside(source, crop, where)
    inside = ds.isel(latitude=slice(rows[0], rows[-1] + 1), longitude=columns)
    return inside.assign_coords(longitude=inside["longitude"].copy(data=longitude))


def _inside(
    source: Grid, crop: Box, where: str
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Rows and columns in a box, from west to east, and their canonical longitudes."""
    slack = 1e-6
    latitude, longitude = source.rows, source.columns
    rows = np.flatnonzero((latitude <= crop.north + slack) & (latitude >= crop.south - slack))
    offset = (longitude - crop.west + slack) % 360 - slack
    columns = np.flatnonzero(offset <= crop.width + slack)
    if not rows.size or not columns.size:
        raise InputError(
            f"{where}: no point lies in grid.crop, {crop}; there are "
            f"{latitude[-1]:g} to {latitude[0]:g} N, {longitude[0]:g} to {longitude[-1]:g} E"
        )
    if columns.size == longitude.size:
        return rows, columns, longitude
    if source.ring:
        columns = columns[np.argsort(offset[columns])]
    elif (np.diff(columns) > 1).any():
        raise InputError(
            f"{where}: grid.crop, {crop} takes the two ends of the region without its middle"
        )
    kept = longitude[columns]
    fall = np.flatnonzero(np.diff(kept) < 0)
    if fall.size:  # across Greenwich
        kept[: fall[0] + 1] -= 360
    elif kept[-1] < 0:  # no longer across
        kept += 360
    return rows, columns, kept


def _coarsened(ds: xr.Dataset, size: int, where: str, sparse: bool) -> xr.Dataset:
    source = _grid_of(ds)
    for dim, count in (("latitude", len(source.rows)), ("longitude", len(source.columns))):
        if count % size:
            raise InputError(
                f"{where}: grid.coarsen: {count} points of {dim} make no whole blocks of {size}; "
                f"leave {count % size} out with grid.crop"
            )
    target, weights = blocks(source, size)
    return _resampled(ds, target, lambda name: weights, where, sparse)


def _regular(source: Grid, resolution: float, crop: Box | None, where: str) -> Grid:
    """Points of a regular grid whose cells the source covers, and which lie among its points."""
    half, slack = resolution / 2, 1e-6
    count = int(90 / resolution + slack)
    rows = np.round(np.arange(count, -count - 1, -1) * resolution, 10)
    columns = np.round(np.arange(round(360 / resolution)) * resolution, 10)
    top, bottom = np.minimum(rows + half, 90.0), np.maximum(rows - half, -90.0)
    edges, points = source.row_edges, source.rows
    north = points[0] if edges[0] < 90 else 90.0
    south = points[-1] if edges[-1] > -90 else -90.0
    covered = (top <= edges[0] + slack) & (bottom >= edges[-1] - slack)
    rows = rows[covered & (rows <= north + slack) & (rows >= south - slack)]
    if not source.ring:
        edges, points = source.column_edges, source.columns
        offset = (columns - points[0] + slack) % 360 - slack
        columns = columns + (points[0] + offset - columns).round(10)
        inside = (columns - half >= edges[0] - slack) & (columns + half <= edges[-1] + slack)
        columns = columns[inside & (columns <= points[-1] + slack)]
        columns = np.sort(columns)
        columns = columns + 360 * (columns[-1:] < 0)
    if not rows.size or not columns.size:
        raise InputError(
            f"{where}: no cell of {resolution:g} degrees (grid.regrid.resolution) is covered"
        )
    grid = Grid.of(rows, columns)
    if crop is not None:
        rows_in, _, longitude = _inside(grid, crop, where)
        grid = Grid.of(grid.rows[rows_in], longitude)
    return grid


def _regridded(
    ds: xr.Dataset,
    source: Grid,
    target: Grid,
    settings: GridSettings,
    where: str,
    sparse: bool,
) -> xr.Dataset:
    _check_several(target, where)
    _check_covered(source, target, where)
    return _resampled(
        ds, target, lambda name: between(source, target, settings.method_for(name)), where, sparse
    )


def _check_several(grid: Grid, where: str) -> None:
    for dim, points in (("latitude", grid.rows), ("longitude", grid.columns)):
        if points.size < 2:
            raise InputError(f"{where}: a single point of {dim} has no neighbours to regrid with")


def _check_covered(source: Grid, target: Grid, where: str) -> None:
    rows, columns = source.row_edges, source.column_edges
    beyond = [r for r in target.rows if not rows[-1] - TOLERANCE <= r <= rows[0] + TOLERANCE]
    if beyond:
        raise InputError(
            f"{where}: reaches from {rows[-1]:g} to {rows[0]:g} N and does not cover latitude "
            f"{beyond[0]:g} of the new grid; crop that (grid.crop)"
        )
    offset = (target.columns - columns[0] + TOLERANCE) % 360 - TOLERANCE
    outside = target.columns[offset > columns[-1] - columns[0] + TOLERANCE]
    if outside.size and not source.ring:
        raise InputError(
            f"{where}: reaches from {columns[0]:g} to {columns[-1]:g} E and does not cover "
            f"longitude {outside[0]:g} of the new grid; crop that (grid.crop)"
        )


def _resampled(
    ds: xr.Dataset,
    target: Grid,
    weights_of: Callable[[str], Weights],
    where: str,
    sparse: bool,
) -> xr.Dataset:
    """All variables on a new grid, chunk by chunk of the source."""
    out: dict[Hashable, xr.DataArray] = {}
    for name, da in ds.data_vars.items():
        rows, columns, weights = weights_of(str(name)).needed()
        part = da.transpose(..., *ROWS_AND_COLUMNS).isel(latitude=rows, longitude=columns)
        data: Any = part.chunk(dict.fromkeys(ROWS_AND_COLUMNS, -1)).data
        dims = tuple(map(str, part.dims))
        labels = {dim: part[dim].values for dim in dims[:-2] if dim in part.coords}
        new = dask.array.map_blocks(  # type: ignore[no-untyped-call]
            _block,
            data,
            weights=weights,
            source=_Source(str(name), dims, labels, da.attrs, where, sparse),
            dtype=np.float32,
            chunks=(*data.chunks[:-2], *((size,) for size in weights.shape)),
            meta=np.empty((0,) * data.ndim, np.float32),
        )
        out[name] = xr.DataArray(new, dims=part.dims, attrs=da.attrs)
    kept = {
        name: coord.variable
        for name, coord in ds.coords.items()
        if not set(coord.dims) & set(ROWS_AND_COLUMNS)
    }
    places = {
        "latitude": ("latitude", target.rows, ds["latitude"].attrs),
        "longitude": ("longitude", target.columns, ds["longitude"].attrs),
    }
    return xr.Dataset(out, {**kept, **places}, ds.attrs)


@dataclass(frozen=True)
class _Source:
    """What the values of a variable are, without the values."""

    name: str
    dims: tuple[str, ...]
    labels: Mapping[str, NDArray[Any]]
    attrs: Mapping[str, Any]
    where: str
    sparse: bool

    def check(self, values: NDArray[Any], place: Sequence[tuple[int, int]]) -> None:
        """Refuse values of a chunk that cannot be, as means would hide them."""
        parts = {dim: slice(*ends) for dim, ends in zip(self.dims, place, strict=True)}
        coords = {dim: labels[parts[dim]] for dim, labels in self.labels.items()}
        da = xr.DataArray(values, coords, self.dims, self.name, self.attrs)
        check_values(da, self.where, self.sparse)


def _block(
    values: NDArray[Any], weights: Weights, source: _Source, block_info: Mapping[int, Any]
) -> NDArray[np.float32]:
    """One chunk on the new grid."""
    source.check(values, block_info[0]["array-location"])
    fields = values.reshape(-1, *values.shape[-2:])
    out = np.empty((len(fields), *weights.shape), np.float32)
    for number, field in enumerate(fields):
        out[number] = weights.apply(field)
    return out.reshape(*values.shape[:-2], *weights.shape)
