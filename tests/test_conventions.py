"""The canonical names, units and checks."""

from __future__ import annotations

import pytest
import xarray as xr
from synthetic import make_datasets

from weatherpp.conventions import (
    NAMES,
    STANDARD,
    UNITS,
    VARIABLES,
    annotate,
    check,
    exists_on,
    grid_dims,
)
from weatherpp.errors import InputError


@pytest.fixture
def forecast() -> xr.Dataset:
    return make_datasets(years=1, dates=3, members=3, shape=(4, 8))[0]


def test_tables_lead_to_known_variables() -> None:
    assert set(NAMES.values()) <= set(VARIABLES)
    assert set(STANDARD.values()) <= set(VARIABLES)
    assert {v.units for v in VARIABLES.values()} == set(UNITS)


def test_annotate_sets_all_three_and_drops_units_of_times(forecast: xr.Dataset) -> None:
    forecast["step"].attrs["units"] = "seconds"
    bare = forecast.drop_attrs()
    done = annotate(bare)
    assert done["z"].attrs["units"] == "m2 s-2"
    assert done["z"].attrs["standard_name"] == "geopotential"
    assert done["level"].attrs["units"] == "hPa"
    assert "units" not in annotate(forecast)["step"].attrs
    assert bare["z"].attrs == {}, "the argument is not changed"


def test_canonical_passes(forecast: xr.Dataset) -> None:
    check(forecast, "x")
    assert grid_dims(forecast) == ("latitude", "longitude")
    assert exists_on(forecast["z"], "levels") == [200, 500, 800]
    assert exists_on(forecast["z"], "steps") == [24, 48]


FAULTS = {
    "no members": (lambda d: d.isel(number=0, drop=True), "no ensemble members"),
    "south to north": (lambda d: d.isel(latitude=slice(None, None, -1)), "north to south"),
    "negative longitude": (
        lambda d: d.assign_coords(longitude=d["longitude"] - 180),
        r"\[0, 360\)",
    ),
    "level order": (lambda d: d.isel(level=[1, 0, 2, 3, 4]), "'level' is not ascending"),
    "twice": (lambda d: d.isel(time=[0, 0, 1]), "'time' is not ascending and unique"),
    "units": (lambda d: d.assign(z=d["z"].assign_attrs(units="m")), "not in m2 s-2"),
    "no grid": (lambda d: d.isel(latitude=0), "no grid"),
    "no variable": (lambda d: d.drop_vars(["z", "t"]), "no variable"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_names_place_and_fault(fault: str, forecast: xr.Dataset) -> None:
    change, text = FAULTS[fault]
    with pytest.raises(InputError, match=text) as caught:
        check(change(forecast), "file.nc")
    assert str(caught.value).startswith("file.nc: ")
    assert "\n" not in str(caught.value)
