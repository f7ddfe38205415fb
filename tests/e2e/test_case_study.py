"""Cases from end to end on a small archive: found, studied, reported; and what is said without."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from jobs import FIVE, RECIPE, Command, write_yaml

from weatherpp.events.load import load_cases
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.run import Outcome, run_recipe

NAMED = {
    "name": "across-greenwich",
    "title": "A box across Greenwich",
    "start": "2003-01-01 00:00:00",
    "end": "2003-03-31 00:00:00",
    "peak": "2003-02-01 00:00:00",
    "box": {"north": 65, "south": 35, "west": -30, "east": 30},
    "story": "Told by nobody <script>.",
    "thresholds": [{"variable": "z", "level": 500, "above": 55500}],
}
ELSEWHEN = {
    **NAMED,
    "name": "elsewhen",
    "start": "1990-01-01 00:00:00",
    "end": "1990-01-02 00:00:00",
}
del ELSEWHEN["peak"]


def recipe() -> dict[str, Any]:
    made = deepcopy(RECIPE)
    field = {"variable": "z", "level": 500}
    made["targets"] = [{"label": f"z-{hour}h", **field, "step": f"{hour}h"} for hour in (24, 48)]
    made["methods"] = [
        {"label": "raw-10", "method": "raw"},
        {"label": "raw-5", "method": "raw", "members": FIVE},
        {"label": "emos-5", "method": "emos", "members": FIVE},
        {"label": "bias-5", "method": "bias", "members": FIVE},
    ]
    made["claims"] = []
    made["verify"] = {"bootstrap": {"samples": 200}}
    made["cases"] = {"files": ["cases.yaml"], "find": {**field, "count": 1}, "raw": "raw-5"}
    made["report"] = {"maps": 0}
    return made


def run(workplace: Path, **settings: Any) -> Outcome:
    with Terminal() as terminal:
        return run_recipe(workplace / "tiny.yaml", terminal=terminal, **settings)


def test_cases_from_files_and_found_ones(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, weatherpp: Command
) -> None:
    monkeypatch.chdir(workplace)
    write_yaml(workplace / "tiny.yaml", recipe())
    write_yaml(workplace / "cases.yaml", [NAMED, ELSEWHEN])
    outcome = run(workplace)
    events = workplace / "runs" / "tiny" / "events"
    cases = load_cases(events / "cases.yaml").cases
    assert cases[0].name == "across-greenwich"
    assert len(cases) == 2
    found = cases[1:]
    notes = json.loads((events / "notes.json").read_text(encoding="utf-8"))
    assert notes["left_out"] == [
        "elsewhen: no forecast of z500 is valid between 1990-01-01 00:00:00 and 1990-01-02 00:00:00"
    ]
    assert "elsewhen" in outcome.summary()

    # the first found event is the deepest anomaly of the test dates, read from the raw file
    with xr.open_dataset(workplace / "files" / "analysis.nc") as ds:
        z = ds["z"].sel(level=500).load()
    valid = pd.DatetimeIndex(z["valid_time"].values)
    anomaly = z[valid.year == 2003] - z[valid.year == 2001].mean("valid_time")
    where = np.unravel_index(int(anomaly.values.argmin()), anomaly.shape)
    assert found[0].peak == pd.Timestamp(anomaly["valid_time"].values[where[0]])
    assert found[0].place.longitude == pytest.approx(float(z["longitude"][where[2]]))

    # scores: one box over many dates has an interval, found events of few dates have none
    scores = pd.read_parquet(events / "scores.parquet")
    crps = scores[(scores["score"] == "crps") & (scores["method"] == "emos-5")]
    named = crps[crps["region"] == "across-greenwich"]
    assert sorted(named["step_hours"]) == [24, 48]
    assert (named["low"] < named["value"]).all()
    few = crps[crps["region"] == found[0].name]
    assert (few["dates"] < 8).all()
    assert few["low"].isna().all()
    assert "all cases" in set(crps["region"])
    gains = pd.read_parquet(events / "gains.parquet")
    assert set(gains["reference"]) == {"raw-5", "emos-5"}

    # rarity and the index of extremes
    rarity = notes["cases"][found[0].name]["rarity"]["z500"]
    assert "analyses of the training dates" in rarity
    with xr.open_dataset(events / "extremes" / f"{found[0].name}-z500.nc") as extremes:
        assert float(abs(extremes["efi"]).max()) <= 1
        assert extremes.attrs["members"] == 5

    page = (workplace / "runs" / "tiny" / "report.html").read_text(encoding="utf-8")
    whole = page
    assert "Case: A box across Greenwich" in page
    assert "Told by nobody &lt;script&gt;" in page
    assert "All cases together" in page
    for what in (
        *("Nine maps", "probability of geopotential at 500 hPa above 55500"),
        *("Extreme forecast index", "CRPS by lead time", "over the lead time"),
    ):
        assert what in page, what

    # nothing is done twice; the finder alone gives the same events
    assert run(workplace).redone == ()
    result = weatherpp(
        *("events", "find", "runs/tiny", "--count", "1", "--level", "500", "-o", "mine.yaml"),
        cwd=workplace,
    )
    assert result.returncode == 0, result.stderr
    assert load_cases(workplace / "mine.yaml").cases == found
    assert result.stdout.count("below its climate by") == 1

    # one figure that cannot be drawn costs that figure alone
    (events / "extremes" / f"{found[0].name}-z500.nc").write_bytes(b"cut off")
    assert weatherpp("report", "runs/tiny", cwd=workplace).returncode == 0
    page = (workplace / "runs" / "tiny" / "report.html").read_text(encoding="utf-8")
    assert f"<li>case {found[0].name}, extremes of z500: " in page
    assert page.count("CRPS by lead time") == whole.count("CRPS by lead time")


def test_data_that_are_not_here_are_named(weatherpp: Command, tmp_path: Path) -> None:
    result = weatherpp("events", "run", "winston-2016", cwd=tmp_path)
    assert result.returncode == 3
    assert len(result.stderr.strip().splitlines()) == 1
    assert "case winston-2016 needs ENS-10" in result.stderr
    assert "WEATHERPP_ARCHIVES" in result.stderr
    assert not (tmp_path / "runs").exists()
    none = weatherpp("events", "run", "nobody", cwd=tmp_path)
    assert none.returncode == 2
    assert "no case 'nobody'" in none.stderr
