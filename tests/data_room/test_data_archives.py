"""The entries of the big archives, on miniatures in the layout of each.

None of these archives is at hand, so the miniatures are made of what their documentation and
public readers say: GRIB with eccodes, netCDF and Zarr with the archive's own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import eccodes
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.conventions import GRAVITY
from weatherpp.data.catalog import list_entries, load_entry
from weatherpp.data.ingest import ingest, read
from weatherpp.errors import ConfigError, InputError

ARCHIVES = {
    "ens10", "era5", "era5-single-levels", "ecmwf-open", "tigge", "gefs-reforecast", "wb2",
    "stations",
}  # fmt: skip
GRID = {
    "Ni": 4, "Nj": 3, "latitudeOfFirstGridPointInDegrees": 50.0,
    "latitudeOfLastGridPointInDegrees": 49.0, "longitudeOfFirstGridPointInDegrees": 8.0,
    "longitudeOfLastGridPointInDegrees": 9.5, "iDirectionIncrementInDegrees": 0.5,
    "jDirectionIncrementInDegrees": 0.5,
}  # fmt: skip
Z = 30000  # can be at 500 as well as at 850 hPa
PLAUSIBLE = {
    "z": Z, "gh": 5600, "t": 270, "2t": 280, "msl": 1e5, "prmsl": 1e5, "q": 0.005, "w": 0.1,
    "d": 1e-5, "tcw": 20, "tcwv": 20, "tcc": 0.5, "skt": 281, "tp": 1,
}  # fmt: skip
RAIN = {"productDefinitionTemplateNumber": 11, "paramId": 228228}  # in kg m-2, as in TIGGE
SURFACE = ("2t", "msl", "10u", "10v", "tcw", "tcwv", "tcc", "skt", "tp")
GRIB1, GRIB2 = "regular_ll_pl_grib1", "regular_ll_pl_grib2"


def grib(path: Path, sample: str, fields: Iterable[Mapping[str, Any]]) -> None:
    """A GRIB file of constant fields; each of ``fields`` is a set of keys and a ``value``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as out:
        for keys in fields:
            handle = eccodes.codes_grib_new_from_samples(sample)
            try:
                for key, value in {**GRID, **keys}.items():
                    if key != "value":
                        eccodes.codes_set(handle, key, value)
                value = keys.get("value", PLAUSIBLE.get(str(keys.get("shortName")), 5.0))
                eccodes.codes_set_values(handle, np.full(12, float(value)))
                eccodes.codes_write(handle, out)
            finally:
                eccodes.codes_release(handle)


def member(number: int) -> dict[str, Any]:
    """Keys of a member in GRIB 2."""
    return {
        "productDefinitionTemplateNumber": 1,
        "typeOfProcessedData": "pf" if number else "cf",
        "typeOfEnsembleForecast": 3 if number else 1,
        "perturbationNumber": number,
        "numberOfForecastsInEnsemble": 5,
    }


def at_2m(name: str = "2t") -> dict[str, Any]:
    return {"typeOfLevel": "heightAboveGround", "level": 2, "shortName": name}


def test_every_entry_says_what_a_user_must_know() -> None:
    entries = {e.name: e for e in list_entries()}
    assert set(entries) >= ARCHIVES
    for entry in entries.values():
        assert entry.licence
        assert entry.citation
        assert entry.members, entry.name
        assert entry.quirks, entry.name
        assert ("not tried on the original files" in entry.quirks[0]) == (entry.name in ARCHIVES)


def test_an_archive_without_a_place_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEATHERPP_ARCHIVES", raising=False)
    with pytest.raises(ConfigError, match="WEATHERPP_ARCHIVES is not set; it says where"):
        load_entry("ens10").paths("forecast")


# -- GRIB -------------------------------------------------------------------------------------


def ens10(root: Path) -> None:
    """Hindcasts of two years: the date of a field is that of the hindcast, the name says 2018."""
    hindcast = {
        "setLocalDefinition": 1, "localDefinitionNumber": 30, "class": "od", "stream": "enfh",
        "expver": "0001", "type": "pf", "numberOfForecastsInEnsemble": 10,
    }  # fmt: skip
    years, steps = (2016, 2017), (0, 24, 48)
    for kind, variables in {
        "pl": [(n, level) for n in ("z", "t", "q", "w", "d", "u", "v") for level in (500, 850)],
        "sfc": [(n, 0) for n in SURFACE],
    }.items():
        fields = [
            {
                **hindcast,
                "dataDate": int(f"{year}0104"),
                "referenceDate": 20180104,
                "number": number,
                "step": step,
                **({"level": level} if level else {"levtype": "sfc"}),
                "shortName": name,
            }
            for name, level in variables
            for number in (1, 2)
            for year in years
            for step in steps
        ]
        for keys in fields:
            base = PLAUSIBLE.get(str(keys["shortName"]), 5.0)
            keys["value"] = base * (1 + 0.001 * keys["number"] + 0.01 * (keys["dataDate"] % 7))
            if keys["shortName"] in ("tcc", "tp"):
                keys["value"] = 0.001 * keys["step"]
        # as in the originals, some fields are not there
        grib(root / f"output.{kind}.20180104", GRIB1, fields[:-1] if kind == "pl" else fields)


def test_ens10(tmp_path: Path) -> None:
    entry = load_entry("ens10")
    ens10(tmp_path)
    valid = [pd.Timestamp(f"{year}-01-{day:02d}") for year in (2016, 2017) for day in (4, 5, 6)]
    analysis = {"type": "an", "setLocalDefinition": 1, "stream": "oper", "class": "ea"}
    for date in valid:
        keys = {**analysis, "dataDate": int(f"{date:%Y%m%d}")}
        names = [("z", 500), ("z", 850), ("t", 500), ("t", 850), ("2t", 0)]
        grib(
            tmp_path / "era5" / f"{date:%Y}.grib",
            GRIB1,
            [
                {**keys, "shortName": n, **({"level": p} if p else {"levtype": "sfc"})}
                for n, p in names
            ],
        )
    archive = ingest(entry, tmp_path / "a", tmp_path)
    ds = archive.forecast
    starts = ["2016-01-04", "2017-01-04"]
    assert ds["time"].values.astype("datetime64[D]").astype(str).tolist() == starts
    assert ds["number"].values.tolist() == [1, 2]
    assert set(ds.data_vars) == set(entry.variables)
    # the value was made from the date of the hindcast, and read by that date
    wanted = Z * (1.002 + 0.01 * (20170104 % 7))
    got = ds["z"].sel(time="2017-01-04", step="24h", number=2, level=500)
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    assert int(np.isnan(ds["v"].isel(latitude=0, longitude=0)).sum()) == 1
    assert not bool(np.isnan(ds["z"]).any())
    assert archive.analysis is not None
    assert archive.analysis.sizes["valid_time"] == len(valid)


def test_ecmwf_open_data(tmp_path: Path) -> None:
    for step in (0, 24):
        for kind, numbers in (("cf", [0]), ("pf", [1, 2])):
            common = {"dataDate": 20240301, "step": step}
            fields = [
                {**common, **member(number), **what}
                for number in numbers
                for what in (
                    {"shortName": "gh", "level": 500, "value": 5600 + number},
                    {"shortName": "t", "level": 500},
                    {"shortName": "u", "level": 500},
                    {"shortName": "v", "level": 500},
                    at_2m(),
                    {"typeOfLevel": "meanSea", "level": 0, "shortName": "msl"},
                    {"typeOfLevel": "heightAboveGround", "level": 10, "shortName": "10u"},
                    {"typeOfLevel": "heightAboveGround", "level": 10, "shortName": "10v"},
                )
            ]
            grib(tmp_path / f"20240301000000-{step}h-enfo-{kind}.grib2", GRIB2, fields)
    ds = ingest(load_entry("ecmwf-open"), tmp_path / "a", tmp_path).forecast
    assert ds["number"].values.tolist() == [0, 1, 2]
    assert ds.sizes["step"] == 2
    height = ds["z"][0, 1, :, 0, 0, 0] / GRAVITY
    np.testing.assert_allclose(height, [5600, 5601, 5602], rtol=1e-5)


def test_tigge(tmp_path: Path) -> None:
    for day in (1, 2):
        for kind, numbers in (("cf", [0]), ("pf", [1, 2])):
            fields = [
                {
                    "dataDate": 20200100 + day,
                    **member(number),
                    **what,
                    **({"stepRange": f"0-{step}"} if "paramId" in what else {"step": step}),
                }
                for number in numbers
                for step in (24, 48)
                for what in (
                    {"shortName": "gh", "level": 500},
                    {"shortName": "t", "level": 850},
                    at_2m(),
                    {"typeOfLevel": "meanSea", "level": 0, "shortName": "msl"},
                    {**RAIN, "value": step / 10},
                )
            ]
            grib(tmp_path / kind / f"2020010{day}.grib", GRIB2, fields)
    ds = ingest(load_entry("tigge"), tmp_path / "a", tmp_path).forecast
    assert dict(ds.sizes) == {
        "time": 2, "step": 2, "number": 3, "level": 2, "latitude": 3, "longitude": 4,
    }  # fmt: skip
    assert ds["z"].attrs["levels"] == [500]
    np.testing.assert_allclose(ds["tp"][0, :, 0, 0, 0], [0.0024, 0.0048], rtol=1e-3)


def test_gefs_reforecast(tmp_path: Path) -> None:
    for day in ("2019010100", "2019010200"):
        for number in range(3):
            name = f"p{number:02d}" if number else "c00"
            folder = tmp_path / day[:4] / day / name / "Days:1-10"
            common = {"centre": "kwbc", "dataDate": int(day[:8]), **member(number)}
            steps = (3, 6, 9, 12)
            grib(
                folder / f"tmp_2m_{day}_{name}.grib2",
                GRIB2,
                [{**common, "step": step, **at_2m()} for step in steps],
            )
            sea = {"typeOfLevel": "meanSea", "level": 0, "shortName": "prmsl"}
            grib(
                folder / f"pres_msl_{day}_{name}.grib2",
                GRIB2,
                [{**common, "step": step, **sea} for step in steps],
            )
            grib(
                folder / f"apcp_sfc_{day}_{name}.grib2",
                GRIB2,
                [
                    {**common, **RAIN, "stepRange": text, "value": hours}
                    for text, hours in (("0-3", 3), ("0-6", 6), ("6-9", 3), ("6-12", 6))
                ],
            )
    ds = ingest(load_entry("gefs-reforecast"), tmp_path / "a", tmp_path).forecast
    assert ds["number"].values.tolist() == [0, 1, 2]
    assert set(ds.data_vars) == {"t2m", "msl", "tp"}
    np.testing.assert_allclose(ds["tp"][1, :, 2, 0, 0] * 1000, [3, 6, 9, 12], rtol=1e-3)


# -- netCDF and Zarr --------------------------------------------------------------------------


def cds(variables: Mapping[str, tuple[str, float]], levels: tuple[int, ...] = ()) -> xr.Dataset:
    """As the Climate Data Store writes it: valid_time in seconds, number and expver beside it."""
    times = pd.date_range("2020-01-01", periods=4, freq="12h")
    dims = ("valid_time", *(["pressure_level"] if levels else []), "latitude", "longitude")
    shape = (4, *([len(levels)] if levels else []), 3, 4)
    coords: dict[str, Any] = {
        "valid_time": times,
        "latitude": [50.0, 49.75, 49.5],
        "longitude": [8.0, 8.25, 8.5, 8.75],
        "number": 0,
        "expver": ("valid_time", np.array(["0001"] * 4, dtype=object)),
    }
    if levels:
        coords["pressure_level"] = ("pressure_level", np.array(levels, float), {"units": "hPa"})
    data = {
        name: (dims, np.full(shape, value, "float32"), {"units": units, "GRIB_paramId": 1})
        for name, (units, value) in variables.items()
    }
    return xr.Dataset(data, coords)


def test_era5(tmp_path: Path) -> None:
    for folder in ("pressure_levels", "single_levels"):
        (tmp_path / folder).mkdir()
    aloft = cds({"z": ("m**2 s**-2", Z), "t": ("K", 270)}, (850, 500))
    surface = {"t2m": ("K", 280), "msl": ("Pa", 1e5), "u10": ("m s**-1", 5), "v10": ("m s**-1", 5)}
    aloft.isel(valid_time=slice(2)).to_netcdf(tmp_path / "pressure_levels" / "a.nc")
    aloft.isel(valid_time=slice(2, 4)).to_netcdf(tmp_path / "pressure_levels" / "b.nc")
    cds(surface).to_netcdf(tmp_path / "single_levels" / "a.nc")
    pressure = read(load_entry("era5"), "analysis", tmp_path)
    assert pressure is not None
    assert dict(pressure.sizes) == {"valid_time": 4, "level": 2, "latitude": 3, "longitude": 4}
    assert pressure["level"].values.tolist() == [500, 850]
    single = read(load_entry("era5-single-levels"), "analysis", tmp_path)
    assert single is not None
    assert set(single.data_vars) == set(surface)


@pytest.mark.parametrize("names", [("time", "prediction_timedelta"), ("init_time", "lead_time")])
def test_weatherbench(names: tuple[str, str], tmp_path: Path) -> None:
    entry = load_entry("wb2")
    assert entry.root.startswith("gs://")
    initial, lead = names
    grid = {"longitude": np.arange(8) * 45.0, "latitude": np.linspace(-75, 75, 6)}
    times = pd.date_range("2020-01-01", periods=3, freq="12h")
    valid = pd.date_range("2020-01-01", periods=8, freq="6h")
    rng = np.random.default_rng(1)
    mean = {"z": Z, "t": 270, "t2m": 280, "msl": 1e5, "u10": 5, "v10": 5}
    data: dict[str, Any] = {}
    truth: dict[str, Any] = {}
    for name, given in entry.variables.items():
        levels = ["level"] if name in ("z", "t") else []
        shape = (3, 2, 3, *([2] if levels else []), 8, 6)
        field = mean[name] * (1 + 0.01 * rng.random(shape)).astype("float32")
        data[str(given.source)] = ((initial, lead, "number", *levels, *grid), field)
        field = mean[name] * (1 + 0.01 * rng.random((8, *shape[3:]))).astype("float32")
        truth[str(given.source)] = (("time", *levels, *grid), field)
    coords: dict[str, Any] = {
        initial: times, lead: (lead, [0, 6], {"units": "hours"}), "number": [1, 2, 3],
        "level": [500, 850], **grid,
    }  # fmt: skip
    forecast = xr.Dataset(data, coords)
    forecast.to_zarr(tmp_path / entry.files.forecast[0], zarr_format=2)
    era5 = xr.Dataset(truth, {"time": valid, "level": [500, 850], **grid})
    era5.to_zarr(tmp_path / entry.files.analysis[0], zarr_format=2)
    archive = ingest(entry, tmp_path / "a", tmp_path)
    ds = archive.forecast
    assert ds["z"].dims == ("time", "step", "number", "level", "latitude", "longitude")
    assert ds["latitude"].values.tolist() == grid["latitude"][::-1].tolist()
    got = ds["z"].sel(time="2020-01-01T12", step="6h", number=2, level=850, longitude=90)
    there = forecast["geopotential"].isel(
        {initial: 1, lead: 1, "number": 1, "level": 1, "longitude": 2}
    )
    np.testing.assert_array_equal(got, there[::-1])
    assert archive.analysis is not None
    assert archive.analysis.sizes["valid_time"] == 8


def test_stations(tmp_path: Path) -> None:
    times = pd.date_range("2017-01-01", periods=3)
    steps = pd.to_timedelta([0, 6, 12, 24], "h")
    rng = np.random.default_rng(1)
    dims = ("station_id", "number", "time", "step")
    places = {
        "station_latitude": ("station_id", [50.8, 52.3]),
        "station_longitude": ("station_id", [4.4, 13.1]),
        "station_altitude": ("station_id", [100.0, 80.0]),
        "station_name": ("station_id", ["UCCLE", "POTSDAM"]),
        "station_land_usage": ("station_id", [1.0, 2.0]),
        "model_latitude": ("station_id", [50.75, 52.25]),
        "model_longitude": ("station_id", [4.5, 13.0]),
        "model_altitude": ("station_id", [90.0, 85.0]),
    }
    members = 280 + rng.random((2, 3, 3, 4)).astype("float32")
    forecast = xr.Dataset(
        {"t2m": (dims, members, {"units": "K"})},
        {
            "station_id": [6447, 10379], "number": [0, 1, 2], "time": times, "step": steps,
            "surface": 0.0, **places,
        },
    )  # fmt: skip
    valid = times.values[:, None] + steps.values
    assert np.unique(valid).size == 10, "24 h is 0 h of the next day"
    forecast = forecast.assign_coords(valid_time=(("time", "step"), valid))
    seen = 280 + rng.random((2, 3, 4)).astype("float32")
    seen[:, :2, 3] = seen[:, 1:, 0]
    seen[1, 0, 1] = seen[1, 0, 3] = np.nan
    own = {key.removeprefix("station_"): value for key, value in places.items() if "sta" in key}
    observed = xr.Dataset(
        {"t2m": (("station_id", "time", "step"), seen, {"units": "K"})},
        {"station_id": [6447, 10379], "time": times, "step": steps, **own},
    ).assign_coords(valid_time=(("time", "step"), valid))
    forecast.to_zarr(tmp_path / "forecasts.zarr", zarr_format=2)
    observed.to_zarr(tmp_path / "observations.zarr", zarr_format=2)
    archive = ingest(load_entry("stations"), tmp_path / "a", tmp_path)
    ds = archive.forecast
    assert ds["t2m"].dims == ("time", "step", "number", "station")
    np.testing.assert_array_equal(ds["t2m"], members.transpose(2, 3, 1, 0))
    assert ds["altitude"].values.tolist() == [100.0, 80.0]
    assert archive.analysis is not None
    assert archive.analysis.sizes["valid_time"] == 10
    found = archive.analysis["t2m"].sel(valid_time=valid.ravel()).values
    seen[1, 0, 3] = seen[1, 1, 0]  # missing in one copy, there in the other
    np.testing.assert_array_equal(found, seen.reshape(2, 12).T)
    observed["t2m"][1, 1, 3] += 1
    observed.to_zarr(tmp_path / "observations.zarr", zarr_format=2, mode="w")
    with pytest.raises(InputError, match="t2m has two values for 2017-01-03 00:00"):
        ingest(load_entry("stations"), tmp_path / "b", tmp_path)
