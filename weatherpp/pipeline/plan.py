"""Which dates train, validate and are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from weatherpp.data.splits import by_years, leave_one_out, leave_years_out, sliding
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import FoldSplit, Target, WindowSplit, YearSplit


@dataclass(frozen=True)
class Fold:
    """One fit and the dates predicted with it; ``verified`` dates have an analysis."""

    name: str
    train: pd.DatetimeIndex
    valid: pd.DatetimeIndex
    predict: pd.DatetimeIndex
    verified: bool = True


def last_years(fold: Fold, years: int | None) -> Fold:
    """The fold with the last so many calendar years of its training dates; None for all.

    Raises
    ------
    ConfigError
        There are fewer.
    """
    there = sorted(set(fold.train.year))
    if years is None or not there:
        return fold
    if years > len(there):
        raise ConfigError(f"years: {years} of training, but the split has {len(there)}")
    return replace(fold, train=fold.train[fold.train.year >= there[-years]])


def plan_folds(
    times: pd.DatetimeIndex,
    with_truth: pd.DatetimeIndex,
    split: YearSplit | FoldSplit | WindowSplit | None,
    target: Target,
) -> Sequence[Fold]:
    """Folds of a recipe for one target.

    Parameters
    ----------
    times
        All initial dates of the archive.
    with_truth
        Those that can be verified; without any analysis (spread jobs), all of them.
    split
        From the recipe. None: nothing is fitted, every date is predicted.
    target
        Its lead time is the gap between splits.

    Raises
    ------
    InputError
        No date can be verified.
    ConfigError
        A split comes out empty, leaving one date out leaves none to train on, or no date has a
        whole window before it.
    """
    none = times[:0]
    if split is None:
        return [Fold("all", none, none, times)]
    if not len(with_truth):
        valid = times + target.lead
        raise InputError(
            f"no forecast of {target.name} at {target.step} has an analysis at its valid time; "
            f"the valid times run from {valid.min():%Y-%m-%d %H:%M} to {valid.max():%Y-%m-%d %H:%M}"
        )
    if isinstance(split, YearSplit):
        parts = by_years(with_truth, split, target.lead)
        return [Fold("all", parts["train"], parts["valid"], parts["test"])]
    rest = times.difference(with_truth)
    if isinstance(split, WindowSplit):
        return _windows(with_truth, rest, split, target)
    if split.leave_out == "year":
        folds = [
            Fold(f"without-{test[0]:%Y}", train, valid, test)
            for train, valid, test in leave_years_out(with_truth, target.lead)
        ]
        if len(rest):
            folds.append(replace(folds[0], name="apply", predict=rest, verified=False))
        return folds
    if len(with_truth) < 2:
        raise ConfigError("split.leave_out needs at least two dates that can be verified")
    folds = [
        Fold(f"without-{test[0]:%Y%m%dT%H}", train, none, test)
        for train, test in leave_one_out(with_truth, target.lead)
    ]
    if len(rest):
        folds.append(Fold("apply", with_truth, none, rest, verified=False))
    return folds


def _windows(
    with_truth: pd.DatetimeIndex, rest: pd.DatetimeIndex, split: WindowSplit, target: Target
) -> Sequence[Fold]:
    """A fold for each date that has a whole window of dates with an analysis before it."""
    folds = [
        Fold(f"for-{predict[0]:%Y%m%dT%H%M}", train, with_truth[:0], predict, verified)
        for dates, verified in ((with_truth, True), (rest, False))
        for train, predict in sliding(dates, with_truth, split.length, target.lead)
    ]
    if not any(fold.verified for fold in folds):
        raise ConfigError(
            f"split.window: no date of {with_truth[0]:%Y-%m-%d} to {with_truth[-1]:%Y-%m-%d} has "
            f"{split.window} of verified forecasts before it; choose a shorter window"
        )
    return folds
