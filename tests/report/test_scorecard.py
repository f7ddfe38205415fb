"""The scorecard as a figure, as tables, as text, in words."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from weatherpp.errors import InputError
from weatherpp.report import scorecard
from weatherpp.report.content import ReportData
from weatherpp.report.html import render


@pytest.fixture(scope="module")
def card() -> pd.DataFrame:
    rows = []
    for method in ("emos", "mixed"):
        for hours in (24.0, 72.0):
            for region in ("whole grid", "tropics"):
                for score in ("crps", "spread_skill"):
                    gain = 0.08 if region == "whole grid" else -0.03
                    rows.append(
                        {
                            "variable": "z500",
                            "target": f"z500-{hours:g}",
                            "step_hours": hours,
                            "region": region,
                            "score": score,
                            "method": method,
                            "estimator": "normal",
                            "reference": "raw",
                            "reference_estimator": "fair",
                            "value": 1.0,
                            "dates": 90,
                            "reference_value": 1.0,
                            "gain": gain,
                            "low": gain - 0.02,
                            "high": gain + 0.02,
                            "p_value": 0.0004 if gain > 0 else 0.2,
                            "significant": gain > 0,
                            "left_out": 0,
                        }
                    )
    table = pd.DataFrame(rows)
    table.loc[0, ["gain", "low", "high", "p_value"]] = np.nan
    table.loc[0, "significant"] = False
    return table


def test_marks() -> None:
    found = [scorecard.mark(*case) for case in [(0.1, True), (0.1, False), (-0.1, True)]]
    assert found == ["▲", "△", "▼"]
    assert scorecard.mark(-0.1, False) == "▽"
    assert scorecard.mark(np.nan, False) == scorecard.mark(0.0, True) == "·"


def test_figure(card: pd.DataFrame) -> None:
    one = card[card["method"] == "mixed"]
    figure = scorecard.figure(one)
    image = Image.open(io.BytesIO(figure.png)).convert("RGB")
    blue = np.asarray(image).reshape(-1, 3).astype(int)
    assert ((blue[:, 2] - blue[:, 0]) > 60).sum() > 500  # cells that are better
    assert ((blue[:, 0] - blue[:, 2]) > 20).sum() > 500  # and worse
    assert "z500, 24 h, whole grid, CRPS: 8.0 % better, significant" in figure.alt
    assert "3.0 % worse, not significant" in figure.alt
    assert "5 %" in figure.caption
    with pytest.raises(InputError, match="one method"):
        scorecard.figure(card)
    with pytest.raises(InputError, match="p_value"):
        scorecard.figure(card.drop(columns="p_value"))


def test_tables_and_text(card: pd.DataFrame) -> None:
    tables = scorecard.tables(card)
    assert [table.title for table in tables][:2] == [
        "emos against raw, whole grid",
        "emos against raw, tropics",
    ]
    assert tables[0].heads == ["Variable", "Score", "24 h", "72 h"]
    crps = tables[2].rows[0].cells
    assert crps[2].text == "▲ +8.0"
    assert crps[2].small == ("6.0 to 10.0", "p < 0.001")
    assert tables[0].rows[0].cells[2].text.startswith("·")
    lines = scorecard.text(card).splitlines()
    assert lines[0] == "emos against raw: gain in %"
    assert any(line.split()[-2:] == ["▲", "+8.0"] for line in lines)
    assert "Benjamini" in lines[-1]
    assert scorecard.text(card[:0]) == "no two methods to compare"


def test_sentences(card: pd.DataFrame) -> None:
    rows = card.to_dict("records")
    assert scorecard.sentence(rows[0]).endswith("cannot be compared")
    assert scorecard.sentence(rows[4]) == (
        "z500, 72 h, whole grid, emos, CRPS: B is better than A by 8.0 % (interval +6.0 to +10.0 "
        "%, p < 0.001), significant, 90 dates"
    )
    assert "worse than A by 3.0 %" in scorecard.sentence(rows[2])


def test_in_a_page(card: pd.DataFrame) -> None:
    data = ReportData(title="t", name="n", sections=scorecard.sections(card))
    page = render(data)
    assert "emos against raw, tropics" in page
    assert "▲ +8.0" in page
    assert '<th scope="col">' in page
    assert scorecard.sections(card[:0]) == []
