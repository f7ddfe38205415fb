"""Extreme dates, chosen by their analyses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.verify.extremes import extreme_dates
from weatherpp.verify.weights import grid_weights

rng = np.random.default_rng(3)


def analyses(first: str, dates: int) -> xr.DataArray:
    coords = {
        "time": pd.date_range(first, periods=dates, freq="2D"),
        "latitude": np.linspace(80, -80, 5),
        "longitude": np.arange(6) * 60.0,
    }
    local = rng.uniform(1, 9, (5, 6))
    values = 250 + local * rng.normal(size=(dates, 5, 6))
    return xr.DataArray(values, coords=coords, dims=list(coords))


def test_the_dates_farthest_from_the_climate() -> None:
    climate, truth = analyses("2001-01-01", 200), analyses("2010-01-01", 40)
    anomaly = (truth - climate.mean("time")) / climate.std("time")
    weights = grid_weights(truth).broadcast_like(truth.isel(time=0)).transpose(*truth.dims[1:])
    distance = np.array([np.average(a**2, weights=weights) for a in anomaly.values])
    expected = truth["time"].values[np.sort(np.argsort(distance)[-4:])]
    np.testing.assert_array_equal(extreme_dates(truth, climate, 0.1).values, expected)


@pytest.mark.parametrize(("share", "count"), [(0.001, 1), (0.05, 2), (0.5, 20)])
def test_share_of_the_dates(share: float, count: int) -> None:
    found = extreme_dates(analyses("2010-01-01", 40), analyses("2001-01-01", 50), share)
    assert len(found) == count
    assert found.is_monotonic_increasing


def test_gaps_and_constant_points_take_no_part() -> None:
    climate, truth = analyses("2001-01-01", 200), analyses("2010-01-01", 40)
    before = extreme_dates(truth.isel(longitude=slice(4)), climate.isel(longitude=slice(4)), 0.1)
    climate[:, :, 4] = 250.0
    truth[:, :, 5] = np.nan
    pd.testing.assert_index_equal(extreme_dates(truth, climate, 0.1), before)
    truth[3] = np.nan
    assert truth["time"].values[3] not in extreme_dates(truth, climate, 0.5)
