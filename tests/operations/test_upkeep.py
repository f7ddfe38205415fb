"""What a run keeps, sets aside and removes."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from night_cases import Cycles, night, product_of

from weatherpp.errors import InputError, LockedError, WeatherppError
from weatherpp.operations import history
from weatherpp.operations.ledger import Ledger
from weatherpp.pipeline.stages import alone


def test_old_products_go_and_scores_stay(place: Path, cycles: Cycles) -> None:
    cycles.drop_truth(place, 0)
    short = {"verify": {"window": "1d"}, "retention": {"products": "3d"}}
    night(place, 0, **short)
    cycles.drop(place, 5)
    assert night(place, 5, **short).fault is None
    assert not (place / "work/cycles/2026-11-01T00").exists()
    assert (place / "drop/2026-11-01T00").exists()
    table = history.history(place / "work", "z", None, None)
    assert set(table["cycle"]) == {"2026-11-01T00"}


def test_a_wrong_date_makes_nothing_old(place: Path) -> None:
    """A cycle that is refused leaves a folder, which is no reason to remove all others."""
    night(place, 0)
    shutil.copytree(place / "drop/2026-11-01T00", place / "drop/2027-11-06T00")
    fault = night(place, 370).fault
    assert isinstance(fault, InputError)
    assert "holds 2026-11-01T00, not 2027-11-06T00" in str(fault)
    assert product_of(place, 0).attrs["cycle"] == "2026-11-01T00"


def test_an_old_cycle_made_again_stays_until_the_next_run(place: Path, cycles: Cycles) -> None:
    short = {"verify": {"window": "1d"}, "retention": {"products": "3d"}}
    cycles.drop(place, 5)
    night(place, 5, **short)
    assert night(place, 0, **short).fault is None
    assert product_of(place, 0).attrs["cycle"] == "2026-11-01T00"
    (warning,) = history.status(place / "work")["faults"]
    assert "2026-11-01T00: older than retention.products" in warning["text"]
    with alone(place / "work" / "cycles" / "2026-11-01T00", "--work"):
        assert isinstance(night(place, 5, **short).fault, LockedError)
        assert product_of(place, 0).attrs["cycle"] == "2026-11-01T00"
    assert night(place, 5, **short).fault is None
    assert not (place / "work/cycles/2026-11-01T00").exists()


@pytest.mark.parametrize("older", [False, True], ids=["lost", "older copy"])
def test_ledger_learns_again_what_was_scored(place: Path, cycles: Cycles, older: bool) -> None:
    night(place, 0)
    copy = (place / "work/ledger.sqlite").read_bytes()
    cycles.drop_truth(place, 0)
    night(place, 0)
    with Ledger(place / "work") as ledger:
        scores = ledger.scores()
    for path in (place / "work").glob("ledger*"):
        path.unlink()
    if older:
        (place / "work/ledger.sqlite").write_bytes(copy)
    assert night(place, 0).fault is None
    with Ledger(place / "work", there=True) as ledger:
        pd.testing.assert_frame_equal(ledger.scores(), scores)


def garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def cut_in_two(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def of_another_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE scores")
        connection.execute("CREATE TABLE scores (cycle TEXT, target TEXT, value REAL)")


@pytest.mark.parametrize("damage", [garbage, cut_in_two, of_another_version])
def test_an_unfit_ledger_is_set_aside(
    place: Path, cycles: Cycles, damage: Callable[[Path], None]
) -> None:
    """It costs no night; that it happened is a fault, as older scores may be in it alone."""
    cycles.drop_truth(place, 0)
    night(place, 0)
    work = place / "work"
    with Ledger(work, there=True) as ledger:
        scores = ledger.scores()
    damage(work / "ledger.sqlite")
    kept = (work / "ledger.sqlite").read_bytes()
    with pytest.raises(WeatherppError, match="move it away and run again"):
        history.history(work, "z", None, None)
    fault = night(place, 1).fault
    assert fault is not None
    assert fault.exit_code == 1
    assert "it is now ledger.sqlite.aside-1" in str(fault)
    assert (work / "ledger.sqlite.aside-1").read_bytes() == kept
    assert product_of(place, 1).attrs["cycle"] == "2026-11-02T00"
    with Ledger(work, there=True) as ledger:
        pd.testing.assert_frame_equal(ledger.scores(), scores)
    assert night(place, 1).fault is None
    damage(work / "ledger.sqlite")
    assert "it is now ledger.sqlite.aside-2" in str(night(place, 1).fault)


def test_a_ledger_of_a_newer_version_is_used(place: Path, cycles: Cycles) -> None:
    cycles.drop_truth(place, 0)
    night(place, 0)
    with closing(sqlite3.connect(place / "work" / "ledger.sqlite")) as connection:
        for table in ("runs", "cycles", "stages", "inputs", "outputs", "scores", "faults"):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN new TEXT")
    assert night(place, 0, 1).fault is None
    assert len(history.status(place / "work")["cycles"]) == 2
