"""Running-mean bias correction: known values, causality, gaps, and a model that changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from weatherpp.conventions import GAPS
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.classical.running import RunningBias
from weatherpp.methods.recent import BLOCK, Recent
from weatherpp.recipe import Target

TARGET = Target(variable="t2m", step="36h")
DATES, TRAIN, POINTS = 90, 30, 4
WINDOW = {"average": "window", "window": 7}
DECAY = {"average": "decay", "weight": 0.1}


def make(gaps: bool = False) -> FitData:
    """Daily forecasts at stations; the model changes on date 50, by 3 K."""
    rng = np.random.default_rng(7)
    times = pd.date_range("2020-01-01", periods=DATES)
    coords = {"time": times, "station": [f"s{n}" for n in range(POINTS)]}
    right = rng.normal(280, 5, (DATES, POINTS))
    truth = xr.DataArray(right.astype("f4"), coords, list(coords), attrs={"units": "K"})
    wrong = right + np.arange(POINTS) + 3.0 * (np.arange(DATES) >= 50)[:, None]
    members = wrong[:, None] + rng.normal(0, 0.5, (DATES, 3, POINTS))
    full = xr.DataArray(
        members.astype("f4"),
        {**coords, "number": np.arange(3)},
        ("time", "number", "station"),
        attrs={"units": "K"},
    )
    if gaps:
        truth = truth.where(rng.random(truth.shape) < 0.6).assign_attrs(units="K", gaps=GAPS)
        truth[:, 3] = np.nan
    forecast = full.expand_dims(step=[np.timedelta64(36, "h")]).transpose("time", "step", ...)
    data = xr.Dataset({"t2m": forecast})
    return FitData(data, truth, full, xr.Dataset(), TARGET, times[:TRAIN], times[:0])


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "gaps"])
def data(request: pytest.FixtureRequest) -> FitData:
    return make(request.param)


def pairs(data: FitData) -> Recent:
    assert data.truth is not None
    return Recent(data.full.mean("number"), data.truth, TARGET.lead)


def fitted(data: FitData, recent: Recent | None = None, **chosen: object) -> RunningBias:
    method = RunningBias(TARGET, chosen).fit(data)
    method.recent = recent or pairs(data)
    return method


def taken_off(method: RunningBias, data: FitData) -> pd.DataFrame:
    """What is taken off, by date and station; the same for all members."""
    value = method.predict(data.forecast)["value"]
    assert value.dims == data.full.dims
    assert value.dtype == np.float32
    away = (data.full.astype(float) - value.astype(float)).to_dataframe("x")["x"].unstack("number")
    assert float((away.max(axis=1) - away.min(axis=1)).max()) < 1e-3  # rounding of float32
    return away.mean(axis=1).unstack("station")


def errors(data: FitData) -> pd.DataFrame:
    """Error of the mean by date and station."""
    recent = pairs(data)
    return (recent.mean.astype(float) - recent.truth.astype(float)).to_pandas()


def test_window_is_the_mean_of_the_last_verified_errors(data: FitData) -> None:
    method = fitted(data, **WINDOW)
    start = method.fitted()["bias"].to_pandas()
    error, found = errors(data).fillna(start), taken_off(fitted(data, **WINDOW), data)
    for place, time in enumerate(found.index):
        known = error[error.index + TARGET.lead <= time].tail(7)
        assert len(known) == min(7, max(0, place - 1))  # 36 h later, of daily forecasts
        expected = (known.sum() + (7 - len(known)) * start) / 7
        np.testing.assert_allclose(found.loc[time], expected, atol=1e-3)


def test_decaying_average_is_its_recursion(data: FitData) -> None:
    method = fitted(data, **DECAY)
    now = start = method.fitted()["bias"].to_pandas()
    error, found = errors(data).fillna(start), taken_off(method, data)
    for place, time in enumerate(found.index):
        if place >= 2:
            now = 0.9 * now + 0.1 * error.iloc[place - 2]
        np.testing.assert_allclose(found.loc[time], now, atol=1e-3)


@pytest.mark.parametrize("chosen", [WINDOW, DECAY], ids=["window", "decay"])
def test_without_history_it_is_the_bias_correction(data: FitData, chosen: dict) -> None:
    early = data.forecast.isel(time=slice(2))
    expected = method_class("bias")(TARGET).fit(data).predict(early)["value"]
    found = fitted(data, **chosen).predict(early)["value"]
    np.testing.assert_array_equal(found, expected)
    # a station that never reported stays with what all have in common
    none = replace(data, truth=data.truth.where(data.truth["station"] != "s1"))
    none.truth.attrs = {"units": "K", "gaps": GAPS}
    away = taken_off(fitted(none, **chosen), none)["s1"]
    np.testing.assert_allclose(away, away.iloc[0], atol=1e-3)


@given(
    place=st.integers(0, DATES - 1),
    seed=st.integers(0, 99),
    chosen=st.sampled_from([WINDOW, DECAY]),
    step=st.sampled_from(["0h", "12h", "24h", "36h", "10D"]),
)
@settings(max_examples=25, deadline=None)
def test_nothing_later_than_the_initial_time_matters(
    place: int, seed: int, chosen: dict, step: str
) -> None:
    data = WHOLE
    time = data.forecast["time"][[place]]
    recent = replace(pairs(data), lead=pd.Timedelta(step))
    later = data.truth["time"] + recent.lead.to_timedelta64() > time[0]
    later |= data.truth["time"] >= time[0]  # its own, at a lead time of zero
    noise = xr.zeros_like(data.truth) + np.random.default_rng(seed).normal(0, 50, data.truth.shape)
    changed = replace(
        recent,
        truth=recent.truth + noise.where(later, 0),
        mean=(recent.mean + 2 * noise).where(later, recent.mean),
    )

    def predicted(known: Recent) -> xr.DataArray:
        method = FITTED[chosen["average"]]
        method.recent = known
        return method.predict(data.forecast.isel(time=[place]))["value"]

    before = predicted(recent)
    np.testing.assert_array_equal(predicted(changed), before)
    # the last that has verified does matter
    known = np.flatnonzero(~later.values)
    if len(known):
        other = recent.truth.copy()
        other[known[-1]] += 50
        assert bool((predicted(replace(recent, truth=other)) != before).all())


WHOLE = make()
FITTED = {each["average"]: fitted(WHOLE, **each) for each in (WINDOW, DECAY)}


def test_follows_a_model_that_changes() -> None:
    after = slice(65, None)
    for chosen, most in ((WINDOW, 0.15), (DECAY, 1.0)):
        value = fitted(WHOLE, **chosen).predict(WHOLE.forecast)["value"].mean("number")
        assert float(abs((value - WHOLE.truth)[after].mean())) < most
    fixed = method_class("bias")(TARGET).fit(WHOLE).predict(WHOLE.forecast)["value"]
    assert float((fixed.mean("number") - WHOLE.truth)[after].mean()) == pytest.approx(3, abs=0.2)


@pytest.mark.parametrize("chosen", [WINDOW, DECAY], ids=["window", "decay"])
def test_saved_lazy_one_by_one_and_in_any_order(
    data: FitData, chosen: dict, tmp_path: Path
) -> None:
    method = fitted(data, **chosen)
    whole = method.predict(data.forecast)
    method.save(tmp_path / "model", {})
    loaded = load_model(tmp_path / "model")
    recent = pairs(data)
    loaded.recent = replace(recent, mean=recent.mean.chunk(time=7), truth=recent.truth.chunk())
    lazy = loaded.predict(data.forecast.chunk(time=11))
    assert lazy["value"].chunks is not None
    xr.testing.assert_identical(lazy.compute(), whole)
    assert BLOCK < DATES  # so that several are read
    for place in (1, DATES - 1):
        one = loaded.predict(data.forecast.isel(time=[place]))
        np.testing.assert_allclose(one["value"], whole["value"][[place]], rtol=1e-6)
    turned = loaded.predict(data.forecast.isel(time=slice(None, None, -1)))
    np.testing.assert_array_equal(turned["value"][::-1], whole["value"])


def test_what_cannot_be_is_refused() -> None:
    method = RunningBias(TARGET).fit(WHOLE)
    with pytest.raises(InputError, match="was given no recent forecasts"):
        method.predict(WHOLE.forecast)
    recent = pairs(WHOLE)
    method.recent = replace(recent, mean=recent.mean[:, :3], truth=recent.truth[:, :3])
    with pytest.raises(InputError, match="'station'"):
        method.predict(WHOLE.forecast)
    with pytest.raises(ConfigError, match="weight"):
        RunningBias(TARGET, {"average": "decay", "weight": 1.5})


def test_at_a_lead_time_of_zero_its_own_analysis_does_not_count() -> None:
    data = make()
    now = TARGET.model_copy(update={"step": "0h"})
    recent = Recent(pairs(data).mean, pairs(data).truth, now.lead)
    times = pd.DatetimeIndex(data.full["time"].values)
    np.testing.assert_array_equal(recent.verified(times), np.arange(DATES))
    # a day and a half ahead: the pair of two days before is the last to have verified
    np.testing.assert_array_equal(pairs(data).verified(times), np.maximum(np.arange(DATES) - 1, 0))
