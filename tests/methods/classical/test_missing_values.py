"""Classical methods at stations that do not report every day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp import distribution
from weatherpp.conventions import GAPS
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData, Method, load_model, method_class
from weatherpp.methods.classical.emos import fit_coefficients
from weatherpp.recipe import Target
from weatherpp.verify import calibration, scores, table

TARGET = Target(variable="t2m", step="24h")
LEARNING = ("climatology", "bias", "emos", "mbm", "idr")
DATES, STATIONS, MEMBERS = 40, 6, 5


def make(gaps: bool = True) -> FitData:
    """Six stations; station 4 has five reports, station 5 none; one member is missing once."""
    rng = np.random.default_rng(3)
    times = pd.date_range("2020-01-01", periods=DATES, freq="D")
    signal = rng.normal(280, 5, (DATES, STATIONS))
    bias = np.arange(STATIONS) - 2.0
    width = rng.uniform(0.5, 2, (DATES, STATIONS))
    truth = signal + width * rng.normal(size=signal.shape)
    full = signal + bias + 0.5 * width * rng.normal(size=(MEMBERS, DATES, STATIONS))
    if gaps:
        truth[rng.random(truth.shape) < 0.3] = np.nan
        truth[5:, 4] = np.nan
        truth[:, 5] = np.nan
        full[2, 7, 0] = np.nan
    coords = {
        "time": times,
        "station": np.array([f"s{n}" for n in range(STATIONS)], dtype=object),
        "latitude": ("station", np.linspace(40, 50, STATIONS)),
        "longitude": ("station", np.linspace(0, 10, STATIONS)),
    }
    attrs = {"units": "K", "gaps": GAPS}
    members = xr.DataArray(
        full.astype("f4"),
        dims=("number", "time", "station"),
        coords=coords | {"number": np.arange(MEMBERS)},
        attrs=attrs,
        name="t2m",
    ).transpose("time", "number", "station")
    forecast = members.expand_dims(step=[np.timedelta64(24, "h")]).to_dataset()
    return FitData(
        forecast=forecast.transpose("time", "step", "number", "station"),
        truth=xr.DataArray(
            truth.astype("f4"), dims=("time", "station"), coords=coords, attrs=attrs, name="t2m"
        ),
        full=members,
        static=xr.Dataset(),
        target=TARGET,
        train=times,
        valid=times[:0],
    )


@pytest.fixture(scope="module")
def data() -> FitData:
    return make()


def fitted(name: str, data: FitData, **settings: object) -> Method:
    return method_class(name)(TARGET, settings).fit(data)


def pairs(data: FitData) -> pd.DataFrame:
    """Mean, variance and truth of all complete pairs, read by pandas."""
    wide = data.full.astype(float).to_dataframe()["t2m"].unstack("number")
    wide = wide.groupby(["time", "station"]).first()
    frame = pd.DataFrame({"mean": wide.mean(axis=1, skipna=False), "var": wide.var(axis=1)})
    assert data.truth is not None
    frame["truth"] = data.truth.astype(float).to_series()
    return frame.dropna().reset_index()


def test_each_station_learns_from_the_dates_it_has(data: FitData) -> None:
    frame = pairs(data)
    own = frame[frame["station"].isin(["s0", "s1", "s2", "s3"])]
    error = own["mean"] - own["truth"]
    bias = fitted("bias", data).parameters["bias"]
    np.testing.assert_allclose(bias[:4], error.groupby(own["station"]).mean(), rtol=1e-4)
    climatology = fitted("climatology", data).parameters
    known = data.truth.to_series().astype(float).dropna()
    np.testing.assert_allclose(climatology["mean"][:4], known.groupby("station").mean()[:4])
    np.testing.assert_allclose(climatology["spread"][:4], known.groupby("station").std()[:4])
    emos = fitted("emos", data, prior=0.0).parameters
    for station in ("s0", "s3"):
        part = frame[frame["station"] == station]
        columns = [part[name].to_numpy()[:, None] for name in ("mean", "var", "truth")]
        alone = fit_coefficients(*columns, prior=0.0)
        for name, value in zip("abcd", alone[:4], strict=True):
            found = emos[name].sel(station=station)
            np.testing.assert_allclose(found, value[0], rtol=5e-3, atol=5e-3)


def test_stations_with_few_pairs_take_what_all_have_in_common(data: FitData) -> None:
    frame = pairs(data)
    bias = fitted("bias", data)
    everywhere = (frame["mean"] - frame["truth"]).mean()
    np.testing.assert_allclose(bias.parameters["bias"][4:], everywhere, rtol=1e-5)
    assert bias.parameters.attrs["pooled"] == 2
    climatology = fitted("climatology", data).parameters
    known = data.truth.to_series().astype(float).dropna()
    np.testing.assert_allclose(climatology["mean"][4:], known.mean())
    np.testing.assert_allclose(climatology["spread"][4:], known.std())
    emos = fitted("emos", data)
    columns = [frame[name].to_numpy()[:, None] for name in ("mean", "var", "truth")]
    pooled = fit_coefficients(*columns, pool=True)
    assert emos.parameters.attrs["pooled"] == 2
    for name, value in zip("abcd", pooled[:4], strict=True):
        np.testing.assert_allclose(emos.parameters[name][4:], value[0], rtol=1e-3, atol=1e-3)
    own = fitted("bias", data, least_dates=2).parameters  # five reports are enough then
    assert own.attrs["pooled"] == 1
    assert abs(float(own["bias"][4]) - everywhere) > 0.1


@pytest.mark.parametrize("name", LEARNING)
def test_predictions_are_missing_where_the_forecast_is(
    name: str, data: FitData, tmp_path: Path
) -> None:
    method = fitted(name, data)
    dist = method.predict(data.forecast)
    there = scores.mean(dist).notnull()
    expected = data.full.notnull().all("number")
    np.testing.assert_array_equal(there, expected)
    field = dist["mean" if distribution.form_of(dist) == "normal" else "value"]
    assert field.attrs["gaps"] == GAPS
    method.save(tmp_path, {})
    xr.testing.assert_identical(load_model(tmp_path).predict(data.forecast), dist)


@pytest.mark.parametrize("name", LEARNING)
def test_gaps_that_are_meant_but_not_there_change_nothing(name: str) -> None:
    data = make(gaps=False)
    strict = replace(data, forecast=data.forecast.copy(), truth=data.truth.copy())
    del strict.forecast["t2m"].attrs["gaps"], strict.truth.attrs["gaps"]
    for dates in (data.train, data.train[:2]):
        one = fitted(name, replace(data, train=dates)).parameters
        two = fitted(name, replace(strict, train=dates)).parameters
        xr.testing.assert_allclose(one, two)
        assert one.attrs["pooled"] == 0


@pytest.mark.parametrize("name", LEARNING)
def test_gaps_are_refused_unless_they_are_meant(name: str, data: FitData) -> None:
    truth = data.truth.copy()
    del truth.attrs["gaps"]
    with pytest.raises(InputError, match=r"analysis of t2m: \d+ of 240 training values are miss"):
        fitted(name, replace(data, truth=truth))
    endless = data.truth.copy()
    endless[0, 0] = np.inf
    with pytest.raises(InputError, match="1 of 240 training values are infinite"):
        fitted(name, replace(data, truth=endless))


@pytest.mark.parametrize("name", LEARNING)
def test_nothing_to_learn_from(name: str, data: FitData) -> None:
    with pytest.raises(InputError, match=r"both a forecast and an analysis|two analyses"):
        fitted(name, replace(data, truth=data.truth.where(False).assign_attrs(data.truth.attrs)))


def test_spread_of_the_members_that_are_there(data: FitData) -> None:
    full = data.full.copy()
    full[5:, :, 4] = np.nan
    few = data.forecast.isel(number=slice(3)).where(full.notnull().all("number"))
    few["t2m"].attrs = data.forecast["t2m"].attrs
    spread = replace(data, forecast=few.transpose(*data.forecast.dims), full=full)
    method = fitted("spread-regression", spread, prior=0.0)
    assert method.parameters.attrs["pooled"] == 1
    x, y = (part.std("number", ddof=1, skipna=False) for part in (few["t2m"].isel(step=0), full))
    both = x.notnull() & y.notnull()
    slope, intercept = np.polyfit(x[:, 0][both[:, 0]], y[:, 0][both[:, 0]], 1)
    np.testing.assert_allclose(method.parameters["slope"][0], slope, rtol=1e-4)
    np.testing.assert_allclose(method.parameters["intercept"][0], intercept, rtol=1e-4)
    slope, intercept = np.polyfit(x.values[both], y.values[both], 1)
    np.testing.assert_allclose(method.parameters["slope"][4], slope, rtol=1e-4)
    np.testing.assert_allclose(method.parameters["intercept"][4], intercept, rtol=1e-4)
    np.testing.assert_array_equal(method.predict(few)["spread"].notnull(), x.notnull())


def test_scores_of_the_same_pairs(data: FitData) -> None:
    dists = [fitted(name, data).predict(data.forecast) for name in ("raw", *LEARNING)]
    truth = table.same_pairs(dists, data.truth)
    frame = pairs(data)
    assert int(truth.count()) == len(frame)
    found = [
        table.score_method("m", dist, truth, TARGET, members=MEMBERS, nan_policy="omit")
        for dist in dists
    ]
    assert {int(rows) for one in found for rows in one.rows["pairs"]} == {len(frame)}
    dates = frame.groupby("time")
    for one in found:
        crps = one.per_date[one.per_date["score"] == "crps"]
        first = crps[crps["estimator"] == crps["estimator"].iloc[0]].set_index("time")
        np.testing.assert_array_equal(first["pairs"], dates.size())
    raw = found[0].per_date
    error = raw[raw["score"] == "error"].set_index("time")["value"]
    np.testing.assert_allclose(
        error, (frame["mean"] - frame["truth"]).groupby(frame["time"]).mean(), atol=1e-4
    )
    variance = raw[raw["score"] == "variance"].set_index("time")["value"]
    np.testing.assert_allclose(variance, dates["var"].mean(), rtol=1e-4)
    histogram = calibration.ranks(dists[0], truth, nan_policy="omit")
    assert float(histogram.sum()) == pytest.approx(1)
    with pytest.raises(InputError, match="NaN"):
        calibration.ranks(dists[0], truth)
    with pytest.raises(InputError, match="no point has both"):
        calibration.ranks(dists[0], truth.where(False), nan_policy="omit")


def test_dates_without_a_pair_are_left_out(data: FitData) -> None:
    dist = fitted("raw", data).predict(data.forecast)
    truth = data.truth.copy()
    truth[3] = np.nan
    scored = table.score_method("m", dist, truth, TARGET, members=MEMBERS, nan_policy="omit")
    assert (scored.rows["dates"] == DATES - 1).all()
    assert data.train[3] not in set(scored.per_date["time"])
    with pytest.raises(InputError, match="are NaN"):
        table.score_method("m", dist, truth, TARGET, members=MEMBERS)
