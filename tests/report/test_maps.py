from __future__ import annotations

import io
import socket
import time

import cartopy.crs as ccrs
import numpy as np
import pytest
import report_sample as sample
import xarray as xr
from PIL import Image

from weatherpp.errors import InputError
from weatherpp.report import grids, maps, panels, shapes

COAST = np.array([0x20, 0x26, 0x2C])


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def near(image: np.ndarray, colour: np.ndarray, distance: int = 40) -> np.ndarray:
    return np.abs(image - colour).max(axis=-1) <= distance


def latlon(
    lats: np.ndarray, lons: np.ndarray, values: np.ndarray | float, units: str = "K"
) -> xr.DataArray:
    data = np.broadcast_to(values, (lats.size, lons.size)).astype(float)
    return xr.DataArray(
        data,
        dims=("latitude", "longitude"),
        coords={"latitude": lats, "longitude": lons},
        name="t2m",
        attrs={"units": units, "long_name": "2 metre temperature"},
    )


def globe(values: np.ndarray | float = 280.0, step: float = 2.0) -> xr.DataArray:
    return latlon(np.arange(90, -90.1, -step), np.arange(0, 360, step), values)


def projected(lon0: float = 10.0, lat0: float = 55.0) -> xr.DataArray:
    """Field on a Lambert grid, longitudes in [0, 360)."""
    x, y = np.meshgrid(np.linspace(-9e5, 9e5, 60), np.linspace(-8e5, 8e5, 50))
    places = ccrs.PlateCarree().transform_points(ccrs.LambertConformal(lon0, lat0), x, y)
    return xr.DataArray(
        280 + x / 1e5,
        dims=("y", "x"),
        coords={
            "latitude": (("y", "x"), places[..., 1]),
            "longitude": (("y", "x"), places[..., 0] % 360),
        },
        name="t2m",
        attrs={"units": "K", "long_name": "2 metre temperature"},
    )


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a map asked for the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_global_map_is_quick_labelled_and_has_coastlines(no_network: None) -> None:
    fields = [sample.height(seed) for seed in range(4)]
    shapes.geometries.cache_clear()
    shapes.outlines.cache_clear()
    start = time.process_time()
    figure = maps.field_maps(fields, ["a", "b", "c", "d"])
    assert time.process_time() - start < 6  # about 2 s; the rest is for slow machines
    image = pixels(figure.png)
    assert image.shape[1] > 1000
    assert near(image, COAST).sum() > 3000
    assert "Geopotential at 500 hPa" in figure.alt
    assert "Valid Tuesday 3 March 2020, 12:00 UTC" in figure.caption
    assert "48 h forecast started Sunday 1 March 2020" in figure.caption
    assert "m²\u00a0s⁻²" in figure.caption


def test_same_field_gives_same_bytes() -> None:
    one, two = (maps.field_maps([globe()], ["a"]).png for _ in range(2))
    assert one == two


@pytest.mark.parametrize("lons", [np.arange(0, 360, 2.0), np.arange(-180, 180, 2.0)])
def test_global_field_has_no_gap_at_greenwich_or_dateline(lons: np.ndarray) -> None:
    field = latlon(np.arange(90, -90.1, -2.0), lons, 280.0)
    area = grids.area_of(field)
    assert area.whole_globe
    image = grids.on_pixels(field, area, 900, 450)
    inside = np.isfinite(grids._pixel_places(area, 900, 450)[0])
    assert (image[inside] == 280).all()


def test_constant_global_map_is_one_colour_inside_its_outline() -> None:
    image = pixels(maps.field_maps([globe()], ["constant"]).png)
    fill = image[image.shape[0] // 2 - 8, image.shape[1] // 2 - 30]
    rows = slice(image.shape[0] // 4, image.shape[0] // 2)
    columns = slice(image.shape[1] // 4, image.shape[1] * 3 // 4)
    # all else there are lines: darker than the fill or the pale rim of a coast, never background
    white = near(image[rows, columns], np.array([255, 255, 255]), 8)
    assert not white.any()
    assert near(image[rows, columns], fill, 12).mean() > 0.7


def test_cells_lie_where_their_longitudes_say() -> None:
    lons = np.arange(0, 360, 1.0)
    field = latlon(np.arange(90, -90.1, -1.0), lons, lons[None, :])
    area = grids.area_of(field)
    image = grids.on_pixels(field, area, 1000, 500)
    lon = grids._pixel_places(area, 1000, 500)[0]
    away = np.abs((image - lon + 180) % 360 - 180)
    assert np.nanmax(away) <= 0.5 + 1e-6
    assert np.nanmax(image) == 359
    assert np.nanmin(image) == 0


def test_smooth_sampling_crosses_greenwich() -> None:
    lons = np.arange(0, 360, 10.0)
    field = latlon(np.arange(90, -90.1, -10.0), lons, np.cos(np.deg2rad(lons))[None, :])
    area = grids.area_of(field)
    image = grids.on_pixels(field, area, 600, 300, smooth=True)
    lon = grids._pixel_places(area, 600, 300)[0]
    assert np.nanmax(np.abs(image - np.cos(np.deg2rad(lon)))) < 0.005


def test_region_across_greenwich_is_one_piece() -> None:
    lons = np.concatenate([np.arange(0, 21, 1.0), np.arange(350, 360, 1.0)])
    field = latlon(np.arange(70, 39, -1.0), lons, 280.0)
    grid = grids.latlon_grid(field)
    assert grid.west == 350
    assert not grid.cyclic
    np.testing.assert_array_equal(grid.offsets, np.arange(31))
    area = grids.area_of(field)
    assert area.scale == "50m"
    image = grids.on_pixels(field, area, 300, 300)
    assert np.isfinite(image[100:200, 100:200]).all()
    assert np.isnan(image).any()  # beyond the box nothing is drawn


def test_region_across_the_dateline_is_one_piece() -> None:
    lons = np.arange(160, 221, 1.0)
    field = latlon(np.arange(20, -21, -1.0), lons, lons[None, :])
    area = grids.area_of(field)
    image = grids.on_pixels(field, area, 610, 410)
    assert np.isfinite(image).all()
    np.testing.assert_array_equal(image[200, 5::10], lons)
    west, east, _, _ = grids.bounds(area)
    assert east - west < 70
    assert (west + east) / 2 == pytest.approx(-170)


def test_gaussian_grid_without_poles_covers_them() -> None:
    field = latlon(np.linspace(88.5, -88.5, 60), np.arange(0, 360, 3.0), 1.0)
    area = grids.area_of(field)
    image = grids.on_pixels(field, area, 200, 100)
    inside = np.isfinite(grids._pixel_places(area, 200, 100)[0])
    assert np.isfinite(image[inside]).all()


def test_missing_values_stay_empty() -> None:
    field = globe()
    field[:, 30:60] = np.nan
    image = grids.on_pixels(field, grids.area_of(field), 300, 150)
    assert np.isnan(image[75]).any()
    assert maps.field_maps([field], ["with a hole"]).png


@pytest.mark.parametrize("lon0", [10.0, 0.0, 180.0])
def test_area_of_a_projected_grid_is_that_of_its_cells(lon0: float) -> None:
    area = grids.area_of(projected(lon0))
    assert area.scale == "50m"
    assert area.east - area.west == pytest.approx(1.9e6, rel=0.1)
    assert area.north - area.south == pytest.approx(1.7e6, rel=0.1)


def test_projected_grid_is_drawn_in_its_area(no_network: None) -> None:
    image = pixels(maps.field_maps([projected()], ["projected"]).png)
    colours = np.unique(image.reshape(-1, 3), axis=0)
    assert len(colours) > 20
    left, right = image[image.shape[0] // 2, [150, -150]]
    assert np.abs(left - right).max() > 60  # the gradient from west to east is there


def test_polar_projected_grid_contains_the_pole() -> None:
    x, y = np.meshgrid(np.linspace(-2e6, 2e6, 40), np.linspace(-2e6, 2e6, 40))
    places = ccrs.PlateCarree().transform_points(ccrs.NorthPolarStereo(), x, y)
    coords = {"latitude": (("y", "x"), places[..., 1]), "longitude": (("y", "x"), places[..., 0])}
    field = xr.DataArray(x, dims=("y", "x"), coords=coords, attrs={"units": "1"})
    area = grids.area_of(field)
    west, east, _, north = grids.bounds(area)
    assert (east - west, north) == pytest.approx((360, 90), abs=1e-3)
    assert near(pixels(maps.field_maps([field], ["pole"]).png), COAST).sum() > 1000


def test_stations_are_drawn_as_dots() -> None:
    rng = np.random.default_rng(2)
    coords = {
        "latitude": ("station", rng.uniform(46, 55, 30)),
        "longitude": ("station", rng.uniform(6, 15, 30)),
    }
    field = xr.DataArray(rng.normal(size=30), dims="station", coords=coords, attrs={"units": "K"})
    field[3] = np.nan
    assert maps.field_maps([field], ["stations"], kind="diverging").png


def test_panels_share_one_scale() -> None:
    low, high = globe(270.0), globe(290.0)
    levels = panels.levels_of([low, high], "sequential")
    assert levels[0] <= 270
    assert levels[-1] >= 290
    shared = maps.field_maps([low, high], ["low", "high"])
    image = pixels(shared.png)
    middle = image.shape[0] // 2 - 20
    left, right = image[middle, image.shape[1] // 4], image[middle, image.shape[1] * 3 // 4]
    assert np.abs(left - right).max() > 80
    apart = pixels(maps.field_maps([low, high], ["low", "high"], shared_scale=False).png)
    left, right = apart[middle, image.shape[1] // 4], apart[middle, image.shape[1] * 3 // 4]
    assert np.abs(left - right).max() < 12


def test_diverging_scale_is_centred_at_zero() -> None:
    field = globe(np.linspace(-1, 5, 91)[:, None])
    levels = panels.levels_of([field], "diverging")
    np.testing.assert_allclose(levels, -levels[::-1])


def test_probability_scale_is_fixed() -> None:
    field = globe(0.3, step=5.0).assign_attrs(units="1")
    assert panels.levels_of([field], "probability")[[0, -1]].tolist() == [0, 100]
    figure = maps.probability_maps([field], ["raw"], event="frost", observed=field > 0.2)
    assert "Probability of frost (%)" in figure.caption
    assert "dark line" in figure.caption


def test_case_maps_tell_numbers_weighted_by_area() -> None:
    truth = globe(280.0, step=10.0)
    raw, post = truth + 2, truth + 1
    spread = truth * 0 + 1.5
    figure = maps.case_maps(truth, raw, post, spread, spread)
    assert "error of the mean 2.00 K before and 1.00 K after" in figure.caption
    assert "spread 1.50 and 1.50 K" in figure.caption
    assert not figure.chart


def test_case_maps_refuse_other_grids() -> None:
    truth = globe(280.0, step=10.0)
    other = truth.assign_coords(longitude=truth["longitude"] + 5)
    with pytest.raises(InputError, match="different grids"):
        maps.case_maps(truth, other, truth, truth, truth)


def test_missing_shapes_are_an_error_and_no_download(
    no_network: None, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(shapes, "FOLDER", tmp_path)
    shapes.geometries.cache_clear()
    with pytest.raises(InputError, match=r"ne_110m_coastline\.shp: map shapes missing"):
        shapes.geometries("coastline", "110m")
    monkeypatch.undo()
    shapes.geometries.cache_clear()


def test_all_shipped_shapes_can_be_read() -> None:
    for kind in shapes.KINDS:
        for scale in ("110m", "50m"):
            assert len(shapes.geometries(kind, scale)) > 10


@pytest.mark.parametrize(
    "field",
    [
        xr.DataArray(np.zeros((3, 4)), dims=("y", "x")),
        globe(1.0, 30.0).expand_dims(number=3),
    ],
)
def test_what_is_no_map_is_refused(field: xr.DataArray) -> None:
    with pytest.raises(InputError):
        maps.field_maps([field], ["a"])


def test_titles_must_match_fields() -> None:
    with pytest.raises(InputError, match="a title for each"):
        maps.field_maps([globe()], ["a", "b"])


def test_names_with_dollars_and_great_length_are_drawn_as_they_are() -> None:
    field = globe(step=10.0).assign_attrs(units="$x^$", long_name="a$\\frac$ " + "long " * 200)
    assert maps.field_maps([field], ["$\\bad{$"]).png


def test_level_and_window_stand_in_the_title() -> None:
    height = globe(step=10.0).assign_attrs(long_name="geopotential", units="m2 s-2", level=500)
    assert maps.field_sheet([height], ["a"]).title == "Geopotential at 500 hPa"
    gust = globe(step=10.0).assign_attrs(long_name="10 metre wind gust", window="6 h")
    assert maps.field_sheet([gust], ["a"]).title == "10 metre wind gust in the 6 hours before"
    rain = globe(step=10.0).assign_attrs(
        long_name="total precipitation", accumulation="since_start"
    )
    assert maps.field_sheet([rain], ["a"]).title.endswith("since the start of the forecast")
    told = rain.assign_attrs(long_name="total precipitation of the 24 hours before", window="24 h")
    assert maps.field_sheet([told], ["a"]).title == "Total precipitation of the 24 hours before"


def test_spread_is_called_so() -> None:
    field = globe(step=10.0)
    sheet = maps.field_sheet([field], ["a"], kind="spread")
    assert sheet.groups[0].label == "Spread of 2 metre temperature (K)"
    named = field.assign_attrs(long_name="spread of 2 metre temperature")
    assert maps.field_sheet([named], ["a"], kind="spread").title == sheet.title
    case = maps.case_sheet(*[field] * 5)
    assert [group.label for group in case.groups] == [
        "2 metre temperature (K)",
        "Error of 2 metre temperature (K)",
        "Spread of 2 metre temperature (K)",
    ]


@pytest.mark.parametrize("source", ["weatherpp.twin", "weatherpp.speedy, with the model of jcm"])
def test_maps_of_an_embedded_atmosphere_say_so(source: str) -> None:
    field = globe(step=10.0).assign_attrs(source=source)
    chance = field.copy(data=np.full(field.shape, 0.5))
    for sheet in (
        maps.field_sheet([field], ["a"]),
        maps.case_sheet(*[field] * 5),
        maps.difference_sheet([field], [field], ["a"]),
        maps.probability_sheet([chance], ["a"], event="frost"),
    ):
        assert "[embedded atmosphere, synthetic]" in sheet.title
        assert "synthetic" in sheet.caption
    real = field.assign_attrs(source="ECMWF")
    assert "synthetic" not in maps.field_sheet([real], ["a"]).title


def test_panels_of_different_times_tell_each() -> None:
    start = np.datetime64("2020-03-01")
    leads = [np.timedelta64(hours, "h") for hours in (24, 72)]
    fields = [globe(step=10.0).assign_coords(time=start, step=lead) for lead in leads]
    sheet = maps.field_sheet(fields, ["a", "b"])
    assert sheet.title == "2 metre temperature"
    assert sheet.groups[0].titles == [
        "a\nMon 2 Mar 2020, 00:00 UTC, 24 h",
        "b\nWed 4 Mar 2020, 00:00 UTC, 72 h",
    ]


def test_difference_is_post_minus_raw_and_hatched_where_uncertain() -> None:
    raw, post = globe(280.0, step=10.0), globe(279.0, step=10.0)
    mask = raw["latitude"] + 0 * raw > 0
    sheet = maps.difference_sheet([raw], [post], ["mixed"], uncertain=[mask])
    (group,) = sheet.groups
    assert float(group.fields[0].max()) == -1.0
    assert group.label == "Change of 2 metre temperature (K)"
    assert "Hatched" in sheet.caption
    plain = pixels(maps.difference_maps([raw], [post], ["mixed"]).png)
    hatched = pixels(maps.figure_of(sheet).png)
    other = np.abs(plain - hatched).max(axis=-1) > 30
    rows = np.flatnonzero(near(plain, plain[plain.shape[0] // 2 - 8, 300], 12).mean(axis=1) > 0.3)
    top, middle, bottom = rows[0], (rows[0] + rows[-1]) // 2, rows[-1]
    assert other[top + 5 : middle - 5].mean() > 0.05
    assert other[middle + 5 : bottom].mean() < 0.002
    with pytest.raises(InputError, match="masks to hatch"):
        maps.difference_sheet([raw], [post], ["mixed"], uncertain=[mask, mask])


def test_a_field_without_a_place_on_the_earth_is_refused() -> None:
    field = xr.DataArray(
        np.zeros((3, 4)),
        {"latitude": [10.0, 0.0, -10.0], "longitude": [0.0, 1.0, 2.0, 3.0]},
        ["latitude", "longitude"],
        attrs={"units": "K"},
    )
    beyond = field.assign_coords(latitude=[110.0, 100.0, 90.0])  # was drawn over the pole
    for other in (field[:0], beyond, field.assign_coords(latitude=[np.nan] * 3)):
        with pytest.raises(InputError, match="points, with latitudes from -90 to 90"):
            maps.field_maps([other], ["none"])
