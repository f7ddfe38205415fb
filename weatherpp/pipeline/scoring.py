"""The verify stage: every prediction of a run scored, compared and held against the claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.conventions import has_gaps
from weatherpp.data import netcdf
from weatherpp.data.archive import Archive
from weatherpp.data.fields import choose, select
from weatherpp.data.matching import truth_for
from weatherpp.methods.base import method_class
from weatherpp.pipeline.gain_maps import add_gain_maps
from weatherpp.pipeline.products import open_product, without_scalars
from weatherpp.pipeline.truths import Verified, prediction, references, write_verified
from weatherpp.recipe import EXTREME, MethodEntry, Target
from weatherpp.verify import calibration, curves, table
from weatherpp.verify import claims as claims_module
from weatherpp.verify.aggregate import NanPolicy
from weatherpp.verify.extremes import extreme_dates
from weatherpp.verify.gains import GAIN_COLUMNS, gains, scorecard
from weatherpp.verify.regions import regions
from weatherpp.verify.weights import grid_weights

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job


def verify(job: Job, archive_hash: str, products: Mapping[str, str]) -> str:
    """Score all predictions; returns the hash of the folder of scores."""
    inputs = [archive_hash, *(products[name] for name in sorted(products))]
    settings: list[Any] = [job.recipe.seed, job.recipe.targets, job.recipe.methods]
    settings += [job.recipe.verify, job.recipe.claims]
    folder = job.run.path / "scores"

    def work() -> None:
        job.trust(archive_hash)
        _score_all(job, products, folder)

    return job.run.task("verify/scores", settings, inputs, [folder], work)


@dataclass
class _Scores:
    """Tables and maps as they grow, one method after the other."""

    job: Job
    folder: Path
    rows: list[pd.DataFrame] = field(default_factory=list)
    per_date: list[pd.DataFrame] = field(default_factory=list)
    histograms: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    verified: Verified = field(default_factory=Verified)

    def add(
        self,
        label: str,
        dist: xr.Dataset,
        target: Target,
        members: int,
        truth: xr.DataArray | None,
        full_spread: xr.DataArray | None = None,
        full_name: str = "",
        subsets: Mapping[str, pd.DatetimeIndex] | None = None,
    ) -> None:
        """Score one method for one target."""
        recipe = self.job.recipe
        self.job.terminal.update(f"{target.name} {label}", len(self.rows), self._total())
        fields = [*dist.data_vars.values(), *(f for f in (truth, full_spread) if f is not None)]
        nan_policy: NanPolicy = "omit" if any(map(has_gaps, fields)) else "raise"
        reference = truth if truth is not None else full_spread
        if reference is None:
            return
        scored = table.score_method(
            label,
            dist,
            truth,
            target,
            members=members,
            full_spread=full_spread,
            full_name=full_name,
            subsets=subsets,
            regions=regions(reference, recipe.verify.regions, recipe.verify.clusters, recipe.seed),
            nan_policy=nan_policy,
            bootstrap=recipe.verify.bootstrap,
            seed=recipe.seed,
        )
        self.verified.add(target.name, label, reference)
        self.rows.append(scored.rows)
        self.per_date.append(scored.per_date)
        maps = self.folder / "maps" / target.name / f"{label}.nc"
        maps.parent.mkdir(parents=True, exist_ok=True)
        netcdf.write(scored.maps, maps)
        if truth is not None:
            counts = calibration.ranks(dist, truth, grid_weights(truth), nan_policy=nan_policy)
            self.histograms.setdefault(target.name, {})[label] = counts.values.tolist()

    def _total(self) -> int:
        return len(self.job.recipe.targets) * len(self.job.recipe.methods)


def _score_all(job: Job, products: Mapping[str, str], folder: Path) -> None:
    archive = Archive.open(job.archive_path)
    folder.mkdir(parents=True)
    found = _Scores(job, folder)
    for target in job.recipe.targets:
        tested: set[np.datetime64] = set()
        subsets = _subsets(job, archive, target)
        for entry in job.recipe.methods:
            if f"predictions/{target.name}/{entry.label}" not in products:
                continue
            with ExitStack() as files:
                dist = files.enter_context(open_product(prediction(job, target, entry.label)))
                truth, full_spread = references(job, archive, entry, target, dist, files)
                if truth is None and full_spread is None:
                    continue
                tested |= set(dist["time"].to_numpy())
                members = _members(archive, entry)
                name = "" if entry.full == "all" else "other members"
                parts = subsets if truth is not None else {}
                found.add(entry.label, dist, target, members, truth, full_spread, name, parts)
        _add_limit(found, archive, target, tested)
        if found.per_date:
            add_gain_maps(job, archive, target, pd.concat(found.per_date), _pairs(job))
    _write(job, found)


def _subsets(job: Job, archive: Archive, target: Target) -> dict[str, pd.DatetimeIndex]:
    """Dates to score apart: those with the largest anomalies of the analysis."""
    share = job.recipe.verify.extremes
    if not share or archive.analysis is None:
        return {}
    folds = job.folds(archive, target, "forecast")
    none = pd.DatetimeIndex([])
    train, tested = none, none
    for fold in folds:
        train = train.union(fold.train)
        tested = tested.union(fold.predict) if fold.verified else tested
    if train.empty or tested.empty:
        return {}
    climate = truth_for(archive.analysis, target, train)
    truth = truth_for(archive.analysis, target, tested)
    return {EXTREME: extreme_dates(truth, climate, share)}


def _add_limit(
    found: _Scores, archive: Archive, target: Target, tested: set[np.datetime64]
) -> None:
    """What a perfect model would score on those of the test dates it was run for."""
    if archive.limit is None or archive.analysis is None:
        return
    value = select(archive.limit, target.variable, target.level, target.lead)
    times = pd.DatetimeIndex([t for t in archive.limit["time"].to_numpy() if t in tested])
    if len(times) == 0:
        return
    value = without_scalars(value.sel(time=times))
    truth = truth_for(archive.analysis, target, times, like=value)
    members = value.sizes["number"]
    dist = distribution.members(value, variable=target.variable, target=target.name)
    found.add(f"{table.LIMIT}-{members}", dist, target, members, without_scalars(truth))


def _members(archive: Archive, entry: MethodEntry) -> int:
    if method_class(entry.method).min_members == 0:
        return 0
    numbers = [int(number) for number in archive.forecast["number"].to_numpy()]
    return len(choose(numbers, entry.members, seed=1))  # how many, not which


def _write(job: Job, found: _Scores) -> None:
    folder = found.folder
    empty = pd.DataFrame(columns=list(table.COLUMNS))
    table.write(found.rows or [empty], folder / "scores.parquet")
    per_date = pd.DataFrame(columns=list(table.PER_DATE_COLUMNS))
    if found.per_date:
        per_date = pd.concat(found.per_date, ignore_index=True)
    table.write([per_date], folder / "per_date.parquet")
    table.write(_gains(job, per_date), folder / "gains.parquet")
    table.write([_card(job, per_date)], folder / "card.parquet")
    write_verified(found.verified, job.recipe.targets, folder)
    settings = job.recipe.verify
    for name, work in {"curves": curves.points, "worth": curves.worth}.items():
        found_rows = work(settings.curves, per_date, settings.bootstrap, job.recipe.seed)
        table.write([found_rows], folder / f"{name}.parquet")
    (folder / "histograms.json").write_text(json.dumps(found.histograms), encoding="utf-8")
    verdicts = claims_module.evaluate(
        job.recipe.claims, per_date, job.recipe.verify.bootstrap, job.recipe.seed
    )
    # JSON knows no NaN, which the limits over a single date are
    strict = [
        {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in verdict.items()}
        for verdict in verdicts
    ]
    text = json.dumps(strict, indent=1, allow_nan=False)
    (folder / "claims.json").write_text(text + "\n", encoding="utf-8")


def _leads(job: Job) -> dict[str, pd.Timedelta]:
    return {target.name: target.lead for target in job.recipe.targets}


def _gains(job: Job, per_date: pd.DataFrame) -> list[pd.DataFrame]:
    recipe = job.recipe
    parts = [pd.DataFrame(columns=list(GAIN_COLUMNS))]
    for label in reference_labels(job):
        kind = next(entry.job for entry in recipe.methods if entry.label == label)
        for region in per_date["region"].unique():
            found = gains(
                per_date,
                label,
                score="crps" if kind == "forecast" else "spread_rmse",
                region=region,
                leads=_leads(job),
                bootstrap=recipe.verify.bootstrap,
                seed=recipe.seed,
            )
            if len(found):
                parts = [*parts, found] if len(parts[0]) else [found]
    return parts


def reference_labels(job: Job) -> tuple[str, ...]:
    """Methods that gains are told against: the recipe's, or the first of each job."""
    first = {entry.job: entry.label for entry in reversed(job.recipe.methods)}
    return job.recipe.verify.references or tuple(first.values())


def _pairs(job: Job) -> list[tuple[str, str]]:
    """Every method with the first reference of its job."""
    kinds = {entry.label: entry.job for entry in job.recipe.methods}
    first = {kinds[label]: label for label in reversed(reference_labels(job))}
    return [
        (label, first[kind])
        for label, kind in kinds.items()
        if kind in first and label != first[kind]
    ]


def _card(job: Job, per_date: pd.DataFrame) -> pd.DataFrame:
    """The scorecard of a run, on all dates."""
    settings = job.recipe.verify
    whole = per_date[per_date["region"] != EXTREME]
    return scorecard(
        *(whole, whole, _pairs(job), _leads(job)),
        bootstrap=settings.bootstrap,
        seed=job.recipe.seed,
    )
