"""From a field's grid to a map: which area and projection, and the field's value at each pixel.

A latitude/longitude grid is looked up from each pixel of the map: every pixel asks which grid
cell it lies in, with longitude taken modulo 360. So there is no seam at the dateline, no gap at
Greenwich, whichever way the grid counts its longitudes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import cartopy.crs as ccrs
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import ndimage

from weatherpp.errors import InputError

Floats = NDArray[np.float64]
PLATE = ccrs.PlateCarree()
# Wider than this, in degrees, coarse shapes are enough.
FINE_SHAPES_UP_TO = 70.0
# An area that reaches as near to a pole as this, and not far over the equator, is seen from above.
POLAR_FROM, OVER_EQUATOR = 80.0, 10.0
FARTHEST = 90.0001  # degrees of latitude: coordinates in float32 may be a rounding error beyond
THIN = 10.0  # longest side of a map over the shortest


@dataclass(frozen=True)
class Area:
    """Part of the world that a map shows: projection and, in its coordinates, the rectangle."""

    projection: Any
    west: float
    east: float
    south: float
    north: float
    scale: Literal["110m", "50m"]
    outline: Literal["box", "globe", "circle"] = "box"

    @property
    def whole_globe(self) -> bool:
        """Whether all of the Earth is shown."""
        return self.outline == "globe"

    @property
    def aspect(self) -> float:
        """Width over height."""
        return (self.east - self.west) / (self.north - self.south)


@dataclass(frozen=True)
class LatLonGrid:
    """Latitudes and longitudes of a rectangular grid, made easy to look up.

    ``offsets`` are degrees east of ``west``, ascending; ``order`` sorts the field's columns so.
    """

    latitudes: Floats
    offsets: Floats
    west: float
    order: NDArray[np.intp]
    cyclic: bool


def kind_of(field: xr.DataArray) -> Literal["latlon", "projected", "station"]:
    """Which sort of grid a field has.

    Raises
    ------
    InputError
        The field has other dimensions than those of one map, or no point on the Earth.
    """
    if "latitude" not in field.coords or "longitude" not in field.coords:
        raise InputError("a field to map needs the coordinates latitude and longitude")
    latitude = np.abs(np.asarray(field["latitude"].values, dtype=float))
    if not field.size or not np.isfinite(latitude).any() or np.nanmax(latitude) > FARTHEST:
        raise InputError("a field to map needs points, with latitudes from -90 to 90 degrees")
    if set(field.dims) == {"latitude", "longitude"}:
        return "latlon"
    if field.ndim == 2 and field["latitude"].ndim == 2 and field["longitude"].ndim == 2:
        return "projected"
    if field.ndim == 1 and field["latitude"].dims == field.dims:
        return "station"
    raise InputError(
        f"a map needs one field on latitude and longitude; this one has the dimensions {field.dims}"
    )


def latlon_grid(field: xr.DataArray, cyclic: bool | None = None) -> LatLonGrid:
    """Grid of a field; the widest gap between longitudes is where it begins and ends."""
    latitudes = np.asarray(field["latitude"].values, dtype=float)
    longitudes = np.asarray(field["longitude"].values, dtype=float) % 360
    order = np.argsort(longitudes, kind="stable")
    ring = longitudes[order]
    gaps = np.diff(ring, append=ring[0] + 360)
    widest = int(np.argmax(gaps))
    # a global grid has no gap wider than its usual distance; jitter of coordinates is allowed for
    closed = ring.size > 1 and gaps[widest] < 1.5 * np.median(gaps)
    order = np.roll(order, -(widest + 1))
    west = float(longitudes[order[0]])
    offsets = (longitudes[order] - west) % 360
    return LatLonGrid(latitudes, offsets, west, order, closed if cyclic is None else cyclic)


def _edges(centres: Floats) -> Floats:
    """Borders of cells, half way between their centres."""
    if centres.size == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    inner = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - inner[0]], inner, [2 * centres[-1] - inner[-1]]])


def area_of(field: xr.DataArray, cyclic: bool | None = None) -> Area:
    """Area and projection that suit a field.

    The globe in Robinson's projection; an area around a pole, or a sector that reaches one,
    stereographic; one of middle latitudes in Lambert's conformal; others, near the equator or a
    band around the Earth, plainly in longitude and latitude. Projected grids and stations in
    Lambert's equal-area projection centred on them.
    """
    kind = kind_of(field)
    if kind == "latlon":
        grid = latlon_grid(field, cyclic)
        edges = np.clip(_edges(np.sort(grid.latitudes)), -90, 90)
        if grid.cyclic and edges[-1] - edges[0] > 120:
            world: Any = ccrs.Robinson()
            (west, east), (south, north) = world.x_limits, world.y_limits
            return Area(world, west, east, south, north, "110m", "globe")
        span = _edges(grid.offsets)
        west, width = float(grid.west + span[0]), min(float(span[-1] - span[0]), 360.0)
        return _box_area(west, 360.0 if grid.cyclic else width, float(edges[0]), float(edges[-1]))
    lons = np.asarray(field["longitude"].values, dtype=float).ravel()
    lats = np.asarray(field["latitude"].values, dtype=float).ravel()
    return area_around(lons, lats, margin=0.02 if kind == "projected" else 0.12)


def area_within(north: float, south: float, west: float, east: float) -> Area:
    """Area of a box in degrees; ``west`` may be larger than ``east``, or negative.

    Raises
    ------
    InputError
        It is no box.
    """
    if not -90 <= south < north <= 90 or not np.isfinite([west, east]).all() or west == east:
        raise InputError(
            f"north {north:g}, south {south:g}, west {west:g}, east {east:g} enclose no area"
        )
    return _box_area(west, (east - west) % 360 or 360.0, south, north)


def _scale(width: float, height: float) -> Literal["110m", "50m"]:
    return "50m" if max(width, height) <= FINE_SHAPES_UP_TO else "110m"


def _box_area(west: float, width: float, south: float, north: float) -> Area:
    """Area of a latitude/longitude box in the projection that suits it."""
    middle = (west + width / 2 + 180) % 360 - 180
    scale = _scale(width, north - south)
    centre = (south + north) / 2
    poleward, other = (north, south) if centre > 0 else (-south, -north)
    # narrow sectors that go far to the equator would be bent out of shape
    polar = poleward >= POLAR_FROM and other >= (-OVER_EQUATOR if width > 120 else 40.0)
    if polar:
        projection: Any = (ccrs.NorthPolarStereo if centre > 0 else ccrs.SouthPolarStereo)(
            0.0 if width == 360 else middle
        )
        if width == 360:
            edge = south if centre > 0 else north
            radius = float(np.abs(projection.transform_point(0.0, edge, PLATE)).max())
            return Area(projection, -radius, radius, -radius, radius, scale, "circle")
    elif abs(centre) >= 25 and width <= 120:
        sixth = (north - south) / 6
        projection = ccrs.LambertConformal(
            middle,
            centre,
            standard_parallels=(south + sixth, north - sixth),
            cutoff=-30 if centre > 0 else 30,
        )
    else:
        flat = ccrs.PlateCarree(central_longitude=middle)
        return _seen(flat, (-width / 2, width / 2, south, north), scale)
    # the outline bends, so its extremes may lie anywhere along the sides
    along, zero = np.linspace(0, 1, 60), np.zeros(60)
    lons = west + width * np.concatenate([along, along, zero, zero + 1])
    lats = south + (north - south) * np.concatenate([zero, zero + 1, along, along])
    points = projection.transform_points(PLATE, lons, lats)
    (x0, y0), (x1, y1) = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    return _seen(projection, (float(x0), float(x1), float(y0), float(y1)), scale)


def _seen(
    projection: Any, sides: tuple[float, float, float, float], scale: Literal["110m", "50m"]
) -> Area:
    """Area with room around one that is too thin to be seen, such as a single row of cells."""
    west, east, south, north = sides
    wide, high = east - west, north - south
    more_high, more_wide = max(wide / THIN - high, 0) / 2, max(high / THIN - wide, 0) / 2
    south, north = south - more_high, north + more_high
    return Area(projection, west - more_wide, east + more_wide, south, north, scale)


def area_around(lons: Floats, lats: Floats, margin: float, least: float = 100.0) -> Area:
    """Area around scattered points, in Lambert's equal-area projection centred on them.

    Parameters
    ----------
    margin
        On each side, as a fraction of the extent.
    least
        Width and height in km that it has at least.

    Raises
    ------
    InputError
        No point has a valid place.
    """
    good = np.isfinite(lons) & np.isfinite(lats)
    if not good.any():
        raise InputError("what is to map has no valid latitude and longitude")
    lons, lats = lons[good], lats[good]
    # the mean direction, because a mean of longitudes fails at Greenwich or the dateline
    lam, phi = np.radians(lons), np.radians(lats)
    x, y = (np.cos(phi) * np.cos(lam)).mean(), (np.cos(phi) * np.sin(lam)).mean()
    centre_lat = float(np.degrees(np.arctan2(np.sin(phi).mean(), np.hypot(x, y))))
    projection = ccrs.LambertAzimuthalEqualArea(float(np.degrees(np.arctan2(y, x))), centre_lat)
    points = projection.transform_points(PLATE, lons, lats)
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    half = np.maximum((high - low) * (0.5 + margin), 500 * least)
    (x0, y0), (x1, y1) = (low + high) / 2 - half, (low + high) / 2 + half
    degrees = float(max(x1 - x0, y1 - y0)) / 111e3
    return Area(projection, x0, x1, y0, y1, _scale(degrees, degrees))


@lru_cache(maxsize=8)
def _pixel_places(area: Area, width: int, height: int) -> tuple[Floats, Floats]:
    """Longitude and latitude of each pixel's centre, top row first; NaN off the globe."""
    x = area.west + (np.arange(width) + 0.5) / width * (area.east - area.west)
    y = area.north - (np.arange(height) + 0.5) / height * (area.north - area.south)
    xx, yy = np.meshgrid(x, y)
    places = PLATE.transform_points(area.projection, xx, yy)
    lons, lats = places[..., 0], places[..., 1]
    bad = ~(np.isfinite(lons) & np.isfinite(lats))
    lons[bad] = lats[bad] = np.nan
    return lons, lats


def on_pixels(
    field: xr.DataArray,
    area: Area,
    width: int,
    height: int,
    *,
    cyclic: bool | None = None,
    smooth: bool = False,
) -> Floats:
    """Value of a latitude/longitude field at each pixel of a map, NaN outside the grid.

    Parameters
    ----------
    smooth
        Interpolate between grid points (for contour lines) instead of showing each cell as it is.
    """
    latitudes, longitudes = (
        np.asarray(field[name].values, dtype=float) for name in ("latitude", "longitude")
    )
    values = np.asarray(field.transpose("latitude", "longitude").values, dtype=float)
    row, column = _cells(latitudes.tobytes(), longitudes.tobytes(), area, width, height, cyclic)
    grid = latlon_grid(field, cyclic)
    values = values[:, grid.order]
    if latitudes.size > 1 and latitudes[0] > latitudes[-1]:
        values = values[::-1]
    if grid.cyclic:
        values = np.concatenate([values, values[:, :1]], axis=1)
    outside = np.isnan(row)
    if not smooth:
        near = np.nan_to_num(np.rint(np.stack([row, column]))).astype(np.intp)
        return np.where(outside, np.nan, values[near[0], near[1]])
    interpolate: Any = ndimage.map_coordinates  # its stubs know no plain float arrays
    out: Floats = interpolate(
        values, np.nan_to_num(np.stack([row, column])), order=1, mode="nearest", prefilter=False
    )
    out[outside] = np.nan
    return out


@lru_cache(maxsize=8)
def _cells(
    latitudes: bytes,
    longitudes: bytes,
    area: Area,
    width: int,
    height: int,
    cyclic: bool | None,
) -> tuple[Floats, Floats]:
    """Row from the south and column from the west at each pixel, as fractions; NaN outside.

    The panels of a figure share one grid, so this is done once for all of them.
    """
    lats, lons = (np.frombuffer(part) for part in (latitudes, longitudes))
    grid = latlon_grid(
        xr.DataArray(
            np.empty((lats.size, lons.size)),
            dims=("latitude", "longitude"),
            coords={"latitude": lats, "longitude": lons},
        ),
        cyclic,
    )
    lats = lats[::-1] if lats.size > 1 and lats[0] > lats[-1] else lats
    offsets = np.append(grid.offsets, 360.0) if grid.cyclic else grid.offsets
    lon, lat = _pixel_places(area, width, height)
    row, inside_lat = _position(lats, lat)
    # degrees east of half a cell before the first column, so that this half cell counts as inside
    lead = 0.0 if grid.cyclic else offsets[0] - _edges(offsets)[0]
    column, inside_lon = _position(offsets, (lon - grid.west + lead) % 360 - lead)
    if np.isfinite(lats).all() and lats[-1] - lats[0] > 120:
        inside_lat = np.isfinite(lat)  # a global grid's last row reaches to the pole
    outside = ~(inside_lat & inside_lon)
    row[outside] = column[outside] = np.nan
    return row, column


def _position(centres: Floats, at: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Fractional index of each place along ascending cell centres, and whether it is inside."""
    edges = _edges(centres)
    with np.errstate(invalid="ignore"):
        inside = (at >= edges[0]) & (at <= edges[-1])
    return np.interp(at, centres, np.arange(centres.size, dtype=float)), inside


def bounds(area: Area) -> tuple[float, float, float, float]:
    """West, east, south and north of an area in degrees, with room; west may be below -180."""
    if area.whole_globe:
        return -180.0, 180.0, -90.0, 90.0
    lons, lats = _pixel_places(area, 61, 61)
    middle = float(lons[30, 30])
    east = (lons - middle + 180) % 360 - 180
    room = 3.0
    south, north = float(np.nanmin(lats)) - room, float(np.nanmax(lats)) + room
    reach = float(np.nanmax(np.abs(east))) + room
    if max(abs(south), abs(north)) >= 90:  # meridians meet within the area
        reach = 180.0
    # not quite around: what ends on the map's edge must not be put at the opposite one
    reach = min(reach, 180.0 - 1e-4)
    return middle - reach, middle + reach, max(south, -90.0), min(north, 90.0)
