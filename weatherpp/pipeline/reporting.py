"""The report stage: what a run folder holds, as the content of one HTML page."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

import weatherpp
from weatherpp import distribution
from weatherpp.data.archive import Archive
from weatherpp.data.fields import ensemble_spread
from weatherpp.data.matching import truth_for
from weatherpp.pipeline.products import read_product, without_scalars
from weatherpp.recipe import MethodEntry, Target
from weatherpp.verify.extremes import EXTREME

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job
    from weatherpp.report.content import Section

MOST_CURVES = 8  # cross validation makes one for each fold
VERSIONS = ("xarray", "numpy", "torch", "lightning", "zarr", "cfgrib", "cartopy")


def short_table(scores: Path) -> str:
    """The few scores a person wants to see in the terminal."""
    table = pd.read_parquet(scores / "scores.parquet")
    wanted = table["score"].isin(["crps", "rmse", "spread_skill", "spread_rmse"])
    shown = table[wanted & (table["region"] != EXTREME)].copy()
    if shown.empty:
        return "nothing to score: the data hold no analysis and no spread job"
    names = shown["score"] + shown["estimator"].map(lambda e: f" ({e})" if e else "")
    shown["score"] = names
    shown["value"] = [
        f"{value:.4g}" if np.isnan(low) else f"{value:.4g} [{low:.4g}, {high:.4g}]"
        for value, low, high in shown[["value", "low", "high"]].to_numpy(dtype=float)
    ]
    columns = ["target", "method", "members", "score", "value", "units", "dates"]
    lines = [shown[columns].to_string(index=False)]
    verdicts = json.loads((scores / "claims.json").read_text(encoding="utf-8"))
    lines += [f"{'holds' if v['holds'] else 'DOES NOT HOLD'}: {v['text']}" for v in verdicts]
    return "\n".join(lines)


def report(
    job: Job,
    archive_hash: str,
    products: Mapping[str, str],
    scores_hash: str,
    overrides: tuple[str, ...],
) -> None:
    """Write ``report.html`` in the run folder."""
    path = job.run.path / "report.html"
    inputs = [archive_hash, scores_hash, *(products[name] for name in sorted(products))]
    settings = [job.recipe, job.text, list(overrides)]
    job.run.task("report/html", settings, inputs, [path], lambda: _write(job, overrides, path))


def _write(job: Job, overrides: tuple[str, ...], path: Path) -> None:
    from weatherpp.report.content import ReportData, chosen
    from weatherpp.report.html import write_report
    from weatherpp.report.words import summary

    scores_dir = job.run.path / "scores"
    scores = pd.read_parquet(scores_dir / "scores.parquet")
    gains = pd.read_parquet(scores_dir / "gains.parquet")
    verdicts = json.loads((scores_dir / "claims.json").read_text(encoding="utf-8"))
    raw = json.loads((scores_dir / "histograms.json").read_text(encoding="utf-8"))
    histograms = {
        target: {label: np.asarray(counts) for label, counts in by_method.items()}
        for target, by_method in raw.items()
    }
    recipe = job.recipe
    apart = gains["region"] == EXTREME
    whole = gains[~apart]
    data = ReportData(
        title=recipe.report.title or recipe.title or recipe.name,
        name=recipe.name,
        summary=summary(
            chosen(scores, recipe.report.highlights),
            chosen(whole, recipe.report.highlights),
            verdicts,
        ),
        notes=list(recipe.report.notes),
        claims=verdicts,
        scores=scores,
        gains=whole,
        highlights=recipe.report.highlights,
        histograms=histograms,
        sections=[
            *_extreme_sections(chosen(gains[apart], recipe.report.highlights), scores),
            *_curve_sections(scores_dir, scores),
            *_sections(job),
        ],
        provenance=_provenance(job, overrides),
        recipe_text=job.text,
    )
    write_report(data, path)


def _extreme_sections(gains: pd.DataFrame, scores: pd.DataFrame) -> list[Section]:
    """Gains on the extreme dates; their scores stand with those of other regions."""
    from weatherpp.report.content import Section
    from weatherpp.report.figures import gain_bars

    if gains.empty:
        return []
    counts = scores.loc[scores["region"] == EXTREME, "dates"]
    text = (
        f"The {int(counts.max())} dates on which the analysis was farthest from the climate of the "
        "training dates, by the area mean of the square of its anomaly in local standard "
        "deviations. They were chosen by their outcome, which favours forecasts that warn "
        "often: read this beside the scores of all dates, not instead of them."
    )
    return [Section("Gains on extreme dates", [text], [gain_bars(gains)])]


def _curve_sections(folder: Path, scores: pd.DataFrame) -> list[Section]:
    from weatherpp.report.content import Section
    from weatherpp.report.curves import curve_lines, worth_words

    points = pd.read_parquet(folder / "curves.parquet")
    worth = pd.read_parquet(folder / "worth.parquet")
    units = scores.drop_duplicates(["target", "score"]).set_index(["target", "score"])["units"]
    points["units"] = [
        str(units[key]) for key in zip(points["target"], points["score"], strict=True)
    ]
    return [
        Section(str(title), worth_words(worth[worth["curve"] == title]), [curve_lines(part)])
        for title, part in points.groupby("curve", sort=False)
    ]


def _sections(job: Job) -> list[Section]:
    archive = Archive.open(job.archive_path)
    sections: list[Section] = []
    total = len(job.recipe.targets)
    for at, target in enumerate(job.recipe.targets):
        job.terminal.update(f"maps of {target.name}", at, total)
        sections += _case_sections(job, archive, target)
        sections += _spread_sections(job, archive, target)
        sections += _probability_sections(job, archive, target)
        sections += _applied_sections(job, target)
    curves = _training_section(job)
    return [*sections, *([curves] if curves else [])]


def _field(dist: xr.Dataset, what: str, time: np.datetime64, target: Target) -> xr.DataArray:
    field = getattr(distribution, what)(dist).sel(time=time)
    return _dated(field, time, target)


def _dated(field: xr.DataArray, time: np.datetime64, target: Target) -> xr.DataArray:
    """With the scalar coordinates that a map's title is made from."""
    lead = target.lead.to_timedelta64()
    return without_scalars(field).assign_coords(time=time, step=lead, valid_time=time + lead)


def _product(job: Job, target: Target, entry: MethodEntry, kind: str = "predictions") -> xr.Dataset:
    return read_product(job.run.path / kind / target.name / f"{entry.label}.nc")


def _pick_dates(
    job: Job, target: Target, label: str, count: int
) -> list[tuple[np.datetime64, str]]:
    """Dates to map, by a rule and not by eye: the median and the worst day of the raw ensemble."""
    per_date = pd.read_parquet(job.run.path / "scores" / "per_date.parquet")
    chosen = per_date[
        (per_date["target"] == target.name)
        & (per_date["method"] == label)
        & (per_date["score"].isin(["crps", "spread_squared_error"]))
        & (per_date["estimator"].isin(["plain", ""]))
    ].sort_values("value", kind="stable")
    if chosen.empty:
        return []
    ordered = list(chosen["time"])
    picks = [
        (ordered[len(ordered) // 2], f"the day of the median score of {label}"),
        (ordered[-1], f"the day with the worst score of {label}"),
    ]
    return [(pd.Timestamp(time).to_datetime64(), why) for time, why in picks[:count]]


def _case_sections(job: Job, archive: Archive, target: Target) -> list[Section]:
    from weatherpp.report.content import Section
    from weatherpp.report.maps import case_maps

    entries = [entry for entry in job.recipe.methods if entry.job == "forecast"]
    if archive.analysis is None or len(entries) < 2:
        return []
    raw, best = entries[0], entries[-1]
    raw_dist, best_dist = _product(job, target, raw), _product(job, target, best)
    figures = []
    for time, why in _pick_dates(job, target, raw.label, job.recipe.report.maps):
        truth = truth_for(archive.analysis, target, pd.DatetimeIndex([time])).isel(time=0)
        figures.append(
            case_maps(
                _dated(truth.load(), time, target),
                _field(raw_dist, "mean", time, target),
                _field(best_dist, "mean", time, target),
                _field(raw_dist, "spread", time, target),
                _field(best_dist, "spread", time, target),
                raw_label=raw.label,
                post_label=best.label,
                caption=f"Chosen by rule: {why}.",
            )
        )
    return [Section(f"Maps of {target.name}: {best.label} beside {raw.label}", [], figures)]


def _spread_sections(job: Job, archive: Archive, target: Target) -> list[Section]:
    from weatherpp.report.content import Section
    from weatherpp.report.maps import field_maps

    entries = [entry for entry in job.recipe.methods if entry.job == "spread"]
    if not entries:
        return []
    picks = _pick_dates(job, target, entries[0].label, min(1, job.recipe.report.maps))
    figures = []
    for time, why in picks:
        fields, titles = [], []
        for full_name in dict.fromkeys(entry.full for entry in entries):
            of = next(entry for entry in entries if entry.full == full_name)
            part = job.full_ensemble(archive, target, of, pd.DatetimeIndex([time])).load()
            fields.append(_dated(ensemble_spread(part).isel(time=0), time, target))
            which = "all" if full_name == "all" else "the other"
            titles.append(f"{which} {part.sizes['number']} members")
        for entry in entries:
            fields.append(_field(_product(job, target, entry), "spread", time, target))
            titles.append(entry.label)
        caption = f"Spread (standard deviation of the ensemble). Chosen by rule: {why}."
        figures.append(field_maps(fields, titles, caption=caption, columns=2))
    title = f"Spread of {target.name}: the full ensemble and what is made of a part of it"
    return [Section(title, [], figures)]


def _probability_sections(job: Job, archive: Archive, target: Target) -> list[Section]:
    from weatherpp.report.content import Section
    from weatherpp.report.maps import probability_maps

    thresholds = job.recipe.report.thresholds.get(target.name, ())
    entries = [entry for entry in job.recipe.methods if entry.job == "forecast"]
    dists = [_product(job, target, entry) for entry in entries] if thresholds else []
    figures = []
    for threshold in thresholds:
        fields, event = [], ""
        for dist in dists:
            time = dist["time"].to_numpy()[-1]
            attrs = distribution.mean(dist).attrs
            name = attrs.get("long_name", target.name)
            event = f"{name} above {threshold:g} {attrs.get('units', '')}".strip()
            fields.append(
                _dated(distribution.exceedance(dist, threshold).sel(time=time), time, target)
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
    from weatherpp.report.content import Section
    from weatherpp.report.maps import field_maps

    entries = [
        entry
        for entry in job.recipe.methods
        if (job.run.path / "applied" / target.name / f"{entry.label}.nc").is_file()
    ]
    if not entries:
        return []
    dists = {entry.label: _product(job, target, entry, "applied") for entry in entries}
    time = next(iter(dists.values()))["time"].to_numpy()[-1]
    figures = [
        field_maps(
            [_field(dist, what, time, target) for dist in dists.values()],
            list(dists),
            caption=f"{what.capitalize()} of the forecast to apply to; it has no analysis.",
            columns=2,
        )
        for what in ("mean", "spread")
    ]
    return [Section(f"Applied: {target.name} without an analysis", [], figures)]


def _training_section(job: Job) -> Section | None:
    from weatherpp.report.content import Section
    from weatherpp.report.figures import training_curve

    figures = []
    models = job.run.path / "models"
    own = [models / t.name / e.label for t in job.recipe.targets for e in job.recipe.methods]
    for file in [file for folder in own for file in sorted(folder.rglob("training.csv"))]:
        label = "/".join(file.parent.relative_to(models).parts)
        history = pd.read_csv(file)
        first = history[history["network"] == 0]
        figures.append(training_curve(first, label=label))
    return Section("Training of the networks", [], figures[:MOST_CURVES]) if figures else None


def _provenance(job: Job, overrides: tuple[str, ...]) -> dict[str, str]:
    seconds = job.run.seconds()
    stages: dict[str, float] = {}
    for task, time in seconds.items():
        stage = task.split("/")[0]
        stages[stage] = stages.get(stage, 0.0) + time
    return {
        "weatherpp": f"{weatherpp.__version__}{_commit()}",
        "recipe": f"{job.recipe.name}, seed {job.recipe.seed}",
        "overrides": " ".join(overrides) or "none",
        "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "time taken": ", ".join(f"{stage} {time:.0f} s" for stage, time in stages.items()),
        "platform": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        "libraries": ", ".join(f"{name} {metadata.version(name)}" for name in VERSIONS),
    }


def _commit() -> str:
    """Commit of the checkout this package runs from; empty for an installed wheel."""
    folder = Path(weatherpp.__file__).parent
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    try:
        found: Any = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f", commit {found.stdout.strip()}"
