"""Curves of a score against what it depends on: members, years of training, size of a network.

A point of a curve is a method, or several that differ in their random seed alone, whose scores
are averaged date by date. Members are scored plainly here, as what they are: so many forecasts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from weatherpp.recipe import Bootstrap, Curve
from weatherpp.verify.aggregate import FEWEST_DATES, interval, resample
from weatherpp.verify.table import ROOTS, date_series, own_estimator

CURVE_COLUMNS = ("curve", "by", "target", "score", "line", "x", "value", "low", "high", "dates")
WORTH_COLUMNS = (
    *("curve", "by", "target", "line", "x", "reference", "worth", "low", "high"),
    *("least", "most"),
)


def points(
    curves: Iterable[Curve], table: pd.DataFrame, bootstrap: Bootstrap, seed: int = 1
) -> pd.DataFrame:
    """Every point of every curve with its interval, for every target that was scored.

    Parameters
    ----------
    curves
        From the recipe.
    table
        Per-date table, see :mod:`weatherpp.verify.table`.
    bootstrap, seed
        How intervals are made.

    Returns
    -------
    Columns :data:`CURVE_COLUMNS`.

    Raises
    ------
    InputError
        A method on a curve has no such score.
    """
    rows = []
    for curve in curves:
        for target in _targets(curve, table):
            for line, methods in curve.lines.items():
                for x, labels in sorted(methods.items()):
                    series = _mean(table, target, labels, curve.score)
                    number = interval(series, bootstrap, seed, root=curve.score in ROOTS)
                    head = (curve.title, curve.by, target, curve.score, line, x)
                    rows.append((*head, *number, len(series)))
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def worth(
    curves: Iterable[Curve], table: pd.DataFrame, bootstrap: Bootstrap, seed: int = 1
) -> pd.DataFrame:
    """How far along the line of reference one has to go to come to the score of another's point.

    With ``by: members`` this is the number of members a method is worth. Between its points the
    reference's score is taken as linear in 1 / x, as the expected CRPS of members drawn from one
    distribution is (Ferro et al. 2008, doi:10.1002/met.45). Nothing is said beyond its first and
    last point: values are cut off there, at ``least`` and ``most``. Intervals are those of
    dates resampled for both together.

    Returns
    -------
    Columns :data:`WORTH_COLUMNS`, in the unit of ``x``.

    Raises
    ------
    InputError
        A method on a curve has no such score.
    """
    rows = []
    for curve in curves:
        if curve.worth is None:
            continue
        reference = dict(sorted(curve.lines[curve.worth].items()))
        for target in _targets(curve, table):
            steps = [_mean(table, target, labels, curve.score) for labels in reference.values()]
            at = np.array(list(reference), np.float64)
            for line, methods in curve.lines.items():
                if line == curve.worth:
                    continue
                for x, labels in sorted(methods.items()):
                    own = _mean(table, target, labels, curve.score)
                    found = _worth(own, steps, at, bootstrap, seed)
                    head = (curve.title, curve.by, target, line, x, curve.worth)
                    rows.append((*head, *found, at[0], at[-1]))
    return pd.DataFrame(rows, columns=list(WORTH_COLUMNS))


def _targets(curve: Curve, table: pd.DataFrame) -> list[str]:
    scored = table[table["score"] == ROOTS.get(curve.score, curve.score)]
    return [str(target) for target in scored["target"].unique()]


def _mean(
    table: pd.DataFrame, target: str, labels: tuple[str, ...], score: str
) -> pd.Series[float]:
    """Scores by date, averaged over methods."""
    found = []
    for label in labels:
        series = date_series(table, target, label, score)
        found.append(series[own_estimator(series, "plain")])
    out: pd.Series[float] = pd.concat(found, axis=1, join="inner").mean(axis=1)
    return out


def _worth(
    own: pd.Series[float],
    steps: list[pd.Series[float]],
    at: NDArray[np.float64],
    bootstrap: Bootstrap,
    seed: int,
) -> tuple[float, float, float]:
    dates = own.index
    for step in steps:
        dates = dates.intersection(step.index)
    dates = dates.sort_values()
    table = np.stack([series[dates].to_numpy(np.float64) for series in (own, *steps)])
    value = _place(table.mean(axis=1)[:, None], at)[0]
    if len(dates) < FEWEST_DATES:
        return float(value), np.nan, np.nan
    draws = resample(pd.DatetimeIndex(dates), bootstrap, seed)
    places = _place(table[:, draws].mean(axis=2), at)
    tail = (1 - bootstrap.level) / 2
    low, high = np.quantile(places, [tail, 1 - tail])
    return float(value), float(low), float(high)


def _place(scores: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where on the line of reference (rows 1, ... of the scores) the first row lies.

    The smallest x whose score is as low; shape (samples,).
    """
    own, line = scores[0], scores[1:]
    out = np.full(own.shape, at[-1])
    done = own >= line[0]
    out[done] = at[0]
    for i in range(len(at) - 1):
        above, below = line[i], line[i + 1]
        here = ~done & (own >= below)
        part = (above[here] - own[here]) / (above[here] - below[here])
        out[here] = 1 / (1 / at[i] + part * (1 / at[i + 1] - 1 / at[i]))
        done |= here
    return out
