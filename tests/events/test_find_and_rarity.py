"""Events that were planted are found; return periods of samples whose law is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from weatherpp.errors import InputError
from weatherpp.events.find import as_case, find_peaks, tail_of
from weatherpp.events.rarity import block_extremes, rarity
from weatherpp.recipe import FindSettings

LATITUDE = np.arange(80.0, -81.0, -10.0)
LONGITUDE = np.arange(36) * 10.0


def fields(count: int, start: str, seed: int) -> xr.DataArray:
    """A field that differs from place to place, with little noise."""
    rng = np.random.default_rng(seed)
    mean = 55000 + 500 * np.cos(np.deg2rad(LATITUDE))[:, None] + np.arange(36.0)
    return xr.DataArray(
        mean + rng.normal(0, 10, (count, LATITUDE.size, 36)),
        dims=("valid_time", "latitude", "longitude"),
        coords={
            "valid_time": pd.date_range(start, periods=count, freq="24h"),
            "latitude": LATITUDE,
            "longitude": LONGITUDE,
        },
    )


def planted() -> xr.DataArray:
    analysis = fields(20, "2010-01-01", 2)
    for day, latitude, longitude, size in (
        (5, 40, 350, -2000),
        (6, 40, 0, -1900),  # the same event, on the other side of Greenwich
        (6, -50, 100, -1500),  # at the same time elsewhere
        (15, 40, 350, -1400),  # at the same place later
        (9, 0, 50, 3000),
    ):
        at = {"latitude": latitude, "longitude": longitude}
        place = [list(analysis[dim].values).index(value) for dim, value in at.items()]
        analysis[day, place[0], place[1]] += size
    return analysis


def test_planted_events_are_found_in_their_order() -> None:
    climate = fields(60, "2000-01-01", 1)
    wanted = {"tail": "low", "days": 4, "km": 3000}
    peaks = find_peaks(planted(), climate, count=3, **wanted)  # type: ignore[arg-type]
    assert [(p.time.day, p.latitude, p.longitude) for p in peaks] == [
        (6, 40, 350),
        (7, -50, 100),
        (16, 40, 350),
    ]
    assert [p.anomaly for p in peaks] == pytest.approx([-2000, -1500, -1400], abs=60)
    first = peaks[0]
    past = climate.sel(latitude=40, longitude=350)
    assert first.value - first.anomaly == pytest.approx(float(past.mean()))
    assert first.threshold == pytest.approx(float(past.quantile(0.01)))
    high = find_peaks(planted(), climate, count=1, tail="high", days=4, km=3000)[0]
    assert (high.time.day, high.latitude, high.longitude) == (10, 0, 50)
    # a missing value is no event
    gap = planted()
    gap[5] = np.nan
    other = find_peaks(gap, climate, count=1, **wanted)[0]  # type: ignore[arg-type]
    assert other.time.day == 7
    with pytest.raises(InputError, match="a climate of two times"):
        find_peaks(planted(), climate[:1], count=1, **wanted)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no analysis has a valid value"):
        find_peaks(planted() * np.nan, climate, count=1, **wanted)  # type: ignore[arg-type]


def test_a_found_event_as_a_case() -> None:
    settings = FindSettings(variable="z", level=500)
    assert tail_of("z", settings) == "low"
    assert tail_of("t2m", settings) == "high"
    assert tail_of("z", FindSettings(tail="high")) == "high"
    peak = find_peaks(planted(), fields(60, "2000-01-01", 1), count=1, tail="low", days=4, km=9)[0]
    case = as_case(peak, 1, settings, "m2 s-2")
    assert case.name == "z500-1-20100106T00"
    assert case.box.holds(40, 350)
    assert case.box.holds(40, 0)
    assert (case.start.day, case.end.day) == (2, 10)
    assert case.thresholds[0].below == pytest.approx(peak.threshold, rel=1e-4)
    assert case.track is not None
    assert case.track.extreme == "min"


def yearly(years: int, seed: int) -> tuple[np.ndarray, xr.DataArray]:
    """Yearly maxima of a known law, each among smaller values of its year."""
    sample = stats.genextreme.rvs(0.1, loc=50, scale=8, size=years, random_state=seed)
    times = [pd.Timestamp(1900 + y, m, 1) for y in range(years) for m in (1, 5, 9)]
    values = np.stack([sample - 30, sample, sample - 20], axis=1).ravel()
    return sample, xr.DataArray(values, dims="time", coords={"time": times})


def test_return_period_is_that_of_the_fitted_law() -> None:
    sample, past = yearly(60, 3)
    shape, location, scale = stats.genextreme.fit(sample)
    value = float(stats.genextreme.isf(0.02, shape, location, scale))
    found = rarity(value, past, "high")
    assert found.blocks == found.years == 60
    assert found.period_years == pytest.approx(50, rel=0.1)
    assert (found.shape, found.location) == pytest.approx((shape, location), abs=0.3)
    assert found.rank == int(np.sum(past.values >= value)) + 1
    assert "60 years" in found.words
    # lows are highs with the sign turned
    low = rarity(-value, -past, "low")
    assert (low.period_years, low.rank) == pytest.approx((found.period_years, found.rank))
    # the law itself, as far as 300 years tell it
    many = rarity(
        float(stats.genextreme.isf(0.01, 0.1, loc=50, scale=8)), yearly(300, 1)[1], "high"
    )
    assert many.period_years == pytest.approx(100, rel=0.6)
    # a value beyond a law's upper end, and one that every year has
    assert rarity(1e4, past, "high").period_years == np.inf
    assert "cannot happen" in rarity(1e4, past, "high").words
    assert "beyond all 180 analyses" in rarity(1e4, past, "high").words
    assert "in every block" in rarity(-100.0, past, "high").words


def test_few_years_are_divided_into_months_or_told_to_be_too_few() -> None:
    rng = np.random.default_rng(1)
    times = pd.DatetimeIndex(
        [t for y in (2001, 2002) for t in pd.date_range(f"{y}-01-01", periods=90, freq="84h")]
    )
    past = xr.DataArray(rng.normal(0, 1, 180), dims="time", coords={"time": times})
    extremes, days, years = block_extremes(past, "high")
    # ten whole months a year; the eleventh has dates for 12 days only
    assert (extremes.size, days, years) == (20, 30, 2)
    series = pd.Series(past.values, times)
    assert extremes[0] == series["2001-01-01":"2001-01-30"].max()  # type: ignore[misc]
    found = rarity(8.0, past, "high")
    assert "an extrapolation: only 2 years" in found.words or "cannot happen" in found.words
    few = rarity(8.0, past[:20], "high")
    assert few.blocks == 0
    assert np.isnan(few.period_years)
    assert "too few to fit" in few.words
    # NaN are no values
    gaps = past.copy()
    gaps[::2] = np.nan
    assert rarity(0.0, gaps, "high").past == 90
    with pytest.raises(InputError, match="of a number"):
        rarity(np.nan, past, "high")


def test_a_climate_of_other_points_is_refused() -> None:
    coords = {
        "valid_time": pd.date_range("2020-01-01", periods=3),
        "latitude": [10.0, 0.0],
        "longitude": [0.0, 1.0],
    }
    field = xr.DataArray(np.zeros((3, 2, 2)), coords, list(coords))
    other = field.assign_coords(latitude=[11.0, 1.0])
    for climate in (other, field.isel(longitude=[0])):  # anomalies of other places before
        with pytest.raises(InputError, match=r"differ in the coordinate '(latitude|longitude)'"):
            find_peaks(field, climate, count=1, tail="low", days=1, km=1)


def test_past_values_that_are_infinite_are_left_out() -> None:
    times = pd.date_range("2000-01-01", periods=400, freq="10D")
    values = np.random.default_rng(0).normal(size=400)
    past = xr.DataArray(values, {"time": times}, ["time"])
    gap = past.where(past["time"] != times[3])
    assert rarity(1.0, past.where(gap.notnull(), np.inf), "high") == rarity(1.0, gap, "high")
