"""The canonical Dataset: names, units, coordinates, and how other sources spell them.

A canonical forecast has the dimensions ``time, step, number, level, latitude, longitude``
(``level`` only on variables of the upper air; ``y, x`` with two-dimensional ``latitude`` and
``longitude`` for projected grids; ``station`` for point data), an analysis has ``valid_time``
in place of the first three. Longitudes ascend within [0, 360); only a region across Greenwich has
negative ones in its western part, so that neighbours stand side by side. Names are those of
cfgrib and ECMWF, units are SI.

This is the only module that knows how other sources spell all this;
:func:`weatherpp.data.canonical.canonicalise` applies it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

# The eccodes wheel loads its own libproj for the whole process; pyproj (so cartopy too) crashes
# unless it was there first. xarray loads eccodes on its own when it looks for an engine.
import pyproj  # noqa: F401
import xarray as xr

from weatherpp.errors import InputError

Kind = Literal["forecast", "analysis", "static"]
GRAVITY = 9.80665
FORECAST_DIMS = ("time", "step", "number")
GRIDS = (("latitude", "longitude"), ("y", "x"), ("station",))
GAPS = "expected"  # value of a variable's attribute ``gaps`` where missing values are meant


class Variable(NamedTuple):
    """What is fixed for a variable.

    ``aloft`` tells that it lives on pressure levels, ``placeless`` that it is one number for the
    whole circulation. ``standard_name`` is empty where CF has none.
    """

    units: str
    standard_name: str
    long_name: str
    aloft: bool = False
    placeless: bool = False


VARIABLES: dict[str, Variable] = {
    "z": Variable("m2 s-2", "geopotential", "geopotential", True),
    "t": Variable("K", "air_temperature", "temperature", True),
    "u": Variable("m s-1", "eastward_wind", "eastward wind", True),
    "v": Variable("m s-1", "northward_wind", "northward wind", True),
    "w": Variable("Pa s-1", "lagrangian_tendency_of_air_pressure", "vertical velocity", True),
    "q": Variable("kg kg-1", "specific_humidity", "specific humidity", True),
    "r": Variable("%", "relative_humidity", "relative humidity", True),
    "d": Variable("s-1", "divergence_of_wind", "divergence", True),
    "vo": Variable("s-1", "atmosphere_relative_vorticity", "relative vorticity", True),
    "t2m": Variable("K", "air_temperature", "2 metre temperature"),
    "d2m": Variable("K", "dew_point_temperature", "2 metre dewpoint temperature"),
    "mx2t": Variable("K", "air_temperature", "maximum 2 metre temperature"),
    "mn2t": Variable("K", "air_temperature", "minimum 2 metre temperature"),
    "skt": Variable("K", "surface_temperature", "skin temperature"),
    "sst": Variable("K", "sea_surface_temperature", "sea surface temperature"),
    "msl": Variable("Pa", "air_pressure_at_mean_sea_level", "mean sea level pressure"),
    "sp": Variable("Pa", "surface_air_pressure", "surface pressure"),
    "u10": Variable("m s-1", "eastward_wind", "10 metre eastward wind"),
    "v10": Variable("m s-1", "northward_wind", "10 metre northward wind"),
    "si10": Variable("m s-1", "wind_speed", "10 metre wind speed"),
    "fg10": Variable("m s-1", "wind_speed_of_gust", "10 metre wind gust"),
    "tp": Variable("m", "lwe_thickness_of_precipitation_amount", "total precipitation"),
    "lsp": Variable(
        "m", "lwe_thickness_of_stratiform_precipitation_amount", "large-scale precipitation"
    ),
    "tcw": Variable("kg m-2", "atmosphere_mass_content_of_water", "total column water"),
    "tcwv": Variable(
        "kg m-2", "atmosphere_mass_content_of_water_vapor", "total column water vapour"
    ),
    "tcc": Variable("1", "cloud_area_fraction", "total cloud cover"),
    "cape": Variable(
        "J kg-1",
        "atmosphere_convective_available_potential_energy",
        "convective available potential energy",
    ),
    "orog": Variable("m", "surface_altitude", "height of the surface"),
    "lsm": Variable("1", "land_area_fraction", "fraction of land"),
    "rmm1": Variable("1", "", "first Madden-Julian index (RMM1)", placeless=True),
    "rmm2": Variable("1", "", "second Madden-Julian index (RMM2)", placeless=True),
}
ACCUMULATED = ("tp", "lsp")  # amounts, summed over time
YEARS = range(1678, 2262)  # those that times in nanoseconds hold from beginning to end
REAL_CALENDARS = ("standard", "gregorian", "proleptic_gregorian")

# Names of other sources. Gusts are the maximum since the last output, so the window stays in
# an attribute. Precipitation as a mass and as a height of water is one thing in two units.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "t2m": ("2t", "2m_temperature", "tas", "T2M", "temperature_2m",),
    "d2m": ("2d", "2m_dewpoint_temperature",),
    "u10": ("10u", "10m_u_component_of_wind", "uas",),
    "v10": ("10v", "10m_v_component_of_wind", "vas",),
    "si10": ("10si", "sfcWind",),
    "fg10": ("i10fg", "10fg", "10fg3", "10fg6", "fg10_3", "fg10_6", "gust",),
    "msl": ("mean_sea_level_pressure", "psl", "prmsl",),
    "tp": ("total_precipitation", "pr",),
    "rmm1": ("RMM1",),
    "rmm2": ("RMM2",),
    "z": ("geopotential", "gh", "zg", "geopotential_height",),
    "t": ("temperature", "ta",),
    "u": ("u_component_of_wind", "ua",),
    "v": ("v_component_of_wind", "va",),
    "q": ("hus", "specific_humidity",),
    "w": ("wap", "vertical_velocity",),
    "r": ("relative_humidity", "hur",),
    "tcw": ("total_column_water",),
    "sst": ("sea_surface_temperature", "tos",),
    "skt": ("surface_temperature", "ts",),
    "lsm": ("land_binary_mask", "land_sea_mask", "sftlf",),
    "orog": ("surface_altitude",),
}  # fmt: skip
NAMES = {alias: name for name, aliases in SPELLINGS.items() for alias in aliases}
WINDOWS = {"10fg3": "3 h", "fg10_3": "3 h", "10fg6": "6 h", "fg10_6": "6 h"}
# Standard names that mean one variable, whatever the level; the rest depends on the height.
STANDARD: dict[str, str] = {
    "air_pressure_at_mean_sea_level": "msl",
    "air_pressure_at_sea_level": "msl",
    "surface_air_pressure": "sp",
    "surface_temperature": "skt",
    "sea_surface_temperature": "sst",
    "wind_speed_of_gust": "fg10",
    "geopotential": "z",
    "geopotential_height": "z",
    "land_binary_mask": "lsm",
    "land_area_fraction": "lsm",
    "surface_altitude": "orog",
    "precipitation_amount": "tp",
    "lwe_thickness_of_precipitation_amount": "tp",
}
ALOFT = {v.standard_name: name for name, v in VARIABLES.items() if v.aloft}
NEAR_GROUND = {  # standard name -> (name, heights in metres)
    "air_temperature": ("t2m", (1.25, 2.5)),
    "dew_point_temperature": ("d2m", (1.25, 2.5)),
    "eastward_wind": ("u10", (9.0, 11.0)),
    "northward_wind": ("v10", (9.0, 11.0)),
    "wind_speed": ("si10", (9.0, 11.0)),
}
# canonical unit -> spelling -> (factor, offset)
UNITS: dict[str, dict[str, tuple[float, float]]] = {
    "K": {"kelvin": (1, 0), "degC": (1, 273.15), "deg_C": (1, 273.15), "C": (1, 273.15),
          "celsius": (1, 273.15), "Celsius": (1, 273.15), "degrees_celsius": (1, 273.15),
          "°C": (1, 273.15)},
    "m2 s-2": {"m2/s2": (1, 0), "m2s-2": (1, 0), "J kg-1": (1, 0), "gpm": (GRAVITY, 0),
               "m": (GRAVITY, 0), "dam": (10 * GRAVITY, 0), "gpdam": (10 * GRAVITY, 0)},
    "Pa": {"hPa": (100, 0), "mbar": (100, 0), "mb": (100, 0), "millibar": (100, 0)},
    "m": {"mm": (1e-3, 0), "kg m-2": (1e-3, 0), "kg/m2": (1e-3, 0), "metre": (1, 0),
          "meters": (1, 0), "m of water equivalent": (1, 0)},
    "m s-1": {"m/s": (1, 0), "ms-1": (1, 0), "km/h": (1 / 3.6, 0), "km h-1": (1 / 3.6, 0),
              "kt": (1852 / 3600, 0), "knots": (1852 / 3600, 0)},
    "kg kg-1": {"kg/kg": (1, 0), "1": (1, 0), "g kg-1": (1e-3, 0), "g/kg": (1e-3, 0)},
    "%": {"percent": (1, 0), "1": (100, 0)},
    "1": {"(0 - 1)": (1, 0), "0 - 1": (1, 0), "dimensionless": (1, 0), "unitless": (1, 0),
          "%": (0.01, 0)},
    "Pa s-1": {"Pa/s": (1, 0)},
    "s-1": {"1/s": (1, 0)},
    "kg m-2": {"kg/m2": (1, 0), "mm": (1, 0)},
    "J kg-1": {"J/kg": (1, 0)},
}  # fmt: skip
# Rates whose product with a time is an amount of water: spelling -> metres a second.
RATES: dict[str, float] = {
    **dict.fromkeys(("kg m-2 s-1", "kg/m2/s", "mm s-1", "mm/s"), 1e-3),
    **dict.fromkeys(("mm h-1", "mm/h", "mm hr-1", "mm/hr"), 1e-3 / 3600),
    **dict.fromkeys(("mm day-1", "mm/day", "mm d-1", "mm/d"), 1e-3 / 86400),
    **dict.fromkeys(("kg m-2 day-1", "kg m-2 d-1"), 1e-3 / 86400),
    "m s-1": 1.0,
}
COORDS: dict[str, tuple[str, ...]] = {
    "number": ("member", "realization", "ensemble", "ensemble_member", "ens", "M"),
    "step": ("lead_time", "prediction_timedelta", "leadtime", "lead", "forecast_period", "L",
             "ftime"),
    "reference": ("forecast_reference_time", "init_time", "initial_time", "initialization",
                  "init", "sdate", "S"),
    "level": ("isobaricInhPa", "isobaricInPa", "pressure_level", "pressure", "plev"),
    "latitude": ("lat", "nav_lat", "station_latitude"),
    "longitude": ("lon", "long", "nav_lon", "station_longitude"),
    "altitude": ("station_altitude",),
    "station": ("station_id",),
    "y": ("projection_y_coordinate", "grid_latitude", "rlat", "south_north"),
    "x": ("projection_x_coordinate", "grid_longitude", "rlon", "west_east"),
}  # fmt: skip
COORD_STANDARD = {
    "realization": "number",
    "forecast_period": "step",
    "forecast_reference_time": "reference",
    "air_pressure": "level",
    "latitude": "latitude",
    "longitude": "longitude",
    "projection_y_coordinate": "y",
    "projection_x_coordinate": "x",
    "grid_latitude": "y",
    "grid_longitude": "x",
}
COORD_ATTRS: dict[str, dict[str, str]] = {
    "time": {"standard_name": "forecast_reference_time", "long_name": "initial time"},
    "valid_time": {"standard_name": "time", "long_name": "valid time"},
    "step": {"standard_name": "forecast_period", "long_name": "lead time"},
    "number": {"standard_name": "realization", "long_name": "ensemble member", "units": "1"},
    "level": {
        "standard_name": "air_pressure",
        "long_name": "pressure",
        "units": "hPa",
        "positive": "down",
    },
    "latitude": {
        "standard_name": "latitude",
        "long_name": "latitude",
        "units": "degrees_north",
    },
    "longitude": {
        "standard_name": "longitude",
        "long_name": "longitude",
        "units": "degrees_east",
    },
    "altitude": {"standard_name": "altitude", "long_name": "altitude", "units": "m"},
    "station": {"cf_role": "timeseries_id", "long_name": "station"},
}
LEAD_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}


def grid_dims(data: xr.Dataset | xr.DataArray) -> tuple[str, ...]:
    """Names of the horizontal dimensions, in canonical order; empty if there is no grid."""
    return next((grid for grid in GRIDS if all(dim in data.dims for dim in grid)), ())


def exists_on(da: xr.DataArray, what: Literal["levels", "steps"]) -> list[float]:
    """Levels (hPa) or lead times (hours) on which a variable exists; the rest is NaN.

    Variables of one Dataset share their coordinates. One that lacks some levels or lead times
    says so in its attribute ``levels`` or ``steps``; without it, it exists on all.
    """
    dim = what[:-1]
    told = [float(value) for value in np.atleast_1d(da.attrs.get(what, []))]
    if dim not in da.coords:
        return told
    values = np.atleast_1d(da[dim].values)
    there = [float(hours(value) if what == "steps" else value) for value in values]
    return [value for value in told if value in there] if what in da.attrs else there


def has_gaps(da: xr.DataArray) -> bool:
    """Whether the variable says that some of its values are missing, and that this is meant."""
    return da.attrs.get("gaps") == GAPS


def hours(step: np.timedelta64 | pd.Timedelta) -> float:
    """Lead time in hours."""
    return float(pd.Timedelta(step) / pd.Timedelta(hours=1))


def label_text(label: object) -> str:
    """A label of any dimension for a message: lead time, date, member, level."""
    if isinstance(label, np.timedelta64):
        return f"{hours(label):g} h"
    if isinstance(label, np.datetime64):
        return f"{pd.Timestamp(label):%Y-%m-%d %H:%M}"
    return str(label)


def annotate(ds: xr.Dataset) -> xr.Dataset:
    """The Dataset with ``units``, ``standard_name`` and ``long_name`` of all known names.

    Values are not touched, so they must be in canonical units already.
    """
    ds = ds.copy(deep=False)
    for name in ds.data_vars:
        if name in VARIABLES:
            known = VARIABLES[str(name)]
            attrs = {"units": known.units, "long_name": known.long_name}
            if known.standard_name:
                attrs["standard_name"] = known.standard_name
            ds[name] = ds[name].assign_attrs(attrs)
    for name, attrs in COORD_ATTRS.items():
        if name in ds.coords:
            # replaced, not added to: units of times are an affair of the file they came from
            ds[name].attrs = dict(attrs)
            ds[name].encoding = {}
    return ds


def listed(items: Iterable[object]) -> str:
    """Items as sorted text for a message."""
    return ", ".join(sorted(str(item) for item in items)) or "none"


def check(ds: xr.Dataset, where: str, kind: Kind = "forecast") -> None:
    """Refuse a Dataset that is not canonical. Looks at coordinates and attributes only.

    Raises
    ------
    InputError
        With the first fault found.
    """
    needed = {"forecast": FORECAST_DIMS, "analysis": ("valid_time",), "static": ()}[kind]
    for dim in needed:
        if dim not in ds.dims:
            hint = "; it has no ensemble members" if dim == "number" else ""
            raise InputError(f"{where}: the {kind} lacks the dimension '{dim}'{hint}")
    if not ds.data_vars:
        raise InputError(f"{where}: the {kind} has no variable")
    if not grid_dims(ds):
        raise InputError(f"{where}: the {kind} has no grid; dimensions are {listed(ds.dims)}")
    levels = ["level"] if "level" in ds.dims else []
    for dim in (*needed, *levels, "latitude", "longitude"):
        if dim not in ds.coords:  # xarray would count from 0 instead
            raise InputError(f"{where}: the {kind} has no coordinate '{dim}'")
    for dim in (*needed, *levels):
        values = ds[dim].values
        if values.size == 0 or (values[1:] <= values[:-1]).any():
            raise InputError(f"{where}: '{dim}' is not ascending and unique")
    if "latitude" in ds.dims and (np.diff(ds["latitude"].values) >= 0).any():
        raise InputError(f"{where}: latitude must run from north to south")
    if "longitude" in ds.dims:
        lon = ds["longitude"].values
        steps = np.diff(lon)
        part = 360 - (lon.max() - lon.min()) > steps.max(initial=0.0)
        across = part and lon.min() < 0 <= lon.max()
        if (steps <= 0).any() or not (across or 0 <= lon.min() <= lon.max() < 360):
            raise InputError(
                f"{where}: longitude must ascend within [0, 360), or from west to east of Greenwich"
            )
    for name, da in ds.data_vars.items():
        missing = [dim for dim in (*needed, *grid_dims(ds)) if dim not in da.dims]
        if missing:
            raise InputError(f"{where}: {name} lacks the dimension '{missing[0]}'")
        if name in VARIABLES and da.attrs.get("units") != VARIABLES[str(name)].units:
            raise InputError(
                f"{where}: {name} is in '{da.attrs.get('units')}', "
                f"not in {VARIABLES[str(name)].units}"
            )
