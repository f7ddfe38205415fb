"""Promises that only real processes can bear out: kills, locks, a full disk, other clocks."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from night_cases import Cycles, command, contents, cycle_at, finish, settings_of, write_recipe

from weatherpp.errors import LockedError, WeatherppError
from weatherpp.operations import history
from weatherpp.operations.ledger import Ledger
from weatherpp.operations.log import Log
from weatherpp.operations.nightly import run_nightly
from weatherpp.pipeline.stages import alone

DAYS = ("--from", "2026-11-01T00", "--to", "2026-11-02T00")
KILLS = 30


@pytest.fixture
def undisturbed(place: Path, cycles: Cycles) -> dict[str, bytes]:
    """Products and scores of two days, one of them verified, made in one go."""
    cycles.drop_truth(place, 0)
    days = [cycle_at(day) for day in (0, 1)]
    outcome = run_nightly(settings_of(place), place / "whole", days, log=Log(quiet=True))
    assert outcome.fault is None
    return contents(place / "whole")


def one_line(log: Path, *words: str) -> None:
    lines = [line for line in log.read_text().splitlines() if line.startswith("weatherpp:")]
    assert len(lines) == 1, log.read_text()
    assert "Traceback" not in log.read_text()
    for word in words:
        assert word in lines[0]


def test_killed_thirty_times(place: Path, undisturbed: dict[str, bytes]) -> None:
    """Whatever has its final name is whole, and the next run makes the rest."""
    recipe, work, log = write_recipe(place), place / "work", place / "log"
    call = ("nightly", "--recipe", recipe, "--work", str(work), *DAYS)
    begin = time.monotonic()
    assert finish(command(*call, log=log)) == 0, log.read_text()
    whole = time.monotonic() - begin
    shutil.rmtree(work)
    rng, cut = random.Random(1), 0
    for _ in range(KILLS):
        process = command(*call, log=log)
        time.sleep(rng.uniform(0, whole))
        assert process.pid is not None
        with suppress(ProcessLookupError):  # it was faster
            os.kill(process.pid, signal.SIGKILL)
        ended = finish(process)
        found = contents(work)
        assert {name: undisturbed[name] for name in found} == found
        cut += ended == -signal.SIGKILL
        if len(found) == len(undisturbed):
            shutil.rmtree(work)
    assert cut > KILLS / 3
    assert finish(command(*call, log=log)) == 0, log.read_text()
    assert contents(work) == undisturbed
    assert not list(work.rglob("*.part"))


def test_second_run_exits_4_and_a_crash_frees_the_lock(place: Path) -> None:
    recipe, work, log = write_recipe(place), place / "work", place / "log"
    call = ("nightly", "--recipe", recipe, "--work", str(work), "--cycle", "2026-11-01T00")
    waiting = write_recipe(place).replace("night.yaml", "waiting.yaml")
    shutil.copy(recipe, waiting)
    slow = ("--set", "source.wait=1h", "--set", "source.count=6")
    holder = command(
        "nightly",
        "--recipe",
        waiting,
        "--work",
        str(work),
        "--cycle",
        "2026-11-01T00",
        *slow,
        log=place / "holder",
    )
    while not (work / "ledger.sqlite").exists():
        time.sleep(0.02)
    assert finish(command(*call, log=log)) == 4
    one_line(log, "another run is at work", "--work")
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    finish(holder)
    assert finish(command(*call, log=log)) == 0, log.read_text()


def test_other_time_zone_gives_the_same_bytes(place: Path, undisturbed: dict[str, bytes]) -> None:
    log = place / "log"
    call = ("nightly", "--recipe", write_recipe(place), "--work", str(place / "work"), *DAYS)
    assert finish(command(*call, log=log, zone="Pacific/Auckland")) == 0, log.read_text()
    assert contents(place / "work") == undisturbed


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("may not mount a small file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_loses_nothing(place: Path, undisturbed: dict[str, bytes]) -> None:
    small, log = place / "small", place / "log"
    work = small / "work"
    call = ("nightly", "--recipe", write_recipe(place), "--work", str(work))
    first = {name: content for name, content in undisturbed.items() if "2026-11-01" in name}
    with mounted(small, "size=6m"):
        assert finish(command(*call, "--cycle", "2026-11-01T00", log=log)) == 0, log.read_text()
        for room in (0, 40_000, 120_000):
            free = os.statvfs(small)
            (small / "filler").write_bytes(b"x" * max(free.f_bavail * free.f_frsize - room, 0))
            assert finish(command(*call, "--cycle", "2026-11-02T00", log=log)) == 1, log.read_text()
            one_line(log)
            found = contents(work)
            assert {name: undisturbed[name] for name in found} == found
            assert found.items() >= first.items()
            (small / "filler").unlink()
        assert finish(command(*call, "--cycle", "2026-11-02T00", log=log)) == 0, log.read_text()
        assert contents(work) == undisturbed


def test_read_only_input(place: Path, undisturbed: dict[str, bytes]) -> None:
    read_only, log = place / "drop", place / "log"
    shutil.move(read_only, place / "kept")
    with mounted(read_only, "size=20m"):
        shutil.copytree(place / "kept", read_only, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", str(read_only)], check=True)
        call = ("nightly", "--recipe", write_recipe(place), "--work", str(place / "work"), *DAYS)
        assert finish(command(*call, log=log)) == 0, log.read_text()
    assert contents(place / "work") == undisturbed


def test_lines_as_json_and_what_the_ledger_says(place: Path) -> None:
    log, work = place / "log", place / "work"
    call = ("nightly", "--recipe", write_recipe(place), "--work", str(work), "--log-json")
    (place / "drop/2026-11-01T00/m4.nc").unlink()
    assert finish(command(*call, "--cycle", "2026-11-01T00", log=log)) == 5
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {line["what"] for line in lines if line["state"] == "done"} == {
        "check/input",
        "product/z500-48h",
        "report/pages",
    }
    one_line(log, "1 of 5 members missing (4)")
    told = place / "told"
    assert finish(command("status", "--work", str(work), "--json", log=told)) == 0
    found = json.loads(told.read_text())
    assert found["cycles"][0]["state"] == "partial"
    assert found["run"]["code"] == 5
    assert history.status(work)["cycles"] == found["cycles"]
    with Ledger(work, there=True) as ledger:
        assert len(ledger.table("SELECT * FROM inputs")) == 4
        assert set(ledger.table("SELECT * FROM outputs")["stage"]) >= {"product/z500-48h"}
    assert finish(command("history", "--variable", "z", "--work", str(work), log=told)) == 3
    one_line(told, "nothing of that field is scored yet")


def test_a_cycle_at_work_elsewhere_is_left_alone(place: Path) -> None:
    """What an orphan of a killed backfill still holds."""
    folder = place / "work" / "cycles" / "2026-11-01T00"
    folder.mkdir(parents=True)
    days = [cycle_at(day) for day in (0, 1)]
    with alone(folder, "--work"):
        outcome = run_nightly(settings_of(place), place / "work", days, log=Log(quiet=True))
    assert outcome.fault is not None
    assert outcome.fault.exit_code == 4
    assert (place / "work/cycles/2026-11-02T00/z500-48h.nc").exists()


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_told_to_end_it_ends_and_says_so(
    place: Path, undisturbed: dict[str, bytes], number: int, code: int, words: str
) -> None:
    """Cycles that wait for a process are not made first, and a later run makes them."""
    recipe, work, log = write_recipe(place), place / "work", place / "log"
    call = ("nightly", "--recipe", recipe, "--work", str(work))
    # sixty cycles of which the first are there; a file that grows holds up the others
    many = ("--from", "2026-11-01T00", "--to", "2026-12-30T00", "--set", "source.settle=1h")
    process = command(*call, *many, "--jobs", "2", log=log)
    while not (work / "ledger.sqlite").exists():
        time.sleep(0.02)
    with Ledger(work, there=True) as ledger:
        while not started(ledger):
            time.sleep(0.02)
    assert process.pid is not None
    os.kill(process.pid, number)
    assert finish(process) == code, log.read_text()
    one_line(log, words, "run the same command again to go on")
    assert history.status(work)["run"]["code"] == code
    assert len(history.status(work, 100)["cycles"]) <= 2
    assert finish(command(*call, *DAYS, log=log)) == 0, log.read_text()
    assert contents(work) == undisturbed


def started(ledger: Ledger) -> bool:
    """Whether the run has noted that it has begun; no such table is there at first."""
    with suppress(WeatherppError):
        return len(ledger.table("SELECT * FROM runs")) > 0
    return False


def test_what_cannot_be_written_can_be_read(place: Path, undisturbed: dict[str, bytes]) -> None:
    """A work folder on a disk that is read-only tells where the job stands."""
    read_only, log = place / "small", place / "log"
    with mounted(read_only, "size=20m"):
        shutil.copytree(place / "whole", read_only / "work")
        subprocess.run(["mount", "-o", "remount,ro", str(read_only)], check=True)
        work = ("--work", str(read_only / "work"))
        assert finish(command("status", *work, log=log)) == 0, log.read_text()
        assert "2026-11-02T00  done         5/5" in log.read_text()
        assert finish(command("history", "--variable", "z", *work, log=log)) == 0
        assert "post-processed" in log.read_text()
        call = ("nightly", "--recipe", write_recipe(place), *work, "--cycle", "2026-11-01T00")
        assert finish(command(*call, log=log)) == 2
        one_line(log, "cannot be written (Read-only file system)", "--work")


def test_a_ledger_that_another_process_writes_to(place: Path) -> None:
    Ledger(place).connection.close()
    with closing(sqlite3.connect(place / "ledger.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Ledger(place) as ledger:
            ledger.connection.execute("PRAGMA busy_timeout=1")
            with pytest.raises(LockedError, match=r"another process writes to it.*fuser -v"):
                ledger.run_started("2026-11-01T00")
            assert ledger.table("SELECT * FROM runs").empty  # it can still be read
