"""A small ensemble and its truth, for the tests of scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution

LAT, LON = [60.0, 0.0, -60.0], [0.0, 90.0, 180.0, 270.0]


def ensemble(
    members: int = 6, times: int = 20, seed: int = 0, centre: float = 280.0, dtype: str = "f4"
) -> tuple[xr.Dataset, xr.DataArray]:
    """Members and a truth around one signal, so that the forecast has skill."""
    rng = np.random.default_rng(seed)
    coords = {
        "time": pd.date_range("2020-01-01", periods=times),
        "latitude": LAT,
        "longitude": LON,
    }
    dims = list(coords)
    shape = [len(coords[dim]) for dim in dims]
    signal = centre + 3 * rng.normal(size=shape)
    truth = xr.DataArray((signal + rng.normal(size=shape)).astype(dtype), coords, dims)
    values = (signal[None] + rng.normal(size=(members, *shape))).astype(dtype)
    numbers = {"number": np.arange(members), **coords}
    value = xr.DataArray(values, numbers, ["number", *dims]).transpose("time", "number", ...)
    truth.attrs = value.attrs = {"units": "K"}
    return distribution.members(value), truth


def arrays(dist: xr.Dataset, truth: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Members (..., m) and truth (...) in float64."""
    return (
        dist["value"].transpose(..., "number").values.astype(float),
        truth.values.astype(float),
    )
