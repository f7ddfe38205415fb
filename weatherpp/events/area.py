"""The part of a field that lies in a box, and places on grids."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.boxes import SLACK, Box, inside
from weatherpp.errors import InputError
from weatherpp.events.case import Point

EARTH_RADIUS = 6371.0  # km, mean


def distance(
    latitude: NDArray[np.float64] | float,
    longitude: NDArray[np.float64] | float,
    to_latitude: NDArray[np.float64] | float,
    to_longitude: NDArray[np.float64] | float,
) -> NDArray[np.float64]:
    """Great-circle distance in km of places given in degrees (haversine formula)."""
    one, two = np.deg2rad(latitude), np.deg2rad(to_latitude)
    half = np.deg2rad(np.asarray(to_longitude) - np.asarray(longitude)) / 2
    a = np.sin((two - one) / 2) ** 2 + np.cos(one) * np.cos(two) * np.sin(half) ** 2
    out: NDArray[np.float64] = 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.clip(a, 0, 1)))
    return out


def cut(field: xr.DataArray, box: Box) -> xr.DataArray:
    """The part of a field that lies in a box, on a regular grid from west to east.

    On a projected grid it is the smallest rectangle of rows and columns around the box.

    Raises
    ------
    InputError
        As :func:`weatherpp.boxes.inside`.
    """
    found = inside(field, box)
    rows = {dim: found.any([d for d in found.dims if d != dim]).values for dim in found.dims}
    if set(found.dims) == {"latitude", "longitude"}:
        picked = {dim: np.flatnonzero(keep) for dim, keep in rows.items()}
        lon = field["longitude"].values[picked["longitude"]].astype(float)
        order = np.argsort((lon - box.west + SLACK) % 360, kind="stable")
        return field.isel({**picked, "longitude": picked["longitude"][order]})
    spans = {}
    for dim, keep in rows.items():
        at = np.flatnonzero(keep)
        spans[dim] = at if len(found.dims) == 1 else np.arange(at[0], at[-1] + 1)
    return field.isel(spans)


def widened(box: Box, degrees: float) -> Box:
    """A box with a margin for maps, cut off at the poles; at most once around the globe."""
    north, south = min(90.0, box.north + degrees), max(-90.0, box.south - degrees)
    if box.width + 2 * degrees >= 360:
        return Box(north=north, south=south, west=0, east=360)
    west = (box.west - degrees) % 360
    return Box(north=north, south=south, west=west, east=(box.west + box.width + degrees) % 360)


def around(latitude: float, longitude: float, height: float) -> Box:
    """A box of about the same height and width in km around a place, ``height`` in degrees.

    Near the poles it is as wide as a third of the globe at most.
    """
    half = height / 2
    width = min(60.0, half / max(np.cos(np.deg2rad(latitude)), 1e-6))
    return Box(
        north=round(min(90.0, latitude + half), 3),
        south=round(max(-90.0, latitude - half), 3),
        west=round((longitude - width) % 360, 3) % 360,
        east=round((longitude + width) % 360, 3) % 360,
    )


def nearest(field: xr.DataArray | xr.Dataset, point: Point) -> dict[str, int]:
    """Position of the grid point nearest a place, by dimension.

    Raises
    ------
    InputError
        It is farther away than the grid's points are from each other: the grid ends elsewhere.
    """
    lat, lon = xr.broadcast(field["latitude"].astype(float), field["longitude"].astype(float))
    away = distance(lat.values, lon.values, point.latitude, point.longitude)
    at = np.unravel_index(int(np.argmin(away)), away.shape)
    others = distance(lat.values, lon.values, float(lat.values[at]), float(lon.values[at]))
    spacing = float(np.min(others[others > 0], initial=np.inf))
    if away[at] > 1.5 * spacing:
        raise InputError(f"no grid point near {point}; the nearest is {away[at]:.0f} km away")
    return {str(dim): int(index) for dim, index in zip(lat.dims, at, strict=True)}
