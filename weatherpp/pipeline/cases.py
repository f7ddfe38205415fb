"""The events stage: the cases of a recipe, and those found by rule, held against its forecasts.

It leaves the folder ``events`` in the run folder: ``cases.yaml`` (all that were looked at),
``scores.parquet``, ``gains.parquet`` and ``per_date.parquet`` (in each case's box, and in all
together), ``tracks.parquet``, ``notes.json`` (rarity, lost tracks, what was left out), and for
each case and field ``extremes/CASE-FIELD.nc`` with extreme forecast index and shift of tails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.data import netcdf
from weatherpp.data.archive import Archive
from weatherpp.data.fields import select, subsample
from weatherpp.data.matching import truth_for
from weatherpp.errors import InputError
from weatherpp.events.area import cut, nearest, widened
from weatherpp.events.boxes import BoxScores, box_scores, pooled, pooled_crps
from weatherpp.events.case import Case, TrackRule
from weatherpp.events.find import tail_of
from weatherpp.events.load import write_cases
from weatherpp.events.rarity import rarity
from weatherpp.events.track import COLUMNS, analysis_track, member_tracks, track_table
from weatherpp.pipeline.case_views import (
    Shown,
    View,
    by_lead,
    found_cases,
    in_season,
    predictions,
    trained,
    views,
)
from weatherpp.pipeline.products import without_scalars
from weatherpp.recipe import FindSettings, Target
from weatherpp.verify import table
from weatherpp.verify.efi import extreme_forecast_index, model_climate, shift_of_tails
from weatherpp.verify.gains import GAIN_COLUMNS, gains

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job

MARGIN = 5.0  # degrees around a box on maps
TRUTH = "analysis"


def study(
    job: Job,
    named: tuple[list[Case], list[str]],
    archive_hash: str,
    products: Mapping[str, str],
    scores_hash: str,
) -> str:
    """Look at all cases of the recipe; returns the hash of the folder ``events``."""
    folder = job.run.path / "events"
    recipe = job.recipe
    settings: list[Any] = [
        recipe.cases,
        named[0],
        named[1],
        recipe.seed,
        recipe.targets,
        recipe.methods,
    ]
    settings += [recipe.verify.bootstrap, recipe.verify.references, recipe.split]
    inputs = [archive_hash, scores_hash, *(products[name] for name in sorted(products))]

    def work() -> None:
        job.trust(archive_hash)
        _study_all(job, named, folder)

    return job.run.task("events/cases", settings, inputs, [folder], work)


@dataclass
class _Found:
    """What is known of the cases so far."""

    rows: list[pd.DataFrame] = field(default_factory=list)
    per_date: list[pd.DataFrame] = field(default_factory=list)
    tracks: list[pd.DataFrame] = field(default_factory=list)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)


def _study_all(job: Job, named: tuple[list[Case], list[str]], folder: Path) -> None:
    archive = Archive.open(job.archive_path)
    assert job.recipe.cases is not None
    folder.mkdir(parents=True)
    cases, left_out = list(named[0]), list(named[1])
    if job.recipe.cases.find is not None:
        cases += found_cases(job, archive, job.recipe.cases.find)
    found = _Found()
    kept: list[Case] = []
    for place, case in enumerate(cases):
        job.terminal.update(case.name, place, len(cases))
        its_views, missing = views(job, archive, case)
        left_out += missing
        if its_views:
            kept.append(case)
            _study_one(job, archive, its_views, found, folder)
    if not kept:
        raise InputError("; ".join(left_out) or "no case was found")
    write_cases(kept, folder / "cases.yaml")
    _write(job, found, left_out, folder)


def _study_one(
    job: Job, archive: Archive, its_views: Sequence[View], found: _Found, folder: Path
) -> None:
    case = its_views[0].case
    notes: dict[str, Any] = {"rarity": {}, "lost": []}
    found.notes[case.name] = notes
    for view in its_views:
        if archive.analysis is not None:
            for target in view.targets:
                scored = _scores(job, archive, view, target)
                if scored is not None:
                    found.rows.append(scored.rows)
                    found.per_date.append(scored.per_date)
            words = _rarity(job, archive, view)
            if words:
                notes["rarity"][view.field.name] = words
        extremes = _extremes(job, archive, view)
        if extremes is not None:
            (folder / "extremes").mkdir(exist_ok=True)
            netcdf.write(extremes, folder / "extremes" / f"{view.name}.nc")
    if case.track is not None and archive.analysis is not None:
        tracks, lost = _tracks(job, archive, its_views[0], case.track)
        found.tracks.append(tracks.assign(case=case.name))
        notes["lost"] = lost


def _scores(job: Job, archive: Archive, view: View, target: Target) -> BoxScores | None:
    times = view.dates[target.name]
    assert archive.analysis is not None
    if times.empty:
        return None
    labels = [entry.label for entry in job.recipe.methods if entry.job == "forecast"]
    dists = {label: predictions(job, target, label, times) for label in labels}
    like = distribution.pattern(next(iter(dists.values())))
    truth = without_scalars(truth_for(archive.analysis, target, times, like=like).load())
    scores = pd.read_parquet(job.run.path / "scores" / "scores.parquet")
    own = scores[scores["target"] == target.name].drop_duplicates("method")
    members = dict(zip(own["method"], own["members"], strict=True))
    settings = job.recipe.verify
    return box_scores(view.case, target, dists, truth, members, settings.bootstrap, job.recipe.seed)


def _tail(view: View) -> Any:
    """Which side of a field is rare in a case: as its thresholds say, else by the variable."""
    for threshold in view.case.thresholds:
        if threshold.name == view.field.name:
            return "high" if threshold.above is not None else "low"
    return tail_of(view.field.variable, FindSettings())


def _rarity(job: Job, archive: Archive, view: View) -> str:
    """How rare the analysis is at the case's point at its peak; empty without training dates."""
    assert job.recipe.cases is not None
    past = in_season(trained(job, archive, view.main), view.start, job.recipe.cases.season)
    if past.empty or archive.analysis is None:
        return ""
    field = select(archive.analysis, view.field.variable, view.field.level)
    at = field.isel(nearest(field, view.case.place))
    value = float(at.sel(valid_time=view.valid))
    series = at.sel(valid_time=past + view.main.lead).load()
    series = series.assign_coords(valid_time=past.values).rename(valid_time="time")
    return rarity(value, without_scalars(series), _tail(view)).words


def _extremes(job: Job, archive: Archive, view: View) -> xr.Dataset | None:
    """Extreme forecast index and shift of tails of the raw members, around the box."""
    assert job.recipe.cases is not None
    past = in_season(trained(job, archive, view.main), view.start, job.recipe.cases.season)
    entry = Shown.of(job.recipe).raw
    if len(past) < 2:
        return None
    chosen = subsample(archive.forecast, entry.members, job.seed(entry))
    if chosen.sizes["number"] < 2:
        return None
    target = view.main
    whole = select(chosen, target.variable, target.level, target.lead)
    part = without_scalars(cut(whole, widened(view.case.box, MARGIN)))
    climate = model_climate(part.sel(time=past).drop_vars("valid_time", errors="ignore").load())
    now = part.sel(time=view.start).reset_coords(drop=True).load()
    dist = distribution.members(now, variable=target.variable, target=target.name)
    level = 0.1 if _tail(view) == "low" else 0.9
    found = {
        "efi": extreme_forecast_index(dist, climate),
        "sot": shift_of_tails(dist, climate, level),
    }
    out = xr.Dataset({name: each.astype(np.float32) for name, each in found.items()})
    return out.assign_attrs(dates=len(past), members=int(chosen.sizes["number"]))


def _tracks(
    job: Job, archive: Archive, view: View, rule: TrackRule
) -> tuple[pd.DataFrame, list[str]]:
    """Tracks of the analysis, the raw members and the best method's mean."""
    assert archive.analysis is not None
    shown = Shown.of(job.recipe)
    raw = subsample(archive.forecast, shown.raw.members, job.seed(shown.raw))
    forecast = select(raw, rule.variable, rule.level).sel(time=view.start).load()
    steps = pd.TimedeltaIndex(forecast["step"].values)
    valid = view.start + steps
    analyses = pd.DatetimeIndex(archive.analysis["valid_time"].values)
    there = valid[valid.isin(analyses)]
    field = select(archive.analysis, rule.variable, rule.level).sel(valid_time=there).load()
    truth = analysis_track(field, view.valid, view.case.box, rule)
    if not truth:
        empty = pd.DataFrame(columns=list(COLUMNS))
        return empty, [f"{TRUTH}: no centre in the box at {view.valid:%Y-%m-%d %H:%M}"]
    forecast = forecast.assign_coords(valid_time=("step", valid.values))
    tracks, lost = member_tracks(forecast, truth, rule, shown.raw.label)
    if len(truth) < len(there):
        ends = " to ".join(f"{time:%Y-%m-%d %H:%M}" for time in (min(truth), max(truth)))
        lost.insert(0, f"{TRUTH}: followed from {ends} alone")
    parts = [track_table(truth, TRUTH), tracks]
    if (rule.variable, rule.level) == (view.field.variable, view.field.level):
        mean, faults = member_tracks(
            by_lead(job, view, shown.best, "mean"), truth, rule, f"{shown.best.label} mean"
        )
        parts, lost = [*parts, mean], [*lost, *faults]
    return pd.concat([part for part in parts if len(part)], ignore_index=True), lost


def _write(job: Job, found: _Found, left_out: list[str], folder: Path) -> None:
    recipe = job.recipe
    none = pd.DataFrame(columns=list(table.COLUMNS))
    per_date = pd.DataFrame(columns=list(table.PER_DATE_COLUMNS))
    rows = list(found.rows)
    compared = [pd.DataFrame(columns=list(GAIN_COLUMNS))]
    if found.rows:
        single = pd.concat(found.per_date, ignore_index=True)
        joint = pooled(single)
        per_date = pd.concat([single, joint], ignore_index=True)
        rows.append(pooled_crps(joint, pd.concat(rows), recipe.verify.bootstrap, recipe.seed))
        compared = _gains(job, per_date)
    table.write(rows or [none], folder / "scores.parquet")
    table.write([per_date], folder / "per_date.parquet")
    table.write(compared, folder / "gains.parquet")
    empty = pd.DataFrame(columns=[*COLUMNS, "case"])
    tracks = [each for each in found.tracks if len(each)]
    table.write(tracks or [empty], folder / "tracks.parquet")
    notes = {"left_out": left_out, "cases": found.notes}
    text = json.dumps(notes, indent=1, ensure_ascii=False)
    (folder / "notes.json").write_text(text + "\n", encoding="utf-8")


def _gains(job: Job, per_date: pd.DataFrame) -> list[pd.DataFrame]:
    """Gains of all methods over the raw ensemble and the baseline, in each box."""
    shown = Shown.of(job.recipe)
    leads = {target.name: target.lead for target in job.recipe.targets}
    references = [entry for entry in (shown.raw, shown.baseline) if entry is not None]
    found = [
        gains(
            per_date,
            reference.label,
            region=region,
            leads=leads,
            bootstrap=job.recipe.verify.bootstrap,
            seed=job.recipe.seed,
        )
        for reference in references
        for region in per_date["region"].unique()
    ]
    return [each for each in found if len(each)] or [pd.DataFrame(columns=list(GAIN_COLUMNS))]
