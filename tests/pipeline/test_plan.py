"""Which dates train and which are predicted: nothing leaks, nothing is lost."""

from __future__ import annotations

import pandas as pd
import pytest

from weatherpp.errors import ConfigError
from weatherpp.pipeline.plan import last_years, plan_folds
from weatherpp.recipe import FoldSplit, Target, WindowSplit, YearSplit

TARGET = Target(variable="z", level=500, step="48h")
TIMES = pd.date_range("2001-01-01", "2005-12-31", freq="84h")
SPLIT = YearSplit(train=(2001, 2003), valid=(2004, 2004), test=(2005, 2005))


def test_years_are_one_fold_without_overlap_and_with_a_gap() -> None:
    (fold,) = plan_folds(TIMES, TIMES, SPLIT, TARGET)
    assert fold.train.intersection(fold.valid).empty
    assert fold.valid.intersection(fold.predict).empty
    assert fold.train.max() + TARGET.lead < fold.valid.min()
    assert fold.valid.max() + TARGET.lead < fold.predict.min()
    assert set(fold.predict.year) == {2005}


def test_dates_without_an_analysis_are_not_test_dates() -> None:
    (fold,) = plan_folds(TIMES, TIMES[:-3], SPLIT, TARGET)
    assert TIMES[-1] not in fold.predict


def test_each_date_is_left_out_once_and_those_without_truth_are_applied_to() -> None:
    times = TIMES[:5]
    folds = plan_folds(times, times[:4], FoldSplit(leave_out="time"), TARGET)
    *verified, applied = folds
    assert [list(fold.predict) for fold in verified] == [[time] for time in times[:4]]
    assert all(fold.train.intersection(fold.predict).empty for fold in folds)
    assert len({fold.name for fold in folds}) == len(folds)
    assert not applied.verified
    assert list(applied.predict) == [times[4]]
    assert list(applied.train) == list(times[:4])


def test_without_split_nothing_is_fitted() -> None:
    (fold,) = plan_folds(TIMES, TIMES, None, TARGET)
    assert fold.train.empty
    assert fold.predict.equals(TIMES)


def test_one_date_cannot_be_left_out() -> None:
    with pytest.raises(ConfigError, match="at least two dates"):
        plan_folds(TIMES[:1], TIMES[:1], FoldSplit(leave_out="time"), TARGET)


def test_each_year_is_left_out_once_with_another_to_validate() -> None:
    folds = plan_folds(TIMES, TIMES, FoldSplit(leave_out="year"), TARGET)
    assert [sorted(set(fold.predict.year)) for fold in folds] == [[y] for y in range(2001, 2006)]
    assert [fold.valid.year[0] for fold in folds] == [2005, 2001, 2002, 2003, 2004]
    for fold in folds:
        parts = [fold.train, fold.valid, fold.predict]
        assert sum(map(len, parts)) <= len(TIMES)
        for other in (fold.valid, fold.predict):
            reach = fold.train + TARGET.lead
            inside = (reach >= other[0]) & (fold.train <= other[-1] + TARGET.lead)
            assert not inside.any()
    with pytest.raises(ConfigError, match="three years"):
        plan_folds(TIMES[:150], TIMES[:150], FoldSplit(leave_out="year"), TARGET)


def test_only_the_last_years_of_training() -> None:
    (fold,) = plan_folds(TIMES, TIMES, SPLIT, TARGET)
    short = last_years(fold, 1)
    assert set(short.train.year) == {2003}
    assert short.valid.equals(fold.valid)
    assert last_years(fold, None) is fold
    with pytest.raises(ConfigError, match="has 3"):
        last_years(fold, 4)


def test_each_date_is_predicted_from_the_window_before_it() -> None:
    split = WindowSplit(window="20d")
    with_truth = TIMES[:40].delete(30)
    folds = plan_folds(TIMES[:41], with_truth, split, TARGET)
    window, lead = pd.Timedelta("20D"), TARGET.lead
    predicted = pd.DatetimeIndex([time for fold in folds for time in fold.predict])
    whole = [time for time in TIMES[:41] if time - window >= TIMES[0] + lead]
    assert sorted(predicted) == whole
    for fold in folds:
        (time,) = fold.predict
        known = [t for t in with_truth if time - window <= t + lead < time]
        assert list(fold.train) == known
        assert fold.valid.empty
    assert [fold.predict[0] for fold in folds if not fold.verified] == [TIMES[30], TIMES[40]]
    assert len({fold.name for fold in folds}) == len(folds)


def test_dates_after_a_gap_are_left_out_until_their_window_is_half_full() -> None:
    times = TIMES[:10].union(TIMES[40:50])
    folds = plan_folds(times, times, WindowSplit(window="14 days"), TARGET)
    fullest = max(len(fold.train) for fold in folds)
    assert fullest > 2
    assert all(len(fold.train) >= fullest / 2 for fold in folds)
    later = [fold.predict[0] for fold in folds if fold.predict[0] >= TIMES[40]]
    assert TIMES[40] not in later
    assert set(TIMES[44:50]) <= set(later)


def test_a_window_longer_than_the_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="shorter window"):
        plan_folds(TIMES[:9], TIMES[:9], WindowSplit(window="40d"), TARGET)
