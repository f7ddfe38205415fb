"""From a catalog entry to an archive: look, lay out, then read, check and write block by block."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import xarray as xr
import zarr

from weatherpp import __version__
from weatherpp.conventions import GAPS, VARIABLES, Kind, annotate, check, grid_dims, listed
from weatherpp.data import grib, netcdf, tables
from weatherpp.data.amounts import since_start
from weatherpp.data.archive import Archive, Known, seal, write_group
from weatherpp.data.canonical import canonical_name, canonicalise
from weatherpp.data.catalog import CatalogEntry, Group, SourceVariable
from weatherpp.data.checks import check_dataset
from weatherpp.data.file_kind import check_driver, file_kind
from weatherpp.data.join import Derived, Layout, join, lay_out
from weatherpp.data.lagged import as_control, lag
from weatherpp.data.matching import snap
from weatherpp.data.reduced import filled
from weatherpp.data.regrid import LIKE, to_grid
from weatherpp.data.reuse import take_over
from weatherpp.data.writing import JOURNAL, Journal, share_memory, write
from weatherpp.errors import ConfigError, InputError
from weatherpp.files import Digest, file_digest, file_state, write_whole
from weatherpp.strict import digest

GROUPS: tuple[Group, ...] = get_args(Group)
Progress = Callable[[str, float, float], None]


def ingest(
    entry: CatalogEntry,
    out: str | Path,
    root: str | Path | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
    scheduler: str | None = None,
    digests: Mapping[str, Digest] | None = None,
) -> Archive:
    """Write a source as an archive; go on where an interrupted attempt stopped.

    Fields are stored in single precision. The headers of all files are checked before anything
    is written, values as they are written. The archive is made in a work folder beside ``out``,
    ``.NAME.partial``, and renamed when it is whole. Forecasts that wait for their truth
    (``apply``) are dates of the archive like the others.

    Parameters
    ----------
    entry
        From :func:`weatherpp.data.catalog.load_entry`.
    out
        Folder of the archive.
    root
        Where the source's files are, if not where the entry says.
    progress
        Called with (description, done, total) after each file and after each block of fields.
    overwrite
        Replace an archive that is there, at the very end. What it holds of files that have not
        changed is taken over and not read again.
    scheduler
        Address of a dask.distributed scheduler; see :func:`weatherpp.data.writing.write`.
    digests
        Hashes of source files by their path, so that those which are still in the same state
        are not read for it again.

    Raises
    ------
    InputError
        Files are missing, damaged or do not fit together, or values cannot be.
    ConfigError
        The entry cannot be ingested, or ``out`` is there already.
    """
    out = Path(out)
    if out.exists() and not overwrite:
        raise ConfigError(f"{out}: is there already; remove it or choose another folder")
    share_memory()
    entry.show_downloads(progress, root)
    states = {str(path): file_state(path) for path in _files(entry, root)}
    # a thread of its own: hashing lets others run, and waits for nobody
    with ThreadPoolExecutor(1, "hash") as hashing:
        try:
            hashes = _hashes(states, digests or {}, hashing)
            return _ingest(entry, out, root, states, hashes, progress, scheduler)
        finally:
            hashing.shutdown(cancel_futures=True)


def _ingest(
    entry: CatalogEntry,
    out: Path,
    root: str | Path | None,
    states: Mapping[str, Any],
    hashes: Mapping[str, Future[str]],
    progress: Progress | None,
    scheduler: str | None,
) -> Archive:
    layouts = lay_out_source(entry, root, progress)
    made = digest(entry, __version__)
    known: Known = {}
    work = out.with_name(f".{out.name}.partial")
    store, plan = work / "store", work / "plan"
    identity = digest(made, states)
    # a store that is gone got its final name just before the kill; its journal must not count
    begun = plan.is_file() and store.is_dir() and plan.read_text(encoding="utf-8") == identity
    if not begun:
        _create(work, store, entry, layouts)
        write_whole(plan, identity)
    with closing(Journal(work / JOURNAL)) as journal:
        if out.exists():
            take_over(out, store, layouts, states, made, journal, known)
        try:
            write(
                store, layouts, journal, sparse=entry.sparse, scheduler=scheduler, progress=progress
            )
        except InputError:
            # a file must be mended, so that nothing written here will be wanted
            shutil.rmtree(work)
            raise
    seal(store, {"made": made, "sources": _sources(entry, root, states, hashes)}, known)
    if out.exists():
        out.replace(work / "old")
    store.replace(out)
    shutil.rmtree(work)
    return Archive.open(out)


def lay_out_source(
    entry: CatalogEntry, root: str | Path | None, progress: Progress | None
) -> dict[str, Layout]:
    """What each group of the archive will hold."""
    forecast = _lay_out(entry, ("forecast", "apply"), root, progress)
    if forecast is None:
        raise ConfigError(f"catalog entry {entry.name}: has no forecasts to make an archive of")
    layouts = {"forecast": forecast}
    groups: tuple[Group, ...] = ("analysis", "static")
    for group in groups:
        layout = _beside(entry, group, root, progress, forecast.ds)
        if layout is not None:
            layouts[group] = layout
    return layouts


def _beside(
    entry: CatalogEntry,
    group: Group,
    root: str | Path | None,
    progress: Progress | None,
    forecast: xr.Dataset,
) -> Layout | None:
    """Analyses or static fields laid out on the grid of the forecast."""
    layout = _lay_out(entry, (group,), root, progress, forecast)
    if layout is None:
        return None
    ds = _on_grid(layout.ds, forecast, f"catalog entry {entry.name}: {group}")
    return replace(layout, ds=ds)


def _create(work: Path, store: Path, entry: CatalogEntry, layouts: Mapping[str, Layout]) -> None:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    attrs: dict[str, Any] = {
        "title": entry.title,
        "source": entry.name,
        "licence": entry.licence,
        "citation": entry.citation,
        "quirks": list(entry.quirks),
    }
    zarr.open_group(store, mode="w", zarr_format=3, attributes=attrs)
    for group, layout in layouts.items():
        write_group(store, group, layout.ds, values=False)


def _files(entry: CatalogEntry, root: str | Path | None) -> list[Path]:
    return [path for group in GROUPS for path in entry.paths(group, root)]


def _hashes(
    states: Mapping[str, Any], digests: Mapping[str, Digest], pool: ThreadPoolExecutor
) -> dict[str, Future[str]]:
    """The hash of each source file, given already or found meanwhile."""
    found: dict[str, Future[str]] = {}
    for name, state in states.items():
        given = digests.get(name)
        if given is not None and given.state == state:
            found[name] = Future()
            found[name].set_result(given.sha256)
        else:
            found[name] = pool.submit(file_digest, Path(name))
    return found


def _sources(
    entry: CatalogEntry,
    root: str | Path | None,
    states: Mapping[str, Any],
    hashes: Mapping[str, Future[str]],
) -> list[dict[str, Any]]:
    """The files that an archive was made from, for its manifest."""
    folder = entry.folder(root)
    return [
        {
            "file": Path(name).relative_to(folder).as_posix(),
            "path": name,
            "state": state,
            "bytes": sum(size for size, _ in state),
            "sha256": hashes[name].result(),
        }
        for name, state in states.items()
    ]


def read(
    entry: CatalogEntry,
    group: Group,
    root: str | Path | None = None,
    progress: Progress | None = None,
) -> xr.Dataset | None:
    """One group of a source as a canonical Dataset, lazy; None if the entry has no files for it.

    ``apply`` gives forecasts that wait for their truth, in the form of ``forecast``. Analyses and
    static fields are on the grid of the forecasts if the entry says ``regrid: like-forecast``
    (the headers of the forecasts are read then, too), else on their own.

    Raises
    ------
    InputError
        As for :func:`ingest`.
    ConfigError
        The entry has no files to read.
    """
    like: Layout | None = None
    if group in ("analysis", "static") and entry.grid is not None and entry.grid.regrid == LIKE:
        like = _lay_out(entry, ("forecast",), root, progress)
    if like is None:
        layout = _lay_out(entry, (group,), root, progress)
    else:
        layout = _beside(entry, group, root, progress, like.ds)
    if layout is None:
        return None
    paths = entry.paths(group, root) or entry.paths("control", root)
    check_dataset(layout.ds, _where(paths), entry.sparse)
    return layout.ds


def _where(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"


def _lay_out(
    entry: CatalogEntry,
    groups: Sequence[Group],
    root: str | Path | None,
    progress: Progress | None,
    like: xr.Dataset | None = None,
) -> Layout | None:
    """One or two groups of the same kind of a source, laid out as one.

    ``like`` is the forecast that analyses are for.
    """
    if entry.driver == "twin":
        raise ConfigError(
            f"catalog entry {entry.name}: made by the embedded atmosphere, not read from files; "
            "name it in a recipe as source: {twin: ...}"
        )
    group = groups[0]
    kind: Kind = "forecast" if group in ("forecast", "apply") else group  # type: ignore[assignment]
    apart = entry.paths("control", root) if group == "forecast" else []
    paths = [*(path for name in groups for path in entry.paths(name, root)), *apart]
    if not paths:
        return None
    pieces: list[xr.Dataset] = []
    for done, path in enumerate(paths, start=1):
        for piece in to_grid(_pieces(path, entry, kind), entry.grid, str(path), entry.sparse, like):
            found = as_control(piece, str(path)) if path in apart else piece
            if entry.driver == "table" and kind == "analysis" and like is not None:
                found = tables.on_stations(found, like, str(path))
            pieces.append(found.assign_attrs({"from": str(path)}))
        if progress is not None:
            progress(f"reading {path.name}", float(done), float(len(paths)))
    where = _where(paths)
    if entry.driver == "table":
        pieces = tables.same_stations(pieces, where)
    if entry.lagged and kind == "forecast":
        pieces = lag(pieces, where, entry.sparse)
    layout = lay_out(pieces, where, kind, entry.sparse)
    if entry.sparse:
        for da in layout.ds.data_vars.values():
            da.attrs["gaps"] = GAPS
    if kind == "forecast":
        layout = _since_start(layout, where)
    if kind == "analysis":
        valid = layout.ds["valid_time"] + entry.shift.to_timedelta64()
        layout = replace(layout, ds=annotate(layout.ds.assign_coords(valid_time=valid)))
    missing = sorted(set(entry.variables_of(kind)) - set(layout.wholes))
    if missing and kind != "static":
        raise InputError(f"{where}: no variable {missing[0]}; there are {listed(layout.wholes)}")
    check(layout.ds, where, kind)
    return layout


def _since_start(layout: Layout, where: str) -> Layout:
    """Amounts summed since the start of the forecast, whatever the source has."""
    ds = since_start(layout.ds, where)
    changed = {
        name: Derived(whole, ds[name])
        for name, whole in layout.wholes.items()
        if ds[name].data is not layout.ds[name].data
    }
    return Layout(ds, {**layout.wholes, **changed})


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
    ds = ds[known]
    check(ds, where)
    check_dataset(ds, where)
    return ds


def _raws(path: Path) -> list[xr.Dataset]:
    return grib.read(path) if file_kind(path) == "GRIB" else [netcdf.read(path)]


def _pieces(path: Path, entry: CatalogEntry, kind: Kind) -> list[xr.Dataset]:
    """Canonical pieces of a file, only with the wanted variables."""
    check_driver(path, entry.driver, entry.name)
    if entry.driver == "table":
        return tables.read(path, entry, kind)
    variables = entry.variables_of(kind)
    if entry.driver == "grib":
        sources = {given.source for given in variables.values()}

        def wanted(name: str) -> bool:
            canonical = canonical_name(name, xr.DataArray())
            return name in sources or (
                canonical in variables and variables[canonical].source is None
            )

        apart = entry.lagged and kind == "forecast"
        raws = grib.read(path, wanted if variables else None, entry.sparse, apart)
    else:
        raws = [netcdf.read(path)]
    full = (filled(raw, entry.grid, kind) for raw in raws)
    chosen = (_choose(raw, variables, kind) for raw in full)
    return [canonicalise(raw, str(path), kind, entry.lagged) for raw in chosen if raw.data_vars]


def _choose(raw: xr.Dataset, variables: Mapping[str, SourceVariable], kind: Kind) -> xr.Dataset:
    """The wanted variables, with what the entry says of them."""
    renames = {v.source: name for name, v in variables.items() if v.source is not None}
    named = {name for name, given in variables.items() if given.source is not None}
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
        elif name in variables:
            # renamed only where canonicalise does not know the source's name itself
            own = canonical_name(str(source), da) == name
            kept[str(source) if own else name] = da.assign_attrs(variables[name].attrs())
        elif not variables or kind == "static":
            kept[str(source)] = da
    return raw.drop_vars(list(raw.data_vars)).assign(kept)


def _on_grid(ds: xr.Dataset, like: xr.Dataset, where: str) -> xr.Dataset:
    """``ds`` with the forecast's grid coordinates, bit for bit."""
    snapped = {name: snap(da, like, where) for name, da in ds.data_vars.items()}
    out = xr.Dataset(snapped).assign_attrs(ds.attrs)
    return out.transpose(*(d for d in ("valid_time", "level", *grid_dims(like)) if d in out.dims))
