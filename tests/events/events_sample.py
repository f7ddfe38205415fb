"""Synthetic moving lows, whose tracks are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.events.area import distance

Place = tuple[float, float]


def low(
    latitude: np.ndarray, longitude: np.ndarray, place: Place, depth: float = 3000.0
) -> np.ndarray:
    """A round low of that depth on a field of 55000, about a thousand kilometres wide."""
    away = distance(latitude[:, None], longitude[None, :], *place)
    return 55000.0 - depth * np.exp(-((away / 900.0) ** 2))


def moving(
    places: Sequence[Place],
    longitude: np.ndarray,
    hours: int = 24,
    latitude: np.ndarray | None = None,
) -> xr.DataArray:
    """Analyses of a low that is at one place after the other, (valid_time, latitude, longitude)."""
    lat = np.arange(80.0, -81.0, -2.5) if latitude is None else latitude
    times = pd.date_range("2020-01-01", periods=len(places), freq=f"{hours}h")
    return xr.DataArray(
        np.stack([low(lat, longitude, place) for place in places]),
        dims=("valid_time", "latitude", "longitude"),
        coords={"valid_time": times, "latitude": lat, "longitude": longitude},
        attrs={"units": "m2 s-2", "long_name": "geopotential"},
    )
