"""Area weights of a grid, with a mean of one."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import xarray as xr

from weatherpp.errors import InputError


def cell_areas(latitude: xr.DataArray) -> xr.DataArray:
    r"""Relative area of the cells of each latitude, mean 1.

    Cells end half-way between neighbouring latitudes, and as far again beyond the first and the
    last one, cut off at the poles; the area goes as :math:`|\sin b_1 - \sin b_0|`. That is
    exact for equidistant grids with or without points on the poles (where the cosine would
    give a polar point no weight) and within one per cent of the quadrature weights of a
    Gaussian grid (one per mille away from the poles). Longitudes are taken as evenly spaced.

    Parameters
    ----------
    latitude
        (latitude,) degrees, strictly ascending or descending.

    Returns
    -------
    (latitude,) float64, no units.

    Raises
    ------
    InputError
        Latitudes are not one-dimensional, not sorted, or beyond the poles.
    """
    # coordinates stored in float32 may be a rounding error beyond the pole
    degrees = np.asarray(latitude.values, dtype=np.float64)
    steps = np.diff(degrees)
    if not degrees.size:
        raise InputError("there is no latitude to weight by area")
    if latitude.ndim != 1 or not (np.all(steps > 0) or np.all(steps < 0)):
        raise InputError("latitudes must be one-dimensional and strictly sorted to weight by area")
    if not np.all(np.abs(degrees) <= 90 + 1e-4):
        raise InputError("latitudes beyond 90 degrees; are the coordinates in metres?")
    if degrees.size == 1:
        area = np.ones(1)
    else:
        inner = degrees[:-1] + steps / 2
        first, last = degrees[0] - steps[0] / 2, degrees[-1] + steps[-1] / 2
        edges = np.clip(np.concatenate([[first], inner, [last]]), -90, 90)
        area = np.abs(np.diff(np.sin(np.deg2rad(edges))))
    weights = xr.DataArray(
        area / area.mean(), dims=latitude.dims, coords={latitude.dims[0]: latitude}
    )
    return weights.assign_attrs(weights="cell area by latitude, mean 1")


def grid_weights(field: xr.DataArray) -> xr.DataArray:
    """Weights to average ``field`` over space with.

    Cell areas for the dimensions ``latitude`` and ``longitude``; one for every point of a
    projected or rotated grid (``y``, ``x``; its cells are taken as equal) and of a list of
    stations. What was done stands in the attribute ``weights``.

    Returns
    -------
    float64, mean 1, with some of the spatial dimensions of ``field``.

    Raises
    ------
    InputError
        The field has none of these grids.
    """
    if {"latitude", "longitude"} <= set(field.dims):
        if "latitude" not in field.coords:
            raise InputError("the dimension 'latitude' has no coordinate to weight by")
        return cell_areas(field["latitude"])
    for dims in (("y", "x"), ("station",)):
        if set(dims) <= set(field.dims):
            return _ones(field, dims)
    raise InputError(
        f"no area weights for the dimensions {', '.join(map(str, field.dims))}; a grid has "
        "latitude and longitude, or y and x, or station"
    )


def check_part(part: xr.DataArray, whole: xr.DataArray, names: tuple[str, str]) -> None:
    """Refuse a field that does not lie on the dimensions of another, or not on the same points.

    Parameters
    ----------
    part, whole
        ``part`` has some of the dimensions of ``whole`` and the same coordinates along them.
    names
        What the two are, plural.

    Raises
    ------
    InputError
        Naming the dimension.
    """
    if not isinstance(part, xr.DataArray):
        raise InputError(
            f"{names[0]} must be labelled, an xarray.DataArray, not {type(part).__name__}"
        )
    unknown = set(part.dims) - set(whole.dims)
    if unknown:
        raise InputError(
            f"{names[0]} have the dimension(s) {', '.join(sorted(map(str, unknown)))} too many"
        )
    for dim in part.dims:
        if part.sizes[dim] != whole.sizes[dim]:
            raise InputError(
                f"'{dim}' has {part.sizes[dim]} values in {names[0]} and {whole.sizes[dim]} in "
                f"{names[1]}; select the same ones first"
            )
        if dim not in part.coords or dim not in whole.coords:
            continue
        # values alone: a coordinate carries scalar ones such as the grid mapping along
        if not np.array_equal(part[dim].values, whole[dim].values):
            raise InputError(
                f"{names[0]} and {names[1]} differ in the coordinate '{dim}'; "
                "select the same points first"
            )


def check_weights(weights: xr.DataArray) -> None:
    """Refuse weights that are NaN, infinite, negative or all zero.

    Raises
    ------
    InputError
        They are.
    """
    finite = bool(((weights >= 0) & (weights < np.inf)).all())
    if not finite or not bool((weights > 0).any()):
        raise InputError("weights must be finite, not negative and not all zero")


def _ones(field: xr.DataArray, dims: tuple[Hashable, ...]) -> xr.DataArray:
    shape = [field.sizes[dim] for dim in dims]
    coords = {dim: field[dim] for dim in dims if dim in field.coords}
    attrs = {"weights": "equal for all points"}
    return xr.DataArray(np.ones(shape), dims=dims, coords=coords, attrs=attrs)
