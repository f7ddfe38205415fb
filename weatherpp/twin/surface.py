"""The lower boundary: land fraction, mountains.

The land fraction is a small table made from Natural Earth 1:110m (public domain). The mountains are
a sum of stated Gaussian ridges with positions, lengths and grid-scale heights roughly like the real
ones as a model of spectral truncation about 42 sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ridge:
    """One mountain range: a two-dimensional Gaussian on the local tangent plane."""

    name: str
    latitude: float
    longitude: float
    height: float
    """m, at the centre."""
    half_length: float
    """Standard deviation along the range, degrees of arc."""
    half_width: float
    """Standard deviation across the range, degrees of arc."""
    bearing: float = 90.0
    """Direction of the range, degrees clockwise from north."""


RIDGES = (
    Ridge("Tibet and Himalaya", 33.5, 88.0, 4600, 9.0, 4.0, 92),
    Ridge("Mongolia and Altai", 47.5, 97.0, 1900, 9.0, 4.5, 100),
    Ridge("Tien Shan and Pamir", 40.5, 74.0, 2200, 5.0, 3.0, 75),
    Ridge("Iran and Anatolia", 34.0, 54.0, 1400, 10.0, 4.0, 115),
    Ridge("East Siberia", 65.0, 140.0, 1000, 10.0, 5.0, 100),
    Ridge("Rocky Mountains, south", 39.0, 251.0, 2200, 8.0, 5.0, 160),
    Ridge("Rocky Mountains, north", 53.0, 241.0, 1500, 9.0, 4.0, 140),
    Ridge("Alaska", 63.0, 210.0, 1100, 7.0, 3.5, 95),
    Ridge("Mexico", 23.0, 257.0, 1600, 5.0, 3.0, 150),
    Ridge("Greenland", 73.0, 320.0, 2700, 8.0, 4.5, 5),
    Ridge("Scandinavia", 64.0, 13.0, 800, 6.0, 2.5, 30),
    Ridge("Alps", 46.5, 10.0, 1200, 4.0, 2.0, 80),
    Ridge("Atlas", 32.5, 357.0, 1100, 5.0, 2.5, 65),
    Ridge("Ethiopia and East Africa", 5.0, 38.0, 1500, 9.0, 4.0, 15),
    Ridge("South Africa", -25.0, 25.0, 1200, 8.0, 6.0, 40),
    Ridge("Andes, north", -8.0, 284.0, 1900, 10.0, 2.7, 155),
    Ridge("Andes, middle", -22.0, 292.0, 3200, 7.0, 2.8, 175),
    Ridge("Andes, south", -40.0, 289.0, 1100, 8.0, 2.2, 5),
    Ridge("Brazil", -18.0, 314.0, 700, 7.0, 5.0, 30),
    Ridge("East Antarctica", -80.0, 80.0, 3300, 18.0, 9.0, 90),
    Ridge("West Antarctica", -79.0, 255.0, 1500, 9.0, 5.0, 90),
    Ridge("New Guinea", -5.0, 141.0, 900, 5.0, 2.5, 110),
)


def orography(latitude: Array, longitude: Array) -> Array:
    """Height of the mountains in m, shape (lat, lon); coordinates in degrees."""
    lat, lon = np.radians(latitude)[:, None], np.radians(longitude)[None, :]
    height = np.zeros((lat.size, lon.size))
    for ridge in RIDGES:
        lat0, lon0 = np.radians(ridge.latitude), np.radians(ridge.longitude)
        dlon = lon - lon0
        cosine = np.sin(lat0) * np.sin(lat) + np.cos(lat0) * np.cos(lat) * np.cos(dlon)
        distance = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
        east = np.cos(lat) * np.sin(dlon)
        north = np.cos(lat0) * np.sin(lat) - np.sin(lat0) * np.cos(lat) * np.cos(dlon)
        angle = np.arctan2(east, north) - np.radians(ridge.bearing)
        along, across = distance * np.cos(angle), distance * np.sin(angle)
        height += ridge.height * np.exp(
            -0.5 * ((along / ridge.half_length) ** 2 + (across / ridge.half_width) ** 2)
        )
    return height


@cache
def _land_table() -> Array:
    text = files("weatherpp.twin").joinpath("land.txt").read_text(encoding="ascii")
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    return np.array([[int(digit) for digit in row] for row in rows], dtype=np.float64) / 9.0


def land_fraction(latitude: Array, longitude: Array) -> Array:
    """Land fraction 0..1, shape (lat, lon): the table, interpolated bilinearly.

    Coordinates in degrees; longitudes may have any multiple of 360 added.
    """
    table = _land_table()
    table = np.concatenate([table, table[:, :1]], axis=1)
    row = np.clip((88.75 - latitude) / 2.5, 0.0, table.shape[0] - 1.000001)
    column = ((longitude - 1.25) / 2.5) % (table.shape[1] - 1)
    i, j = row.astype(int), column.astype(int)
    y, x = (row - i)[:, None], (column - j)[None, :]
    upper = table[np.ix_(i, j)] * (1 - x) + table[np.ix_(i, j + 1)] * x
    lower = table[np.ix_(i + 1, j)] * (1 - x) + table[np.ix_(i + 1, j + 1)] * x
    return np.asarray(upper * (1 - y) + lower * y)
