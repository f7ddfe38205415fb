r"""The continuous ranked probability score (CRPS) on plain arrays.

For members :math:`x_1..x_m` and an observation :math:`y`

.. math:: \frac1m \sum_i |x_i - y| \; - \; w \sum_{i<j} |x_i - x_j|

with :math:`w = 1/m^2` (``plain``: the score of the empirical distribution, Hersbach 2000) or
:math:`w = 1/(m(m-1))` (``fair``: unbiased for the distribution that the members are drawn
from, Ferro 2014).

The observation is subtracted first and sums are in float64, so float32 fields far from zero
(temperature near 280 K) lose nothing. NaN in a member or an observation gives NaN.

References
----------
Hersbach, H. (2000), Wea. Forecasting 15, 559-570.
Ferro, C. A. T. (2014), Q. J. R. Meteorol. Soc. 140, 1917-1923.
Gneiting, T. and Raftery, A. E. (2007), J. Amer. Statist. Assoc. 102, 359-378.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weatherpp.errors import InputError
from weatherpp.families import FAMILIES

Array = NDArray[np.float64]
Estimator = Literal["plain", "fair"]

# Measured on two cores: the loop over pairs beats sorting up to about a hundred members.
PAIRS_UP_TO = 96
_SORT_POINTS = 2048  # points sorted at a time, so that temporaries stay in cache


def pair_weight(m: int, estimator: Estimator) -> float:
    """Weight of the sum over pairs of ``m`` members.

    Raises
    ------
    InputError
        Unknown estimator, no member, or ``fair`` with one member.
    """
    if estimator not in get_args(Estimator):
        raise InputError(f"CRPS estimator '{estimator}'; known: {', '.join(get_args(Estimator))}")
    if m < 1:
        raise InputError("CRPS: there is no member")
    if estimator == "plain":
        return 1 / m**2
    if m < 2:
        raise InputError(
            "the fair CRPS needs at least two members; with one, ask for estimator 'plain', "
            "which is then the mean absolute error"
        )
    return 1 / (m * (m - 1))


def crps_ensemble(
    members: ArrayLike,
    obs: ArrayLike,
    estimator: Estimator = "fair",
    *,
    method: Literal["auto", "pairs", "sort"] = "auto",
) -> Array:
    """CRPS of an ensemble at each point.

    Parameters
    ----------
    members
        (m, ...) float32 or float64, any strides; the member axis is first.
    obs
        (...), same units.
    estimator
        ``plain`` or ``fair``, see the module. With one member ``plain`` is the absolute error.
    method
        How to add up the pairs; ``auto`` takes the faster one for m.

    Returns
    -------
    (...) float64 in the units of the members; NaN where any input is NaN.

    Raises
    ------
    InputError
        Shapes do not match, no member, unknown estimator, ``fair`` with one member.
    """
    x, y = _real(members), _real(obs)
    if x.ndim == 0 or x.shape[1:] != y.shape:
        raise InputError(
            f"CRPS: members have the shape {x.shape}, observations {y.shape}; "
            "expected (member, ...) and (...)"
        )
    m = x.shape[0]
    weight = pair_weight(m, estimator)
    shape = (1, y.size) if y.ndim < 2 else (y.shape[0], math.prod(y.shape[1:]))
    x, flat, score = x.reshape(m, *shape), y.reshape(shape), np.empty(shape)
    if method == "pairs" or (method == "auto" and m <= PAIRS_UP_TO):
        from weatherpp.verify import loops

        loops.pairs(x, np.ascontiguousarray(flat), weight, score)
    else:
        _sorted(x, flat, weight, score)
    return score.reshape(y.shape)


def _real(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    # every further type would take seconds to compile; half precision would overflow
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _sorted(members: NDArray[Any], obs: NDArray[Any], weight: float, score: Array) -> None:
    r"""As :func:`weatherpp.verify.loops.pairs`, by sorting.

    With :math:`y_{(1)} \le ... \le y_{(m)}` the sum over pairs is
    :math:`\sum_k (2k - m - 1)\, y_{(k)}`.
    """
    m, na, nb = members.shape
    factor = weight * (2.0 * np.arange(1, m + 1) - m - 1)
    for a in range(na):
        for start in range(0, nb, _SORT_POINTS):
            block = slice(start, start + _SORT_POINTS)
            y = np.ascontiguousarray((members[:, a, block] - obs[a, block]).T)
            y.sort(axis=1)
            error = np.abs(y).mean(axis=1, dtype=np.float64)
            score[a, block] = error - y.astype(np.float64) @ factor


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
