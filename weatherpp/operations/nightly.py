"""One run of the nightly job: cycles made, earlier ones scored, pages, retention, exit code."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from weatherpp.errors import ConfigError, WeatherppError
from weatherpp.operations.alerts import tell
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.ledger import Ledger, whole_ledger
from weatherpp.operations.log import Log
from weatherpp.operations.night import Night, together
from weatherpp.operations.producing import make
from weatherpp.operations.scoring import Drifts, score_all, watch
from weatherpp.operations.settings import Nightly
from weatherpp.operations.upkeep import clean_up, write_metrics
from weatherpp.pipeline.stages import alone


@dataclass(frozen=True)
class Outcome:
    """What a run came to: its faults as one, None if there is none, and what drifts."""

    fault: WeatherppError | None
    drifts: Drifts


def run_nightly(
    settings: Nightly,
    work: Path,
    cycles: Sequence[pd.Timestamp],
    *,
    patient: bool = False,
    jobs: int = 1,
    log: Log | None = None,
) -> Outcome:
    """Make some cycles, score all that can be scored, write the pages, clean up.

    A cycle or target that fails leaves the others alone.

    Parameters
    ----------
    settings, work
        Recipe and work folder.
    cycles
        Initial times.
    patient
        Wait for the files.
    jobs
        Processes that make cycles side by side.
    log
        Where lines go.

    Raises
    ------
    LockedError
        Another run holds the work folder.
    ConfigError
        There can be no such folder.
    WeatherppError
        The ledger cannot be used.
    """
    log = log or Log()
    try:
        outcome = _run(settings, work, cycles, patient, jobs, log)
    except Exception as error:
        tell(settings, cycles, error, Drifts(), log)
        raise
    tell(settings, cycles, outcome.fault, outcome.drifts, log)
    return outcome


def _run(
    settings: Nightly,
    work: Path,
    cycles: Sequence[pd.Timestamp],
    patient: bool,
    jobs: int,
    log: Log,
) -> Outcome:
    started = time.time()
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{work}: cannot be a work folder ({error.strerror})") from None
    with ExitStack() as stack:
        stack.enter_context(alone(work, "--work"))
        ledger, unfit = whole_ledger(work)
        night = Night(settings, work, stack.enter_context(ledger), log)
        if unfit is not None:
            night.note("", unfit)
        number = ledger.run_started(", ".join(map(cycle_name, cycles)))
        try:
            if jobs > 1 and len(cycles) > 1:
                _side_by_side(night, cycles, patient, jobs)
            else:
                for cycle in cycles:
                    make(night, cycle, patient)
            drifts = _afterwards(night, cycles)
        except (KeyboardInterrupt, SystemExit) as stop:
            stopped = stop.code if isinstance(stop, SystemExit) else 130
            with suppress(WeatherppError):
                ledger.run_ended(number, int(stopped or 0))
            raise
        fault = together(night.faults)
        if fault is None and drifts.own and settings.alerts.drift == "fail":
            fault = WeatherppError("drift: " + "; ".join(drifts.own))
        code = 0 if fault is None else fault.exit_code
        with night.collecting(""):
            ledger.run_ended(number, code)
            write_metrics(night, code, drifts, started)
        return Outcome(together(night.faults) or fault, drifts)


def _afterwards(night: Night, cycles: Sequence[pd.Timestamp]) -> Drifts:
    """Scores, drift, pages and retention; returns what drifts."""
    drifts = Drifts()
    with night.collecting(""):
        score_all(night)
    with night.collecting(""):
        drifts = watch(night)
        for text in drifts.all:
            night.warn("", f"drift: {text}")
    with night.collecting(""):
        clean_up(night, cycles)
    with night.collecting(""):
        # here, because a run must not wait for matplotlib before its products are made
        from weatherpp.operations.page import write_pages

        write_pages(night, drifts.all)
    return drifts


def _side_by_side(night: Night, cycles: Sequence[pd.Timestamp], patient: bool, jobs: int) -> None:
    # forked from a process that has nothing but the modules, neither threads nor open files
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(jobs, context, initializer=_end_with_parent) as pool:
        calls = [
            pool.submit(_make_one, night.settings, night.work, night.log, cycle, patient)
            for cycle in cycles
        ]
        try:
            for cycle, call in zip(cycles, calls, strict=True):
                try:
                    night.faults += call.result()
                except BrokenProcessPool:
                    text = "the process that made it died, perhaps for want of memory; run it again"
                    night.note(cycle_name(cycle), WeatherppError(f"{cycle_name(cycle)}: {text}"))
        except (KeyboardInterrupt, SystemExit):
            # else those that wait would still be made
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _make_one(
    settings: Nightly, work: Path, log: Log, cycle: pd.Timestamp, patient: bool
) -> list[WeatherppError]:
    """In a process of its own, with a connection of its own."""
    with Ledger(work) as ledger:
        night = Night(settings, work, ledger, log)
        make(night, cycle, patient)
        return night.faults


def _end_with_parent() -> None:
    """End this process when its parent is gone, so that no orphan works on without the lock; the
    parent alone heeds an interrupt from the terminal, which both are sent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
