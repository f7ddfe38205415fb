"""Fields, members, splits and truth out of an archive."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from weatherpp.data.archive import Archive
from weatherpp.data.fields import (
    choose,
    combinations,
    ensemble_mean,
    ensemble_spread,
    select,
    subsample,
)
from weatherpp.data.matching import matched_times, partners, snap, truth_for
from weatherpp.data.splits import by_years, leave_one_out
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import MemberChoice, Target, YearSplit


def test_select_gives_one_field(tiny_archive: Archive) -> None:
    before = dict(tiny_archive.forecast["z"].attrs)
    da = select(tiny_archive.forecast, "z", 500, "48h")
    assert da.dims == ("time", "number", "latitude", "longitude")
    assert da.chunks is not None, "lazy"
    assert da.attrs["level"] == 500
    assert (da["valid_time"] - da["time"] == np.timedelta64(48, "h")).all()
    whole = tiny_archive.forecast["z"].isel(step=1).sel(level=500)
    np.testing.assert_array_equal(da.values, whole.values)
    assert tiny_archive.forecast["z"].attrs == before, "the archive is not changed"
    assert "step" in select(tiny_archive.forecast, "z", 500).dims


def test_select_without_levels(tiny_archive: Archive) -> None:
    assert select(tiny_archive.static, "orog").dims == ("latitude", "longitude")
    with pytest.raises(InputError, match="has no levels"):
        select(tiny_archive.static, "orog", 500)
    with pytest.raises(InputError, match="has no lead times"):
        select(tiny_archive.static, "orog", step="48h")


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (("q",), "no variable q in the data; there are t, z"),
        (("z",), "z needs a level; there are 200, 500, 800 hPa"),
        (("z", 350), "z at 350 hPa is not in the data; there are 200, 500, 800 hPa"),
        (("z", 500, "30h"), "lead time 30 h is not in the data; there are 24, 48 h"),
    ],
)
def test_select_says_what_is_there(
    wanted: tuple[str, ...], text: str, tiny_archive: Archive
) -> None:
    with pytest.raises(InputError, match=text):
        select(tiny_archive.forecast, *wanted)


def test_select_honours_steps(tiny_archive: Archive) -> None:
    ds = tiny_archive.forecast.copy()
    ds["z"] = ds["z"].assign_attrs(steps=[48.0])
    with pytest.raises(InputError, match="there are 48 h"):
        select(ds, "z", 500, "24h")
    assert "steps" not in select(ds, "z", 500, "48h").attrs


def test_subsample(tiny_archive: Archive) -> None:
    ds = tiny_archive.forecast

    def numbers(seed: int = 1, **settings: object) -> list[int]:
        return [int(n) for n in subsample(ds, MemberChoice(**settings), seed)["number"].values]

    assert numbers(choose="all") == list(range(10))
    assert numbers(choose="first", count=5) == [0, 1, 2, 3, 4]
    assert numbers(choose="named", numbers=(7, 3)) == [0, 3, 7]
    assert numbers(choose="named", numbers=(7, 3), control=False) == [3, 7]
    drawn = [numbers(seed, choose="random", count=5) for seed in range(40)]
    assert all(0 in row and len(set(row)) == 5 and row == sorted(row) for row in drawn)
    assert {n for row in drawn for n in row} == set(range(10))
    assert numbers(3, choose="random", count=5) == drawn[3]
    without = [numbers(seed, choose="random", count=5, control=False) for seed in range(40)]
    assert any(0 not in row for row in without)
    with pytest.raises(InputError, match="11 members asked for, the data have 10"):
        numbers(choose="first", count=11)
    with pytest.raises(InputError, match="member 12 is not in the data"):
        numbers(choose="named", numbers=(12,))
    with pytest.raises(InputError, match="no ensemble members"):
        subsample(ds.isel(number=0, drop=True), MemberChoice(), 1)


def test_members_without_control_start_where_they_start() -> None:
    assert choose([1, 2, 3], MemberChoice(choose="first", count=2), 1) == [1, 2]


def test_combinations() -> None:
    assert list(combinations([0, 1, 2, 3], 2)) == [(0, 1), (0, 2), (0, 3)]
    assert len(list(combinations(range(10), 5))) == 126
    assert len(list(combinations(range(10), 5, control=False))) == 252
    assert list(combinations([3, 1, 2], 2)) == [(1, 2), (1, 3), (2, 3)]
    with pytest.raises(InputError, match="no subsets of 4"):
        combinations([1, 2, 3], 4)


def test_spread_is_unbiased_and_wide() -> None:
    # near 5e5 in single precision, where sums of squares lose everything
    rng = np.random.default_rng(1)
    exact = 5e5 + rng.standard_normal((20, 6))
    da = xr.DataArray(exact.astype("float32"), dims=("number", "x"), attrs={"units": "m2 s-2"})
    reference = exact.astype("float32").astype("float64").std(axis=0, ddof=1)
    np.testing.assert_allclose(ensemble_spread(da), reference, rtol=1e-6)
    np.testing.assert_allclose(ensemble_mean(da), exact.mean(0), rtol=1e-7)
    assert ensemble_spread(da).attrs["units"] == "m2 s-2"
    assert ensemble_spread(da).dtype == np.float32
    with pytest.raises(InputError, match="two members at least"):
        ensemble_spread(da.isel(number=[0]))
    with pytest.raises(InputError, match="no ensemble members"):
        ensemble_mean(da.rename(number="n"))


def test_a_missing_member_is_not_passed_over() -> None:
    da = xr.DataArray([1.0, np.nan, 3.0], dims="number")
    assert np.isnan(ensemble_mean(da))
    assert np.isnan(ensemble_spread(da))


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 365 * 6), min_size=1, max_size=200),
    st.permutations(["train", "valid", "test"]),
    st.integers(0, 24 * 20),
)
def test_splits_never_touch(days: list[int], order: list[str], lead_hours: int) -> None:
    times = pd.DatetimeIndex([pd.Timestamp("2000-01-01") + pd.Timedelta(days=d) for d in days])
    lead = pd.Timedelta(hours=lead_hours)
    ranges = dict(zip(order, [(2000, 2001), (2002, 2003), (2004, 2006)], strict=True))
    try:
        parts = by_years(times, YearSplit(**ranges), lead)
    except ConfigError:  # a split without dates, tested below
        return
    together = [time for part in parts.values() for time in part]
    assert len(together) == len(set(together))
    assert set(together) <= set(times)
    for one, other in itertools.pairwise(order):
        # the last state an earlier split verifies with lies before all that a later one sees
        assert parts[one].max() + lead < parts[other].min()
    last = parts[order[-1]]
    assert len(last) == len({t for t in times if t.year >= 2004}), "the last loses nothing"


def test_split_without_dates_names_the_years(tiny_archive: Archive) -> None:
    times = pd.DatetimeIndex(tiny_archive.forecast["time"].values)
    split = YearSplit(train=(2001, 2001), valid=(2002, 2002), test=(2010, 2012))
    with pytest.raises(ConfigError, match=r"split\.test: no dates .* 2001 to 2003"):
        by_years(times, split, pd.Timedelta("48h"))


def test_leave_one_out() -> None:
    times = pd.date_range("2020-01-01", periods=3)
    pairs = list(leave_one_out(times, pd.Timedelta(0)))
    assert [list(test) for _, test in pairs] == [[time] for time in times]
    assert all(len(train) == 2 and not train.isin(test).any() for train, test in pairs)
    with pytest.raises(ConfigError, match="two dates"):
        leave_one_out(times[:1], pd.Timedelta(0))
    with pytest.raises(ConfigError, match="more than the lead time of 24 h away from 2020-01-02"):
        leave_one_out(times, pd.Timedelta("24h"))


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2000), min_size=2, max_size=60, unique=True),
    st.integers(0, 240),
)
def test_left_out_dates_have_a_gap_of_the_lead_time(at: list[int], lead_hours: int) -> None:
    times = pd.DatetimeIndex([pd.Timestamp("2000-01-01") + pd.Timedelta(hours=h) for h in at])
    lead = pd.Timedelta(hours=lead_hours)
    try:
        pairs = list(leave_one_out(times, lead))
    except ConfigError:
        assert any(all(abs(a - b) <= lead for a in times) for b in times)
        return
    assert sorted(test[0] for _, test in pairs) == sorted(times)
    for train, (test,) in pairs:
        # neither is verified at a time that lies in the forecast of the other
        assert all(t + lead < test or test + lead < t for t in train)
        assert len(train) == sum(abs(t - test) > lead for t in times), "no more is lost"


TARGET = Target(variable="z", level=500, step="48h")


def test_truth_is_aligned(tiny_archive: Archive) -> None:
    analysis = tiny_archive.analysis
    assert analysis is not None
    times = pd.DatetimeIndex(tiny_archive.forecast["time"].values)[[5, 2, 40]]
    truth = truth_for(analysis, TARGET, times, tiny_archive.forecast)
    assert truth.dims == ("time", "latitude", "longitude")
    assert (truth["time"].values == times.values).all()
    for row, time in enumerate(times):
        there = analysis["z"].sel(valid_time=time + TARGET.lead, level=500)
        np.testing.assert_array_equal(truth.isel(time=row).values, there.values)
    field = select(tiny_archive.forecast, "z", 500, "48h").sel(time=times)
    assert (field.mean("number") - truth).sizes == truth.sizes, "no row is lost in arithmetic"


def test_missing_truth_is_named(tiny_archive: Archive) -> None:
    analysis = tiny_archive.analysis
    assert analysis is not None
    times = pd.DatetimeIndex(tiny_archive.forecast["time"].values)
    short = analysis.isel(valid_time=slice(0, -2))
    with pytest.raises(
        InputError, match=r"no analysis of z500 for 2003-03-20 00:00 UTC.*\(1 of 60"
    ):
        truth_for(short, TARGET, times)
    assert len(matched_times(short, TARGET, times)) == 59


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=20, unique=True),
    st.lists(st.integers(0, 40), max_size=20, unique=True),
)
def test_partners_are_those_at_the_valid_time(starts: list[int], analyses: list[int]) -> None:
    def dates(days: list[int]) -> pd.DatetimeIndex:
        return pd.DatetimeIndex(np.datetime64("2020-01-01", "ns") + np.array(days, "m8[D]"))

    analysis = xr.Dataset(coords={"valid_time": dates(sorted(analyses))})
    found = partners(analysis, TARGET, dates(starts))
    assert list(found.found) == list(dates([day for day in starts if day + 2 in analyses]))
    assert list(found.missing) == list(dates([day for day in starts if day + 2 not in analyses]))
    assert f"z500 at 48h: {len(found.found)} of {len(starts)} forecasts" in str(found)
    if len(found.missing):
        first = min(day for day in starts if day + 2 not in analyses)
        assert f"the forecast of {dates([first])[0]:%Y-%m-%d} 00:00" in str(found)
        assert f"({len(found.missing)} of {len(starts)} dates lack one)" in str(found)


def test_what_lacks_a_partner_is_told() -> None:
    times = pd.date_range("2020-01-01", periods=5)
    analysis = xr.Dataset(coords={"valid_time": times[:4] + pd.Timedelta("48h")})
    assert str(partners(analysis, TARGET, times)) == (
        "z500 at 48h: 4 of 5 forecasts have an analysis (from 2020-01-01 to 2020-01-04); "
        "no analysis of z500 for 2020-01-07 00:00 UTC, 48h after the forecast of 2020-01-05 00:00 "
        "(1 of 5 dates lack one); the analyses run from 2020-01-03 to 2020-01-06"
    )
    none = analysis.isel(valid_time=slice(0))
    assert str(partners(none, TARGET, times)).endswith(
        "(5 of 5 dates lack one); there is none at all"
    )


@pytest.mark.parametrize(
    ("forecast", "analysis", "text"),
    [
        ({"accumulation": "since_start"}, {"window": "48 h"}, None),
        ({"window": "24 h"}, {"window": "24h"}, None),
        ({"window": "24 h", "accumulation": "since_start"}, {"window": "24 h"}, None),
        ({}, {"window": "24 h"}, None),
        ({"accumulation": "since_start"}, {}, None),
        (
            {"accumulation": "since_start"},
            {"window": "24 h"},
            r"tp at 48h: the forecast is over 48 h \(since its start\), the analysis over 24 h;",
        ),
        ({"window": "6 h"}, {"window": "24 h"}, "the forecast is over 6 h, the analysis over 24 h"),
    ],
)
def test_sums_over_other_times_are_no_truth(
    forecast: dict[str, str], analysis: dict[str, str], text: str | None
) -> None:
    grid = {"latitude": [50.0], "longitude": [0.0]}
    times = pd.date_range("2020-01-01", periods=2)
    target = Target(variable="tp", step="48h")
    dims = ("valid_time", *grid)
    rain = xr.DataArray(np.zeros((2, 1, 1)), {"valid_time": times + target.lead, **grid}, dims)
    truth = xr.Dataset({"tp": rain.assign_attrs(analysis)})
    like = xr.DataArray(np.zeros((1, 1)), grid, tuple(grid), attrs=forecast)
    for given_ in (like, xr.Dataset({"tp": like})):
        if text is None:
            assert truth_for(truth, target, times, given_).shape == (2, 1, 1)
        else:
            with pytest.raises(InputError, match=text):
                truth_for(truth, target, times, given_)


def test_grids_are_snapped_or_refused(tiny_archive: Archive) -> None:
    like = tiny_archive.forecast
    assert tiny_archive.analysis is not None
    field = tiny_archive.analysis["z"]
    near = field.assign_coords(longitude=field["longitude"].astype("float32") + 1e-5)
    assert (snap(near, like, "x")["longitude"].values == like["longitude"].values).all()
    with pytest.raises(InputError, match="longitude differs"):
        snap(field.assign_coords(longitude=field["longitude"] + 0.5), like, "x")
    with pytest.raises(InputError, match="regrid one"):
        snap(field.isel(latitude=slice(2, None)), like, "x")
    # a grid of metres: the tolerance is less than its spacing
    fine = like.assign_coords(longitude=10 + 1e-3 * np.arange(like.sizes["longitude"]))
    with pytest.raises(InputError, match="regrid one of them"):
        snap(fine.assign_coords(longitude=fine["longitude"] + 0.9e-3), fine, "x")
    snap(fine.assign_coords(longitude=fine["longitude"].astype("f4")), fine, "x")
