"""Faults of settings in words, and what never passes as a number."""

from __future__ import annotations

import pytest
from pydantic import Field, ValidationError

from weatherpp.data.catalog import Expected
from weatherpp.data.table_layout import quick
from weatherpp.errors import ConfigError
from weatherpp.methods.classical.climatology import ClimatologySettings
from weatherpp.strict import ShortName, Strict, validate


class Inner(Strict):
    width: int = 1


class Sample(Strict):
    count: int = Field(default=1, lt=2**31)
    rate: float | None = None
    numbers: tuple[int, ...] = ()
    flag: bool = False
    either: bool | int = False
    inner: Inner = Inner()
    variables: dict[str, ShortName] | None = None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"count": True}, "count: expected a whole number, found true"),
        ({"rate": False}, "rate: expected a number, found false"),
        ({"numbers": [1, True]}, "numbers.1: expected a whole number, found true"),
        ({"inner": {"width": True}}, "inner.width: expected a whole number, found true"),
        ({"rate": float("nan")}, "rate: must be a finite number, found nan"),
        ({"count": 2**31}, "count: must be below 2147483648, found 2147483648"),
        ({"count": "many"}, "count: expected a whole number, found 'many'"),
        ({"inner": None}, "inner: expected 'key: value' lines ({} for none), found nothing"),
        ({"inner": 5}, "inner: expected 'key: value' lines, found 5"),
        ({"variables": {"t2m": None}}, "variables.t2m: expected text, found nothing"),
        ({"flag": 7}, "flag: expected true or false, found 7"),
        ({"cuont": 1}, "unknown key 'cuont'; did you mean 'count'?"),
    ],
)
def test_a_fault_is_told_in_words(data: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(Sample, data, "my.yaml")
    assert str(caught.value) == f"my.yaml: {said}"


def test_a_truth_value_stands_where_it_belongs() -> None:
    sample = validate(Sample, {"flag": True, "either": True}, "my.yaml")
    assert sample.flag is True
    assert sample.either is True


def test_no_window_of_true_days() -> None:
    with pytest.raises(ValidationError):
        ClimatologySettings.model_validate({"window": True})


@pytest.mark.parametrize("members", [(0, 20_000_000), (5, 1), (-1, 3)])
def test_the_members_expected_are_an_ensemble(members: tuple[int, int]) -> None:
    with pytest.raises(ValidationError, match="first and last number"):
        Expected(members=members)


@pytest.mark.parametrize("pattern", [r"fc_(\d+)", r"(\d{1,2})", r"[a-z]*_m(\d+)", r"x\+([0-9]+)"])
def test_plain_patterns_are_quick(pattern: str) -> None:
    assert quick(pattern)


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(a|a)*b", r"a*a*(a*)b", r"(?:x+)+(\d)"])
def test_patterns_that_may_take_for_ever_are_not(pattern: str) -> None:
    assert not quick(pattern)
