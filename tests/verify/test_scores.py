"""Scores of the forms of a predictive distribution; alignment; ranks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scoringrules
import xarray as xr

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import calibration, scores

LAT, LON = [60.0, 0.0, -60.0], [0.0, 90.0, 180.0, 270.0]


def field(seed: int, times: int = 5, number: int = 0, dtype: str = "f4") -> xr.DataArray:
    rng = np.random.default_rng(seed)
    coords = {
        "time": pd.date_range("2020-01-01", periods=times),
        **({"number": np.arange(number)} if number else {}),
        "latitude": LAT,
        "longitude": LON,
    }
    shape = [len(v) for v in coords.values()]
    values = rng.normal(280, 2, shape).astype(dtype)
    return xr.DataArray(values, coords=coords, dims=list(coords), attrs={"units": "K"}, name="t2m")


@pytest.fixture
def truth() -> xr.DataArray:
    return field(1)


@pytest.fixture
def ensemble() -> xr.Dataset:
    return distribution.members(field(2, number=6))


def test_members_three_ways(ensemble: xr.Dataset, truth: xr.DataArray) -> None:
    x = ensemble["value"].values.astype(float)
    y = truth.values.astype(float)
    expected = {
        "plain": scoringrules.crps_ensemble(y, x, m_axis=1, estimator="nrg", backend="numpy"),
        "fair": scoringrules.crps_ensemble(y, x, m_axis=1, estimator="fair", backend="numpy"),
        "gaussian": scoringrules.crps_normal(y, x.mean(1), x.std(1, ddof=1)),
    }
    for estimator in scores.estimators_of(ensemble):
        score = scores.crps(ensemble, truth, estimator)
        assert estimator is not None
        np.testing.assert_allclose(score, expected[estimator], atol=1e-6)
        assert score.dims == truth.dims
        assert score.attrs["estimator"] == estimator
        assert score.attrs["members"] == 6
        assert score.attrs["units"] == "K"
        assert score.dtype == np.float64


def test_normal_and_quantiles(truth: xr.DataArray) -> None:
    mean, spread = field(3), abs(field(4) - 280) + 0.1
    normal = distribution.normal(mean, spread)
    score = scores.crps(normal, truth)
    expected = scoringrules.crps_normal(*(a.values.astype(float) for a in (truth, mean, spread)))
    np.testing.assert_allclose(score, expected, rtol=1e-6)
    levels = (np.arange(99) + 0.5) / 99
    quantiles = distribution.quantiles(distribution.quantile(normal, list(levels)))
    pinball = scores.crps(quantiles, truth)
    value = quantiles["value"].transpose(..., "quantile").values.astype(float)
    np.testing.assert_allclose(
        pinball,
        scoringrules.crps_quantile(truth.values.astype(float), value, levels, backend="numpy"),
        rtol=1e-5,
    )
    np.testing.assert_allclose(pinball, score, rtol=0.02, atol=0.01)
    with pytest.raises(InputError, match="leave the estimator out"):
        scores.crps(normal, truth, "fair")


def test_lazy_and_chunked_members_give_the_same(ensemble: xr.Dataset, truth: xr.DataArray) -> None:
    lazy = ensemble.chunk({"number": 2, "time": 2})
    for estimator in ("plain", "gaussian"):
        score = scores.crps(lazy, truth.chunk({"time": 2}), estimator)
        assert score.chunks is not None
        np.testing.assert_allclose(score, scores.crps(ensemble, truth, estimator), rtol=1e-12)
    assert scores.squared_error(lazy, truth).chunks is not None


def test_order_of_dimensions_does_not_matter(ensemble: xr.Dataset, truth: xr.DataArray) -> None:
    turned = ensemble.transpose("longitude", "number", "time", "latitude")
    expected = scores.crps(ensemble, truth, "fair")
    xr.testing.assert_allclose(
        scores.crps(turned, truth, "fair").transpose(*expected.dims), expected
    )


def test_one_member(truth: xr.DataArray) -> None:
    one = distribution.members(field(2, number=1))
    assert scores.estimators_of(one) == ("plain",)
    score = scores.crps(one, truth, "plain")
    assert "absolute error" in score.attrs["method"]
    np.testing.assert_allclose(score, np.abs(one["value"][:, 0] - truth), atol=1e-4)
    for estimator in ("fair", "gaussian", None):
        with pytest.raises(InputError, match="one"):
            scores.crps(one, truth, estimator)
    with pytest.raises(InputError, match="one member"):
        scores.variance(one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.assign_coords(longitude=t.longitude + 1e-9), "'longitude' differs in 4 of 4"),
        (lambda t: t.assign_coords(time=t.time + np.timedelta64(1, "D")), "'time' differs in 5"),
        (lambda t: t.isel(time=slice(1, None)), "'time' has 5 values in the forecast and 4"),
        (lambda t: t.rename(time="valid_time"), "dimensions"),
        (lambda t: t.expand_dims(step=[0]), "dimensions"),
        (lambda t: t.isel(latitude=slice(None, None, -1)), "'latitude' differs"),
        (lambda t: t.drop_vars("longitude"), "only one of"),
    ],
)
def test_anything_not_aligned_is_refused(ensemble: xr.Dataset, truth, change, message) -> None:
    for score in (
        scores.crps,
        scores.squared_error,
        calibration.ranks,
        scores.spread_squared_error,
    ):
        with pytest.raises(InputError, match=message):
            score(ensemble, change(truth))


def test_a_place_that_neither_knows_is_the_same() -> None:
    coords = {"time": [0, 1], "station": ["index"], "latitude": ("station", [np.nan])}
    truth = xr.DataArray(np.zeros((2, 1)), coords, ("time", "station"))
    score = scores.crps(distribution.normal(truth, truth + 1), truth)
    assert np.isfinite(score).all()
    known = truth.assign_coords(latitude=("station", [3.0]))
    with pytest.raises(InputError, match="'latitude' differs in 1 of 1"):
        scores.crps(distribution.normal(truth, truth + 1), known)


def test_two_dimensional_coordinates_must_agree() -> None:
    lat = ("y", "x"), np.array([[1.0, 2.0], [3.0, 4.0]])
    truth = xr.DataArray(
        np.zeros((1, 2, 2)), dims=("time", "y", "x"), coords={"time": [0], "latitude": lat}
    )
    dist = distribution.members(truth.expand_dims(number=[0, 1]).copy())
    assert float(scores.crps(dist, truth).sum()) == 0
    with pytest.raises(InputError, match="'latitude' differs in 4"):
        scores.crps(dist, truth.assign_coords(latitude=truth.latitude + 1))


def test_nan_propagates_everywhere(ensemble: xr.Dataset, truth: xr.DataArray) -> None:
    ensemble["value"][0, 2, 0, 0] = np.nan
    for estimator in ("plain", "fair", "gaussian"):
        assert int(scores.crps(ensemble, truth, estimator).isnull().sum()) == 1
    for score in (scores.squared_error, scores.spread_squared_error):
        assert int(score(ensemble, truth).isnull().sum()) == 1
    assert int(scores.variance(ensemble).isnull().sum()) == 1
    with pytest.raises(InputError, match="NaN"):
        calibration.ranks(ensemble, truth)


def test_variance_and_errors(ensemble: xr.Dataset, truth: xr.DataArray) -> None:
    x = ensemble["value"].values.astype(float)
    np.testing.assert_allclose(scores.variance(ensemble), x.var(1, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(scores.error(ensemble, truth), x.mean(1) - truth, atol=1e-4)
    full = abs(field(5) - 280)
    np.testing.assert_allclose(
        scores.spread_squared_error(ensemble, full),
        (x.std(1, ddof=1) - full.values) ** 2,
        rtol=1e-4,
        atol=1e-6,
    )


def test_ranks_of_a_calibrated_ensemble_are_flat() -> None:
    rng = np.random.default_rng(0)
    both = xr.DataArray(rng.normal(size=(9, 20_000)), dims=("number", "station"))
    truth, members = both[0], both[1:].assign_coords(number=np.arange(8))
    found = calibration.ranks(distribution.members(members), truth)
    assert found.sizes["rank"] == 9
    np.testing.assert_allclose(found, found["expected"], atol=0.008)
    assert float(found.sum()) == pytest.approx(1)
    normal = distribution.normal(xr.zeros_like(truth), xr.ones_like(truth))
    np.testing.assert_allclose(calibration.ranks(normal, truth, bins=10), 0.1, atol=0.008)


def test_ties_are_spread_evenly() -> None:
    members = xr.DataArray([[0.0, 0.0, 0.0, 1.0]], dims=("station", "number"))
    zero = xr.DataArray([0.0], dims="station")
    found = calibration.ranks(distribution.members(members), zero)
    np.testing.assert_allclose(found, [0.25, 0.25, 0.25, 0.25, 0.0], atol=1e-15)


def test_ranks_take_weights_and_quantile_levels() -> None:
    truth = xr.DataArray([-1.0, 5.0], dims="station")
    levels = xr.DataArray([[0.0, 1.0]] * 2, dims=("station", "quantile"))
    dist = distribution.quantiles(levels.assign_coords(quantile=[0.25, 0.5]))
    found = calibration.ranks(dist, truth, xr.DataArray([3.0, 1.0], dims="station"))
    np.testing.assert_allclose(found, [0.75, 0, 0.25])
    np.testing.assert_allclose(found["expected"], [0.25, 0.25, 0.5])


def test_pit_without_spread() -> None:
    truth = xr.DataArray([1.0, -1.0], dims="station")
    dist = distribution.normal(xr.zeros_like(truth), xr.zeros_like(truth))
    np.testing.assert_allclose(calibration.ranks(dist, truth, bins=2), [0.5, 0.5])


def rain(seed: int = 1) -> tuple[xr.Dataset, xr.DataArray]:
    """A censored, shifted gamma distribution and a truth drawn from it; a sixth of it is zero."""
    rng = np.random.default_rng(seed)
    like = field(seed, times=400, dtype="f8").assign_attrs(units="m")
    draw = {"scale": (1.0, 4.0), "shape": (0.5, 2.0), "shift": (0.1, 1.0)}
    parts = {name: like.copy(data=rng.uniform(*ab, like.shape)) for name, ab in draw.items()}
    gamma = rng.gamma(parts["shape"].values, parts["scale"].values) - parts["shift"].values
    truth = like.copy(data=np.maximum(gamma, 0))
    return distribution.parametric("censored-shifted-gamma", parts, like), truth


def test_families_are_scored_in_closed_form_and_lazily() -> None:
    dist, truth = rain()
    score = scores.crps(dist, truth)
    known = scoringrules.crps_csg0(
        truth.values, dist["shape"].values, scale=dist["scale"].values, shift=dist["shift"].values
    )
    np.testing.assert_allclose(score, known, rtol=1e-9)
    assert score.attrs["estimator"] == "censored-shifted-gamma"
    assert score.attrs["units"] == "m"
    assert scores.estimators_of(dist) == (None,)
    lazy = scores.crps(dist.chunk({"time": 50}), truth.chunk({"time": 50}))
    assert lazy.chunks is not None
    xr.testing.assert_allclose(lazy.compute(), score)
    shuffled = scores.crps(dist, truth.transpose("longitude", "time", "latitude"))
    xr.testing.assert_identical(shuffled, score)
    np.testing.assert_allclose(scores.mean(dist).mean(), truth.mean(), rtol=0.05)
    variance = scores.variance(dist)
    assert variance.attrs["units"] == "(m)2"
    np.testing.assert_allclose(variance.mean(), scores.squared_error(dist, truth).mean(), rtol=0.1)
    with pytest.raises(InputError, match="one CRPS"):
        scores.crps(dist, truth, "fair")


def test_pit_of_a_family_with_a_mass_at_zero_is_flat() -> None:
    dist, truth = rain()
    assert 0.1 < float((truth == 0).mean()) < 0.3
    found = calibration.ranks(dist, truth, bins=10)
    assert found.attrs["histogram"] == "PIT"
    np.testing.assert_allclose(found, 0.1, atol=0.015)
    # a zero tells no more than that the PIT is below the probability of zero
    dry = calibration.ranks(dist.isel(time=[0]), xr.zeros_like(truth.isel(time=[0])), bins=10)
    assert float(dry[0]) == float(dry.max())


def test_parameters_that_do_not_fit_each_other_are_refused() -> None:
    dist, truth = rain()
    dist["shape"] = dist["shape"].isel(latitude=0, drop=True)
    with pytest.raises(InputError, match="the shape"):
        scores.crps(dist, truth)
