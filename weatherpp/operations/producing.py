"""From the files of one cycle to its products and maps."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.data.fields import select
from weatherpp.data.join import Layout
from weatherpp.errors import InputError, LockedError, PartialError
from weatherpp.files import partial_folder, write_whole
from weatherpp.operations import registry
from weatherpp.operations.checking import Found, check_cycle, known, refuse_other_dates
from weatherpp.operations.choosing import Chosen, check_climate, choose
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.night import CycleTasks, Night, in_words
from weatherpp.operations.settings import NightlyProducts, NightlyTarget
from weatherpp.operations.source import Arrival, lay_out_forecast
from weatherpp.pipeline.coupling import coupled
from weatherpp.pipeline.products import product, read_product, write_product
from weatherpp.pipeline.stages import alone
from weatherpp.strict import digest, validate


@dataclass
class _Given:
    """A cycle's files, and the forecast in them, which is laid out when first asked for."""

    night: Night
    cycle: pd.Timestamp
    arrival: Arrival
    identity: str

    @cached_property
    def layout(self) -> Layout:
        source = self.night.settings.source
        try:
            return lay_out_forecast(source, self.arrival)
        except InputError:
            refuse_other_dates(source, self.arrival, self.cycle)
            raise

    def forecast(self, found: Found) -> xr.Dataset:
        """The expected members that have come, with the variables that are known."""
        ds = self.layout.ds
        return ds[known(ds)].sel(number=list(found.members))


def make(night: Night, cycle: pd.Timestamp, patient: bool) -> None:
    """Products and maps of a cycle; faults are collected in ``night``.

    Parameters
    ----------
    night
        The run.
    cycle
        Initial time.
    patient
        Wait for files.
    """
    name, start = cycle_name(cycle), time.monotonic()
    before = len(night.faults)
    found: Found | None = None
    with night.collecting(name):
        arrival = night.source.forecast(cycle, patient)
        for path in arrival.growing:
            night.warn(name, f"{path}: still growing, left out")
        for text in arrival.lacking:
            night.warn(name, text)
        folder = night.folder(cycle)
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder, "--work"):
            night.ledger.cycle(name, "started")
            found = _make(night, cycle, arrival)
        if found.missing and len(night.faults) == before:
            night.note(name, PartialError(f"{name}: made with {found.lacking()}"))
    own = night.faults[before:]
    if any(isinstance(fault, LockedError) for fault in own):
        return  # the other run notes what comes of it
    partial = bool(own) and all(isinstance(fault, PartialError) for fault in own)
    with night.collecting(name):
        night.ledger.cycle(
            name,
            "partial" if partial else "failed" if own else "done",
            code=own[0].exit_code if own else 0,
            seconds=round(time.monotonic() - start, 2),
            members=len(found.members) if found else None,
            expected=len(night.settings.members.numbers),
            text="; ".join(" ".join(str(fault).split()) for fault in own),
        )


def _make(night: Night, cycle: pd.Timestamp, arrival: Arrival) -> Found:
    """Check, then each target; a target that fails leaves the others alone."""
    settings, name = night.settings, cycle_name(cycle)
    tasks = CycleTasks(night, night.folder(cycle), name)
    hashes = night.ledger.hashes(arrival.files, name)
    files = [path.relative_to(arrival.root).as_posix() for path in arrival.files]
    identity = digest(sorted(zip(files, hashes, strict=True)))
    given = _Given(night, cycle, arrival, identity)
    note = night.folder(cycle) / "input.json"

    def look() -> None:
        found = check_cycle(given.layout, cycle, settings, arrival.files)
        write_whole(note, found.model_dump_json() + "\n")

    fields = [target.field for target in settings.targets]
    tasks.do(
        "check/input", [settings.source.reading, settings.members, fields], [identity], [note], look
    )
    found = validate(Found, json.loads(note.read_text(encoding="utf-8")), str(note))
    for target in settings.targets:
        with night.collecting(name):
            _target(tasks, given, found, target)
        if target.shadow is not None:
            _shadow(tasks, given, found, target, target.shadow)
    return found


def _target(tasks: CycleTasks, given: _Given, found: Found, target: NightlyTarget) -> None:
    """Product and maps of one target."""
    night, cycle = given.night, given.cycle
    settings = night.settings
    version = registry.current(Path(target.models))
    path, raw = night.product(cycle, target), night.raw(cycle, target)

    def produce() -> None:
        chosen, dist, field = _predict(given, given.forecast(found), version, target)
        own = field.sel(number=chosen.members["number"])
        ds = whole_product(dist, own, target, settings.products, settings.seed)
        ds.attrs.update(_attributes(cycle, chosen, found))
        write_product(distribution.members(field, **_about(dist)), raw)
        write(ds, path)
        if settings.products.grib:
            from weatherpp.operations.grib import write_grib

            write_grib(ds, path.with_suffix(".grib2"), target)

    outputs = [path, raw, *([path.with_suffix(".grib2")] if settings.products.grib else [])]
    models = registry.identity(version)
    done = tasks.do(
        f"product/{target.name}",
        [
            target.published,
            settings.products,
            settings.members,
            settings.seed,
            settings.source.reading,
        ],
        [given.identity, models],
        outputs,
        produce,
    )
    if settings.maps:
        folder = night.folder(cycle) / "maps" / target.name

        def draw() -> None:
            from weatherpp.operations.maps import draw_maps

            with partial_folder(folder) as partial:
                draw_maps(read(path), partial)

        tasks.do(f"maps/{target.name}", [target.thresholds], [done], [folder], draw)


def _predict(
    given: _Given, members: xr.Dataset, version: registry.Version, target: NightlyTarget
) -> tuple[Chosen, xr.Dataset, xr.DataArray]:
    """What a version makes of the members that have come, and these members of the field."""
    field = select(members, target.variable, target.level, target.lead).load()
    try:
        chosen = choose(version, members, len(given.night.settings.members.numbers))
        _same_field(chosen, target)
        check_climate(version, field)
        return chosen, chosen.method.predict(chosen.members).load(), field
    except InputError as error:
        raise InputError(f"{cycle_name(given.cycle)}, {target.name}: {error}") from None


def _shadow(
    tasks: CycleTasks, given: _Given, found: Found, target: NightlyTarget, version: str
) -> None:
    """Run a version beside the current one; whatever becomes of it leaves the forecast alone."""
    night, settings = given.night, given.night.settings
    path = night.shadow(given.cycle, target)

    def produce() -> None:
        chosen, dist, _ = _predict(given, given.forecast(found), candidate, target)
        ds = product(dist, settings.products.quantiles)
        ds.attrs.update(_attributes(given.cycle, chosen, found))
        write_product(ds, path)

    try:
        candidate = registry.named(Path(target.models), version)
        tasks.do(
            f"shadow/{target.name}",
            [target.field, settings.products.quantiles, settings.members, settings.source.reading],
            [given.identity, registry.identity(candidate)],
            [path],
            produce,
        )
    except Exception as error:  # a candidate may fail in any way
        told = in_words(error)
        night.warn(tasks.cycle, f"{target.name}: shadow {version} was not run: {told}")


def _same_field(chosen: Chosen, target: NightlyTarget) -> None:
    own = chosen.method.target
    same = (own.variable, own.level, own.lead) == (target.variable, target.level, target.lead)
    if not same:
        raise InputError(
            f"{chosen.version.path / chosen.name}: is for {own.name} at {own.step}, not for "
            f"{target.field.name} at {target.step}"
        )


def whole_product(
    dist: xr.Dataset,
    members: xr.DataArray,
    target: NightlyTarget,
    settings: NightlyProducts,
    seed: int,
) -> xr.Dataset:
    """All that a product holds; nothing in it depends on the clock.

    Parameters
    ----------
    dist
        Predictive distribution of one initial time.
    members
        Raw members of the field, the template of the corrected ones; dims (time, number, grid...).
    target, settings, seed
        Thresholds, quantiles, members.

    Returns
    -------
    As :func:`weatherpp.pipeline.products.product`, with ``exceedance`` (threshold, time, grid...)
    and ``members`` (time, number, grid...).
    """
    out = dist
    if settings.members is not None and distribution.form_of(dist) != "members":
        template = members.isel(number=slice(settings.members.count))
        out = coupled(dist, template, settings.members.coupling, seed)
    out = product(out, settings.quantiles)
    if target.thresholds:
        units = members.attrs.get("units", "1")
        parts = [distribution.exceedance(dist, value) for value in target.thresholds]
        at = xr.DataArray(
            list(target.thresholds), dims="threshold", name="threshold", attrs={"units": units}
        )
        exceedance = xr.concat(parts, at).astype(out["mean"].dtype)
        attrs = {"units": "1", "long_name": "probability of exceeding the threshold"}
        out["exceedance"] = exceedance.assign_attrs(attrs)
    lead = xr.DataArray(target.lead.to_timedelta64(), attrs={"standard_name": "forecast_period"})
    return out.assign_coords(step=lead)


def _about(dist: xr.Dataset) -> dict[str, object]:
    return {key: dist.attrs[key] for key in ("variable", "target") if key in dist.attrs}


def _attributes(cycle: pd.Timestamp, chosen: Chosen, found: Found) -> dict[str, object]:
    """Where a product is from, and what it lacks."""
    used = [int(number) for number in chosen.members["number"].values]
    attrs: dict[str, object] = {
        "cycle": cycle_name(cycle),
        "model": f"{chosen.version.name}/{chosen.name}",
        "model_digest": chosen.digest,
        "members_used": " ".join(map(str, used)),
    }
    if found.missing:
        attrs["members_missing"] = " ".join(map(str, found.missing))
        attrs["partial"] = found.lacking()
    return attrs


def write(ds: xr.Dataset, path: Path) -> None:
    """Write a product as netCDF or, by its suffix, as a Zarr store; whole or not at all."""
    if path.suffix == ".nc":
        write_product(ds, path)
        return
    with partial_folder(path) as partial:
        ds.to_zarr(partial, mode="w", zarr_format=3, consolidated=False)


def read(path: Path) -> xr.Dataset:
    """Read a product back, in memory."""
    if path.suffix == ".nc":
        return read_product(path)
    with xr.open_zarr(path, consolidated=False, decode_timedelta=True) as ds:
        found: xr.Dataset = ds.load()
    return found
