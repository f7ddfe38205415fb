"""Products as GRIB 2, for those whose chain takes nothing else.

Mean and spread are derived forecasts (product definition template 4.2), quantiles percentiles
(4.6), probabilities those of more than a lower limit (4.5), members single forecasts of an ensemble
(4.1); numbers of parameters and levels are those of the WMO's code tables 4.2 and 4.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import eccodes
import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.conventions import grid_dims
from weatherpp.errors import InputError
from weatherpp.files import partial_name
from weatherpp.recipe import Target

ALOFT, SURFACE, SEA, HEIGHT = 100, 1, 101, 103
MISSING = 9999.0
BITS = 24  # a value; float32 has as many
MEAN, SPREAD, ABOVE = 0, 4, 3  # code tables 4.7 and 4.9
MOST = 2**31 - 1  # of a scaled value


class Parameter(NamedTuple):
    """Category and number of the parameter in discipline 0, kind and value of its level."""

    category: int
    number: int
    surface: int = ALOFT
    height: int = 0


PARAMETERS = {
    "z": Parameter(3, 4),
    "t": Parameter(0, 0),
    "u": Parameter(2, 2),
    "v": Parameter(2, 3),
    "w": Parameter(2, 8),
    "q": Parameter(1, 0),
    "r": Parameter(1, 1),
    "t2m": Parameter(0, 0, HEIGHT, 2),
    "d2m": Parameter(0, 6, HEIGHT, 2),
    "u10": Parameter(2, 2, HEIGHT, 10),
    "v10": Parameter(2, 3, HEIGHT, 10),
    "si10": Parameter(2, 1, HEIGHT, 10),
    "msl": Parameter(3, 1, SEA),
    "sp": Parameter(3, 0, SURFACE),
}
"""Instantaneous fields; of sums and extremes GRIB wants to know the interval, too."""


def write_grib(product: xr.Dataset, path: Path, target: Target) -> None:
    """Write a product of one initial time; whole or not at all.

    Raises
    ------
    InputError
        The variable is not in :data:`PARAMETERS`, or the grid is not one of equal steps of latitude
        and longitude.
    """
    if target.variable not in PARAMETERS:
        known = ", ".join(sorted(PARAMETERS))
        raise InputError(f"{path}: {target.variable} is not written as GRIB; there are {known}")
    common = {**_grid(product, path), **_about(product, target)}
    with partial_name(path) as partial, partial.open("wb") as stream:
        for template, keys, field in _messages(product):
            handle = eccodes.codes_grib_new_from_samples("GRIB2")
            try:
                eccodes.codes_set(handle, "productDefinitionTemplateNumber", template)
                for key, value in {**common, **keys}.items():
                    eccodes.codes_set(handle, key, value)
                values = field.values.astype(np.float64).ravel()
                eccodes.codes_set(handle, "bitmapPresent", int(np.isnan(values).any()))
                eccodes.codes_set(handle, "missingValue", MISSING)
                values = np.where(np.isnan(values), MISSING, values)
                eccodes.codes_set(handle, "bitsPerValue", BITS)
                eccodes.codes_set_values(handle, values)
                eccodes.codes_write(handle, stream)
            finally:
                eccodes.codes_release(handle)


def _messages(product: xr.Dataset) -> Iterator[tuple[int, dict[str, Any], xr.DataArray]]:
    """Template, keys and field of each message."""
    ds = product.isel(time=0)
    count = len(str(product.attrs["members_used"]).split())
    size = {"numberOfForecastsInEnsemble": count}
    for name, kind in (("mean", MEAN), ("spread", SPREAD)):
        if name in ds:
            yield 2, {"derivedForecast": kind, **size}, ds[name]
    for at, level in enumerate(ds.get("quantile", xr.DataArray([])).values):
        if "quantiles" in ds:
            keys = {"percentileValue": round(100 * float(level))}
            yield 6, keys, ds["quantiles"].isel(quantile=at)
    thresholds: list[float] = ds["threshold"].values.tolist() if "exceedance" in ds else []
    for at, threshold in enumerate(thresholds):
        factor, scaled = _scaled(threshold)
        keys = {
            "forecastProbabilityNumber": at + 1,
            "totalNumberOfForecastProbabilities": len(thresholds),
            "probabilityType": ABOVE,
            "scaleFactorOfLowerLimit": factor,
            "scaledValueOfLowerLimit": scaled,
        }
        yield 5, keys, ds["exceedance"].isel(threshold=at)
    if "members" in ds:
        for at, number in enumerate(ds["number"].values):
            keys = {"perturbationNumber": int(number), "typeOfEnsembleForecast": 4}
            yield 1, {**keys, **size}, ds["members"].isel(number=at)


def _scaled(value: float) -> tuple[int, int]:
    """Power of ten and whole number of a limit, which GRIB gives so; six decimals at most."""
    factor = next((n for n in range(7) if round(value * 10**n, 9) % 1 == 0), 6)
    while abs(value) * 10**factor > MOST and factor > 0:
        factor -= 1
    return factor, round(value * 10**factor)


def _about(product: xr.Dataset, target: Target) -> dict[str, Any]:
    """Parameter, level and times."""
    parameter = PARAMETERS[target.variable]
    start = pd.Timestamp(product["time"].values[0])
    keys: dict[str, Any] = {
        "discipline": 0,
        "parameterCategory": parameter.category,
        "parameterNumber": parameter.number,
        "dataDate": int(f"{start:%Y%m%d}"),
        "dataTime": int(f"{start:%H%M}"),
        "significanceOfReferenceTime": 1,
        "indicatorOfUnitOfTimeRange": 0,
        "forecastTime": round(target.lead / pd.Timedelta(minutes=1)),
        "typeOfFirstFixedSurface": parameter.surface,
    }
    if parameter.surface in (ALOFT, HEIGHT):
        value = 100 * (target.level or 0) if parameter.surface == ALOFT else parameter.height
        keys |= {"scaleFactorOfFirstFixedSurface": 0, "scaledValueOfFirstFixedSurface": value}
    return keys


def _grid(product: xr.Dataset, path: Path) -> dict[str, Any]:
    """Keys of the grid."""
    if grid_dims(product) != ("latitude", "longitude"):
        raise InputError(f"{path}: GRIB is written for latitude/longitude grids alone")
    lat, lon = (product[name].values.astype(np.float64) for name in ("latitude", "longitude"))
    steps = [np.diff(axis) for axis in (lat, lon)]
    if any(each.size == 0 or np.ptp(each) > 1e-3 for each in steps):
        raise InputError(f"{path}: GRIB is written for grids of equal steps alone")
    down, along = (abs(float(each.mean())) for each in steps)
    return {
        "gridType": "regular_ll",
        "Ni": lon.size,
        "Nj": lat.size,
        "latitudeOfFirstGridPointInDegrees": float(lat[0]),
        "latitudeOfLastGridPointInDegrees": float(lat[-1]),
        "longitudeOfFirstGridPointInDegrees": float(lon[0] % 360),
        "longitudeOfLastGridPointInDegrees": float(lon[-1] % 360),
        "iDirectionIncrementInDegrees": along,
        "jDirectionIncrementInDegrees": down,
    }
