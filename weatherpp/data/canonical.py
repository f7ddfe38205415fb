"""From the names, units and shapes of any source to the canonical Dataset.

Nothing is guessed: what cannot be told for certain is refused with a line that says what to do.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr

from weatherpp.conventions import (
    ACCUMULATED,
    ALOFT,
    COORD_STANDARD,
    COORDS,
    FORECAST_DIMS,
    NAMES,
    NEAR_GROUND,
    STANDARD,
    VARIABLES,
    WINDOWS,
    Kind,
    annotate,
    grid_dims,
    listed,
)
from weatherpp.data.amounts import (
    ATTRS,
    bounds_as_ranges,
    bounds_of_times,
    summed_over,
    with_time_bounds,
)
from weatherpp.data.grids import on_grid, sorted_along
from weatherpp.data.repeats import once
from weatherpp.data.times import timed
from weatherpp.data.values import convert_units, masked
from weatherpp.errors import InputError

MEASURED = {"latitude", "longitude", "altitude", "y", "x", "level"}


def canonicalise(
    ds: xr.Dataset, where: str, kind: Kind = "forecast", lagged: bool = False
) -> xr.Dataset:
    """Bring a Dataset of another source into canonical form; lazy arrays stay lazy.

    Parameters
    ----------
    ds
        As read from a file, times decoded.
    where
        Names the file in error messages.
    kind
        ``forecast`` (dims time, step and, if there are members, number), ``analysis``
        (dim valid_time) or ``static`` (the grid only).
    lagged
        Members of a forecast may start at different times; those valid at the same time are one
        ensemble, dated by its latest start.

    Raises
    ------
    InputError
        Something is missing, contradictory, or cannot be told for certain.
    """
    ds = ds.assign({name: masked(da, where) for name, da in ds.data_vars.items()})
    ds = _rename_coords(ds, where)
    for name in MEASURED & set(ds.coords):
        if ds[name].dtype.kind not in "iuf":
            raise InputError(
                f"{where}: '{name}' holds {ds[name].dtype}, not numbers; mend the file"
            )
    indices = _indices(ds)
    ds = _without_place(ds[indices]) if indices else on_grid(ds, where)
    ds = _level(ds, where)
    ds = _rename_variables(ds, where, kind)
    ds = timed(ds, where, kind, lagged)
    ds = _number(ds, where, kind)
    dims = [d for d in (*FORECAST_DIMS, "valid_time", "level", *grid_dims(ds)) if d in ds.dims]
    kept = {*dims, *FORECAST_DIMS, "valid_time", "level", "latitude", "longitude", "altitude"}
    ds = ds.drop_vars([c for c in ds.coords if c not in kept | {"y", "x", "crs"}])
    extra = sorted(str(dim) for dim in set(ds.dims) - set(dims))
    if extra:
        raise InputError(f"{where}: unknown dimension '{extra[0]}'; select or rename it first")
    if kind == "analysis":
        ds = once(ds, where)
    for dim in ("time", "valid_time", "step", "number", "level"):
        if dim in ds.dims:
            ds = sorted_along(ds, dim, where)
    ds = ds.transpose(*dims)
    if kind == "forecast":
        ds = ds.assign_coords(valid_time=ds["time"] + ds["step"])
    return annotate(ds)


def _rename_coords(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Bounds dropped, grid mapping and coordinates renamed to their roles."""
    ds = _with_bounds(ds)
    bounds = {str(v.attrs["bounds"]) for v in ds.variables.values() if "bounds" in v.attrs}
    ds = ds.drop_vars([n for n in ds.variables if n in bounds or str(n).endswith("_bnds")])
    mapping = [n for n, v in ds.variables.items() if "grid_mapping_name" in v.attrs]
    if len(mapping) > 1:
        raise InputError(f"{where}: {len(mapping)} grid mappings; split the file by grid")
    if mapping:
        crs = xr.DataArray(np.int32(0), attrs=ds[mapping[0]].attrs)
        ds = ds.drop_vars(mapping).assign_coords(crs=crs)
    aliases = {alias: role for role, names in COORDS.items() for alias in (role, *names)}
    for name in ds.coords:
        ds[name].attrs.pop("bounds", None)
    renames: dict[Hashable, str] = {}
    for name in [*ds.coords, *(dim for dim in ds.dims if dim not in ds.coords)]:
        attrs = ds[name].attrs if name in ds.coords else {}
        if name == "y" and str(attrs.get("units", "")).startswith("degree"):
            role: str | None = "latitude" if attrs.get("standard_name") is None else "y"
        elif name == "x" and str(attrs.get("units", "")).startswith("degree"):
            role = "longitude" if attrs.get("standard_name") is None else "x"
        else:
            role = COORD_STANDARD.get(str(attrs.get("standard_name"))) or aliases.get(str(name))
        if role is None:
            continue
        if role in renames.values():
            other = next(n for n, r in renames.items() if r == role)
            raise InputError(f"{where}: '{other}' and '{name}' both are {role}; drop one")
        renames[name] = role
        if role == "level" and "Pa" in str(name) and "units" not in attrs:
            unit = "hPa" if "hPa" in str(name) else "Pa"
            ds[name] = ds[name].assign_attrs(units=unit)
    taken = {role for name, role in renames.items() if name != role} & set(map(str, ds.variables))
    clash = taken - {str(name) for name in renames}
    if clash:
        raise InputError(f"{where}: the name '{min(clash)}' is taken by another variable")
    return ds.rename({name: role for name, role in renames.items() if name != role})


def _with_bounds(ds: xr.Dataset) -> xr.Dataset:
    """Bounds of lead and valid times noted on the fields, to tell what amounts are summed over."""
    for name, coord in ds.coords.items():
        bounds = coord.attrs.get("bounds")
        if bounds not in ds.variables:
            continue
        standard = coord.attrs.get("standard_name")
        noted: dict[str, Any] = {}
        if standard == "forecast_period":
            noted["step_ranges"] = bounds_as_ranges(ds[bounds], str(coord.attrs.get("units", "")))
        elif name in ("time", "valid_time") and standard in (None, "time"):
            noted |= bounds_of_times(coord, ds[bounds])
        fields = {n: da for n, da in ds.data_vars.items() if name in da.coords and n != bounds}
        ds = ds.assign({n: da.assign_attrs(noted) for n, da in fields.items()})
    return ds


def _indices(ds: xr.Dataset) -> list[Hashable]:
    """Variables that are one number for the whole circulation, if the Dataset has no grid."""
    if {"latitude", "longitude", "y", "x", "station"} & {*ds.dims, *ds.coords}:
        return []
    names = {name: canonical_name(str(name), da) for name, da in ds.data_vars.items()}
    return [key for key, name in names.items() if name in VARIABLES and VARIABLES[name].placeless]


def _without_place(ds: xr.Dataset) -> xr.Dataset:
    """One station whose latitude and longitude are not known, because there are none."""
    nowhere = {name: ("station", [np.nan]) for name in ("latitude", "longitude")}
    return ds.expand_dims(station=["index"]).assign_coords(nowhere)


def _level(ds: xr.Dataset, where: str) -> xr.Dataset:
    if "level" not in ds.coords:
        return ds
    level = ds["level"]
    units = str(level.attrs.get("units", "hPa"))
    factor = {"hPa": 1.0, "mbar": 1.0, "mb": 1.0, "millibar": 1.0, "millibars": 1.0}
    factor |= {"Pa": 0.01}
    if units not in factor:
        raise InputError(f"{where}: levels are in '{units}'; pressure levels in hPa are needed")
    pressure = level.values.astype(float) * factor[units]
    if np.abs(pressure - np.rint(pressure)).max() > 1e-6 or pressure.min() < 1:
        raise InputError(f"{where}: levels {listed(np.atleast_1d(pressure))} are not whole hPa")
    return ds.assign_coords(level=(level.dims, np.rint(pressure).astype("int64")))


def canonical_name(name: str, da: xr.DataArray) -> str:
    """Canonical name of a variable, or its own name if it is not known."""
    if name in VARIABLES:
        return name
    standard = str(da.attrs.get("standard_name", ""))
    if standard in NEAR_GROUND:
        for coord in ("height", "heightAboveGround"):
            short, (low, high) = NEAR_GROUND[standard]
            if coord in da.coords and da[coord].ndim == 0 and low <= float(da[coord]) <= high:
                return short
    if name in NAMES:
        return NAMES[name]
    if standard in ALOFT and "level" in da.coords:
        return ALOFT[standard]
    return STANDARD.get(standard, name)


def _rename_variables(ds: xr.Dataset, where: str, kind: Kind) -> xr.Dataset:
    out: dict[str, xr.DataArray] = {}
    for key, da in ds.data_vars.items():
        if not set(grid_dims(ds)) <= set(da.dims):
            continue  # not a field
        name = canonical_name(str(key), da)
        if name in out:
            raise InputError(f"{where}: two variables are {name}, '{key}' is one; choose by name")
        if name in VARIABLES:
            da = with_time_bounds(da) if name in ACCUMULATED else da
            da = convert_units(da, name, where)
            if VARIABLES[name].aloft and "level" not in da.dims:
                if "level" not in da.coords:
                    raise InputError(f"{where}: {name} is not on a pressure level in hPa")
                da = da.expand_dims("level")
        attrs = {k: v for k, v in da.attrs.items() if not k.startswith("GRIB_")}
        attrs = {k: v for k, v in attrs.items() if k not in ATTRS}
        if name in ACCUMULATED:
            attrs |= summed_over(da, name, where, kind)
        if str(key) in WINDOWS:
            attrs["window"] = WINDOWS[str(key)]
        if "crs" in ds.coords:
            attrs["grid_mapping"] = "crs"
        da = da.drop_vars("level") if "level" not in da.dims and "level" in da.coords else da
        out[name] = da.assign_attrs(attrs)
        out[name].attrs = attrs
        # what the file said of packing and chunks does not hold for the archive
        out[name].encoding = {}
    if not out:
        raise InputError(f"{where}: no field on the grid; there are {listed(ds.data_vars)}")
    renamed = xr.Dataset(out, attrs={})
    starts = ds.coords.get("reference")
    if starts is not None and starts.ndim > 1 and "reference" not in renamed.coords:
        renamed = renamed.assign_coords(reference=starts)  # of runs, which no field has as such
    return renamed


def _number(ds: xr.Dataset, where: str, kind: Kind) -> xr.Dataset:
    if "number" in ds.dims and "number" not in ds.coords:
        raise InputError(f"{where}: members have no numbers; give the dimension a coordinate")
    if "number" not in ds.coords:
        return ds
    if kind == "analysis":
        if "number" in ds.dims and ds.sizes["number"] > 1:
            raise InputError(f"{where}: an analysis has no members, here are {ds.sizes['number']}")
        return ds.squeeze("number", drop=True) if "number" in ds.dims else ds.drop_vars("number")
    number = ds["number"]
    values = number.values
    try:
        if values.dtype.kind in "SUO":  # 1 as text; a name such as r1i1p1 is not a number
            values = values.astype("U").astype("float64")
        fault = values.dtype.kind not in "iuf" or bool((values != np.rint(values)).any())
    except ValueError:
        fault = True
    if fault:
        raise InputError(
            f"{where}: member numbers are not whole numbers ({listed(np.atleast_1d(values)[:3])})"
        )
    ds = ds.assign_coords(number=number.copy(data=values.astype("int64")))
    return ds if "number" in ds.dims else ds.expand_dims("number")
