"""Isotonic distributional regression on plain arrays, compiled by numba; import where needed."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from weatherpp.verify.loops import compiled


def _pool(
    level: Any, weight: Any, fitted: Any, value: Any, total: Any, end: Any
) -> None:  # fmt: skip
    """Antitonic least squares of ``level`` (groups,) by pooling adjacent violators.

    ``value``, ``total`` and ``end`` are work space of the same size: mean, weight and end of each
    block that stands so far.
    """
    blocks = 0
    for g in range(level.shape[0]):
        value[blocks], total[blocks], end[blocks] = level[g], weight[g], g + 1
        blocks += 1
        while blocks > 1 and value[blocks - 2] <= value[blocks - 1]:
            both = total[blocks - 2] + total[blocks - 1]
            value[blocks - 2] = (
                value[blocks - 2] * total[blocks - 2] + value[blocks - 1] * total[blocks - 1]
            ) / both
            total[blocks - 2] = both
            end[blocks - 2] = end[blocks - 1]
            blocks -= 1
    start = 0
    for b in range(blocks):
        for g in range(start, end[b]):
            fitted[g] = value[b]
        start = end[b]


_pool_serial = numba.njit(_pool)


def _interval(ascending: Any, value: float) -> Any:
    """Where ``value`` lies: index of the left neighbour, and the share of the right one."""
    last = ascending.shape[0] - 1
    if not value > ascending[0]:
        return 0, 0.0
    if value >= ascending[last]:
        return last, 0.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if ascending[middle] <= value:
            low = middle
        else:
            high = middle
    return low, (value - ascending[low]) / (ascending[low + 1] - ascending[low])


_interval_serial = numba.njit(_interval)


def _quantiles(x: Any, pairs: Any, rank: Any, y: Any, at: Any, levels: Any, out: Any) -> None:
    """Quantiles of the fitted distributions.

    Parameters
    ----------
    x
        (points, pairs) ascending predictors; of each point the first ``pairs`` (points,) count,
        at least one.
    rank, y
        (points, pairs) ascending truths, and where the predictor of each stands in ``x``.
    at
        (points, dates) predictors to predict for.
    levels
        (levels,) ascending, within (0, 1).
    out
        (points, dates, levels) of NaN; filled where ``at`` is no NaN.
    """
    for p in numba.prange(x.shape[0]):
        n, dates = pairs[p], at.shape[1]
        distinct, weight = np.empty(n), np.zeros(n)
        group = np.empty(n, np.int64)
        groups = 0
        for i in range(n):
            if groups == 0 or x[p, i] > distinct[groups - 1]:
                distinct[groups] = x[p, i]
                groups += 1
            group[i] = groups - 1
            weight[groups - 1] += 1.0
        distinct, weight = distinct[:groups], weight[:groups]
        left, share = np.zeros(dates, np.int64), np.zeros(dates)
        for t in range(dates):
            left[t], share[t] = _interval_serial(distinct, at[p, t])
        mean, fitted = np.zeros(groups), np.empty(groups)
        work, total, end = np.empty(groups), np.empty(groups), np.empty(groups, np.int64)
        reached = np.zeros(dates, np.int64)
        start = 0
        while start < n:
            stop = start
            while stop < n and y[p, stop] == y[p, start]:
                g = group[rank[p, stop]]
                mean[g] += 1.0 / weight[g]
                stop += 1
            _pool_serial(mean, weight, fitted, work, total, end)
            for t in range(dates):
                if math.isnan(at[p, t]):
                    continue
                cdf = fitted[left[t]]  # mixed linearly with that of the right neighbour
                if share[t] > 0.0:
                    cdf += share[t] * (fitted[left[t] + 1] - cdf)
                # rounding must not put a level off to the next value
                while reached[t] < levels.shape[0] and cdf >= levels[reached[t]] - 1e-12:
                    out[p, t, reached[t]] = y[p, start]
                    reached[t] += 1
            start = stop


quantiles = compiled(_quantiles)
