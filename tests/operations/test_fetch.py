"""Cycles fetched from a real HTTP server on loopback in the layout of ECMWF's open data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from file_server import Handler, on_loopback, serving
from night_cases import Cycles, cycle_at, recipe_with, settings_of
from open_data import FORECAST, path_of, put_analysis, put_forecast, recipe_of

from weatherpp.data import remote
from weatherpp.errors import ConfigError, InputError, PartialError, WeatherppError
from weatherpp.operations import history
from weatherpp.operations.fetch import Server
from weatherpp.operations.index import lacking, ranges, read_index
from weatherpp.operations.log import Log
from weatherpp.operations.nightly import run_nightly
from weatherpp.operations.settings import Nightly
from weatherpp.strict import validate
from weatherpp.verify.weights import grid_weights

QUIET = Log(quiet=True)


@pytest.fixture(scope="module")
def cycles() -> Cycles:
    """On a grid whose places GRIB can tell exactly."""
    return Cycles(shape=(9, 12))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, cycles: Cycles) -> Path:
    return cycles.registry(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSE", 0.001)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path, type[Handler]]]:
    folder = tmp_path / "served"
    folder.mkdir()
    with serving(folder) as (url, handler):
        yield url, folder, handler


Served = tuple[str, Path, type[Handler]]


def server(place: Path, url: str, **changes: Any) -> Server:
    settings = validate(Nightly, recipe_of(place, url, **changes), "test")
    return Server(settings.source, place / "work" / "fetched")


def wanted_bytes(file: Path) -> bytes:
    """What should be fetched, by the index, read in another way."""
    content = file.read_bytes()
    return b"".join(
        content[line["_offset"] : line["_offset"] + line["_length"]]
        for line in map(json.loads, file.with_suffix(".index").read_text().splitlines())
        if line["param"] == "gh" and line["levelist"] in ("500", "800")
    )


def night(place: Path, url: str, day: int, **changes: Any) -> WeatherppError | None:
    settings = validate(Nightly, recipe_of(place, url, **changes), "test")
    return run_nightly(settings, place / "work", [cycle_at(day)], log=QUIET).fault


def test_only_the_fields_that_are_wanted_are_fetched(
    place: Path, cycles: Cycles, served: Served
) -> None:
    url, folder, handler = served
    file = put_forecast(cycles, folder, 0)
    arrival = server(place, url).forecast(cycle_at(0), patient=False)
    (path,) = arrival.files
    assert path.read_bytes() == wanted_bytes(file)
    assert len(wanted_bytes(file)) < 0.5 * file.stat().st_size
    assert {name for name, _ in handler.asked} == {file.name}
    assert all(asked.startswith("bytes=") for _, asked in handler.asked)
    # once more, nothing is fetched
    handler.asked.clear()
    assert server(place, url).forecast(cycle_at(0), patient=False) == arrival
    assert handler.asked == []


def test_a_night_from_a_server_is_that_of_a_folder(
    place: Path, cycles: Cycles, served: Served
) -> None:
    url, folder, _ = served
    put_forecast(cycles, folder, 0)
    put_analysis(cycles, folder, 0)
    assert night(place, url, 0) is None
    product = place / "work/cycles/2026-11-01T00/z500-48h.nc"
    with xr.open_dataset(product) as ds:
        far = ds.load()
    settings = settings_of(place)
    assert run_nightly(settings, place / "near", [cycle_at(0)], log=QUIET).fault is None
    with xr.open_dataset(place / "near/cycles/2026-11-01T00/z500-48h.nc") as ds:
        near = ds.load()
    # but for the packing of GRIB, 24 bits of some kilometres
    np.testing.assert_allclose(far["mean"], near["mean"], atol=0.1)
    scores = history.history(place / "work", "z", 500, 48).set_index("method")
    members = cycles.forecast(0)["z"].sel(level=500).isel(time=0, step=0)
    error = members.mean("number") - cycles.truth(0)["z"].sel(level=500).isel(valid_time=0)
    wanted = float((error**2).weighted(grid_weights(error)).mean() ** 0.5)
    assert scores.loc["raw", "rmse"] == pytest.approx(wanted, rel=1e-3)
    # a server that has no more of it, or is down, does not matter any longer
    before = product.stat().st_mtime_ns
    for path in sorted(folder.rglob("*.*")):
        path.unlink()
    assert night(place, url, 0) is None
    served[2].down = True
    assert night(place, url, 0) is None
    assert product.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "faults", [["busy", "busy"], ["cut"], ["cut", "busy", "cut", "cut"], ["drip"]]
)
def test_what_passes_is_waited_for(
    place: Path, cycles: Cycles, served: Served, faults: list[str]
) -> None:
    url, folder, handler = served
    file = put_forecast(cycles, folder, 0)
    handler.faults += faults
    (path,) = server(place, url).forecast(cycle_at(0), patient=False).files
    assert path.read_bytes() == wanted_bytes(file)
    starts = [int(asked.split("=")[1].split("-")[0]) for _, asked in handler.asked]
    if faults == ["cut"]:  # not from the start again
        assert starts[1] > starts[0]
    assert starts == sorted(starts)


def test_a_server_that_ignores_ranges(place: Path, cycles: Cycles, served: Served) -> None:
    url, folder, handler = served
    handler.knows_ranges = False
    file = put_forecast(cycles, folder, 0)
    (path,) = server(place, url).forecast(cycle_at(0), patient=False).files
    assert path.read_bytes() == wanted_bytes(file)
    assert not list(path.parent.glob(".*whole"))


def test_a_server_that_stays_busy_is_named(place: Path, cycles: Cycles, served: Served) -> None:
    url, folder, handler = served
    put_forecast(cycles, folder, 0)
    handler.faults += ["busy"] * 99
    fault = night(place, url, 0)
    assert isinstance(fault, InputError)
    assert "48h-enfo-ef.grib2: cannot be fetched" in str(fault)
    assert "no forecast of 2026-11-01T00" in str(fault)


def test_files_that_are_not_there_yet_are_waited_for(
    place: Path, cycles: Cycles, served: Served
) -> None:
    url, folder, _ = served
    source = server(place, url)
    with pytest.raises(InputError, match=r"enfo-ef\.grib2: no such file, so there is no forecast"):
        source.forecast(cycle_at(0), patient=False)
    comes = threading.Timer(0.3, put_forecast, (cycles, folder, 0))
    comes.start()
    waiting = server(place, url, wait="1h", poll="0.1s")
    (path,) = waiting.forecast(cycle_at(0), patient=True).files
    comes.join()
    assert path.read_bytes() == wanted_bytes(folder / path_of(FORECAST, cycle_at(0)))


def test_a_fetch_that_was_killed_goes_on(place: Path, cycles: Cycles, served: Served) -> None:
    url, folder, handler = served
    file = put_forecast(cycles, folder, 0)
    recipe = place / "recipe.yaml"
    recipe.write_text(json.dumps(recipe_of(place, url)))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(recipe), str(place / "work")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    # it is ended when it asks for the second range
    handler.faults += ["", process.kill]
    assert process.wait() == -signal.SIGKILL
    assert not list((place / "work").rglob("*.grib2"))
    handler.faults.clear()
    handler.asked.clear()
    (path,) = server(place, url).forecast(cycle_at(0), patient=False).files
    assert path.read_bytes() == wanted_bytes(file)
    second = ranges(read_index(file.with_suffix(".index"), ""), server(place, url).settings.fields)[
        1
    ]
    assert handler.asked[0][1].startswith(f"bytes={second[0]}-")


KILLED = """
import sys
from pathlib import Path
import pandas as pd
from weatherpp.operations.fetch import Server
from weatherpp.operations.settings import load_nightly

settings = load_nightly(Path(sys.argv[1]))
source = Server(settings.source, Path(sys.argv[2]) / "fetched")
source.forecast(pd.Timestamp("2026-11-01T00"), patient=False)
"""


def test_members_that_are_lacking(place: Path, cycles: Cycles, served: Served) -> None:
    url, folder, _ = served
    put_forecast(cycles, folder, 0, range(3))
    fault = night(place, url, 0)
    assert isinstance(fault, PartialError)
    assert "2 of 5 members missing (3, 4)" in str(fault)
    warned = history.status(place / "work")["faults"]
    assert any("does not tell of type pf, param gh, levelist 500, number 3" in row["text"]
               for row in warned)  # fmt: skip
    # and taken when they are there
    put_forecast(cycles, folder, 0)
    assert night(place, url, 0) is None


def test_an_index_that_is_cut_off_or_of_another_file(
    place: Path, cycles: Cycles, served: Served
) -> None:
    url, folder, _ = served
    file = put_forecast(cycles, folder, 0)
    index = file.with_suffix(".index")
    whole = index.read_text()
    index.write_text(whole[:-20])
    with pytest.raises(InputError, match=r"\.index: line \d+ is no line of an index; is it cut"):
        server(place, url).forecast(cycle_at(0), patient=False)
    index.write_text(whole)
    content = file.read_bytes()
    file.write_bytes(content[100:])
    with pytest.raises(InputError, match=r"grib2: no message of \d+ bytes at \d+; does its index"):
        server(place, url).forecast(cycle_at(0), patient=False)
    file.write_bytes(content[:5000])
    with pytest.raises(InputError, match="ends before its last field does"):
        server(place, url).forecast(cycle_at(0), patient=False)
    assert not list((place / "work").rglob("*.grib2"))


def test_a_plain_folder_of_files_on_a_server(place: Path) -> None:
    with serving(place / "drop") as (url, handler):
        recipe = recipe_with(place)
        recipe["source"]["root"] = url
        settings = validate(Nightly, recipe, "test")
        handler.faults += ["cut", "drip"]
        assert run_nightly(settings, place / "work", [cycle_at(0)], log=QUIET).fault is None
        run_nightly(settings_of(place), place / "near", [cycle_at(0)], log=QUIET)
        name = "cycles/2026-11-01T00/z500-48h.nc"
        assert (place / "work" / name).read_bytes() == (place / "near" / name).read_bytes()
        handler.asked.clear()
        handler.down = True
        assert run_nightly(settings, place / "work", [cycle_at(0)], log=QUIET).fault is None
        assert handler.asked == []


@pytest.mark.parametrize(
    ("status", "reason"), [(302, "TooManyRedirects"), (403, "403 Forbidden"), (500, "500 Internal")]
)
def test_what_a_server_answers_is_told(place: Path, status: int, reason: str) -> None:
    class Refusing(Handler):
        def answer(self, head: bool) -> None:
            self.send_response(status)
            self.send_header("Location", self.path)  # of a redirection: the same again
            self.send_header("Content-Length", "0")
            self.end_headers()

    with on_loopback(Refusing) as at:
        fault = night(place, f"http://{at}", 0)
    assert isinstance(fault, InputError)
    assert f"enfo-ef.index: cannot be fetched ({reason}" in str(fault)


def test_what_was_fetched_goes_when_nothing_needs_it(
    place: Path, cycles: Cycles, served: Served
) -> None:
    url, folder, _ = served
    for day in (0, 1):
        put_forecast(cycles, folder, day)
        put_analysis(cycles, folder, day)
    for day in (0, 1):
        settings = recipe_of(place, url) | {"retention": {"products": "60d", "fetched": "12h"}}
        found = validate(Nightly, settings, "test")
        assert run_nightly(found, place / "work", [cycle_at(day)], log=QUIET).fault is None
    names = {path.name for path in (place / "work/fetched").rglob("*grib2")}
    assert names == {
        "20261102000000-48h-enfo-ef.grib2",
        "20261103000000-0h-oper-fc.grib2",
        "20261104000000-0h-oper-fc.grib2",
    }
    source = server(place, url)
    source.forget("forecast", cycle_at(1))
    source.forget("analysis", cycle_at(2))
    left = [path.name for path in (place / "work/fetched").rglob("*") if path.is_file()]
    assert {name for name in left if not name.endswith(".lock")} == {
        "20261104000000-0h-oper-fc.grib2",
        ".20261104000000-0h-oper-fc.grib2.version",
        "20261104000000-0h-oper-fc.index",
        ".20261104000000-0h-oper-fc.index.version",
    }


def test_what_a_recipe_may_not_say(place: Path) -> None:
    for changes, message in (
        ({"root": str(place)}, "fields: is for GRIB files below a URL"),
        ({"driver": "zarr", "fields": []}, "a Zarr store below a URL"),
        ({"steps": []}, "steps: say for which hours"),
        ({"forecast": ["{cycle:%Y}/*.grib2"]}, "names without wildcards"),
    ):
        with pytest.raises(ConfigError, match=message):
            validate(Nightly, recipe_of(place, "http://example.org", **changes), "test")
    with pytest.raises(ConfigError, match="no user, password"):
        server(place, "http://me:secret@example.org")


def test_index_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.index"
    rows = [("t", "850", 0, 10), ("t", "500", 10, 5), ("gh", "500", 15, 7), ("t", "850", 30, 10)]
    path.write_text(
        "\n".join(
            json.dumps({"param": p, "levelist": lv, "_offset": o, "_length": n})
            for p, lv, o, n in rows
        )
    )
    lines = read_index(path, "a")
    assert ranges(lines, [{"param": ["t"]}]) == [(0, 15), (30, 10)]
    assert ranges(lines, [{"param": ["gh"]}, {"levelist": ["500"]}]) == [(10, 12)]
    wanted = [{"param": ["t", "gh"], "levelist": ["500", "850"]}]
    assert lacking(lines, wanted) == ["param gh, levelist 850"]
    for bad in ('{"_offset": -1, "_length": 3}', '{"_offset": 1}', "[]", "{"):
        path.write_text(bad)
        with pytest.raises(InputError, match="a: line 1 is no line"):
            read_index(path, "a")
