"""Earlier cycles scored as their analyses come, and held against what the model was known for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.conventions import has_gaps
from weatherpp.data.matching import truth_for
from weatherpp.errors import InputError, WeatherppError
from weatherpp.operations import registry
from weatherpp.operations.checking import refuse_constant
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.ledger import SCORE_COLUMNS, main_estimator
from weatherpp.operations.night import CycleTasks, Night, in_words
from weatherpp.operations.producing import read
from weatherpp.operations.settings import NightlyTarget
from weatherpp.operations.source import Arrival, read_analysis
from weatherpp.pipeline.stages import alone
from weatherpp.recipe import parse_step
from weatherpp.verify import table
from weatherpp.verify.aggregate import NanPolicy

OWN, RAW, SHADOW = "post-processed", "raw", "shadow"


def score_all(night: Night) -> None:
    """Score all cycles in the window whose analyses are there; what is scored is skipped."""
    newest = night.newest()
    if newest is None or not night.settings.source.analysis:
        return
    first = newest - parse_step(night.settings.verify.window)
    for cycle in night.cycles():
        if cycle < first:
            continue
        name = cycle_name(cycle)
        with night.collecting(name), alone(night.folder(cycle), "--work"):
            tasks = CycleTasks(night, night.folder(cycle), name)
            for target in night.settings.targets:
                with night.collecting(name):
                    _score(tasks, cycle, target)


def _score(tasks: CycleTasks, cycle: pd.Timestamp, target: NightlyTarget) -> None:
    night = tasks.night
    product, shadow = night.product(cycle, target), night.shadow(cycle, target)
    if tasks.run.result(f"product/{target.name}") is None or not product.exists():
        return
    arrival = night.source.analysis(cycle + target.lead)
    for text in arrival.lacking:
        night.warn(tasks.cycle, text)
    if not arrival.files:
        return
    path = night.scored(cycle, target)
    ours = {OWN: product, RAW: night.raw(cycle, target)}
    _score_some(tasks, target, arrival, ours, f"product/{target.name}", path)
    made = f"shadow/{target.name}"
    if tasks.run.result(made) is None or not shadow.exists():
        return
    try:
        path = path.parent / "shadow" / path.name
        _score_some(tasks, target, arrival, {SHADOW: shadow}, made, path)
    except Exception as error:  # as when it is run: the forecast is left alone
        told = in_words(error)
        night.warn(tasks.cycle, f"{target.name}: shadow was not scored: {told}")


def _score_some(
    tasks: CycleTasks,
    target: NightlyTarget,
    arrival: Arrival,
    products: Mapping[str, Path],
    made: str,
    path: Path,
) -> None:
    """Scores of what the task ``made`` has made, into a file and into the ledger."""
    night = tasks.night

    def put() -> None:
        night.ledger.put_scores(pd.read_parquet(path))

    def work() -> None:
        dists = {label: _read_back(file, tasks.cycle) for label, file in products.items()}
        table.write([scores_of(night, tasks.cycle, target, arrival, dists)], path)
        put()  # before the task is done, so that a run killed here does it again

    hashes = night.ledger.hashes(arrival.files, tasks.cycle)
    inputs = [str(tasks.run.result(made)), *hashes]
    # that of the product is called by the name of the target alone
    task = f"score/{made.removeprefix('product/')}"
    tasks.do(task, [target.field, night.settings.source.reading], inputs, [path], work)
    tasks.again(task, [path], put)


def _read_back(file: Path, cycle: str) -> xr.Dataset:
    try:
        return read(file)
    except Exception as error:  # a store may fail in any way
        raise InputError(
            f"{file}: cannot be read back ({in_words(error)}); make it again with 'weatherpp "
            f"nightly --cycle {cycle}'"
        ) from None


def scores_of(
    night: Night,
    cycle: str,
    target: NightlyTarget,
    arrival: Arrival,
    products: Mapping[str, xr.Dataset],
) -> pd.DataFrame:
    """Scores of some products of a cycle; columns
    :data:`~weatherpp.operations.ledger.SCORE_COLUMNS`.

    Parameters
    ----------
    night, cycle, target
        What was made.
    arrival
        The analysis.
    products
        By the name of their method; the first one tells members and model.

    Raises
    ------
    InputError
        The analysis cannot be used, or lies on another grid.
    """
    first = next(iter(products.values()))
    times = pd.DatetimeIndex(first["time"].values)
    where = ", ".join(map(str, arrival.files))
    try:
        analysis = read_analysis(night.settings.source, arrival)
        truth = truth_for(analysis, target, times, distribution.pattern(first)).load()
        refuse_constant(truth, where)
    except InputError as error:
        raise InputError(f"{where}: {str(error).removeprefix(f'{where}: ')}") from None
    fields = (truth, *(da for ds in products.values() for da in ds.data_vars.values()))
    policy: NanPolicy = "omit" if any(map(has_gaps, fields)) else "raise"
    parts = []
    for label, dist in products.items():
        count = len(str(first.attrs["members_used"]).split())
        members = dist.sizes["number"] if label == RAW else count
        scored = table.score_method(
            label, dist, truth, target, members=members, nan_policy=policy, seed=night.settings.seed
        )
        parts.append(scored.per_date.assign(members=members))
    found = pd.concat(parts, ignore_index=True).assign(
        cycle=cycle,
        variable=target.variable,
        level=np.nan if target.level is None else float(target.level),
        step_hours=target.lead / pd.Timedelta(hours=1),
        model=str(first.attrs["model"]),
        units=str(truth.attrs.get("units", "1")),
    )
    return found[list(SCORE_COLUMNS)]


class Drifts(NamedTuple):
    """What drifts, in words: of the current versions, and of those that run as shadows."""

    own: tuple[str, ...] = ()
    shadow: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Both."""
        return self.own + self.shadow


def watch(night: Night) -> Drifts:
    """What is no longer as it was, for each target and kind of number; a version is held against
    what is noted with it, on the cycles that it made itself."""
    scores = night.ledger.scores()
    own: list[str] = []
    shadow: list[str] = []
    for target in night.settings.targets:
        rows = scores[scores["target"] == target.name]
        with night.collecting(""):
            version = registry.current(Path(target.models))
            own += _watch(night, rows[rows["method"] == OWN], version, target.name)
        if target.shadow is None:
            continue
        with suppress(WeatherppError):  # which was told when it was to be run
            version = registry.named(Path(target.models), target.shadow)
            name = f"{target.name}, shadow {version.name}"
            shadow += _watch(night, rows[rows["method"] == SHADOW], version, name)
    return Drifts(tuple(own), tuple(shadow))


def _watch(night: Night, rows: pd.DataFrame, version: registry.Version, name: str) -> list[str]:
    made = rows[rows["model"].str.startswith(f"{version.name}/")]
    last = sorted(made["cycle"].unique())[-night.settings.drift.cycles :]
    if len(last) < night.settings.drift.cycles:
        return []
    noted = dict(version.scores.get(version.models[0], {}))
    text = f"{name}, cycles {last[0]} to {last[-1]}"
    return [f"{text}: {fault}" for fault in _drift(night, made[made["cycle"].isin(last)], noted)]


def by_version(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores with the version in the name of a shadow's method, as several may have run so."""
    version = scores["model"].str.split("/").str[0]
    return scores.assign(
        method=scores["method"].where(scores["method"] != SHADOW, SHADOW + " " + version)
    )


def numbers_of(recent: pd.DataFrame) -> dict[str, float]:
    """Mean CRPS, bias, RMSE and spread over error of the scores of one method and target."""
    mean = main_estimator(recent).groupby("score")["value"].mean()
    found = {"crps": float(mean["crps"]), "bias": float(mean["error"])}
    found["rmse"] = float(mean["squared_error"] ** 0.5)
    if table.EXPECTED in mean.index and mean["squared_error"] > 0:
        found["spread_skill"] = float((mean[table.EXPECTED] / mean["squared_error"]) ** 0.5)
    return found


def _drift(night: Night, recent: pd.DataFrame, noted: dict[str, float]) -> list[str]:
    limits, now = night.settings.drift, numbers_of(recent)
    basis = "noted with the model" if noted else "of a model without bias and with right spread"
    faults = []
    bias, rmse = noted.get("bias", 0.0), noted.get("rmse", now["rmse"])
    if abs(now["bias"] - bias) > limits.bias * rmse:
        faults.append(
            f"bias {now['bias']:.3g} against {bias:.3g} {basis} (limit {limits.bias:g} of the RMSE "
            f"{rmse:.3g})"
        )
    ratio, was = now.get("spread_skill"), noted.get("spread_skill", 1.0)
    if ratio is not None and not 1 / limits.spread_skill <= ratio / was <= limits.spread_skill:
        faults.append(
            f"spread over error {ratio:.3g} against {was:.3g} {basis} (limit a factor of "
            f"{limits.spread_skill:g})"
        )
    if "crps" in noted and now["crps"] > limits.crps * noted["crps"]:
        faults.append(
            f"CRPS {now['crps']:.3g} against {noted['crps']:.3g} {basis} (limit a factor of "
            f"{limits.crps:g})"
        )
    return faults
