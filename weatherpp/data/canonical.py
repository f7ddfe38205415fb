"""From the names, units and shapes of any source to the canonical Dataset.

Nothing is guessed: what cannot be told for certain is refused with a line that says what to do.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
import xarray as xr
from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError

from weatherpp.conventions import (
    ALOFT,
    COORD_STANDARD,
    COORDS,
    FORECAST_DIMS,
    LEAD_UNITS,
    NAMES,
    NEAR_GROUND,
    STANDARD,
    UNITS,
    VARIABLES,
    WINDOWS,
    Kind,
    annotate,
    grid_dims,
    listed,
)
from weatherpp.errors import InputError


def canonicalise(ds: xr.Dataset, where: str, kind: Kind = "forecast") -> xr.Dataset:
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

    Raises
    ------
    InputError
        Something is missing, contradictory, or cannot be told for certain.
    """
    ds = _rename_coords(ds, where)
    ds = _grid(ds, where)
    ds = _level(ds, where)
    ds = _rename_variables(ds, where)
    ds = _times(ds, where, kind)
    ds = _number(ds, where, kind)
    dims = [d for d in (*FORECAST_DIMS, "valid_time", "level", *grid_dims(ds)) if d in ds.dims]
    kept = {*dims, *FORECAST_DIMS, "valid_time", "level", "latitude", "longitude", "altitude"}
    ds = ds.drop_vars([c for c in ds.coords if c not in kept | {"y", "x", "crs"}])
    extra = sorted(str(dim) for dim in set(ds.dims) - set(dims))
    if extra:
        raise InputError(f"{where}: unknown dimension '{extra[0]}'; select or rename it first")
    for dim in ("time", "valid_time", "step", "number", "level"):
        if dim in ds.dims:
            ds = _sorted(ds, dim, where)
    ds = ds.transpose(*dims)
    if kind == "forecast":
        ds = ds.assign_coords(valid_time=ds["time"] + ds["step"])
    return annotate(ds)


def _sorted(ds: xr.Dataset, dim: str, where: str, descending: bool = False) -> xr.Dataset:
    values = ds[dim].values
    unique, counts = np.unique(values, return_counts=True)
    if len(unique) < len(values):
        raise InputError(f"{where}: {dim} {unique[counts > 1][0]} stands twice; drop one")
    order = np.argsort(values)[::-1] if descending else np.argsort(values)
    return ds if np.array_equal(order, np.arange(order.size)) else ds.isel({dim: order})


def _rename_coords(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Bounds dropped, grid mapping and coordinates renamed to their roles."""
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


def _grid(ds: xr.Dataset, where: str) -> xr.Dataset:
    for name, dim in (("latitude", "y"), ("longitude", "x")):
        # one-dimensional coordinates named after an index, as in latitude(y)
        if name in ds.coords and ds[name].ndim == 1 and ds[name].dims != (name,):
            if ds[name].dims == (dim,):
                ds = ds.swap_dims({dim: name}).drop_vars(dim, errors="ignore")
            elif ds[name].dims != ("station",):
                raise InputError(
                    f"{where}: unstructured grid of {ds[name].size} points; interpolate it to "
                    "latitude and longitude first (at ECMWF: grid=0.5/0.5 in the request)"
                )
    if "y" in ds.dims and "x" in ds.dims and "latitude" not in ds.coords:
        ds = _locate(ds, where)
    if not grid_dims(ds):
        raise InputError(f"{where}: no latitude and longitude; there are {listed(ds.coords)}")
    for name in ("latitude", "longitude"):
        if name not in ds.coords:
            raise InputError(f"{where}: the grid has no {name}")
        ds[name] = ds[name].astype("float64")
        if not np.isfinite(ds[name].values).all():
            raise InputError(f"{where}: {name} has missing values")
    if float(np.abs(ds["latitude"].values).max()) > 90 + 1e-6:
        raise InputError(
            f"{where}: latitude beyond 90 degrees; are latitude and longitude swapped?"
        )
    ds = ds.assign_coords(longitude=_wrap(ds["longitude"]))
    if "latitude" in ds.dims:
        ds = _sorted(_sorted(ds, "latitude", where, descending=True), "longitude", where)
        ds = _whole(ds)
    return ds


def _wrap(longitude: xr.DataArray) -> xr.DataArray:
    """Longitude in [0, 360); values a rounding error below 360 are 0."""
    wrapped = longitude % 360.0
    return wrapped.where(wrapped < 360.0 - 1e-9, 0.0).assign_attrs(longitude.attrs)


def _whole(ds: xr.Dataset) -> xr.Dataset:
    """A region across Greenwich in one piece: its western part has negative longitudes."""
    lon = ds["longitude"].values
    cut = widest_gap(lon)
    if cut == lon.size - 1:
        return ds
    shifted = ds["longitude"].copy(data=np.where(np.arange(lon.size) > cut, lon - 360.0, lon))
    order = np.roll(np.arange(lon.size), lon.size - 1 - cut)
    return ds.assign_coords(longitude=shifted).isel(longitude=order)


def widest_gap(longitude: npt.NDArray[np.float64]) -> int:
    """Index of the point, of those ascending in [0, 360), that has the widest gap east of it.

    The last one if nothing lies across Greenwich, or points lie all round.
    """
    gaps = np.diff(longitude, append=longitude[:1] + 360.0)
    widest = int(np.argmax(gaps))
    # half as much again, as spacings of a whole circle differ by rounding
    return longitude.size - 1 if gaps[-1] * 1.5 >= gaps[widest] else widest


def _locate(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Two-dimensional latitude and longitude from the projection and its x and y."""
    if "crs" not in ds.coords or "y" not in ds.coords or "x" not in ds.coords:
        raise InputError(f"{where}: projected grid without latitude, longitude or grid mapping")
    try:
        source = CRS.from_cf(ds["crs"].attrs)
    except (CRSError, KeyError) as error:
        raise InputError(f"{where}: the grid mapping cannot be used ({error})") from None
    scale = {"m": 1.0, "km": 1000.0, "degrees": 1.0}.get(str(ds["x"].attrs.get("units", "m")))
    if scale is None:
        raise InputError(f"{where}: x is in '{ds['x'].attrs['units']}'; metres are needed")
    x, y = np.meshgrid(ds["x"].values.astype(float) * scale, ds["y"].values.astype(float) * scale)
    # a rotated grid is its own geodetic CRS, so only what it derives from has true places
    base = source.source_crs or source.geodetic_crs
    to_degrees = Transformer.from_crs(source, base, always_xy=True)
    lon, lat = to_degrees.transform(x, y)
    return ds.assign_coords(latitude=(("y", "x"), lat), longitude=(("y", "x"), lon))


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


def _rename_variables(ds: xr.Dataset, where: str) -> xr.Dataset:
    out: dict[str, xr.DataArray] = {}
    for key, da in ds.data_vars.items():
        if not set(grid_dims(ds)) <= set(da.dims):
            continue  # not a field
        name = canonical_name(str(key), da)
        if name in out:
            raise InputError(f"{where}: two variables are {name}, '{key}' is one; choose by name")
        if name in VARIABLES:
            da = convert_units(da, name, where)
            if VARIABLES[name].aloft and "level" not in da.dims:
                if "level" not in da.coords:
                    raise InputError(f"{where}: {name} is not on a pressure level in hPa")
                da = da.expand_dims("level")
        attrs = {k: v for k, v in da.attrs.items() if not k.startswith("GRIB_")}
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
    return xr.Dataset(out, attrs={})


def _lead(step: xr.DataArray, where: str) -> xr.DataArray:
    if step.dtype.kind == "m":
        return step.astype("timedelta64[ns]")
    units = str(step.attrs.get("units", ""))
    if units not in LEAD_UNITS or step.dtype.kind not in "iuf":
        state = f"in '{units}'" if units else "without units"
        raise InputError(f"{where}: lead time {state}; seconds, minutes, hours or days are needed")
    seconds = np.rint(step.values.astype("float64") * LEAD_UNITS[units]).astype("int64")
    return step.copy(data=seconds.astype("timedelta64[s]").astype("timedelta64[ns]"))


def _times(ds: xr.Dataset, where: str, kind: Kind) -> xr.Dataset:
    """Coordinates ``time`` and ``step`` (forecast), ``valid_time`` (analysis), or none."""
    for name in ("time", "valid_time", "reference"):
        if name in ds.coords and ds[name].dtype.kind != "M":
            raise InputError(
                f"{where}: '{name}' is not a time of the standard calendar ({ds[name].dtype}); "
                "convert the file first"
            )
    if "step" in ds.coords:
        ds = ds.assign_coords(step=_lead(ds["step"], where))
    if "reference" not in ds.coords and "step" in ds.coords and "time" in ds.coords:
        ds = ds.rename(time="reference")  # as in WeatherBench: initial time and lead time
    if "time" in ds.coords:
        ds = ds.drop_vars("valid_time", errors="ignore").rename(time="valid_time")
    if kind == "static":
        for name in ("reference", "valid_time", "step", "number", "level"):
            ds = ds.squeeze(name, drop=True) if name in ds.dims and ds.sizes[name] == 1 else ds
            if name in ds.dims:
                raise InputError(f"{where}: a static field has no dimension '{name}'")
            ds = ds.drop_vars(name, errors="ignore")
        return ds
    return _analysis_times(ds, where) if kind == "analysis" else _forecast_times(ds, where)


def _analysis_times(ds: xr.Dataset, where: str) -> xr.Dataset:
    if "step" in ds.dims and ds.sizes["step"] == 1:
        ds = ds.squeeze("step")
    if "step" in ds.dims:
        raise InputError(f"{where}: an analysis has one lead time, here are {ds.sizes['step']}")
    if "reference" in ds.dims:
        valid = ds["reference"] + ds["step"] if "step" in ds.coords else ds["reference"]
        ds = ds.assign_coords(valid_time=("reference", valid.values))
        ds = ds.swap_dims(reference="valid_time")
    if "valid_time" not in ds.coords:
        raise InputError(f"{where}: no valid time; there are {listed(ds.coords)}")
    if ds["valid_time"].ndim == 0:
        ds = ds.expand_dims("valid_time")
    return ds.drop_vars(["reference", "step"], errors="ignore")


def _forecast_times(ds: xr.Dataset, where: str) -> xr.Dataset:
    if "reference" not in ds.coords:
        raise InputError(
            f"{where}: no initial time with lead times; there are {listed(ds.coords)} "
            "(an analysis or observations?)"
        )
    if "number" in ds["reference"].dims:
        raise InputError(f"{where}: the initial time differs between members (a lagged ensemble)")
    _agree(ds, where)
    if "valid_time" in ds.dims:
        reference = ds["reference"]
        lead = ds["valid_time"] - reference
        if reference.ndim == 0:
            ds = ds.assign_coords(step=("valid_time", lead.values)).swap_dims(valid_time="step")
        elif reference.dims == ("valid_time",) and np.unique(lead.values).size == 1:
            ds = ds.swap_dims(valid_time="reference").assign_coords(step=lead.values[0])
        else:
            raise InputError(
                f"{where}: initial and valid times do not form a table; split the file"
            )
    if "step" not in ds.coords:
        if "valid_time" not in ds.coords or ds["valid_time"].dims != ds["reference"].dims:
            raise InputError(f"{where}: no lead time; there are {listed(ds.coords)}")
        ds = ds.assign_coords(step=ds["valid_time"] - ds["reference"])
    for name in ("reference", "step"):
        if ds[name].ndim == 0:
            ds = ds.expand_dims(name)
        elif ds[name].dims != (name,):
            raise InputError(f"{where}: the {name} varies along {listed(ds[name].dims)}")
    ds = ds.assign_coords(step=ds["step"].astype("timedelta64[ns]"))
    negative = ds["step"].values < np.timedelta64(0)
    if negative.any():
        raise InputError(f"{where}: a lead time is negative; is it valid before it starts?")
    ds = ds.drop_vars("valid_time", errors="ignore").rename(reference="time")
    return ds.assign_coords(time=ds["time"].astype("datetime64[ns]"))


def _agree(ds: xr.Dataset, where: str) -> None:
    """Where a file states initial, lead and valid time, the three must add up."""
    if not {"valid_time", "step"} <= set(ds.coords):
        return
    stated, summed = ds["valid_time"], ds["reference"] + ds["step"]
    if set(stated.dims) == set(summed.dims):
        stated = stated.transpose(*summed.dims)
        if (stated.values != summed.values).any():
            raise InputError(f"{where}: valid time is not initial time plus lead time")


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
    if number.dtype.kind not in "iuf" or (number.values != np.rint(number.values)).any():
        raise InputError(f"{where}: member numbers are not whole numbers")
    ds = ds.assign_coords(number=number.astype("int64"))
    return ds if "number" in ds.dims else ds.expand_dims("number")


def convert_units(da: xr.DataArray, name: str, where: str) -> xr.DataArray:
    """Values of the known variable ``name`` in its canonical unit.

    Raises
    ------
    InputError
        The attribute ``units`` is missing or not in the table.
    """
    wanted = VARIABLES[name].units
    found = str(da.attrs.get("units", "")).replace("**", "").replace("^", "").strip()
    if found in (wanted, wanted.replace(" ", ".")):
        return da.assign_attrs(units=wanted)
    if found not in UNITS.get(wanted, {}):
        state = f"has the unknown units '{found}'" if found else "has no units"
        raise InputError(
            f"{where}: {name} {state}; state them in the catalog entry under "
            f"variables.{name}.units (known: {', '.join([wanted, *UNITS.get(wanted, {})])})"
        )
    factor, offset = UNITS[wanted][found]
    if (factor, offset) != (1, 0):
        dtype = da.dtype if da.dtype.kind == "f" else np.dtype("float64")
        # float64 in between: 273.15 added in single precision loses half a millikelvin
        da = (da.astype("float64") * factor + offset).astype(dtype).assign_attrs(da.attrs)
    return da.assign_attrs(units=wanted)
