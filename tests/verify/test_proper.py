"""Brier, quantile and logarithmic score of distributions."""

from __future__ import annotations

import numpy as np
import properscoring
import pytest
import scoringrules
import xarray as xr
from scipy import stats
from verify_sample import arrays, ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import proper, scores


def test_brier_equals_properscoring() -> None:
    dist, truth = ensemble(dtype="f8")
    x, y = arrays(dist, truth)
    found = proper.brier(dist, truth, 281.0)
    np.testing.assert_allclose(found, properscoring.threshold_brier_score(y, x, 281.0))
    assert found.attrs["nan_policy"] == "propagate"
    lazy = proper.brier(dist.chunk({"number": 2, "time": 3}), truth.chunk({"time": 3}), 281.0)
    assert lazy.chunks is not None
    xr.testing.assert_allclose(lazy.compute(), found)


def test_fair_brier_does_not_depend_on_the_number_of_members() -> None:
    means = {}
    for members in (2, 4, 20):
        dist, truth = ensemble(members, times=4000, seed=members)
        means[members] = [
            float(proper.brier(dist, truth, 280.0, e).mean()) for e in ("plain", "fair")
        ]
    assert means[2][0] > means[4][0] + 0.01 > means[20][0] + 0.02
    assert max(m[1] for m in means.values()) - min(m[1] for m in means.values()) < 0.008
    # by hand: three of four members, and the event
    value = xr.DataArray([[1.0, 1, 1, 0]], dims=("station", "number"))
    one = xr.DataArray([1.0], dims="station")
    dist = distribution.members(value)
    assert float(proper.brier(dist, one, 0.5, "fair")[0]) == pytest.approx(1 / 16 - 3 / (16 * 3))
    with pytest.raises(InputError, match="two members"):
        proper.brier(dist.isel(number=[0]), one, 0.5, "fair")


def test_brier_of_a_family_and_gaps() -> None:
    dist, truth = ensemble(dtype="f8")
    normal = distribution.normal(scores.mean(dist), scores.variance(dist) ** 0.5)
    p = stats.norm.sf(281, normal["mean"], normal["spread"])
    expected = (p - (truth.values > 281)) ** 2
    np.testing.assert_allclose(proper.brier(normal, truth, 281.0), expected, atol=1e-12)
    gap = dist.where(dist["number"] != 2)
    assert np.isnan(proper.brier(gap, truth, 281.0)).all()
    five = dist.sel(number=[0, 1, 3, 4, 5])
    for estimator in ("plain", "fair"):
        np.testing.assert_allclose(
            proper.brier(gap, truth, 281.0, estimator, nan_policy="omit"),
            proper.brier(five, truth, 281.0, estimator),
        )
    with pytest.raises(InputError, match="brier are NaN"):
        proper.brier(gap, truth, 281.0, nan_policy="raise")
    assert np.isnan(proper.brier(dist, truth.where(False), 281.0, nan_policy="omit")).all()
    with pytest.raises(InputError, match="one Brier score"):
        proper.brier(normal, truth, 281.0, "fair")


def test_quantile_score_equals_scoringrules() -> None:
    dist, truth = ensemble(dtype="f8")
    _, y = arrays(dist, truth)
    levels = [0.1, 0.5, 0.9]
    found = proper.quantile_score(dist, truth, levels)
    value = distribution.quantile(dist, levels)
    for k, level in enumerate(levels):
        expected = scoringrules.quantile_score(y, value[k].values, level)
        np.testing.assert_allclose(found[k], expected, atol=1e-12)
    gap = truth.where(truth > 280)
    assert int(proper.quantile_score(dist, gap, [0.5]).isnull().sum()) == int(gap.isnull().sum())
    quantiles = distribution.quantiles(value)
    np.testing.assert_allclose(proper.quantile_score(quantiles, truth, levels), found)
    with pytest.raises(InputError, match=r"from 0.1 to 0.9 alone"):
        proper.quantile_score(quantiles, truth, [0.95])
    with pytest.raises(InputError, match="between 0 and 1"):
        proper.quantile_score(dist, truth, [0.0])


def test_log_score_equals_scipy() -> None:
    dist, truth = ensemble(dtype="f8")
    x, y = arrays(dist, truth)
    expected = -stats.norm.logpdf(y, x.mean(axis=-1), x.std(axis=-1, ddof=1))
    found = proper.log_score(dist, truth, gaussian=True)
    np.testing.assert_allclose(found, expected)
    with pytest.raises(InputError, match="no density"):
        proper.log_score(dist, truth)
    like = truth - 280
    parts = {"location": xr.zeros_like(like), "scale": xr.ones_like(like)}
    rain = distribution.parametric("censored-logistic", parts, like)
    score = proper.log_score(rain, xr.zeros_like(like))
    np.testing.assert_allclose(score, np.log(2))  # half of the logistic is below zero
    assert np.isinf(proper.log_score(rain, xr.full_like(like, -1.0))).all()
    assert np.isnan(proper.log_score(rain, like.where(False))).all()
