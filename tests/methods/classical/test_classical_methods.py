"""The classical methods through their common interface."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp import distribution
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.recipe import Target
from weatherpp.strict import digest
from weatherpp.verify import scores

TARGET = Target(variable="t", level=500, step="48h")
NAMES = ("raw", "climatology", "bias", "emos", "mbm", "idr", "spread-regression")
TRAIN = 40


def make(dates: int = 60, members: int = 4, seed: int = 0) -> FitData:
    """A biased, underdispersive ensemble of 20, of which the method sees the first ones."""
    rng = np.random.default_rng(seed)
    times = pd.date_range("2020-01-01", periods=dates, freq="5D")
    grid = {"latitude": np.linspace(75, -75, 6), "longitude": np.arange(8) * 45.0}
    width = rng.uniform(0.5, 2.0, (dates, 1, 6, 8))
    signal = rng.normal(260, 6, (dates, 1, 6, 8))
    bias = rng.normal(0, 2, (6, 8))
    full = signal + bias + 0.6 * width * rng.normal(size=(dates, 20, 6, 8))
    truth = signal[:, 0] + width[:, 0] * rng.normal(size=(dates, 6, 8))
    coords = {"time": times, "number": np.arange(20), **grid}
    target = xr.DataArray(full.astype("f4"), coords=coords, dims=list(coords), name="t")
    target.attrs = {"units": "K", "long_name": "temperature"}
    forecast = xr.concat([target - 1, target, target + 5], pd.Index([200, 500, 800], name="level"))
    forecast = forecast.assign_attrs(target.attrs)
    steps = pd.TimedeltaIndex(["24h", "48h"])
    both = xr.concat([forecast - 3, forecast], pd.Index(steps, name="step"))
    ds = both.assign_attrs(target.attrs).to_dataset(name="t").transpose("time", "step", ...)
    analysis = target.isel(number=0, drop=True).copy(data=truth.astype("f4"))
    return FitData(
        forecast=ds.isel(number=slice(members)),
        truth=analysis,
        full=target,
        static=xr.Dataset(),
        target=TARGET,
        train=times[:TRAIN],
        valid=times[:0],
    )


@pytest.fixture(scope="module")
def data() -> FitData:
    return make()


@pytest.fixture(scope="module")
def test_part(data: FitData) -> tuple[xr.Dataset, xr.DataArray, xr.DataArray]:
    later = slice(TRAIN, None)
    assert data.truth is not None
    return data.forecast.isel(time=later), data.truth.isel(time=later), data.full.isel(time=later)


def fitted(name: str, data: FitData, **settings):
    return method_class(name)(TARGET, settings).fit(data)


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load_give_the_same_prediction(name, data, test_part, tmp_path: Path) -> None:
    method = fitted(name, data)
    before = method.predict(test_part[0])
    method.save(tmp_path / "model", {"label": name})
    after = load_model(tmp_path / "model").predict(test_part[0])
    xr.testing.assert_identical(before, after)
    assert not [
        f for f in (tmp_path / "model").iterdir() if f.suffix not in (".json", ".nc", ".md")
    ]
    load_model(tmp_path / "model").save(tmp_path / "again", {"label": name})
    contents = [(tmp_path / f / "model.json").read_text() for f in ("model", "again")]
    assert contents[0] == contents[1]
    assert ('"not_converged": 0' in contents[0]) == (name in ("emos", "mbm"))


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_aligned_distributions(name, data, test_part) -> None:
    forecast, truth, _ = test_part
    dist = fitted(name, data).predict(forecast)
    form = distribution.form_of(dist)
    assert dist.attrs["target"] == "t500"
    assert dist.attrs["variable"] == "t"
    value = dist["mean" if form == "normal" else "value"]
    assert value.dtype == np.float32
    assert value.attrs["units"] == "K"
    assert value.dims[0] == "time"
    assert np.isfinite(scores.crps(dist, truth)).all()


@pytest.mark.parametrize("name", NAMES)
def test_lazy_input_gives_the_same(name, data, test_part) -> None:
    lazy = replace(data, forecast=data.forecast.chunk({"time": 7, "number": 2}))
    before = fitted(name, data).predict(test_part[0])
    after = fitted(name, lazy).predict(test_part[0].chunk({"time": 5})).compute()
    xr.testing.assert_allclose(before, after)


def test_each_step_of_calibration_helps(data, test_part) -> None:
    forecast, truth, _ = test_part

    def mean_score(name: str, **settings: str) -> float:
        dist = fitted(name, data, **settings).predict(forecast)
        # like with like: members as the normal distribution that they suggest
        members = distribution.form_of(dist) == "members"
        return float(scores.crps(dist, truth, "gaussian" if members else None).mean())

    means = [mean_score(name) for name in ("climatology", "raw", "bias", "emos")]
    assert means == sorted(means, reverse=True)
    assert mean_score("emos", scope="global") > means[-1]  # the bias is local


def test_raw_is_the_members(data, test_part) -> None:
    dist = fitted("raw", data).predict(test_part[0])
    np.testing.assert_array_equal(dist["value"], test_part[2].isel(number=slice(4)))


def test_climatology_is_mean_and_deviation_of_training(data, test_part) -> None:
    dist = fitted("climatology", data).predict(test_part[0])
    assert data.truth is not None
    train = data.truth.isel(time=slice(TRAIN)).astype(float)
    np.testing.assert_allclose(dist["mean"].isel(time=3), train.mean("time"), rtol=1e-6)
    np.testing.assert_allclose(dist["spread"].isel(time=0), train.std("time", ddof=1), rtol=1e-6)


@pytest.mark.parametrize("form", ["normal", "quantiles"])
def test_climatology_of_the_season_is_that_of_the_days_around(form, data, test_part, tmp_path):
    settings = {"window": 30, "form": form, "least_dates": 6}
    corner = {"latitude": slice(2), "longitude": slice(2)}
    assert data.truth is not None
    part = replace(data, forecast=data.forecast.isel(corner), truth=data.truth.isel(corner))
    method, forecast = fitted("climatology", part, **settings), test_part[0].isel(corner)
    dist = method.predict(forecast)
    train = part.truth.isel(time=slice(TRAIN)).astype(float)
    day = (data.train + pd.Timedelta("48h")).day_of_year.to_numpy()
    for at, whole in ((0, False), (13, True)):  # far from all training dates at last
        now = (dist.indexes["time"][at] + pd.Timedelta("48h")).day_of_year
        away = np.minimum(np.abs(day - now), 365.25 - np.abs(day - now))
        assert bool((away <= 30).sum() < 6) is whole
        near = train if whole else train.isel(time=away <= 30)
        if form == "normal":
            np.testing.assert_allclose(dist["mean"][at], near.mean("time"), rtol=1e-6)
        else:
            value = dist["value"].sel(quantile=0.905)[at]
            np.testing.assert_allclose(value, near.quantile(0.905, "time"), rtol=1e-6)
    method.save(tmp_path / "model", {})
    xr.testing.assert_identical(load_model(tmp_path / "model").predict(forecast), dist)


def test_bias_is_removed_exactly_in_training_and_the_spread_is_kept(data) -> None:
    train = data.forecast.isel(time=slice(TRAIN))
    dist = fitted("bias", data).predict(train)
    error = dist["value"].mean("number") - data.truth
    np.testing.assert_allclose(error.mean("time"), 0, atol=1e-4)
    raw = fitted("raw", data).predict(train)
    np.testing.assert_allclose(distribution.spread(dist), distribution.spread(raw), atol=1e-4)


def test_emos_is_calibrated_and_gives_mean_and_spread(data, test_part) -> None:
    forecast, truth, _ = test_part
    emos = fitted("emos", data)
    dist = emos.predict(forecast)
    ratio = float(scores.variance(dist).mean() / scores.squared_error(dist, truth).mean()) ** 0.5
    assert ratio == pytest.approx(1, abs=0.12)
    mean, spread = emos.mean_spread(forecast)
    xr.testing.assert_equal(mean, dist["mean"])
    assert (spread > 0).all()
    assert emos.parameters.attrs["not_converged"] == 0
    assert emos.parameters.attrs["dates"] == TRAIN


def test_emos_with_one_member_and_with_two_dates(test_part) -> None:
    one = make(members=1)
    dist = fitted("emos", one).predict(one.forecast)
    assert (dist["spread"] > 0).all()
    assert float(dist["spread"].std("time").max()) < 1e-5
    data = make()
    two = replace(data, train=data.train[:2])
    for name in NAMES:
        assert np.isfinite(scores.crps(fitted(name, two).predict(test_part[0]), test_part[1])).all()


def test_spread_regression_is_closer_to_the_full_spread(data, test_part) -> None:
    forecast, _, full = test_part
    reference = full.std("number", ddof=1)
    no_truth = replace(data, truth=None)
    dist = fitted("spread-regression", no_truth).predict(forecast)
    raw = fitted("raw", no_truth).predict(forecast)
    own, before = (float(scores.spread_squared_error(d, reference).mean()) for d in (dist, raw))
    assert own < 0.8 * before
    assert (dist["spread"] > 0).all()
    np.testing.assert_allclose(dist["mean"], raw["value"].mean("number"), rtol=1e-6)


@pytest.mark.parametrize("name", ["climatology", "bias", "emos"])
def test_faults_in_training_data_are_named(name, data) -> None:
    with pytest.raises(InputError, match="no data for the training date 2030"):
        fitted(name, replace(data, train=pd.DatetimeIndex(["2030-01-01"])))
    with pytest.raises(InputError, match="no training dates"):
        fitted(name, replace(data, train=data.train[:0]))
    with pytest.raises(InputError, match="learns from analyses"):
        fitted(name, replace(data, truth=None))
    holes = data.truth.copy()
    holes[0, 0, 0] = np.nan
    with pytest.raises(InputError, match="1 of 1920 training values are missing"):
        fitted(name, replace(data, truth=holes))


@pytest.mark.parametrize("name", ["bias", "emos"])
def test_shifted_analyses_are_refused(name, data) -> None:
    shifted = data.truth.assign_coords(longitude=data.truth.longitude + 1e-6)
    with pytest.raises(InputError, match="'longitude' differs"):
        fitted(name, replace(data, truth=shifted))


@pytest.mark.parametrize("name", ["climatology", "bias", "emos", "spread-regression"])
def test_prediction_on_another_grid_is_refused(name, data, test_part) -> None:
    method = fitted(name, data)
    with pytest.raises(InputError, match="longitude"):
        method.predict(test_part[0].isel(longitude=slice(4)))
    moved = test_part[0].assign_coords(longitude=test_part[0].longitude + 1)
    with pytest.raises(InputError, match="another grid"):
        method.predict(moved)


def test_not_fitted_and_wrong_settings(data) -> None:
    with pytest.raises(InputError, match="not fitted"):
        method_class("emos")(TARGET).predict(data.forecast)
    with pytest.raises(ConfigError, match="did you mean 'scope'"):
        method_class("emos")(TARGET, {"scop": "local"})


def edited(folder: Path, **changes: object) -> None:
    """Change entries of a model's card and give it the hash of its new content."""
    card = folder / "model.json"
    content = {**json.loads(card.read_text()), **changes}
    del content["digest"]
    card.write_text(json.dumps({**content, "digest": digest(content)}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, r"a model folder of format 2, written by weatherpp 9\.9; this one reads "),
        ({"target": {"variable": "t", "step": "x"}}, r"target: step: 'x' is not a lead time"),
        ({"target": {"variable": "t", "height": 2}}, r"target: unknown key 'height'"),
        ({"target": None}, r"target: expected 'key: value' lines, found nothing"),
        ({"settings": {"least_dates": 0}}, r"method bias: least_dates: must be 2 or more"),
        ({"method": "newer"}, r"no method 'newer'"),
    ],
)
def test_a_card_of_another_version_is_told_in_words(data, tmp_path: Path, change, said) -> None:
    fitted("bias", data).save(tmp_path, {"weatherpp": "9.9"})
    edited(tmp_path, **change)
    with pytest.raises(InputError, match=said) as caught:
        load_model(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: ")


@pytest.mark.parametrize("content", [b"\x80\x04K\x01.", b"", b"[" * 100_000, b"[]"])
def test_a_card_that_is_none_is_told(data, tmp_path: Path, content: bytes) -> None:
    fitted("bias", data).save(tmp_path, {})
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(InputError, match=r"not a model folder \(model\.json is no (JSON|table)\)"):
        load_model(tmp_path)


def test_infinite_values_are_not_called_missing(data) -> None:
    truth = data.truth.copy(deep=True)
    truth[3, 1, 1] = np.inf
    with pytest.raises(InputError, match=r"1 of 1920 training values are infinite, first on"):
        fitted("bias", replace(data, truth=truth))


def test_damaged_model_folder(data, tmp_path: Path) -> None:
    fitted("bias", data).save(tmp_path, {})
    path = tmp_path / "parameters.nc"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1  # one flipped bit, which netCDF would read without a word
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"parameters\.nc: is not what was fitted"):
        load_model(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"parameters\.nc: missing from the model folder"):
        load_model(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(InputError, match=r"model\.json: is not what was fitted"):
        load_model(tmp_path)
