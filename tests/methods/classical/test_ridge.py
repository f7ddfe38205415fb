"""Ridge regression on all predictors: against least squares, and what it gains."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.conventions import GAPS
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.classical.ridge import (
    STRENGTHS,
    Ridge,
    _products,
    _solutions,
    fit_ridge,
    predictors,
)
from weatherpp.recipe import Target
from weatherpp.verify import scores

TARGET = Target(variable="t", level=500, step="24h")
LATER = slice(160, None)


def make(dates: int = 240, points: int = 5) -> FitData:
    """Temperature whose forecast is wrong by what the cloud cover at 12 h says, and by noise."""
    rng = np.random.default_rng(2)
    times = pd.date_range("2020-01-01", periods=dates)
    steps, numbers = pd.TimedeltaIndex(["12h", "24h"]), np.arange(6)
    dims = ("time", "step", "number", "level", "station")
    coords = {
        "time": times,
        "step": steps,
        "number": numbers,
        "level": [500, 850],
        "station": [f"s{i}" for i in range(points)],
    }
    base = rng.normal(260, 5, (dates, 1, 1, 2, points))
    noise = rng.normal(0, 0.7, (dates, 2, 6, 2, points))
    t = xr.DataArray((base + noise).astype("f4"), coords, dims, attrs={"units": "K"})
    cloud = rng.uniform(0, 1, (dates, 1, 1, points)) + rng.normal(0, 0.05, (dates, 2, 6, points))
    tcc = xr.DataArray(
        cloud.astype("f4"),
        {name: coords[name] for name in coords if name != "level"},
        [dim for dim in dims if dim != "level"],
        attrs={"units": "1"},
    )
    right = (
        base[:, 0, 0, 0] + 6 * cloud[:, 0].mean(axis=1) - 1 + rng.normal(0, 0.8, (dates, points))
    )
    full = t.isel(step=1, level=0, drop=True)
    truth = full.isel(number=0, drop=True).copy(data=right.astype("f4"))
    forecast = xr.Dataset({"t": t, "tcc": tcc})
    return FitData(forecast, truth, full, xr.Dataset(), TARGET, times[:160], times[:0])


@pytest.fixture(scope="module")
def data() -> FitData:
    return make()


def crps(name: str, data: FitData, **settings: object) -> float:
    assert data.truth is not None
    dist = method_class(name)(TARGET, settings).fit(data).predict(data.forecast.isel(time=LATER))
    return float(scores.crps(dist, data.truth.isel(time=LATER)).mean())


def test_solutions_are_those_of_least_squares_with_a_penalty() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(1, 2, (40, 6)), rng.normal(3, 1, 40)
    found = _solutions(_products(np.column_stack([np.ones(40), x, y])), STRENGTHS)
    for strength, row in zip(STRENGTHS, found, strict=True):
        stacked = np.vstack([x - x.mean(0), np.sqrt(40 * strength) * np.eye(6)])
        weights = np.linalg.lstsq(stacked, np.append(y - y.mean(), np.zeros(6)), rcond=None)[0]
        np.testing.assert_allclose(row[1:], weights, rtol=1e-7, atol=1e-10)
        assert row[0] == pytest.approx(y.mean() - x.mean(0) @ weights)


def test_predictions_of_left_out_blocks_do_not_know_them() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(50, 1, 30)), rng.normal(size=(50, 1))
    found = fit_ridge(x, y, blocks=5, least=10)
    assert found.strength >= 1  # there is nothing to learn
    other = y.copy()
    other[:10] += 100
    again = fit_ridge(x, other, blocks=5, least=10)
    if again.strength == found.strength:
        np.testing.assert_allclose(again.left_out[:10], found.left_out[:10])
    assert np.std(found.left_out) < 0.5


def test_predictors_are_all_fields_at_all_leads(data: FitData) -> None:
    found = predictors(data.forecast, TARGET, "all")
    names = {
        f"{v} {h}h {k}"
        for v in ("t500", "t850", "tcc")
        for h in (12, 24)
        for k in ("mean", "spread")
    }
    assert set(found["predictor"].values) == names
    cloud = found.sel(predictor="tcc 12h mean", drop=True)
    expected = data.forecast["tcc"].isel(step=0).mean("number")
    np.testing.assert_allclose(cloud.values, expected.values, rtol=1e-6)
    assert predictors(data.forecast, TARGET, "target").sizes["predictor"] == 6


def test_uses_what_emos_does_not_see(data: FitData, tmp_path: Path) -> None:
    own, emos = crps("ridge", data), crps("emos", data)
    assert own < 0.7 * emos
    # noise of 0.8 K and that of a mean of six members; a perfect forecast of it has this CRPS
    assert own < 1.15 * np.hypot(0.8, 0.7 / 6**0.5) / np.sqrt(np.pi)
    method = Ridge(TARGET).fit(data)
    forecast = data.forecast.isel(time=LATER)
    dist = method.predict(forecast)
    assert dist["mean"].dtype == np.float32
    assert dist["mean"].attrs["units"] == "K"
    lazy = method.predict(forecast.chunk({"time": 20}))
    assert lazy["mean"].chunks is not None
    xr.testing.assert_allclose(lazy.compute(), dist)
    method.save(tmp_path / "model", {})
    xr.testing.assert_identical(load_model(tmp_path / "model").predict(forecast), dist)


def test_spread_is_that_of_later_errors(data: FitData) -> None:
    assert data.truth is not None
    dist = Ridge(TARGET).fit(data).predict(data.forecast.isel(time=LATER))
    error = scores.squared_error(dist, data.truth.isel(time=LATER)).mean()
    assert float(scores.variance(dist).mean() / error) == pytest.approx(1, abs=0.2)


def test_gaps_few_dates_and_constant_predictors(data: FitData) -> None:
    assert data.truth is not None
    truth = data.truth.copy().assign_attrs(gaps=GAPS)
    truth[5:, 1] = np.nan
    forecast = data.forecast.assign(msl=0 * data.forecast["tcc"] + 1e5)
    method = Ridge(TARGET).fit(replace(data, truth=truth, forecast=forecast))
    found = method.fitted()
    assert found.attrs["pooled"] == 1
    assert not found["weight"].isel(station=1).any()
    assert not found["weight"].sel(predictor="msl 24h spread").any()
    assert bool(np.isfinite(method.predict(forecast)["mean"]).all())


def test_what_cannot_be_used_is_refused(data: FitData) -> None:
    with pytest.raises(InputError, match="fewer blocks"):
        Ridge(TARGET, {"blocks": 5}).fit(replace(data, train=data.train[:3]))
    with pytest.raises(InputError, match="other variables"):
        Ridge(TARGET).fit(data).predict(data.forecast.drop_vars("tcc"))


def test_memory_is_that_of_the_results_of_one_strength() -> None:
    rng = np.random.default_rng(4)
    dates, points, count = 40, 400, 6
    x = rng.standard_normal((dates, points, count)).astype("f4")
    y = x[..., 0] + rng.standard_normal((dates, points))
    tracemalloc.start()
    fit_ridge(x, y, 5, 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    results = y.nbytes + 8 * points * (1 + count)
    assert peak < 3 * results  # for all thirteen strengths it would be 13
