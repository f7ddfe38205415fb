"""Damaged files of every kind: read rightly or refused in one line, and no library's own words."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


import netCDF4
import numpy as np
import pytest
import xarray as xr
from raw_data import ensemble

from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.ingest import ingest, read
from weatherpp.data.inspect import inspect
from weatherpp.errors import ConfigError, InputError
from weatherpp.strict import validate

READER = Path(__file__).parents[1] / "read_damaged.py"
FOREIGN_WORDS = ("Errno", "NetCDF:", "HDF", "xarray", "engine", "ECCODES", "Traceback", "0x", "pyarrow")


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
            assert name in message and "\n" not in message, message
            words = message.replace(str(folder), "")
            assert not [word for word in FOREIGN_WORDS if word in words], message
    return {how: [line[3] for line in lines if line[2] == how] for how in ("fine", "refused")}


def write_damaged(folder: Path, whole: bytes, suffix: str, seeds: range, header: int) -> None:
    folder.mkdir()
    for seed in seeds:
        (folder / f"{seed}{suffix}").write_bytes(damaged(whole, seed, header))


# -- GRIB -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "length"), [("t_time_series.grib", 552), ("tiggelam_cnmc_sfc.grib2", 864)])
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
    ds = ensemble() + 280
    ds.to_netcdf(tmp_path / "a.nc", format=form, engine="netcdf4")
    whole = (tmp_path / "a.nc").read_bytes()
    write_damaged(tmp_path / "files", whole, ".nc", range(60), header=1000)
    found = outcomes(tmp_path / "files")
    assert found["fine"]
    assert found["refused"]


@pytest.mark.parametrize("version", [2, 3])
def test_damaged_zarr(version: Any, tmp_path: Path) -> None:
    ds = ensemble() + 280
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
