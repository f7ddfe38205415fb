from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_sample as sample

from weatherpp.errors import InputError
from weatherpp.report.content import Figure, ReportData, Section
from weatherpp.report.html import render, write_report
from weatherpp.report.tables import wide_tables

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


class Tags(HTMLParser):
    """All tags of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.found if name == tag]


def test_page_refers_to_nothing_outside(page: str) -> None:
    tags = Tags(page)
    for tag, attrs in tags.found:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_page_is_small_enough_and_complete(page: str) -> None:
    assert len(page.encode()) < 6_000_000
    order = [page.index(f'id="{name}"') for name in ("claims", "summary", "gains", "scores")]
    assert order == sorted(order)
    for words in ("How it was made", "0123456789abcdef", "seed: 7", "Case of 3 March 2020"):
        assert words in page


def test_contents_lead_to_parts(page: str) -> None:
    tags = Tags(page)
    ids = [attrs["id"] for _, attrs in tags.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for attrs in tags.of("a")]
    assert len(links) >= 9
    for link in links:
        assert link is not None
        assert link.removeprefix("#") in ids


def test_every_image_has_an_alt_text_and_a_size(page: str) -> None:
    images = [attrs for attrs in Tags(page).of("img") if attrs.get("src")]
    assert len(images) >= 7
    for attrs in images:
        assert len(attrs["alt"] or "") > 20
        assert int(attrs["width"] or 0) > 500


def test_hostile_text_is_escaped_everywhere() -> None:
    figure = Figure(_png(), HOSTILE, HOSTILE)
    table = sample.scores().query("score == 'crps'").assign(method=HOSTILE, region=HOSTILE)
    data = ReportData(
        title=HOSTILE,
        name=HOSTILE,
        summary=[HOSTILE],
        notes=[HOSTILE],
        claims=[sample.claims()[0] | {"name": HOSTILE, "text": HOSTILE, "units": HOSTILE}],
        scores=table.drop_duplicates(["target"]).assign(target=HOSTILE, units=HOSTILE),
        sections=[Section(HOSTILE, [HOSTILE], [figure])],
        provenance={HOSTILE: HOSTILE},
        recipe_text=HOSTILE,
    )
    page = render(data)
    tags = Tags(page)
    assert len(tags.of("script")) == 1
    assert all("onerror" not in attrs for _, attrs in tags.found)
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 12


def _png() -> bytes:
    from weatherpp.report.style import new_figure, png_of

    return png_of(new_figure(4, 2))


def test_verdicts_are_words_and_not_only_colours(page: str) -> None:
    text = re.sub(r"<[^>]+>", " ", page)
    for verdict in ("Holds", "Does not hold", "For information"):
        assert verdict in text
    assert "15.1\u00a0%" in text
    assert "95\u00a0% interval 14.2 to 15.9\u00a0%" in text
    assert "at least 5.0\u00a0%" in text
    assert "1 of 2 claims hold; mixed-beats-emos does not." in text


def test_a_report_of_nothing_is_a_page() -> None:
    page = render(ReportData(title="", name="empty"))
    assert "<h1>empty</h1>" in page
    assert 'id="claims"' not in page
    assert "<table" not in page


def test_tables_hold_every_score_and_mark_the_best(data: ReportData) -> None:
    tables = wide_tables(data.scores)
    assert [table.title for table in tables if table.main] == [
        "z500, 48 h, global",
        "t850, 48 h, global",
    ]
    first = tables[0]
    assert first.note == "m²\u00a0s⁻²; 104 test dates"
    assert first.heads[:4] == ["Method", "Members", "CRPS", "CRPS, fair"]
    best = {row[0].text: [cell.text for cell in row if cell.best] for row in first.rows}
    assert "55.8" in best["mixed"]
    assert best["raw"] == []
    crps = {row[0].text: row[2] for row in first.rows}
    assert crps["raw"].small == ("70.5 to 74.1", "plain")
    assert crps["emos"].small == ("56.2 to 59.1", "normal")


def test_missing_scores_sort_last_and_show_a_dash(data: ReportData) -> None:
    column = wide_tables(data.scores)[0].heads.index("CRPS, fair")
    cells = {row[0].text: row[column] for row in wide_tables(data.scores)[0].rows}
    assert (cells["emos"].text, cells["emos"].order) == ("–", "")


def test_write_leaves_no_part_behind(data: ReportData, tmp_path: Path) -> None:
    small = dataclasses.replace(
        data, scores=data.scores.iloc[:0], gains=data.gains.iloc[:0], histograms={}, sections=[]
    )
    path = tmp_path / "report.html"
    write_report(small, path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="cannot be written"):
        write_report(small, tmp_path / "missing" / "report.html")


def test_tables_and_claims_are_checked() -> None:
    with pytest.raises(InputError, match="scores lacks"):
        ReportData(title="", name="a", scores=sample.gains())
    with pytest.raises(InputError, match="claim 'c' lacks text"):
        ReportData(title="", name="a", claims=[{"name": "c"}])


def test_package_imports_without_matplotlib() -> None:
    code = (
        "import sys, weatherpp.report, weatherpp.report.content, weatherpp.report.words\n"
        "assert not {'matplotlib', 'cartopy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
