"""Finished runs that were damaged, and recipes of another kind: one line each, never a number."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from weatherpp.boxes import Box
from weatherpp.errors import ConfigError, InputError
from weatherpp.events.case import Case
from weatherpp.events.load import write_cases
from weatherpp.pipeline.case_report import _cases, _notes, case_lines
from weatherpp.pipeline.compare import compare_runs
from weatherpp.pipeline.find_events import find_events
from weatherpp.pipeline.products import read_product
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.report_sections import _reason
from weatherpp.pipeline.reporting import _read
from weatherpp.pipeline.run import find_recipe, read_claims
from weatherpp.recipe import FindSettings, load_recipe

DATES = pd.date_range("2020-01-01", periods=20)


def run_folder(path: Path, level: float = 1.0) -> Path:
    """What ``compare`` reads of a run: one method, one target, one score."""
    scores = path / "scores"
    scores.mkdir(parents=True)
    rng = np.random.default_rng(1)
    head = {"target": "z500", "method": "raw", "time": DATES}
    value = level * (1 + 0.1 * rng.random(DATES.size))
    more = {"region": "whole grid", "score": "crps", "estimator": "fair", "pairs": 4}
    pd.DataFrame({**head, **more, "value": value}).to_parquet(scores / "per_date.parquet")
    pd.DataFrame({**head, "digest": "same"}).to_parquet(scores / "verified.parquet")
    about = {"z500": {"variable": "z500", "step_hours": 48}}
    (scores / "targets.json").write_text(json.dumps(about), encoding="utf-8")
    return path


def test_two_sound_runs(tmp_path: Path) -> None:
    card = compare_runs(run_folder(tmp_path / "a"), run_folder(tmp_path / "b", 0.5)).card
    assert card["gain"].tolist() == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        # a fault with a traceback before
        ("per_date", {"value": "text"}, "some of its scores are no numbers"),
        ("per_date", {"time": "2020-01-01"}, "its dates are none"),
        ("verified", {"time": "2020-01-01"}, "its dates are none"),
        # a wrong number before: "cannot be compared", and exit code 0
        ("per_date", {"value": np.nan}, "some of its scores are no numbers"),
        ("per_date", {"value": np.inf}, "some of its scores are no numbers"),
        ("per_date", {"time": pd.Timestamp("2020-01-01")}, "19 of its rows stand twice"),
    ],
)
def test_damaged_tables_are_not_compared(
    tmp_path: Path, name: str, change: dict[str, object], fault: str
) -> None:
    a, b = run_folder(tmp_path / "a"), run_folder(tmp_path / "b")
    path = b / "scores" / f"{name}.parquet"
    pd.read_parquet(path).assign(**change).to_parquet(path)
    with pytest.raises(InputError, match=f"b/scores/{name}.parquet: damaged, {fault}; make it ag"):
        compare_runs(a, b)


@pytest.mark.parametrize(
    "about",
    [{}, {"z500": {"variable": "z", "step_hours": float("nan")}}, {"t650": {}}, [1]],
)
def test_a_target_without_a_lead_time_is_not_compared(tmp_path: Path, about: object) -> None:
    a, b = run_folder(tmp_path / "a"), run_folder(tmp_path / "b")
    (b / "scores" / "targets.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(InputError, match=r"targets.json: .*make it again with 'weatherpp verify"):
        compare_runs(a, b)


def test_a_verdict_that_is_no_verdict_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "scores" / "claims.json"
    path.parent.mkdir()
    claim = {"name": "better", "text": "by far"}
    # 'false' as text was printed as "holds"; an empty mapping as a run without claims
    for content in ([{**claim, "holds": "false"}], [{**claim, "holds": None}], {}, "abc", [1]):
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(InputError, match=r"claims.json: damaged; make it again"):
            read_claims(tmp_path)
    path.write_text(json.dumps([{**claim, "holds": False}]), encoding="utf-8")
    assert [each["holds"] for each in read_claims(tmp_path)] == [False]
    path.write_text("[]", encoding="utf-8")
    assert read_claims(tmp_path) == []


def test_the_recipe_of_the_nightly_job_names_its_command() -> None:
    path = find_recipe("nightly")
    with pytest.raises(
        ConfigError, match=f"operational recipe.*'weatherpp nightly --recipe {path}"
    ):
        load_recipe(path)


@pytest.mark.parametrize(
    ("settings", "output", "text"),
    [
        ({"variable": "q"}, None, "no events of q to find: the targets are z500, t650"),
        ({}, "nowhere/found.yaml", "nowhere: no such folder to write to"),
        ({}, ".", "is there and is no file; name a file"),
    ],
)
def test_what_cannot_be_found_is_refused_before_an_archive_is_made(
    tmp_path: Path, settings: dict[str, str], output: str | None, text: str
) -> None:
    run = tmp_path / "run"
    with Terminal() as terminal, pytest.raises((ConfigError, InputError), match=text):
        find_events(
            "demo",
            FindSettings(**settings),
            overrides=(),
            run_dir=run,
            output=None if output is None else tmp_path / output,
            terminal=terminal,
        )
    assert not run.exists()


def test_damaged_results_of_cases_say_how_to_make_them_again(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "gains.parquet").write_bytes(b"PAR1 cut off")
    assert "gains.parquet: damaged; make it again with 'weatherpp rep" in case_lines(folder)[0]
    for text in ("[1", "{}", '{"left_out": [], "cases": 5}'):
        (folder / "notes.json").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"notes.json: missing or damaged; .*--force events"):
            _notes(folder)
    box = Box(north=10, south=0, west=0, east=10)
    storm = Case(name="storm", start="2020-01-01 00:00", end="2020-01-02 00:00", box=box)
    write_cases([storm], folder / "cases.yaml")
    assert _cases(folder, {"cases": {"storm": {}}}) == (storm,)
    with pytest.raises(InputError, match=r"other cases than in notes.json; make it again"):
        _cases(folder, {"cases": {}})
    (folder / "cases.yaml").write_text("- name: storm", encoding="utf-8")
    with pytest.raises(InputError, match=r"cases.yaml: .*; make it again with"):
        _cases(folder, {"cases": {}})


def test_a_damaged_product_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "raw.nc"
    path.write_bytes(b"\x89HDF\r\n\x1a\n and nothing more")
    with pytest.raises(
        InputError, match=r"raw.nc: damaged \(.*\); do the stage that makes it again"
    ):
        read_product(path)
    assert _reason(InputError(f"{path}: damaged; do it again in {tmp_path}"), tmp_path) == (
        "raw.nc: damaged; do it again in RUN"
    )


def test_histograms_of_another_shape_are_no_scores(tmp_path: Path) -> None:
    for name in ("scores", "gains"):
        pd.DataFrame({"a": [1]}).to_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "claims.json").write_text("[]", encoding="utf-8")
    for text in ("[1]", '{"z500": [1]}', '{"z500": {"raw": "many"}}'):
        (tmp_path / "histograms.json").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="no whole set of scores"):
            _read(tmp_path)
