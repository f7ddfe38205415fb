r"""The continuous ranked probability score (CRPS) on plain arrays.

For members :math:`x_1..x_m` and an observation :math:`y`

.. math:: \frac1m \sum_i |x_i - y| \; - \; w \sum_{i<j} |x_i - x_j|

with :math:`w = 1/m^2` (``plain``: the score of the empirical distribution, Hersbach 2000),
:math:`w = 1/(m(m-1))` (``fair``: unbiased for the distribution that the members are drawn
from, Ferro 2014) or :math:`\alpha` parts of the fair and :math:`1 - \alpha` of the plain weight
(``almost-fair``, Lang et al. 2024).

With the members in order the sum over pairs is :math:`\sum_k (2k - m - 1)\, x_{(k)}`. They are
sorted by a network of comparators (Batcher 1968), the same for all points, so that a processor
does several points at a time. Members are sorted as they are, the observation is subtracted in
float64 and sums are in float64, so float32 fields far from zero (temperature near 280 K) lose
nothing.

References
----------
Batcher, K. E. (1968), Proc. AFIPS Spring Joint Comput. Conf. 32, 307-314.
Knuth, D. E. (1998), The Art of Computer Programming, vol. 3, 2nd ed., Addison-Wesley.
Hersbach, H. (2000), Wea. Forecasting 15, 559-570.
Ferro, C. A. T. (2014), Q. J. R. Meteorol. Soc. 140, 1917-1923.
Gneiting, T. and Raftery, A. E. (2007), J. Amer. Statist. Assoc. 102, 359-378.
Lang, S. et al. (2024), arXiv:2412.15832.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weatherpp.errors import InputError
from weatherpp.families import FAMILIES

Array = NDArray[np.float64]
Estimator = Literal["plain", "fair", "almost-fair"]
NanPolicy = Literal["raise", "omit", "propagate"]

ALPHA = 0.95
"""Part of the fair score in the almost fair one, as in Lang et al. (2024)."""
# Measured on two cores: a network beats numpy's sort up to at least 400 members.
NETWORK_UP_TO = 512
_WAKSMAN = [
    *((0, 8), (1, 9), (2, 7), (3, 5), (4, 6), (0, 2), (1, 4), (5, 8), (7, 9), (0, 3)),
    *((2, 4), (5, 7), (6, 9), (0, 1), (3, 6), (8, 9), (1, 5), (2, 3), (4, 8), (6, 7)),
    *((1, 2), (3, 5), (4, 6), (7, 8), (2, 3), (4, 5), (6, 7), (3, 4), (5, 6)),
]
_SORT_POINTS = 2048  # points sorted at a time, so that temporaries stay in cache


def pair_weight(m: int, estimator: Estimator, alpha: float = ALPHA) -> float:
    """Weight of the sum over pairs of ``m`` members.

    Parameters
    ----------
    m
        Number of members.
    estimator
        See the module.
    alpha
        For ``almost-fair`` only: 0 is the plain, 1 the fair score.

    Raises
    ------
    InputError
        Unknown estimator, ``alpha`` not between 0 and 1, no member, or ``fair`` with one member.
    """
    if estimator not in get_args(Estimator):
        raise InputError(f"CRPS estimator '{estimator}'; known: {', '.join(get_args(Estimator))}")
    if not 0 <= alpha <= 1:
        raise InputError(f"almost fair CRPS: alpha is {alpha}, it must lie between 0 and 1")
    if m < 1:
        raise InputError("CRPS: there is no member")
    if estimator == "plain":
        return 1 / m**2
    if m < 2:
        raise InputError(
            f"the {estimator} CRPS needs at least two members; with one, ask for estimator "
            "'plain', which is then the mean absolute error"
        )
    fair = 1 / (m * (m - 1))
    return fair if estimator == "fair" else alpha * fair + (1 - alpha) / m**2


def check_policy(nan_policy: str, known: Sequence[str] = get_args(NanPolicy)) -> None:
    """Refuse a name that is no policy for NaN, or none that a score has (``known``).

    Raises
    ------
    InputError
        Naming the policies there are.
    """
    if nan_policy not in known:
        raise InputError(f"nan_policy '{nan_policy}'; known: {', '.join(known)}")


def crps_ensemble(
    members: ArrayLike,
    obs: ArrayLike,
    estimator: Estimator = "fair",
    *,
    alpha: float = ALPHA,
    nan_policy: NanPolicy = "propagate",
    method: Literal["auto", "network", "sort"] = "auto",
) -> Array:
    """CRPS of an ensemble at each point.

    Parameters
    ----------
    members
        (m, ...) float32 or float64, any strides; the member axis is first.
    obs
        (...), same units.
    estimator
        ``plain``, ``fair`` or ``almost-fair``, see the module. With one member ``plain`` is the
        absolute error.
    alpha
        For ``almost-fair`` only, see :func:`pair_weight`.
    nan_policy
        ``propagate``: NaN where any input is NaN. ``omit``: each point has as many members as it
        has without NaN, and a NaN score where the observation is NaN, no member is left, or one
        and the estimator needs two. ``raise``: NaN is refused.
    method
        How to sort; ``auto`` takes the faster one for m.

    Returns
    -------
    (...) float64 in the units of the members.

    Raises
    ------
    InputError
        Shapes do not match, no member, unknown estimator, ``fair`` with one member; NaN under
        ``raise``.
    """
    check_policy(nan_policy)
    x, y = _real(members), _real(obs)
    if x.ndim == 0 or x.shape[1:] != y.shape:
        raise InputError(
            f"CRPS: members have the shape {x.shape}, observations {y.shape}; "
            "expected (member, ...) and (...)"
        )
    m = x.shape[0]
    first, second = _weights(m, estimator, alpha, nan_policy)
    shape = (1, y.size) if y.ndim < 2 else (y.shape[0], math.prod(y.shape[1:]))
    x, flat, score = x.reshape(m, *shape), np.ascontiguousarray(y.reshape(shape)), np.empty(shape)
    if method == "network" or (method == "auto" and m <= NETWORK_UP_TO):
        from weatherpp.verify import loops

        width = int(np.clip(loops.BLOCK_BYTES // (m * x.itemsize) // 8 * 8, 64, 512))
        loops.sort_and_sum(x, flat, _network(m), first, second, score, width)
    else:
        _sorted(x, flat, first, second, score)
    if nan_policy == "raise" and np.isnan(score).any():
        raise InputError(
            f"CRPS: NaN in the members or observations of {int(np.isnan(score).sum())} of "
            f"{score.size} points; select valid points or ask for nan_policy 'omit'"
        )
    return score.reshape(y.shape)


def _real(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    # every further type would take seconds to compile; half precision would overflow
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _weights(m: int, estimator: Estimator, alpha: float, policy: NanPolicy) -> tuple[Array, Array]:
    """Weights of the sum of errors and of that over pairs, for 0 to m members without NaN."""
    first, second = np.full((2, m + 1), np.nan)
    first[m], second[m] = 1 / m if m else np.nan, pair_weight(m, estimator, alpha)
    if policy == "omit":
        for count in range(1 if estimator == "plain" else 2, m):
            first[count], second[count] = 1 / count, pair_weight(count, estimator, alpha)
    return first, second


@functools.cache
def _network(m: int) -> NDArray[np.int64]:
    """Comparators (n, 2) that sort m values: Batcher's odd-even merges.

    Those of the next power of two, without the ones that reach beyond m: these would compare with
    values that are already last. For ten, the most usual number, Waksman's network of 29, the
    least there can be (Knuth 1998, section 5.3.4), against 32.
    """
    if m == 10:
        return np.array(_WAKSMAN, np.int64)
    found = []
    run = 1
    while run < m:
        step = run
        while step:
            for start in range(step % run, m - step, 2 * step):
                for i in range(start, min(start + step, m - step)):
                    if i // (2 * run) == (i + step) // (2 * run):
                        found.append((i, i + step))
            step //= 2
        run *= 2
    return np.array(found, np.int64).reshape(-1, 2)


def _sorted(
    members: NDArray[Any], obs: NDArray[Any], first: Array, second: Array, score: Array
) -> None:
    """As :func:`weatherpp.verify.loops.sort_and_sum`, by numpy's sort, which puts NaN last."""
    m, na, nb = members.shape
    k = np.arange(m)
    for a in range(na):
        for start in range(0, nb, _SORT_POINTS):
            block = slice(start, start + _SORT_POINTS)
            x = np.sort(members[:, a, block].T, axis=1)
            count = m - np.isnan(x).sum(axis=1)
            d = x.astype(np.float64) - obs[a, block].astype(np.float64)[:, None]
            d[k >= count[:, None]] = 0.0
            pairs = 2 * (d @ (k + 0.5)) - count * d.sum(axis=1)
            score[a, block] = first[count] * np.abs(d).sum(axis=1) - second[count] * pairs


def crps_normal(mean: ArrayLike, spread: ArrayLike, obs: ArrayLike) -> Array:
    """CRPS of a normal distribution, see :class:`weatherpp.families.normal.Normal`.

    Parameters
    ----------
    mean, spread, obs
        Broadcastable, same units; the spread is the standard deviation, not negative.

    Returns
    -------
    float64 in the units of the mean; NaN where any input is NaN.

    Raises
    ------
    InputError
        A negative spread.
    """
    # float64 first: a difference of two float32 fields is then exact
    sigma = np.asarray(spread, np.float64)
    if np.any(sigma < 0):
        raise InputError(f"CRPS: {int(np.sum(sigma < 0))} spreads are negative")
    return FAMILIES["normal"].crps(np.asarray(obs, np.float64), np.asarray(mean, np.float64), sigma)
