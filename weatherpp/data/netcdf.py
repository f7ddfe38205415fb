"""netCDF files and Zarr stores, as Datasets in their own names."""

from __future__ import annotations

import warnings
from pathlib import Path

import xarray as xr
from scipy.io import netcdf_file

from weatherpp.errors import InputError


def read(path: Path) -> xr.Dataset:
    """A netCDF file or a Zarr store, lazy; lead times are left as the numbers they are.

    Raises
    ------
    InputError
        Missing, damaged, or no such file.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    engine = "zarr" if path.is_dir() else "netcdf4"
    if engine == "netcdf4":
        _refuse_cut_off(path)
    # Decoding of lead times depends on the xarray release and on attributes, so units are
    # read here instead; calendars that are not of the real world must stay visible.
    options = {"consolidated": False} if engine == "zarr" else None
    try:
        ds: xr.Dataset = xr.open_dataset(
            path, engine=engine, chunks={}, decode_timedelta=False, backend_kwargs=options
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: not a readable netCDF file or Zarr store ({text})") from None
    for name, variable in ds.variables.items():
        if variable.dtype.kind == "m":
            ds[name] = variable.astype("timedelta64[ns]")
    return ds


def _refuse_cut_off(path: Path) -> None:
    """Refuse a classic netCDF file that ends before its last value.

    The netCDF library reads zeros behind the end of such a file without a word; scipy's reader
    maps every variable when it opens a file, and so finds out at once.
    """
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
        if magic in (b"CDF\x01", b"CDF\x02"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # maps still open: none is, all are dropped
                netcdf_file(path, mmap=True).close()
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is cut off; fetch it again"
        raise InputError(f"{path}: not a whole netCDF file ({reason})") from None
