"""One fit for several targets: which target is fitted, and on which dates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp.errors import ConfigError
from weatherpp.pipeline.job import Job
from weatherpp.pipeline.leads import leader, learnable
from weatherpp.pipeline.plan import plan_folds
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.stages import RunFolder
from weatherpp.recipe import FoldSplit, Recipe, Target, WindowSplit, YearSplit

TIMES = pd.date_range("2001-01-01", "2005-12-31", freq="12h")
LEADS = {hour: Target(variable="z", level=500, step=f"{hour}h") for hour in (24, 120)}
YEARS = YearSplit(train=(2001, 2003), valid=(2004, 2004), test=(2005, 2005))


def analysis(valid: pd.DatetimeIndex) -> xr.Dataset:
    values = np.zeros((len(valid), 1, 2, 2), np.float32)
    dims = ("valid_time", "level", "latitude", "longitude")
    z = xr.DataArray(values, dims=dims, attrs={"units": "m2 s-2"})
    coords = {"valid_time": valid, "level": [500], "latitude": [1.0, 0.0], "longitude": [0.0, 1.0]}
    return xr.Dataset({"z": z}, coords)


@pytest.mark.parametrize(
    ("times", "split"),
    [
        (TIMES, YEARS),
        (TIMES, YearSplit(train=(2001, 2003), valid=(2005, 2005), test=(2004, 2004))),
        (TIMES[:60], FoldSplit(leave_out="time")),
        (TIMES[::8], FoldSplit(leave_out="year")),
        (TIMES[:80], WindowSplit(window="20 days")),
    ],
)
def test_no_lead_time_learns_what_is_tested(
    times: pd.DatetimeIndex, split: YearSplit | FoldSplit | WindowSplit
) -> None:
    """With the fold of the shorter lead time, no period of the longer one from initial to valid
    time touches that of a date that is tested on; the dates are those of its own fold, but for a
    few where training comes after the test."""
    short, long = LEADS[24], LEADS[120]
    there = analysis(times.union(times + long.lead))
    own = {fold.name: fold for fold in plan_folds(times, times, split, long)}
    folds = [fold for fold in plan_folds(times, times, split, short) if fold.name in own]
    assert folds
    for fold in folds:
        found = pd.DatetimeIndex(learnable(there, there, fold, long)["time"].values)
        train, valid = (found.intersection(part) for part in (fold.train, fold.valid))
        assert len(train) + len(valid) == len(found)
        for one, others in ((train, fold.predict), (train, fold.valid), (valid, fold.predict)):
            apart = np.abs(np.subtract.outer(one.values, others.values))
            assert (apart > long.lead.to_timedelta64()).all()
        expected = own[fold.name].train.intersection(fold.train)
        assert len(train.difference(expected)) == 0
        assert len(expected.difference(train)) <= 2 * long.lead / pd.Timedelta("12h")


def test_dates_without_an_analysis_are_not_learnt_from() -> None:
    (fold,) = plan_folds(TIMES, TIMES, YEARS, LEADS[24])
    there = analysis(TIMES[100:])
    found = pd.DatetimeIndex(learnable(there, there, fold, LEADS[120])["time"].values)
    assert found.min() == TIMES[100] - LEADS[120].lead


def test_dates_that_are_only_applied_to_forbid_none() -> None:
    times = TIMES[:16:2]
    *_, applied = plan_folds(times, times[:5], FoldSplit(leave_out="time"), LEADS[24])
    assert not applied.verified
    there = analysis(times + LEADS[24].lead)
    found = pd.DatetimeIndex(learnable(there, there, applied, LEADS[24])["time"].values)
    assert list(found) == list(times[:5])


def recipe_of(*methods: dict[str, object]) -> Recipe:
    targets = [
        {"label": "a", "variable": "z", "level": 500, "step": "48h"},
        {"label": "b", "variable": "z", "level": 500, "step": "24h"},
        {"label": "c", "variable": "z", "level": 850, "step": "24h"},
    ]
    return Recipe.model_validate(
        {"name": "x", "source": {"catalog": "x"}, "targets": targets, "methods": methods}
    )


def test_first_target_of_a_field_is_fitted_for_all() -> None:
    methods = ("mixed", "mixed-leads")
    recipe = recipe_of(*({"label": name, "method": name} for name in methods))
    names = [
        [leader(recipe, entry, target).name for target in recipe.targets]
        for entry in recipe.methods
    ]
    assert names == [["a", "b", "c"], ["a", "a", "c"]]


def test_target_at_a_lead_time_that_is_not_trained_is_told_before_any_work(tmp_path: Path) -> None:
    entry = {"label": "leads", "method": "mixed-leads", "settings": {"hours": [48]}}
    job = Job(recipe_of(entry), "", RunFolder(tmp_path / "run"), Terminal())
    with pytest.raises(ConfigError, match="target b: its lead time of 24 h is none of the hours"):
        job.methods()
