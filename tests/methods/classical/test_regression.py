"""EMOS of the families: its search, its predictors and its scopes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import optimize

from weatherpp import distribution
from weatherpp.errors import ConfigError, InputError
from weatherpp.families import FAMILIES
from weatherpp.methods.base import FitData, load_model
from weatherpp.methods.classical.clusters import clusters
from weatherpp.methods.classical.emos import LocalEmos
from weatherpp.methods.classical.regression import Sample, fit_regression, regression
from weatherpp.methods.season import harmonics
from weatherpp.recipe import Target
from weatherpp.verify import scores

ALL = np.array([-1])
KNOWN = {"a": 0.5, "b": 0.8, "c": 0.4, "d": 0.6, "e": 0.7, "shift": 0.5, "curve": 0.5, "unit": 2.0}
TP = Target(variable="tp", step="24h")


def sample(name: str, link: Any = "variance", dates: int = 1200, dry: bool = True):
    """A model and a sample that follows it with the coefficients KNOWN."""
    rng = np.random.default_rng(1)
    model = regression(name, link, dry)
    mean, sd = rng.gamma(1.2, 3, (dates, 1)), rng.gamma(2, 1, (dates, 1))
    part = rng.uniform(0, 1, (dates, 1))
    parameters = model.parameters(KNOWN, mean, sd, part)
    truth = model.family.ppf(rng.uniform(size=(dates, 1)), *parameters)
    return model, Sample(mean, sd, part, truth)


def score(model, coefficients, data: Sample, what: str = "crps") -> float:
    parameters = model.parameters(coefficients, data.mean, data.sd, data.dry)
    return float(getattr(model.family, what)(data.truth, *parameters).mean())


@pytest.mark.parametrize("criterion", ["crps", "likelihood"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_is_no_worse_than_the_coefficients_the_sample_was_made_with(name, criterion) -> None:
    model, data = sample(name)
    found = fit_regression(model, data, ALL, criterion=criterion)
    assert found.failed == 0
    assert found.pooled == 1
    what = "crps" if criterion == "crps" else "log_score"
    own, known = score(model, found.coefficients, data, what), score(model, KNOWN, data, what)
    assert own <= known
    assert own == pytest.approx(known, abs=1e-2 * max(1, abs(known)))


@pytest.mark.parametrize("name", ["censored-logistic", "squared-censored-logistic"])
def test_recovers_known_coefficients(name: str) -> None:
    model, data = sample(name, dates=20_000)
    found = fit_regression(model, data, ALL, criterion="likelihood").coefficients
    for key in model.names:
        assert float(found[key][0]) == pytest.approx(KNOWN[key], abs=0.06), key


@pytest.mark.parametrize("link", ["variance", "log"])
def test_recovers_a_season_of_location_and_scale(link: Any) -> None:
    _, data = sample("normal", link, dates=8000, dry=False)
    model = regression("normal", link, False, harmonics=1)
    times = pd.date_range("2000-01-01", periods=8000, freq="D")
    waves = harmonics(times)
    known = {**KNOWN, "m1": 1.5, "m2": -0.5, "n1": 0.3, "n2": 0.2}
    parameters = model.parameters(known, data.mean, data.sd, data.dry, waves.T[..., None])
    truth = model.family.ppf(np.random.default_rng(6).uniform(size=(8000, 1)), *parameters)
    found = fit_regression(model, data._replace(truth=truth), ALL, waves=waves)
    assert found.failed == 0
    for key in model.names:
        assert float(found.coefficients[key][0]) == pytest.approx(known[key], abs=0.08), key
    own = model.parameters(found.coefficients, data.mean, data.sd, data.dry, waves.T[..., None])
    assert model.family.crps(truth, *own).mean() <= model.family.crps(truth, *parameters).mean()


def test_reaches_the_minimum_that_a_search_without_slopes_finds() -> None:
    model, data = sample("truncated-normal", "log", dates=200, dry=False)
    found = fit_regression(model, data, ALL).coefficients

    def objective(theta: np.ndarray) -> float:
        return score(model, dict(zip(model.names, theta, strict=True)), data)

    own = np.array([float(found[key][0]) for key in model.names])
    options = {"xatol": 1e-6, "fatol": 1e-9}
    best = optimize.minimize(objective, own + 0.05, method="Nelder-Mead", options=options)
    assert objective(own) <= best.fun * (1 + 1e-6)


@pytest.mark.parametrize("name", ["log-normal", "censored-shifted-gamma", "truncated-normal"])
def test_units_do_not_matter(name: str) -> None:
    model, data = sample(name, dates=300)
    small = fit_regression(model, data, ALL).coefficients
    factor = 1e-3
    scaled = Sample(data.mean * factor, data.sd * factor, data.dry, data.truth * factor)
    big = fit_regression(model, scaled, ALL).coefficients
    assert score(model, big, scaled) == pytest.approx(factor * score(model, small, data), rel=1e-4)


def test_points_have_coefficients_of_their_own_or_of_their_group() -> None:
    model, one = sample("logistic", dates=400)
    data = Sample(*(np.repeat(part, 4, axis=1) for part in one))
    data.truth[:, 2:] += 5
    found = fit_regression(model, data, np.array([0, 1, 7, 7]), prior=0.0).coefficients["a"]
    np.testing.assert_allclose(found - found[0], [0, 0, 5, 5], atol=1e-3)
    assert found[2] == found[3]


def test_a_search_cut_short_is_counted_and_keeps_the_coefficients_of_all(monkeypatch) -> None:
    from weatherpp.methods.classical import regression as module

    model, one = sample("logistic", dates=50)
    data = Sample(*(np.repeat(part, 3, axis=1) for part in one))
    data.truth[:, 2] += 5
    pooled = fit_regression(model, data, np.full(3, -1)).coefficients
    real = module.optimize.minimize

    def short(function, start, **settings):
        inside = function.__closure__ is not None and not np.allclose(start, model.start)
        settings["options"]["maxiter"] = 1 if inside else 200
        return real(function, start, **settings)

    monkeypatch.setattr(module.optimize, "minimize", short)
    found = fit_regression(model, data, np.array([0, 1, 2]), prior=0.0)
    assert found.failed == 3
    np.testing.assert_allclose(found.coefficients["c"], pooled["c"], rtol=0.5)


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"normal"}))
def test_degenerate_points_stay_finite(name: str) -> None:
    model, one = sample(name, dates=40, dry=True)
    data = Sample(*(np.repeat(part, 6, axis=1) for part in one))
    data.truth[:, 0] = 0.0 if name != "log-normal" else 0.01  # always dry
    data.mean[:, 1] = data.sd[:, 1] = 0.0  # always forecast dry
    data.mean[:, 2], data.truth[:, 2] = 2.0, 1.6  # constant, and so is the error
    data.sd[:, 3] = 0.0
    data.truth[:, 4] = data.mean[:, 4] ** (1 / model.family.powers[0])  # without error
    data.truth[3:, 5] = np.nan
    found = fit_regression(model, data, np.arange(6))
    parameters = model.parameters(found.coefficients, data.mean, data.sd, data.dry)
    there = np.isfinite(data.truth)
    assert np.isfinite(model.family.crps(data.truth, *parameters)[there]).all()
    assert np.isfinite(model.family.mean(*parameters)).all()
    assert found.failed <= 1


@pytest.mark.parametrize(
    ("name", "criterion", "low", "words"),
    [
        ("truncated-normal", "crps", -1.0, "no values below 0"),
        ("log-normal", "likelihood", 0.0, "gives zero no likelihood"),
    ],
)
def test_values_that_the_family_does_not_have_are_refused(name, criterion, low, words) -> None:
    model, data = sample(name, dates=20)
    data.truth[3] = low
    with pytest.raises(InputError, match=words):
        fit_regression(model, data, ALL, criterion=criterion)


def rain(dates: int = 200, points: int = 4) -> FitData:
    """Stations with rain on about half of the days; the ensemble is three times too wet."""
    rng = np.random.default_rng(3)
    times = pd.date_range("2020-01-01", periods=dates, freq="D")
    level = rng.normal(0.3, 1.2, (dates, 1, points))
    full = 3e-3 * np.maximum(level + 0.3 * rng.normal(size=(dates, 11, points)), 0) ** 2
    truth = 1e-3 * np.maximum(level[:, 0] + rng.logistic(0, 0.8, (dates, points)), 0) ** 2
    coords = {"time": times, "number": np.arange(11), "station": [f"s{i}" for i in range(points)]}
    field = xr.DataArray(full.astype("f4"), coords, list(coords), "tp")
    field.attrs = {"units": "m", "long_name": "precipitation", "standard_name": "rain"}
    step = pd.TimedeltaIndex(["24h"])
    return FitData(
        forecast=field.expand_dims(step=step).transpose("time", "step", ...).to_dataset(),
        truth=field.isel(number=0, drop=True).copy(data=truth.astype("f4")),
        full=field,
        static=xr.Dataset(),
        target=TP,
        train=times[: dates * 4 // 5],
        valid=times[:0],
    )


@pytest.fixture(scope="module")
def data() -> FitData:
    return rain()


FORMS = [
    {"family": "squared-censored-logistic"},
    {"family": "squared-censored-logistic", "dry": 1e-5, "criterion": "likelihood", "link": "log"},
    {"family": "censored-shifted-gamma", "dry": 1e-5, "scope": "semi-local", "clusters": 2},
    {"family": "censored-logistic", "scope": "global"},
    {"family": "truncated-normal", "scope": "global"},
    {"family": "log-normal", "scope": "global"},
    {"family": "logistic", "scope": "global"},
    {"family": "normal", "criterion": "likelihood", "scope": "global"},
    {"family": "normal", "scope": "semi-local", "clusters": 2},
    {"family": "squared-censored-logistic", "season": 1},
]


@pytest.mark.parametrize("settings", FORMS, ids=lambda s: "-".join(map(str, s.values())))
def test_method_saves_predicts_lazily_and_beats_the_raw_ensemble(settings, data, tmp_path) -> None:
    assert data.truth is not None
    method = LocalEmos(TP, settings).fit(data)
    method.save(tmp_path / "model", {})
    later = ~data.forecast["time"].isin(data.train)
    forecast, truth = data.forecast.sel(time=later), data.truth.sel(time=later)
    dist = method.predict(forecast)
    assert method.fitted().attrs["not_converged"] == 0
    assert distribution.form_of(dist) == settings["family"]
    xr.testing.assert_identical(dist, load_model(tmp_path / "model").predict(forecast))
    lazy = method.predict(forecast.chunk({"time": 20}))
    assert all(variable.chunks is not None for variable in lazy.data_vars.values())
    xr.testing.assert_allclose(lazy.compute(), dist)
    mean = distribution.mean(dist)
    assert mean.dtype == np.float32
    assert mean.dims == ("time", "station")
    assert mean.attrs["units"] == "m"
    assert mean.attrs["long_name"] == "precipitation"
    raw = distribution.members(forecast["tp"].isel(step=0, drop=True))
    own, members = scores.crps(dist, truth).mean(), scores.crps(raw, truth, "fair").mean()
    assert float(own) < float(members)


def test_rain_is_better_told_by_families_with_a_mass_at_zero(data) -> None:
    later = ~data.forecast["time"].isin(data.train)
    forecast, truth = data.forecast.sel(time=later), data.truth.sel(time=later)

    def mean_score(**settings: Any) -> float:
        dist = LocalEmos(TP, {"scope": "global", **settings}).fit(data).predict(forecast)
        return float(scores.crps(dist, truth).mean())

    normal = mean_score()
    assert mean_score(family="squared-censored-logistic") < 0.97 * normal
    assert mean_score(family="censored-shifted-gamma") < 0.97 * normal


def test_gaps_are_left_out_and_few_dates_take_the_coefficients_of_all(data) -> None:
    from weatherpp.conventions import GAPS

    assert data.truth is not None
    truth = data.truth.copy().assign_attrs(gaps=GAPS)
    truth[:150, 2] = np.nan
    truth[5, 0] = np.nan
    gapped = replace(data, truth=truth)
    own = LocalEmos(TP, {"family": "censored-logistic", "least_dates": 20}).fit(gapped).fitted()
    assert own.attrs["pooled"] == 1
    pooled = LocalEmos(TP, {"family": "censored-logistic", "scope": "global"}).fit(gapped).fitted()
    assert float(own["b"][2]) == pytest.approx(float(pooled["b"][2]), rel=0.2)
    assert float(own["b"][0]) != float(own["b"][2])


def test_clusters_find_points_of_a_kind() -> None:
    rng = np.random.default_rng(5)
    truth = rng.normal(0, 1, (200, 30))
    truth[:, 10:20] *= 4
    error = rng.normal(0, 1, (200, 30)) + np.where(np.arange(30) < 20, 0, 3)
    enough = np.arange(30) != 4
    found = clusters(truth, error, enough, 3, seed=1)
    assert found[4] == -1
    kinds = [set(found[part][enough[part]]) for part in (slice(10), slice(10, 20), slice(20, 30))]
    assert [len(kind) for kind in kinds] == [1, 1, 1]
    assert len(set.union(*kinds)) == 3
    assert set(clusters(truth, error, enough, 100, seed=1)) <= set(range(-1, 29))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"family": "normal", "dry": 0.0}, "dry goes with"),
        ({"family": "log-normal", "link": "log"}, "link log goes with"),
        ({"family": "censored-shifted-gamma", "season": 1}, "season goes with"),
        ({"family": "gaussian"}, "family"),
    ],
)
def test_settings_that_do_not_fit_together(settings, words) -> None:
    with pytest.raises(ConfigError, match=words):
        LocalEmos(TP, settings)
