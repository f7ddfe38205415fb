"""Scores in a box against the same mean taken by hand with properscoring."""

from __future__ import annotations

import numpy as np
import pandas as pd
import properscoring
import pytest
import synthetic

from weatherpp import distribution
from weatherpp.data.fields import select
from weatherpp.data.matching import truth_for
from weatherpp.events.boxes import ALL_CASES, box_scores, dates_words, pooled, pooled_crps
from weatherpp.events.case import Case
from weatherpp.pipeline.products import without_scalars
from weatherpp.recipe import Bootstrap, Target
from weatherpp.strict import validate
from weatherpp.verify.weights import cell_areas

TARGET = Target(variable="z", level=500, step="48h")


def case(name: str, west: float, east: float) -> Case:
    box = {"north": 60, "south": 30, "west": west, "east": east}
    times = {"start": "2001-01-01 00:00:00", "end": "2002-12-31 00:00:00"}
    return validate(Case, {"name": name, "box": box, **times}, "test")


def test_box_scores_are_weighted_means_of_its_points() -> None:
    forecast, analysis, _ = synthetic.make_datasets(years=2, dates=6)
    value = without_scalars(select(forecast, "z", 500, "48h"))
    times = pd.DatetimeIndex(value["time"].values)
    truth = without_scalars(truth_for(analysis, TARGET, times, like=value))
    dist = distribution.members(value, variable="z", target="z500")
    across = case("across", 340, 30)
    found = box_scores(
        across, TARGET, {"raw": dist}, truth, {"raw": 10}, Bootstrap(samples=200), seed=1
    )
    lat, lon = value["latitude"].values, value["longitude"].values
    rows = np.flatnonzero((lat >= 30) & (lat <= 60))
    columns = np.flatnonzero((lon >= 340) | (lon <= 30))
    part = np.ix_(range(12), range(10), rows, columns)
    ensemble = np.moveaxis(value.transpose("time", "number", ...).values[part], 1, -1)
    observed = truth.values[np.ix_(range(12), rows, columns)]
    crps = properscoring.crps_ensemble(observed, ensemble.astype(float))
    weights = cell_areas(value["latitude"]).values[rows][:, None] * np.ones(columns.size)
    wanted = (crps * weights).sum(axis=(1, 2)) / weights.sum()
    own = found.per_date
    plain = own[(own["score"] == "crps") & (own["estimator"] == "plain")]
    assert plain["value"].to_numpy() == pytest.approx(wanted, rel=1e-4)
    assert set(found.rows["region"]) == {"across"}
    row = found.rows[(found.rows["score"] == "crps") & (found.rows["estimator"] == "plain")].iloc[0]
    assert (row["dates"], row["step_hours"]) == (12, 48)
    assert row["low"] < row["value"] < row["high"]

    # another case on the same dates: each date counts once, as the mean of both boxes
    other = box_scores(
        case("other", 100, 160), TARGET, {"raw": dist}, truth, {"raw": 10}, Bootstrap(), seed=1
    )
    joint = pooled(pd.concat([own, other.per_date], ignore_index=True))
    plain_joint = joint[(joint["score"] == "crps") & (joint["estimator"] == "plain")]
    theirs = other.per_date[
        (other.per_date["score"] == "crps") & (other.per_date["estimator"] == "plain")
    ]
    assert plain_joint["value"].to_numpy() == pytest.approx(
        (wanted + theirs["value"].to_numpy()) / 2, rel=1e-4
    )
    table = pooled_crps(joint, found.rows, Bootstrap(samples=200), seed=1)
    assert set(table["region"]) == {ALL_CASES}
    best = table[table["estimator"] == "plain"].iloc[0]
    assert best["value"] == pytest.approx(plain_joint["value"].mean())
    assert best["units"] == "m2 s-2"
    assert best["low"] < best["value"] < best["high"]


def test_few_dates_have_no_interval_and_say_so() -> None:
    forecast, analysis, _ = synthetic.make_datasets(years=1, dates=1)
    value = without_scalars(select(forecast, "z", 500, "48h"))
    truth = without_scalars(
        truth_for(analysis, TARGET, pd.DatetimeIndex(value["time"].values), like=value)
    )
    dist = distribution.members(value, variable="z", target="z500")
    found = box_scores(
        case("one", 0, 90), TARGET, {"raw": dist}, truth, {"raw": 10}, Bootstrap(), 1
    )
    crps = found.rows[found.rows["score"] == "crps"]
    assert crps[["low", "high"]].isna().all().all()
    assert dates_words(1) == "one date: no interval"
    assert dates_words(5) == "5 dates: too few for an interval, which takes 8"
    assert dates_words(8) == "8 dates"
