"""Quirks of real sources: what each becomes, or why it is refused. The table is docs/quirks.md."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eccodes
import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from raw_data import H, ensemble, field

from weatherpp.conventions import check
from weatherpp.data import grib, netcdf
from weatherpp.data.canonical import canonicalise
from weatherpp.data.catalog import CatalogEntry, SourceVariable, load_entry
from weatherpp.data.ingest import read_forecast
from weatherpp.data.inspect import inspect
from weatherpp.data.join import join
from weatherpp.data.lagged import as_control, lag
from weatherpp.data.matching import snap
from weatherpp.errors import ConfigError, InputError
from weatherpp.strict import validate

# -- the grid ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lon", [[0, 90, 180, 270, 360], [-180, -90, 0, 90, 180], [180, 90, 0, -90, -180]]
)
@pytest.mark.parametrize("lazy", [False, True])
def test_cyclic_column_that_repeats_is_dropped(lon: list[float], lazy: bool) -> None:
    da = field("time lat lon", 2, 2, 5, units="K")
    da[..., -1] = da[..., 0] * np.float32(1 + 1e-7)
    times = pd.date_range("2020-01-01", periods=2)
    ds = xr.Dataset({"t2m": da}, {"time": times, "lat": [1.0, 0.0], "lon": np.float32(lon)})
    out = canonicalise(ds.chunk(time=1, lon=2) if lazy else ds, "x", "analysis")
    assert (out["t2m"].chunks is not None) == lazy
    assert out["longitude"].values.tolist() == [0, 90, 180, 270]
    assert "dropped" in out["t2m"].attrs["cyclic_column"]
    for there, at in enumerate(lon[1:4], start=1):  # those given once
        found = out["t2m"].sel(longitude=at % 360)
        np.testing.assert_array_equal(found, da[..., there])


def test_cyclic_column_that_differs_is_refused_when_it_is_read() -> None:
    da = field("time lat lon", 2, 2, 5, units="K")
    da[0, :, -1] = da[0, :, 0]  # agrees on the first date only
    times = pd.date_range("2020-01-01", periods=2)
    lon = [0.0, 90, 180, 270, 360]
    ds = xr.Dataset({"t2m": da}, {"time": times, "lat": [1.0, 0.0], "lon": lon})
    out = canonicalise(ds.chunk(time=1), "x.nc", "analysis")  # nothing is read here
    assert out["t2m"][0].values.shape == (2, 4)
    with pytest.raises(InputError, match=r"x\.nc: t2m differs between longitude 0 and 360"):
        out["t2m"].compute()
    with pytest.raises(InputError, match="drop the wrong column"):
        canonicalise(ds, "x.nc", "analysis")


def test_regular_gaussian_grid_is_a_grid() -> None:
    handle = eccodes.codes_grib_new_from_samples("regular_gg_sfc_grib2")
    rows = np.unique(eccodes.codes_get_array(handle, "latitudes"))
    eccodes.codes_release(handle)
    da = field("lat lon", rows.size, 4, units="1")
    ds = xr.Dataset({"lsm": da}, {"lat": rows, "lon": [0.0, 90, 180, 270]})
    out = canonicalise(ds, "x", "static")
    check(out, "x", "static")
    assert np.ptp(np.diff(rows)) > 1e-3, "rows are not evenly spaced"
    np.testing.assert_array_equal(out["latitude"], rows[::-1])


@pytest.mark.parametrize("name", ["t2m_grib.grib", "O32_global.grib2"])
def test_reduced_gaussian_grid_is_refused(name: str, data_dir: Path) -> None:
    with pytest.raises(InputError, match=r"reduced or unstructured grid .*; regrid it"):
        read_forecast(data_dir / "grib" / name)


def test_index_without_a_grid_is_a_station_without_a_place() -> None:
    ds = ensemble()[["t2m"]].isel(lat=0, lon=0, drop=True).rename(t2m="RMM1")
    ds["RMM1"].attrs["units"] = "unitless"
    out = canonicalise(ds, "x")
    check(out, "x")
    assert out["rmm1"].dims == ("time", "step", "number", "station")
    assert "standard_name" not in out["rmm1"].attrs, "CF has none"
    assert np.isnan(out["latitude"]).all()
    assert snap(out["rmm1"], out, "x").equals(out["rmm1"])
    with pytest.raises(InputError, match="no latitude and longitude"):
        canonicalise(ds.rename(RMM1="t2m"), "x")


# -- packed values and those declared missing --------------------------------------------------

PACKED: dict[str, tuple[str, list[float], dict[str, Any], list[float]]] = {
    "scale, offset and fill": (
        "i2",
        [10, -999, 20],
        {"_FillValue": np.int16(-999), "scale_factor": 0.5, "add_offset": 270.0},
        [275, np.nan, 280],
    ),
    "two fill values": (
        "i2",
        [10, -999, -32767],
        {"_FillValue": np.int16(-32767), "missing_value": np.int16(-999), "scale_factor": 0.5},
        [5, np.nan, np.nan],
    ),
    "fill as text": ("f4", [1, -999, 3], {"missing_value": "-999"}, [1, np.nan, 3]),
    "fill as text, packed": (
        "i2",
        [1, -999, 3],
        {"missing_value": "-999", "scale_factor": 0.1, "add_offset": 1.0},
        [1.1, np.nan, 1.3],
    ),
    "fill NaN as text": ("f4", [1, 2, np.nan], {"missing_value": "NaN"}, [1, 2, np.nan]),
    "fill of another type": (
        "f4",
        [1, -999.9, 3],
        {"missing_value": np.float64(-999.9)},
        [1, np.nan, 3],
    ),
    "fill that does not fit": ("i2", [1, 2, 3], {"missing_value": np.float64(-1e20)}, [1, 2, 3]),
    "packed range": (
        "i2",
        [1, -5, 60],
        {"valid_range": np.int16([0, 50]), "scale_factor": 0.1, "add_offset": 5.0},
        [5.1, np.nan, np.nan],
    ),
    "unpacked limit": (
        "i2",
        [1, 60, 99],
        {"valid_max": 6.5, "scale_factor": 0.1},
        [0.1, 6, np.nan],
    ),
    "negative scale": (
        "i2",
        [0, 50, 60],
        {"valid_range": np.int16([0, 50]), "scale_factor": -1.0},
        [0, -50, np.nan],
    ),
}


def write_packed(path: Path, kind: str, values: list[float], attrs: dict[str, Any]) -> None:
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        for dim, size in (("lat", 1), ("lon", 3)):
            file.createDimension(dim, size)
            file.createVariable(dim, "f8", (dim,))[:] = np.arange(size)
        fill = attrs.get("_FillValue")
        variable = file.createVariable("t2m", kind, ("lat", "lon"), fill_value=fill)
        variable.set_auto_maskandscale(False)
        variable[:] = values
        variable.setncatts({k: v for k, v in attrs.items() if k != "_FillValue"} | {"units": "K"})


@pytest.mark.parametrize("case", PACKED)
@pytest.mark.filterwarnings("error::xarray.SerializationWarning")
def test_packed_and_missing_values(case: str, tmp_path: Path) -> None:
    kind, values, attrs, wanted = PACKED[case]
    write_packed(tmp_path / "a.nc", kind, values, attrs)
    out = canonicalise(netcdf.read(tmp_path / "a.nc"), "x", "static")
    assert out["t2m"].chunks is not None
    np.testing.assert_allclose(out["t2m"].values.ravel(), wanted, rtol=1e-6)
    assert not {"valid_range", "valid_max"} & set(out["t2m"].attrs)


def test_fill_value_that_is_no_number_is_refused(tmp_path: Path) -> None:
    write_packed(tmp_path / "a.nc", "f4", [1, 2, 3], {"missing_value": "none"})
    with pytest.raises(InputError, match="t2m has the missing_value 'none', which is no number"):
        canonicalise(netcdf.read(tmp_path / "a.nc"), "x", "static")


# -- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian"])
def test_calendars_of_no_real_year_are_refused(calendar: str) -> None:
    days = xr.date_range("2020-01-01", periods=1, calendar=calendar, use_cftime=True)
    with pytest.raises(InputError, match=rf"standard calendar \(the calendar is {calendar}\)"):
        canonicalise(ensemble().assign_coords(reference=days), "x")


@pytest.mark.filterwarnings("error::xarray.SerializationWarning")
@pytest.mark.parametrize("calendar", ["standard", "gregorian", "proleptic_gregorian"])
def test_real_calendars_pass_within_the_years_of_nanoseconds(calendar: str, tmp_path: Path) -> None:
    for since, fine in (("2020-01-01", True), ("1500-03-01", False)):
        ds = ensemble().assign_coords(
            reference=("reference", [3], {"units": f"days since {since}", "calendar": calendar})
        )
        ds.to_netcdf(tmp_path / f"{since}.nc")
        raw = netcdf.read(tmp_path / f"{since}.nc")
        if fine:
            assert canonicalise(raw, "x")["time"].values[0] == np.datetime64("2020-01-04")
        else:
            with pytest.raises(InputError, match="beyond the years 1678 to 2261"):
                canonicalise(raw, "x")


def test_initial_by_valid_times_are_a_table_with_gaps() -> None:
    starts = pd.date_range("2020-01-01", periods=3)
    valid = pd.date_range("2020-01-01", periods=4)
    da = field("reference time number lat lon", 3, 4, 2, 2, 3, units="K")
    base = ensemble()[["number", "lat", "lon"]]
    ds = xr.Dataset({"t2m": da}, base.coords).assign_coords(reference=starts, time=valid)
    out = canonicalise(ds.chunk(reference=1), "x")
    check(out, "x")
    assert (out["step"].values / (24 * H)).tolist() == [0, 1, 2, 3]
    for i in range(3):
        for j in range(4):
            found = out["t2m"][i, j]
            if i + j < 4:
                np.testing.assert_array_equal(found, da[i, i + j])
            else:
                assert np.isnan(found).all(), "no such field in the file"


def test_runs_along_one_axis_of_valid_times() -> None:
    """Two runs of three lead times each, field after field; without one of them, a gap."""
    starts = pd.DatetimeIndex(["2020-01-01"] * 3 + ["2020-01-02"] * 3)
    valid = starts + pd.to_timedelta([6, 12, 18] * 2, "h")
    da = field("time number lat lon", 6, 2, 2, 3, units="K")
    ds = xr.Dataset({"t2m": da}, ensemble()[["number", "lat", "lon"]].coords)
    ds = ds.assign_coords(time=valid, forecast_reference_time=("time", starts))
    out = canonicalise(ds, "x")
    np.testing.assert_array_equal(out["t2m"].values.reshape(da.shape), da)
    less = canonicalise(ds.isel(time=[0, 1, 2, 3, 5]), "x")["t2m"]
    assert np.isnan(less[1, 1]).all()
    np.testing.assert_array_equal(less[1, 2], da[5])
    odd = pd.DatetimeIndex(["2020-01-01", "2020-01-01 03", "2020-01-02", "2020-01-02 05"])
    scattered = ds.isel(time=[0, 1, 3, 5]).assign_coords(forecast_reference_time=("time", odd))
    with pytest.raises(InputError, match="do not form a table"):
        canonicalise(scattered, "x")


def test_uneven_lead_times_are_kept(data_dir: Path) -> None:
    from weatherpp.data import grib

    ds = canonicalise(grib.read(data_dir / "grib" / "t_time_series.grib")[0], "x")
    assert (ds["step"].values / H).tolist() == [0, 3, 6, 9, 48]


def test_hindcast_is_dated_by_its_own_start(data_dir: Path) -> None:
    path = data_dir / "grib" / "hdate.grib"
    with path.open("rb") as stream:
        handle = eccodes.codes_grib_new_from_file(stream)
    keys = ("stream", "hdate", "dataDate", "validityDate", "referenceDate")
    found = {key: eccodes.codes_get(handle, key, str) for key in keys}
    eccodes.codes_release(handle)
    # the version of the model is of 2023; eccodes already gives the hindcast's date as dataDate
    assert found == {
        "stream": "enfh",
        "hdate": "20210615",
        "dataDate": "20210615",
        "validityDate": "20210615",
        "referenceDate": "20230615",
    }
    ds = read_forecast(path)
    assert ds["time"].values[0] == np.datetime64("2021-06-15")
    assert ds["valid_time"].values[0, 0] == np.datetime64("2021-06-15T06")


def write_hindcasts(path: Path, template: int, starts: list[str], steps: list[str]) -> None:
    """Two members of each start, of one version of the model; values tell start and member."""
    with path.open("wb") as out:
        for start, number, step in itertools.product(starts, (1, 2), steps):
            handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
            date = pd.Timestamp(start)
            for key, value in {
                "centre": "ecmf",
                "typeOfProcessedData": "pf",
                "dataDate": int(f"{date:%Y%m%d}"),
                "dataTime": int(f"{date:%H%M}"),
                "productDefinitionTemplateNumber": template,
                "YearOfModelVersion": 2023,
                "MonthOfModelVersion": 6,
                "DayOfModelVersion": 15,
                "HourOfModelVersion": 0,
                "typeOfEnsembleForecast": 3,
                "perturbationNumber": number,
                "numberOfForecastsInEnsemble": 11,
                "shortName": "tp" if template == 61 else "2t",
                "stepRange": step,
            }.items():
                eccodes.codes_set(handle, key, value)
            size = eccodes.codes_get_size(handle, "values")
            value = (date.year - 2000) / 100 + number / 1000
            eccodes.codes_set_values(handle, np.full(size, 280 * (template == 60) + value))
            assert eccodes.codes_get(handle, "modelVersionDate", str) == "20230615"
            eccodes.codes_write(handle, out)
            eccodes.codes_release(handle)


@pytest.mark.parametrize("template", [60, 61])
def test_hindcasts_of_several_years_are_dated_by_their_starts(
    template: int, tmp_path: Path
) -> None:
    """GRIB 2 templates 4.60 (at a time) and 4.61 (over a time), version of the model apart."""
    starts = ["2010-06-15T00", "2010-06-15T12", "2011-06-15T00", "2012-02-29T00"]
    steps = ["0-24", "0-48"] if template == 61 else ["24", "48"]
    write_hindcasts(tmp_path / "a.grib2", template, starts, steps)
    ds = read_forecast(tmp_path / "a.grib2")
    assert ds["time"].values.tolist() == pd.DatetimeIndex(starts).as_unit("ns").asi8.tolist()
    assert (ds["step"].values / H).tolist() == [24, 48]
    assert ds["number"].values.tolist() == [1, 2]
    name = "tp" if template == 61 else "t2m"
    for start, number in itertools.product(starts, (1, 2)):
        found = ds[name].sel(time=start, number=number)
        value = (pd.Timestamp(start).year - 2000) / 100 + number / 1000
        np.testing.assert_allclose(found, 280 * (template == 60) + value, rtol=0, atol=3e-4)
    said = str(inspect(tmp_path / "a.grib2"))
    assert "4 initial times, 2010-06-15 00:00 to 2012-02-29 00:00 UTC" in said


def months(starts: list[str], count: int = 3) -> xr.Dataset:
    ds = ensemble(starts=starts, leads=range(1, count + 1))
    valid = [[pd.Timestamp(s) + pd.DateOffset(months=m) for m in range(count)] for s in starts]
    return ds.assign_coords(
        step=("step", np.arange(count) + 1), valid_time=(("reference", "step"), valid)
    )


def test_months_are_lead_times_if_equally_long_for_all_starts() -> None:
    ds = months(["2000-11-01", "2001-11-01"])
    assert (canonicalise(ds, "x")["step"].values / (24 * H)).tolist() == [0, 30, 61]
    with pytest.raises(InputError, match="start 2001-05-01 are not those of 2000-11-01"):
        canonicalise(months(["2000-11-01", "2001-05-01"]), "x")
    with pytest.raises(InputError, match=r"start 2000-01-01 are not .*take starts of one calendar"):
        canonicalise(months(["1999-01-01", "2000-01-01"]), "x")  # 29 February
    counted = ds.drop_vars("valid_time")
    counted["step"].attrs["units"] = "months"
    with pytest.raises(InputError, match="months differ in length, so they need valid times"):
        canonicalise(counted, "x")


def test_analysis_beside_forecasts_is_laid_out_by_valid_time() -> None:
    ds = months(["2000-11-01", "2001-11-01"]).isel(number=0, drop=True)
    out = canonicalise(ds, "x", "analysis")
    check(out, "x", "analysis")
    assert out["valid_time"].values[4] == np.datetime64("2001-12-01")
    np.testing.assert_array_equal(out["t2m"][4], ds["t2m"][1, 1])


@pytest.mark.parametrize("lazy", [False, True])
def test_equal_fields_of_one_valid_time_become_one(lazy: bool) -> None:
    times = pd.DatetimeIndex(["2020-01-02", "2020-01-01", "2020-01-02", "2020-01-02"])
    da = field("time lat lon", 4, 2, 3, units="K")
    da[2:] = da[0]
    da[2, 0, 0] = np.nan
    ds = xr.Dataset({"t2m": da}, {"time": times, "lat": [1.0, 0.0], "lon": [0.0, 1, 2]})
    out = canonicalise(ds.chunk(time=1) if lazy else ds, "x", "analysis")
    assert (out["t2m"].chunks is not None) == lazy
    check(out, "x", "analysis")
    np.testing.assert_array_equal(out["t2m"], da[[1, 0]])
    ds["t2m"][3, 1, 2] = 99
    with pytest.raises(InputError, match=r"^x: t2m has two values for 2020-01-02 00:00 \(5 and 99"):
        canonicalise(ds.chunk(time=1) if lazy else ds, "x", "analysis").compute()


def test_rows_without_date_and_values_are_dropped() -> None:
    times = pd.DatetimeIndex(["2020-01-01", pd.NaT, "2020-01-03"])
    da = field("time lat lon", 3, 2, 3, units="K")
    ds = xr.Dataset({"t2m": da.where(da["time"] != 1)}, {"time": times, "lat": [1.0, 0.0]})
    ds = ds.assign_coords(lon=[0.0, 1, 2])
    assert canonicalise(ds, "x", "analysis").sizes["valid_time"] == 2
    with pytest.raises(InputError, match="'time' lacks 1 dates of fields that are there"):
        canonicalise(ds.assign(t2m=da.assign_coords(ds.coords)), "x", "analysis")


# -- members --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["number", "member", "realization", "ensemble", "ensemble_member", "ens", "M"]
)
@pytest.mark.parametrize("kind", [int, float, str, bytes])
def test_members_under_any_name_and_type(name: str, kind: Callable[[str], Any]) -> None:
    numbers = ["4", "1"]
    members = [n.encode() if kind is bytes else kind(n) for n in numbers]
    ds = ensemble(members=members).rename({"number": name} if name != "number" else {})
    out = canonicalise(ds, "x")
    assert out["number"].dtype == np.int64
    assert out["number"].values.tolist() == [1, 4], "gaps stay"
    np.testing.assert_array_equal(out["t2m"].sel(number=4)[0, 0], ds["t2m"][0, 0, 0])


def test_members_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"not whole numbers \(r1i1p1, r2i1p1\)"):
        canonicalise(ensemble(members=["r1i1p1", "r2i1p1"]), "x")


def test_control_stored_apart_is_member_0() -> None:
    perturbed = canonicalise(ensemble(members=(1, 2)), "x")
    alone = canonicalise(ensemble(members=(7,)).isel(number=0, drop=True) + 1, "x", "forecast")
    whole = join([perturbed, as_control(alone.assign_attrs(), "cf.nc")], "x", "forecast")
    assert whole["number"].values.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(whole["t2m"].sel(number=0), alone["t2m"])
    assert as_control(whole.sel(number=[0]), "cf.nc").sizes["number"] == 1
    with pytest.raises(InputError, match=r"cf\.nc: a control forecast has no member number or 0"):
        as_control(perturbed, "cf.nc")


# -- lagged ensembles -----------------------------------------------------------------------------


def test_starts_valid_at_the_same_times_are_told_from_months() -> None:
    """Two starts with members of their own and valid times in common: the lead times differ."""
    starts = pd.DatetimeIndex(["2020-01-01T00", "2020-01-01T03"])
    valid = pd.DatetimeIndex(["2020-01-01T06", "2020-01-01T12"])
    ds = ensemble(starts=starts, members=(0, 1, 2, 3)).drop_vars("step")
    with pytest.raises(InputError, match=r"start 2020-01-01 03:00 .* \(they are valid at the same"):
        canonicalise(ds.assign_coords(valid_time=("step", valid)), "x")
    shifted = [valid, valid + pd.Timedelta("1h")]
    with pytest.raises(InputError, match=r"\(the file has no table of .*\); split it by start"):
        canonicalise(ds.assign_coords(valid_time=(("reference", "step"), shifted)), "x")
    # what the message advises
    ds = ds.assign_coords(valid_time=("step", valid))
    apart = [ds.isel(reference=[i], number=[2 * i, 2 * i + 1]) for i in (0, 1)]
    whole = join(lag([canonicalise(part, "x") for part in apart], "x"), "x", "forecast")
    assert whole["time"].values == [starts.to_numpy()[1]]
    np.testing.assert_array_equal(whole["t2m"].sel(number=[0, 1])[0], ds["t2m"][0, :, :2])
    np.testing.assert_array_equal(whole["t2m"].sel(number=[2, 3])[0], ds["t2m"][1, :, 2:])


def test_the_remedy_for_lagged_runs_is_named_where_it_helps() -> None:
    lagged = [run(0, (0, 1), (6, 12)), run(3, (2, 3), (3, 9))]
    with pytest.raises(InputError, match=r"8 fields for 32 .*set lagged: true in the catalog"):
        join(lagged, "x", "forecast")
    assert join(lag(lagged, "x"), "x", "forecast").sizes["number"] == 4
    for other in (run(3, (2, 3), (6, 12)), run(3, (1, 2), (3, 9))):  # no time, a member in common
        with pytest.raises(InputError, match="combinations") as caught:
            join([lagged[0], other], "x", "forecast")
        assert "lagged" not in str(caught.value)


def test_the_remedy_for_lagged_runs_in_a_grib_file_is_named(tmp_path: Path) -> None:
    with (tmp_path / "a.grib2").open("wb") as out:
        for hour, step, numbers in ((0, 6, (1, 2)), (3, 3, (3, 4))):
            for number in numbers:
                handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
                for key, value in {
                    "productDefinitionTemplateNumber": 1,
                    "dataDate": 20200101,
                    "dataTime": 100 * hour,
                    "perturbationNumber": number,
                    "numberOfForecastsInEnsemble": 4,
                    "shortName": "2t",
                    "stepRange": step,
                }.items():
                    eccodes.codes_set(handle, key, value)
                eccodes.codes_write(handle, out)
                eccodes.codes_release(handle)
    with pytest.raises(InputError, match=r"4 fields for 16 combinations .*set lagged: true"):
        grib.read(tmp_path / "a.grib2")
    pieces = [canonicalise(raw, "x") for raw in grib.read(tmp_path / "a.grib2", apart=True)]
    assert join(lag(pieces, "x"), "x", "forecast")["number"].values.tolist() == [1, 2, 3, 4]


def run(hour: int, members: tuple[int, ...], leads: tuple[int, ...]) -> xr.Dataset:
    start = pd.Timestamp("2020-01-01") + pd.Timedelta(hours=hour)
    return canonicalise(ensemble(starts=[start], leads=leads, members=members), "x")


def test_runs_valid_at_the_same_times_are_one_ensemble() -> None:
    pieces = [run(0, (0, 1), (6, 12)), run(3, (2, 3), (3, 9))]
    ds = join(lag(pieces, "x"), "x", "forecast")
    assert ds["time"].values.tolist() == [pieces[1]["time"].values[0].astype(int)]
    assert (ds["step"].values / H).tolist() == [3, 9]
    assert ds["number"].values.tolist() == [0, 1, 2, 3]
    for piece in pieces:
        np.testing.assert_array_equal(ds["t2m"].sel(number=piece["number"]), piece["t2m"])


def test_runs_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(InputError, match="at 2020-01-01 12:00 no run with member 2 is valid"):
        lag([run(0, (0, 1), (6, 12)), run(3, (2, 3), (3,))], "x")
    twice = "member 0 stands in the runs of 2020-01-01 00:00 and 2020-01-01 03:00, both valid at"
    with pytest.raises(InputError, match=twice):
        lag([run(0, (0, 1), (6,)), run(3, (0, 1), (3,))], "x")
    with pytest.raises(InputError, match=twice):  # each run is an ensemble of its own
        lag([run(0, (0, 1), (6, 12)), run(3, (0, 1), (9, 15))], "x", sparse=True)


def test_runs_that_share_members_are_told_apart_by_their_valid_times() -> None:
    first = [run(0, (0, 1), (12, 24)), run(3, (2, 3), (9, 21))]
    second = [run(12, (0, 1), (12, 24)), run(15, (2, 3), (9, 21))]
    ds = join(lag([*first, *second], "x"), "x", "forecast")
    assert ((ds["time"].values - np.datetime64("2020-01-01")) / H).tolist() == [3, 15]
    assert (ds["step"].values / H).tolist() == [9, 21]
    assert ds["number"].values.tolist() == [0, 1, 2, 3]
    for place, pieces in enumerate((first, second)):
        for piece in pieces:
            found = ds["t2m"].isel(time=[place]).sel(number=piece["number"])
            np.testing.assert_array_equal(found, piece["t2m"])
    # a field less: the other valid time still tells, if gaps are expected
    short = run(3, (2, 3), (9,))
    gaps = join(lag([first[0], short, *second], "x", sparse=True), "x", "forecast", sparse=True)
    assert np.isnan(gaps["t2m"].sel(number=2)[0, 1]).all()
    np.testing.assert_array_equal(gaps["t2m"].sel(number=2)[0, 0], short["t2m"][0, 0, 0])
    with pytest.raises(InputError, match="at 2020-01-02 00:00 no run with member 2"):
        lag([first[0], short, *second], "x")
    both = run(3, (2, 3), (21,))  # 00 UTC of the next day alone, which both ensembles reach
    with pytest.raises(InputError, match="03:00 has no valid time that tells which of 2 ensembles"):
        lag([first[0], both, *second], "x", sparse=True)


@pytest.mark.parametrize("folder", ["same_validity", "mixed_validity"])
def test_lagged_runs_of_mogreps(folder: str, data_dir: Path) -> None:
    paths = sorted((data_dir / "mogreps_uk_lagged" / folder).glob("*.nc"))
    pieces = [canonicalise(netcdf.read(path), path.name)[["skt"]] for path in paths]
    if folder == "mixed_validity":
        with pytest.raises(InputError, match="at 2018-09-24 13:00 no run with member 29"):
            lag(pieces, "x")
        return
    ds = join(lag(pieces, "x"), "x", "forecast")
    assert ds["skt"].shape == (1, 1, 18, 49, 53)
    assert ds["time"].values[0] == np.datetime64("2018-09-24T08")


def members_apart(gap: bool = True) -> xr.Dataset:
    """Two winters of daily fields on one axis, two members that start on different days."""
    starts = pd.DatetimeIndex(["2000-11-01", "2000-11-02", "2001-11-01", "2001-11-02"])
    valid = pd.date_range("2000-12-01", periods=3).append(pd.date_range("2001-12-01", periods=2))
    if not gap:
        valid = pd.date_range("2001-10-31 12:00", periods=5)
    da = field("member time lat lon", 2, 5, 2, 3, units="K")
    ds = xr.Dataset({"t2m": da}, ensemble()[["lat", "lon"]].coords)
    return ds.assign_coords(
        member=[1, 2],
        time=valid,
        initialization=(("season", "member"), starts.values.reshape(2, 2)),
    )


def test_members_of_different_starts_are_dated_by_the_latest() -> None:
    ds = members_apart()
    with pytest.raises(InputError, match="lagged: true in the catalog entry"):
        canonicalise(ds, "x")
    out = canonicalise(ds, "x", lagged=True)
    check(out, "x")
    assert out["time"].values.astype("datetime64[D]").astype(str).tolist() == [
        "2000-11-02",
        "2001-11-02",
    ]
    assert (out["step"].values / (24 * H)).tolist() == [29, 30, 31]
    np.testing.assert_array_equal(out["t2m"][1, 1, 0], ds["t2m"][0, 4])
    assert np.isnan(out["t2m"][1, 2]).all(), "the second winter has two days only"
    with pytest.raises(InputError, match=r"valid time 2001-11-\d.* cannot be told|have started"):
        canonicalise(members_apart(gap=False), "x", lagged=True)


def test_members_valid_at_different_times_are_refused() -> None:
    starts = pd.DatetimeIndex(["2020-01-01", "2020-01-02"])
    ds = ensemble().isel(reference=0, drop=True).assign_coords(reference=("number", starts))
    with pytest.raises(InputError, match="valid at different times"):
        canonicalise(ds, "x", lagged=True)


# -- the catalog entries and the table ------------------------------------------------------------


def seasonal(folder: Path, name: str, **names: str) -> xr.Dataset:
    raw = netcdf.read(folder / name)
    return raw.drop_vars(set(raw.data_vars) - set(names)).rename(names)


def test_seasonal_files(extra_data: Path) -> None:
    folder = extra_data / "seasonal"
    glosea = seasonal(folder, "glosea4_surface_temperature.nc", surface_temperature="skt")
    out = canonicalise(glosea, "x", lagged=True)
    assert out["time"].values.tolist() == [np.datetime64("2011-07-24", "ns").astype(int)]
    assert out["number"].values.tolist() == [0, 1, 2, 3, 4, 5, *range(7, 14)]
    assert (out["step"].values[:2] / H).tolist() == [564, 1296], "those of the last members"
    np.testing.assert_array_equal(out["skt"][0, 1, 6].values, glosea["skt"].values[6, 1, ::-1, :])
    seas5 = netcdf.read(folder / "seas5_t2m_nov_hindcast.nc")
    forecast = canonicalise(seas5[["t2m"]], "x")
    truth = canonicalise(seas5[["t2m_reference"]].rename(t2m_reference="t2m"), "x", "analysis")
    at = truth.sel(valid_time=forecast["valid_time"])["t2m"].astype("float64")
    error = forecast["t2m"].astype("float64").mean("number") - at
    assert float(error.mean()) == pytest.approx(-0.97, abs=0.005)  # known from the plain arrays
    assert forecast["longitude"].values[[0, -1]].tolist() == [-12, 40]
    cfs = seasonal(folder, "cfsv2_iberia_pr_djf.nc", pr="tp")
    cfs["tp"].attrs["period"] = "24h"
    rain = canonicalise(cfs, "x", lagged=True)["tp"]
    assert rain.shape == (20, 91, 9, 10, 16)
    assert int(np.isfinite(rain[:, :, 0, 0, 0]).sum()) == 1805
    plain = cfs["tp"].sel(time="1996-02-29").values[3, ::-1] / 1000
    leap = rain.sel(time="1995-10-18T00")[90, 3]
    np.testing.assert_allclose(leap, plain, rtol=1e-6)
    ncep = seasonal(folder, "ncep_iberia_pr_djf.nc", pr="tp")
    ncep["tp"].attrs |= SourceVariable(units="kg m-2 s-1", period="24h").attrs()
    truth = canonicalise(ncep, "x", "analysis")
    mean = float(ncep["tp"].astype("float64").mean()) * 86.4  # metres a day
    assert float(truth["tp"].astype("float64").mean()) == pytest.approx(mean, rel=1e-6)
    with pytest.raises(InputError, match="latitude has 6 points, the forecast's 10; regrid one"):
        snap(truth["tp"], rain, "x")


def test_subseasonal_index(extra_data: Path) -> None:
    folder = extra_data / "subseasonal"
    out = canonicalise(netcdf.read(folder / "GMAO-GEOS-V2p1.RMM1.nc"), "x")
    assert out["rmm1"].shape == (510, 45, 4, 1)
    assert (out["step"].values[:2] / H).tolist() == [12, 36]
    raw = netcdf.read(folder / "RMM1.observed.interannual.1974-06.2017-07.nc")
    with pytest.raises(InputError, match=r"rmm1 has no units.*variables\.rmm1\.units"):
        canonicalise(raw, "x", "analysis")
    raw["rmm1"].attrs["units"] = "1"
    truth = canonicalise(raw[["rmm1"]], "x", "analysis")
    assert truth.sizes == {"valid_time": 15613 - 145, "station": 1}
    shifted = truth["rmm1"].assign_coords(valid_time=truth["valid_time"] + load_entry("rmm1").shift)
    first = out["rmm1"].isel(step=0).mean("number")
    at = shifted.sel(valid_time=first["valid_time"].values).values
    assert np.corrcoef(first.values.ravel(), at.ravel())[0, 1] > 0.95, "a day ahead"


def test_entry_settings_of_quirks() -> None:
    base = load_entry("mogreps-uk-lagged").model_dump()
    for change, text in (
        ({"variables": {"tp": {"period": "0h"}}}, "is no time"),
        ({"variables": {"tp": {"accumulation": "sometimes"}}}, "not a lead time"),
        ({"analysis_variables": {"rain": {}}}, "'rain' is not a known variable"),
        ({"analysis_shift": "tomorrow"}, "not a lead time"),
        ({"files": {"forecast": ["a.nc"], "control": ["../b.nc"]}}, "stay inside"),
    ):
        with pytest.raises(ConfigError, match=text):
            validate(CatalogEntry, {**base, **change}, "x.yaml")
    seas5 = load_entry("seas5")
    assert seas5.variables_of("analysis")["t2m"].source == "t2m_reference"
    assert seas5.variables_of("forecast")["t2m"].source == "t2m"
    assert load_entry("rmm1").shift == pd.Timedelta("12h")


def test_each_test_named_in_the_table_exists() -> None:
    root = Path(__file__).parents[2]
    table = (root / "docs" / "quirks.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", table))
    there = {
        node.name
        for path in (root / "tests" / "data_room").glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert len(named) > 20
    assert named <= there, named - there
