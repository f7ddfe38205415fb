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
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from weatherpp.errors import InputError
from weatherpp.verify.aggregate import FEWEST_DATES
from weatherpp.verify.scores import check_aligned

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
    out = xr.Dataset(dict(zip(("difference", "statistic", "p_value"), found, strict=True)))
    text = f"Diebold-Mariano, {variance}, {count} lags, {n} dates"
    return out.assign_attrs(test=text, nan_policy=nan_policy)


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
