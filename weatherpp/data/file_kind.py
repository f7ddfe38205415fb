"""What a file is, told by its first bytes and not by its name."""

from __future__ import annotations

from pathlib import Path

from weatherpp.data import remote
from weatherpp.data.table_files import table_kind
from weatherpp.errors import ConfigError, InputError

FOREIGN = {
    b"BUFR": "observations in BUFR; convert them to a netCDF analysis or a station table first",
    b"\x1f\x8b": "compressed; unpack it first",
    b"PK\x03\x04": "a zip file; unpack it first",
}
DRIVERS = {"GRIB": "grib", "netCDF": "netcdf", "Zarr": "zarr", "table": "table"}
ALIKE = {"netcdf", "zarr"}  # read in the same way
MARKS = ("zarr.json", ".zgroup", ".zmetadata")


def file_kind(path: Path) -> str | None:
    """``GRIB``, ``netCDF``, ``Zarr`` or ``table``; None if it is none of these.

    Raises
    ------
    InputError
        It is not there, cannot be read, or is neither a file nor a folder.
    """
    try:
        if remote.is_link(path):
            return "Zarr"
        if path.is_dir():
            return "Zarr" if any((path / name).is_file() for name in MARKS) else None
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if not path.is_file():  # to open a pipe would wait for ever
            raise InputError(f"{path}: neither a file nor a folder; save the data to a file first")
        with path.open("rb") as stream:
            start = stream.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if start[:4] == b"GRIB":
        return "GRIB"
    if start[:3] == b"CDF" or start == b"\x89HDF\r\n\x1a\n":
        return "netCDF"
    return None if table_kind(path) is None else "table"


def check_driver(path: Path, driver: str, entry: str) -> None:
    """Refuse a file that another driver than that of the catalog entry reads.

    Raises
    ------
    ConfigError
        Naming the driver that does.
    InputError
        The file cannot be read.
    """
    kind = file_kind(path)
    right = DRIVERS[kind] if kind is not None else driver
    if right != driver and not {right, driver} <= ALIKE:
        raise ConfigError(
            f"{path}: holds {kind}, and catalog entry {entry} says driver: {driver}; set driver: "
            f"{right}"
        )


def foreign(path: Path) -> str | None:
    """What a file of a kind that is not read is, and what to do with it; None if not known."""
    with path.open("rb") as stream:
        start = stream.read(8)
    return next((what for magic, what in FOREIGN.items() if start.startswith(magic)), None)
