"""netCDF files and Zarr stores read in their own names, and netCDF files written."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask
import numpy as np
import xarray as xr
from dask.utils import SerializableLock

from weatherpp.conventions import COORDS
from weatherpp.data import remote
from weatherpp.data.classic import bytes_wanted
from weatherpp.data.file_kind import file_kind
from weatherpp.errors import InputError, WeatherppError
from weatherpp.files import partial_name

SLICE_BYTES = 64_000_000
"""Of values in memory at once, where a file allows it."""
FINE_BYTES = 16_000_000
LEVELS = ("level", *COORDS["level"])
# what xarray warns of and is seen to here: all fill values are masked (values.masked), times beyond
# those of nanoseconds are refused (times.timed)
HANDLED = (".*multiple fill values", "Unable to decode time axis")
_LARGE = SerializableLock("large chunks")


def read(path: Path) -> xr.Dataset:
    """A netCDF file, a Zarr store or a link to one, lazy; lead times stay the numbers they are.

    Values are read in the chunks of the file, and in slices where these are large, see
    :func:`_in_slices`.

    Raises
    ------
    InputError
        Missing, damaged, or no such file.
    """
    kind = file_kind(path)
    if kind in ("GRIB", "table"):
        raise InputError(f"{path}: holds {kind}, neither netCDF nor Zarr; name another file")
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
        with warnings.catch_warnings():
            for text in HANDLED:
                warnings.filterwarnings("ignore", text, xr.SerializationWarning)
            ds: xr.Dataset = xr.open_dataset(
                source, engine=engine, cache=False, decode_timedelta=False, backend_kwargs=options
            )
    except WeatherppError:
        raise
    except Exception as error:  # those of xarray, netCDF4, zarr and its codecs have no common base
        raise InputError(f"{path}: {_fault(path, error, source, engine, options)}") from error
    if not ds.variables:
        raise InputError(
            f"{path}: nothing at its root, and groups are not read; copy the group to a file of "
            "its own (ncks -G : -g NAME)"
        )
    for name, variable in ds.variables.items():
        _check_packing(variable, name, path)
    ds = ds.assign({n: _in_slices(v) for n, v in ds.variables.items() if n not in ds.indexes})
    for name, variable in ds.variables.items():
        if variable.dtype.kind == "m":
            ds[name] = variable.astype("timedelta64[ns]")
    # times and bounds are no fields, also where the file does not say so
    bounds = {variable.attrs.get("bounds") for variable in ds.variables.values()}
    return ds.set_coords(
        [name for name, da in ds.data_vars.items() if da.dtype.kind == "M" or name in bounds]
    )


def _fault(
    path: Path, error: Exception, source: Any, engine: Any, options: dict[str, Any] | None
) -> str:
    """Why a file cannot be opened; what the libraries say stays for --debug."""
    if isinstance(error, OSError) and (error.errno or 0) > 0 and path.is_file():
        return f"cannot be read ({error.strerror})"
    if isinstance(error, ValueError):
        try:
            with xr.open_dataset(
                source, engine=engine, decode_times=False, backend_kwargs=options
            ) as ds:
                for name, variable in ds.variables.items():
                    if not _decodes(variable):
                        said = " ".join(str(variable.attrs.get("units")).split())
                        return (
                            f"'{name}' has the units '{said[:60]}' (calendar "
                            f"{variable.attrs.get('calendar', 'standard')}), which cannot be "
                            "turned into dates; write it in days, hours, minutes or seconds since "
                            "a date (months have no fixed length)"
                        )
        except Exception:  # damaged in another way
            pass
    return "not a readable netCDF file or Zarr store (damaged or cut off?); fetch it again"


def _decodes(variable: xr.Variable) -> bool:
    """Whether dates can be made of a variable, if its units say that it holds some."""
    if " since " not in str(variable.attrs.get("units", "")):
        return True
    try:
        xr.decode_cf(xr.Dataset({"times": variable}), decode_timedelta=False).load()
    except ValueError:
        return False
    return True


def _in_slices(variable: xr.Variable) -> xr.Variable:
    """The same values as a dask array whose chunks fit in memory, several at a time.

    A variable that is not chunked is cut finely, which costs nothing; level by level first, as the
    archive is. A chunk of the file larger
    than :data:`SLICE_BYTES` has to be read and unpacked whole for each slice of it, so its slices
    are large, and only one thread at a time does so.
    """
    sizes = {str(dim): size for dim, size in variable.sizes.items()}
    stored = {str(dim): n for dim, n in variable.encoding.get("preferred_chunks", {}).items()}
    chunks = sizes | stored
    bytes_of = max(variable.dtype.itemsize, 4)
    large = math.prod(chunks.values()) * bytes_of > SLICE_BYTES
    room = (SLICE_BYTES if stored else FINE_BYTES) // bytes_of
    if large:
        for dim in sorted(variable.dims, key=lambda dim: str(dim) not in LEVELS):
            others = math.prod(chunks.values()) // chunks[str(dim)]
            chunks[str(dim)] = min(chunks[str(dim)], max(1, room // others))
    # a name by content would read the values
    options: dict[str, Any] = {"name": False, "lock": _LARGE if large and stored else False}
    return variable.chunk(chunks, **options)


def _refuse_cut_off(path: Path) -> None:
    """Refuse a classic netCDF file that ends before its last value."""
    try:
        wanted = bytes_wanted(path)
        fault = wanted is not None and path.stat().st_size < wanted and "it is cut off"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        fault = str(error)
    if fault:
        raise InputError(f"{path}: not a whole netCDF file ({fault}; fetch it again)")


def _check_packing(variable: xr.Variable, name: object, path: Path) -> None:
    """Refuse values that cannot be unpacked."""
    for key in ("scale_factor", "add_offset"):
        value = np.asarray(variable.encoding.get(key, 1.0))
        number = value.dtype.kind in "iuf" and value.size == 1 and np.isfinite(value).all()
        if not number or (key == "scale_factor" and not value.any()):
            text = " ".join(str(variable.encoding[key]).split())
            raise InputError(
                f"{path}: {name} has the {key} '{text[:40]}', so its values cannot be unpacked; "
                "is the file damaged?"
            )


def write(
    ds: xr.Dataset, path: Path, encoding: Mapping[Any, Mapping[str, Any]] | None = None
) -> None:
    """Write a netCDF file under a temporary name, then rename; equal data give equal bytes.

    HDF5 places data in the order in which they come, which is that of the variables (xarray takes
    coordinates out of a set) and, for lazy data, of the threads.

    Raises
    ------
    WeatherppError, OSError
        The file cannot be written.
    """
    coords = {name: ds[name].variable for name in sorted(ds.coords, key=str)}
    data = {name: ds[name].variable for name in ds.data_vars}
    ordered = xr.Dataset(data, coords, ds.attrs)
    try:
        with partial_name(path) as partial, dask.config.set(scheduler="synchronous"):
            # the system tells why a file cannot be made; the library says of a full disk, too, that
            # permission was denied
            partial.write_bytes(bytes(4096))
            ordered.to_netcdf(partial, engine="netcdf4", encoding=encoding)
    except RuntimeError as error:  # how the netCDF library tells of a full disk
        raise WeatherppError(f"{path}: cannot be written ({error}); is the disk full?") from None
