"""Sources for the benchmark of ingest: GRIB of ENS-10's shape, netCDF and Zarr laid out badly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weatherpp.conventions import GRAVITY
from weatherpp.data.standard_atmosphere import standard

LEVELS = (10, 50, 100, 200, 300, 400, 500, 700, 850, 925, 1000)
# means; z is that of the standard atmosphere
VARIABLES = {"z": 0.0, "t": 250.0, "q": 5e-3, "w": 0.0, "d": 0.0, "u": 5.0, "v": 0.0}
SCATTER = {"z": 3e3, "t": 15.0, "q": 1e-3, "w": 0.3, "d": 3e-5, "u": 12.0, "v": 9.0}
STEPS = (0, 24, 48)
MEMBERS = 10


def shape_of(small: bool) -> tuple[int, int]:
    """Rows and columns: 0.5 degrees, or 2 to try things out."""
    return (91, 180) if small else (361, 720)


def grib(
    path: Path,
    small: bool,
    names: Sequence[str] = tuple(VARIABLES),
    steps: Sequence[int] = STEPS,
) -> None:
    """One date, member after member as archives give it."""
    import eccodes

    rows, columns = shape_of(small)
    rng = np.random.default_rng(1)
    handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib1")
    spacing = 360 / columns
    keys = {
        "Ni": columns, "Nj": rows, "latitudeOfFirstGridPointInDegrees": 90.0,
        "longitudeOfFirstGridPointInDegrees": 0.0, "latitudeOfLastGridPointInDegrees": -90.0,
        "longitudeOfLastGridPointInDegrees": 360.0 - spacing,
        "iDirectionIncrementInDegrees": spacing, "jDirectionIncrementInDegrees": spacing,
        "dataDate": 20180104, "dataTime": 0, "bitsPerValue": 16, "setLocalDefinition": 1,
        "localDefinitionNumber": 1, "class": "od", "stream": "enfo", "expver": "0001",
        "numberOfForecastsInEnsemble": MEMBERS,
    }  # fmt: skip
    for key, value in keys.items():
        eccodes.codes_set(handle, key, value)
    noise = rng.normal(size=(rows, columns))
    waves = np.sin(np.arange(rows) / 20)[:, None] + np.cos(np.arange(columns) / 30)
    with path.open("wb") as out:
        for number in range(MEMBERS):
            for step in steps:
                for name in names:
                    mean = VARIABLES[name]
                    for level in LEVELS:
                        eccodes.codes_set(handle, "type", "pf" if number else "cf")
                        eccodes.codes_set(handle, "number", number)
                        eccodes.codes_set(handle, "step", step)
                        eccodes.codes_set(handle, "shortName", name)
                        eccodes.codes_set(handle, "level", level)
                        shift = rng.integers(0, columns)
                        field = waves + 0.1 * np.roll(noise, shift, axis=1)
                        centre = GRAVITY * standard(level)[0] if name == "z" else mean
                        field = centre + 0.5 * SCATTER[name] * field
                        if name == "q":
                            field = np.abs(field)
                        eccodes.codes_set_values(handle, field.ravel())
                        eccodes.codes_write(handle, out)


def redated(source: Path, target: Path, date: int) -> None:
    """The same fields under another date (YYYYMMDD), with 8 bits a value to save disk."""
    import eccodes

    with source.open("rb") as stream, target.open("wb") as out:
        while (handle := eccodes.codes_grib_new_from_file(stream)) is not None:
            eccodes.codes_set(handle, "dataDate", date)
            values = eccodes.codes_get_values(handle)
            eccodes.codes_set(handle, "bitsPerValue", 8)
            eccodes.codes_set_values(handle, values)  # else the old ones are taken for more
            eccodes.codes_write(handle, out)
            eccodes.codes_release(handle)


def _coords(dates: int, small: bool) -> dict[str, Any]:
    rows, columns = shape_of(small)
    return {
        "time": np.arange(dates, dtype=np.int32),
        "number": np.arange(MEMBERS),
        "level": np.array(LEVELS, dtype=np.int32),
        "latitude": np.linspace(90, -90, rows),
        "longitude": np.arange(columns) * 360 / columns,
    }


def netcdf(path: Path, dates: int, small: bool, layout: Literal["contiguous", "dates"]) -> None:
    """One variable in one file, int16 packed; ``contiguous`` in degrees Celsius.

    ``dates``: chunks run over all dates and are small in every other direction, as they are made
    for time series. 70 dates make 4 GB.
    """
    import netCDF4

    coords = _coords(dates, small)
    shape = tuple(len(values) for values in coords.values())
    chunks = (dates, 1, 1, *(-(-n // 4) for n in shape[3:]))
    units = {"latitude": "degrees_north", "longitude": "degrees_east", "level": "hPa"}
    units["time"] = "days since 2018-01-04"
    with netCDF4.Dataset(path, "w") as file:
        for name, values in coords.items():
            file.createDimension(name, len(values))
            file.createVariable(name, values.dtype, (name,))[:] = values
            file[name].units = units.get(name, "1")
        file["time"].standard_name = "forecast_reference_time"
        step = file.createVariable("step", "i4", ())
        step[...] = 48
        step.setncatts({"units": "hours", "standard_name": "forecast_period"})
        contiguous = layout == "contiguous"
        t = file.createVariable(
            "t",
            "i2",
            tuple(coords),
            contiguous=contiguous,
            chunksizes=None if contiguous else chunks,
        )
        units_of_t, offset = ("degC", 0.0) if contiguous else ("K", 273.15)
        t.setncatts({"units": units_of_t, "scale_factor": 0.002, "add_offset": offset})
        t.coordinates = "step"
        t.set_auto_maskandscale(False)
        t.set_var_chunk_cache(size=512_000_000, nelems=1_000_003)
        waves = np.add.outer(np.sin(np.arange(shape[3]) / 20), np.cos(np.arange(shape[4]) / 30))
        field = (500 * np.rint(10 * waves)).astype(np.int16)  # few values: a small archive
        for number in range(MEMBERS):
            for level in range(len(LEVELS)):
                shifts = number + 10 * np.arange(dates)
                t[:, number, level] = np.stack([np.roll(field, shift, 1) for shift in shifts])


def zarr(path: Path, dates: int, small: bool) -> None:
    """Four variables of one chunk each: 30 dates make one of 312 MB."""
    import xarray as xr

    coords = _coords(dates, small)
    del coords["level"]
    shape = tuple(len(values) for values in coords.values())
    waves = np.add.outer(np.sin(np.arange(shape[2]) / 20), np.cos(np.arange(shape[3]) / 30))
    rng = np.random.default_rng(2)
    scatter = rng.normal(size=shape[:2]).astype(np.float32)[..., None, None]
    coords["time"] = np.datetime64("2018-01-04", "ns") + coords["time"] * np.timedelta64(1, "D")
    coords["step"] = np.timedelta64(48, "h").astype("timedelta64[ns]")
    fields = {"t2m": ("K", 280), "msl": ("Pa", 1e5), "u10": ("m s-1", 0), "v10": ("m s-1", 0)}
    for number, (name, (units, mean)) in enumerate(fields.items()):
        values = (mean + 5 * waves).astype(np.float32) + scatter
        ds = xr.Dataset({name: (("time", "number", "latitude", "longitude"), values)}, coords)
        ds[name].attrs["units"] = units
        encoding = {name: {"chunks": shape}}
        ds.to_zarr(path, mode="a" if number else "w", encoding=encoding, consolidated=False)
