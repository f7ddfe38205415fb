"""Comparisons by date, scorecards, regions, and the test that is fed date by date."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from statsmodels.stats import multitest

from weatherpp.boxes import Box
from weatherpp.errors import InputError
from weatherpp.recipe import Bootstrap
from weatherpp.verify import gains
from weatherpp.verify.aggregate import FEWEST_DATES
from weatherpp.verify.regions import WHOLE, regions
from weatherpp.verify.significance import MeanTest, diebold_mariano, equal_means, lags_for
from weatherpp.verify.table import PER_DATE_COLUMNS

BOOT = Bootstrap(samples=200)
DAY = pd.Timedelta(days=1)


def dated(values: np.ndarray, start: str = "2020-01-01") -> pd.Series:
    return pd.Series(values, index=pd.date_range(start, periods=len(values)))


def fed(test: MeanTest, values: np.ndarray, gaps: tuple[int, ...] = ()) -> MeanTest:
    for at, value in enumerate(values):
        test.add(value, gap=at in gaps)
    return test


def test_fed_by_date_it_is_the_test_of_all_dates_at_once() -> None:
    rng = np.random.default_rng(0)
    d = xr.DataArray(rng.normal(300, 2, (90, 4, 5)).cumsum(axis=0) * 0.01, dims=("time", "y", "x"))
    for lags in (0, 1, 5):
        whole = diebold_mariano(d, xr.zeros_like(d), lags=lags)
        mean, p_value = fed(MeanTest(lags), d.values - 0.0).result()
        np.testing.assert_allclose(mean, whole["difference"], rtol=1e-12)
        np.testing.assert_allclose(p_value, whole["p_value"], rtol=1e-6)
    one, two = (dated(rng.normal(size=60)) for _ in range(2))
    both = [xr.DataArray(s.to_numpy(), dims="time") for s in (one, two)]
    expected = float(diebold_mariano(*both, lags=lags_for(one.index))["p_value"])
    assert equal_means(one, two) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(InputError, match="same initial dates"):
        equal_means(one, two.iloc[1:])


def test_gaps_are_as_if_zero_deviations_stood_in_them() -> None:
    rng = np.random.default_rng(1)
    values, lags = rng.normal(0.3, 1, 40).cumsum() * 0.1, 3
    deviation = values - values.mean()
    padded = np.concatenate([deviation[:15], np.zeros(lags), deviation[15:]])
    total = (padded**2).sum()
    for lag in range(1, lags + 1):
        total += 2 * (1 - lag / (lags + 1)) * (padded[lag:] * padded[:-lag]).sum()
    statistic = values.mean() / np.sqrt(total / 40**2)
    expected = 2 * stats.t.sf(abs(statistic), 39)
    _, p_value = fed(MeanTest(lags), values, gaps=(15,)).result()
    assert float(p_value) == pytest.approx(expected)
    # a date that is missing is a date of zero deviation, and none of the mean
    holed = values.copy()
    holed[7] = np.nan
    kept = np.nan_to_num(holed - np.nanmean(holed))
    total = (kept**2).sum()
    for lag in range(1, lags + 1):
        total += 2 * (1 - lag / (lags + 1)) * (kept[lag:] * kept[:-lag]).sum()
    statistic = np.nanmean(holed) / np.sqrt(total / 39**2)
    mean, p_value = fed(MeanTest(lags), holed).result()
    assert float(mean) == pytest.approx(np.nanmean(holed))
    assert float(p_value) == pytest.approx(2 * stats.t.sf(abs(statistic), 38))


def test_constants_and_few_dates() -> None:
    same = np.stack([np.zeros(9), np.ones(9), np.full(9, np.nan)], axis=1)
    mean, p_value = fed(MeanTest(2), same).result()
    np.testing.assert_array_equal(mean, [0, 1, np.nan])
    np.testing.assert_array_equal(p_value, [1, 0, np.nan])
    _, p_value = fed(MeanTest(2), same[: FEWEST_DATES - 1]).result()
    assert np.isnan(p_value).all()


def test_lags_cover_forecasts_that_overlap() -> None:
    times = pd.date_range("2020-01-01", periods=90)
    assert lags_for(times) == 3
    assert lags_for(times, 2 * DAY) == 3
    assert lags_for(times, 15 * DAY) == 28
    assert lags_for(times[:10], 15 * DAY) == 4  # below half their number
    assert lags_for(times[:1]) == 0


def test_level_of_the_test_is_held_on_overlapping_forecasts() -> None:
    """Differences of moving averages over the lead time: nothing is to be found."""
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(203, 1500))
    overlap = np.stack([noise[i : i + 4].mean(axis=0) for i in range(200)])
    times = pd.date_range("2020-01-01", periods=200)
    _, allowed = fed(MeanTest(lags_for(times, 4 * DAY)), overlap).result()
    _, naive = fed(MeanTest(0), overlap).result()
    assert (naive < 0.05).mean() > 0.2
    assert (allowed < 0.05).mean() == pytest.approx(0.08, abs=0.03)


def test_bands_of_latitude() -> None:
    latitude = np.arange(90.0, -91, -10).astype("f4")
    field = xr.DataArray(
        np.zeros((19, 4)),
        {"latitude": latitude, "longitude": np.arange(4) * 90.0},
        ("latitude", "longitude"),
    )
    found = regions(field)
    assert list(found) == [WHOLE, "northern extratropics", "tropics", "southern extratropics"]
    assert latitude[found["tropics"]].tolist() == [20, 10, 0, -10, -20]
    assert latitude[found["northern extratropics"]].min() == 20
    assert list(regions(field.sel(latitude=slice(90, 30)))) == [WHOLE]  # all of it is one band
    assert list(regions(field.drop_vars("latitude"))) == [WHOLE]
    with pytest.raises(InputError, match="stations"):
        regions(field, clusters=2)


def test_boxes_of_a_users_own() -> None:
    field = xr.DataArray(
        np.zeros((19, 36)),
        {"latitude": np.arange(90.0, -91, -10), "longitude": np.arange(36) * 10.0},
        ("latitude", "longitude"),
    )
    atlantic = Box(north=60, south=30, west=-50, east=10)
    found = regions(field, {"North Atlantic": atlantic})
    assert list(found) == [*regions(field), "North Atlantic"]
    points = field.where(found["North Atlantic"], drop=True)
    assert points["latitude"].values.tolist() == [60, 50, 40, 30]
    assert sorted(points["longitude"].values.tolist()) == [0, 10, 310, 320, 330, 340, 350]
    between = Box(north=9, south=1, west=0, east=360)
    with pytest.raises(InputError, match=r"verify\.regions, gap: no grid point lies in"):
        regions(field, {"gap": between})


def test_groups_of_neighbouring_stations() -> None:
    rng = np.random.default_rng(3)
    centre = np.repeat([[47.0, 8.0], [52.0, 13.0], [47.1, 8.1]], 6, axis=0)
    places = centre + rng.normal(0, 0.05, (18, 2))
    altitude = np.repeat([400.0, 50.0, 2500.0], 6)
    field = xr.DataArray(
        np.zeros(18),
        {
            "station": np.arange(18),
            "latitude": ("station", places[:, 0]),
            "longitude": ("station", places[:, 1]),
            "altitude": ("station", altitude),
        },
        ("station",),
    )
    found = regions(field, clusters=3)
    assert list(found) == [WHOLE, *(f"cluster {i}, 6 stations" for i in (1, 2, 3))]
    assert [int(np.flatnonzero(mask)[0]) for mask in list(found.values())[1:]] == [0, 6, 12]
    again = regions(field, clusters=3)
    assert all(found[name].equals(again[name]) for name in found)
    nowhere = field.assign_coords(latitude=field["latitude"] * np.nan)
    assert list(regions(nowhere)) == [WHOLE]
    with pytest.raises(InputError, match="not known"):
        regions(nowhere, clusters=2)


def per_date(
    method: str, level: float, *, dates: int = 60, seed: int = 0, estimator: str = "fair"
) -> pd.DataFrame:
    """Scores whose parts common to all methods vary more than those of its own."""
    shared = np.random.default_rng(99).gamma(8, 1 / 8, dates)
    own = np.random.default_rng(seed).normal(0, 0.05, dates)
    times = pd.date_range("2020-01-01", periods=dates)
    values = {
        ("crps", estimator): level * (shared + own),
        ("squared_error", ""): level**2 * (shared + own),
        ("expected_squared_error", ""): 0.8 * shared,
    }
    parts = [
        pd.DataFrame({"score": score, "estimator": kind, "time": times, "value": series})
        for (score, kind), series in values.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(target="z500", method=method, region=WHOLE, pairs=10)
    return table[list(PER_DATE_COLUMNS)]


def test_scorecard_from_a_constructed_table() -> None:
    table = pd.concat(
        [per_date("raw", 1.0), per_date("good", 0.9, seed=1), per_date("same", 1.0, seed=2)]
    )
    leads = {"z500": 2 * DAY}
    pairs = [("good", "raw"), ("same", "raw")]
    card = gains.scorecard(table, table, pairs, leads, bootstrap=BOOT)
    assert tuple(card.columns) == gains.CARD_COLUMNS
    assert len(card) == 6
    cell = card.set_index(["method", "score"])
    raw, good = (
        table[(table["method"] == name) & (table["score"] == "crps")]["value"].mean()
        for name in ("raw", "good")
    )
    assert cell.loc[("good", "crps"), "gain"] == pytest.approx(1 - good / raw)
    assert cell.loc[("good", "crps"), "value"] == pytest.approx(good)
    assert cell.loc["good", "significant"].all()
    assert not cell.loc["same", "significant"].any()
    assert (cell["low"] <= cell["gain"]).all()
    assert (cell["gain"] <= cell["high"]).all()
    theirs = multitest.multipletests(card["p_value"], alpha=0.05, method="fdr_bh")[0]
    np.testing.assert_array_equal(card["significant"], theirs)
    # the ratio of spread to error came nearer to one: from below it
    own, other = (cell.loc[("good", "spread_skill"), key] for key in ("value", "reference_value"))
    assert other < own < 1
    assert cell.loc[("good", "spread_skill"), "gain"] == pytest.approx(np.log(own / other))


def test_scorecard_on_common_dates_and_estimators() -> None:
    long, short = per_date("m", 1.0), per_date("m", 0.9, seed=1)
    short = short[short["time"] >= pd.Timestamp("2020-01-21")]
    leads = {"z500": DAY}
    card = gains.scorecard(short, long, [("m", "m")], leads, bootstrap=BOOT, same_estimator=True)
    assert (card["dates"] == 40).all()
    assert (card["left_out"] == 20).all()
    other = per_date("m", 1.0, estimator="normal")
    with pytest.raises(InputError, match="by the estimator fair, that of m by normal"):
        gains.scorecard(long, other, [("m", "m")], leads, bootstrap=BOOT, same_estimator=True)
    early = long[long["time"] < pd.Timestamp("2020-01-21")]
    with pytest.raises(InputError, match="share no initial date"):
        gains.scorecard(short, early, [("m", "m")], leads, bootstrap=BOOT)
    few = [t[t["time"] < pd.Timestamp("2020-01-06")] for t in (long, per_date("m", 0.5, seed=4))]
    card = gains.scorecard(few[1], few[0], [("m", "m")], leads, bootstrap=BOOT)
    assert card["p_value"].isna().all()
    assert not card["significant"].any()


def test_ratio_test_sees_a_real_change_and_holds_its_level() -> None:
    rng = np.random.default_rng(5)

    def pair(spread: float) -> tuple[pd.Series, pd.Series]:
        variance = rng.gamma(20, 1 / 20, 120)
        return dated(spread**2 * variance), dated(variance * rng.chisquare(30, 120) / 30)

    found = [gains.compare_ratio(pair(0.7), pair(0.7), bootstrap=BOOT) for _ in range(150)]
    assert np.mean([each.p_value < 0.05 for each in found]) == pytest.approx(0.06, abs=0.05)
    better = gains.compare_ratio(pair(0.95), pair(0.6), bootstrap=BOOT)
    assert better.p_value < 0.001
    assert better.gain.low > 0
    assert better.value == pytest.approx(0.95, abs=0.05)
    # beyond one it is as far from it as below
    beyond = gains.compare_ratio(pair(1 / 0.8), pair(0.8), bootstrap=BOOT)
    assert beyond.gain.value == pytest.approx(0, abs=0.07)


def test_gains_tell_a_p_value() -> None:
    table = pd.concat([per_date("raw", 1.0), per_date("good", 0.9, seed=1)])
    found = gains.gains(table, "raw", leads={"z500": 2 * DAY}, bootstrap=BOOT)
    assert tuple(found.columns) == gains.GAIN_COLUMNS
    assert (found["p_value"] < 1e-6).all()
    assert found["excludes_zero"].all()
