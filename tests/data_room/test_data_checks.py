"""Values that cannot be are refused, with variable, date and number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from synthetic import make_datasets

from weatherpp.conventions import VARIABLES
from weatherpp.data.checks import RANGES, check_dataset, check_values
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
    for sparse in (False, True):
        with pytest.raises(InputError, match="t2m at 2001-01-02 00Z has 1 missing values of 12"):
            check_dataset(ds, "f.nc", sparse)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("t2m", 15.0, "outside 120 to 400 K"),  # degrees Celsius under the name of kelvin
        ("msl", 1013.0, "outside 85000 to 115000 Pa"),
        ("tp", 12.0, "outside -0.001 to 5 m"),
    ],
)
def test_what_no_field_can_have(name: str, value: float, text: str) -> None:
    da = xr.DataArray(np.full((2, 2), value, np.float32), dims=("y", "x"), name=name)
    with pytest.raises(InputError, match=f"{name} has 4 values of 4 {text}.* a wrong unit or"):
        check_values(da, "f.nc")
