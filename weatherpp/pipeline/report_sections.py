"""The parts of a report that are drawn from a run folder: maps, curves, extreme dates, training."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.data.archive import Archive
from weatherpp.data.fields import ensemble_spread
from weatherpp.data.matching import truth_for
from weatherpp.errors import InputError
from weatherpp.pipeline.card_sections import card_sections
from weatherpp.pipeline.case_report import case_sections
from weatherpp.pipeline.case_views import dated
from weatherpp.pipeline.products import read_product
from weatherpp.recipe import EXTREME, MethodEntry, Target
from weatherpp.report.content import Figure, Section, chosen
from weatherpp.report.curves import curve_lines, worth_words
from weatherpp.report.figures import gain_bars, training_curve
from weatherpp.report.labels import plain_name, units_text
from weatherpp.report.maps import case_maps, field_maps, probability_maps
from weatherpp.report.panels import Kind
from weatherpp.report.style import colours_of
from weatherpp.verify import table
from weatherpp.verify.regions import WHOLE

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job

APPLIED: dict[str, Kind] = {"mean": "sequential", "spread": "spread"}
MOST_CURVES = 8  # cross validation makes one for each fold
FEW_DATES = 30  # of training: below it even two parameters a point are hardly known


def sections(
    job: Job, scores: pd.DataFrame, gains: pd.DataFrame
) -> tuple[list[Section], list[str]]:
    """All sections, and one line for each that could not be drawn or was cut short."""
    found: list[Section] = []
    left_out: list[str] = []

    def add(what: str, draw: Callable[[], list[Section]], target: str = "") -> None:
        """What is missing from the folder, or cannot be drawn, does not take the rest with it."""
        try:
            parts = draw()
        except (InputError, OSError) as error:
            left_out.append(f"{what}: {_reason(error, job.run.path)}")
            job.terminal.note(f"left out of the report: {left_out[-1]}")
            return
        for part in parts:
            figures = [replace(f, target=f.target or target) for f in part.figures]
            found.append(replace(part, figures=figures, target=part.target or target))

    folder = job.run.path / "scores"
    extreme = chosen(gains[gains["region"] == EXTREME], job.recipe.report.highlights)
    # as in the other charts of the page
    # those that nothing was scored of, for want of an analysis, are drawn as well
    labels = [entry.label for entry in job.recipe.methods]
    colours = colours_of([*scores["method"], *gains["method"], *labels])
    add("scorecard", lambda: _card_sections(job))
    add("gains on extreme dates", lambda: _extreme_sections(extreme, scores, colours))
    add("case studies", lambda: case_sections(job, left_out, colours))
    add("curves", lambda: _curve_sections(folder, scores))
    total = len(job.recipe.targets)
    for at, target in enumerate(job.recipe.targets):
        job.terminal.update(f"maps of {target.name}", at, total)
        for what, draw in {
            "maps": _case_sections,
            "maps of the spread": _spread_sections,
            "maps of probabilities": _probability_sections,
            "maps without an analysis": _applied_sections,
        }.items():
            add(
                f"{what} of {target.name}",
                lambda draw=draw, target=target: draw(job, target),  # type: ignore[misc]
                target.name,
            )
    add("training of the networks", lambda: _training_section(job, left_out))
    return found, left_out


def _reason(error: InputError | OSError, run: Path) -> str:
    """Why something could not be drawn, without the folders of the machine it was tried on."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{Path(os.fsdecode(error.filename)).name}: {error.strerror}"
    return " ".join(str(error).split()).replace(f"{run}/", "").replace(str(run), "RUN")


def _card_sections(job: Job) -> list[Section]:
    source = str(Archive.open(job.archive_path).attrs.get("source", ""))
    return card_sections(job.run.path, job.recipe.report.highlights, source)


def _extreme_sections(
    gains: pd.DataFrame, scores: pd.DataFrame, colours: Mapping[str, str]
) -> list[Section]:
    """Gains on the extreme dates; their scores stand with those of other regions."""
    if gains.empty:
        return []
    counts = scores.loc[scores["region"] == EXTREME, "dates"]
    text = (
        f"The {int(counts.max())} dates on which the analysis was farthest from the climate of the "
        "training dates, by the area mean of the square of its anomaly in local standard "
        "deviations. They were chosen by their outcome, which favours forecasts that warn "
        "often: read this beside the scores of all dates, not instead of them."
    )
    return [Section("Gains on extreme dates", [text], [gain_bars(gains, colours=colours)])]


def _curve_sections(folder: Path, scores: pd.DataFrame) -> list[Section]:
    again = f"weatherpp verify RECIPE --run-dir {folder.parent} --force verify"
    points, worth = (table.read(folder / f"{name}.parquet", again) for name in ("curves", "worth"))
    units = scores.drop_duplicates(["target", "score"]).set_index(["target", "score"])["units"]
    points["units"] = [
        str(units[key]) for key in zip(points["target"], points["score"], strict=True)
    ]
    return [
        Section(str(title), worth_words(worth[worth["curve"] == title]), [curve_lines(part)])
        for title, part in points.groupby("curve", sort=False)
    ]


def _field(
    dist: xr.Dataset, what: str, time: np.datetime64, target: Target, archive: Archive
) -> xr.DataArray:
    field = getattr(distribution, what)(dist).sel(time=time)
    return dated(field, time, target, archive)


def _product(job: Job, target: Target, entry: MethodEntry, kind: str = "predictions") -> xr.Dataset:
    return read_product(job.run.path / kind / target.name / f"{entry.label}.nc")


def _pick_dates(
    job: Job, target: Target, label: str, count: int
) -> list[tuple[np.datetime64, str]]:
    """Dates to map, by a rule and not by eye: the median and the worst day of the raw ensemble."""
    again = f"weatherpp verify RECIPE --run-dir {job.run.path} --force verify"
    per_date = table.read(job.run.path / "scores" / "per_date.parquet", again)
    found = per_date[
        (per_date["target"] == target.name)
        & (per_date["region"] == WHOLE)
        & (per_date["method"] == label)
        & (per_date["score"].isin(["crps", "spread_squared_error"]))
        & (per_date["estimator"].isin(["plain", ""]))
    ].sort_values("value", kind="stable")
    if found.empty:
        return []
    ordered = list(found["time"])
    picks = [
        (ordered[len(ordered) // 2], f"the day of the median score of {label}"),
        (ordered[-1], f"the day with the worst score of {label}"),
    ]
    return [(pd.Timestamp(time).to_datetime64(), why) for time, why in picks[:count]]


def _case_sections(job: Job, target: Target) -> list[Section]:
    entries = [entry for entry in job.recipe.methods if entry.job == "forecast"]
    archive = Archive.open(job.archive_path)
    if archive.analysis is None or len(entries) < 2:
        return []
    raw, best = entries[0], entries[-1]
    raw_dist, best_dist = _product(job, target, raw), _product(job, target, best)
    figures = []
    for time, why in _pick_dates(job, target, raw.label, job.recipe.report.maps):
        truth = truth_for(archive.analysis, target, pd.DatetimeIndex([time])).isel(time=0)
        figures.append(
            case_maps(
                dated(truth.load(), time, target, archive),
                _field(raw_dist, "mean", time, target, archive),
                _field(best_dist, "mean", time, target, archive),
                _field(raw_dist, "spread", time, target, archive),
                _field(best_dist, "spread", time, target, archive),
                raw_label=raw.label,
                post_label=best.label,
                caption=f"Chosen by rule: {why}.",
            )
        )
    title = f"Maps of {target.name}: {best.label} beside {raw.label}"
    return [Section(title, [], figures)] if figures else []


def _spread_sections(job: Job, target: Target) -> list[Section]:
    entries = [entry for entry in job.recipe.methods if entry.job == "spread"]
    if not entries:
        return []
    archive = Archive.open(job.archive_path)
    picks = _pick_dates(job, target, entries[0].label, min(1, job.recipe.report.maps))
    figures = []
    for time, why in picks:
        fields, titles = [], []
        for full_name in dict.fromkeys(entry.full for entry in entries):
            of = next(entry for entry in entries if entry.full == full_name)
            part = job.full_ensemble(archive, target, of, pd.DatetimeIndex([time])).load()
            fields.append(dated(ensemble_spread(part).isel(time=0), time, target, archive))
            which = "all" if full_name == "all" else "the other"
            titles.append(f"{which} {part.sizes['number']} members")
        for entry in entries:
            fields.append(_field(_product(job, target, entry), "spread", time, target, archive))
            titles.append(entry.label)
        caption = f"Spread (standard deviation of the ensemble). Chosen by rule: {why}."
        figures.append(field_maps(fields, titles, caption=caption, kind="spread", columns=2))
    title = f"Spread of {target.name}: the full ensemble and what is made of a part of it"
    return [Section(title, [], figures)] if figures else []


def _probability_sections(job: Job, target: Target) -> list[Section]:
    thresholds = job.recipe.report.thresholds.get(target.name, ())
    entries = [entry for entry in job.recipe.methods if entry.job == "forecast"]
    dists = [_product(job, target, entry) for entry in entries] if thresholds else []
    archive = Archive.open(job.archive_path)
    figures = []
    for threshold in thresholds:
        fields, event = [], ""
        for dist in dists:
            time = dist["time"].to_numpy()[-1]
            mean = distribution.mean(dist)
            units = units_text(str(mean.attrs.get("units", "")))
            event = f"{plain_name(mean)} above {threshold:g} {units}".strip()
            fields.append(
                dated(
                    distribution.exceedance(dist, threshold).sel(time=time), time, target, archive
                )
            )
        figures.append(
            probability_maps(
                fields,
                [entry.label for entry in entries],
                event=event,
            )
        )
    return [Section(f"Probabilities of {target.name}", [], figures)] if figures else []


def _applied_sections(job: Job, target: Target) -> list[Section]:
    """Dates without an analysis: what the models make of them."""
    entries = [
        entry
        for entry in job.recipe.methods
        if (job.run.path / "applied" / target.name / f"{entry.label}.nc").is_file()
    ]
    if not entries:
        return []
    archive = Archive.open(job.archive_path)
    dists = {entry.label: _product(job, target, entry, "applied") for entry in entries}
    time = next(iter(dists.values()))["time"].to_numpy()[-1]
    figures = [
        field_maps(
            [_field(dist, what, time, target, archive) for dist in dists.values()],
            list(dists),
            caption=f"{what.capitalize()} of the forecast to apply to; it has no analysis.",
            kind=kind,
            columns=2,
        )
        for what, kind in APPLIED.items()
    ]
    words = _few_dates(job, target, entries)
    return [Section(f"Applied: {target.name} without an analysis", words, figures)]


def _few_dates(job: Job, target: Target, entries: Sequence[MethodEntry]) -> list[str]:
    """A warning for models that were fitted on very few dates."""
    counts: dict[str, int] = {}
    for entry in entries:
        if entry.method == "raw":  # learns nothing
            continue
        folder = job.run.path / "models" / target.name / entry.label
        for file in folder.rglob("model.json"):
            try:
                trained = json.loads(file.read_text(encoding="utf-8")).get("train") or ["", "", 0]
                dates = int(trained[2])
            except (ValueError, AttributeError, LookupError, TypeError):
                raise InputError(f"{file}: damaged; {_fit_again(job)}") from None
            counts[entry.label] = max(counts.get(entry.label, 0), dates)
    few = {label: count for label, count in counts.items() if 0 < count < FEW_DATES}
    if not few:
        return []
    told = ", ".join(
        f"{label} on {count} {'date' if count == 1 else 'dates'}" for label, count in few.items()
    )
    return [
        f"Take these maps with care: so few dates cannot tell an error of the forecast system from "
        f"the weather of those days ({told}), and without an analysis nothing here was verified."
    ]


def _fit_again(job: Job) -> str:
    return f"make it again with 'weatherpp fit RECIPE --run-dir {job.run.path} --force fit'"


def _training_section(job: Job, left_out: list[str]) -> list[Section]:
    models = job.run.path / "models"
    found = [
        (file, target, entry)
        for target in job.recipe.targets
        for entry in job.recipe.methods
        for file in sorted((models / target.name / entry.label).rglob("training.csv"))
    ]
    # a network for several lead times stands in the folder of each: its curve is told once
    curves: dict[tuple[str, bytes], list[tuple[Path, Target]]] = {}
    for file, target, entry in found:
        curves.setdefault((entry.label, file.read_bytes()), []).append((file, target))
    figures: list[Figure] = []
    for (method, _), files in list(curves.items())[:MOST_CURVES]:
        try:
            history = pd.read_csv(files[0][0])
            history = history[history["network"] == 0]
        except (ValueError, KeyError):
            left_out.append(f"training of {method}: training.csv is damaged; {_fit_again(job)}")
            continue
        folders = ("/".join(file.parent.relative_to(models).parts) for file, _ in files)
        figure = training_curve(history, label=", ".join(folders))
        name = files[0][1].name if len(files) == 1 else ""
        figures.append(replace(figure, target=name, methods=(method,)))
    if len(curves) > MOST_CURVES:
        left_out.append(
            f"training of the networks: {MOST_CURVES} of {len(curves)} curves are shown, the "
            "others are in training.csv of the model folders"
        )
    return [Section("Training of the networks", [], figures)] if figures else []
