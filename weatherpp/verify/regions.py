"""Parts of the globe, boxes, and groups of stations, that scores are told for beside the whole.

The bands of latitude are those of the World Meteorological Organization's verification of global
forecasts (Manual on the WMO Integrated Processing and Prediction System, WMO-No. 485, app.
2.2.34): borders at 20 degrees, which belong to both sides.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from scipy.cluster import vq

from weatherpp.boxes import Box, inside
from weatherpp.errors import InputError
from weatherpp.recipe import REGIONS

WHOLE = REGIONS[0]
"""All points, in the column ``region`` of tables of scores."""
BANDS = dict(zip(REGIONS[1:], ((20.0, 90.0), (-20.0, 20.0), (-90.0, -20.0)), strict=True))
NEAR = 1e-3  # degrees; coordinates stored in float32 lie beside the border
DEEP = 100.0  # so many metres of altitude set stations apart as one degree of distance does


def regions(
    field: xr.DataArray,
    boxes: Mapping[str, Box] | None = None,
    clusters: int = 0,
    seed: int = 1,
) -> dict[str, xr.DataArray]:
    """Which points lie in each region.

    Parameters
    ----------
    field
        On a grid, or at stations; ``latitude`` may have one dimension or two.
    boxes
        Parts of a user's own, by name.
    clusters
        Groups of neighbouring stations to make; 0 for none.
    seed
        Decides where the search for groups starts.

    Returns
    -------
    Booleans by name, with the dimensions of ``latitude``; :data:`WHOLE` first. A band that no
    point lies in, or all do, is left out, as are all bands if a latitude is not known.

    Raises
    ------
    InputError
        A box that no point lies in; groups of what is no station, or of stations whose places are
        not known.
    """
    found = {WHOLE: xr.DataArray(True)}
    if "latitude" in field.coords and bool(field["latitude"].notnull().all()):
        latitude = field["latitude"].reset_coords(drop=True)
        for name, (south, north) in BANDS.items():
            points = (latitude >= south - NEAR) & (latitude <= north + NEAR)
            if bool(points.any()) and not bool(points.all()):
                found[name] = points
    for name, box in (boxes or {}).items():
        try:
            found[name] = inside(field, box)
        except InputError as error:
            raise InputError(f"verify.regions, {name}: {error}") from None
    return found | (_groups(field, clusters, seed) if clusters else {})


def _groups(field: xr.DataArray, count: int, seed: int) -> dict[str, xr.DataArray]:
    """Neighbouring stations by k-means of their places on the sphere and their altitudes."""
    if "station" not in field.dims or not {"latitude", "longitude"} <= set(field.coords):
        raise InputError(
            "verify.clusters is for stations with a place, and these are none; leave it out"
        )
    latitude, longitude = (np.deg2rad(field[name].values) for name in ("latitude", "longitude"))
    parts = [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude)]
    places = np.rad2deg(np.stack([*parts, np.sin(latitude)], axis=1))
    if "altitude" in field.coords and bool(field["altitude"].notnull().all()):
        places = np.column_stack([places, field["altitude"].values / DEEP])
    if not np.isfinite(places).all():
        raise InputError("verify.clusters: the places of some stations are not known")
    distinct = len(np.unique(places, axis=0))
    rng = np.random.default_rng(seed)
    _, label = vq.kmeans2(places, min(count, distinct), minit="++", seed=rng)
    # numbered by their first station, not as the search found them
    order = list(dict.fromkeys(label.tolist()))
    return {
        f"cluster {number}, {int(np.sum(label == at))} stations": xr.DataArray(
            label == at, dims="station", coords={"station": field["station"]}
        )
        for number, at in enumerate(order, 1)
    }
