"""Real and deliberately spoiled files, from catalog entry to archive."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import eccodes
import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.cli import main
from weatherpp.conventions import check, exists_on
from weatherpp.data import classic, grib, netcdf
from weatherpp.data.archive import Archive
from weatherpp.data.canonical import canonicalise
from weatherpp.data.catalog import CatalogEntry, list_entries, load_entry
from weatherpp.data.fields import ensemble_mean, ensemble_spread, select
from weatherpp.data.ingest import ingest, read, read_forecast
from weatherpp.data.join import join
from weatherpp.data.matching import matched_times, truth_for
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import Target
from weatherpp.strict import validate

MOGREPS = "20170605T0300Z-PT0012H-temperature_at_screen_level.nc"


def entry(driver: str, root: Path, forecast: str, **settings: Any) -> CatalogEntry:
    files = {"forecast": [forecast], **settings.pop("files", {})}
    data = {
        "name": "test",
        "title": "T",
        "driver": driver,
        "root": str(root),
        "files": files,
        "licence": "none",
        "citation": "none",
        **settings,
    }
    return validate(CatalogEntry, data, "test.yaml")


def unchecked(path: Path) -> xr.Dataset:
    """As :func:`read_forecast`, for a file whose values are made up."""
    return join([canonicalise(raw, str(path)) for raw in grib.read(path)], str(path), "forecast")


def raw_values(path: Path, **keys: object) -> np.ndarray[Any, Any]:
    """Values of one message, read without cfgrib and xarray."""
    with path.open("rb") as stream:
        while (handle := eccodes.codes_grib_new_from_file(stream)) is not None:
            if all(eccodes.codes_get(handle, key) == value for key, value in keys.items()):
                return eccodes.codes_get_values(handle)
    raise AssertionError(keys)


# -- the shipped entries ----------------------------------------------------------------------


def test_shipped_entries_load() -> None:
    names = {e.name for e in list_entries()}
    assert {"demo", "era5-levels-members", "mogreps-uk-t", "ens-storm"} <= names
    for e in list_entries():
        assert e.licence
        assert e.citation


def test_control_and_perturbed_become_one_ensemble(tmp_path: Path, data_dir: Path) -> None:
    archive = ingest(load_entry("ens-storm"), tmp_path / "a")
    ds = archive.forecast
    assert ds["number"].values.tolist() == list(range(51))
    assert exists_on(ds["fg10"], "steps") == [72, 78, 84]
    assert exists_on(ds["z"], "steps") == [78]
    assert ds["fg10"].attrs["window"] == "3 h"
    assert archive.attrs["licence"].startswith("Apache-2.0")
    path = data_dir / "grib" / "ens_storm.grib"
    for number in (0, 1, 50):
        raw = raw_values(path, shortName="10fg3", number=number, stepRange="75-78")
        found = select(ds, "fg10", step="78h").isel(time=0).sel(number=number)
        assert float(found["longitude"][0]) == -19.5
        np.testing.assert_allclose(found.values.ravel(), raw, rtol=1e-6)
    with pytest.raises(InputError, match="z at lead time 72 h is not in the data; there are 78 h"):
        select(ds, "z", 850, "72h")


def test_era5_members(tmp_path: Path, data_dir: Path) -> None:
    ds = ingest(load_entry("era5-levels-members"), tmp_path / "a").forecast
    assert dict(ds.sizes) == {
        "time": 4,
        "step": 1,
        "number": 10,
        "level": 2,
        "latitude": 61,
        "longitude": 120,
    }
    assert ds["level"].values.tolist() == [500, 850], "ascending, the file has 850 first"
    raw = raw_values(
        data_dir / "grib" / "era5-levels-members.grib",
        shortName="t",
        number=7,
        level=850,
        dataDate=20170102,
        dataTime=0,
    )
    found = ds["t"].sel(number=7, level=850, time="2017-01-02T00").isel(step=0)
    np.testing.assert_allclose(found.values.ravel(), raw, rtol=1e-6)


Steps = list[tuple[str, float, float]]


@pytest.fixture(scope="module")
def mogreps_archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Archive, Steps]:
    seen: Steps = []
    out = tmp_path_factory.mktemp("mogreps") / "a"
    archive = ingest(load_entry("mogreps-uk-t"), out, progress=lambda *step: seen.append(step))
    return archive, seen


def test_mogreps_scores_are_those_known(mogreps_archive: tuple[Archive, Steps]) -> None:
    e = load_entry("mogreps-uk-t")
    archive, _ = mogreps_archive
    target = Target(variable="t2m", step="12h")
    assert archive.analysis is not None
    dates = pd.DatetimeIndex(archive.forecast["time"].values)
    times = matched_times(archive.analysis, target, dates)
    assert len(dates) == 4  # the one to apply to is in the archive, without a truth
    truth = truth_for(archive.analysis, target, times, archive.forecast)
    members = select(archive.forecast.sel(time=times), "t2m", step="12h").astype("float64")
    bias = (ensemble_mean(members) - truth).mean(("y", "x"))
    # bias and CRPS of the raw members as worked out from the files by other means
    np.testing.assert_allclose(bias, [-0.39, -0.29, -0.05], atol=0.006)
    m = members.sizes["number"]
    pairs = abs(members - members.rename(number="other")).sum(("number", "other")) / m**2
    crps = (abs(members - truth).mean("number") - pairs / 2).mean(("y", "x"))
    np.testing.assert_allclose(crps, [0.483, 0.358, 0.298], atol=0.001)
    assert (ensemble_spread(members).mean() < 0.5).all()
    # south-west England and the Channel coast, where the excerpt lies
    assert 49 < float(archive.forecast["latitude"].min()) < 49.2
    assert set(archive.static.data_vars) == {"lsm"}
    assert set(np.unique(archive.static["lsm"])) == {0, 1}
    later = read(e, "apply")
    assert later is not None
    assert later["time"].values[0] == np.datetime64("2017-06-05T03")


def test_twin_is_not_read_from_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="embedded atmosphere"):
        ingest(load_entry("demo"), tmp_path / "a")


# -- GRIB -------------------------------------------------------------------------------------

NOT_AN_ENSEMBLE = "no ensemble members"
READ: list[tuple[str, dict[str, Any], str]] = [
    ("fc_storm.grib", {}, NOT_AN_ENSEMBLE),
    ("alternate-scanning.grib", {}, NOT_AN_ENSEMBLE),
    ("step_60m.grib", {"missing_values": "expected"}, NOT_AN_ENSEMBLE),
    ("t2m_grib.grib", {}, "unstructured grid of 108160 points"),
    ("O32_global.grib2", {}, "unstructured grid of 5248 points"),
    ("tp_on_different_grid_resolutions.grib", {}, r"2 different grids \(2664, 4140 points\)"),
    ("forecast_monthly_ukmo.grib", {}, "168 fields for 4480 combinations"),
    (
        "ens_storm.grib",
        {"variables": {"msl": {}}},
        "none of the wanted variables; there are fg10_3, z",
    ),
    ("ens_storm.grib", {"variables": {"z": {}, "msl": {}}}, "no variable msl; there are z"),
    (
        "ens_storm.grib",
        {"variables": {"z": {"source": "nothere"}}},
        "none of the wanted variables; there are fg10_3, z",
    ),
    ("nowhere.grib", {}, "no such forecast file"),
]


@pytest.mark.parametrize(("name", "settings", "text"), READ)
def test_grib_refused(name: str, settings: dict[str, Any], text: str, data_dir: Path) -> None:
    with pytest.raises(InputError, match=text) as caught:
        read(entry("grib", data_dir / "grib", name, **settings), "forecast")
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_gaps_are_filled_if_expected(data_dir: Path) -> None:
    e = entry("grib", data_dir / "grib", "forecast_monthly_ukmo.grib", missing_values="expected")
    ds = read(e, "forecast")
    assert ds is not None
    assert ds.sizes["number"] == 28
    there = np.isfinite(ds["t2m"]).all(("latitude", "longitude")).sum()
    assert int(there) == 168


def test_missing_points_need_to_be_expected(data_dir: Path) -> None:
    settings = {"files": {"analysis": ["fields_with_missing_values.grib"]}}
    e = entry("grib", data_dir / "grib", "ens_storm.grib", **settings)
    with pytest.raises(InputError, match=r"t2m at 2017-10-18 00Z has .* missing values of 16380"):
        read(e, "analysis")
    expected = e.model_copy(update={"missing_values": "expected"})
    ds = read(expected, "analysis")
    assert ds is not None
    assert 0.5 < float(np.isnan(ds["t2m"]).mean()) < 0.8


def test_alternate_scanning_and_meridian(data_dir: Path) -> None:
    """Rows that run to and fro, across Greenwich: a gradient in the wrong row would show."""
    e = entry("grib", data_dir / "grib", "x", files={"analysis": ["alternate-scanning.grib"]})
    ds = read(e, "analysis")
    assert ds is not None
    lon = ds["longitude"].values
    np.testing.assert_allclose([lon[0], lon[-1]], [-10, 19])
    np.testing.assert_allclose(lon[1:] - lon[:-1], 0.1)
    field = ds["t2m"].isel(valid_time=0)
    rows = float(abs(field.diff("latitude")).mean())
    assert rows < 3 * float(abs(field.diff("longitude")).mean())


def test_steps_in_minutes_and_hours(data_dir: Path) -> None:
    ds = unchecked(data_dir / "grib" / "step_60m.grib")
    assert ds["step"].values.tolist() == [h * 3600 * 10**9 for h in range(73)]


def test_reforecast_is_dated_by_its_own_start(data_dir: Path) -> None:
    ds = read_forecast(data_dir / "grib" / "hdate.grib")
    assert ds["time"].values[0] == np.datetime64("2021-06-15")
    assert ds["number"].values.tolist() == [2]


def test_winds_along_a_rotated_grid_are_not_eastward(data_dir: Path) -> None:
    ds = unchecked(data_dir / "grib" / "tiggelam_cnmc_sfc.grib2")
    winds = {"u10_along_grid", "v10_along_grid"}
    assert set(ds.data_vars) == {"t2m", "msl", "cape", "tp", "lsp"} | winds
    assert ds["t2m"].dims == ("time", "step", "number", "y", "x")
    assert ds["latitude"].dims == ("y", "x")
    assert ds["tp"].attrs["units"] == "m"
    assert float(ds["tp"].max()) < 0.1, "the file has kg m-2"


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda b: b[:-1000], "cut off after message 3"),
        (lambda b: b[:5000] + b[5400:], "damaged or cut off"),
        (lambda b: b + b"<html>not found</html>", "no GRIB message"),
        (lambda b: b"HTTP error" + b, "no GRIB message"),
        (lambda b: b"", "not a GRIB file"),
        (lambda b: b"hello" * 100, "no GRIB message|not a GRIB"),
    ],
)
def test_spoiled_grib(spoil: Any, text: str, tmp_path: Path, data_dir: Path) -> None:
    path = tmp_path / "bad.grib"
    path.write_bytes(spoil((data_dir / "grib" / "fc_storm.grib").read_bytes()))
    with pytest.raises(InputError, match=text) as caught:
        grib.read(path)
    assert "\n" not in str(caught.value)


def test_a_member_less_is_noticed(tmp_path: Path, data_dir: Path) -> None:
    """One message of one member and step taken out, or put in twice."""
    content = (data_dir / "grib" / "wgust_ens.grib").read_bytes()
    length = len(content) // 150
    path = tmp_path / "a.grib"
    path.write_bytes(content[:-length])
    with pytest.raises(InputError, match="149 fields for 150 combinations"):
        grib.read(path)
    path.write_bytes(content + content[:length])
    with pytest.raises(InputError, match="stand twice"):
        grib.read(path)


def test_fields_packed_into_one_message(tmp_path: Path, data_dir: Path) -> None:
    """cfgrib and eccodes pass over all but the first unless told."""
    source = data_dir / "grib" / "tiggelam_cnmc_sfc.grib2"
    packed = eccodes.codes_grib_multi_new()
    with source.open("rb") as stream:
        while (handle := eccodes.codes_grib_new_from_file(stream)) is not None:
            if eccodes.codes_get(handle, "shortName") in ("2t", "msl"):
                eccodes.codes_grib_multi_append(handle, 4, packed)
            eccodes.codes_release(handle)
    with (tmp_path / "a.grib2").open("wb") as out:
        eccodes.codes_grib_multi_write(packed, out)
    eccodes.codes_grib_multi_release(packed)
    ds, whole = unchecked(tmp_path / "a.grib2"), unchecked(source)
    assert set(ds.data_vars) == {"t2m", "msl"}
    for name in ("t2m", "msl"):
        np.testing.assert_array_equal(ds[name].values, whole[name].values)


def test_no_index_is_left_beside_the_file(tmp_path: Path, data_dir: Path) -> None:
    shutil.copy(data_dir / "grib" / "wgust_ens.grib", tmp_path)
    read_forecast(tmp_path / "wgust_ens.grib")
    assert [p.name for p in tmp_path.iterdir()] == ["wgust_ens.grib"]


def test_files_of_several_dates_are_joined(tmp_path: Path, data_dir: Path) -> None:
    """Two files a date apart, control apart from perturbed: made with eccodes."""
    source = data_dir / "grib" / "ens_storm.grib"
    with source.open("rb") as stream:
        while (handle := eccodes.codes_grib_new_from_file(stream)) is not None:
            if eccodes.codes_get(handle, "shortName") == "z":
                kind = eccodes.codes_get(handle, "dataType")
                for date in (20131025, 20131026):
                    eccodes.codes_set(handle, "dataDate", date)
                    with (tmp_path / f"{date}_{kind}.grib").open("ab") as out:
                        eccodes.codes_write(handle, out)
            eccodes.codes_release(handle)
    ds = read(entry("grib", tmp_path, "*.grib"), "forecast")
    assert ds is not None
    assert ds["z"].shape == (2, 1, 51, 1, 31, 48)
    np.testing.assert_array_equal(ds["z"][0].values, ds["z"][1].values)
    (tmp_path / "20131026_cf.grib").unlink()
    with pytest.raises(InputError, match="101 fields for 102 combinations"):
        read(entry("grib", tmp_path, "*.grib"), "forecast")
    shutil.copy(tmp_path / "20131025_cf.grib", tmp_path / "again.grib")
    with pytest.raises(
        InputError,
        match="second field for time 2013-10-25 00:00, step 78 h, number 0, level 850, in again",
    ):
        read(entry("grib", tmp_path, "*.grib"), "forecast")


# -- netCDF and Zarr ---------------------------------------------------------------------------


@pytest.fixture
def mogreps(data_dir: Path) -> xr.Dataset:
    with xr.open_dataset(data_dir / "mogreps_uk_t" / "apply" / MOGREPS) as ds:
        small = {"projection_y_coordinate": slice(0, 5), "projection_x_coordinate": slice(0, 6)}
        return ds.isel(small).load()


def test_netcdf_as_it_comes(mogreps: xr.Dataset, tmp_path: Path) -> None:
    mogreps.to_netcdf(tmp_path / "a.nc")
    ds = read_forecast(tmp_path / "a.nc")
    check(ds, "x")
    assert ds["t2m"].shape == (1, 1, 12, 5, 6)
    np.testing.assert_array_equal(ds["t2m"].values[0, 0], mogreps["air_temperature"].values)


NETCDF: dict[str, tuple[Any, str]] = {
    "no members": (lambda d: d.isel(realization=0, drop=True), "no ensemble members"),
    "no units": (lambda d: d["air_temperature"].attrs.pop("units"), "t2m has no units"),
    "wrong units": (
        lambda d: d["air_temperature"].attrs.update(units="furlong"),
        "unknown units 'furlong'",
    ),
    "missing values": (
        lambda d: d["air_temperature"].values.__setitem__((3, 1), np.nan),
        "t2m at 2017-06-05 03Z has 6 missing values of 360",
    ),
    "no projection": (
        lambda d: d.drop_vars("lambert_azimuthal_equal_area"),
        "without latitude, longitude or grid mapping",
    ),
    "no height": (lambda d: d.drop_vars("height"), "no known variable; there are air_temperature"),
}


@pytest.mark.parametrize("fault", NETCDF)
def test_netcdf_refused(fault: str, mogreps: xr.Dataset, tmp_path: Path) -> None:
    change, text = NETCDF[fault]
    changed = change(mogreps)
    path = tmp_path / "bad.nc"
    (changed if isinstance(changed, xr.Dataset) else mogreps).to_netcdf(path)
    with pytest.raises(InputError, match=text) as caught:
        read_forecast(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_the_entry_states_units_and_names(mogreps: xr.Dataset, tmp_path: Path) -> None:
    mogreps["air_temperature"] = mogreps["air_temperature"] - 273.15
    del mogreps["air_temperature"].attrs["units"]
    mogreps.rename(air_temperature="temp").drop_vars("height").to_netcdf(tmp_path / "a.nc")
    variables = {"t2m": {"source": "temp", "units": "degC"}}
    ds = read(entry("netcdf", tmp_path, "*.nc", variables=variables), "forecast")
    assert ds is not None
    assert 270 < float(ds["t2m"].mean()) < 300


def test_packed_netcdf_and_zarr(data_dir: Path, tmp_path: Path) -> None:
    files = {"analysis": ["mslp_packed_cf16.nc"]}
    ds = read(entry("netcdf", data_dir / "netcdf", "x", files=files), "analysis")
    assert ds is not None
    assert ds["msl"].dtype == np.float32
    assert 90000 < float(ds["msl"].min()) < float(ds["msl"].max()) < 107000
    ds.isel(latitude=slice(0, 9)).to_zarr(tmp_path / "a.zarr", consolidated=False)
    again = read(entry("zarr", tmp_path, "x", files={"analysis": ["a.zarr"]}), "analysis")
    assert again is not None
    np.testing.assert_array_equal(again["msl"].values, ds["msl"].values[:, :9])


def test_lagged_ensemble(data_dir: Path) -> None:
    root = data_dir / "mogreps_uk_lagged"
    with pytest.raises(InputError, match="do not belong to one table"):
        read(entry("netcdf", root, "same_validity/*.nc"), "forecast")
    ds = read(entry("netcdf", root, "same_validity/*.nc", lagged=True), "forecast")
    assert ds is not None
    assert ds["skt"].shape == (1, 1, 18, 49, 53)
    assert ds["time"].values[0] == np.datetime64("2018-09-24T08"), "the latest of the six runs"
    assert ds["valid_time"].values[0, 0] == np.datetime64("2018-09-24T13")
    with pytest.raises(InputError, match="do not belong to one table"):
        read(entry("netcdf", root, "mixed_validity/*.nc", lagged=True), "forecast")


def test_unreadable_netcdf(tmp_path: Path, data_dir: Path) -> None:
    whole = (data_dir / "mogreps_uk_t" / "apply" / MOGREPS).read_bytes()
    path = tmp_path / "bad.nc"
    for content in (whole[: len(whole) // 2], b"text", b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a readable netCDF"):
            netcdf.read(path)
    with pytest.raises(InputError, match="no such file"):
        netcdf.read(tmp_path / "nowhere.nc")


def test_nothing_is_written_if_a_file_is_bad(tmp_path: Path, data_dir: Path) -> None:
    files = {"analysis": ["fields_with_missing_values.grib"]}
    e = entry("grib", data_dir / "grib", "wgust_ens.grib", files=files)
    with pytest.raises(InputError):
        ingest(e, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_progress_and_existing_archive(
    mogreps_archive: tuple[Archive, Steps], tiny_archive: Archive
) -> None:
    archive, seen = mogreps_archive
    # files of the forecast and those to apply, then the fields
    assert next(step[1:] for step in seen if "20170602T0300Z" in step[0]) == (1, 4)
    assert seen[-1][0] == "writing fields"
    assert seen[-1][1] == seen[-1][2]
    with pytest.raises(ConfigError, match="is there already"):
        ingest(load_entry("mogreps-uk-t"), archive.path)
    assert read_forecast(tiny_archive.path).sizes == tiny_archive.forecast.sizes


# -- the catalog -------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["../*.nc", "/etc/*", "a/../../b.nc", "C:\\x", "..\\x"])
def test_patterns_stay_inside_the_root(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stay inside"):
        entry("netcdf", tmp_path, pattern)


def test_links_do_not_lead_out_of_the_root(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out.nc"
    inside.mkdir()
    outside.write_bytes(b"")
    (inside / "a.nc").symlink_to(outside)
    with pytest.raises(ConfigError, match="leads out of the folder"):
        entry("netcdf", inside, "*.nc").paths("forecast")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"drivr": "grib"}, "did you mean 'driver'"),
        ({"driver": "csv"}, "driver"),
        ({"variables": {"temp": {}}}, "'temp' is not a known variable"),
        ({"files": {"forecast": []}}, "needs a pattern"),
        ({"missing_values": "maybe"}, "missing_values"),
    ],
)
def test_wrong_entries(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    data = entry("netcdf", tmp_path, "*.nc").model_dump()
    with pytest.raises(ConfigError, match=text):
        validate(CatalogEntry, {**data, **change}, "test.yaml")


def test_own_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "data_catalog"
    own.mkdir()
    text = "name: demo\ntitle: Mine\ndriver: twin\nlicence: a\ncitation: b\n"
    (own / "demo.yaml").write_text(text)
    assert load_entry("demo").title == "Mine"
    assert load_entry("ens-storm").folder().is_dir(), "shipped roots hold from anywhere"
    (own / "other.yaml").write_text(text)
    with pytest.raises(ConfigError, match="file and name must agree"):
        load_entry("other")
    with pytest.raises(ConfigError, match=r"no catalog entry 'nothing'; there are .*demo"):
        load_entry("nothing")


def test_a_damaged_entry_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "data_catalog"
    own.mkdir()
    good = "name: mine\ntitle: My own\ndriver: twin\nlicence: a\ncitation: b\n"
    (own / "mine.yaml").write_text(good)

    monkeypatch.setattr("sys.argv", ["weatherpp", "catalog", "list"])
    for content, fault in (
        ("name: [", r"not valid YAML"),
        (good.replace("mine", "bad") + "drivr: grib\n", "unknown key 'drivr'"),
        ("just text", "expected 'key: value' lines"),
    ):
        (own / "bad.yaml").write_text(content)
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert stop.value.code == 5
        assert re.search(r"^mine +My own$", out, re.MULTILINE)
        assert "era5-levels-members" in out
        assert err.count("\n") == 1
        assert err.startswith(f"weatherpp: not listed: {own / 'bad.yaml'}")
        assert fault in err
        with pytest.raises(ConfigError, match=r"bad\.yaml"):
            list_entries()
    assert load_entry("mine").title == "My own"


def test_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    e = entry("netcdf", tmp_path, "*.nc").model_copy(update={"root": "${WPP_TEST_ROOT}/sub"})
    with pytest.raises(ConfigError, match="WPP_TEST_ROOT is not set"):
        e.folder()
    monkeypatch.setenv("WPP_TEST_ROOT", str(tmp_path))
    with pytest.raises(InputError, match=r"no folder .*sub; say where"):
        e.folder()
    (tmp_path / "sub").mkdir()
    assert e.folder() == tmp_path / "sub"
    assert e.folder(tmp_path) == tmp_path


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT"])
@pytest.mark.parametrize("kept", [0.95, 0.5, 0.01])
def test_cut_off_classic_netcdf_is_refused(tmp_path: Path, form: Any, kept: float) -> None:
    # the netCDF library gives zeros for what is missing, without a word
    whole, cut = tmp_path / "whole.nc", tmp_path / "cut.nc"
    ds = xr.Dataset({"z": (("y", "x"), np.ones((50, 60)))})
    ds.to_netcdf(whole, format=form, engine="netcdf4")
    assert float(netcdf.read(whole)["z"].min()) == 1.0
    content = whole.read_bytes()
    cut.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match=r"cut\.nc: not a whole netCDF file"):
        netcdf.read(cut)


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("records", [0, 1, 3])
@pytest.mark.parametrize("variables", [["i2"], ["i1", "f8"], ["i2", "i2", "f4"]])
def test_length_of_classic_files(
    tmp_path: Path, form: Any, records: int, variables: list[str]
) -> None:
    """As long as the netCDF library makes them, but for padding at the very end."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=form) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.title = "odd"
        file.createVariable("x", "f4", ("x",))[:] = [1, 2, 3]
        for number, kind in enumerate(variables):
            variable = file.createVariable(f"v{number}", kind, ("time", "x"))
            variable.units = "m"
            if records:
                variable[:] = np.ones((records, 3))
    size = path.stat().st_size
    wanted = classic.bytes_wanted(path)
    assert wanted is not None
    assert size - 4 < wanted <= size
    path.write_bytes(path.read_bytes()[: wanted - 1])
    with pytest.raises(InputError, match="not a whole netCDF file"):
        netcdf.read(path)


@pytest.mark.parametrize(
    ("key", "value"), [("scale_factor", 0.0), ("scale_factor", "0.01"), ("add_offset", np.nan)]
)
def test_values_that_cannot_be_unpacked(tmp_path: Path, key: str, value: Any) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 2)
        file.createVariable("t2m", "i2", ("x",))[:] = [1, 2]
        file["t2m"].setncattr(key, value)
    with pytest.raises(InputError, match=rf"a\.nc: t2m has the {key}|not a readable netCDF"):
        netcdf.read(path)
