"""Quantile mapping against functions that are known, and at its edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.conventions import GAPS
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.classical.quantile_mapping import QuantileMapping
from weatherpp.recipe import Target

TP = Target(variable="tp", step="24h")


def make(
    truth_of: Callable[[np.ndarray], np.ndarray], low: float = 0.0, dates: int = 400
) -> FitData:
    """Members drawn evenly from (low, 10), truths drawn likewise and then changed."""
    rng = np.random.default_rng(1)
    times = pd.date_range("2020-01-01", periods=dates)
    coords = {"time": times, "number": np.arange(5), "station": ["a", "b", "c"]}
    full = xr.DataArray(rng.uniform(low, 10, (dates, 5, 3)), coords, list(coords), "tp")
    full = full.astype("f4").assign_attrs(units="m")
    truth = full.isel(number=0, drop=True).copy(data=truth_of(rng.uniform(low, 10, (dates, 3))))
    step = pd.TimedeltaIndex(["24h"])
    forecast = full.expand_dims(step=step).transpose("time", "step", ...).to_dataset()
    return FitData(forecast, truth.astype("f4"), full, xr.Dataset(), TP, times, times[:0])


def values(method: QuantileMapping, data: FitData) -> xr.DataArray:
    return method.predict(data.forecast)["value"]


def test_a_known_function_is_found_again(tmp_path: Path) -> None:
    data = make(lambda x: x**2 / 5 + 1)
    method = method_class("quantile-mapping")(TP).fit(data)
    assert isinstance(method, QuantileMapping)
    mapped = values(method, data)
    np.testing.assert_allclose(mapped, data.full**2 / 5 + 1, atol=1.2)
    assert data.truth is not None
    levels = [0.05, 0.3, 0.5, 0.9]
    for station in "abc":
        np.testing.assert_allclose(
            np.quantile(mapped.sel(station=station), levels),
            np.quantile(data.truth.sel(station=station), levels),
            atol=0.1,
        )
    assert mapped.dtype == np.float32
    assert mapped.dims == ("time", "number", "station")
    lazy = method.predict(data.forecast.chunk({"time": 90, "number": 2}))
    assert lazy["value"].chunks is not None
    xr.testing.assert_allclose(lazy["value"].compute(), mapped)
    method.save(tmp_path / "model", {})
    xr.testing.assert_identical(
        load_model(tmp_path / "model").predict(data.forecast)["value"], mapped
    )


def test_members_keep_their_order() -> None:
    data = make(np.sqrt)
    order = values(QuantileMapping(TP).fit(data), data).argsort(axis=1)
    np.testing.assert_array_equal(order, data.full.argsort(axis=1))


def test_beyond_the_training_values_the_last_correction_holds() -> None:
    data = make(lambda x: x + 3)
    method = QuantileMapping(TP).fit(data)
    far = replace(data, forecast=data.forecast + 100)
    np.testing.assert_allclose(values(method, far), data.full + 103, atol=0.6)
    extremes = method.fitted().isel(quantile=-1, station=0)
    step = float(extremes["analysis"] - extremes["forecast"])
    np.testing.assert_allclose(
        values(method, far).isel(station=0), data.full.isel(station=0) + 100 + step, rtol=1e-5
    )


def test_no_rain_is_mapped_to_what_stands_at_its_levels() -> None:
    data = make(lambda x: np.maximum(x - 2, 0))
    wet = data.forecast.where(data.forecast > 6, 0)  # the forecast is dry too often
    method = QuantileMapping(TP).fit(replace(data, forecast=wet))
    mapped = values(method, replace(data, forecast=wet)).isel(station=0)
    dry = mapped.where(wet["tp"].isel(step=0, station=0, drop=True) == 0).values
    levels = (np.arange(600) + 0.5) / 1000
    expected = np.maximum(10 * levels - 2, 0).mean()  # what the truth has at levels up to 0.6
    np.testing.assert_allclose(dry[np.isfinite(dry)], expected, atol=0.25)
    assert float(mapped.min()) >= 0


def test_nothing_falls_below_zero_where_nothing_was() -> None:
    data = make(lambda x: 0.2 * x)
    small = replace(data, forecast=data.forecast * 0)
    assert float(values(QuantileMapping(TP).fit(data), small).min()) == 0
    below = make(lambda x: x - 20, low=-10)
    assert float(values(QuantileMapping(TP).fit(below), below).min()) < -20


def test_gaps_and_few_dates() -> None:
    data = make(lambda x: x + 3)
    assert data.truth is not None
    truth = data.truth.copy().assign_attrs(gaps=GAPS)
    truth[4:, 1] = np.nan
    method = QuantileMapping(TP).fit(replace(data, truth=truth))
    assert method.fitted().attrs["pooled"] == 1
    assert bool(values(method, data).notnull().all())
    assert float((values(method, data) - data.full).isel(station=1).mean()) == pytest.approx(
        3, abs=0.2
    )
