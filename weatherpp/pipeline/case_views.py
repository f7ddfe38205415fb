"""What a run has of a case: its fields, dates and predictions; cases named and found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.data.archive import Archive
from weatherpp.data.fields import select
from weatherpp.errors import ConfigError, InputError
from weatherpp.events.case import Case, CaseField
from weatherpp.events.find import as_case, find_peaks, tail_of
from weatherpp.events.load import find_cases, load_cases
from weatherpp.pipeline.products import open_product, without_scalars
from weatherpp.recipe import CaseSettings, FindSettings, MethodEntry, Recipe, Target

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job


def named_cases(recipe: Recipe) -> tuple[list[Case], list[str]]:
    """Cases of the files that a recipe names, and those in them that cannot be used, a line each.

    Raises
    ------
    ConfigError
        A file cannot be used, or two cases have one name.
    """
    cases: list[Case] = []
    left_out: list[str] = []
    for name in recipe.cases.files if recipe.cases else ():
        loaded = load_cases(find_cases(name))
        cases += loaded.cases
        left_out += loaded.left_out
    names = [case.name for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"cases.files: two cases have the name {', '.join(sorted(twice))}")
    return cases, left_out


@dataclass(frozen=True)
class Shown:
    """The methods that maps and charts of cases show."""

    raw: MethodEntry
    baseline: MethodEntry | None
    best: MethodEntry

    @classmethod
    def of(cls, recipe: Recipe) -> Shown:
        """As the recipe says, or by rule, see :class:`weatherpp.recipe.CaseSettings`."""
        settings = recipe.cases or CaseSettings(files=("none",))
        entries = [entry for entry in recipe.methods if entry.job == "forecast"]
        if not entries:
            raise InputError("cases are about forecasts, and no method has job: forecast")
        by_label = {entry.label: entry for entry in entries}
        emos = next((e for e in entries if e.method == "emos"), None)
        raw = by_label[settings.raw] if settings.raw else entries[0]
        best = by_label[settings.best] if settings.best else entries[-1]
        baseline = by_label[settings.baseline] if settings.baseline else emos
        return cls(raw, None if baseline in (raw, best) else baseline, best)

    @property
    def entries(self) -> list[MethodEntry]:
        """All of them, each once."""
        found = [self.raw, *([self.baseline] if self.baseline else []), self.best]
        return list({entry.label: entry for entry in found}.values())


@dataclass(frozen=True)
class View:
    """One field of a case: its targets by lead time, and the forecast that is shown of it.

    ``start`` is the initial time of that forecast, ``main`` the target whose valid time is nearest
    the peak; of several, the one with the longest lead time.
    """

    case: Case
    field: CaseField
    targets: tuple[Target, ...]
    dates: Mapping[str, pd.DatetimeIndex]
    start: pd.Timestamp
    main: Target

    @property
    def name(self) -> str:
        """Of files that belong to it."""
        return f"{self.case.name}-{self.field.name}"

    @property
    def valid(self) -> pd.Timestamp:
        """Valid time of the main target."""
        return self.start + self.main.lead


def views(job: Job, archive: Archive, case: Case) -> tuple[list[View], list[str]]:
    """What a run has of a case, and in lines what it has not."""
    by_field: dict[str, list[Target]] = {}
    for target in job.recipe.targets:
        name = CaseField(variable=target.variable, level=target.level).name
        by_field.setdefault(name, []).append(target)
    wanted = [each.name for each in case.variables] or list(by_field)
    found, missing = [], []
    for name in wanted:
        if name not in by_field:
            missing.append(f"{case.name}: the recipe has no target {name}")
            continue
        targets = sorted(by_field[name], key=lambda target: target.lead)
        dates = {target.name: _case_dates(job, archive, target, case) for target in targets}
        pairs = [(time, target) for target in targets for time in dates[target.name]]
        if not pairs:
            missing.append(
                f"{case.name}: no forecast of {name} is valid between {case.start} and {case.end}"
            )
            continue
        start, main = min(
            pairs, key=lambda pair: (abs(pair[0] + pair[1].lead - case.middle), -pair[1].lead)
        )
        one = CaseField(variable=main.variable, level=main.level)
        found.append(View(case, one, tuple(targets), dates, start, main))
    return found, missing


def _case_dates(job: Job, archive: Archive, target: Target, case: Case) -> pd.DatetimeIndex:
    """Predicted initial dates of a target whose valid times are the case's."""
    times = predicted(job, archive, target)
    return pd.DatetimeIndex(times[case.covers(times + target.lead)])


def predicted(job: Job, archive: Archive, target: Target) -> pd.DatetimeIndex:
    """Initial dates that have a prediction to be verified."""
    found = pd.DatetimeIndex([])
    for fold in job.folds(archive, target, "forecast"):
        found = found.union(fold.predict) if fold.verified else found
    return found


def trained(job: Job, archive: Archive, target: Target) -> pd.DatetimeIndex:
    """Initial dates that train in any fold."""
    found = pd.DatetimeIndex([])
    for fold in job.folds(archive, target, "forecast"):
        found = found.union(fold.train)
    return found


def in_season(times: pd.DatetimeIndex, at: pd.Timestamp, season: float | None) -> pd.DatetimeIndex:
    """Those of ``times`` no more than ``season`` days of the year from a date."""
    if season is None:
        return times
    apart = np.abs(np.asarray(times.dayofyear) - at.dayofyear)
    return pd.DatetimeIndex(times[np.minimum(apart, 365 - apart) <= season])


def found_in(recipe: Recipe, settings: FindSettings) -> list[Target]:
    """Targets of the field that events are to be found in.

    Raises
    ------
    InputError
        The recipe has none.
    """
    targets = [
        target
        for target in recipe.targets
        if target.variable == settings.variable and settings.level in (None, target.level)
    ]
    if not targets:
        name = f"{settings.variable}{settings.level or ''}"
        known = ", ".join(dict.fromkeys(target.name for target in recipe.targets))
        raise InputError(f"no events of {name} to find: the targets are {known}")
    return targets


def found_cases(job: Job, archive: Archive, settings: FindSettings) -> list[Case]:
    """Events by the rule of :mod:`weatherpp.events.find`, in the analyses of predicted dates.

    The climate are the analyses of the training dates.

    Raises
    ------
    InputError
        The recipe has no target of the field, the archive no analysis, or no date trains.
    """
    targets = found_in(job.recipe, settings)
    if archive.analysis is None:
        raise InputError(f"{archive.path}: no analysis to find events in")
    settings = settings.model_copy(update={"level": targets[0].level})
    targets = [target for target in targets if target.level == settings.level]
    look = pd.DatetimeIndex([])
    past = pd.DatetimeIndex([])
    for target in targets:
        look = look.union(predicted(job, archive, target) + target.lead)
        past = past.union(trained(job, archive, target) + target.lead)
    if past.empty:
        raise InputError("events are found against the climate of training dates; there are none")
    analysis = select(archive.analysis, settings.variable, settings.level)
    peaks = find_peaks(
        analysis.sel(valid_time=look),
        analysis.sel(valid_time=past),
        count=settings.count,
        tail=tail_of(settings.variable, settings),
        days=settings.days,
        km=settings.km,
    )
    units = str(analysis.attrs.get("units", ""))
    return [as_case(peak, place, settings, units) for place, peak in enumerate(peaks, 1)]


def predictions(
    job: Job, target: Target, label: str, times: Sequence[Any] | pd.DatetimeIndex
) -> xr.Dataset:
    """One method's predictions of some dates, in memory."""
    path = job.run.path / "predictions" / target.name / f"{label}.nc"
    with open_product(path) as ds:
        return ds.sel(time=list(times)).load()


def by_lead(job: Job, view: View, entry: MethodEntry, name: str) -> xr.DataArray:
    """A variable of a method's product from ``view.start`` at all lead times that have it."""
    parts = []
    leads = []
    for target in view.targets:
        path = job.run.path / "predictions" / target.name / f"{entry.label}.nc"
        with open_product(path) as ds:
            if name in ds and view.start in ds.indexes["time"]:
                parts.append(without_scalars(ds[name].sel(time=view.start).load()))
                leads.append(target.lead.to_timedelta64())
    steps = pd.TimedeltaIndex(leads)
    out = xr.concat(parts, pd.Index(steps, name="step"))
    return out.assign_coords(valid_time=("step", (view.start + steps).values))


def dated(
    field: xr.DataArray, time: np.datetime64, target: Target, archive: Archive
) -> xr.DataArray:
    """With the scalar coordinates, and the source of the data, that a map's title tells."""
    lead = target.lead.to_timedelta64()
    told = without_scalars(field).assign_coords(time=time, step=lead, valid_time=time + lead)
    return told.assign_attrs(source=archive.attrs.get("source", ""))
