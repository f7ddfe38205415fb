from __future__ import annotations

import pandas as pd
import pytest
import report_sample as sample

from weatherpp.errors import InputError
from weatherpp.report import words
from weatherpp.report.labels import decimals_for, number, percent, units_text


def one_score(method: str, value: float, estimator: str = "normal", **more: object) -> dict:
    row = {
        "method": method, "members": 5, "target": "z500", "step_hours": 48.0, "region": "global",
        "score": "crps", "estimator": estimator, "value": value, "low": value - 1,
        "high": value + 1, "units": "m2 s-2", "dates": 104,
    }  # fmt: skip
    return row | more


def one_gain(
    method: str, reference: str, gain: float, low: float, high: float, kind: str = "normal"
) -> dict:
    return {
        "target": "z500", "score": "crps", "method": method, "reference": reference,
        "reference_estimator": kind, "gain": gain, "low": low, "high": high,
        "excludes_zero": low > 0 or high < 0,
    }  # fmt: skip


def text(scores: list[dict], gains: list[dict]) -> str:
    table = pd.DataFrame(gains) if gains else sample.gains().iloc[:0]
    return " ".join(words.summary(pd.DataFrame(scores), table, [])).replace("\u00a0", " ")


def test_a_perfect_model_is_no_method() -> None:
    said = text(
        [one_score("emos", 2.0), one_score("perfect-model-50", 1.0)],
        [one_gain("perfect-model-50", "emos", 0.5, 0.4, 0.6)],
    )
    assert "emos with 5 members has the lowest" in said
    assert "perfect" not in said


def test_best_method_is_told_with_its_gain() -> None:
    said = text(
        [one_score("mixed", 40.0), one_score("raw", 44.0, "fair", members=10)],
        [
            one_gain("mixed", "raw", 0.15, 0.14, 0.16, "plain"),
            one_gain("mixed", "raw", 0.093, 0.081, 0.104, "fair"),
        ],
    )
    assert said == (
        "On 104 test dates, mixed with 5 members has the lowest CRPS for z500 at 48 h: "
        "40.0 m² s⁻² (95 % interval 39.0 to 41.0). "
        "That is 9.3 % (8.1 to 10.4) below raw (fair CRPS)."
    )


def test_a_reference_that_is_best_is_called_best() -> None:
    said = text(
        [one_score("mixed", 45.0), one_score("emos", 44.0)],
        [one_gain("mixed", "emos", -0.022, -0.03, -0.01)],
    )
    assert "emos with 5 members has the lowest CRPS" in said
    assert "mixed does not beat emos: its CRPS is 2.2 % (1.0 to 3.0) above." in said


def test_an_interval_with_zero_is_no_victory() -> None:
    said = text(
        [one_score("unet", 44.0), one_score("emos", 44.2), one_score("mixed", 40.0)],
        [one_gain("unet", "emos", 0.005, -0.004, 0.013)],
    )
    assert (
        "unet does not beat emos: its CRPS is 0.5 % (−0.4 to 1.3, which includes zero) below"
        in said
    )


def test_gain_phrase_names_the_level() -> None:
    phrase = words.gain_phrase(one_gain("mixed", "emos", 0.093, 0.081, 0.104))
    assert phrase == "9.3 % (95 % interval 8.1 to 10.4) below emos"
    loss = words.gain_phrase(one_gain("mixed", "emos", -0.093, -0.104, -0.081), level=0.9)
    assert loss == "9.3 % (90 % interval 8.1 to 10.4) above emos"
    alone = words.gain_phrase(one_gain("a", "b", 0.1, float("nan"), float("nan")))
    assert alone == "10.0 % (no interval) below b"


@pytest.mark.parametrize(
    ("holds", "sentence"),
    [
        ([True], "The one claim holds."),
        ([False], "The one claim does not hold: c0."),
        ([True, True], "All 2 claims hold."),
        ([True, False], "1 of 2 claims hold; c1 does not."),
        ([True, False, False], "1 of 3 claims hold; c1, c2 do not."),
        ([False, False], "None of the 2 claims holds."),
        ([True, None], "The one claim holds."),
        ([None], "No claim was put to the test; those below are for information."),
    ],
)
def test_claims_sentence(holds: list[bool | None], sentence: str) -> None:
    claims = [{"name": f"c{i}", "holds": value} for i, value in enumerate(holds)]
    assert words.claims_sentence(claims) == sentence


def test_spread_jobs_are_told_by_the_error_of_the_spread() -> None:
    said = text([one_score("mixed", 3.0, "", score="spread_rmse", dates=1)], [])
    assert "On 1 test date, mixed with 5 members has the lowest RMSE of the spread" in said


def test_nothing_scored_is_said() -> None:
    assert text([one_score("mixed", float("nan"))], []) == "This run has no scores."


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InputError, match=r"scores lacks the column\(s\) dates"):
        words.summary(sample.scores().drop(columns="dates"), sample.gains(), [])


@pytest.mark.parametrize(
    ("units", "shown"),
    [
        ("m2 s-2", "m²\u00a0s⁻²"),
        ("m**2 s**-2", "m²\u00a0s⁻²"),
        ("K", "K"),
        ("1", ""),
        ("kg kg-1", "kg\u00a0kg⁻¹"),
    ],
)
def test_units(units: str, shown: str) -> None:
    assert units_text(units) == shown


def test_numbers() -> None:
    assert number(0.012345) == "0.0123"
    assert number(54321.2) == "54\u202f321"
    assert number(-2.5) == "−2.50"
    assert number(1e-9) == "1.00e−09"
    assert number(float("nan")) == "–"
    assert number(0) == "0"
    assert number(-0.001, decimals=1) == "0.0"
    assert decimals_for([192.0, 57.7, 62.0, float("nan")]) == 1
    assert decimals_for([1e-9]) is None
    assert decimals_for([0.0]) is None
    assert percent(-0.0001) == "0.0"
    assert percent(-0.021) == "−2.1"
