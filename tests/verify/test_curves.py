"""Curves of a score, and what a method is worth on another's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import Bootstrap, Curve
from weatherpp.strict import validate
from weatherpp.verify import curves
from weatherpp.verify.table import PER_DATE_COLUMNS

BOOT = Bootstrap(samples=400, block=2)
TIMES = pd.date_range("2020-01-01", periods=60, freq="3D")
rng = np.random.default_rng(5)
DAY = rng.uniform(0.8, 1.2, 60)
COUNTS = (2, 5, 10)


def table_of(**scores: np.ndarray) -> pd.DataFrame:
    rows = [
        ("t500", label, "whole grid", "crps", "plain", time, value, 1)
        for label, values in scores.items()
        for time, value in zip(TIMES, values, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(PER_DATE_COLUMNS))


def curve(**lines: dict[int, str | list[str]]) -> Curve:
    given = {"title": "members", "by": "members", "worth": "raw", "lines": lines}
    return validate(Curve, given, "curve")


# as of members drawn from one distribution: a + b / m
RAW = {f"raw-{m}": DAY * (1 + 1 / m) for m in COUNTS}
RAW_LINE: dict[int, str | list[str]] = {m: f"raw-{m}" for m in COUNTS}


@pytest.mark.parametrize("members", [2.0, 3.0, 5.0, 7.3, 10.0])
def test_worth_of_a_method_with_a_known_number_of_members(members: float) -> None:
    table = table_of(**RAW, own=DAY * (1 + 1 / members))
    found = curves.worth([curve(raw=RAW_LINE, net={5: "own"})], table, BOOT).iloc[0]
    assert found["worth"] == pytest.approx(members)
    # days are scaled alike for both, so nothing is uncertain
    assert (found["low"], found["high"]) == pytest.approx((members, members))
    assert (found["line"], found["x"], found["reference"]) == ("net", 5, "raw")


def test_worth_is_cut_off_at_the_ends_of_the_line() -> None:
    table = table_of(**RAW, good=0.5 * DAY, bad=9 * DAY)
    found = curves.worth([curve(raw=RAW_LINE, good={5: "good"}, bad={5: "bad"})], table, BOOT)
    assert list(found["worth"]) == [10, 2]
    assert (found["least"] == 2).all()
    assert (found["most"] == 10).all()


def test_worth_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(0, 0.05, 60)
        table = table_of(**RAW, own=DAY * (1 + 1 / 5) + noise)
        found = curves.worth([curve(raw=RAW_LINE, net={5: "own"})], table, BOOT).iloc[0]
        inside += bool(found["low"] <= 5 <= found["high"])
    assert 32 <= inside <= 40


def test_points_average_seeds_by_date() -> None:
    one, two = rng.uniform(1, 2, 60), rng.uniform(1, 2, 60)
    line: dict[int, str | list[str]] = {5: ["a", "b"], 2: "a"}
    found = curves.points([curve(raw=line)], table_of(a=one, b=two), BOOT)
    assert list(found["x"]) == [2, 5]
    assert found["value"].tolist() == pytest.approx([one.mean(), (one + two).mean() / 2])
    assert (found["low"] < found["value"]).all()
    assert (found["dates"] == 60).all()


def test_few_dates_have_no_interval() -> None:
    table = table_of(**RAW, own=DAY)
    few = table[table["time"] < TIMES[5]]
    found = curves.worth([curve(raw=RAW_LINE, net={5: "own"})], few, BOOT).iloc[0]
    assert np.isfinite(found["worth"])
    assert np.isnan([found["low"], found["high"]]).all()


def test_a_method_that_was_not_scored_is_named() -> None:
    with pytest.raises(InputError, match="own"):
        curves.points([curve(raw={5: "own"})], table_of(**RAW), BOOT)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"worth": "emos"}, "unknown line emos"),
        ({"lines": {"raw": {}}}, "line raw lacks a method"),
        ({"lines": {"raw": {0: "a"}}}, "above 0"),
        ({"lines": {"raw": "a"}}, "lines.raw"),
        ({"lines": {}}, "lines"),
    ],
)
def test_faulty_curves(change: dict[str, object], text: str) -> None:
    given = {"title": "members", "by": "members", "lines": {"raw": {2: "a"}}, **change}
    with pytest.raises(ConfigError, match=text):
        validate(Curve, given, "curve")
