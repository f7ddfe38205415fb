"""netCDF files and Zarr stores read in their own names, and netCDF files written."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask
import xarray as xr
from scipy.io import netcdf_file

from weatherpp.data import remote
from weatherpp.errors import InputError, WeatherppError


def read(path: Path) -> xr.Dataset:
    """A netCDF file, a Zarr store or a link to one, lazy; lead times stay the numbers they are.

    Raises
    ------
    InputError
        Missing, damaged, or no such file.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    engine = "zarr" if path.is_dir() or remote.is_link(path) else "netcdf4"
    if engine == "netcdf4":
        _refuse_cut_off(path)
    source: Any = path
    consolidated = False
    if remote.is_link(path):
        source, consolidated = remote.open_store(path)
    # Decoding of lead times depends on the xarray release and on attributes, so units are
    # read here instead; calendars that are not of the real world must stay visible.
    options = {"consolidated": consolidated} if engine == "zarr" else None
    try:
        ds: xr.Dataset = xr.open_dataset(
            source, engine=engine, chunks={}, decode_timedelta=False, backend_kwargs=options
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: not a readable netCDF file or Zarr store ({text})") from None
    for name, variable in ds.variables.items():
        if variable.dtype.kind == "m":
            ds[name] = variable.astype("timedelta64[ns]")
    # times and bounds are no fields, also where the file does not say so
    bounds = {variable.attrs.get("bounds") for variable in ds.variables.values()}
    return ds.set_coords(
        [name for name, da in ds.data_vars.items() if da.dtype.kind == "M" or name in bounds]
    )


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
    except (OSError, TypeError, ValueError, IndexError) as error:
        reason = getattr(error, "strerror", None) or "it is cut off; fetch it again"
        raise InputError(f"{path}: not a whole netCDF file ({reason})") from None


def write(
    ds: xr.Dataset, path: Path, encoding: Mapping[Any, Mapping[str, Any]] | None = None
) -> None:
    """Write a netCDF file under a temporary name, then rename; equal data give equal bytes.

    HDF5 places data in the order in which they come, which is that of the variables (xarray takes
    coordinates out of a set) and, for lazy data, of the threads.

    Raises
    ------
    WeatherppError
        The file cannot be written.
    """
    coords = {name: ds[name].variable for name in sorted(ds.coords, key=str)}
    data = {name: ds[name].variable for name in ds.data_vars}
    ordered = xr.Dataset(data, coords, ds.attrs)
    partial = path.with_name(path.name + ".part")
    try:
        with dask.config.set(scheduler="synchronous"):
            ordered.to_netcdf(partial, engine="netcdf4", encoding=encoding)
        partial.replace(path)
    except RuntimeError as error:  # how the netCDF library tells of a full disk
        raise WeatherppError(f"{path}: cannot be written ({error}); is the disk full?") from None
    finally:
        partial.unlink(missing_ok=True)
