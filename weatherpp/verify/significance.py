r"""Whether a difference of two scores could be chance: one series, or every point of a map.

Intervals by a moving-block bootstrap are in :mod:`weatherpp.verify.aggregate`.

References
----------
Diebold, F. X. and Mariano, R. S. (1995), J. Bus. Econ. Stat. 13, 253-263.
Harvey, D., Leybourne, S. and Newbold, P. (1997), Int. J. Forecast. 13, 281-291 (HLN).
Newey, W. K. and West, K. D. (1987), Econometrica 55, 703-708; (1994), Rev. Econ. Stud. 61,
631-653 (number of lags).
Benjamini, Y. and Hochberg, Y. (1995), J. R. Stat. Soc. B 57, 289-300.
Wilks, D. S. (2016), Bull. Amer. Meteor. Soc. 97, 2263-2273 (maps; twice the level).
Datta, D. D. and Du, W. (2012), Int. Finance Discussion Papers 1060, Federal Reserve Board
(variances of series with gaps).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from weatherpp.errors import InputError
from weatherpp.verify.aggregate import FEWEST_DATES, runs_of
from weatherpp.verify.alignment import check_aligned

Array = NDArray[np.float64]
Policy = Literal["raise", "propagate"]
Variance = Literal["newey-west", "hln"]


def automatic_lags(dates: int) -> int:
    """Newey and West's (1994) rule, 4 (n / 100)^(2/9), rounded down."""
    return int(4 * (dates / 100) ** (2 / 9))


def long_run_variance(values: Array, lags: int, variance: Variance) -> Array:
    """Variance of a mean of autocorrelated values, times their number.

    Parameters
    ----------
    values
        (n, ...).
    lags
        Greatest lag of the autocovariances; below n.
    variance
        ``newey-west``: weights that fall to zero (never negative); ``hln``: all lags alike, as
        for errors of forecasts ``lags`` + 1 steps ahead, and may be negative.

    Returns
    -------
    (...).
    """
    n = values.shape[0]
    deviation = values - values.mean(axis=0)
    total: Array = (deviation**2).mean(axis=0)
    for lag in range(1, lags + 1):
        weight = 1 - lag / (lags + 1) if variance == "newey-west" else 1.0
        total = total + 2 * weight * (deviation[lag:] * deviation[:-lag]).sum(axis=0) / n
    return total


def diebold_mariano(
    one: xr.DataArray,
    two: xr.DataArray,
    dim: str = "time",
    lags: int | None = None,
    variance: Variance = "newey-west",
    nan_policy: Policy = "raise",
) -> xr.Dataset:
    """Diebold-Mariano test of equal mean scores, allowing for autocorrelation.

    Parameters
    ----------
    one, two
        Scores where less is better, on the same points and dates; evenly spaced along ``dim``.
    dim
        The dimension of dates.
    lags
        Greatest lag of the autocovariance: for forecasts h dates ahead at least h - 1. By
        :func:`automatic_lags` if not given.
    variance
        ``newey-west``, or ``hln``: rectangular weights with the correction of Harvey et al.
        (1997) for few dates. Both are judged by Student's t with n - 1 degrees of freedom.
    nan_policy
        ``raise``, or ``propagate``: points with a NaN have no result.

    Returns
    -------
    ``difference`` (mean of one minus two), ``statistic`` and ``p_value`` (two-sided), with the
    other dimensions. Two series that are the same have a ``p_value`` of one. Lazy if the scores
    are.

    Raises
    ------
    InputError
        Not aligned, fewer than eight dates, lags that are not below half their number; NaN under
        ``raise``; a variance of ``hln`` that is not positive (when computed, if lazy).
    """
    check_aligned(one, two, ("the first score", "the second score"))
    if variance not in ("newey-west", "hln") or nan_policy not in ("raise", "propagate"):
        raise InputError("known variances: newey-west, hln; known NaN policies: raise, propagate")
    if dim not in one.dims:
        raise InputError(f"scores have no dimension '{dim}' of dates")
    n = one.sizes[dim]
    count = automatic_lags(n) if lags is None else lags
    if n < FEWEST_DATES or not 0 <= count < n / 2:
        raise InputError(
            f"Diebold-Mariano: {n} dates and {count} lags; at least {FEWEST_DATES} dates are "
            "needed, and lags below half their number"
        )

    def test(difference: Array) -> tuple[Array, Array, Array]:
        d = np.moveaxis(difference, -1, 0).astype(np.float64)
        if nan_policy == "raise" and np.isnan(d).any():
            raise InputError(
                f"Diebold-Mariano: {int(np.isnan(d).sum())} differences are NaN; select points "
                "without gaps, or ask for nan_policy 'propagate'"
            )
        centre, var = d.mean(axis=0), long_run_variance(d, count, variance)
        constant = (d == d[0]).all(axis=0)
        if np.any((var <= 0) & ~constant):
            raise InputError(
                f"Diebold-Mariano: the variance by '{variance}' is not positive; take fewer lags "
                "or the variance 'newey-west'"
            )
        factor = 1.0
        if variance == "hln":
            h = count + 1
            factor = (n + 1 - 2 * h + h * (h - 1) / n) / n
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = centre * np.sqrt(factor * n / np.where(constant, 0.0, var))
        statistic = np.where(constant & (d[0] == 0), 0.0, statistic)
        return centre, statistic, 2 * stats.t.sf(abs(statistic), n - 1)

    difference = one.astype(np.float64) - two.astype(np.float64).transpose(*one.dims)
    if difference.chunks is not None:
        difference = difference.chunk({dim: -1})
    found = xr.apply_ufunc(
        test,
        difference,
        input_core_dims=[[dim]],
        output_core_dims=[[], [], []],
        dask="parallelized",
        output_dtypes=[np.float64] * 3,
    )
    names = ("difference", "statistic", "p_value")
    units = (one.attrs.get("units", "1"), "1", "1")
    parts = [each.drop_attrs().assign_attrs(units=u) for each, u in zip(found, units, strict=True)]
    out = xr.Dataset(dict(zip(names, parts, strict=True)))
    text = f"Diebold-Mariano, {variance}, {count} lags, {n} dates"
    return out.assign_attrs(test=text, nan_policy=nan_policy)


def lags_for(times: pd.DatetimeIndex, lead: pd.Timedelta | None = None) -> int:
    """Lags for scores of forecasts ``lead`` ahead, started at ``times``.

    :func:`automatic_lags`, but where starts follow each other within the lead time, at least
    twice as many as follow: the errors of forecasts whose times overlap have parts in common
    (Diebold and Mariano 1995), and of the autocovariances at these lags at least half must be
    counted by weights that fall to zero. Always below half the number of dates.
    """
    n = len(times)
    if n < 2:
        return 0
    spacing = pd.Timedelta(np.median(np.diff(times.as_unit("ns").asi8)), "ns")
    overlap = 0 if lead is None else 2 * (math.ceil(lead / spacing) - 1)
    return max(0, min(max(automatic_lags(n), overlap), (n - 1) // 2))


class MeanTest:
    """Whether a mean over dates differs from zero; fed date by date.

    The Diebold-Mariano test with Newey and West's weights, as :func:`diebold_mariano`, in the
    memory of 2 ``lags`` + 7 fields however many dates there are. Dates need not be evenly
    spaced: values on both sides of a gap are not taken as neighbours, and a point has the dates
    that it has; either is as if zero deviations stood in the gap (Datta and Du 2012), and keeps
    the variance from being negative.

    Parameters
    ----------
    lags
        Greatest lag of the autocovariance.
    """

    def __init__(self, lags: int):
        self.lags = lags
        self._recent: deque[tuple[Array, NDArray[np.bool_]]] = deque(maxlen=max(lags, 1))
        self._sums: Array = np.zeros((6, 0))
        self._shift: Array = np.zeros(0)

    def add(self, difference: ArrayLike, *, gap: bool = False) -> None:
        """Take in the next date, in order; ``gap``: it does not follow the one before.

        Parameters
        ----------
        difference
            Any shape, the same on all dates; NaN where there is none.
        """
        d = np.asarray(difference, np.float64)
        if self._sums.shape[1:] != d.shape:
            self._sums, self._shift = np.zeros((6, *d.shape)), np.full(d.shape, np.nan)
        if gap:
            self._recent.clear()
        there = ~np.isnan(d)
        # from a value of its own order, so that the squares do not cancel
        self._shift = np.where(np.isnan(self._shift), d, self._shift)
        x = np.where(there, d - self._shift, 0.0)
        sums = self._sums
        sums[0] += there
        sums[1] += x
        sums[2] += x * x
        for lag, (before, was) in enumerate(reversed(self._recent), 1):
            weight = 2 * (1 - lag / (self.lags + 1))
            both = there & was
            sums[3] += weight * x * before
            sums[4] += weight * np.where(both, x + before, 0.0)
            sums[5] += weight * both
        if self.lags:
            self._recent.append((x, there))

    def result(self) -> tuple[Array, Array]:
        """Mean, and two-sided p value by Student's t; NaN where there are too few dates.

        A constant that is not zero has a p value of zero, one that is, of one.
        """
        count, total, square, products, ends, pairs = self._sums
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / count
            sums = square + products - mean * ends + mean**2 * (pairs - count)
            # nothing but the shift itself was seen where all squares are zero
            constant = square == 0
            variance = np.where(constant, 0.0, np.where(sums > 0, sums, np.nan)) / count
            centre = mean + self._shift
            statistic = np.where(constant & (centre == 0), 0.0, centre * np.sqrt(count / variance))
            p_value = 2 * stats.t.sf(np.abs(statistic), np.maximum(count - 1, 1))
        return centre, np.where(count < FEWEST_DATES, np.nan, p_value)


def equal_means(
    one: pd.Series[float], two: pd.Series[float], lead: pd.Timedelta | None = None
) -> float:
    """p value of the Diebold-Mariano test for two scores by date, which may have gaps.

    Parameters
    ----------
    one, two
        On the same dates, sorted.
    lead
        Of the forecasts, see :func:`lags_for`.

    Returns
    -------
    NaN for fewer than :data:`weatherpp.verify.aggregate.FEWEST_DATES` dates.

    Raises
    ------
    InputError
        The two have different dates.
    """
    if not one.index.equals(two.index):
        raise InputError("two scores to compare must have the same initial dates")
    times = pd.DatetimeIndex(one.index)
    test = MeanTest(lags_for(times, lead))
    first = {start for start, _ in runs_of(times)}
    for at, value in enumerate((one - two).to_numpy(np.float64)):
        test.add(value, gap=at in first)
    return float(test.result()[1]) if len(times) else np.nan


def discoveries(p_value: xr.DataArray, alpha: float = 0.05) -> xr.DataArray:
    """Points of a map that are significant when all of them are looked at (Wilks 2016).

    By the procedure of Benjamini and Hochberg (1995) at the level 2 ``alpha``: for fields that
    are correlated in space as weather is, this holds about the global level ``alpha``. Twice
    the level is right for such fields alone, not for independent tests.

    Parameters
    ----------
    p_value
        Of each point; NaN for points without a test, which do not count as tests.
    alpha
        Global level, above 0 and below 0.5.

    Returns
    -------
    Booleans; the attribute ``threshold`` is the greatest p-value that is significant (0 if none
    is), ``tests`` the number of points with one.

    Raises
    ------
    InputError
        Values beyond 0 and 1, no value at all, ``alpha`` out of its range.
    """
    if not 0 < alpha < 0.5:
        raise InputError(f"the level {alpha:g} must lie between 0 and 0.5")
    values = np.asarray(p_value.values, np.float64)
    there = ~np.isnan(values)
    tests = values[there]
    if not tests.size or tests.min() < 0 or tests.max() > 1:
        raise InputError("p-values lie between 0 and 1, and one at least is needed")
    adjusted = np.full(values.shape, np.inf)
    adjusted[there] = stats.false_discovery_control(tests, method="bh")
    found = adjusted <= 2 * alpha
    greatest = float(values[found].max()) if found.any() else 0.0
    attrs = {"alpha": alpha, "alpha_fdr": 2 * alpha, "threshold": greatest, "tests": tests.size}
    return p_value.copy(data=found).rename("discovery").drop_attrs().assign_attrs(attrs)
