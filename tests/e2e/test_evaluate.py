"""``weatherpp evaluate`` and ``weatherpp compare`` on tiny runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
from jobs import RECIPE, Command, write_yaml

from weatherpp.verify.regions import WHOLE


def assert_one_line(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("weatherpp:")]
    assert len(lines) == 1, result.stderr
    for word in words:
        assert word in lines[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, source_files: Path) -> Path:
    from jobs import ENTRY

    folder = tmp_path_factory.mktemp("evaluate")
    shutil.copytree(source_files, folder / "files")
    (folder / "data_catalog").mkdir()
    write_yaml(folder / "data_catalog" / "tiny.yaml", ENTRY)
    box = {"north": 60, "south": 30, "west": -50, "east": 10}
    recipe = {**deepcopy(RECIPE), "verify": {"regions": {"North Atlantic": box}}}
    write_yaml(folder / "tiny.yaml", recipe)
    other = deepcopy(recipe)
    other["methods"][1]["members"]["count"] = 3
    write_yaml(folder / "other.yaml", other)
    return folder


def test_evaluate_then_compare(weatherpp: Command, place: Path) -> None:
    first = weatherpp("evaluate", "tiny.yaml", "--run-dir", "a", cwd=place)
    assert first.returncode == 0, first.stderr
    assert "emos-5 against raw-10: gain in %" in first.stdout
    assert "report: a/report.html" in first.stdout
    scores = place / "a" / "scores"
    table = pd.read_parquet(scores / "scores.parquet")
    assert set(table["region"]) == {*(WHOLE, "northern extratropics", "tropics", "North Atlantic")}
    gains = pd.read_parquet(scores / "gains.parquet")
    assert gains["p_value"].between(0, 1).all()
    maps = xr.load_dataset(scores / "maps" / "z500" / "emos-5.nc")
    assert {"gain", "p_value", "significant"} <= set(maps)
    assert maps["significant"].attrs["alpha_fdr"] == 0.1
    assert maps["gain"].attrs["reference"] == "raw-10"
    assert maps["gain"].attrs["nan_policy"]
    page = (place / "a" / "report.html").read_text(encoding="utf-8")
    assert "Scorecard" in page
    assert "Where a method is better" in page

    second = weatherpp("evaluate", "other.yaml", "--run-dir", "b", cwd=place)
    assert second.returncode == 0, second.stderr
    found = weatherpp("compare", "a", "b", "--out", "ab", cwd=place)
    assert found.returncode == 0, found.stderr
    assert "B (b) against A (a)" in found.stdout
    assert "z500, 48 h, whole grid, raw-10, CRPS (fair): B and A are the same" in found.stdout
    content = json.loads((place / "ab" / "compare.json").read_text(encoding="utf-8"))
    cells = pd.DataFrame(content["comparisons"]).set_index(["method", "region", "score"])
    assert cells.loc[("raw-10", WHOLE, "crps"), "p_value"] == 1
    # the numbers again, from the runs' own tables
    means = {}
    for run in ("a", "b"):
        dates = pd.read_parquet(place / run / "scores" / "per_date.parquet")
        own = dates.query("method == 'emos-5' and score == 'crps' and region == @WHOLE")
        means[run] = own["value"].mean()
    gain = cells.loc[("emos-5", WHOLE, "crps"), "gain"]
    assert gain == pytest.approx(1 - means["b"] / means["a"])
    assert len(pd.read_csv(place / "ab" / "compare.csv")) == len(cells)
    assert "Every comparison" in (place / "ab" / "compare.html").read_text(encoding="utf-8")

    # dates that one run lacks are left out, and said to be
    per_date = place / "b" / "scores" / "per_date.parquet"
    whole = pd.read_parquet(per_date)
    whole[whole["time"] > whole["time"].min()].to_parquet(per_date, index=False)
    found = weatherpp("compare", "a", "b", "--out", "ab", cwd=place)
    assert "emos-5 of z500: 14 common dates, 1 of one run left out" in found.stdout

    # another estimator of the same score
    changed = whole.replace({"estimator": {"normal": "logistic"}})
    changed.to_parquet(per_date, index=False)
    assert_one_line(weatherpp("compare", "a", "b", cwd=place), 3, "emos-5", "logistic", "normal")

    # other data behind the scores
    whole.to_parquet(per_date, index=False)
    verified = place / "b" / "scores" / "verified.parquet"
    digests = pd.read_parquet(verified)
    digests.assign(digest="0").to_parquet(verified, index=False)
    result = weatherpp("compare", "a", "b", cwd=place)
    assert_one_line(result, 3, "scored against other data", "2003-01-01", "--different-data")
    told = weatherpp("compare", "a", "b", "--different-data", "--out", "ab", cwd=place)
    assert told.returncode == 0, told.stderr
    assert "Mind: " in told.stdout

    verified.write_bytes(b"no parquet")
    assert_one_line(weatherpp("compare", "a", "b", cwd=place), 3, "verified.parquet", "damaged")
    verified.unlink()
    assert_one_line(weatherpp("compare", "a", "b", cwd=place), 3, "verified.parquet", "missing")
    assert_one_line(weatherpp("compare", "a", "nowhere", cwd=place), 3, "nowhere")
    assert_one_line(weatherpp("compare", "a", "files", cwd=place), 3, "no scores")
