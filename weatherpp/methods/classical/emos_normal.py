r"""The search for the coefficients of EMOS with the normal distribution and the CRPS.

.. math:: \mu = a + b\,\bar x, \qquad \sigma^2 = c + d\,s^2, \qquad c, d \ge 0

with :math:`\bar x` and :math:`s^2` the mean and the unbiased variance of the members
(non-homogeneous Gaussian regression). The coefficients minimise the mean CRPS over the
training dates in closed form, at every point by itself in a compiled loop.

References
----------
Gneiting, T., Raftery, A. E., Westveld, A. H. and Goldman, T. (2005), Mon. Wea. Rev. 133,
1098-1118.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.methods.classical.common import thinned

Array = NDArray[np.float64]
EVALUATIONS = 200  # most at a point; ten or so are usual
POOLED_SAMPLES = 200_000  # enough to know four numbers
START = (0.0, 0.0, 0.7, 0.7)  # unbiased, b = 1, half of the variance from the members


class Coefficients(NamedTuple):
    """Coefficients a, b, c, d of each point (float64).

    ``failed`` counts the points that kept the start, ``pooled`` those that had too few dates.
    """

    a: Array
    b: Array
    c: Array
    d: Array
    failed: int
    pooled: int = 0


class _Sample(NamedTuple):
    """Training sample (dates, points) in units of each point's own scales; NaN in ``e`` is a gap.

    ``e`` is the error of the ensemble mean, ``u`` the anomaly of the mean, ``v`` the variance
    of the members; the scales are (points,).
    """

    e: Array
    u: Array
    v: Array
    error: Array
    centre: Array
    anomaly: Array
    variance: Array


def _positive(values: Array) -> Array:
    """``values`` with one in place of zero, to divide by."""
    return np.where(values > 0, values, 1.0)


def _scale(squares: Array, prior: float) -> Array:
    """Root mean square over dates (points,), leaning on all points as if on ``prior`` dates."""
    there = ~np.isnan(squares)
    mean = squares.mean(where=there)
    dates = _positive(there.sum(axis=0) + prior)
    scale: Array = np.sqrt((squares.sum(axis=0, where=there) + prior * mean) / dates)
    return scale


def _standardise(mean: Array, variance: Array, truth: Array, prior: float) -> _Sample:
    e = truth - mean
    error = _scale(e**2, prior)
    error = _positive(np.maximum(error, 1e-6 * np.sqrt(np.nanmean(e**2))))
    there = ~np.isnan(e)
    centre = mean.sum(axis=0, where=there) / _positive(there.sum(axis=0))
    anomaly = _scale((mean - centre) ** 2, prior)
    # rounding of float32 fields near 280 is no anomaly
    anomaly = np.where(anomaly > 1e-6 * np.abs(centre), anomaly, 0.0)
    u = np.where(anomaly > 0, (mean - centre) / _positive(anomaly), 0.0)
    average = _scale(variance, prior) ** 2
    return _Sample(e / error, u, variance / _positive(average), error, centre, anomaly, average)


def _minimise(
    e: Array, u: Array, v: Array, centre: Array, prior: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Parameters (points, 4), started at ``centre``, and where the search converged."""
    from weatherpp.methods.classical import emos_loop

    points = e.shape[1]
    theta = np.tile(centre, (points, 1))
    good = np.zeros(points, dtype=np.bool_)
    by_point = [np.ascontiguousarray(part.T) for part in (e, u, v)]
    emos_loop.minimise(*by_point, theta, centre, float(prior), EVALUATIONS, good)
    theta[~good] = centre
    theta[:, 2:] = np.abs(theta[:, 2:])
    return theta, good


def _pooled(sample: _Sample) -> tuple[Array, bool]:
    """Parameters of all points together, in their standardised units."""
    there = ~np.isnan(sample.e)
    every = thinned(there, POOLED_SAMPLES)
    e, u, v = (part[there][every, None] for part in (sample.e, sample.u, sample.v))
    theta, good = _minimise(e, u, v, np.array(START), 0.0)
    return theta[0], bool(good[0])


def fit_coefficients(
    mean: Array,
    variance: Array,
    truth: Array,
    *,
    prior: float = 2.0,
    pool: bool = False,
    least: int = 2,
) -> Coefficients:
    """Minimise the mean CRPS over dates at every point.

    Parameters
    ----------
    mean, variance, truth
        (dates, points) float64: ensemble mean, unbiased variance of the members (zeros for one
        member), and analysis. A date with NaN in one of them does not count at that point.
    prior
        Pull towards the coefficients of all points together: a quadratic penalty with the
        weight of so many dates. It lets two dates do, and is lost among hundreds. Without it
        a mean or a variance that is constant in training has no say (b = 1, d = 0).
    pool
        One set of coefficients for all points; ``prior`` is then of no effect.
    least
        Points with gaps and fewer dates than this take the coefficients of ``pool``.

    Returns
    -------
    Coefficients, each (points,). Where the search does not converge the point keeps the pooled
    coefficients and counts in ``failed``.

    Raises
    ------
    InputError
        Shapes differ, no date is left, or there is one date only and no prior.
    """
    if not (mean.shape == variance.shape == truth.shape and mean.ndim == 2 and mean.size):
        raise InputError(f"EMOS: shapes {mean.shape}, {variance.shape}, {truth.shape} do not fit")
    dates, points = mean.shape
    there = np.isfinite(mean) & np.isfinite(variance) & np.isfinite(truth)
    if not there.any():
        raise InputError("EMOS: no date has both a forecast and an analysis")
    if pool:
        one = [part[there][:, None] for part in (mean, variance, truth)]
        single = fit_coefficients(one[0], one[1], one[2], prior=0.0)
        a, b, c, d = (np.repeat(part, points) for part in single[:4])
        return Coefficients(a, b, c, d, single.failed * points)
    few = there.sum(axis=0) < min(least, dates)
    if few.any():
        return _with_few(mean, variance, truth, few, prior)
    if dates < 2 and prior == 0:
        raise InputError("EMOS on one training date needs a prior above zero")
    masked = [np.where(there, part, np.nan) for part in (mean, variance, truth)]
    sample = _standardise(masked[0], masked[1], masked[2], prior)
    centre, _ = _pooled(sample)
    theta, good = _minimise(sample.e, sample.u, sample.v, centre, prior)
    tilt = np.where(sample.anomaly > 0, theta[:, 1] * sample.error / _positive(sample.anomaly), 0.0)
    return Coefficients(
        a=theta[:, 0] * sample.error - tilt * sample.centre,
        b=1.0 + tilt,
        c=(theta[:, 2] ** 2 + 1e-6) * sample.error**2,
        d=np.where(
            sample.variance > 0,
            theta[:, 3] ** 2 * sample.error**2 / _positive(sample.variance),
            0.0,
        ),
        failed=int((~good).sum()),
    )


def _with_few(
    mean: Array, variance: Array, truth: Array, few: NDArray[np.bool_], prior: float
) -> Coefficients:
    """Coefficients of their own for the points that are not ``few``, those of all for the rest."""
    pooled = fit_coefficients(mean, variance, truth, pool=True)
    if few.all():
        return pooled._replace(pooled=int(few.sum()))
    rest = [part[:, ~few] for part in (mean, variance, truth)]
    own = fit_coefficients(rest[0], rest[1], rest[2], prior=prior, least=1)
    for into, part in zip(pooled[:4], own[:4], strict=True):
        into[~few] = part
    return pooled._replace(failed=own.failed, pooled=int(few.sum()))


def fit_groups(
    mean: Array,
    variance: Array,
    truth: Array,
    groups: NDArray[np.intp],
) -> Coefficients:
    """As :func:`fit_coefficients` with ``pool``, for each group of points by itself.

    ``groups`` (points,) numbers them; points with a number below zero take the coefficients of
    all points.
    """
    found = fit_coefficients(mean, variance, truth, pool=True)
    failed = 0 if found.failed == 0 else int((groups < 0).sum())
    for group in np.unique(groups[groups >= 0]):
        inside = groups == group
        part = [field[:, inside] for field in (mean, variance, truth)]
        own = fit_coefficients(part[0], part[1], part[2], pool=True)
        failed += own.failed
        for into, values in zip(found[:4], own[:4], strict=True):
            into[inside] = values
    return found._replace(failed=failed, pooled=int((groups < 0).sum()))
