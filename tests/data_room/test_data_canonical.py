"""Other sources' names, units, orders and grids made canonical, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from weatherpp.conventions import GRAVITY, UNITS, VARIABLES, check
from weatherpp.data.canonical import canonicalise, convert_units
from weatherpp.errors import InputError

TIMES = pd.date_range("2020-01-01", periods=2)
LAT = np.array([40.0, 50.0, 60.0])
LON = np.array([-20.0, -10.0, 0.0, 10.0])


def values(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def cf_forecast() -> xr.Dataset:
    """As model output archives have it: CF names, ascending latitude, levels in Pa."""
    dims = ("forecast_reference_time", "forecast_period", "realization", "plev", "lat", "lon")
    return xr.Dataset(
        {
            "zg": (dims, values(2, 2, 3, 2, 3, 4), {"units": "gpm"}),
        },
        {
            "forecast_reference_time": TIMES,
            "forecast_period": ("forecast_period", [6, 12], {"units": "hours"}),
            "realization": [2.0, 0.0, 1.0],
            "plev": ("plev", [85000.0, 50000.0], {"units": "Pa"}),
            "lat": LAT,
            "lon": LON,
        },
    )


def weatherbench() -> xr.Dataset:
    dims = ("time", "prediction_timedelta", "number", "level", "latitude", "longitude")
    ds = cf_forecast()
    names = dict(zip(ds["zg"].dims, dims, strict=True))
    ds = ds.rename({**names, "zg": "geopotential"})
    ds["geopotential"].attrs["units"] = "gpm"
    ds["level"].attrs["units"] = "Pa"
    return ds


def cfgrib_like() -> xr.Dataset:
    ds = cf_forecast().rename(
        forecast_reference_time="time",
        forecast_period="step",
        realization="number",
        plev="isobaricInhPa",
        lat="latitude",
        lon="longitude",
        zg="gh",
    )
    ds = ds.assign_coords(
        step=pd.TimedeltaIndex(["6h", "12h"]), isobaricInhPa=[850.0, 500.0], surface=0.0
    )
    ds["time"].attrs["standard_name"] = "forecast_reference_time"
    valid = (ds["time"] + ds["step"]).assign_attrs(standard_name="time")
    return ds.assign_coords(valid_time=valid)


def short_names() -> xr.Dataset:
    ds = cf_forecast().rename(
        forecast_reference_time="S", forecast_period="L", realization="M", plev="pressure"
    )
    return ds.assign_coords(L=("L", [0.25, 0.5], {"units": "days"}))


@pytest.mark.parametrize("source", [cf_forecast, weatherbench, cfgrib_like, short_names])
def test_all_spellings_give_the_same(source: Callable[[], xr.Dataset]) -> None:
    ds = canonicalise(source(), "x")
    check(ds, "x")
    assert ds["z"].dims == ("time", "step", "number", "level", "latitude", "longitude")
    assert ds["level"].values.tolist() == [500, 850]
    assert ds["number"].values.tolist() == [0, 1, 2]
    assert ds["latitude"].values.tolist() == [60, 50, 40]
    assert ds["longitude"].values.tolist() == [-20, -10, 0, 10]
    assert (
        ds["step"].values.tolist() == pd.TimedeltaIndex(["6h", "12h"]).as_unit("ns").asi8.tolist()
    )
    assert (ds["valid_time"] == ds["time"] + ds["step"]).all()
    assert ds["z"].attrs["units"] == "m2 s-2"
    # one value followed through all reorderings: member 2 is first in the source, 500 hPa second
    there = cf_forecast()["zg"].values[1, 0, 0, 1, 2, 1]
    here = ds["z"].sel(number=2, level=500, latitude=60, longitude=-10).isel(time=1, step=0)
    assert float(here) == pytest.approx(there * GRAVITY, rel=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 180),
    st.floats(-720, 720),
    st.sampled_from([0.25, 0.5, 1.0, 2.0]),
)
def test_longitudes_keep_their_values(count: int, west: float, spacing: float) -> None:
    lon = west + spacing * np.arange(count)
    ds = xr.Dataset(
        {"lsm": (("lat", "lon"), values(2, count), {"units": "1"})}, {"lat": [1.0, 0.0], "lon": lon}
    )
    out = canonicalise(ds, "x", "static")
    found = out["longitude"].values
    check(out, "x", "static")
    if count > 1 and count * spacing < 180:  # a region stays in one piece
        np.testing.assert_allclose(np.diff(found), spacing, rtol=1e-6)
    # back again: the value of each original meridian is where it was
    for at in {0, count // 2, count - 1}:
        distance = np.abs((found - lon[at] + 180) % 360 - 180)
        assert distance.min() < 1e-6
        assert out["lsm"].values[0, distance.argmin()] == ds["lsm"].values[0, at]


@pytest.mark.parametrize(
    ("name", "units", "value", "wanted"),
    [
        ("t2m", "degC", 20.0, 293.15),
        ("t2m", "K", 280.0, 280.0),
        ("z", "dam", 550.0, 5500 * GRAVITY),
        ("z", "m**2 s**-2", 5e4, 5e4),
        ("msl", "hPa", 1013.25, 101325.0),
        ("tp", "mm", 12.0, 0.012),
        ("tp", "kg m**-2", 12.0, 0.012),
        ("fg10", "km/h", 36.0, 10.0),
        ("fg10", "knots", 100.0, 51.4444),
        ("q", "g kg-1", 8.0, 0.008),
        ("r", "1", 0.5, 50.0),
        ("tcc", "%", 50.0, 0.5),
    ],
)
def test_units(name: str, units: str, value: float, wanted: float) -> None:
    da = xr.DataArray(np.float32([value]), attrs={"units": units})
    out = convert_units(da, name, "x")
    assert out.values[0] == pytest.approx(wanted, rel=1e-5)
    assert out.attrs["units"] == VARIABLES[name].units
    assert out.dtype == np.float32


@pytest.mark.parametrize("units", [None, "", "furlongs", "unknown"])
@pytest.mark.parametrize("name", ["t2m", "z", "tp"])
def test_unknown_units_are_refused(name: str, units: str | None) -> None:
    attrs = {} if units is None else {"units": units}
    with pytest.raises(InputError, match=rf"variables\.{name}\.units"):
        convert_units(xr.DataArray([1.0], attrs=attrs), name, "x")


def test_each_spelling_of_a_unit_is_distinct_from_the_canonical() -> None:
    for wanted, spellings in UNITS.items():
        assert wanted not in spellings


def drop(name: str) -> Callable[[xr.Dataset], xr.Dataset]:
    return lambda ds: ds.drop_vars(name)


def lead_without_units(ds: xr.Dataset) -> xr.Dataset:
    return ds.assign_coords(forecast_period=[6, 12])


def noleap(ds: xr.Dataset) -> xr.Dataset:
    days = xr.date_range("2020-01-01", periods=2, calendar="noleap", use_cftime=True)
    return ds.assign_coords(forecast_reference_time=days)


def unstructured(ds: xr.Dataset) -> xr.Dataset:
    return ds.stack(values=("lat", "lon")).reset_index("values")


def lagged(ds: xr.Dataset) -> xr.Dataset:
    ds = ds.isel(forecast_reference_time=0, drop=True)
    starts = pd.date_range("2020-01-01", periods=3, freq="6h")
    return ds.assign_coords(forecast_reference_time=("realization", starts))


REFUSED: dict[str, tuple[Callable[[xr.Dataset], xr.Dataset], str]] = {
    "no initial time": (drop("forecast_reference_time"), "no initial time|not a time"),
    "no lead time": (
        lambda d: d.isel(forecast_period=0, drop=True),
        "no lead time",
    ),
    "lead without units": (lead_without_units, "lead time without units"),
    "lead in months": (
        lambda d: d.assign_coords(forecast_period=("forecast_period", [1, 2], {"units": "months"})),
        "lead time in 'months'",
    ),
    "negative lead": (
        lambda d: d.assign_coords(forecast_period=("forecast_period", [-6, 6], {"units": "h"})),
        "negative",
    ),
    "calendar": (noleap, "standard calendar"),
    "unstructured": (unstructured, "unstructured grid of 12 points"),
    "lagged": (lagged, "lagged ensemble"),
    "levels in metres": (
        lambda d: d.assign_coords(plev=("plev", [1.0, 2.0], {"units": "m"})),
        "levels are in 'm'",
    ),
    "levels too small": (
        lambda d: d.assign_coords(plev=("plev", [0.5, 2.0], {"units": "hPa"})),
        "not whole hPa",
    ),
    "cyclic point": (lambda d: d.assign_coords(lon=[0.0, 120, 240, 360]), "one meridian"),
    "swapped": (lambda d: d.assign_coords(lat=[100.0, 120, 140]), "swapped"),
    "member twice": (lambda d: d.assign_coords(realization=[0, 0, 1]), "stands twice"),
    "fractional member": (lambda d: d.assign_coords(realization=[0.5, 1, 2]), "whole numbers"),
    "extra dimension": (lambda d: d.expand_dims(height=2), "unknown dimension 'height'"),
    "two lead times": (lambda d: d.assign_coords(step=("realization", [1, 2, 3])), "both are step"),
    "times that do not add up": (
        lambda d: d.assign_coords(time=d["forecast_reference_time"] + np.timedelta64(6, "h")).isel(
            forecast_period=1
        ),
        "not initial time plus lead time",
    ),
    "not aloft": (lambda d: d.isel(plev=0, drop=True), "not on a pressure level"),
    "two of a kind": (lambda d: d.assign(gh=d["zg"]), "two variables are z"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_refused_in_one_line(fault: str) -> None:
    change, text = REFUSED[fault]
    with pytest.raises(InputError, match=text) as caught:
        canonicalise(change(cf_forecast()), "file.nc")
    assert str(caught.value).startswith("file.nc: ")
    assert "\n" not in str(caught.value)


def test_scalar_times_and_level_become_dimensions() -> None:
    ds = cf_forecast().isel(forecast_reference_time=0, forecast_period=1, plev=0, realization=0)
    out = canonicalise(ds, "x")
    assert dict(out.sizes) == {
        "time": 1,
        "step": 1,
        "number": 1,
        "level": 1,
        "latitude": 3,
        "longitude": 4,
    }


def test_valid_times_with_one_initial_time() -> None:
    ds = cf_forecast().isel(forecast_reference_time=0).drop_vars("forecast_period")
    ds = ds.rename(forecast_period="time").assign_coords(
        time=TIMES[0] + pd.to_timedelta([6, 12], "h")
    )
    out = canonicalise(ds, "x")
    assert out["step"].values.tolist() == [6 * 3600 * 10**9, 12 * 3600 * 10**9]


def test_one_lead_time_along_valid_times() -> None:
    """As some centres write it: one axis of valid times, initial and lead time along it."""
    ds = cf_forecast().isel(forecast_period=0).reset_coords("forecast_period")
    lead = ("time", [6, 6], {"units": "hours"})
    ds = ds.drop_vars("forecast_period").rename(forecast_reference_time="time")
    ds = ds.assign_coords(forecast_reference_time=("time", TIMES), forecast_period=lead)
    ds = ds.assign_coords(time=TIMES + pd.Timedelta("6h"))
    out = canonicalise(ds, "x")
    assert (out["time"].values == TIMES.values).all()
    assert out["step"].values.tolist() == [6 * 3600 * 10**9]
    check(out, "x")


def test_air_temperature_is_told_by_its_height() -> None:
    base = cf_forecast().isel(plev=0, drop=True)
    attrs = {"standard_name": "air_temperature", "units": "K"}
    da = base["zg"].assign_attrs(attrs)
    near = base.drop_vars("zg").assign(air_temperature=da).assign_coords(height=1.5)
    assert list(canonicalise(near, "x").data_vars) == ["t2m"]
    somewhere = near.drop_vars("height")
    assert list(canonicalise(somewhere, "x").data_vars) == ["air_temperature"]  # not guessed


def test_analysis_has_valid_time_only() -> None:
    ds = cf_forecast().isel(forecast_period=0, realization=0)
    out = canonicalise(ds, "x", "analysis")
    check(out, "x", "analysis")
    assert (
        out["valid_time"].values.tolist()
        == (TIMES + pd.Timedelta("6h")).as_unit("ns").asi8.tolist()
    )
    with pytest.raises(InputError, match="no members"):
        canonicalise(cf_forecast().isel(forecast_period=0), "x", "analysis")
    with pytest.raises(InputError, match="one lead time"):
        canonicalise(cf_forecast().isel(realization=0), "x", "analysis")


def test_static_refuses_dates() -> None:
    with pytest.raises(InputError, match="a static field has no dimension"):
        canonicalise(cf_forecast().isel(plev=0), "x", "static")


def test_one_dimensional_coordinates_on_x_and_y() -> None:
    ds = cf_forecast().rename(lat="latitude", lon="longitude")
    ds = ds.rename_dims(latitude="y", longitude="x").reset_index(["latitude", "longitude"])
    out = canonicalise(ds.reset_coords(drop=False).set_coords(list(ds.coords)), "x")
    assert out["latitude"].values.tolist() == [60, 50, 40]


@pytest.mark.parametrize("mapping", ["lambert_azimuthal_equal_area", "rotated_latitude_longitude"])
def test_projected_grid_gets_places(mapping: str) -> None:
    if mapping == "rotated_latitude_longitude":
        crs = {"grid_north_pole_latitude": 39.25, "grid_north_pole_longitude": -162.0}
        y, x, units = [-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0, 2.0], "degrees"
        names = ("grid_latitude", "grid_longitude")
        centre = (50.75, 18.0)  # where the rotated equator and zero meridian cross
    else:
        crs = {"latitude_of_projection_origin": 54.9, "longitude_of_projection_origin": -2.5}
        y, x, units = [-1e3, 0.0, 1e3], [-1e3, 0.0, 1e3, 2e3], "m"
        names = ("projection_y_coordinate", "projection_x_coordinate")
        centre = (54.9, 357.5)
    ds = cf_forecast().rename(lat="yy", lon="xx").drop_vars(["yy", "xx"])
    ds = ds.assign_coords(
        yy=("yy", y, {"standard_name": names[0], "units": units}),
        xx=("xx", x, {"standard_name": names[1], "units": units}),
    )
    ds["crs_of_file"] = xr.DataArray(0, attrs={"grid_mapping_name": mapping, **crs})
    out = canonicalise(ds, "x")
    check(out, "x")
    assert out["z"].dims[-2:] == ("y", "x")
    assert float(out["latitude"][1, 1]) == pytest.approx(centre[0], abs=1e-6)
    assert float(out["longitude"][1, 1]) == pytest.approx(centre[1], abs=1e-6)
    assert out["z"].attrs["grid_mapping"] == "crs"
    assert out["crs"].attrs["grid_mapping_name"] == mapping
    if units == "m":  # each axis has a unit of its own
        kilometres = ds.assign_coords(
            yy=ds["yy"].copy(data=ds["yy"] / 1e3).assign_attrs(units="km")
        )
        xr.testing.assert_allclose(canonicalise(kilometres, "x"), out)


def test_lazy_stays_lazy() -> None:
    out = canonicalise(cf_forecast().chunk(forecast_reference_time=1), "x")
    assert out["z"].chunks is not None


def test_angles_in_radians_become_degrees_and_others_are_refused() -> None:
    want = canonicalise(cf_forecast(), "x")
    ds = cf_forecast()
    for name in ("lat", "lon"):
        ds[name] = np.deg2rad(ds[name]).assign_attrs(units="radians")
    got = canonicalise(ds, "x")
    for name in ("latitude", "longitude"):
        np.testing.assert_allclose(got[name], want[name], atol=1e-9)
    np.testing.assert_array_equal(got["z"], want["z"])
    ds["lat"].attrs["units"] = "gon"
    with pytest.raises(InputError, match="is in 'gon'; degrees are needed"):
        canonicalise(ds, "x")


def test_text_is_no_field() -> None:
    ds = cf_forecast()
    ds["zg"] = ds["zg"].astype(str)
    with pytest.raises(InputError, match="holds text, not numbers"):
        canonicalise(ds, "x")
