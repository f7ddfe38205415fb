"""From a catalog entry to an archive: read, make canonical, join, check, write."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path

import numpy as np
import xarray as xr

from weatherpp.conventions import VARIABLES, Kind, annotate, check, check_finite, grid_dims, listed
from weatherpp.data import grib, netcdf
from weatherpp.data.archive import Archive, write_archive
from weatherpp.data.canonical import canonical_name, canonicalise
from weatherpp.data.catalog import CatalogEntry, Group
from weatherpp.data.join import join
from weatherpp.data.matching import snap
from weatherpp.errors import ConfigError, InputError

Progress = Callable[[str, float, float], None]


def ingest(
    entry: CatalogEntry,
    out: str | Path,
    root: str | Path | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> Archive:
    """Read a source whole and write it as an archive.

    Fields are stored in single precision. All files are checked before anything is written.
    Forecasts that wait for their truth (``apply``) are dates of the archive like the others.

    Parameters
    ----------
    entry
        From :func:`weatherpp.data.catalog.load_entry`.
    out
        Folder of the archive.
    root
        Where the source's files are, if not where the entry says.
    progress
        Called with (description, done, total) after each file.

    Raises
    ------
    InputError
        Files are missing, damaged or do not fit together, or fields have missing values.
    ConfigError
        The entry cannot be ingested, or ``out`` is there already.
    """
    out = Path(out)
    if out.exists() and not overwrite:
        raise ConfigError(f"{out}: is there already; remove it or choose another folder")
    forecast = read(entry, "forecast", root, progress)
    assert forecast is not None  # an entry has forecast files
    waiting = read(entry, "apply", root, progress)
    if waiting is not None:
        where = f"catalog entry {entry.name}: forecast and apply files"
        forecast = annotate(join([forecast, waiting], where, "forecast", entry.sparse))
    analysis = read(entry, "analysis", root, progress)
    static = read(entry, "static", root, progress)
    if analysis is not None:
        analysis = _on_grid(analysis, forecast, f"catalog entry {entry.name}: analysis")
    if static is not None:
        static = _on_grid(static, forecast, f"catalog entry {entry.name}: static fields")
    attrs = {
        "title": entry.title,
        "source": entry.name,
        "licence": entry.licence,
        "citation": entry.citation,
        "quirks": list(entry.quirks),
    }
    return write_archive(out, forecast, analysis, static=static, attrs=attrs, overwrite=overwrite)


def read(
    entry: CatalogEntry,
    group: Group,
    root: str | Path | None = None,
    progress: Progress | None = None,
) -> xr.Dataset | None:
    """One group of a source as a canonical Dataset; None if the entry has no files for it.

    ``apply`` gives forecasts that wait for their truth, in the form of ``forecast``.

    Raises
    ------
    InputError
        As for :func:`ingest`.
    ConfigError
        The entry has no files to read.
    """
    if entry.driver == "twin":
        raise ConfigError(
            f"catalog entry {entry.name}: made by the embedded atmosphere, not read from files; "
            "name it in a recipe as source: {twin: ...}"
        )
    paths = entry.paths(group, root)
    if not paths:
        return None
    kind: Kind = "forecast" if group in ("forecast", "apply") else group  # type: ignore[assignment]
    sparse = entry.sparse
    pieces: list[xr.Dataset] = []
    for done, path in enumerate(paths, start=1):
        for raw in _open(path, entry, kind):
            pieces.append(canonicalise(raw, str(path), kind))
        if progress is not None:
            progress(f"reading {path.name}", float(done), float(len(paths)))
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"
    if entry.lagged and kind == "forecast":
        pieces = [_lag(piece, pieces, where) for piece in pieces]
    ds = annotate(join(pieces, where, kind, sparse))
    missing = sorted(set(entry.variables) - set(map(str, ds.data_vars)))
    if missing and kind != "static":
        raise InputError(f"{where}: no variable {missing[0]}; there are {listed(ds.data_vars)}")
    check(ds, where, kind)
    ds = ds.astype("float32")
    if not sparse:
        check_finite(ds, where)
    return ds


def read_forecast(path: str | Path) -> xr.Dataset:
    """One forecast file, without a catalog entry, as a canonical Dataset; lazy.

    Takes a GRIB or netCDF file, a Zarr store, or an archive. Of its variables, those that are
    known are read.

    Raises
    ------
    InputError
        It is missing, damaged, no ensemble forecast, or has missing values.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if (path / "forecast").is_dir():
        return Archive.open(path).forecast
    where = str(path)
    pieces = [canonicalise(raw, where) for raw in (_raws(path))]
    ds = join(pieces, where, "forecast")
    known = [name for name in ds.data_vars if name in VARIABLES]
    if not known:
        raise InputError(f"{where}: no known variable; there are {listed(ds.data_vars)}")
    ds = annotate(ds[known]).astype("float32")
    check(ds, where)
    check_finite(ds, where)
    return ds


def _raws(path: Path) -> list[xr.Dataset]:
    if path.is_file():
        with path.open("rb") as stream:
            if stream.read(4) == b"GRIB":
                return grib.read(path)
    return [netcdf.read(path)]


def _open(path: Path, entry: CatalogEntry, kind: Kind) -> list[xr.Dataset]:
    """Raw pieces of a file, only with the wanted variables, units as the entry states them."""
    sparse = entry.sparse
    if entry.driver == "grib":
        sources = {given.source for given in entry.variables.values()}

        def wanted(name: str) -> bool:
            canonical = canonical_name(name, xr.DataArray())
            return name in sources or (
                canonical in entry.variables and entry.variables[canonical].source is None
            )

        raws = grib.read(path, wanted if entry.variables else None, sparse)
    else:
        raws = [netcdf.read(path)]
    return [raw for raw in (_choose(raw, path, entry, kind) for raw in raws) if raw.data_vars]


def _choose(raw: xr.Dataset, path: Path, entry: CatalogEntry, kind: Kind) -> xr.Dataset:
    renames = {v.source: name for name, v in entry.variables.items() if v.source is not None}
    named = {name for name, given in entry.variables.items() if given.source is not None}
    known: dict[str, Hashable] = {}
    for source in raw.data_vars:
        name = renames.get(str(source)) or canonical_name(str(source), raw[source])
        # where the entry says which one is meant, no other is taken for it
        if str(source) in renames or name not in named:
            known[name] = source
    kept: dict[str, xr.DataArray] = {}
    for name, source in known.items():
        da = raw[source]
        if "grid_mapping_name" in da.attrs:
            kept[str(source)] = da
        elif name in entry.variables:
            units = entry.variables[name].units
            attrs = {"units": units} if units is not None else {}
            # renamed only where canonicalise does not know the source's name itself
            own = canonical_name(str(source), da) == name
            kept[str(source) if own else name] = da.assign_attrs(attrs)
        elif not entry.variables or kind == "static":
            kept[str(source)] = da
    return raw.drop_vars(list(raw.data_vars)).assign(kept)


def _lag(piece: xr.Dataset, pieces: list[xr.Dataset], where: str) -> xr.Dataset:
    """A run dated as the latest one that is valid at the same time."""
    if piece.sizes["time"] != 1 or piece.sizes["step"] != 1:
        raise InputError(f"{where}: a lagged ensemble needs one run and one lead time a file")
    valid = piece["valid_time"].values[0, 0]
    latest = max(p["time"].values[0] for p in pieces if p["valid_time"].values[0, 0] == valid)
    lead = np.array([valid - latest], dtype="timedelta64[ns]")
    piece = piece.drop_vars("valid_time").assign_coords(time=[latest], step=lead)
    return piece.assign_coords(valid_time=piece["time"] + piece["step"])


def _on_grid(ds: xr.Dataset, like: xr.Dataset, where: str) -> xr.Dataset:
    """``ds`` with the forecast's grid coordinates, bit for bit."""
    snapped = {name: snap(da, like, where) for name, da in ds.data_vars.items()}
    out = xr.Dataset(snapped).assign_attrs(ds.attrs)
    return out.transpose(*(d for d in ("valid_time", "level", *grid_dims(like)) if d in out.dims))
