"""The page over past runs: relative links, newest first, safe with several writers."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_sample as sample

from weatherpp.errors import ConfigError
from weatherpp.report.content import ReportData
from weatherpp.report.index import card, write_index


def leave(folder: Path, name: str, made: str, **changes: object) -> None:
    """A run folder with a report and its card."""
    data = dataclasses.replace(
        ReportData(title="Two days", name=name, gains=sample.gains(), claims=sample.claims()),
        **changes,  # type: ignore[arg-type]
    )
    run = folder / name
    run.mkdir()
    (run / "report.html").write_text("report", encoding="utf-8")
    (run / "report.json").write_text(card(data, made), encoding="utf-8")


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(str(dict(attrs)["href"]))


def test_index_tells_what_each_run_found(tmp_path: Path) -> None:
    leave(tmp_path, "old", "2026-01-02 03:04 UTC")
    leave(tmp_path, "a run?", "2026-11-30 03:04 UTC", gains=sample.gains().iloc[:0], claims=[])
    write_index(tmp_path)
    page = write_index(tmp_path).read_text(encoding="utf-8")  # its own one it may replace
    links = [link for link in Links(page).found if not link.startswith("#")]
    assert links == ["a%20run%3F/report.html", "old/report.html"]  # newest first, relative
    text = page.replace("\u00a0", " ")
    assert "1 of 2" in text
    assert "z500, mixed: 15.1 % (95 % interval 14.2 to 15.9) below raw (fair CRPS)" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(".index.lock", "a run?", "index.html", "old"),
    ]


def test_the_main_gain_is_over_the_kindest_reference(tmp_path: Path) -> None:
    told = json.loads(card(ReportData(title="", name="x", gains=sample.gains()), "2026"))
    assert told["gain"] == pytest.approx(1 - 0.90 / 1.06)
    assert (told["claims"], told["held"]) == (0, 0)


def test_hostile_titles_are_escaped_and_damage_is_told(tmp_path: Path) -> None:
    leave(tmp_path, "bad", "2026-01-02 03:04 UTC", title="<script>alert(1)</script>")
    leave(tmp_path, "cut", "2026-01-02 03:04 UTC")
    (tmp_path / "cut" / "report.json").write_text('{"title": 1', encoding="utf-8")
    page = write_index(tmp_path).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "cut is not listed" in page


def test_another_page_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("my own page", encoding="utf-8")
    with pytest.raises(ConfigError, match="no index of runs"):
        write_index(tmp_path)
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == "my own page"
    with pytest.raises(ConfigError, match="no such folder"):
        write_index(tmp_path / "nowhere")


def _leave_and_write(folder: Path, number: int) -> None:
    leave(folder, f"run-{number}", f"2026-01-02 03:0{number} UTC")
    write_index(folder)


def test_runs_that_end_at_once_are_all_listed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_leave_and_write, args=(tmp_path, i)) for i in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * 4
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all(f"run-{i}/report.html" in page for i in range(4))


@pytest.mark.parametrize(
    "change",
    [
        {"gain": float("nan")},
        {"gain": float("inf")},
        {"claims": -3},
        {"held": 5},
        {"claims": 1e999},
        {"title": "half a smile \ud83d"},
    ],
)
def test_a_card_of_impossible_numbers_is_not_listed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    leave(tmp_path, "odd", "2026-01-02 03:04 UTC")
    path = tmp_path / "odd" / "report.json"
    told = json.loads(path.read_text(encoding="utf-8")) | change
    path.write_text(json.dumps(told), encoding="utf-8")
    assert "odd is not listed" in write_index(tmp_path).read_text(encoding="utf-8")


def test_a_pipe_in_place_of_a_card_does_not_hang_the_index(tmp_path: Path) -> None:
    leave(tmp_path, "sound", "2026-01-02 03:04 UTC")
    for name in ("card", "page", "folder"):
        leave(tmp_path, name, "2026-01-02 03:04 UTC")
    for path in (tmp_path / "card" / "report.json", tmp_path / "page" / "report.html"):
        path.unlink()
        os.mkfifo(path)
    (tmp_path / "folder" / "report.html").unlink()
    (tmp_path / "folder" / "report.html").mkdir()
    page = write_index(tmp_path).read_text(encoding="utf-8")
    assert "sound/report.html" in page
    assert page.count("is not listed") == 3
