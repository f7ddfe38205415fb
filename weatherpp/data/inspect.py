"""What is in a file, in canonical terms, and what is missing for post-processing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from weatherpp.conventions import UNITS, VARIABLES, Kind, exists_on, grid_dims, hours
from weatherpp.data import grib_scan, netcdf, remote
from weatherpp.data.archive import Archive
from weatherpp.data.canonical import canonical_name, canonicalise
from weatherpp.data.file_kind import file_kind, foreign
from weatherpp.data.grids import widest_gap
from weatherpp.data.missing import Missing, described, missing_points, missing_values
from weatherpp.data.table_inspect import findings
from weatherpp.data.values import masked
from weatherpp.errors import InputError

NO_TRUTH = "no analysis to compare with; name one under files.analysis of the catalog entry"


@dataclass(frozen=True)
class Inspection:
    """Findings on one file.

    Attributes
    ----------
    path
        The file.
    lines
        What is there, one finding a line, as plain text.
    missing
        What is missing for post-processing; empty if nothing.
    """

    path: Path
    lines: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lacks = [f"missing: {text}" for text in self.missing]
        return "\n".join([str(self.path), *(f"  {line}" for line in [*self.lines, *lacks])])


def inspect(path: str | Path, values: bool = True) -> Inspection:
    """Look at a GRIB or netCDF file, a Zarr store, an archive or a table.

    Parameters
    ----------
    path
        The file.
    values
        Tell how many values are missing; of large files a few fields of each variable are read
        for that. Without it, and from links to stores behind URLs, no field is read.

    Raises
    ------
    InputError
        It is none of these, or damaged; the message says what to do.
    """
    path = Path(path)
    if (path / "forecast" / "zarr.json").is_file():
        return _archive(path, values)
    kind = file_kind(path)
    if kind == "GRIB":
        return _grib(path, values)
    if kind == "table":
        return Inspection(path, *findings(path))
    if kind is not None:
        return _dataset(path, kind, values and not remote.is_link(path))
    if path.is_dir():
        raise InputError(f"{path}: a folder, but not a Zarr store; name one file in it")
    what = foreign(path)
    if what is not None:
        raise InputError(f"{path}: {what}; only GRIB, netCDF, Zarr and tables can be looked at")
    raise InputError(f"{path}: neither GRIB nor netCDF nor Zarr nor a table; is it whole?")


def _grib(path: Path, values: bool) -> Inspection:
    messages = grib_scan.scan(path)
    out = Inspection(path, [f"GRIB, {counted(len(messages), 'field')}"])
    by_name = {
        variable: [message for message in messages if message.variable == variable]
        for variable in dict.fromkeys(message.variable for message in messages)
    }
    for variable, own in by_name.items():
        pressure = sorted({m.level for m in own if m.level_type == "isobaricInhPa"})
        others = sorted({m.level_type for m in own} - {"isobaricInhPa"})
        where = [f"{some(pressure)} hPa"] if pressure else []
        name = canonical_name(variable, xr.DataArray())
        steps = some(dict.fromkeys(m.step for m in own))
        out.lines.append(
            f"{name if name in VARIABLES else variable} [{own[0].units}]"
            f"{'' if name == variable else f', there called {variable}'}"
            f", {', '.join([*where, *others])}, lead time {steps} h, {counted(len(own), 'field')}"
        )
        if name not in VARIABLES:
            out.missing.append(f"the variable {variable} is not known; it will not be read")
        elif not _known_units(name, own[0].units):
            out.missing.append(f"{name} has the unknown units '{own[0].units}'")
        if grib_scan.is_turned(own[0]):
            out.missing.append(f"{name} points along the grid, not to the east or north")
        if name in VARIABLES and VARIABLES[name].aloft and others:
            out.missing.append(f"{name} on {others[0]} levels; pressure levels are needed")
    if values:
        names = {variable: canonical_name(variable, xr.DataArray()) for variable in by_name}
        _missing(out, ((names[v], missing_points(path, own)) for v, own in by_name.items()))
    types = grib_scan.ensemble_types(messages)
    members = sorted({m.number or 0 for m in messages if m.data_type in types})
    dates = pd.DatetimeIndex(sorted({m.initial for m in messages}))
    _members(out, members)
    _dates(out, dates, "initial time")
    grids = {m.grid: m for m in messages}
    for message in grids.values():
        out.lines.append(f"grid {message.grid_type}, {message.points} points")
        if message.grid_type.startswith(("reduced", "unstructured", "sh")):
            out.missing.append(
                f"grid {message.grid_type} has no rows and columns; interpolate it to latitude "
                "and longitude first"
            )
    if len(grids) > 1:
        out.missing.append(f"{len(grids)} different grids in one file; split it by grid")
    if {m.data_type for m in messages} != {"an"}:
        out.missing.append(NO_TRUTH)
    return out


def _dataset(path: Path, what: str, values: bool) -> Inspection:
    raw = netcdf.read(path)
    out = Inspection(path, [what])
    faults: dict[Kind, str] = {}
    kinds: tuple[Kind, ...] = ("forecast", "analysis", "static")
    for kind in kinds:
        try:
            ds = canonicalise(raw, str(path), kind)
        except InputError as error:
            faults[kind] = str(error).removeprefix(f"{path}: ")
            continue
        if kind == "forecast" and "number" not in ds.dims and not ds["step"].values.any():
            continue  # no members and no lead time: an analysis
        out.lines[0] += f", can be read as {kind}"
        _canonical(out, ds, kind, values)
        return out
    # not readable as it is: show what there is, and the reason that fits best
    timeless = "no initial time" in faults["forecast"] and "no members" not in faults["analysis"]
    likely: Kind = "analysis" if timeless else "forecast"
    for name, da in raw.data_vars.items():
        units = da.attrs.get("units")
        out.lines.append(
            f"{name} [{units if units is not None else 'no units'}], "
            f"{' x '.join(f'{dim} {size}' for dim, size in da.sizes.items()) or 'one value'}"
        )
    out.missing.append(faults[likely])
    if values:
        _missing_in(out, raw.data_vars, raw=True)
    return out


def _archive(path: Path, values: bool) -> Inspection:
    archive = Archive.open(path)
    out = Inspection(path, [f"archive, {archive.attrs.get('title', 'without title')}"])
    _canonical(out, archive.forecast, "forecast", values, archive.analysis is not None)
    if archive.analysis is not None:
        out.lines.append("analysis:")
        _canonical(out, archive.analysis, "analysis", values)
    if archive.static.data_vars:
        out.lines.append(f"static fields: {some(archive.static.data_vars)}")
    return out


def _canonical(
    out: Inspection, ds: xr.Dataset, kind: Kind, values: bool, truth: bool = False
) -> None:
    for name, da in ds.data_vars.items():
        levels = f", {some(map(int, exists_on(da, 'levels')))} hPa" if "level" in da.dims else ""
        units = da.attrs.get("units", "no units")
        out.lines.append(f"{name} [{units}]{levels}")
        if name not in VARIABLES:
            out.missing.append(f"the variable {name} is not known; it will not be read")
    if values:
        _missing_in(out, ds.data_vars)
    dims = grid_dims(ds)
    shape = " x ".join(str(ds.sizes[dim]) for dim in dims)
    lat = ds["latitude"].values
    place = "without a place"
    if np.isfinite(lat).all():
        west, east = _extent(ds["longitude"].values)
        place = f"latitude {lat.max():g} to {lat.min():g}, longitude {west:g} to {east:g}"
    out.lines.append(f"grid {' x '.join(dims)}, {shape} points, {place}")
    if kind == "forecast":
        _members(out, [int(n) for n in ds["number"].values] if "number" in ds.dims else [])
        _dates(out, pd.DatetimeIndex(ds["time"].values), "initial time")
        out.lines.append(f"lead times {some(f'{hours(s):g}' for s in ds['step'].values)} h")
        if not truth:
            out.missing.append(NO_TRUTH)
    elif kind == "analysis":
        _dates(out, pd.DatetimeIndex(ds["valid_time"].values), "valid time")


def _missing_in(out: Inspection, variables: Mapping[Any, xr.DataArray], raw: bool = False) -> None:
    fields = {name: da for name, da in variables.items() if da.dtype.kind in "iuf" and da.ndim}
    _missing(
        out,
        (
            (str(name), missing_values(masked(da, str(out.path)) if raw else da))
            for name, da in fields.items()
        ),
    )


def _missing(out: Inspection, found: Iterable[tuple[str, Missing]]) -> None:
    """What is missing of the values, as far as they can be read."""
    try:
        out.lines.extend(described(found))
    except InputError as error:
        out.missing.append(str(error).removeprefix(f"{out.path}: "))


def _extent(longitude: npt.NDArray[np.float64]) -> tuple[float, float]:
    """West and east end: what lies outside is the widest gap, so Greenwich may lie inside."""
    lon = np.unique(longitude % 360.0)
    cut = widest_gap(lon)
    if cut == lon.size - 1:
        return float(lon[0]), float(lon[-1])
    return float(lon[cut + 1]) - 360.0, float(lon[cut])


def _known_units(name: str, units: str) -> bool:
    found = units.replace("**", "").strip()
    return found == VARIABLES[name].units or found in UNITS.get(VARIABLES[name].units, {})


def _members(out: Inspection, members: Sequence[int]) -> None:
    if len(members) < 2:
        out.missing.append("no ensemble members; post-processing needs two at least")
    if members:
        control = "with" if 0 in members else "without"
        out.lines.append(f"{counted(len(members), 'member')} ({some(members)}), {control} control")


def _dates(out: Inspection, dates: pd.DatetimeIndex, what: str) -> None:
    first, last = dates.min(), dates.max()
    span = f"{first:%Y-%m-%d %H:%M}" + (f" to {last:%Y-%m-%d %H:%M}" if len(dates) > 1 else "")
    out.lines.append(f"{counted(len(dates), what)}, {span} UTC")
    if len(dates) == 1:
        out.missing.append("a single date; learning needs many")


def counted(number: int, what: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def some(items: Iterable[object], most: int = 8) -> str:
    """Items as text, the middle of long lists left out."""
    texts = [str(item) for item in items]
    if len(texts) > most:
        texts = [*texts[: most - 2], "...", texts[-1]]
    return ", ".join(texts) or "none"
