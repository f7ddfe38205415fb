"""Ranks with random ties, flatness, intervals."""

from __future__ import annotations

import numpy as np
import pytest
import scoringrules
import xarray as xr
from scipy import stats
from verify_sample import arrays, ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import calibration


def test_ranks_without_ties_equal_scipy() -> None:
    dist, truth = ensemble(members=9)
    x, y = arrays(dist, truth)
    found = calibration.random_ranks(dist, truth)
    both = np.concatenate([y[..., None], x], axis=-1)
    np.testing.assert_array_equal(found, stats.rankdata(both, axis=-1)[..., 0] - 1)
    assert found.attrs["ties"] == "random"
    even = calibration.ranks(dist, truth)
    np.testing.assert_allclose(
        np.bincount(found.values.astype(int).ravel(), minlength=10) / 240, even
    )


def test_ties_at_random_are_even_seeded_and_free_of_chunks() -> None:
    zeros = xr.DataArray(np.zeros((4, 300, 40)), dims=("number", "y", "x"))
    dist, truth = distribution.members(zeros), zeros[0]
    found = calibration.random_ranks(dist, truth, seed=3)
    counts = np.bincount(found.values.astype(int).ravel(), minlength=5)
    assert counts.sum() == 12_000
    assert stats.chisquare(counts).pvalue > 0.01
    lazy = calibration.random_ranks(
        dist.chunk({"y": 70, "x": 9, "number": 2}), truth.chunk({"y": 70, "x": 9}), seed=3
    )
    assert lazy.chunks is not None
    np.testing.assert_array_equal(lazy, found)
    other = calibration.random_ranks(dist, truth, seed=4)
    assert 0.15 < float((other == found).mean()) < 0.25  # as two independent draws of five
    neighbours = np.corrcoef(found.values[:, 1:].ravel(), found.values[:, :-1].ravel())[0, 1]
    assert abs(neighbours) < 0.03


def test_ranks_and_gaps() -> None:
    dist, truth = ensemble()
    gap = truth.where(truth > 280)
    with pytest.raises(InputError, match="rank are NaN"):
        calibration.random_ranks(dist, gap)
    found = calibration.random_ranks(dist, gap, nan_policy="propagate")
    np.testing.assert_array_equal(found.isnull(), gap.isnull())
    with pytest.raises(InputError, match="needs members"):
        calibration.random_ranks(distribution.normal(truth, truth), truth)


def test_flatness() -> None:
    counts = np.array([30, 22, 18, 20, 35])
    found = calibration.flatness(counts)
    chi2, p_value = stats.chisquare(counts)
    assert (found.chi2, found.p_value) == pytest.approx((chi2, p_value))
    assert found.convexity_p < 0.01 < found.slope_p
    slope = calibration.flatness(np.array([10, 20, 30, 40, 50]))
    assert slope.slope == pytest.approx(slope.chi2)  # all of it is slope
    assert slope.convexity == pytest.approx(0)
    # the test holds its level
    rng = np.random.default_rng(0)
    draws = rng.multinomial(500, np.full(11, 1 / 11), size=1000)
    rejected = np.mean([calibration.flatness(draw).p_value < 0.05 for draw in draws])
    assert rejected == pytest.approx(0.05, abs=0.02)
    with pytest.raises(InputError, match="at least 5"):
        calibration.flatness(np.array([1, 2, 3]))
    with pytest.raises(InputError, match="numbers of pairs"):
        calibration.flatness(np.array([0.2, 0.3, 0.5]))


def test_intervals() -> None:
    dist, truth = ensemble(members=10, dtype="f8")
    x, y = arrays(dist, truth)
    low, high = np.quantile(x, [0.1, 0.9], axis=-1)
    np.testing.assert_allclose(calibration.sharpness(dist, 0.8), high - low)
    inside = calibration.covered(dist, truth, 0.8)
    np.testing.assert_array_equal(inside, (y >= low) & (y <= high))
    expected = scoringrules.interval_score(y, low, high, 0.2)
    np.testing.assert_allclose(calibration.interval_score(dist, truth, 0.8), expected)
    lazy = calibration.interval_score(dist.chunk({"number": 3}), truth.chunk({"time": 2}), 0.8)
    assert lazy.chunks is not None
    np.testing.assert_allclose(lazy, expected)
    gap = truth.where(truth > 280)
    for score in (calibration.covered, calibration.interval_score):
        np.testing.assert_array_equal(score(dist, gap).isnull(), gap.isnull())
    some = distribution.quantiles(distribution.quantile(dist, [0.1, 0.5, 0.9]))
    np.testing.assert_allclose(calibration.sharpness(some, 0.8), high - low)
    with pytest.raises(InputError, match="reaches beyond the quantiles"):
        calibration.sharpness(some, 0.9)
    with pytest.raises(InputError, match="between 0 and 1"):
        calibration.sharpness(dist, 1.0)


def test_a_calibrated_normal_covers_what_it_says() -> None:
    zero = xr.DataArray(np.zeros(20_000), dims="station")
    truth = zero.copy(data=np.random.default_rng(0).normal(size=20_000))
    normal = distribution.normal(zero, xr.ones_like(zero))
    for level in (0.5, 0.9):
        inside = float(calibration.covered(normal, truth, level).mean())
        assert inside == pytest.approx(level, abs=0.01)
        width = float(calibration.sharpness(normal, level)[0])
        assert width == pytest.approx(2 * stats.norm.ppf((1 + level) / 2))
