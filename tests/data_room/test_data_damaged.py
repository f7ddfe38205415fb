"""Damaged files of every kind: read rightly or refused in one line, and no library's own words."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd
import pytest
import yaml
from raw_data import ensemble

from weatherpp.data import tables
from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.ingest import ingest, read, read_forecast
from weatherpp.data.inspect import inspect
from weatherpp.errors import ConfigError, InputError
from weatherpp.strict import validate

READER = Path(__file__).parents[1] / "read_damaged.py"
FOREIGN_WORDS = (
    "Errno",
    "NetCDF:",
    "HDF",
    "xarray",
    "engine",
    "ECCODES",
    "Traceback",
    "0x",
    "pyarrow",
)


def damaged(whole: bytes, seed: int, header: int) -> bytes:
    """Cut off, or with a few bytes or bits changed, in the header more often than elsewhere."""
    at = random.Random(seed)
    content = bytearray(whole)
    how = seed % 4
    if how == 0:
        return bytes(content[: at.randrange(len(content))])
    if how == 1:
        for _ in range(at.choice([1, 1, 2, 8])):
            content[at.randrange(min(len(content), header))] = at.randrange(256)
    elif how == 2:
        for _ in range(at.choice([1, 4, 32])):
            content[at.randrange(len(content))] ^= 1 << at.randrange(8)
    else:
        start, size = at.randrange(len(content)), at.choice([1, 2, 4, 16, 64])
        content[start : start + size] = at.randbytes(size)
    return bytes(content)


def outcomes(folder: Path, settings: Path | None = None) -> dict[str, list[str]]:
    """How many readings were fine, and the messages of the others; none may be a fault."""
    done = subprocess.run(
        [sys.executable, str(READER), str(folder), str(settings or folder / "no-settings")],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1:], done.stderr[-2000:])
    assert {name for name, *_ in lines} == {path.name for path in folder.iterdir()}
    assert [line for line in lines if line[2] == "fault"] == []
    for name, _, how, message in lines:
        if how == "refused":
            assert name in message, message
            assert "\n" not in message, message
            words = message.replace(str(folder), "")
            assert not [word for word in FOREIGN_WORDS if word in words], message
    return {how: [line[3] for line in lines if line[2] == how] for how in ("fine", "refused")}


def write_damaged(folder: Path, whole: bytes, suffix: str, seeds: range, header: int) -> None:
    folder.mkdir()
    for seed in seeds:
        (folder / f"{seed}{suffix}").write_bytes(damaged(whole, seed, header))


# -- GRIB -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "length"), [("t_time_series.grib", 552), ("tiggelam_cnmc_sfc.grib2", 864)]
)
def test_damaged_grib(name: str, length: int, data_dir: Path, tmp_path: Path) -> None:
    """Two messages of each edition; without the check of lengths eccodes ends the process."""
    whole = (data_dir / "grib" / name).read_bytes()[:length]
    write_damaged(tmp_path / "files", whole, ".grib", range(48), header=260)
    found = outcomes(tmp_path / "files")
    assert found["fine"]
    assert any("damaged or cut off after message" in text for text in found["refused"])


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (69, 16, "section 3 is longer than its message"),  # eccodes 2: double free
        (71, 4, "section 4 follows section 2"),
        (20, 9, "section 9 follows section 0"),
        (7, 3, "GRIB edition 3; 1 and 2 are known"),
        (15, 177, "its sections are not as long as the message"),
        (31, 99, r"message 1 has the date 201212?99 \d{4}, which is none"),
    ],
)
def test_headers_of_grib_2(at: int, value: int, text: str, data_dir: Path, tmp_path: Path) -> None:
    content = bytearray((data_dir / "grib" / "tiggelam_cnmc_sfc.grib2").read_bytes()[:432])
    content[at] = value
    (tmp_path / "a.grib2").write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.grib2: .*({text})"):
        inspect(tmp_path / "a.grib2")


# -- netCDF and Zarr ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_damaged_netcdf(form: Any, tmp_path: Path) -> None:
    ds = ensemble()
    ds["t2m"] += 280  # keeps the units
    ds.to_netcdf(tmp_path / "a.nc", format=form, engine="netcdf4")
    whole = (tmp_path / "a.nc").read_bytes()
    write_damaged(tmp_path / "files", whole, ".nc", range(60), header=1000)
    found = outcomes(tmp_path / "files")
    assert found["fine"]
    assert found["refused"]


@pytest.mark.parametrize("version", [2, 3])
def test_damaged_zarr(version: Any, tmp_path: Path) -> None:
    ds = ensemble()
    ds["t2m"] += 280  # keeps the units
    folder = tmp_path / "files"
    folder.mkdir()
    for seed in range(40):
        store = folder / f"{seed:02d}.zarr"
        ds.to_zarr(store, zarr_format=version, consolidated=False)
        files = sorted(path for path in store.rglob("*") if path.is_file())
        path = files[random.Random(seed).randrange(len(files))]
        path.write_bytes(damaged(path.read_bytes() or b"\0", seed // 4, header=200))
    found = outcomes(folder)
    assert found["fine"]
    assert found["refused"]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "a.nc"
    ensemble().to_netcdf(path)
    return path


def changed(path: Path, change: Callable[[Any], None]) -> None:
    with netCDF4.Dataset(path, "a") as file:
        change(file)


def months(file: Any) -> None:
    file["reference"].units = "months since 1960-01-01"


def text_as_latitude(file: Any) -> None:
    file.renameVariable("lat", "former")
    file.createVariable("lat", str, ("lat",))[:] = np.array(["north", "south"], object)


def text_as_units_of_time(file: Any) -> None:
    file["reference"].units = "days since yesterday"


def fill_value_of_another_type(file: Any) -> None:
    file["t2m"].setncattr("missing_value", "none")


def scale_factor_0(file: Any) -> None:
    file["t2m"].scale_factor = 0.0


def no_members(file: Any) -> None:
    file.renameVariable("number", "fifth")
    file.renameDimension("number", "fifth")


def same_dimension_twice(file: Any) -> None:
    file.renameVariable("t2m", "former")
    file.createVariable("t2m", "f4", ("reference", "step", "number", "lat", "lat"))


CHANGES: dict[Callable[[Any], None], str] = {
    months: "'reference' has the units 'months since 1960-01-01' .*write it in days, hours",
    text_as_units_of_time: "'reference' has the units 'days since yesterday'",
    text_as_latitude: "'latitude' holds .*, not numbers; mend the file",
    fill_value_of_another_type: "missing_value 'none', which is no number; mend the file",
    scale_factor_0: "t2m has the scale_factor '0.0'",
    no_members: "fifth",
    same_dimension_twice: "no known variable; there are former",
}


@pytest.mark.parametrize("change", CHANGES)
def test_netcdf_that_says_what_cannot_be(change: Callable[[Any], None], whole: Path) -> None:
    changed(whole, change)
    with pytest.raises(InputError, match=rf"^{whole}: .*({CHANGES[change]})") as caught:
        read_forecast(whole)
    assert "\n" not in str(caught.value)
    assert not [word for word in FOREIGN_WORDS if word in str(caught.value)], str(caught.value)


def test_netcdf_with_all_in_a_group(whole: Path, tmp_path: Path) -> None:
    ensemble().to_netcdf(tmp_path / "b.nc", group="forecast")
    with pytest.raises(InputError, match=r"b\.nc: nothing at its root, and groups are not read"):
        read_forecast(tmp_path / "b.nc")


@pytest.mark.parametrize("what", ["folder", "pipe", "empty", "loop", "gone"])
def test_what_is_no_file_is_not_waited_for(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    make: dict[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "empty": path.touch,
        "loop": lambda: path.symlink_to(path),
        "gone": lambda: path.symlink_to(tmp_path / "nowhere"),
    }
    make[what]()
    for call in (
        lambda: inspect(path),
        lambda: read_forecast(path),
        lambda: ingest(source(tmp_path, "netcdf", "*.nc"), tmp_path / "out"),
    ):
        with pytest.raises(InputError, match=r"a\.nc"):
            call()
    assert not (tmp_path / "out").exists()


STATION = {"id": "id", "latitude": "lat", "longitude": "lon", "altitude": "alt"}


def source(root: Path, driver: str, pattern: str) -> CatalogEntry:
    content = {"name": "mine", "title": "T", "licence": "none", "citation": "none"}
    given = {"driver": driver, "root": str(root), "files": {"forecast": [pattern]}}
    table = {"valid_time": "valid", "lead": "24h", "station": STATION, "members": "m([0-9]+)"}
    if driver == "table":
        given |= {"table": table, "variables": {"t2m": {"units": "K"}}}
    return validate(CatalogEntry, content | given, "mine")


@pytest.mark.parametrize("driver", ["grib", "netcdf", "zarr", "table"])
@pytest.mark.parametrize("kind", ["grib", "netcdf", "table"])
def test_wrong_driver_is_named_with_the_right_one(
    driver: str, kind: str, whole: Path, data_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    csv = b"id,valid,m1,m2\na,2020-01-01,1,2\n"
    content = {
        "grib": (data_dir / "grib" / "hdate.grib").read_bytes(),
        "netcdf": whole.read_bytes(),
        "table": csv,
    }
    (folder / "x.csv").write_bytes(content[kind])
    if kind == driver or {kind, driver} == {"netcdf", "zarr"}:
        return
    with pytest.raises(ConfigError, match=rf"x\.csv: .* mine says .*{driver}; set driver: {kind}$"):
        read(source(folder, driver, "x.csv"), "forecast")
    assert not (tmp_path / "out").exists()


# -- tables ---------------------------------------------------------------------------------------

ENTRY = """name: entry
title: T
licence: none
citation: none
driver: table
files: {forecast: ["*"]}
variables: {t2m: {units: K}}
table:
  valid_time: valid
  lead: 24h
  station: {id: id, latitude: lat, longitude: lon, altitude: alt}
  members: "m([0-9]+)"
"""


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".sqlite"])
def test_damaged_tables(suffix: str, tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": [f"s{i}" for i in range(20)], "lat": np.linspace(40, 60, 20)})
    rows = rows.assign(lon=5.0, alt=10.0, valid="2020-01-02T06:00", m1=280.5, m2=281.25)
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        rows.to_parquet(path)
    elif suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as connection:
            rows.to_sql("rows", connection, index=False)
    else:
        rows.to_csv(path, index=False)
    (tmp_path / "entry.yaml").write_text(ENTRY)
    write_damaged(tmp_path / "files", path.read_bytes(), suffix, range(60), header=300)
    found = outcomes(tmp_path / "files", tmp_path / "entry.yaml")
    assert found["fine"] or suffix == ".csv.gz"  # whose checksum lets nothing pass
    assert found["refused"]


def test_cells_that_no_column_can_hold(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": ["a", "b"], "lat": 50.0, "lon": 5.0, "alt": 1.0, "m1": 280.0})
    rows = rows.assign(m2=281.0, valid="2020-01-02T06:00")
    entry = validate(CatalogEntry, yaml.safe_load(ENTRY), "entry")
    for changes, text in (
        ({"valid": ["2020-01-02", "9999-01-01"]}, r"row 2: '9999-01-01' "),
        ({"valid": ["1500-01-01", "2020-01-02"]}, r"row 1: '1500-01-01' "),
        ({"m2": [True, False]}, "'m2' holds truth values, not numbers"),
        ({"id": [1.0, 1e300]}, r"row 2: '1e\+300' is no identifier"),
        ({"id": [1.0, np.nan]}, r"row 2: 'nan' is no identifier"),
    ):
        rows.assign(**changes).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(InputError, match=text):
            tables.read(tmp_path / "a.parquet", entry, "forecast")
