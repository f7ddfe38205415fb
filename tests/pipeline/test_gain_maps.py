"""Maps of gains are those of all dates at once, though read some dates at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp import distribution
from weatherpp.pipeline.gain_maps import _gain_map
from weatherpp.verify import accumulate, scores
from weatherpp.verify.significance import diebold_mariano, discoveries, lags_for

LEAD = pd.Timedelta(hours=24)


def test_streamed_map_is_that_of_all_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    coords = {
        "time": pd.date_range("2020-01-01", periods=60),
        "latitude": np.linspace(80, -80, 5),
        "longitude": np.arange(6) * 60.0,
    }
    truth = xr.DataArray(rng.normal(280, 2, (60, 5, 6)), coords, tuple(coords), "t2m")
    error = rng.normal(size=(60, 5, 6))
    half = xr.where(truth["longitude"] < 180, 0.4, 1.0)  # better in the east alone
    own = distribution.normal(truth + error * half.values, xr.full_like(truth, 0.8))
    number = xr.DataArray(np.arange(5), dims="number", coords={"number": np.arange(5)})
    noise = xr.DataArray(rng.normal(size=(60, 5, 6, 5)), dims=(*coords, "number"))
    raw = distribution.members(truth + rng.normal(size=(60, 5, 6)) + noise + 0 * number)
    monkeypatch.setattr(accumulate, "BLOCK_BYTES", 3 * raw["value"][0].nbytes)
    later = raw.isel(time=slice(5, None))
    found = _gain_map(own, later, truth, ("normal", "fair"), LEAD, "forecast")
    assert found is not None
    same = [d.isel(time=slice(5, None)) for d in (own, raw, truth)]
    one, two = scores.crps(same[0], same[2]), scores.crps(same[1], same[2], "fair")
    lags = lags_for(pd.DatetimeIndex(one["time"].values), LEAD)
    expected = diebold_mariano(one, two, lags=lags)["p_value"]
    np.testing.assert_allclose(found["p_value"], expected, rtol=1e-4, atol=1e-12)
    np.testing.assert_array_equal(found["significant"] == 1, discoveries(expected))
    np.testing.assert_allclose(found["gain"], 1 - one.mean("time") / two.mean("time"), rtol=1e-4)
    assert found["significant"].sel(longitude=slice(0, 170)).all()
    assert "55 dates" in found["p_value"].attrs["test"]
    few = _gain_map(own, raw.isel(time=slice(5)), truth, ("normal", "fair"), LEAD, "forecast")
    assert few is None
