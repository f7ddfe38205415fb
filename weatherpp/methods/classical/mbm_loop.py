"""The numerical core of member-by-member correction, compiled by numba; import it where needed."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from weatherpp.methods.classical.emos_loop import SIZE, _solve_serial
from weatherpp.verify.loops import compiled

ROUND = 0.02  # |r| is taken as sqrt(r^2 + ROUND^2), in units of the error of the mean
RIDGE = 1e-6  # least pull towards the centre, in dates: parameters without a say stay there


def _normal_equations(
    e: Any, u: Any, dev: Any, unit: Any, half: Any, theta: Any, centre: Any, prior: Any,
    matrix: Any, right: Any,
) -> Any:  # fmt: skip
    """Objective at ``theta``; by side effect the quadratic function above it that touches it there.

    A residual is r = e - shift - tilt u - (c + d unit) dev. Since |r| <= r^2 / (2 |r0|) + |r0| / 2,
    the bound is a least-squares problem with weights 1 / |r0|; its minimum is lower than the
    objective at ``theta`` or is it. Dates where e is NaN are left out.
    """
    members = dev.shape[1]
    pull = prior + RIDGE
    total = 0.0
    for i in range(SIZE):
        gap = theta[i] - centre[i]
        total += 0.5 * pull * gap * gap
        right[i] = pull * centre[i]
        for j in range(SIZE):
            matrix[i, j] = pull if i == j else 0.0
    row = np.ones(SIZE)
    for t in range(e.shape[0]):
        if math.isnan(e[t]):
            continue
        row[1] = u[t]
        for m in range(members):
            row[2] = dev[t, m]
            row[3] = dev[t, m] * unit[t]
            r = e[t]
            for i in range(SIZE):
                r -= theta[i] * row[i]
            size = math.sqrt(r * r + ROUND * ROUND)
            total += size / members
            for i in range(SIZE):
                weighted = row[i] / (size * members)
                right[i] += weighted * e[t]
                for j in range(SIZE):
                    matrix[i, j] += weighted * row[j]
        # the reward for spread, linear in both parts of the factor
        total -= half[t] * (theta[2] + theta[3] * unit[t])
        right[2] += half[t]
        right[3] += half[t] * unit[t]
    return total


_normal_equations_serial = numba.njit(_normal_equations)


def _least(matrix: Any, right: Any, theta: Any) -> None:
    """Minimum of the quadratic function where the parts of the factor are not negative.

    It is the best of the minima with none, one or both parts held at zero.
    """
    lowest = np.inf
    found = np.empty(SIZE)
    for case in range(4):
        a, b = matrix.copy(), -right
        for k in range(2):
            if (case >> k) & 1:
                i = 2 + k
                for j in range(SIZE):
                    a[i, j] = 0.0
                    a[j, i] = 0.0
                a[i, i] = 1.0
                b[i] = 0.0
        if not _solve_serial(a, 0.0, b, found) or found[2] < 0.0 or found[3] < 0.0:
            continue
        value = 0.0
        for i in range(SIZE):
            value -= right[i] * found[i]
            for j in range(SIZE):
                value += 0.5 * found[i] * matrix[i, j] * found[j]
        if value < lowest:
            lowest = value
            for i in range(SIZE):
                theta[i] = found[i]
        if case == 0:  # nothing can be lower
            break


_least_serial = numba.njit(_least)


def _minimise(
    e: Any, u: Any, dev: Any, unit: Any, half: Any, theta: Any, centre: Any, prior: Any,
    most: Any, good: Any,
) -> None:  # fmt: skip
    """Parameters of every point.

    ``e, u, unit, half`` are (points, dates), ``dev`` (points, dates, members), ``theta``
    (points, 4) goes from start to result, ``good`` (points,) tells where the last step changed
    nothing that counts, within ``most`` steps.
    """
    for p in numba.prange(e.shape[0]):
        matrix, right = np.empty((SIZE, SIZE)), np.empty(SIZE)
        before = np.inf
        for _ in range(most):
            value = _normal_equations_serial(
                e[p], u[p], dev[p], unit[p], half[p], theta[p], centre, prior, matrix, right
            )
            if before - value <= 1e-7 * abs(value):
                good[p] = True
                break
            before = value
            _least_serial(matrix, right, theta[p])


minimise = compiled(_minimise)
