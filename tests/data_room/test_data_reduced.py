"""Reduced Gaussian grids brought to rows and columns, against their own points and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import eccodes
import numpy as np
import pytest
import xarray as xr
from scipy.special import roots_legendre

from weatherpp.conventions import check
from weatherpp.data import grib
from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.ingest import read
from weatherpp.data.reduced import filled
from weatherpp.data.regrid import GridSettings
from weatherpp.errors import InputError
from weatherpp.strict import validate


def settings_of(**given: Any) -> GridSettings:
    return validate(GridSettings, given, "x")


def entry(data_dir: Path, grid: dict[str, Any] | None, group: str = "analysis") -> CatalogEntry:
    given = {
        "name": "t",
        "title": "T",
        "licence": "none",
        "citation": "none",
        "driver": "grib",
        "root": str(data_dir / "grib"),
        "files": {group: ["t2m_grib.grib"]},
        "grid": grid,
    }
    return validate(CatalogEntry, given, "t.yaml")


@pytest.fixture(scope="module")
def o32(data_dir: Path) -> xr.Dataset:
    (raw,) = grib.read(data_dir / "grib" / "O32_global.grib2")
    return raw.load()


@pytest.fixture(scope="module")
def o160(data_dir: Path) -> xr.Dataset:
    (raw,) = grib.read(data_dir / "grib" / "t2m_grib.grib")
    return raw.load()


def test_rows_keep_the_values_of_their_own_points(o32: xr.Dataset) -> None:
    full = filled(o32, settings_of(regrid={"resolution": 2}), "forecast")
    assert full["t"].shape == (64, 144)
    assert full["t"].attrs == o32["t"].attrs
    latitude, longitude = o32["latitude"].values, o32["longitude"].values
    widths = o32["t"].attrs["GRIB_pl"]
    assert set(widths) >= {36, 48, 72, 144}
    for row, width in enumerate(widths):
        own = o32["t"].values[latitude == full["latitude"].values[row]]
        assert own.size == width
        if 144 % width == 0:
            np.testing.assert_array_equal(full["t"][row, :: 144 // width], own)
        line = full["t"].values[row]
        assert own.min() <= line.min() <= line.max() <= own.max()
    np.testing.assert_array_equal(full["latitude"], latitude[np.r_[0, np.cumsum(widths)[:-1]]])
    assert longitude.max() < 360


def test_amounts_along_a_row_keep_their_sum(o32: xr.Dataset) -> None:
    asked = settings_of(regrid={"resolution": 2}, method="conservative")
    full = filled(o32, asked, "forecast")["t"].values.astype("float64")
    rows = np.split(o32["t"].values.astype("float64"), np.cumsum(o32["t"].attrs["GRIB_pl"])[:-1])
    np.testing.assert_allclose(full.mean(1), [row.mean() for row in rows], rtol=1e-7)
    # a row of 36, every fourth new cell lies half in one of its cells and half in the next
    middle = (rows[4] + np.roll(rows[4], -1)) / 2
    np.testing.assert_allclose(full[4, 2::4], middle, rtol=1e-6)


def test_fields_linear_in_latitude_stay_so(o160: xr.Dataset, data_dir: Path) -> None:
    changed = o160.assign(t2m=o160["t2m"].copy(data=o160["latitude"].values))
    full = filled(changed, settings_of(regrid={"resolution": 1}), "analysis")
    want = np.repeat(full["latitude"].values[:, None], 656, 1)
    np.testing.assert_allclose(full["t2m"], want, rtol=1e-6)


def test_missing_points_stay_missing(o32: xr.Dataset) -> None:
    values = o32["t"].values.copy()
    begin = int(np.cumsum(o32["t"].attrs["GRIB_pl"])[30])  # a row of 144
    values[begin + 10] = np.nan
    values[:20] = np.nan
    values[3] = 200.0
    full = filled(
        o32.assign(t=o32["t"].copy(data=values)), settings_of(regrid={"resolution": 2}), "analysis"
    )
    found = full["t"].values
    missing = np.argwhere(np.isnan(found))
    assert missing[missing[:, 0] > 0].tolist() == [[31, 10]]
    # of a row of 20, what lies at most half of the way off the one known point at 54 degrees
    there = full["longitude"].values[np.isfinite(found[0])]
    np.testing.assert_array_equal(there, np.arange(45, 64, 2.5))
    np.testing.assert_allclose(found[0][np.isfinite(found[0])], 200.0)


def test_temperature_on_a_regular_grid(o160: xr.Dataset, data_dir: Path) -> None:
    out = read(entry(data_dir, {"regrid": {"resolution": 0.5}}), "analysis")
    assert out is not None
    check(out, "x", "analysis")
    assert out["t2m"].shape == (1, 361, 720)
    field = out["t2m"].isel(valid_time=0, drop=True).load()
    latitude, longitude = o160["latitude"].values, o160["longitude"].values
    values = o160["t2m"].values
    points = {"latitude": xr.DataArray(latitude), "longitude": xr.DataArray(longitude)}
    near = field.sel(points, method="nearest").values
    assert np.abs(near - values).mean() < 0.3
    assert np.abs(near - values).max() < 15.0  # mountains and coasts within half a cell
    at = field.interp(points).values
    known = np.isfinite(at)  # between the last column and the first is none
    assert np.abs(at - values)[known].mean() < np.abs(near - values).mean()
    assert (near - values).mean() == pytest.approx(0, abs=0.01)
    # the mean over the globe by the Gaussian weights of the rows
    widths = o160["t2m"].attrs["GRIB_pl"]
    means = [row.mean() for row in np.split(values.astype("float64"), np.cumsum(widths)[:-1])]
    _, weights = roots_legendre(320)
    want = np.average(means, weights=weights)
    got = field.weighted(np.cos(np.radians(field["latitude"]))).mean()
    assert float(got) == pytest.approx(want, abs=0.02)
    assert np.ptp(field[0].values) == 0.0, "one value at the pole"


def test_conservative_mean_over_the_globe(o160: xr.Dataset, data_dir: Path) -> None:
    grid = {"regrid": {"resolution": 3}, "method": "conservative"}
    out = read(entry(data_dir, grid), "analysis")
    assert out is not None
    edges = np.radians(np.clip(np.arange(91.5, -92, -3), -90, 90))
    area = np.sin(edges[:-1]) - np.sin(edges[1:])
    got = np.average(out["t2m"][0].mean("longitude", dtype="float64"), weights=area)
    values = o160["t2m"].values.astype("float64")
    means = [row.mean() for row in np.split(values, np.cumsum(o160["t2m"].attrs["GRIB_pl"])[:-1])]
    _, weights = roots_legendre(320)
    # rows end half way between them here, Gaussian weights are almost these areas
    assert got == pytest.approx(np.average(means, weights=weights), abs=0.002)


def test_temperature_agrees_with_the_reports(data_dir: Path) -> None:
    """SYNOP reports of the valid time; two days ahead the forecast is off by a few kelvin."""
    reports = []
    with (data_dir / "grib" / "obs_3day.bufr").open("rb") as stream:
        while (report := eccodes.codes_bufr_new_from_file(stream)) is not None:
            eccodes.codes_set(report, "unpack", 1)
            keys = ("latitude", "longitude", "airTemperatureAt2M")
            reports.append([eccodes.codes_get(report, f"#1#{key}", float) for key in keys])
            eccodes.codes_release(report)
    latitude, longitude, temperature = np.array([r for r in reports if r[2] > 0]).T
    assert temperature.size == 1471
    crop = {"north": 72, "south": 29, "west": -24, "east": 47}
    grid = {"regrid": {"resolution": 0.5}, "crop": crop}
    out = read(entry(data_dir, grid), "analysis")
    assert out is not None
    assert out["longitude"].values[[0, -1]].tolist() == [-24, 47]
    points = {"latitude": xr.DataArray(latitude), "longitude": xr.DataArray(longitude)}
    error = out["t2m"][0].sel(points, method="nearest").values - temperature
    assert np.abs(error).mean() < 2.0
    assert abs(error.mean()) < 0.5


@pytest.mark.parametrize("grid", [None, {"crop": {"north": 60, "south": 30, "west": 0, "east": 9}}])
def test_without_a_new_grid_it_is_refused(grid: dict[str, Any] | None, data_dir: Path) -> None:
    with pytest.raises(InputError, match=r"reduced .*state grid: \{regrid: \{resolution: 0\.5\}\}"):
        read(entry(data_dir, grid), "analysis")


def test_forecasts_cannot_be_like_themselves(data_dir: Path) -> None:
    with pytest.raises(InputError, match="reduced or unstructured grid of 108160 points"):
        read(entry(data_dir, {"regrid": "like-forecast"}, "forecast"), "forecast")


def test_points_without_rows_come_back_to_be_refused(o32: xr.Dataset) -> None:
    asked = settings_of(regrid={"resolution": 2})
    shuffled = o32.isel(values=np.random.default_rng(1).permutation(5248))
    assert filled(shuffled, asked, "forecast") is shuffled
    uneven = o32.assign_coords(longitude=("values", o32["longitude"].values ** 1.01))
    assert filled(uneven, asked, "forecast") is uneven
    part = o32.isel(values=slice(0, 30))  # a row and a half
    assert filled(part, asked, "forecast") is part
