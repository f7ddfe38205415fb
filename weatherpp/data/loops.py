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


def _scaled(values: Any, mean: Any, scale: Any, out: Any) -> None:
    for p in range(out.shape[0]):
        value = (values[p] - mean[p]) * scale[p]
        out[p] = value if np.isfinite(value) else 0.0


def _standardise(
    slab: Any,
    date: Any,
    step: Any,
    members: Any,
    level: Any,
    corner: Any,
    mean: Any,
    scale: Any,
    out: Any,
    channel: Any,
) -> None:
    """One field of one date, cut out and standardised: (value - mean) * scale.

    ``slab`` (date, step, member, level, row, column); ``mean``, ``scale`` (row, column);
    ``out`` (member, channel, row, column) is filled from ``corner`` (row, column) on, columns
    going round the globe. What is not finite becomes 0, the mean.
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
            scaled(row[left:], centre[left:], factor[left:], line[:east])
            scaled(row, centre, factor, line[east:])


def _reduced(values: Any, members: Any, mean: Any, scale: Any, out: Any, spread: Any) -> None:
    """Mean and standard deviation over members, standardised; see :func:`_reduce`."""
    n, m = out.shape[0], np.float64(len(members))
    total, squares = np.zeros(n), np.zeros(n)
    first = values[members[0], :n]
    for k in members:
        quickly(values[k, :n], first, total, squares)
    for p in range(n):
        away = total[p] / m
        centre = (first[p] + away - mean[p]) * scale[p]
        out[p] = centre if np.isfinite(centre) else 0.0
    for p in range(len(spread)):
        variance = max((squares[p] - total[p] * total[p] / m) / (m - 1.0), 0.0)
        # a member without a value makes the sum NaN
        spread[p] = np.sqrt(variance) * scale[p] if np.isfinite(total[p]) else 0.0


def _reduce(
    slab: Any,
    date: Any,
    step: Any,
    members: Any,
    level: Any,
    corner: Any,
    mean: Any,
    scale: Any,
    out: Any,
    channel: Any,
) -> None:
    """As :func:`_standardise`, of the members' mean and (ddof = 1, not centred) spread.

    ``out`` (1 or 2, channel, row, column); with 1 the spread is left out. Where a member has no
    value both are 0. Sums are in float64, of distances from the first member.
    """
    kinds, _, height, width = out.shape
    top, left = corner
    east = min(width, slab.shape[5] - left)
    for i in range(height):
        rows = slab[date, step, :, level, top + i]
        centre, factor = mean[top + i], scale[top + i]
        line = out[0, channel, i]
        other = out[kinds - 1, channel, i, : width if kinds == 2 else 0]
        reduced(rows[:, left:], members, centre[left:], factor[left:], line[:east], other[:east])
        if east < width:
            reduced(rows, members, centre, factor, line[east:], other[east:])


merge = _compiled(_merge)
pool = _compiled(_pool)
quickly = _compiled(_quickly)
carefully = _compiled(_carefully)
accumulate = _compiled(_accumulate)
reduced = _compiled(_reduced)
scaled = _compiled(_scaled)
standardise = _compiled(_standardise)
reduce = _compiled(_reduce)
