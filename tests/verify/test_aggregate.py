"""Means over space and dates, and their intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.recipe import Bootstrap
from weatherpp.verify.aggregate import (
    FEWEST_DATES,
    gain_interval,
    interval,
    per_date,
    ratio_interval,
    resample,
    spread_skill,
)

BOOT = Bootstrap(samples=300, block=4)


def series(values: np.ndarray, start: str = "2020-01-01") -> pd.Series:
    return pd.Series(values, index=pd.date_range(start, periods=len(values)))


@pytest.fixture
def score() -> xr.DataArray:
    values = np.arange(12.0).reshape(2, 3, 2)
    coords = {"time": pd.date_range("2020-01-01", periods=2), "latitude": [60.0, 0.0, -60.0]}
    return xr.DataArray(values, dims=("time", "latitude", "longitude"), coords=coords, name="crps")


def weights(values: list[float]) -> xr.DataArray:
    return xr.DataArray(values, dims="latitude", coords={"latitude": [60.0, 0.0, -60.0]})


def test_weighted_mean(score: xr.DataArray) -> None:
    found = per_date(score, weights([1, 2, 1]))
    np.testing.assert_allclose(found, [2.5, 8.5])
    np.testing.assert_allclose(per_date(score, weights([0, 5, 0])), [2.5, 8.5])
    np.testing.assert_allclose(per_date(score.transpose(), weights([1, 0, 0])), [0.5, 6.5])
    assert found.index.name == "time"
    np.testing.assert_allclose(per_date(score.chunk({"time": 1}), weights([1, 2, 1])), found)


def test_nan_scores_are_refused_unless_they_have_no_weight(score: xr.DataArray) -> None:
    score[0, 0, :] = np.nan
    score[1, 0, 0] = np.nan
    with pytest.raises(InputError, match=r"3 of 12 values of crps are NaN.*'omit'"):
        per_date(score, weights([1, 2, 1]))
    np.testing.assert_allclose(per_date(score, weights([0, 1, 1])), [3.5, 9.5])
    np.testing.assert_allclose(per_date(score, weights([1, 1, 1]), "omit"), [3.5, 9.0])
    # a date without a valid point is left out, but not every date can be
    later = per_date(score, weights([1, 0, 0]), "omit")
    np.testing.assert_allclose(later, [7.0])
    assert later.index[0] == score["time"].values[1]
    with pytest.raises(InputError, match="no valid point on 2020-01-01"):
        per_date(score.isel(time=[0]), weights([1, 0, 0]), "omit")


@pytest.mark.parametrize("bad", [[1, np.nan, 1], [1, -1, 1], [0, 0, 0], [1, np.inf, 1]])
def test_bad_weights_are_refused(score: xr.DataArray, bad: list[float]) -> None:
    with pytest.raises(InputError, match="weights must be finite"):
        per_date(score, weights(bad))


def test_weights_of_another_grid_are_refused(score: xr.DataArray) -> None:
    with pytest.raises(InputError, match="latitude"):
        per_date(score, weights([1, 1, 1]).assign_coords(latitude=[61.0, 0.0, -60.0]))
    with pytest.raises(InputError, match="too many"):
        per_date(score, weights([1, 1, 1]).expand_dims(time=2))


def test_float32_means_are_exact() -> None:
    values = np.full((1, 1000, 1000), 280.1, np.float32)
    score = xr.DataArray(values, dims=("time", "y", "x"), coords={"time": [np.datetime64(0, "D")]})
    ones = xr.DataArray(np.ones((1000, 1000)), dims=("y", "x"))
    assert per_date(score, ones).iloc[0] == pytest.approx(float(np.float32(280.1)), abs=1e-9)


def test_blocks_are_runs_of_dates_within_one_season() -> None:
    times = pd.DatetimeIndex(
        [*pd.date_range("2020-01-01", periods=10), *pd.date_range("2021-01-01", periods=11)]
    )
    draws = resample(times, Bootstrap(samples=200, block=3), seed=5)
    assert draws.shape == (200, 21)
    blocks = draws.reshape(200, 7, 3)
    first_run = blocks[..., 0] < 10
    assert ((blocks < 10) == first_run[..., None]).all()
    within = np.where(first_run[..., None], blocks, blocks - 10)
    size = np.where(first_run, 10, 11)[..., None]
    assert (np.diff(within, axis=2) % size == 1).all()
    np.testing.assert_array_equal(draws, resample(times, Bootstrap(samples=200, block=3), seed=5))


def test_short_runs_are_blocks_by_themselves() -> None:
    times = pd.DatetimeIndex(
        [*pd.date_range("2020-01-01", periods=9), *pd.date_range("2021-01-01", periods=2)]
    )
    draws = resample(times, Bootstrap(samples=100, block=3))
    assert draws.shape == (100, 11)
    assert draws.min() >= 0


@pytest.mark.parametrize("sizes", [(30, 30, 30), (12, 2, 1, 9), (1,) * 9])
def test_all_dates_are_equally_likely(sizes: tuple[int, ...]) -> None:
    """Else the middle of a season would decide the interval, which then lies off its value."""
    runs = [pd.date_range(f"{2001 + year}-01-01", periods=size) for year, size in enumerate(sizes)]
    times = runs[0].append(runs[1:])
    draws = resample(times, Bootstrap(samples=4000, block=3))
    counts = np.bincount(draws.ravel(), minlength=len(times))
    np.testing.assert_allclose(counts / counts.mean(), 1, atol=0.12)


def test_unsorted_dates_are_refused() -> None:
    with pytest.raises(InputError, match="sorted"):
        resample(pd.DatetimeIndex(["2020-01-02", "2020-01-01"]), BOOT)


def coverage(phi: float, block: int, n: int = 200, tries: int = 150) -> float:
    """Share of 95 % intervals that hold the true mean (0) of an AR(1) process."""
    rng = np.random.default_rng(42)
    hits = 0
    for _ in range(tries):
        noise = rng.normal(size=n + 50)
        x = np.zeros(n + 50)
        for t in range(1, n + 50):
            x[t] = phi * x[t - 1] + noise[t]
        found = interval(series(x[50:]), Bootstrap(samples=200, block=block))
        hits += found.low <= 0 <= found.high
    return hits / tries


def test_coverage_of_independent_and_dependent_dates() -> None:
    assert 0.88 <= coverage(0.0, block=1) <= 1
    dependent = coverage(0.6, block=12)
    assert dependent >= 0.83
    assert coverage(0.6, block=1) < dependent - 0.1  # why there are blocks at all


def test_comparison_is_paired() -> None:
    rng = np.random.default_rng(0)
    common = rng.gamma(4, 1, 100)
    worse, better = series(common), series(common * (0.97 + 0.005 * rng.normal(size=100)))
    gain = gain_interval(better, worse, BOOT)
    assert gain.value == pytest.approx(0.03, abs=0.003)
    assert gain.excludes_zero
    assert gain.high - gain.low < 0.004  # each score alone is uncertain by tens of per cent
    alone = interval(worse, BOOT)
    assert (alone.high - alone.low) / alone.value > 0.1
    back = gain_interval(worse, better, BOOT)
    assert back.high < 0
    with pytest.raises(InputError, match="same initial dates"):
        gain_interval(better.iloc[1:], worse, BOOT)


def test_root_is_taken_after_the_mean() -> None:
    squares = series(np.array([1.0, 9.0, 4.0, 16.0] * 2))
    assert interval(squares, BOOT, root=True).value == pytest.approx(np.sqrt(7.5))
    ratio = ratio_interval(squares, squares * 4, BOOT, root=True)
    np.testing.assert_allclose(ratio, 0.5)


def test_few_dates() -> None:
    for count in (1, 2, FEWEST_DATES - 1):
        few = interval(series(np.arange(1.0, count + 1)), BOOT)
        assert few.value == (count + 1) / 2
        assert np.isnan([few.low, few.high]).all()
        assert not few.excludes_zero
    enough = interval(series(np.arange(1.0, FEWEST_DATES + 1)), BOOT)
    assert 1 < enough.low < enough.value < enough.high < FEWEST_DATES
    none = gain_interval(series(np.ones(9)), series(np.zeros(9)), BOOT)
    assert np.isnan(none).all()
    assert not none.excludes_zero


def test_spread_skill_of_a_calibrated_ensemble_is_one_for_any_size() -> None:
    rng = np.random.default_rng(1)
    for m in (2, 5, 20):
        members, truth = rng.normal(size=(m, 60, 500)), rng.normal(size=(60, 500))
        variance = series(members.var(axis=0, ddof=1).mean(axis=1))
        error = series(((members.mean(axis=0) - truth) ** 2).mean(axis=1))
        expected = variance * (m + 1) / m
        assert spread_skill(expected, error, BOOT).value == pytest.approx(1, abs=0.02)
        plain = spread_skill(variance, error, BOOT).value
        assert plain == pytest.approx(np.sqrt(m / (m + 1)), abs=0.02)
