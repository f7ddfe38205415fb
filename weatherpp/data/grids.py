"""The grid of any source made canonical: places, order, and no column twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr
from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError

from weatherpp.conventions import grid_dims, listed
from weatherpp.errors import InputError


def sorted_along(ds: xr.Dataset, dim: str, where: str, descending: bool = False) -> xr.Dataset:
    """``ds`` in the order of a coordinate.

    Raises
    ------
    InputError
        A value of the coordinate stands twice.
    """
    values = ds[dim].values
    unique, counts = np.unique(values, return_counts=True)
    if len(unique) < len(values):
        raise InputError(f"{where}: {dim} {unique[counts > 1][0]} stands twice; drop one")
    order = np.argsort(values)[::-1] if descending else np.argsort(values)
    return ds if np.array_equal(order, np.arange(order.size)) else ds.isel({dim: order})


def on_grid(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Latitude and longitude found or computed, and put into canonical order.

    Rows of any spacing are a grid (regular Gaussian ones are uneven); points without rows are not.

    Raises
    ------
    InputError
        There is no such grid, or a place is given twice or outside the globe.
    """
    for name, dim in (("latitude", "y"), ("longitude", "x")):
        # one-dimensional coordinates named after an index, as in latitude(y)
        if name in ds.coords and ds[name].ndim == 1 and ds[name].dims != (name,):
            if ds[name].dims == (dim,):
                ds = ds.swap_dims({dim: name}).drop_vars(dim, errors="ignore")
            elif ds[name].dims != ("station",):
                raise InputError(
                    f"{where}: reduced or unstructured grid of {ds[name].size} points; regrid it "
                    "first (at ECMWF: grid=0.5/0.5 in the request), or if it has rows of latitude, "
                    "state grid: {regrid: {resolution: 0.5}} in the catalog entry"
                )
    if "y" in ds.dims and "x" in ds.dims and "latitude" not in ds.coords:
        ds = _locate(ds, where)
    if not grid_dims(ds):
        raise InputError(f"{where}: no latitude and longitude; there are {listed(ds.coords)}")
    for name in ("latitude", "longitude"):
        if name not in ds.coords:
            raise InputError(f"{where}: the grid has no {name}")
        ds[name] = _in_degrees(ds[name].astype("float64"), where)
        if not np.isfinite(ds[name].values).all():
            raise InputError(f"{where}: {name} has missing values")
    if float(np.abs(ds["latitude"].values).max()) > 90 + 1e-6:
        raise InputError(
            f"{where}: latitude beyond 90 degrees; are latitude and longitude swapped?"
        )
    if "longitude" in ds.dims:
        ds = _once_round(ds, where)
    ds = ds.assign_coords(longitude=_wrap(ds["longitude"]))
    if "latitude" in ds.dims:
        ds = sorted_along(sorted_along(ds, "latitude", where, descending=True), "longitude", where)
        ds = _whole(ds)
    return ds


def _in_degrees(coord: xr.DataArray, where: str) -> xr.DataArray:
    """A coordinate in degrees, whatever angle it is stated in; nothing stated means degrees."""
    units = str(coord.attrs.get("units", "")).strip().lower()
    if units in ("radian", "radians", "rad"):
        attrs = {**coord.attrs, "units": "degrees"}
        return coord.copy(data=np.rad2deg(coord.values)).assign_attrs(attrs)
    if units not in ("", "1") and "deg" not in units and "\N{DEGREE SIGN}" not in units:
        raise InputError(f"{where}: {coord.name} is in '{units}'; degrees are needed")
    return coord


def _once_round(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Without a last column that repeats the first one, 360 degrees on.

    That the two agree is checked chunk by chunk when the values are read, not here: to compare
    them at once, all chunks of the file would be read, only to be read again for the archive.
    """
    lon = ds["longitude"].values
    first, last = int(np.argmin(lon)), int(np.argmax(lon))
    spacing = np.diff(np.sort(lon)).min(initial=360.0)
    if abs(lon[last] - lon[first] - 360.0) > 0.01 * spacing:
        return ds
    kept = np.delete(lon, last)
    out = ds.isel(longitude=np.delete(np.arange(lon.size), last))
    for name, da in ds.data_vars.items():
        if "longitude" not in da.dims:
            continue
        text = (
            f"{where}: {name} differs between longitude {lon[first]:g} and {lon[last]:g}, which "
            "are one meridian; drop the wrong column"
        )
        whole = da if da.chunks is None else da.chunk(longitude=-1)
        field: xr.DataArray = xr.apply_ufunc(
            _same_ends,
            whole,
            kwargs={"first": first, "last": last, "text": text},
            input_core_dims=[["longitude"]],
            output_core_dims=[["longitude"]],
            exclude_dims={"longitude"},
            dask="parallelized",
            output_dtypes=[da.dtype],
            dask_gufunc_kwargs={"output_sizes": {"longitude": kept.size}},
            keep_attrs=True,
        )
        field = field.assign_coords(longitude=kept).transpose(*da.dims)
        out[name] = field.assign_attrs(cyclic_column=f"dropped at longitude {lon[last]:g}")
    return out


def _same_ends(
    values: npt.NDArray[np.generic], first: int, last: int, text: str
) -> npt.NDArray[np.generic]:
    """Rows without their last column, if it is the first one again but for float32 rounding."""
    one, two = (values[..., at].astype(np.float64) for at in (first, last))
    scale = np.max(np.abs(one), initial=0.0, where=np.isfinite(one))
    if not np.allclose(one, two, rtol=1e-6, atol=1e-6 * scale, equal_nan=True):
        raise InputError(text)
    return np.delete(values, last, axis=-1)


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


def _in_metres(axis: xr.DataArray, where: str) -> xr.DataArray:
    """A projected axis in metres; those of a rotated grid are angles and stay."""
    units = str(axis.attrs.get("units", "m"))
    scale = {"m": 1.0, "km": 1000.0, "degrees": 1.0}.get(units)
    if scale is None:
        raise InputError(f"{where}: {axis.name} is in '{units}'; metres are needed")
    out = axis.copy(data=axis.values.astype(float) * scale)
    return out.assign_attrs(units="m") if units == "km" else out


def _locate(ds: xr.Dataset, where: str) -> xr.Dataset:
    """Two-dimensional latitude and longitude from the projection and its x and y."""
    if "crs" not in ds.coords or "y" not in ds.coords or "x" not in ds.coords:
        raise InputError(f"{where}: projected grid without latitude, longitude or grid mapping")
    try:
        source = CRS.from_cf(ds["crs"].attrs)
    except (CRSError, KeyError) as error:
        raise InputError(f"{where}: the grid mapping cannot be used ({error})") from None
    for name in ("x", "y"):
        ds = ds.assign_coords({name: _in_metres(ds[name], where)})
    x, y = np.meshgrid(ds["x"].values, ds["y"].values)
    # a rotated grid is its own geodetic CRS, so only what it derives from has true places
    base = source.source_crs or source.geodetic_crs
    to_degrees = Transformer.from_crs(source, base, always_xy=True)
    lon, lat = to_degrees.transform(x, y)
    return ds.assign_coords(latitude=(("y", "x"), lat), longitude=(("y", "x"), lon))
