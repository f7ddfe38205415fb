"""Shipped catalog entries of sources with quirks, from the files to the canonical form."""

from __future__ import annotations

import functools
from pathlib import Path

import eccodes
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.data.catalog import CatalogEntry, load_entry
from weatherpp.data.ingest import ingest, read
from weatherpp.data.matching import truth_for
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import Target
from weatherpp.strict import validate

SHAPES = {
    "glosea4": ((1, 6, 13, 145, 192), None),
    "seas5": ((6, 3, 15, 22, 53), (18, 22, 53)),
    "rmm1": ((510, 45, 4, 1), (15468, 1)),
    "cfsv2-iberia": ((20, 91, 9, 10, 16), (1805, 10, 16)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_seasonal_entries(name: str, extra_data: Path, tmp_path: Path) -> None:
    entry = load_entry(name)
    (variable,) = entry.variables
    groups = (read(entry, "forecast"), read(entry, "analysis"))
    found = tuple(None if ds is None else ds[variable].shape for ds in groups)
    assert found == SHAPES[name]
    archive = ingest(entry, tmp_path / "a")
    assert archive.forecast[variable].shape == SHAPES[name][0]
    if archive.analysis is not None:
        assert archive.analysis[variable].shape == SHAPES[name][1]


def test_seasonal_rain_is_verified_with_a_reanalysis(extra_data: Path, tmp_path: Path) -> None:
    archive = ingest(load_entry("cfsv2-iberia"), tmp_path / "a")
    assert archive.analysis is not None
    target = Target(variable="tp", step="1056h")  # 1 December
    times = pd.DatetimeIndex(archive.forecast["time"].values)
    truth = truth_for(archive.analysis, target, times, archive.forecast)
    assert truth.shape == (20, 10, 16)
    assert truth.notnull().all()
    # a cell of the forecast that lies in one of the reanalysis has its value
    place = {"latitude": 37.32, "longitude": -9.375}
    found = truth.sel(place, method="nearest")
    with xr.open_dataset(extra_data / "seasonal" / "ncep_iberia_pr_djf.nc") as ds:
        days = ds["time"].isin(truth["valid_time"].values)
        there = ds["pr"][days].sel(lat=place["latitude"], lon=place["longitude"], method="nearest")
        np.testing.assert_allclose(found, there * 86.4, rtol=1e-5, atol=1e-9)


def test_members_of_monthly_forecasts_are_kept_apart(data_dir: Path) -> None:
    """Two ensembles that share member numbers and two of their three valid times."""
    ds = read(load_entry("ukmo-monthly"), "forecast")
    assert ds is not None
    assert ds["time"].values.astype("datetime64[D]").astype(str).tolist() == [
        "2016-01-01",
        "2016-02-01",
    ]
    assert ds["number"].values.tolist() == list(range(28))
    there = np.isfinite(ds["t2m"]).all(("latitude", "longitude"))
    assert there.sum("step").values.tolist() == [[3] * 28] * 2
    assert int(there.sum()) == 168, "each field of the file once, the rest of the table missing"
    path = data_dir / "grib" / "forecast_monthly_ukmo.grib"
    seen = 0
    with path.open("rb") as stream:
        while (handle := eccodes.codes_grib_new_from_file(stream)) is not None:
            get = functools.partial(eccodes.codes_get, handle)
            start = pd.Timestamp(get("dataDate", str))
            ensemble = "2016-01-01" if start <= pd.Timestamp("2016-01-01") else "2016-02-01"
            lead = pd.Timestamp(get("validityDate", str)) - pd.Timestamp(ensemble)
            found = ds["t2m"].sel(time=ensemble, step=lead, number=get("number"))
            values = eccodes.codes_get_values(handle)
            np.testing.assert_allclose(found.values.ravel(), values, rtol=1e-6)
            eccodes.codes_release(handle)
            seen += 1
    assert seen == 168


def test_entries_in_the_repository(tmp_path: Path) -> None:
    lagged = read(load_entry("mogreps-uk-lagged"), "forecast")
    assert lagged is not None
    assert lagged["skt"].shape == (1, 1, 18, 49, 53)
    packed = load_entry("mslp-packed")
    fields = read(packed, "analysis")
    assert fields is not None
    assert fields["msl"].shape == (4, 451, 900)
    with pytest.raises(ConfigError, match="has no forecasts to make an archive of"):
        ingest(packed, tmp_path / "a")


def entry(root: Path, driver: str, **settings: object) -> CatalogEntry:
    base = {"name": "t", "title": "T", "licence": "none", "citation": "none"}
    return validate(CatalogEntry, {**base, "root": str(root), "driver": driver, **settings}, "t")


def test_control_files(tmp_path: Path, data_dir: Path) -> None:
    (source,) = (data_dir / "mogreps_uk_t" / "apply").glob("*.nc")
    with xr.open_dataset(source, decode_timedelta=False) as ds:
        cut = {"projection_y_coordinate": slice(4), "projection_x_coordinate": slice(4)}
        small = ds.isel(cut).load()
    small.isel(realization=slice(1, 3)).to_netcdf(tmp_path / "pf.nc")
    small.isel(realization=0).drop_vars("realization").to_netcdf(tmp_path / "cf.nc")
    files = {"forecast": ["pf.nc"], "control": ["cf.nc"]}
    out = read(entry(tmp_path, "netcdf", files=files), "forecast")
    assert out is not None
    assert out["number"].values.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(out["t2m"][0, 0], small["air_temperature"][:3])


def test_bounds_reach_amounts_through_an_entry(tmp_path: Path) -> None:
    shape = (2, 2, 2, 2)
    dims = ("forecast_period", "realization", "latitude", "longitude")
    lead = {"units": "hours", "standard_name": "forecast_period", "bounds": "lead_bnds"}
    ds = xr.Dataset(
        {"rain": (dims, np.ones(shape), {"units": "m"})},
        {
            "forecast_period": ("forecast_period", [6, 12], lead),
            "forecast_reference_time": np.datetime64("2020-01-01", "ns"),
            "realization": [0, 1],
            "latitude": [1.0, 0.0],
            "longitude": [0.0, 1.0],
        },
    )
    ds["lead_bnds"] = (("forecast_period", "bnds"), [[0, 6], [6, 12]])
    ds.to_netcdf(tmp_path / "a.nc")
    files = {"forecast": ["a.nc"]}
    silent = entry(tmp_path, "netcdf", files=files, variables={"tp": {"source": "rain"}})
    with pytest.raises(InputError, match="tp is summed over 6 to 12 h"):
        read(silent, "forecast")
    variables = {"tp": {"source": "rain", "accumulation": "since_previous"}}
    out = read(entry(tmp_path, "netcdf", files=files, variables=variables), "forecast")
    assert out is not None
    assert out["tp"][0, :, 0, 0, 0].values.tolist() == [1, 2]


def write_rain(path: Path, ranges: list[str]) -> None:
    """Rain of two members, as many millimetres as the step range is long in hours."""
    with path.open("wb") as out:
        for number in (1, 2):
            for text in ranges:
                start, end = (int(part) for part in text.split("-"))
                handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
                for key, value in {
                    "productDefinitionTemplateNumber": 11,
                    "typeOfEnsembleForecast": 3,
                    "perturbationNumber": number,
                    "numberOfForecastsInEnsemble": 2,
                    "dataDate": 20200101,
                    "dataTime": 0,
                    "shortName": "tp",
                    "stepRange": text,
                }.items():
                    eccodes.codes_set(handle, key, value)
                size = eccodes.codes_get_size(handle, "values")
                eccodes.codes_set_values(handle, np.full(size, (end - start) / 1000))
                eccodes.codes_write(handle, out)
                eccodes.codes_release(handle)


def test_rain_in_buckets_of_grib(tmp_path: Path) -> None:
    """As GEFS writes it: sums begin anew every six hours."""
    write_rain(tmp_path / "a.grib2", ["0-3", "0-6", "6-9", "6-12"])
    files = {"forecast": ["a.grib2"]}
    with pytest.raises(InputError, match=r"summed over 6 to 9 h, not since the start"):
        read(entry(tmp_path, "grib", files=files), "forecast")
    variables = {"tp": {"accumulation": "6h"}}
    out = read(entry(tmp_path, "grib", files=files, variables=variables), "forecast")
    assert out is not None
    np.testing.assert_allclose(out["tp"][0, :, 1, 0, 0], [0.003, 0.006, 0.009, 0.012], rtol=1e-4)
    write_rain(tmp_path / "a.grib2", ["0-3", "0-6"])
    plain = read(entry(tmp_path, "grib", files=files), "forecast")
    assert plain is not None
    assert plain["tp"].attrs["accumulation"] == "since_start"
