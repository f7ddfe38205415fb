"""Maps of every kind of area, from real files: the right projection, no seam, no gap."""

from __future__ import annotations

import io
from pathlib import Path

import cartopy.crs as ccrs
import eccodes
import numpy as np
import pytest
import xarray as xr
from PIL import Image

from weatherpp.errors import ConfigError, InputError
from weatherpp.report import grids, maps, panels
from weatherpp.report.graticule import MOST, edge_labels


def first_field(path: Path) -> xr.DataArray:
    """First message of a GRIB file, read without this package."""
    with path.open("rb") as file:
        message = eccodes.codes_grib_new_from_file(file)
    eccodes.codes_set(message, "missingValue", 1e30)
    rows, columns = (int(eccodes.codes_get(message, key)) for key in ("Nj", "Ni"))
    north, south, west, east = (
        float(eccodes.codes_get(message, f"{name}GridPointInDegrees"))
        for name in ("latitudeOfFirst", "latitudeOfLast", "longitudeOfFirst", "longitudeOfLast")
    )
    values = np.asarray(eccodes.codes_get_values(message)).reshape(rows, columns)
    eccodes.codes_release(message)
    lons = np.linspace(west, east if east > west else east + 360, columns) % 360
    return xr.DataArray(
        np.where(values > 1e29, np.nan, values),
        dims=("latitude", "longitude"),
        coords={"latitude": np.linspace(north, south, rows), "longitude": lons},
        name="field",
        attrs={"units": "K"},
    ).sortby("longitude")


@pytest.fixture(scope="module")
def globe(data_dir: Path) -> xr.DataArray:
    return first_field(data_dir / "grib" / "era5-levels-members.grib")


def cut(field: xr.DataArray, south: float, north: float, west: float, width: float) -> xr.DataArray:
    away = (field["longitude"] - west) % 360
    return field.sel(latitude=slice(north, south)).isel(
        longitude=np.flatnonzero(away.values <= width)
    )


AREAS = {
    "globe": ((-90, 90, 0, 360), ccrs.Robinson, "globe"),
    "northern hemisphere": ((0, 90, 0, 360), ccrs.NorthPolarStereo, "circle"),
    "around the south pole": ((-90, -60, 0, 360), ccrs.SouthPolarStereo, "circle"),
    "sector to the pole": ((54, 90, 291, 57), ccrs.NorthPolarStereo, "box"),
    "Europe across Greenwich": ((36, 69, 345, 54), ccrs.LambertConformal, "box"),
    "southern ocean at the dateline": ((-63, -30, 150, 60), ccrs.LambertConformal, "box"),
    "tropical Pacific": ((-21, 21, 150, 90), ccrs.PlateCarree, "box"),
    "tropics across Greenwich": ((-21, 21, 315, 90), ccrs.PlateCarree, "box"),
    "band of middle latitudes": ((30, 60, 0, 360), ccrs.PlateCarree, "box"),
}


@pytest.mark.parametrize("name", AREAS)
def test_each_area_has_its_projection_and_no_hole(globe: xr.DataArray, name: str) -> None:
    box, projection, outline = AREAS[name]
    field = cut(globe, *box)
    area = grids.area_of(field)
    assert type(area.projection) is projection
    assert area.outline == outline
    lons, lats = grids._pixel_places(area, 160, 120)
    image = grids.on_pixels(field, area, 160, 120)
    south, north, west, width = box
    inside = (lats >= south) & (lats <= north) & ((lons - west) % 360 <= width)
    assert inside.mean() > 0.3
    assert np.isfinite(image[inside]).all()
    # every pixel has the value of the grid point next to it
    nearest = field.sel(latitude=xr.DataArray(lats[inside], dims="pixel"), method="nearest")
    away = np.abs(
        (field["longitude"].values[None, :] - lons[inside][:, None] + 180) % 360 - 180
    ).argmin(axis=1)
    expected = nearest.values[np.arange(away.size), away]
    assert (image[inside] == expected).mean() > 0.995  # but for ties


@pytest.mark.parametrize(
    "name",
    [
        "northern hemisphere",
        "Europe across Greenwich",
        "southern ocean at the dateline",
        "tropical Pacific",
        "tropics across Greenwich",
    ],
)
def test_drawn_map_is_whole_across_greenwich_and_dateline(globe: xr.DataArray, name: str) -> None:
    """In the finished image no row of pixels through the middle of the map has a gap."""
    field = xr.zeros_like(cut(globe, *AREAS[name][0])) + 1.0
    png = maps.field_maps([field], ["constant"]).png
    image = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    empty = image.min(axis=-1) >= 235  # page, or the ground of the map; rims of coasts are darker
    colour = np.median(image[image.shape[0] * 2 // 5, 200:-200], axis=0)
    filled = np.abs(image - colour).max(axis=-1) <= 12
    rows = np.flatnonzero(filled.mean(axis=1) > 0.2)
    middle = rows[len(rows) // 3 : len(rows) // 2]
    assert middle.size > 20
    for row in middle[::5]:
        across = np.flatnonzero(filled[row])
        assert not empty[row, across[0] : across[-1]].any()


def test_real_files_of_regions_are_drawn_in_lambert_projection(data_dir: Path) -> None:
    for name in ("ens_storm.grib", "wgust_ens.grib", "alternate-scanning.grib"):
        field = first_field(data_dir / "grib" / name)
        area = grids.area_of(field)
        assert isinstance(area.projection, ccrs.LambertConformal)
        image = grids.on_pixels(field, area, 200, 150)
        assert np.isfinite(image[75]).mean() > 0.5


def test_missing_values_of_a_real_file_stay_empty(data_dir: Path) -> None:
    field = first_field(data_dir / "grib" / "fields_with_missing_values.grib")
    share = float(np.isnan(field).mean())
    assert share > 0.01
    area = grids.area_of(field)
    image = grids.on_pixels(field, area, 360, 180)
    inside = np.isfinite(grids._pixel_places(area, 360, 180)[0])
    assert np.isnan(image[inside]).any()


def test_real_projected_grid_is_shown_whole(data_dir: Path) -> None:
    path = data_dir / "mogreps_uk_t" / "landmask.nc"
    with xr.open_dataset(path) as ds:
        mask = ds["land_binary_mask"].load()
        y, x = np.meshgrid(
            ds["projection_y_coordinate"], ds["projection_x_coordinate"], indexing="ij"
        )
        mapping = ds[mask.attrs["grid_mapping"]].attrs
    own = ccrs.LambertAzimuthalEqualArea(
        mapping["longitude_of_projection_origin"], mapping["latitude_of_projection_origin"]
    )
    places = ccrs.PlateCarree().transform_points(own, x, y)
    field = xr.DataArray(
        mask.values.astype(float),
        dims=("y", "x"),
        coords={
            "latitude": (("y", "x"), places[..., 1]),
            "longitude": (("y", "x"), places[..., 0] % 360),
        },
        attrs={"units": "1", "long_name": "land"},
    )
    area = grids.area_of(field)
    assert area.east - area.west == pytest.approx(x.max() - x.min(), rel=0.1)
    assert maps.field_maps([field], ["land"]).png


@pytest.mark.parametrize(
    "lats", [np.array([50.0]), np.array([50.0, 49.75])], ids=["one row", "two rows"]
)
def test_few_cells_make_a_map(lats: np.ndarray) -> None:
    lons = np.array([10.0, 10.25, 10.5])
    field = xr.DataArray(
        np.arange(lats.size * 3.0).reshape(lats.size, 3),
        dims=("latitude", "longitude"),
        coords={"latitude": lats, "longitude": lons},
        attrs={"units": "K", "long_name": "few"},
    )
    assert maps.field_maps([field], ["few"]).png


def test_box_of_degrees_must_be_one() -> None:
    area = grids.area_within(60, 30, -20, 40)
    assert isinstance(area.projection, ccrs.LambertConformal)
    assert grids.area_within(20, -20, 170, -170).aspect == pytest.approx(0.5)
    with pytest.raises(InputError, match="enclose no area"):
        grids.area_within(30, 60, -20, 40)


@pytest.fixture(scope="module")
def sheet(globe: xr.DataArray) -> panels.Sheet:
    ocean = cut(globe, *AREAS["tropical Pacific"][0]).assign_attrs(long_name="temperature")
    return maps.field_sheet([ocean], ["a"], contours=True)


@pytest.mark.parametrize("suffix", ["png", "svg", "PDF"])
def test_files_are_the_same_again(sheet: panels.Sheet, tmp_path: Path, suffix: str) -> None:
    one, two = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
    maps.write_map(one, sheet)
    maps.write_map(two, sheet)
    assert one.read_bytes() == two.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "PDF": b"%PDF"}[suffix]
    assert one.read_bytes().startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == [one.name, two.name]


def test_svg_keeps_lines_and_text_and_one_image(sheet: panels.Sheet, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    maps.write_map(path, sheet)
    text = path.read_text(encoding="utf-8")
    assert text.count("<image ") == 1  # the field; all else are lines
    assert text.count("<path ") > 20
    assert "<!-- Temperature" in text
    assert "dc:date" not in text


@pytest.mark.parametrize("lat", [0.0, 55.0, 78.0, 88.0, -80.0])
def test_degrees_along_an_edge_do_not_overlap(lat: float) -> None:
    area = grids.area_around(np.array([90.0, 95.0]), np.array([lat, lat + 1]), 0.1, 1500.0)
    _, lower = edge_labels(area)
    assert 1 <= len(lower) <= MOST
    apart = np.diff([label.x for label in lower], append=area.east)
    assert (apart[:-1] >= (area.east - area.west) / MOST).all()
    assert apart[-1] > 0


def test_another_suffix_is_refused_and_nothing_written(sheet: panels.Sheet, tmp_path: Path) -> None:
    for name in ("map.bmp", "map"):
        with pytest.raises(ConfigError, match=rf"{name}: maps are written as \.png, \.svg or"):
            maps.write_map(tmp_path / name, sheet)
    assert not list(tmp_path.iterdir())
