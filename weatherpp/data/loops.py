"""Loops over stored fields that numba compiles on first call; import only where one is needed.

The import of numba takes half a second, so nothing imports this module at its top. The loops
run on one thread and release Python's lock: who reads ahead calls them from several threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

WIDTH = 1024  # points side by side: loops over them vectorise, and their sums stay in cache


# a sum of squares that shrinks below this share of itself has lost too many digits
LEAST_LEFT = 1e-6


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` compiled on first call; kept on disk where a folder can be written."""
    try:
        kernel: Callable[..., Any] = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder that numba could write its cache to
        kernel = numba.njit(nogil=True)(function)
    return kernel


def _merge(count: Any, mean: Any, m2: Any, more: Any, other: Any, squares: Any) -> None:
    """Add the moments (``more``, ``other``, ``squares``) to (``count``, ``mean``, ``m2``).

    Chan, Golub and LeVeque 1983 (doi:10.1080/00031305.1983.10483115), equation 2.1; all (point),
    float64.
    """
    for p in range(count.shape[0]):
        total = count[p] + more[p]
        share = more[p] / max(total, 1.0)
        d = other[p] - mean[p]
        mean[p] += d * share
        m2[p] += squares[p] + d * d * count[p] * share
        count[p] = total


def _pool(count: Any, mean: Any, m2: Any) -> None:
    """Moments of all points together, left in the first."""
    number, total = 0.0, 0.0
    for p in range(count.shape[0]):
        number += count[p]
        total += count[p] * (mean[p] - mean[0])
    centre = mean[0] + total / max(number, 1.0)
    squares = 0.0
    for p in range(count.shape[0]):
        squares += m2[p] + count[p] * (mean[p] - centre) ** 2
    count[0], mean[0], m2[0] = number, centre, squares


def _quickly(values: Any, first: Any, total: Any, squares: Any) -> None:
    for p in range(values.shape[0]):
        d = np.float64(values[p]) - np.float64(first[p])
        total[p] += d
        squares[p] += d * d


def _carefully(
    slab: Any,
    dates: Any,
    step: Any,
    members: Any,
    level: Any,
    start: Any,
    count: Any,
    mean: Any,
    m2: Any,
) -> None:
    """Moments of the points from ``start`` on, whatever the values are."""
    for p in range(count.shape[0]):
        number, total, squares = 0.0, 0.0, 0.0
        for t in dates:
            for m in members:
                value = np.float64(slab[t, step, m, level, start + p])
                if np.isfinite(value):
                    number += 1.0
                    total += value
        centre = total / max(number, 1.0)
        for t in dates:
            for m in members:
                value = np.float64(slab[t, step, m, level, start + p])
                if np.isfinite(value):
                    squares += (value - centre) ** 2
        count[p], mean[p], m2[p] = number, centre, squares


def _accumulate(
    slab: Any, dates: Any, step: Any, members: Any, level: Any, count: Any, mean: Any, m2: Any
) -> None:
    """Add values to the counts, means and sums of squared deviations of finite values.

    Sums are of distances from the first value, so that little cancels. Points of which one has
    a missing value, or a first value far from all others, are done again with care: means
    first, then deviations from them.

    ``slab`` (date, step, member, level, point), C order; ``dates`` and ``members`` are the
    positions that count, ``step`` and ``level`` one each; ``count``, ``mean``, ``m2`` float64
    have one element for each point, or one for all.
    """
    own_number, own_mean, own_m2 = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    points = slab.shape[4]
    every = np.float64(len(dates) * len(members))
    for start in range(0, points, WIDTH):
        n = min(WIDTH, points - start)
        number, centre, squares = own_number[:n], own_mean[:n], own_m2[:n]
        first = slab[dates[0], step, members[0], level, start : start + n]
        centre[:] = 0.0
        squares[:] = 0.0
        for t in dates:
            for m in members:
                quickly(slab[t, step, m, level, start : start + n], first, centre, squares)
        careful = False
        for p in range(n):
            away = centre[p] / every
            rest = squares[p] - centre[p] * away
            # NaN fails the comparison
            careful |= not rest >= LEAST_LEFT * squares[p]
            number[p], centre[p], squares[p] = every, first[p] + away, rest
        if careful:
            carefully(slab, dates, step, members, level, start, number, centre, squares)
        if count.shape[0] == points:
            end = start + n
            merge(count[start:end], mean[start:end], m2[start:end], number, centre, squares)
        else:
            pool(number, centre, squares)
            merge(count, mean, m2, number[:1], centre[:1], squares[:1])


def _scaled(values: Any, mean: Any, scale: Any, missing: Any, out: Any) -> None:
    for p in range(out.shape[0]):
        value = (values[p] - mean[p]) * scale[p]
        out[p] = value if np.isfinite(value) else missing


def _standardise(
    slab: Any,
    date: Any,
    step: Any,
    members: Any,
    level: Any,
    corner: Any,
    mean: Any,
    scale: Any,
    missing: Any,
    out: Any,
    channel: Any,
) -> None:
    """One field of one date, cut out and standardised: (value - mean) * scale.

    ``slab`` (date, step, member, level, row, column); ``mean``, ``scale`` (row, column);
    ``out`` (member, channel, row, column) is filled from ``corner`` (row, column) on, columns
    going round the globe. What is not finite becomes ``missing``.
    """
    height, width = out.shape[2], out.shape[3]
    columns = slab.shape[5]
    top, left = corner
    east = min(width, columns - left)
    for k in range(len(members)):
        for i in range(height):
            row = slab[date, step, members[k], level, top + i]
            line = out[k, channel, i]
            centre, factor = mean[top + i], scale[top + i]
            # views, because an index that is a sum would keep the loop from vectorising
            scaled(row[left:], centre[left:], factor[left:], missing, line[:east])
            scaled(row, centre, factor, missing, line[east:])


def _mean_and_spread(values: Any, mean: Any, spread: Any) -> None:
    """Mean and standard deviation (ddof = 1) of ``values`` (member, point), summed in float64.

    Where a member has no value both are 0; ``spread`` with no element is left out.
    """
    total, squares = np.empty(WIDTH), np.empty(WIDTH)
    m, points = values.shape
    for start in range(0, points, WIDTH):
        n = min(WIDTH, points - start)
        total[:] = 0.0
        squares[:] = 0.0
        first = values[0, start : start + n]
        for k in range(m):
            quickly(values[k, start : start + n], first, total, squares)
        for p in range(n):
            centre = first[p] + total[p] / m
            mean[start + p] = centre if np.isfinite(centre) else 0.0
            if spread.shape[0]:
                variance = (squares[p] - total[p] * total[p] / m) / (m - 1)
                spread[start + p] = np.sqrt(max(variance, 0.0)) if np.isfinite(centre) else 0.0


merge = _compiled(_merge)
pool = _compiled(_pool)
quickly = _compiled(_quickly)
carefully = _compiled(_carefully)
accumulate = _compiled(_accumulate)
mean_and_spread = _compiled(_mean_and_spread)
scaled = _compiled(_scaled)
standardise = _compiled(_standardise)
