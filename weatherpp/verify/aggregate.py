"""From score fields to numbers with intervals.

Fields are reduced once to a weighted mean for each initial date. Everything after works on
that small table: means over dates, gains of one method over another, and their intervals by a
moving-block bootstrap over dates (Künsch 1989). Two methods are always compared on the same
resampled dates, so what they have in common cancels.

References
----------
Künsch, H. R. (1989), Ann. Statist. 17, 1217-1241.
Fortin, V. et al. (2014), J. Hydrometeor. 15, 1708-1713.
"""

from __future__ import annotations

import functools
import itertools
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.recipe import Bootstrap
from weatherpp.verify.weights import check_part, check_weights

Array = NDArray[np.float64]
NanPolicy = Literal["raise", "omit"]
FEWEST_DATES = 8
"""Resampling fewer dates would give an interval, but one that means nothing."""


class Interval(NamedTuple):
    """A value and the limits of its interval; limits are NaN for too few dates."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether both limits lie on the same side of zero."""
        return self.low > 0 or self.high < 0


def per_date(
    score: xr.DataArray, weights: xr.DataArray, nan_policy: NanPolicy = "raise"
) -> pd.Series[float]:
    """Weighted mean over space for each date.

    Parameters
    ----------
    score
        (time, grid...).
    weights
        Some of the grid's dimensions, not negative. A point of weight zero takes no part, and
        may be NaN.
    nan_policy
        What to do with NaN scores of points that take part: ``raise`` or ``omit`` (score and
        weight are left out of that date, and a date without any other is left out whole).

    Returns
    -------
    float64 by ``time``. Each date is the mean over what is there; dates count alike, however
    many points they have.

    Raises
    ------
    InputError
        NaN scores under ``raise``; weights that are NaN, negative or all zero; a weight's
        dimension that the score does not have; no date or no point left.
    """
    if "time" not in score.dims or score.sizes["time"] == 0:
        raise InputError("there is no initial date to average a score over")
    return filled(date_means(score, weights, nan_policy), nan_policy)


def filled(means: pd.Series[float], nan_policy: NanPolicy) -> pd.Series[float]:
    """Without the dates that have no mean.

    Raises
    ------
    InputError
        There is no other date; any such date under ``raise``.
    """
    empty = means.isna()
    if empty.all() or (nan_policy == "raise" and empty.any()):
        raise InputError(f"{means.name}: no valid point on {means.index[empty][0]}")
    return means[~empty]


def date_means(
    score: xr.DataArray, weights: xr.DataArray, nan_policy: NanPolicy = "raise"
) -> pd.Series[float]:
    """As :func:`per_date`, but NaN on dates without a valid point."""
    check_part(weights, score.isel(time=0), ("weights", "scores"))
    check_weights(weights)
    grid = score.isel(time=0, drop=True)
    w = weights.astype(np.float64).broadcast_like(grid).transpose(*grid.dims).values
    values = score.transpose("time", *grid.dims).data
    # one date in memory at a time, if lazy
    rows = [_weighted(np.asarray(date, np.float64), w, nan_policy) for date in values]
    nans = sum(row[1] for row in rows)
    if nans and nan_policy == "raise":
        raise InputError(
            f"{nans} of {int(np.sum(w > 0)) * len(rows)} values of {score.name or 'the score'} "
            "are NaN; select valid points or ask for nan_policy 'omit'"
        )
    series = pd.Series([row[0] for row in rows], index=pd.DatetimeIndex(score["time"].values))
    return series.rename_axis("time").rename(str(score.name or "score"))


def _weighted(values: Array, weights: Array, nan_policy: NanPolicy) -> tuple[float, int]:
    """Weighted mean of one date, and how many NaN took part."""
    used = weights > 0
    nans = int(np.sum(np.isnan(values) & used))
    if nans and nan_policy == "raise":
        return 0.0, nans
    used &= ~np.isnan(values)
    total = float(weights[used].sum())
    return (float((values[used] * weights[used]).sum() / total) if total > 0 else np.nan), nans


def runs_of(times: pd.DatetimeIndex) -> list[tuple[int, int]]:
    """Half-open index ranges of dates without a gap wider than 1.5 times the usual spacing."""
    spacing = np.diff(times.values).astype("timedelta64[ns]").astype(np.int64)
    if spacing.size == 0:
        return [(0, len(times))]
    cuts = np.flatnonzero(spacing > 1.5 * np.median(spacing)) + 1
    edges = [0, *cuts.tolist(), len(times)]
    return list(itertools.pairwise(edges))


def resample(times: pd.DatetimeIndex, bootstrap: Bootstrap, seed: int = 1) -> NDArray[np.intp]:
    """Indices of resampled dates, by moving blocks that close to a circle.

    A block is ``bootstrap.block`` successive dates. It never reaches over a gap wider than 1.5
    times the usual spacing (another season or year), but goes on at the begin of the same run of
    dates (the circular blocks of Politis and Romano 1992), without which the first and last dates
    of each season would hardly be drawn. A run shorter than a block is a block by itself. So all
    dates are equally likely. With few dates the block is cut to a third of them, at least one
    date. Blocks are drawn with replacement until there are as many dates as in the sample.

    Parameters
    ----------
    times
        Initial dates, sorted and unique.
    bootstrap
        Number of samples and block length.
    seed
        Decides the draw.

    Returns
    -------
    (samples, dates).

    Raises
    ------
    InputError
        Dates are not sorted and unique.
    """
    n = len(times)
    if n == 0 or not (times.is_monotonic_increasing and times.is_unique):
        raise InputError("a bootstrap needs sorted, unique initial dates")
    return _draws(times.as_unit("ns").asi8.tobytes(), bootstrap, seed)


@functools.lru_cache(maxsize=16)
def _draws(stamps: bytes, bootstrap: Bootstrap, seed: int) -> NDArray[np.intp]:
    """The indices, made once for all scores of the same dates (nanoseconds since 1970)."""
    times = pd.DatetimeIndex(np.frombuffer(stamps, "M8[ns]"))
    n = len(times)
    length = max(1, min(bootstrap.block, n // 3))
    blocks = []
    for first, stop in runs_of(times):
        size = stop - first
        # a short run stands `length` times, as often as blocks of a longer one hold each date
        at = np.arange(size)[:, None] if size >= length else np.zeros((length, 1), dtype=np.intp)
        block = first + (at + np.arange(length)) % size
        block[:, size:] = -1
        blocks.append(block)
    members = np.concatenate(blocks)
    shortest = int((members >= 0).sum(axis=1).min())
    drawn = np.random.default_rng(seed).integers(
        len(members), size=(bootstrap.samples, -(-n // shortest))
    )
    rows = members[drawn].reshape(bootstrap.samples, -1)
    kept = np.argsort(rows < 0, axis=1, kind="stable")[:, :n]
    out = np.take_along_axis(rows, kept, axis=1)
    out.setflags(write=False)  # all callers share it
    return out


def limits_of(replicates: Array, value: float, dates: int, level: float) -> Interval:
    """Percentile interval of resampled values; NaN for too few dates, or values not finite."""
    if dates < FEWEST_DATES or not np.all(np.isfinite(replicates)):
        return Interval(value, np.nan, np.nan)
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def interval(
    values: pd.Series[float], bootstrap: Bootstrap, seed: int = 1, *, root: bool = False
) -> Interval:
    """Mean over dates (``root``: its square root, as for an RMSE) with a percentile interval.

    The interval is that of the quantiles of the resampled means. It is somewhat too narrow for
    a sample of few blocks, and NaN below :data:`FEWEST_DATES` dates.
    """
    array = values.to_numpy(np.float64)
    draws = resample(pd.DatetimeIndex(values.index), bootstrap, seed)
    power = 0.5 if root else 1.0
    return limits_of(
        array[draws].mean(axis=1) ** power,
        float(array.mean() ** power),
        array.size,
        bootstrap.level,
    )


def ratio_interval(
    over: pd.Series[float],
    under: pd.Series[float],
    bootstrap: Bootstrap,
    seed: int = 1,
    *,
    root: bool = False,
) -> Interval:
    """Mean of ``over`` divided by mean of ``under`` (``root``: square root of that).

    Both are resampled on the same dates. NaN where the denominator is zero.

    Raises
    ------
    InputError
        The two have different dates.
    """
    if not over.index.equals(under.index):
        raise InputError("two scores to compare must have the same initial dates")
    a, b = over.to_numpy(np.float64), under.to_numpy(np.float64)
    draws = resample(pd.DatetimeIndex(over.index), bootstrap, seed)
    power = 0.5 if root else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        replicates = (a[draws].mean(axis=1) / b[draws].mean(axis=1)) ** power
        value = np.divide(a.mean(), b.mean()) ** power
    value = float(value) if np.isfinite(value) else np.nan
    return limits_of(replicates, value, a.size, bootstrap.level)


def gain_interval(
    better: pd.Series[float],
    than: pd.Series[float],
    bootstrap: Bootstrap,
    seed: int = 1,
    *,
    root: bool = False,
) -> Interval:
    """Relative gain ``1 - better / than`` of a score where less is better, paired by date."""
    ratio = ratio_interval(better, than, bootstrap, seed, root=root)
    return Interval(1 - ratio.value, 1 - ratio.high, 1 - ratio.low)


def spread_skill(
    expected: pd.Series[float],
    squared_error: pd.Series[float],
    bootstrap: Bootstrap,
    seed: int = 1,
) -> Interval:
    r"""Ratio of spread to error of the mean; one if calibrated (Fortin et al. 2014).

    .. math:: \sqrt{\frac{m+1}{m}\,\overline{s^2}} \Big/ \sqrt{\overline{e^2}}

    The spread is the root of the mean variance, not the mean of the standard deviations. The
    factor, for members alone, allows for the error of a mean over m of them.

    Parameters
    ----------
    expected, squared_error
        Per-date means; the first of :func:`weatherpp.verify.scores.expected_squared_error`.
    """
    return ratio_interval(expected, squared_error, bootstrap, seed, root=True)
