"""Reports of finished runs, the index beside them, one line for wrong usage, plain progress."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from jobs import Command


def test_report_of_a_run_is_made_from_its_folder_alone(weatherpp: Command, workplace: Path) -> None:
    first = weatherpp("run", "tiny.yaml", "--set", "title=Tiny job", cwd=workplace)
    assert first.returncode == 0, first.stderr
    for stage in ("ingest", "fit", "postprocess", "verify", "report"):
        assert f"stage {stage} finished: " in first.stderr
    run = workplace / "runs" / "tiny"
    page = (run / "report.html").read_text(encoding="utf-8")
    for words in ("weatherpp run tiny.yaml --set", "Synthetic forecasts", "emos-5 (emos, first 5"):
        assert words in page
    assert json.loads((run / "report.json").read_text(encoding="utf-8"))["title"] == "Tiny job"
    index = (workplace / "runs" / "index.html").read_text(encoding="utf-8")
    assert 'href="tiny/report.html"' in index

    for name in ("tiny.yaml", "files", "data_catalog", "runs/tiny/models", "runs/tiny/predictions"):
        path = workplace / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (workplace / "runs" / "index.html").unlink()
    again = weatherpp("report", "runs/tiny", cwd=workplace)
    assert again.returncode == 0, again.stderr
    anew = (run / "report.html").read_text(encoding="utf-8")
    assert "<h1>Tiny job</h1>" in anew
    assert "maps of z500: " in anew  # told to be left out, as the predictions are gone
    assert "No such file" in anew
    assert not (run / "models").exists()
    assert (workplace / "runs" / "index.html").is_file()

    moved = workplace / "kept" / "renamed"
    shutil.copytree(run, moved)
    made = weatherpp("index", "kept", cwd=workplace)
    assert made.stdout == "wrote kept/index.html\n"
    assert "renamed/report.html" in (workplace / "kept" / "index.html").read_text("utf-8")
    refused = weatherpp("report", "runs/tiny", "--set", "seed=2", cwd=workplace)
    assert refused.returncode == 2
    assert "stay as they are" in refused.stderr
    (run / "run.json").unlink()
    unknown = weatherpp("report", "runs/tiny", cwd=workplace)
    assert unknown.returncode == 3
    assert "does not tell how it was made" in unknown.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "--foo"], "No such option: --foo"),
        (["run"], "Missing argument 'RECIPE'; see 'weatherpp run --help'"),
        (["nonsense"], "No such command 'nonsense'"),
        (["index", "none"], "none: no such folder"),
    ],
)
def test_wrong_usage_is_one_line(
    weatherpp: Command, tmp_path: Path, args: list[str], words: str
) -> None:
    result = weatherpp(*args, cwd=tmp_path)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("weatherpp: ")
    assert words in result.stderr
    assert result.stdout == ""


def test_no_command_shows_the_help(weatherpp: Command, tmp_path: Path) -> None:
    result = weatherpp(cwd=tmp_path)
    assert result.returncode == 2
    assert "Commands:" in result.stdout
    assert result.stderr == ""
