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


def _pairs(members: Any, obs: Any, weight: Any, score: Any) -> None:
    """Fill ``score`` (a, b) with the CRPS of ``members`` (m, a, b) for ``obs`` (a, b).

    ``weight`` is that of the sum over pairs, see :mod:`weatherpp.verify.kernels`.
    """
    m, na, nb = members.shape
    width = 256  # points side by side, so that the pair loop vectorises and stays in cache
    blocks = (nb + width - 1) // width
    for k in numba.prange(na * blocks):
        a = k // blocks
        start = (k % blocks) * width
        n = min(width, nb - start)
        y = np.empty((m, width))
        e = np.zeros(width)
        s = np.zeros(width)
        for i in range(m):
            for p in range(n):
                y[i, p] = np.float64(members[i, a, start + p]) - obs[a, start + p]
                e[p] += abs(y[i, p])
        for i in range(m):
            for j in range(i):
                for p in range(n):
                    s[p] += abs(y[i, p] - y[j, p])
        for p in range(n):
            score[a, start + p] = e[p] / m - weight * s[p]


pairs = compiled(_pairs)
