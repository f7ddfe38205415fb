"""Boxes of latitude and longitude, and which points of a grid or which stations lie in one."""

from __future__ import annotations

from typing import Annotated

import xarray as xr
from pydantic import Field, model_validator

from weatherpp.errors import InputError
from weatherpp.strict import Strict

Latitude = Annotated[float, Field(ge=-90, le=90, allow_inf_nan=False)]
Longitude = Annotated[float, Field(ge=-180, le=360, allow_inf_nan=False)]
SLACK = 1e-4  # degrees: coordinates in float32 may be a rounding error outside


class Box(Strict):
    """Part of the globe: from ``west`` eastwards to ``east``, degrees; edges belong to it.

    Longitudes may count from -180 or to 360, and the box may lie across the dateline (west: 170,
    east: -170) or Greenwich (west: -20, east: 10).
    """

    north: Latitude
    south: Latitude
    west: Longitude
    east: Longitude

    @model_validator(mode="after")
    def _has_room(self) -> Box:
        if not self.south < self.north:
            raise ValueError(f"south {self.south:g} is not south of north {self.north:g}")
        if self.width == 0:
            raise ValueError(f"west and east are both {self.west:g}, the box has no width")
        return self

    @property
    def width(self) -> float:
        """Degrees of longitude, up to 360."""
        apart = self.east - self.west
        return 360.0 if abs(apart) >= 360 else apart % 360

    @property
    def centre(self) -> tuple[float, float]:
        """Latitude and longitude (0 to 360) of its middle."""
        return (self.north + self.south) / 2, (self.west + self.width / 2) % 360

    def holds(self, latitude: float, longitude: float) -> bool:
        """Whether a place lies in it."""
        east = (longitude - self.west) % 360
        return self.south <= latitude <= self.north and (east <= self.width or self.width == 360)

    def __str__(self) -> str:
        south, north = (degrees_in_words(at, "SN") for at in (self.south, self.north))
        west, east = (degrees_in_words(signed(at), "WE") for at in (self.west, self.east))
        along = "all longitudes" if self.width == 360 else f"{west} to {east}"
        return f"{south} to {north}, {along}"


def signed(longitude: float) -> float:
    """Longitude from -180 (excluded) to 180."""
    return 180 - (180 - longitude) % 360


def degrees_in_words(value: float, letters: str) -> str:
    """An angle without its sign, with the letter for below zero or the other one."""
    letter = letters[0] if value < 0 else letters[1]
    return f"{abs(value):.4g}° {letter}"


def inside(field: xr.DataArray | xr.Dataset, box: Box) -> xr.DataArray:
    """Which points of a grid lie in a box.

    Parameters
    ----------
    field
        With the coordinates latitude and longitude: a regular, projected or rotated grid, or
        stations.

    Returns
    -------
    Booleans on the grid's dimensions.

    Raises
    ------
    InputError
        No point does, or the field has no such coordinates.
    """
    if "latitude" not in field.coords or "longitude" not in field.coords:
        raise InputError("a box needs the coordinates latitude and longitude")
    latitude, longitude = field["latitude"].astype(float), field["longitude"].astype(float)
    east = (longitude - box.west + SLACK) % 360
    across = (east <= box.width + 2 * SLACK) | (box.width == 360)
    along = (latitude <= box.north + SLACK) & (latitude >= box.south - SLACK)
    found = (along & across).reset_coords(drop=True)
    if not bool(found.any()):
        raise InputError(f"no grid point lies in the box {box}; the grid ends elsewhere")
    return found
