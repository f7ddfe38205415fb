"""After the products: old ones removed, and the numbers for those who watch."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from weatherpp.errors import WeatherppError
from weatherpp.files import write_whole
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.fetch import Server
from weatherpp.operations.night import Night
from weatherpp.operations.scoring import Drifts, by_version, numbers_of
from weatherpp.pipeline.stages import alone
from weatherpp.recipe import parse_step

GONE = ".old"


def clean_up(night: Night, own: Sequence[pd.Timestamp] = ()) -> list[str]:
    """Remove cycles that are older, against the newest, than the retention; returns their names.

    Time is counted from cycle to cycle and not by the clock, and those of this run, ``own``, stay
    until the next, so that a backfill of long ago does not lose its products at once.
    """
    for stray in filter(Path.is_dir, (night.work / "cycles").glob(f".*{GONE}")):
        shutil.rmtree(stray)
    cycles, newest = night.cycles(), night.newest()
    if newest is None:
        return []
    first = newest - parse_step(night.settings.retention.products)
    old = [cycle for cycle in cycles if cycle < first]
    for cycle in set(old).intersection(own):
        text = "older than retention.products, so that the next run removes it"
        night.warn(cycle_name(cycle), f"{cycle_name(cycle)}: {text}")
    gone = [cycle for cycle in old if cycle not in own]
    _forget_fetched(night, cycles, newest, gone)
    for cycle in gone:
        folder = night.folder(cycle)
        # out of sight first, so that no half of a product is ever seen
        away = folder.with_name(f".{folder.name}{GONE}")
        with alone(folder, "--work"):
            folder.replace(away)
        shutil.rmtree(away)
        night.log.say(cycle_name(cycle), "retention", "removed")
    return [cycle_name(cycle) for cycle in gone]


def _forget_fetched(
    night: Night,
    cycles: Sequence[pd.Timestamp],
    newest: pd.Timestamp,
    gone: Sequence[pd.Timestamp],
) -> None:
    """Remove what was fetched for cycles that go, and forecasts of old ones that stay."""
    source = night.source
    if not isinstance(source, Server):
        return
    first = newest - parse_step(night.settings.retention.fetched)
    leads = [target.lead for target in night.settings.targets]
    needed = {cycle + lead for cycle in cycles if cycle not in gone for lead in leads}
    for cycle in cycles:
        if cycle < first or cycle in gone:
            source.forget("forecast", cycle)
    for valid in {cycle + lead for cycle in gone for lead in leads} - needed:
        source.forget("analysis", valid)


def write_metrics(night: Night, code: int, drifts: Drifts, started: float) -> None:
    """The text file for Prometheus' node exporter, if the recipe asks for one.

    Raises
    ------
    WeatherppError
        It cannot be written.
    """
    name = night.settings.alerts.prometheus
    if name is None:
        return
    path = Path(name)
    try:
        write_whole(path, metrics(night, code, drifts, started))
    except OSError as error:
        raise WeatherppError(f"{path}: cannot be written ({error.strerror})") from None


def metrics(night: Night, code: int, drifts: Drifts, started: float) -> str:
    """Text in the exposition format of Prometheus."""
    job = {"job_name": night.settings.name}
    lines = _metric("exit_code", "Exit code of the last run.", [(job, code)])
    now = time.time()
    lines += _metric("run_seconds", "Duration of the last run.", [(job, now - started)])
    lines += _metric("run_timestamp_seconds", "End of the last run.", [(job, now)])
    lines += _metric("drift_warnings", "Drift warnings of the last run.", [(job, len(drifts.own))])
    told = "The same of versions that run as shadows."
    lines += _metric("shadow_drift_warnings", told, [(job, len(drifts.shadow))])
    cycles = night.ledger.table("SELECT * FROM cycles ORDER BY cycle")
    made = cycles[cycles["state"].isin(["done", "partial"])]
    if len(made):
        last = made.iloc[-1]
        at = pd.Timestamp(str(last["cycle"]).replace("T", " ") + ":00", tz="UTC").timestamp()
        lines += _metric("last_cycle_timestamp_seconds", "Newest cycle made.", [(job, at)])
        lines += _metric("last_cycle_members", "Its members.", [(job, float(last["members"]))])
    scored = by_version(night.ledger.scores())
    rows = []
    for (target, method), part in scored.groupby(["target", "method"]):
        newest = sorted(part["cycle"].unique())[-night.settings.drift.cycles :]
        for score, value in numbers_of(part[part["cycle"].isin(newest)]).items():
            rows.append(
                ({**job, "target": str(target), "method": str(method), "score": score}, value)
            )
    lines += _metric("score", "Score of the last cycles with an analysis.", rows)
    return "\n".join(lines) + "\n"


def _metric(name: str, told: str, values: list[tuple[dict[str, str], float]]) -> list[str]:
    full = f"weatherpp_nightly_{name}"
    lines = [f"# HELP {full} {told}", f"# TYPE {full} gauge"]
    for labels, value in values:
        text = ",".join(f'{key}="{_escaped(str(of))}"' for key, of in labels.items())
        lines.append(f"{full}{{{text}}} {value if math.isfinite(value) else 'NaN'}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
