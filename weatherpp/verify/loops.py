"""Loops that numba compiles on first call; import this module only where one is needed.

The import of numba takes half a second, so nothing imports this module at its top.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_LAUNCH = threading.Lock()  # one of numba's threading layers aborts on concurrent launches
BLOCK_BYTES = 32768  # members of the points that are done side by side: they stay in cache


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` compiled on first call, its ``prange`` loops on numba's threads.

    Machine code is kept on disk between runs where a folder can be written. Concurrent callers
    take turns.
    """
    try:
        kernel = numba.njit(parallel=True, cache=True)(function)
    except RuntimeError:  # no folder that numba could write its cache to
        kernel = numba.njit(parallel=True)(function)

    def call(*args: Any) -> Any:
        with _LAUNCH:
            return kernel(*args)

    return call


def _sort_and_sum(
    members: Any, obs: Any, network: Any, first: Any, second: Any, score: Any, width: Any
) -> None:
    """Fill ``score`` (a, b) with the CRPS of ``members`` (m, a, b) for ``obs`` (a, b).

    ``network`` (comparators, 2) sorts m values; ``first`` and ``second`` (m + 1) are the weights
    of the two sums for each number of members that are there, see
    :mod:`weatherpp.verify.kernels`; ``width`` points are done side by side.
    """
    m, na, nb = members.shape
    blocks = (nb + width - 1) // width
    for k in numba.prange(na * blocks):
        a = k // blocks
        start = (k % blocks) * width
        n = min(width, nb - start)
        # rows of their own: an index that cannot be negative lets the loops vectorise
        y = obs[a, start : start + n]
        out = score[a, start : start + n]
        x = np.empty((m, n), members.dtype)
        zero = x.dtype.type(0.0)
        last = x.dtype.type(np.inf)
        count = np.zeros(n)
        for i in range(m):
            row = members[i, a, start : start + n]
            for p in range(n):
                value = row[p]
                there = value == value
                count[p] += 1.0 if there else 0.0
                x[i, p] = value if there else last
        for c in range(network.shape[0]):
            i = network[c, 0]
            j = network[c, 1]
            for p in range(n):
                u = x[i, p]
                v = x[j, p]
                # the sum with zero keeps LLVM from masked stores, which are five times slower
                x[i, p] = (u if u < v else v) + zero
                x[j, p] = (v if u < v else u) + zero
        e = np.zeros(n)
        s = np.zeros(n)
        found = 0.0
        for p in range(n):
            found += count[p]
        if found == m * n:  # nothing is missing: one weight for all points
            for i in range(m):
                factor = 2.0 * i + 1.0 - m
                for p in range(n):
                    d = np.float64(x[i, p]) - np.float64(y[p])
                    e[p] += abs(d)
                    s[p] += factor * d
            for p in range(n):
                out[p] = first[m] * e[p] - second[m] * s[p]
            continue
        for i in range(m):
            rank = np.float64(i)
            for p in range(n):
                d = np.float64(x[i, p]) - np.float64(y[p])
                d = d if rank < count[p] else np.float64(0.0)
                e[p] += abs(d)
                s[p] += (2.0 * rank + 1.0 - count[p]) * d
        for p in range(n):
            valid = int(count[p])
            out[p] = first[valid] * e[p] - second[valid] * s[p]


sort_and_sum = compiled(_sort_and_sum)
