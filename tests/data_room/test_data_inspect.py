"""What `inspect` says of files, good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    there, missing = FINDINGS[name]
    text = "\n".join(found.lines)
    for piece in there:
        assert piece in text
    for piece in missing:
        assert any(piece in line for line in found.missing)


def test_archive(tiny_archive: Archive) -> None:
    found = inspect(tiny_archive.path)
    text = str(found)
    for piece in ("synthetic", "z [m2 s-2], 200, 500, 800 hPa", "10 members", "60 initial times"):
        assert piece in text
    assert found.missing == []


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
