"""The methods on sixteen years of one station, read from the file another way than by ingest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.methods.base import FitData, method_class
from weatherpp.recipe import Target
from weatherpp.verify import scores

TARGET = Target(variable="mn2t", step="30h")
QUICK = {"seeds": 1, "training": {"epochs": 8, "learning_rate": 0.02}}


@pytest.fixture(scope="module")
def innsbruck(extra_data: Path) -> FitData:
    """Training to 2010, validation 2011 and 2012; the rest is there to be predicted."""
    frame = pd.read_csv(
        extra_data / "stations/temp_innsbruck_gefs_reforecast.csv.gz", parse_dates=["valid_time"]
    ).dropna()
    valid = pd.DatetimeIndex(frame["valid_time"]).as_unit("ns")
    times = (valid - TARGET.lead).rename("time")
    values = frame.filter(regex=r"^tempfc\.").to_numpy("f4")
    coords = {
        "time": times,
        "number": np.arange(1, values.shape[1] + 1),
        "station": ["11120"],
        "latitude": ("station", [47.26]),
        "longitude": ("station", [11.35]),
        "valid_time": ("time", valid),
    }
    full = xr.DataArray(
        values[..., None], coords, ("time", "number", "station"), "mn2t", {"units": "degC"}
    )
    steps = pd.TimedeltaIndex([TARGET.lead])
    forecast = full.expand_dims(step=steps, axis=1).to_dataset()
    truth = full.isel(number=0, drop=True).copy(data=frame["temp"].to_numpy("f4")[:, None])
    parts = {"train": times[times.year <= 2010], "device": "cpu"}
    parts["valid"] = times[(times.year > 2010) & (times.year <= 2012)]
    return FitData(forecast, truth, full, xr.Dataset(), TARGET, **parts)


@pytest.mark.slow
def test_each_method_is_better_than_what_it_builds_on(innsbruck: FitData) -> None:
    later = innsbruck.full["time"].dt.year > 2012
    assert innsbruck.truth is not None
    truth = innsbruck.truth[later.values]

    def crps(name: str, **settings: object) -> float:
        method = method_class(name)(TARGET, settings).fit(innsbruck)
        dist = method.predict(innsbruck.forecast.isel(time=later.values))
        plain = "number" in dist.dims
        return float(scores.crps(dist, truth, "plain" if plain else None).mean())

    found = [crps(name) for name in ("raw", "climatology", "bias", "emos", "idr")]
    assert found == sorted(found, reverse=True)
    assert crps("mbm") < found[2]
    seasonal = crps("emos", season=2)
    assert seasonal < 0.8 * found[3]
    assert seasonal < 0.8 * crps("climatology", window=15) < 0.6 * found[1]
    assert crps("drn", **QUICK) < 0.8 * found[3]
