"""Values that cannot be are refused, with variable, date and number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_datasets

from weatherpp.conventions import VARIABLES
from weatherpp.data.checks import RANGES, check_dataset, check_values
from weatherpp.data.standard_atmosphere import standard
from weatherpp.errors import InputError


@pytest.fixture
def forecast() -> xr.Dataset:
    return make_datasets(years=1, dates=3, members=3, shape=(4, 8))[0]


def test_ranges_are_of_known_variables() -> None:
    assert set(RANGES) <= set(VARIABLES)
    assert all(low < high for low, high in RANGES.values())


def test_missing_on_levels_a_variable_does_not_have_is_no_fault(forecast: xr.Dataset) -> None:
    assert np.isnan(forecast["z"]).any()
    check_dataset(forecast, "x")


def test_missing_values_are_counted_with_their_date(forecast: xr.Dataset) -> None:
    forecast["z"][1, 0, 2, 2, :2, 3] = np.nan
    date = pd.Timestamp(forecast["time"].values[1])
    with pytest.raises(InputError, match=f"z at {date:%Y-%m-%d} 00Z has 2 missing values"):
        check_dataset(forecast, "file.nc")
    with pytest.raises(InputError, match=f"z at {date:%Y-%m-%d} 00Z has 2 missing values"):
        check_dataset(forecast.chunk(time=1), "file.nc")
    check_dataset(forecast, "file.nc", sparse=True)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 9.96921e36])
def test_infinities_and_undeclared_fill_values_are_missing_too(value: float) -> None:
    values = np.full((2, 3, 4), 280.0, np.float32)
    values[1, 0, 0] = value
    times = pd.date_range("2001-01-01", periods=2)
    ds = xr.Dataset({"t2m": (("time", "y", "x"), values)}, {"time": times})
    with pytest.raises(InputError, match="t2m at 2001-01-02 00Z has 1 missing values of 12"):
        check_dataset(ds, "f.nc")
    # where gaps are expected, these are still none, and the advice is another
    with pytest.raises(InputError, match="has 1 values of 12 that are infinite or beyond"):
        check_dataset(ds, "f.nc", sparse=True)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("t2m", 15.0, "outside 120 to 400 K"),  # degrees Celsius under the name of kelvin
        ("msl", 1013.0, "outside 85000 to 115000 Pa"),
        ("z", 7e5, "outside -20000 to 600000 m2 s-2"),  # no level is known
        ("tp", 12.0, "outside -0.001 to 5 m"),
    ],
)
def test_what_no_field_can_have(name: str, value: float, text: str) -> None:
    da = xr.DataArray(np.full((2, 2), value, np.float32), dims=("y", "x"), name=name)
    with pytest.raises(InputError, match=f"{name} has 4 values of 4 {text}.* a wrong unit or"):
        check_values(da, "f.nc")


HEIGHTS = {  # of the standard atmosphere: geopotential height (m), temperature (K)
    1000: (110.9, 287.43),
    850: (1457.3, 278.68),
    500: (5574.4, 251.92),
    200: (11784.1, 216.65),
    50: (20576.2, 217.23),
    10: (31054.6, 227.70),
    1: (47820.1, 270.65),
}


@pytest.mark.parametrize("level", HEIGHTS)
def test_standard_atmosphere(level: int) -> None:
    height, temperature = standard(level)
    assert height == pytest.approx(HEIGHTS[level][0], abs=0.1)
    assert temperature == pytest.approx(HEIGHTS[level][1], abs=0.01)


@given(st.floats(0.01, 1100), st.floats(1.0001, 2))
def test_standard_atmosphere_is_hydrostatic(pressure: float, ratio: float) -> None:
    (low, warm), (high, cold) = standard(pressure), standard(pressure / ratio)
    thickness = (high - low) * 9.80665 / (287.05287 * np.log(ratio))
    # the mean temperature of a layer lies between the extremes in it, 186.9 to 292.7 K
    assert min(warm, cold, 186.9) - 1e-3 <= thickness <= 292.7
    assert high > low


def levels_of(name: str, values: dict[int, float]) -> xr.DataArray:
    """Fields of two dates, one value a level."""
    field = np.broadcast_to(
        np.float32(list(values.values()))[:, None, None], (2, len(values), 2, 3)
    )
    coords = {"time": pd.date_range("2001-01-01", periods=2), "level": list(values)}
    return xr.DataArray(field.copy(), coords, ("time", "level", "y", "x"), name)


# the extremes of ERA5 from 1979 on, roughly (m), and the eye of typhoon Tip
WEATHER: dict[int, tuple[float, float]] = {
    1000: (-1230.0, 600.0),
    850: (205.0, 1800.0),
    700: (1900.0, 3350.0),
    500: (4500.0, 6050.0),
    100: (14700.0, 17000.0),
    10: (27000.0, 33000.0),
    1: (41000.0, 51000.0),
}


def test_heights_under_the_unit_of_geopotential_are_refused() -> None:
    for heights in zip(*WEATHER.values(), strict=True):
        real = {level: 9.80665 * h for level, h in zip(WEATHER, heights, strict=True)}
        check_values(levels_of("z", real), "f.nc")
        for level, value in real.items():
            if level <= 850:
                with pytest.raises(InputError, match=f"z on {level} hPa at 2001-01-01 00Z has 6 v"):
                    check_values(levels_of("z", real | {level: value / 9.80665}), "f.nc")
            if level <= 700:
                with pytest.raises(InputError, match=f"z on {level} hPa .* a wrong unit or"):
                    check_values(levels_of("z", real | {level: value * 9.80665}), "f.nc")


def test_range_of_a_level_that_is_no_dimension_and_beside_missing_values() -> None:
    fields = levels_of("z", {500: 5500.0})
    with pytest.raises(InputError, match=r"z at 2001-01-01 00Z has 6 values of 6 outside 27333"):
        check_values(fields.isel(level=0), "f.nc")
    fields[:, 0, 0, 0] = np.nan
    with pytest.raises(InputError, match="z on 500 hPa at 2001-01-01 00Z has 5 values of 6"):
        check_values(fields, "f.nc", sparse=True)
    with pytest.raises(InputError, match="z at 2001-01-01 00Z has 1 missing values of 6"):
        check_values(fields, "f.nc")


def test_temperature_of_a_level() -> None:
    check_values(levels_of("t", {1000: 190.0, 500: 280.0, 10: 300.0, 1: 330.0}), "f.nc")
    with pytest.raises(InputError, match=r"t on 100 hPa .* outside 106\.65 to 306.65 K"):
        check_values(levels_of("t", {500: 250.0, 100: 380.0}), "f.nc")  # potential temperature
