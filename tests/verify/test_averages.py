"""Weighted means of scores, and the scores made of them."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
import xskillscore
from verify_sample import arrays, ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import averages, scores
from weatherpp.verify.weights import grid_weights

POLICIES = ("raise", "omit", "propagate")


@pytest.fixture(name="pair")
def _pair() -> tuple[xr.Dataset, xr.DataArray]:
    return ensemble()


def weights_of(truth: xr.DataArray) -> np.ndarray:
    return np.broadcast_to(grid_weights(truth).values[:, None], truth.shape[1:])


@pytest.mark.parametrize("policy", POLICIES)
def test_simple_scores_equal_xskillscore(pair, policy) -> None:
    dist, truth = pair
    mean, weights = scores.mean(dist), grid_weights(truth)
    full = weights.broadcast_like(truth.isel(time=0, drop=True))
    kept = truth.astype(float)
    for own, other in (
        (averages.rmse, xskillscore.rmse),
        (averages.bias, xskillscore.me),
    ):
        found = own(dist, truth, ["latitude", "longitude"], weights, nan_policy=policy)
        expected = other(mean, kept, dim=["latitude", "longitude"], weights=full)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert found.attrs == {"units": "K", "nan_policy": policy, "estimator": "mean"}
        assert found.dims == ("time",)


def test_mae_is_of_the_median(pair) -> None:
    dist, truth = pair
    x, y = arrays(dist, truth)
    expected = np.abs(np.median(x, axis=-1) - y).mean()
    assert float(averages.mae(dist, truth)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_anomaly_correlation(pair, centred: bool) -> None:
    dist, truth = pair
    x, y = arrays(dist, truth)
    climate = truth.mean("time") + 0.5
    found = averages.anomaly_correlation(
        dist, truth, climate, ["latitude", "longitude"], grid_weights(truth), centred=centred
    )
    w = weights_of(truth)
    for t in range(truth.sizes["time"]):
        f, o = x[t].mean(axis=-1) - climate.values, y[t] - climate.values
        if centred:
            f, o = (a - np.average(a, weights=w) for a in (f, o))
        expected = (w * f * o).sum() / np.sqrt((w * f * f).sum() * (w * o * o).sum())
        assert float(found[t]) == pytest.approx(expected, rel=1e-6)
    if centred:
        flat = averages.anomaly_correlation(dist, truth, climate, "time", centred=True)
        expected = xskillscore.pearson_r(
            scores.mean(dist) - climate, truth.astype(float) - climate, dim="time"
        )
        np.testing.assert_allclose(flat, expected, rtol=1e-9)
    same = averages.anomaly_correlation(dist, truth, truth.isel(time=0), "time")
    assert np.isfinite(same).all()
    nothing = averages.anomaly_correlation(
        distribution.members(truth.expand_dims(number=2)), truth, truth, "time"
    )
    assert np.isnan(nothing).all()


def test_spread_skill_of_a_calibrated_ensemble_is_one_at_any_size() -> None:
    for members in (2, 5, 30):
        dist, truth = ensemble(members, times=4000, seed=members)
        found = averages.spread_skill(dist, truth)
        assert float(found) == pytest.approx(1, abs=0.02)
    normal = distribution.normal(scores.mean(dist), scores.variance(dist) ** 0.5)
    plain = averages.spread_skill(normal, truth)
    assert float(plain) == pytest.approx(float(found) / np.sqrt(31 / 30), rel=1e-9)


def test_lazy_scores_stay_lazy_and_equal(pair) -> None:
    dist, truth = pair
    lazy = dist.chunk({"time": 7, "number": 2}), truth.chunk({"time": 7})
    for score in (averages.rmse, averages.mae, averages.bias, averages.spread_skill):
        for policy in POLICIES:
            found = score(*lazy, ["latitude", "longitude"], nan_policy=policy)
            assert found.chunks is not None
            eager = score(dist, truth, ["latitude", "longitude"], nan_policy=policy)
            np.testing.assert_allclose(found, eager, rtol=1e-12)
    gap = lazy[0].where(lazy[1] != lazy[1][0, 0, 0])
    with pytest.raises(InputError, match="NaN"):
        averages.rmse(gap, lazy[1]).compute()


def test_an_average_says_what_it_cannot_do(pair) -> None:
    _, truth = pair
    with pytest.raises(InputError, match="no dimension step"):
        averages.average(truth, "step")
    with pytest.raises(InputError, match="booleans"):
        averages.average(truth, mask=truth)
    with pytest.raises(InputError, match="all zero"):
        averages.average(truth, mask=truth < 0)
    with pytest.raises(InputError, match="too many"):
        averages.average(truth.isel(latitude=0), weights=grid_weights(truth))
    with pytest.raises(InputError, match="known: raise"):
        averages.average(truth, nan_policy="drop")  # type: ignore[arg-type]
