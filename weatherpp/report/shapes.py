"""Coastlines, land, lakes and boundaries from files inside the package; nothing is downloaded.

Shapes are clipped to a map's area and put in its coordinates once, so that further panels of the
same area cost next to nothing.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from cartopy.io.shapereader import BasicReader
from matplotlib.path import Path as MplPath

from weatherpp.errors import InputError
from weatherpp.report.grids import PLATE, Area, bounds

FOLDER = Path(__file__).parent / "natural_earth" / "shapefiles" / "natural_earth"
# Lakes are shipped at the coarser scale only.
KINDS = {
    "coastline": ("physical", "ne_{scale}_coastline"),
    "land": ("physical", "ne_{scale}_land"),
    "lakes": ("physical", "ne_110m_lakes"),
    "borders": ("cultural", "ne_{scale}_admin_0_boundary_lines_land"),
}


@lru_cache(maxsize=16)
def geometries(kind: str, scale: str) -> tuple[Any, ...]:
    """Shapes of one kind in longitude and latitude at scale ``110m`` or ``50m``, read once.

    The files are read directly and not through cartopy's Natural Earth features, because those
    turn to the network when a file is missing.

    Raises
    ------
    InputError
        A file is missing or damaged.
    """
    category, name = KINDS[kind]
    path = FOLDER / category / f"{name.format(scale=scale)}.shp"
    try:
        reader: Any = BasicReader(str(path))
        found = tuple(reader.geometries())
        reader.close()
    except Exception as error:  # pyshp raises its own types, OSError, struct.error, ValueError
        reason = "missing" if not path.is_file() else f"unreadable ({error})"
        raise InputError(f"{path}: map shapes {reason}; reinstall weatherpp") from error
    return found


@lru_cache(maxsize=64)
def outlines(kind: str, area: Area) -> MplPath:
    """Shapes of one kind within an area, as one path in the map's coordinates."""
    shapes = np.array(geometries(kind, area.scale), dtype=object)
    west, east, south, north = bounds(area)
    # longitudes in the files run from -180 to 180, those of the area may run on beyond
    turns = [turn for turn in (-360, 0, 360) if west < 180 + turn and east > -180 + turn]
    parts = [shapely.clip_by_rect(shapes, west - turn, south, east - turn, north) for turn in turns]
    pieces = shapely.get_parts(shapely.get_parts(np.concatenate(parts)))
    pieces = pieces[~shapely.is_empty(pieces)]
    # a straight line in longitude and latitude is a bent one on the map
    pieces = shapely.segmentize(pieces, 1.0)
    paths = [path for piece in pieces for path in _paths(piece, area)]
    return MplPath.make_compound_path(*paths) if paths else MplPath(np.empty((0, 2)))


@lru_cache(maxsize=16)
def frame_of(area: Area) -> MplPath | None:
    """Outline of a round map in its own coordinates; None if it is a rectangle."""
    if area.outline == "globe":
        return MplPath(shapely.get_coordinates(area.projection.boundary), closed=True)
    if area.outline == "circle":
        turn = np.linspace(0, 2 * np.pi, 361)
        return MplPath(area.east * np.column_stack([np.cos(turn), np.sin(turn)]), closed=True)
    return None


def _paths(piece: Any, area: Area) -> list[MplPath]:
    """Paths of a line, or of a polygon's rings, outer and inner ones in opposite directions."""
    if piece.geom_type == "Polygon":
        polygon = shapely.orient_polygons(piece)
        rings = [polygon.exterior, *polygon.interiors]
    else:
        rings = [piece]
    paths = []
    for ring in rings:
        lonlat = shapely.get_coordinates(ring)
        xy = area.projection.transform_points(PLATE, lonlat[:, 0], lonlat[:, 1])[:, :2]
        if np.isfinite(xy).all():
            paths.append(MplPath(xy, closed=piece.geom_type == "Polygon"))
    return paths
