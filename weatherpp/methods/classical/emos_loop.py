"""The numerical core of EMOS, compiled by numba; import it only where it is needed."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from weatherpp.verify.loops import compiled

SIZE = 4  # parameters of a point: shift, tilt, gamma, delta
FLOOR = 1e-6  # least variance, in units of the squared scale


def _evaluate(
    e: Any, u: Any, v: Any, theta: Any, centre: Any, prior: Any, grad: Any, hess: Any
) -> Any:
    """Objective at one point, its gradient and Hessian (lower triangle) by side effect.

    With r = e - shift - tilt u, s^2 = gamma^2 + delta^2 v + FLOOR, z = r / s the CRPS has the
    derivatives -(2 Phi - 1) by the mean and 2 phi - 1 / sqrt(pi) by s, and second derivatives
    2 phi / s times (1, z; z, z^2). Dates where e is NaN are left out.
    """
    n = 0
    for i in range(SIZE):
        grad[i] = 0.0
        for j in range(SIZE):
            hess[i, j] = 0.0
    total = 0.0
    dm = np.zeros(SIZE)
    ds = np.zeros(SIZE)
    gamma, delta = theta[2], theta[3]
    for t in range(e.shape[0]):
        if math.isnan(e[t]):
            continue
        n += 1
        var = gamma * gamma + delta * delta * v[t] + FLOOR
        s = math.sqrt(var)
        z = (e[t] - theta[0] - theta[1] * u[t]) / s
        twice_phi = math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z)
        odd = math.erf(z / math.sqrt(2.0))
        by_s = twice_phi - 1.0 / math.sqrt(math.pi)
        total += s * (z * odd + by_s)
        dm[0], dm[1] = 1.0, u[t]
        ds[2], ds[3] = gamma / s, delta * v[t] / s
        curve = twice_phi / s
        for i in range(SIZE):
            grad[i] += by_s * ds[i] - odd * dm[i]
            for j in range(i + 1):
                hess[i, j] += curve * (dm[i] + z * ds[i]) * (dm[j] + z * ds[j])
        # curvature of s itself
        hess[2, 2] += by_s * (1.0 - ds[2] * ds[2]) / s
        hess[3, 3] += by_s * (v[t] - ds[3] * ds[3]) / s
        hess[3, 2] -= by_s * ds[2] * ds[3] / s
    n = max(n, 1)  # without a date the prior alone speaks
    for i in range(SIZE):
        gap = theta[i] - centre[i]
        total += 0.5 * prior * gap * gap
        grad[i] = (grad[i] + prior * gap) / n
        hess[i, i] += prior
        for j in range(i + 1):
            hess[i, j] /= n
    return total / n


def _solve(hess: Any, damping: float, grad: Any, step: Any) -> bool:
    """``step`` from (hess + damping) step = -grad by Cholesky; False if not positive definite."""
    low = np.zeros((SIZE, SIZE))
    for i in range(SIZE):
        for j in range(i + 1):
            value = hess[i, j]
            if i == j:
                value += damping
            for k in range(j):
                value -= low[i, k] * low[j, k]
            if i == j:
                if not value > 1e-14:
                    return False
                low[i, i] = math.sqrt(value)
            else:
                low[i, j] = value / low[j, j]
    for i in range(SIZE):
        value = -grad[i]
        for k in range(i):
            value -= low[i, k] * step[k]
        step[i] = value / low[i, i]
    for i in range(SIZE - 1, -1, -1):
        value = step[i]
        for k in range(i + 1, SIZE):
            value -= low[k, i] * step[k]
        step[i] = value / low[i, i]
    return True


def _largest(grad: Any) -> Any:
    # np.abs(grad).max() would take seconds to compile
    return max(abs(grad[0]), abs(grad[1]), abs(grad[2]), abs(grad[3]))


_largest_serial = numba.njit(_largest)
_evaluate_serial = numba.njit(_evaluate)
_solve_serial = numba.njit(_solve)


def _point(e: Any, u: Any, v: Any, theta: Any, centre: Any, prior: Any, most: Any) -> Any:
    """Damped Newton steps at one point that only ever lower the objective.

    ``theta`` goes from start to result; returns whether the gradient vanished within ``most``
    evaluations.
    """
    grad, new_grad = np.zeros(SIZE), np.zeros(SIZE)
    hess, new_hess = np.zeros((SIZE, SIZE)), np.zeros((SIZE, SIZE))
    step, trial = np.zeros(SIZE), np.zeros(SIZE)
    value = _evaluate_serial(e, u, v, theta, centre, prior, grad, hess)
    damping = 1e-3
    for _ in range(most):
        if _largest_serial(grad) < 1e-9:
            break
        if _solve_serial(hess, damping, grad, step):
            for i in range(SIZE):
                trial[i] = theta[i] + step[i]
            lower = _evaluate_serial(e, u, v, trial, centre, prior, new_grad, new_hess)
            if lower < value:
                value = lower
                for i in range(SIZE):
                    theta[i] = trial[i]
                grad, new_grad = new_grad, grad
                hess, new_hess = new_hess, hess
                damping = max(damping * 0.2, 1e-12)
                continue
        damping *= 5.0
        if damping > 1e8:  # no lower value can be told apart in float64
            break
    return _largest_serial(grad) < 1e-5


_point_serial = numba.njit(_point)


def _minimise(
    e: Any, u: Any, v: Any, theta: Any, centre: Any, prior: Any, most: Any, good: Any
) -> None:
    """:func:`_point` for ``e, u, v`` (points, dates), ``theta`` (points, 4), ``good`` (points,)."""
    for p in numba.prange(e.shape[0]):
        good[p] = _point_serial(e[p], u[p], v[p], theta[p], centre, prior, most)


minimise = compiled(_minimise)
