"""Recipe, cycles, registry, ledger and GRIB by themselves."""

from __future__ import annotations

import shutil
import threading
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import eccodes
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from night_cases import RECIPE, Cycles, cycle_at, settings_of

from weatherpp.data.shipped import shipped_folder
from weatherpp.errors import ConfigError, InputError, PartialError, WeatherppError
from weatherpp.operations import registry
from weatherpp.operations.cycles import cycle_name, cycles_between, latest_cycle, parse_cycle
from weatherpp.operations.grib import write_grib
from weatherpp.operations.night import together
from weatherpp.operations.settings import Nightly, load_nightly
from weatherpp.operations.source import Drop
from weatherpp.recipe import Target
from weatherpp.strict import validate


def test_shipped_recipe_is_valid() -> None:
    recipe = load_nightly(shipped_folder("pipelines") / "nightly.yaml")
    assert recipe.name == "nightly"
    assert [target.name for target in recipe.targets] == ["z500-48h", "t650-48h"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("sourc", {}, "did you mean 'source'"),
        ("source.forecast", ["*.nc"], "'*.nc' must tell its time as {cycle:%Y%m%dT%H}"),
        ("source.forecast", ["../{cycle:%Y}.nc"], "must be relative to the root"),
        ("source.analysis", ["{cycle:%Y}.nc"], "must tell its time as {valid:%Y%m%dT%H}"),
        ("source.forecast", ["{cycle:%Y%m%dT%H}_{stp}.nc"], "has braces that are neither"),
        ("source.poll", "0h", "poll: must be longer"),
        ("members.expected", [-1, 3], "members.expected.0: must be 0 or more"),
        ("members.expected", [0, 10**9], "members.expected.1: must be below 10000"),
        ("members.minimum", 6, "minimum: is more than the expected members"),
        ("members.expected", [4, 0], "name the first and the last member"),
        ("cycles", [24], "cycles"),
        ("targets", [RECIPE["targets"][0], RECIPE["targets"][0]], "two targets have the same name"),
        ("retention", {"products": "31d"}, "before they are scored"),
        ("products.members", {"coupling": "schaake", "count": 3}, "schaake needs an archive"),
        ("drift", {"crps": 1.0}, "drift.crps"),
        ("targets", [{**RECIPE["targets"][0], "thresholds": [1.0, 1]}], "one stands twice"),
    ],
)
def test_what_a_recipe_may_not_say(path: str, value: Any, words: str) -> None:
    recipe = deepcopy(RECIPE)
    *parents, last = path.split(".")
    node: Any = recipe
    for parent in parents:
        node = node[parent]
    node[last] = value
    with pytest.raises(ConfigError) as caught:
        validate(Nightly, recipe, "night.yaml")
    assert words in str(caught.value)


@settings(deadline=None)
@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)),
    st.sets(st.integers(0, 23), min_size=1),
    st.integers(-12, 14),
)
def test_the_latest_cycle_has_started_whatever_the_zone(
    now: datetime, hours: set[int], zone: int
) -> None:
    aware = now.replace(tzinfo=UTC)
    found = latest_cycle(sorted(hours), aware)
    assert found.hour in hours
    assert timedelta(0) <= now - found.to_pydatetime() < timedelta(days=1)
    there = aware.astimezone(timezone(timedelta(hours=zone)))
    assert latest_cycle(sorted(hours), there) == found
    assert parse_cycle(cycle_name(found), sorted(hours)) == found


def test_cycles_in_words() -> None:
    assert parse_cycle("2026-11-30T02+02:00", [0]) == pd.Timestamp("2026-11-30T00")
    assert parse_cycle("2026-11-30 12:00Z", [0, 12]) == pd.Timestamp("2026-11-30T12")
    for text in ("soon", "2026-11-30T06", "2026-11-30T00:30", "", "9999-01-01T00", "-1"):
        with pytest.raises(ConfigError, match="is no cycle"):
            parse_cycle(text, [0, 12])
    first, last = pd.Timestamp("2026-11-30T12"), pd.Timestamp("2026-12-01T12")
    found = cycles_between(first, last, [0, 12])
    assert [cycle_name(cycle) for cycle in found] == [
        "2026-11-30T12",
        "2026-12-01T00",
        "2026-12-01T12",
    ]
    with pytest.raises(ConfigError, match="--to 2026-11-30T12 comes before"):
        cycles_between(last, first, [0, 12])


def test_files_are_waited_for_until_all_are_there(tmp_path: Path) -> None:
    recipe = settings_of(tmp_path)
    source = recipe.source.model_copy(update={"wait": "60s", "poll": "0.02s", "settle": "0.1s"})
    folder = tmp_path / "drop" / cycle_name(cycle_at(0))
    folder.mkdir(parents=True)
    (folder / "m0.nc").write_bytes(b"0")

    def others() -> None:
        for number in range(1, 5):
            (folder / f"m{number}.nc").write_bytes(b"1" * number)

    timer = threading.Timer(0.3, others)
    timer.start()
    arrival = Drop(source).forecast(cycle_at(0), patient=True)
    timer.join()
    assert [path.name for path in arrival.files] == [f"m{number}.nc" for number in range(5)]
    assert not arrival.growing
    short = source.model_copy(update={"wait": "0.1s", "count": 9})
    assert len(Drop(short).forecast(cycle_at(0), patient=True).files) == 5


def test_a_file_that_grows_is_left_out(tmp_path: Path) -> None:
    recipe = settings_of(tmp_path)
    source = recipe.source.model_copy(update={"poll": "0.02s", "settle": "0.2s"})
    folder = tmp_path / "drop" / cycle_name(cycle_at(0))
    folder.mkdir(parents=True)
    (folder / "m0.nc").write_bytes(b"0")
    stop = threading.Event()

    def write() -> None:
        with (folder / "m1.nc").open("ab", buffering=0) as stream:
            while not stop.wait(0.01):
                stream.write(b"x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        arrival = Drop(source).forecast(cycle_at(0), patient=False)
    finally:
        stop.set()
        writer.join()
    assert [path.name for path in arrival.files] == ["m0.nc"]
    assert [path.name for path in arrival.growing] == ["m1.nc"]


def test_registry_refuses_what_it_cannot_keep(models: Path, cycles: Cycles, tmp_path: Path) -> None:
    folder = tmp_path / "z500"
    shutil.copytree(models, folder, symlinks=True)
    emos = folder / "versions/v1/emos-5"
    with pytest.raises(ConfigError, match="this version is there already"):
        registry.add(folder, "v1", [emos])
    with pytest.raises(ConfigError, match="--version a/b"):
        registry.add(folder, "a/b", [emos])
    with pytest.raises(ConfigError, match="two models have the name emos-5"):
        registry.add(folder, "v2", [emos, emos])
    with pytest.raises(ConfigError, match="no version 'v9'; there are v1"):
        registry.use(folder, "v9")
    with pytest.raises(ConfigError, match="no current model"):
        registry.current(tmp_path)
    with pytest.raises(InputError, match="not a model folder"):
        registry.add(folder, "v2", [tmp_path])
    assert [version.name for version in registry.versions(folder)] == ["v1"]
    assert registry.current(folder).models == ("emos-5", "emos-3")
    parameters = emos / "parameters.nc"
    parameters.write_bytes(parameters.read_bytes()[:-1])
    with pytest.raises(InputError, match="is not what was fitted"):
        registry.use(folder, "v1")


def test_scores_of_the_run_go_with_the_model(cycles: Cycles, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    fitted = cycles.fit(run / "models" / "z500", 5)
    columns = ["method", "target", "region", "score", "estimator", "value"]
    rows = [
        ["emos-5", "z500", "whole grid", "crps", "normal", 120.0],
        ["emos-5", "z500", "whole grid", "bias", "", -3.0],
        ["emos-5", "z500", "extreme dates", "rmse", "", 900.0],
        ["raw", "z500", "whole grid", "rmse", "", 800.0],
    ]
    (run / "scores").mkdir()
    pd.DataFrame(rows, columns=columns).to_parquet(run / "scores" / "scores.parquet")
    added = registry.add(tmp_path / "registry", "v1", [fitted])
    assert added.scores == {"emos-5": {"crps": 120.0, "bias": -3.0}}


def test_the_gravest_fault_gives_the_code() -> None:
    faults: list[WeatherppError] = [PartialError("few"), InputError("bad"), InputError("bad")]
    found = together(faults)
    assert isinstance(found, InputError)
    assert str(found) == "bad; few"
    assert together([]) is None


def grib_product() -> xr.Dataset:
    rng = np.random.default_rng(1)
    grid = {"latitude": np.arange(60.0, 40.0, -5.0), "longitude": np.arange(0.0, 30.0, 5.0)}
    dims = ("time", "latitude", "longitude")
    mean = rng.normal(280, 10, (1, 4, 6)).astype(np.float32)
    ds = xr.Dataset(
        {
            "mean": (dims, mean),
            "spread": (dims, np.full_like(mean, 2.0)),
            "quantiles": (("quantile", *dims), np.stack([mean - 1, mean + 1])),
            "exceedance": (("threshold", *dims), np.full((1, *mean.shape), 0.25)),
            "members": (("time", "number", *dims[1:]), np.stack([mean - 3, mean + 3], axis=1)),
        },
        {
            **grid,
            "time": [np.datetime64("2026-11-01T12", "ns")],
            "quantile": [0.1, 0.9],
            "threshold": [273.15],
            "number": [0, 7],
        },
        {"members_used": "0 7"},
    )
    ds["mean"][0, 1, 2] = np.nan
    return ds


def test_grib_says_the_same_as_the_product(tmp_path: Path) -> None:
    ds, path = grib_product(), tmp_path / "t.grib2"
    write_grib(ds, path, Target(variable="t", level=850, step="48h"))
    found: dict[tuple[Any, ...], np.ndarray] = {}
    with path.open("rb") as stream:
        while (handle := eccodes.codes_grib_new_from_file(stream)) is not None:
            assert eccodes.codes_get(handle, "shortName") == "t"
            assert eccodes.codes_get(handle, "level") == 850
            assert eccodes.codes_get(handle, "dataDate") == 20261101
            assert eccodes.codes_get(handle, "dataTime") == 1200
            assert eccodes.codes_get(handle, "validityDate") == 20261103
            template = eccodes.codes_get(handle, "productDefinitionTemplateNumber")
            key = {1: "perturbationNumber", 2: "derivedForecast", 6: "percentileValue"}
            key[5] = "scaledValueOfLowerLimit"
            values = eccodes.codes_get_values(handle).reshape(4, 6)
            missing = eccodes.codes_get(handle, "missingValue")
            values = np.where(values == missing, np.nan, values)
            found[template, eccodes.codes_get(handle, key[template])] = values
            lats = eccodes.codes_get_array(handle, "latitudes").reshape(4, 6)
            np.testing.assert_allclose(lats[:, 0], ds["latitude"])
            eccodes.codes_release(handle)
    expected = {
        (2, 0): ds["mean"][0],
        (2, 4): ds["spread"][0],
        (6, 10): ds["quantiles"][0, 0],
        (6, 90): ds["quantiles"][1, 0],
        (5, 27315): ds["exceedance"][0, 0],
        (1, 0): ds["members"][0, 0],
        (1, 7): ds["members"][0, 1],
    }
    assert set(found) == set(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, atol=1e-4)


def test_what_grib_cannot_say_is_refused(tmp_path: Path) -> None:
    ds, path = grib_product(), tmp_path / "t.grib2"
    with pytest.raises(InputError, match="tp is not written as GRIB"):
        write_grib(ds, path, Target(variable="tp", step="48h"))
    uneven = ds.isel(latitude=[0, 1, 3])
    with pytest.raises(InputError, match="grids of equal steps"):
        write_grib(uneven, path, Target(variable="t", level=850, step="48h"))
    assert not list(tmp_path.iterdir())
