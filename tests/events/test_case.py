"""Cases and boxes: what a file may hold, and which grid points it means."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weatherpp.boxes import Box
from weatherpp.errors import ConfigError, InputError
from weatherpp.events.area import around, cut, distance, inside, nearest, widened
from weatherpp.events.case import Case, Point
from weatherpp.events.load import case_text, find_cases, load_cases, write_cases
from weatherpp.recipe import load_recipe
from weatherpp.strict import validate

MINIMAL = {
    "name": "one",
    "start": "2016-02-19 00:00:00",
    "end": "2016-02-22 00:00:00",
    "box": {"north": -10, "south": -25, "west": 170, "east": -170},
}
CASES = Path(__file__).parents[2] / "pipelines" / "cases"


def case(**changes: object) -> Case:
    return validate(Case, {**MINIMAL, **changes}, "here")


def grid(longitudes: np.ndarray, latitudes: np.ndarray | None = None) -> xr.DataArray:
    lat = np.arange(90.0, -91.0, -10.0) if latitudes is None else latitudes
    return xr.DataArray(
        np.arange(lat.size * longitudes.size, dtype=float).reshape(lat.size, -1),
        dims=("latitude", "longitude"),
        coords={"latitude": lat, "longitude": longitudes},
    )


@pytest.mark.parametrize("start", [0.0, -180.0, -170.0])
@pytest.mark.parametrize(
    ("west", "east", "wanted"),
    [(170, -170, [170, 180, 190]), (-20, 10, [340, 350, 0, 10]), (350, 370 - 360, [350, 0, 10])],
)
def test_box_across_dateline_and_greenwich(
    start: float, west: float, east: float, wanted: list[float]
) -> None:
    field = grid(start + np.arange(36) * 10.0)
    part = cut(field, Box(north=20, south=-20, west=west, east=east))
    assert part["longitude"].values % 360 == pytest.approx(wanted)
    assert part["latitude"].values == pytest.approx([20, 10, 0, -10, -20])
    # the values came along with their places
    first = part.isel(latitude=0, longitude=0)
    assert float(field.sel(latitude=20, longitude=first["longitude"])) == float(first)
    assert int(inside(field, Box(north=20, south=-20, west=west, east=east)).sum()) == part.size


def test_whole_ring_and_projected_grid() -> None:
    ring = grid(np.arange(36) * 10.0)
    assert cut(ring, Box(north=90, south=80, west=0, east=360)).shape == (2, 36)
    lat, lon = np.meshgrid([50.0, 51.0, 52.0], [359.0, 0.0, 1.0, 2.0], indexing="ij")
    places = {"latitude": (("y", "x"), lat), "longitude": (("y", "x"), lon)}
    field = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("y", "x"), coords=places)
    box = Box(north=51.5, south=50.5, west=-1, east=1)
    assert cut(field, box).values.tolist() == [[4.0, 5.0, 6.0]]


def test_box_beyond_the_grid_is_told() -> None:
    with pytest.raises(InputError, match=r"no grid point lies in the box 41° N to 45° N"):
        inside(grid(np.arange(36) * 10.0), Box(north=45, south=41, west=0, east=30))
    with pytest.raises(InputError, match="no grid point near"):
        nearest(grid(np.array([0.0, 1.0]), np.array([2.0, 1.0])), Point(latitude=50, longitude=0))


@given(
    north=st.floats(-80, 90), height=st.floats(1, 10),
    west=st.floats(-180, 360), width=st.floats(0.5, 359),
    latitude=st.floats(-90, 90), longitude=st.floats(-180, 360),
)  # fmt: skip
def test_points_in_a_box_are_those_between_its_edges(
    north: float, height: float, west: float, width: float, latitude: float, longitude: float
) -> None:
    east = west + width if west + width <= 360 else west + width - 360
    box = Box(north=north, south=max(-90.0, north - height), west=west, east=east)
    assert box.width == pytest.approx(width)
    step = (longitude - west) % 360
    if min(abs(step - width), abs(step), abs(step - 360)) < 1e-3:
        return  # on an edge, where rounding decides
    wanted = box.south <= latitude <= box.north and step < width
    assert box.holds(latitude, longitude) == wanted
    wide = widened(box, 5)
    assert not wanted or wide.holds(latitude, longitude)


def test_distance_and_a_box_around_a_place() -> None:
    assert distance(0, 0, 0, 90) == pytest.approx(6371 * np.pi / 2)
    assert distance(10, 359, 10, 1) == pytest.approx(distance(10, 0, 10, 2))
    assert distance(90, 0, -90, 77) == pytest.approx(6371 * np.pi)
    box = around(60, 179, 20)
    assert (box.north, box.south, box.width) == (70, 50, 40)
    assert box.holds(60, -179)
    assert around(89, 0, 40).north == 90


def test_times_are_utc() -> None:
    there = case(start="2016-02-19T12:00:00+13:00", peak="2016-02-20T06:00:00Z")
    assert str(there.start) == "2016-02-18 23:00:00"
    assert str(there.peak) == "2016-02-20 06:00:00"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"boxes": {}}, "unknown key 'boxes'; did you mean 'box'"),
        ({"box": {**MINIMAL["box"], "nord": 1}}, "unknown key 'box.nord'; did you mean 'north'"),  # type: ignore[dict-item]
        ({"start": "2016-02-19"}, "start: not a date with its hour"),
        ({"start": 1455840000}, "start: not a date with its hour"),
        ({"start": True}, "start: not a date with its hour"),
        ({"end": "2016-02-01 00:00:00"}, "comes before start"),
        ({"peak": "2017-02-01 00:00:00"}, "is not between start and end"),
        ({"box": {"north": -25, "south": -10, "west": 0, "east": 1}}, "is not south of north"),
        ({"box": {"north": 1, "south": 0, "west": 149, "east": 149}}, "the box has no width"),
        ({"box": {"north": float("nan"), "south": 0, "west": 0, "east": 1}}, "box.north"),
        ({"box": {"north": 1, "south": 0, "west": -200, "east": 1}}, "box.west"),
        ({"point": {"latitude": 0, "longitude": 0}}, "is not in the box"),
        ({"thresholds": [{"variable": "z", "level": 500}]}, "takes one of above, below"),
        (
            {"variables": [{"variable": "t2m"}], "thresholds": [{"variable": "msl", "above": 1e5}]},
            "msl is none of the case's variables",
        ),
        ({"name": "../evil"}, "name"),
        ({"track": {"variable": "z", "level": 500, "radius": 0}}, "track.radius"),
    ],
)
def test_faults_are_one_line_with_the_remedy(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        case(**changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_written_cases_are_read_back(tmp_path: Path) -> None:
    shipped = [found for file in CASES.glob("*.yaml") for found in load_cases(file).cases]
    assert len(shipped) >= 3
    write_cases(shipped, tmp_path / "all.yaml")
    assert list(load_cases(tmp_path / "all.yaml").cases) == shipped
    assert "!!" not in case_text(shipped)
    with pytest.raises(ConfigError, match="no such folder"):
        write_cases(shipped, tmp_path / "none" / "all.yaml")


def test_shipped_cases_name_their_file_and_recipe() -> None:
    for file in CASES.glob("*.yaml"):
        (found,) = load_cases(file).cases
        assert found.name == file.stem
        assert found.source
        assert found.story
        recipe = load_recipe(CASES.parent / f"{found.recipe}.yaml")
        targets = {f"{t.variable}{t.level or ''}" for t in recipe.targets}
        assert {each.name for each in found.variables} <= targets
        assert find_cases(found.name).resolve() == file.resolve()


BENCH = """
- {case_id_number: 1, title: Heat in the West, start_date: 2021-06-26 00:00:00,
   end_date: 2021-07-02 00:00:00, event_type: heat_wave, location: {type: bounded_region,
   parameters: {latitude_min: 42, latitude_max: 55, longitude_min: 232.5, longitude_max: 248}}}
"""


def test_events_of_extremeweatherbench(data_dir: Path, tmp_path: Path) -> None:
    loaded = load_cases(data_dir / "events" / "extreme_weather_bench.yaml")
    by_name = {found.name: found for found in loaded.cases}
    assert list(by_name) == ["ewb-1-heat-in-the-west", "ewb-2-cyclone-at-the-dateline"]
    heat = by_name["ewb-1-heat-in-the-west"]
    assert (heat.box.west, heat.box.east, heat.box.width) == (232.5, 248.0, 15.5)
    assert [each.name for each in heat.variables] == ["t2m"]
    assert heat.track is None
    assert str(heat.end) == "2021-07-02 00:00:00"
    cyclone = by_name["ewb-2-cyclone-at-the-dateline"]
    # the lengths of whole sides: 10 degrees of latitude, 20 of longitude
    assert (cyclone.box.north, cyclone.box.south) == (-13, -23)
    assert (cyclone.box.west, cyclone.box.east, cyclone.box.width) == (169, 189, 20)
    assert cyclone.track is not None
    assert cyclone.track.variable == "msl"
    assert len(loaded.left_out) == 4
    said = "\n".join(loaded.left_out)
    for number, reason in ((3, "shapefile"), (4, "no width"), (5, "unknown type"), (6, "read")):
        assert f"case {number} '" in said
        assert reason in loaded.left_out[number - 3]
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump({"cases": yaml.safe_load(BENCH)}), encoding="utf-8")
    assert load_cases(old).cases[0].name == "ewb-1-heat-in-the-west"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("!!python/object/apply:os.system ['touch hacked']", "not valid YAML"),
        ("name: a\nname: b", "the key 'name' stands twice"),
        ("[]", "holds no case"),
        ("- 3", "expected 'key: value' lines"),
        ("- [1]", "expected 'key: value' lines"),
        ("just text", "expected 'key: value' lines"),
        ("&a [*a]", "expected 'key: value' lines"),
        (BENCH.replace("end_date: 2021-07-02 00:00:00, ", ""), "end_date"),
        (BENCH.replace("00:00:00", ""), "not a date with its hour"),
        (BENCH + BENCH.strip("\n"), "two cases have the name"),
    ],
)
def test_hostile_files_are_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_cases(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert not (tmp_path / "hacked").exists()


def test_unknown_cases_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no case .nobody.; give a file or one of .*winston"):
        find_cases("nobody")
    with pytest.raises(ConfigError, match="no such file of cases"):
        find_cases(str(tmp_path / "none.yaml"))


PLAIN = "name: a\nstart: {start}\nend: {end}\nbox: {{north: 10, south: 0, west: 0, east: 10}}\n"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        # a fault with a traceback before: the zone leads beyond the years that there are
        ("2016-02-19 00:00:00", "'9999-12-31T23:00:00-05:00'"),
        ("'0001-01-01T00:00:00+05:00'", "2016-02-19 00:00:00"),
        ("0001-01-01 00:00:00", "2016-02-19 00:00:00"),
    ],
)
def test_dates_beyond_the_calendar_are_refused(tmp_path: Path, start: str, end: str) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(PLAIN.format(start=start, end=end), encoding="utf-8")
    with pytest.raises(ConfigError, match="must lie between the years 1678 and 2261"):
        load_cases(path)


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        ("{variable: t2m, above: 30}", "t2m never is 30 K; thresholds are in K"),
        ("{variable: msl, below: 980}", "msl never is 980 Pa"),
        ("{variable: z, level: 500, below: 5680}", "z500 never is 5680 m2 s-2"),
    ],
)
def test_thresholds_in_other_units_are_refused(tmp_path: Path, threshold: str, said: str) -> None:
    path = tmp_path / "case.yaml"
    text = PLAIN.format(start="2016-02-19 00:00:00", end="2016-02-20 00:00:00")
    path.write_text(f"{text}thresholds: [{threshold}]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_cases(path)
    right = threshold.replace("30}", "303}").replace("980}", "98000}").replace("5680}", "55680}")
    path.write_text(f"{text}thresholds: [{right}]\n", encoding="utf-8")
    assert load_cases(path).cases[0].thresholds


@pytest.mark.parametrize(
    ("change", "said"),
    [
        # the whole globe, or nearly, before
        ({"latitude": float("nan")}, "latitude is no number"),
        ({"bounding_box_degrees": float("nan")}, "bounding_box_degrees is no number"),
        ({"bounding_box_degrees": [5, -5]}, "bounding_box_degrees is 5 by -5"),
        # words of the language before
        ({"bounding_box_degrees": [5]}, "bounding_box_degrees has 1 numbers, not two"),
        ({"bounding_box_degrees": "wide"}, "bounding_box_degrees is no number"),
        ({"longitude": None}, "longitude is missing"),
        ({"latitude": 200}, "latitude is 200"),
    ],
)
def test_regions_of_extremeweatherbench_that_are_none(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    (event,) = yaml.safe_load(BENCH)
    parameters = {"latitude": 45, "longitude": 10, "bounding_box_degrees": 5} | change
    event["location"] = {"type": "centered_region", "parameters": parameters}
    path = tmp_path / "bench.yaml"
    path.write_text(yaml.safe_dump([event]), encoding="utf-8")
    loaded = load_cases(path)
    assert loaded.cases == ()
    assert loaded.left_out[0].endswith(f"its region cannot be read ({said})")


def test_cases_are_written_over_no_folder_and_no_device(tmp_path: Path) -> None:
    shipped = load_cases(CASES / "winston-2016.yaml").cases
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):  # a rename would take the place of a device
        with pytest.raises(ConfigError, match="is there and is no file; name a file to write"):
            write_cases(shipped, path)
    assert (tmp_path / "pipe").is_fifo()
