"""Targets that differ in the lead time alone, for methods that one fit serves at all of them."""

from __future__ import annotations

import pandas as pd
import xarray as xr

from weatherpp.data.matching import matched_times, truth_for
from weatherpp.methods.base import method_class
from weatherpp.pipeline.plan import Fold
from weatherpp.recipe import MethodEntry, Recipe, Target


def leader(recipe: Recipe, entry: MethodEntry, target: Target) -> Target:
    """The target whose fit serves this one too: the first of its field, or itself."""
    if not method_class(entry.method).across_leads:
        return target
    field = target.variable, target.level
    return next(each for each in recipe.targets if (each.variable, each.level) == field)


def learnable(analysis: xr.Dataset, like: xr.Dataset, fold: Fold, target: Target) -> xr.DataArray:
    """Analysis of a target on those dates of another target's fold that it may be learnt from.

    They have an analysis, and are farther than the lead time from all dates that are tested on;
    those that train, from those that validate too. With a longer lead time than that of the fold
    these are fewer than the fold has.

    Parameters
    ----------
    analysis
        Canonical analysis.
    like
        Forecast whose grid the result has.
    fold
        Dates of the other target.
    target
        Field and lead time.

    Returns
    -------
    As :func:`weatherpp.data.matching.truth_for`.
    """
    tested = fold.predict[: len(fold.predict) if fold.verified else 0]
    train = _apart(fold.train, fold.valid.union(tested), target.lead)
    valid = _apart(fold.valid, tested, target.lead)
    return truth_for(analysis, target, matched_times(analysis, target, train.union(valid)), like)


def _apart(
    times: pd.DatetimeIndex, others: pd.DatetimeIndex, lead: pd.Timedelta
) -> pd.DatetimeIndex:
    """Those of ``times`` that are farther than ``lead`` from each of ``others``."""
    near = others.sort_values()
    first = near.searchsorted(times - lead, side="left")
    last = near.searchsorted(times + lead, side="right")
    return pd.DatetimeIndex(times[first == last])
