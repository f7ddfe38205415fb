"""What `inspect` says of files, good and bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.data import grib, missing
from weatherpp.data.archive import Archive
from weatherpp.data.inspect import inspect
from weatherpp.errors import InputError

FINDINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "grib/ens_storm.grib": (
        ("51 members", "with control", "z [m**2 s**-2], 850 hPa", "2013-10-25 00:00 UTC"),
        ("a single date", "no analysis"),
    ),
    "grib/wgust_ens.grib": (("50 members", "without control", "there called fg10_6"), ()),
    "grib/fc_storm.grib": ((), ("no ensemble members",)),
    "grib/era5-levels-members.grib": (("10 members", "4 initial times"), ()),
    "grib/t2m_grib.grib": (("108160 points",), ("interpolate it",)),
    "grib/O32_global.grib2": ((), ("t on hybrid levels", "interpolate it")),
    "grib/tp_on_different_grid_resolutions.grib": ((), ("2 different grids",)),
    "grib/tiggelam_cnmc_sfc.grib2": (("rotated_ll",), ("u10 points along the grid",)),
    "netcdf/mslp_packed_cf16.nc": (
        ("analysis", "msl [Pa]", "451 x 900", "longitude 0 to 359.6", "4 valid times"),
        (),
    ),
    "mogreps_uk_t/landmask.nc": (("static", "lsm [1]"), ()),
    "mogreps_uk_t/truth/20170602T1500Z-PT0000H-temperature_at_screen_level.nc": (
        ("can be read as analysis", "t2m [K]", "1 valid time"),
        ("a single date",),
    ),
    "mogreps_uk_t/apply/20170605T0300Z-PT0012H-temperature_at_screen_level.nc": (
        ("can be read as forecast", "12 members", "lead times 12 h"),
        ("no analysis",),
    ),
    "mogreps_uk_lagged/same_validity/20180924T1300Z-PT0005H00M-temperature_at_surface.nc": (
        ("skt [K]", "longitude -24.4005 to 15.1521"),
        (),
    ),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(name: str, data_dir: Path) -> None:
    found = inspect(data_dir / name)
    there, lacking = FINDINGS[name]
    text = "\n".join(found.lines)
    for piece in there:
        assert piece in text
    for piece in lacking:
        assert any(piece in line for line in found.missing)


def test_archive(tiny_archive: Archive) -> None:
    found = inspect(tiny_archive.path)
    text = str(found)
    for piece in ("synthetic", "z [m2 s-2], 200, 500, 800 hPa", "10 members", "60 initial times"):
        assert piece in text
    assert found.missing == []


def lines_of(path: Path, values: bool = True) -> list[str]:
    return [line for line in inspect(path, values).lines if "missing" in line]


def test_share_of_missing_values(data_dir: Path) -> None:
    path = data_dir / "grib" / "fields_with_missing_values.grib"
    (ds,) = grib.read(path)
    share = 100 * float(np.isnan(ds["t2m"]).mean())
    assert (
        lines_of(path)
        == [f"t2m: {share:.1f} % of the values are missing"]
        == ["t2m: 66.2 % of the values are missing"]
    )
    assert lines_of(path, values=False) == []
    assert lines_of(data_dir / "grib" / "ens_storm.grib") == []


def test_share_of_missing_values_in_netcdf_and_zarr(tmp_path: Path, tiny_archive: Archive) -> None:
    values = np.full((2, 4, 5), 280.0, np.float32)
    values[0, 0, :3] = np.nan
    values[1, 3, 4] = 9.96921e36  # a fill value that the file does not declare
    times = pd.date_range("2020-01-01", periods=2)
    coords = {"time": times, "lat": [3.0, 2, 1, 0], "lon": [0.0, 1, 2, 3, 4]}
    ds = xr.Dataset({"t2m": (("time", "lat", "lon"), values, {"units": "K"})}, coords)
    ds.to_netcdf(tmp_path / "a.nc")
    ds.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    ds["t2m"].attrs["units"] = "furlongs"  # not canonical
    ds.to_netcdf(tmp_path / "odd.nc")
    for name in ("a.nc", "a.zarr", "odd.nc"):
        assert lines_of(tmp_path / name) == ["t2m: 10.0 % of the values are missing"]
    assert lines_of(tiny_archive.path) == [], "levels that a variable does not have are no gaps"


def test_of_many_fields_a_few_are_looked_at(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch, tiny_archive: Archive
) -> None:
    monkeypatch.setattr(missing, "MOST_VALUES", 100)
    values = np.full((50, 8, 5), 280.0, np.float32)
    values[0, 0, 0] = values[-1, 1:, :] = values[3] = np.nan  # the first and the last are seen
    times = pd.date_range("2020-01-01", periods=50)
    coords = {"time": times, "lat": np.arange(8.0)[::-1], "lon": np.arange(5.0)}
    ds = xr.Dataset({"t2m": (("time", "lat", "lon"), values, {"units": "K"})}, coords)
    ds.to_netcdf(tmp_path / "a.nc")
    share = 100 * 36 / (8 * 40)
    assert lines_of(tmp_path / "a.nc") == [
        f"t2m: {share:.1f} % of the values are missing in 8 of 50 fields looked at"
    ]
    path = data_dir / "grib" / "wgust_ens.grib"
    assert lines_of(path) == ["no missing values in the 8 fields looked at of fg10"]
    clean = "no missing values in the 8 fields looked at of t, z"
    assert lines_of(tiny_archive.path)[0] == clean
    ds["t2m"][:] = 280
    ds["t2m"][0, 0, 0] = np.nan
    ds.to_netcdf(tmp_path / "b.nc")
    assert lines_of(tmp_path / "b.nc")[0].startswith("t2m: 0.3 % of the values")


def test_values_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    ds = xr.Dataset(
        {"t2m": (("time", "lat", "lon"), np.full((1, 2, 3), 280.0), {"units": "K"})},
        {"time": pd.date_range("2020-01-01", periods=1), "lat": [1.0, 0.0], "lon": [0.0, 1, 2]},
    )
    ds.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    (tmp_path / "a.zarr" / "t2m" / "0.0.0").write_bytes(b"spoiled")
    (fault,) = [line for line in inspect(tmp_path / "a.zarr").missing if "t2m" in line]
    assert fault.startswith("values of t2m cannot be read")


def told(path: Path) -> bool:
    try:
        return bool(inspect(path).lines)
    except InputError:
        return False


def test_every_sample_file_is_told(data_dir: Path) -> None:
    files = [p for p in data_dir.rglob("*") if p.suffix in (".grib", ".grib2", ".nc")]
    assert len(files) > 25
    assert [path.name for path in files if not told(path)] == []


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.bufr", b"BUFR....", "BUFR; convert"),
        ("a.grib.gz", b"\x1f\x8b....", "unpack it first"),
        ("a.csv.gz", b"\x1f\x8b....", "cannot be read"),
        ("a.txt", b"hello, world", "neither GRIB nor netCDF nor Zarr"),
        ("empty", b"", "neither GRIB nor netCDF nor Zarr"),
        ("a.nc", b"\x89HDF\r\n\x1a\nxxxx", "not a readable netCDF"),
        ("a.grib", b"GRIBxxxx", "damaged or cut off"),
    ],
)
def test_foreign_files(name: str, content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=text):
        inspect(tmp_path / name)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        inspect(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not a Zarr store"):
        inspect(tmp_path)


EXTRA: dict[str, str] = {
    "seasonal/glosea4_surface_temperature.nc": "lagged ensemble",
    "seasonal/seas5_t2m_nov_hindcast.nc": "lead times 0, 720, 1464 h",
    "seasonal/cfsv2_iberia_pr_djf.nc": "tp is a rate (mm day-1)",
    "seasonal/ncep_iberia_pr_djf.nc": "tp has no units",
    "subseasonal/GMAO-GEOS-V2p1.RMM1.nc": "1 points, without a place",
}


@pytest.mark.parametrize("name", EXTRA)
def test_extra_files(name: str, extra_data: Path) -> None:
    assert EXTRA[name] in str(inspect(extra_data / name))


def test_every_extra_file(extra_data: Path) -> None:
    files = [p for p in extra_data.rglob("*") if p.is_file() and "natural_earth" not in p.parts]
    refused = {path.suffix for path in files if not told(path)}
    assert refused <= {".md", ".bufr"}
