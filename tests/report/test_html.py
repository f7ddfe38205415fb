from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import report_sample as sample

from weatherpp.errors import InputError, WeatherppError
from weatherpp.report.content import About, Figure, ReportData, Section
from weatherpp.report.html import render, write_report
from weatherpp.report.tables import gain_tables, wide_tables
from weatherpp.report.template import page_digest

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
        left_out=[HOSTILE],
        targets={HOSTILE: About(HOSTILE, 48.0), "other": About("other", 24.0)},
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


def test_tables_hold_every_score(data: ReportData) -> None:
    tables = wide_tables(data.scores)
    assert [table.title for table in tables if table.main] == [
        "z500, 48 h, global",
        "t850, 48 h, global",
    ]
    first = tables[0]
    assert first.note == "m²\u00a0s⁻²; 104 test dates"
    assert first.heads[:4] == ["Method", "Members", "CRPS", "CRPS, fair"]
    crps = {row.method: row.cells[2] for row in first.rows}
    assert crps["raw"].small == ("70.5 to 74.1", "plain")
    assert crps["emos"].small == ("56.2 to 59.1", "normal")


def test_best_is_told_among_like_and_like(data: ReportData) -> None:
    first = wide_tables(data.scores)[0]
    best = {row.method: [cell.text for cell in row.cells if cell.best] for row in first.rows}
    # raw and mbm are ensembles of ten members, emos is a distribution from ten
    assert "64.1" in best["mbm"]
    assert "57.7" not in best["emos"]
    assert "104" in best["emos"]  # the RMSE knows no estimators
    # nothing else has 5 or 50 members
    assert best["mixed"] == best["raw-full"] == best["climatology"] == []
    both = pd.concat(
        [data.scores, data.scores.query("method == 'mixed'").assign(method="other")],
        ignore_index=True,
    )
    both.loc[(both["method"] == "other") & (both["score"] == "crps"), "value"] *= 1.1
    again = {row.method: row.cells[2] for row in wide_tables(both)[0].rows}
    assert again["mixed"].best
    assert not again["other"].best


def test_a_perfect_model_is_never_the_best(data: ReportData) -> None:
    crps = data.scores.query("score == 'crps' and estimator == 'normal'")
    limit = crps.query("method == 'emos'").assign(method="perfect-model-10", value=1.0)
    other = crps.query("method == 'emos'").assign(method="drn", value=90.0)
    rows = wide_tables(pd.concat([crps, limit, other]))[0].rows
    assert [row.method for row in rows if row.cells[2].best] == ["emos"]


def test_local_bias_stands_for_the_mean_bias(data: ReportData) -> None:
    local = data.scores.query("score == 'bias' and region == 'global'").assign(score="local_bias")
    tables = wide_tables(pd.concat([data.scores, local]))
    assert "Local bias" in tables[0].heads
    assert "Mean bias" not in tables[0].heads
    assert "Mean bias" in tables[1].heads  # of another region, where it means something


def test_gains_by_region_are_told_where_there_are_regions() -> None:
    gains = sample.gains()
    assert gain_tables(gains) == []
    tropics = gains.assign(region="tropics", gain=gains["gain"] / 2, low=np.nan, high=np.nan)
    both = pd.concat([gains.assign(region="whole grid"), tropics])
    tables = gain_tables(both)
    assert [table.target for table in tables] == ["z500", "t850"]
    assert tables[0].heads == ["Method", "Against", "whole grid", "tropics"]
    cells = {(r.cells[0].text, r.cells[1].text): r.cells[2:] for r in tables[0].rows}
    whole, part = cells["mixed", "raw"]
    assert (whole.text, whole.small) == ("15.1", ("14.2 to 15.9", "fair"))
    assert (part.text, part.small) == ("7.5", ("fair",))


def test_missing_scores_sort_last_and_show_a_dash(data: ReportData) -> None:
    first = wide_tables(data.scores)[0]
    column = first.heads.index("CRPS, fair")
    cells = {row.method: row.cells[column] for row in first.rows}
    assert (cells["emos"].text, cells["emos"].order) == ("–", "")


def test_intervals_are_promised_only_where_there_are_some() -> None:
    crps = sample.scores().query("score == 'crps'").assign(low=np.nan, high=np.nan, dates=1)
    gains = sample.gains().assign(low=np.nan, high=np.nan, excludes_zero=False)
    text = render(ReportData(title="", name="one date", scores=crps, gains=gains))
    assert "no intervals: they need at least 8 dates" in " ".join(text.split())
    assert "too few dates for an interval" in text
    assert "interval of the bootstrap" not in text
    assert "includes zero" not in text


def test_an_image_that_is_there_twice_is_held_once() -> None:
    figure = Figure(_png(), "A grey square.", "One.")
    data = ReportData(
        title="", name="twice", sections=[Section("A", [], [figure]), Section("B", [], [figure])]
    )
    page = render(data)
    assert page.count("data:image/png") == 1
    assert 'The image is the same as <a href="#figure-1">figure 1</a>' in page


def test_switches_offer_what_there_is_to_choose(page: str) -> None:
    options = [attrs["value"] for attrs in Tags(page).of("option")]
    assert options == ["", "z500", "t850", "", "5", "10", "50"]  # there is one lead time only
    boxes = [attrs["value"] for attrs in Tags(page).of("input")]
    assert boxes == ["raw-full", "raw", "climatology", "emos", "mbm", "mixed"]


def test_two_lead_times_of_a_variable_are_one_variable() -> None:
    scores = sample.scores().query("score == 'crps' and method == 'emos'")
    later = scores.query("target == 'z500'").assign(target="z500-late", step_hours=96.0)
    data = ReportData(
        title="",
        name="leads",
        scores=pd.concat([scores.query("target == 'z500'"), later]),
        targets={"z500": About("z500", 48.0), "z500-late": About("z500", 96.0)},
    )
    tags = Tags(render(data))
    assert [attrs["value"] for attrs in tags.of("option")] == ["", "48 h", "96 h"]
    tables = [attrs for attrs in tags.of("div") if attrs.get("class") == "scroll"]
    assert {(t["data-variable"], t["data-lead"]) for t in tables} == {
        ("z500", "48 h"),
        ("z500", "96 h"),
    }


def test_what_was_left_out_is_told() -> None:
    page = render(ReportData(title="", name="a", left_out=["maps of z500: no such file"]))
    assert "<li>maps of z500: no such file</li>" in page
    assert 'href="#made"' in page


def test_own_files_go_before_shipped_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = page_digest()
    monkeypatch.chdir(tmp_path)
    assert page_digest() == before
    (tmp_path / "reports" / "styles").mkdir(parents=True)
    (tmp_path / "reports" / "styles" / "dark.css").write_text(":root { --paper: #123456; }")
    page = render(ReportData(title="", name="own"))
    assert "--paper: #123456" in page
    assert "--paper: #ffffff" in page  # the light style is still the shipped one
    assert page_digest() != before


def test_write_leaves_no_part_behind(data: ReportData, tmp_path: Path) -> None:
    small = dataclasses.replace(
        data, scores=data.scores.iloc[:0], gains=data.gains.iloc[:0], histograms={}, sections=[]
    )
    path = tmp_path / "report.html"
    write_report(small, path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(WeatherppError, match="cannot be written"):
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
