"""Grids cropped, coarsened and regridded at ingest, against values known otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator
from synthetic import make_datasets

from weatherpp.conventions import annotate, check
from weatherpp.data.axes import Grid, between, blocks
from weatherpp.data.catalog import CatalogEntry, load_entry
from weatherpp.data.ingest import ingest, read
from weatherpp.data.regrid import GridSettings, to_grid
from weatherpp.errors import ConfigError, InputError
from weatherpp.strict import validate

EUROPE = {"north": 66, "south": 33, "west": -18, "east": 36}


def regular(spacing: float, start: float = 0.0) -> Grid:
    """All round, from pole to pole."""
    return Grid.of(
        np.arange(90, -90 - spacing / 2, -spacing), np.arange(start, start + 360, spacing)
    )


def inner(spacing: float) -> Grid:
    """The centres of the cells of :func:`regular`, so that no row is at a pole."""
    half = spacing / 2
    return Grid.of(np.arange(90 - half, -90, -spacing), np.arange(half, 360, spacing))


def area_mean(field: np.ndarray, grid: Grid) -> float:
    """By the exact area of each cell; needs no weights of the code under test."""
    edges = np.radians(np.clip(_borders(grid.rows), -90, 90))
    area = np.sin(edges[:-1]) - np.sin(edges[1:])
    width = np.diff(_borders(grid.columns))
    return float((field * area[:, None] * width).sum() / (area.sum() * width.sum()))


def _borders(x: np.ndarray) -> np.ndarray:
    middle = (x[1:] + x[:-1]) / 2
    return np.r_[x[0] - (middle[0] - x[0]), middle, x[-1] + (x[-1] - middle[-1])]


def dataset(grid: Grid, values: np.ndarray, name: str = "t2m", **chunks: int) -> xr.Dataset:
    """Analyses of a field, (valid_time, latitude, longitude), lazy."""
    dims = ("valid_time", "latitude", "longitude")
    data = dask.array.from_array(np.asarray(values, "float32"), (1, *grid_shape(grid)))
    times = pd.date_range("2020-01-01", periods=len(values))
    coords = {"valid_time": times, "latitude": grid.rows, "longitude": grid.columns}
    return annotate(xr.Dataset({name: (dims, data)}, coords))


def grid_shape(grid: Grid) -> tuple[int, int]:
    return len(grid.latitude), len(grid.longitude)


def settings_of(**given: Any) -> GridSettings:
    return validate(GridSettings, given, "x")


def entry(root: Path, driver: str = "netcdf", **more: Any) -> CatalogEntry:
    base = {"name": "t", "title": "T", "licence": "none", "citation": "none"}
    return validate(CatalogEntry, {**base, "root": str(root), "driver": driver, **more}, "t.yaml")


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([4.0, 6.0, 7.5, 10.0]),
    st.sampled_from([3.0, 5.0, 9.0, 20.0]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_conservative_keeps_the_mean_over_the_globe(
    old: float, new: float, poles: bool, seed: int
) -> None:
    source = regular(old) if poles else inner(old)
    target = inner(new) if poles else regular(new)
    field = np.random.default_rng(seed).normal(size=grid_shape(source))
    out = between(source, target, "conservative").apply(field)
    assert area_mean(out, target) == pytest.approx(area_mean(field, source), abs=1e-12)
    assert out.min() >= field.min() - 1e-12
    assert out.max() <= field.max() + 1e-12


@pytest.mark.parametrize("west", [-15.0, 100.0])
def test_conservative_is_the_mean_over_the_new_cell(west: float) -> None:
    """Against the mean over a great many points, of cells that do not divide one another."""
    source = Grid.of(np.arange(60.0, 29.0, -3), west + np.arange(0, 31.0, 3))
    target = Grid.of(np.arange(56.0, 35, -5), west + np.arange(4.0, 25, 5))
    field = np.random.default_rng(1).normal(size=grid_shape(source))
    out = between(source, target, "conservative").apply(field)
    lat = 36 - 2.5 + (np.arange(2000) + 0.5) * 25 / 2000
    lon = target.columns[0] - 2.5 + (np.arange(1000) + 0.5) * 25 / 1000
    near_row = np.abs(lat[:, None] - source.rows).argmin(1)
    near_column = np.abs(lon[:, None] - source.columns).argmin(1)
    fine = field[np.ix_(near_row, near_column)]
    weight = np.cos(np.radians(lat))[:, None]
    parts = [(a * weight).reshape(5, 400, 5, 200).sum((1, 3)) for a in (fine, np.ones_like(fine))]
    np.testing.assert_allclose(out[::-1], parts[0] / parts[1], atol=2e-3)


@pytest.mark.parametrize("source", [regular(3), inner(2.5), regular(5, 2.0)])
def test_bilinear_is_exact_for_linear_fields(source: Grid) -> None:
    target = Grid.of(np.arange(80, -81, -1.7), np.arange(0, 360, 1.3))
    weights = between(source, target, "bilinear")
    in_latitude = np.repeat(source.rows[:, None], len(source.longitude), 1)
    np.testing.assert_allclose(
        weights.apply(in_latitude), np.repeat(target.rows[:, None], len(target.longitude), 1)
    )
    # no field is linear all round; this one is in the longitudes of the source, with its seam
    in_longitude = np.repeat(source.columns[None, :], len(source.latitude), 0)
    inside = (target.columns >= source.columns[0]) & (target.columns <= source.columns[-1])
    out = weights.apply(in_longitude)[:, inside]
    np.testing.assert_allclose(out, np.repeat(target.columns[None, inside], len(out), 0))


def test_bilinear_is_that_of_scipy_and_closes_the_ring() -> None:
    source, target = inner(6), Grid.of(np.arange(85, -86, -2.3), np.arange(-17.0, 120, 1.9))
    field = np.random.default_rng(2).normal(size=grid_shape(source))
    around = np.concatenate([field, field, field], axis=1)
    columns = np.concatenate([source.columns + turn for turn in (-360, 0, 360)])
    known = RegularGridInterpolator((source.rows, columns), around)
    want = known(tuple(np.meshgrid(target.rows, target.columns, indexing="ij")))
    np.testing.assert_allclose(between(source, target, "bilinear").apply(field), want, atol=1e-12)


def test_rows_at_a_pole_have_one_value_and_winds_keep_their_meridians() -> None:
    source, target = inner(10), regular(10)
    field = np.random.default_rng(3).normal(size=grid_shape(source))
    out = between(source, target, "bilinear").apply(field)
    np.testing.assert_allclose(out[0], field[0].mean())
    np.testing.assert_allclose(out[-1], field[-1].mean())
    # a wind over the pole is eastward on one meridian and westward on the opposite one
    wind = np.cos(np.radians(source.columns))[None, :] * np.ones((len(source.latitude), 1))
    over = between(source, target, "bilinear-winds").apply(wind)
    want = np.cos(np.radians(5)) * np.cos(np.radians(target.columns))  # between two columns
    np.testing.assert_allclose(over[0], want, atol=1e-12)


def test_a_grid_to_itself_changes_nothing() -> None:
    for grid in (regular(7.5), inner(6), Grid.of([50.3, 49.1, 47.7], [-1.2, 0.3, 2.0])):
        field = np.random.default_rng(4).normal(size=grid_shape(grid))
        np.testing.assert_array_equal(between(grid, grid, "bilinear").apply(field), field)
        same = between(grid, grid, "conservative").apply(field)
        np.testing.assert_allclose(same, field, atol=1e-12)


def test_missing_values() -> None:
    source, target = inner(5), inner(10)
    field = np.ones(grid_shape(source))
    field[10:12, 10:12] = np.nan  # all of a new cell
    field[20:22, 20] = np.nan  # half of one
    field[30:32, 30:32] = np.nan
    field[31, 31] = 7.0  # a quarter known
    out = between(source, target, "conservative").apply(field)
    assert np.argwhere(np.isnan(out)).tolist() == [[5, 5], [15, 15]]
    np.testing.assert_allclose(out[np.isfinite(out)], 1.0)
    # at a point itself its own value counts alone
    near = between(source, source, "bilinear").apply(field)
    np.testing.assert_array_equal(np.isnan(near), np.isnan(field))


def test_blocks_are_means_by_area() -> None:
    source = Grid.of(np.arange(90, -30, -3.0), np.arange(0, 360, 3.0))
    field = np.random.default_rng(5).normal(size=grid_shape(source))
    target, weights = blocks(source, 4)
    out = weights.apply(field)
    edges = np.radians(np.clip(_borders(source.rows), -90, 90))
    area = np.sin(edges[:-1]) - np.sin(edges[1:])
    assert area[0] > 0, "the row at the pole has an area"
    want = [
        [
            np.average(field[i : i + 4, j : j + 4].mean(1), weights=area[i : i + 4])
            for j in range(0, 120, 4)
        ]
        for i in range(0, 40, 4)
    ]
    np.testing.assert_allclose(out, want)
    np.testing.assert_allclose(target.columns, np.arange(4.5, 360, 12))
    assert target.rows[0] == 85.5


def test_crop_takes_points_across_greenwich() -> None:
    grid = regular(3)
    field = np.arange(61 * 120.0)[None].reshape(1, 61, 120)
    (out,) = to_grid([dataset(grid, field)], settings_of(crop=EUROPE), "x")
    check(out, "x", "analysis")
    np.testing.assert_array_equal(out["longitude"], np.arange(-18, 37, 3))
    np.testing.assert_array_equal(out["latitude"], np.arange(66, 32, -3))
    want = dataset(grid, field)["t2m"].sel(
        latitude=out["latitude"], longitude=out["longitude"] % 360
    )
    np.testing.assert_array_equal(out["t2m"], want)
    # of a region that lies across already, and a box on one side of it alone
    west = settings_of(crop={"north": 60, "south": 40, "west": 342, "east": 355})
    (part,) = to_grid([out], west, "x")
    check(part, "x", "analysis")
    np.testing.assert_array_equal(part["longitude"], [342, 345, 348, 351, 354])
    np.testing.assert_array_equal(part["t2m"], out["t2m"].isel(latitude=slice(2, 9))[..., :5])
    whole = settings_of(crop={"north": 90, "south": -90, "west": -180, "east": 180})
    (all_round,) = to_grid([dataset(grid, field)], whole, "x")
    np.testing.assert_array_equal(all_round["longitude"], grid.columns)


def test_what_cannot_be_is_refused() -> None:
    grid = Grid.of(np.arange(60, 39, -3.0), np.arange(0, 22, 3.0))
    ds = dataset(grid, np.full((1, *grid_shape(grid)), 280.0))
    far = {"north": 10, "south": 0, "west": 0, "east": 10}
    for given_, text in (
        ({"crop": far}, r"x: no point lies in grid\.crop, 0° N to 10° N.*there are 42 to 60 N"),
        ({"coarsen": 3}, r"x: grid\.coarsen: 7 points of latitude .* blocks of 3; leave 1 out"),
        ({"regrid": {"resolution": 30}}, "no cell of 30 degrees .* is covered"),
    ):
        with pytest.raises(InputError, match=text):
            to_grid([ds], settings_of(**given_), "x")
    like = dataset(regular(3), np.full((1, 61, 120), 280.0))
    with pytest.raises(
        InputError, match=r"from 40\.5 to 61\.5 N and does not cover latitude 90 of"
    ):
        to_grid([ds], settings_of(regrid="like-forecast"), "x", like=like)
    east = like.sel(latitude=slice(60, 45), longitude=slice(0, 60))
    with pytest.raises(InputError, match=r"from -1\.5 to 22\.5 E and does not cover longitude 24"):
        to_grid([ds], settings_of(regrid="like-forecast"), "x", like=east)
    for row in (ds.isel(latitude=[2]), ds.isel(longitude=[2])):
        with pytest.raises(InputError, match=r"a single point of .* has no neighbours"):
            to_grid([row], settings_of(regrid={"resolution": 3}), "x")
    turned = ds.rename(latitude="y", longitude="x")
    with pytest.raises(InputError, match=r"the data have the grid \(y, x\)"):
        to_grid([turned], settings_of(coarsen=2), "x")


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ({"regrid": "like-forcast"}, r"grid\.regrid: expected like-forecast, found 'like-forcast'"),
        ({"regrid": {"resolutoin": 1}}, "did you mean 'resolution'"),
        ({"regrid": {"resolution": 0.7}}, "0.7 does not divide 180 degrees"),
        ({"crop": {**EUROPE, "south": 70}}, "south 70 is not south of north 66"),
        ({"crop": {**EUROPE, "east": -18}}, "west and east are both -18"),
        ({"coarsen": 2, "regrid": {"resolution": 1}}, "both set the grid"),
        ({"method": "bilinear"}, "method goes with regrid"),
        ({}, "says nothing"),
    ],
)
def test_settings(given_: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=text):
        entry(tmp_path, files={"forecast": ["a.nc"]}, grid=given_)


class Counted:
    """Four fields; counts the reads of each."""

    dtype, ndim, shape = np.dtype("float32"), 3, (4, 37, 72)

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
        self.taken.append(index)
        return np.full(self.shape, 280.0, "float32")[index]


def test_tables_have_no_grid() -> None:
    known = load_entry("rain-innsbruck").model_dump()
    with pytest.raises(ConfigError, match="grid: does not go with driver: table"):
        validate(CatalogEntry, {**known, "grid": {"coarsen": 2}}, "x.yaml")


def test_pieces_stay_lazy_and_one_chunk_is_read_at_a_time() -> None:
    source = Counted()
    data = dask.array.from_array(  # type: ignore[no-untyped-call]
        source, (1, -1, -1), asarray=False, meta=np.empty((0, 0, 0), "float32")
    )
    ds = dataset(regular(5), np.zeros(Counted.shape))
    ds["t2m"] = ds["t2m"].copy(data=data)
    asked = settings_of(regrid={"resolution": 2}, crop=EUROPE)
    (out,) = to_grid([ds], asked, "x")
    assert not source.taken
    with dask.config.set(scheduler="synchronous"):
        field = out["t2m"].isel(valid_time=2).values
    np.testing.assert_allclose(field, 280.0)
    assert len(source.taken) == 1
    assert out["t2m"].dtype == np.float32


def test_values_are_checked_before_they_are_averaged() -> None:
    values = np.full((2, *grid_shape(inner(5))), 280.0)
    values[1, 3, 4] = 12.0  # a mean of four would pass
    (out,) = to_grid([dataset(inner(5), values)], settings_of(coarsen=2), "a.grib")
    with pytest.raises(InputError, match=r"a\.grib: t2m at 2020-01-02 00Z has 1 values of .*120"):
        out.compute()
    values[1, 3, 4] = np.nan
    (out,) = to_grid([dataset(inner(5), values)], settings_of(coarsen=2), "a.grib")
    with pytest.raises(InputError, match="has 1 missing values"):
        out.compute()
    (out,) = to_grid([dataset(inner(5), values)], settings_of(coarsen=2), "a.grib", sparse=True)
    np.testing.assert_allclose(out["t2m"], 280.0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    forecast, analysis, static = make_datasets(years=1, dates=3, members=3, shape=(16, 32))
    forecast.to_netcdf(root / "f.nc")
    analysis.to_netcdf(root / "a.nc")
    static.to_netcdf(root / "s.nc")
    return root


FILES = {"forecast": ["f.nc"], "analysis": ["a.nc"], "static": ["s.nc"]}


def test_cropped_ingest_is_the_crop_of_the_whole(source: Path, tmp_path: Path) -> None:
    whole = ingest(entry(source, files=FILES), tmp_path / "whole")
    part = ingest(entry(source, files=FILES, grid={"crop": EUROPE}), tmp_path / "part")
    for one, other in (
        (part.forecast, whole.forecast),
        (part.analysis, whole.analysis),
        (part.static, whole.static),
    ):
        assert one is not None
        assert other is not None
        assert set(one.data_vars) == set(other.data_vars)
        lon = one["longitude"].values
        assert lon.min() < 0 < lon.max()
        want = other.sel(latitude=one["latitude"], longitude=lon % 360)
        for name in one.data_vars:
            np.testing.assert_array_equal(one[name].values, want[name].values)


def test_truth_and_static_fields_come_to_the_grid_of_the_forecast(
    source: Path, tmp_path: Path
) -> None:
    with xr.open_dataset(source / "f.nc", decode_timedelta=True) as ds:
        coarse = ds.isel(latitude=slice(1, -1, 2), longitude=slice(None, None, 2)).load()
    coarse.to_netcdf(source / "f.nc")
    with pytest.raises(InputError, match="regrid one of them"):
        ingest(entry(source, files=FILES), tmp_path / "a")
    archive = ingest(entry(source, files=FILES, grid={"regrid": "like-forecast"}), tmp_path / "a")
    whole = xr.open_dataset(source / "a.nc", decode_timedelta=True)
    assert archive.analysis is not None
    for name in ("z", "t"):
        got = archive.analysis[name]
        want = whole[name].sel(latitude=got["latitude"], longitude=got["longitude"])
        np.testing.assert_allclose(got.values, want.transpose(*got.dims).values, rtol=1e-6)
        assert got.attrs["units"] == want.attrs["units"]
    for dim in ("latitude", "longitude"):
        np.testing.assert_array_equal(archive.static[dim], archive.forecast[dim])
    alone = read(entry(source, files=FILES, grid={"regrid": "like-forecast"}), "static")
    assert alone is not None
    xr.testing.assert_equal(alone, archive.static)
    with pytest.raises(ConfigError, match="like-forecast needs forecasts"):
        entry(source, files={"analysis": ["a.nc"]}, grid={"regrid": "like-forecast"})


def test_coarsened_members_of_a_grib_file(tmp_path: Path, data_dir: Path) -> None:
    crop = {"north": 90, "south": -87, "west": 0, "east": 357}
    files = {"forecast": ["era5-levels-members.grib"]}
    asked = entry(data_dir / "grib", "grib", files=files, grid={"crop": crop, "coarsen": 4})
    out = read(asked, "forecast")
    whole = read(entry(data_dir / "grib", "grib", files=files), "forecast")
    assert out is not None
    assert whole is not None
    assert dict(out.sizes) | {"latitude": 15, "longitude": 30} == dict(out.sizes)
    grid = Grid.of(whole["latitude"], whole["longitude"])
    edges = np.radians(np.clip(_borders(grid.rows), -90, 90))
    area = xr.DataArray(np.sin(edges[:-1]) - np.sin(edges[1:]), {"latitude": whole["latitude"]})
    block = whole["z"].isel(latitude=slice(8, 12), longitude=slice(116, 120)).astype("float64")
    want = block.weighted(area).mean(["latitude", "longitude"])
    np.testing.assert_allclose(out["z"].isel(latitude=2, longitude=29), want, rtol=1e-6)


def test_region_on_the_points_of_a_regular_grid(data_dir: Path) -> None:
    files = {"forecast": ["wgust_ens.grib"]}
    own = read(entry(data_dir / "grib", "grib", files=files), "forecast")
    asked = entry(data_dir / "grib", "grib", files=files, grid={"regrid": {"resolution": 2}})
    out = read(asked, "forecast")
    assert own is not None
    assert out is not None
    check(out, "x")
    # those whose cells lie in 75.5 to 34.5 N, 20.5 W to 30.5 E
    np.testing.assert_array_equal(out["latitude"], np.arange(74, 35, -2))
    np.testing.assert_array_equal(out["longitude"], np.arange(-18, 29, 2))
    same = own["fg10"].sel(latitude=out["latitude"], longitude=out["longitude"])
    np.testing.assert_array_equal(out["fg10"].values, same.values)
    assert out["fg10"].attrs == own["fg10"].attrs


def test_rain_of_a_reanalysis_on_the_grid_of_the_forecast(extra_data: Path, tmp_path: Path) -> None:
    known = load_entry("cfsv2-iberia")
    plain = validate(CatalogEntry, known.model_dump(exclude={"grid"}), "x.yaml")
    with pytest.raises(InputError, match="latitude has 6 points, the forecast's 10; regrid"):
        ingest(plain, tmp_path / "a")
    own, archive = read(plain, "analysis"), ingest(known, tmp_path / "a")
    assert own is not None
    assert archive.analysis is not None
    assert own["tp"].shape == (1805, 6, 8)
    got = archive.analysis["tp"]
    assert got.shape == (1805, 10, 16)
    assert not got.isnull().any()
    # the two cover almost the same box
    means = [float(x.astype("float64").mean()) for x in (own["tp"], got)]
    assert means[0] == pytest.approx(means[1], rel=0.03)
    assert float(got.max()) <= float(own["tp"].max())
    alone = read(known, "analysis")  # without the rest of the archive
    assert alone is not None
    np.testing.assert_array_equal(alone["tp"].values, got.values)
