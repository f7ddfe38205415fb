"""netCDF files and Zarr stores, as Datasets in their own names."""

from __future__ import annotations

from pathlib import Path

import xarray as xr

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
