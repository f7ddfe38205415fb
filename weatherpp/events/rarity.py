r"""How rare a value is: return periods from past values, and how a forecast stands out of them.

Two answers are given, and neither is made to look like more than it is. The *empirical* one is the
value's rank among the past ones: of n values, the r-th most extreme is reached with probability
r / (n + 1) (Weibull's plotting position). The *fitted* one is a generalised extreme value
distribution (GEV) of the most extreme values of blocks of time, by maximum likelihood; the
return period of a value is the length of a block over the probability that a block's extreme is
beyond the value. Beyond the years that were sampled it extrapolates.

References
----------
Coles, S. (2001), An Introduction to Statistical Modeling of Extreme Values, ch. 3.
Makkonen, L. (2006), J. Appl. Meteor. Climatol. 45, 334-340 (plotting positions).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from weatherpp.errors import InputError

Array = NDArray[np.float64]
FEWEST_BLOCKS = 10
"""Fewer extremes say nothing of three parameters."""
ENOUGH_YEARS = 10
"""From so many years on a block is a year, below 30 days."""
MONTH = pd.Timedelta(days=30)
YEAR = 365.25  # days


class Rarity(NamedTuple):
    """How rare a value is at a place.

    Attributes
    ----------
    value
        The value.
    rank, past
        It would be the ``rank``-th most extreme (1: beyond all) beside ``past`` past values.
    years
        Calendar years with past values.
    block_days, blocks
        Length and number of the blocks whose extremes were fitted; 0 blocks: too few, no fit.
    shape, location, scale
        Of the GEV as scipy has them (``shape`` is minus the usual xi), of values with the
        sign turned for lows; NaN without a fit.
    period_years
        Return period by the fit; infinite beyond its upper end, NaN without a fit. It is at least
        one block: more often than that, extremes of blocks cannot tell.
    """

    value: float
    rank: int
    past: int
    years: int
    block_days: float
    blocks: int
    shape: float
    location: float
    scale: float
    period_years: float

    @property
    def words(self) -> str:
        """The two answers in a few sentences, with what they rest on."""
        rank = (
            f"beyond all {self.past} analyses of the training dates"
            if self.rank == 1
            else f"number {self.rank} of {self.past + 1} with the analyses of the training dates"
        )
        text = f"At this place the value is {rank} ({_years(self.years)}). "
        if not self.blocks:
            return text + f"They give fewer than {FEWEST_BLOCKS} extremes, too few to fit."
        what = "years" if self.block_days > 300 else f"blocks of {self.block_days:.0f} days"
        text += f"A GEV fitted to the extremes of {self.blocks} {what} "
        if not np.isfinite(self.period_years):
            return text + "ends before it: by that fit it cannot happen, so the fit is too short."
        if self.period_years <= self.block_days / YEAR * 1.01:
            return text + "has such a value in every block."
        text += f"has it once in {_period(self.period_years)}"
        if self.period_years > self.years:
            return text + f", an extrapolation: only {_years(self.years)} of dates to fit."
        return text + f"; {_years(self.years)} of dates to fit."


def _years(count: int) -> str:
    return f"{count} year{'' if count == 1 else 's'}"


def _period(years: float) -> str:
    return f"{years:.3g} years" if years >= 2 else f"{12 * years:.2g} months"


def block_extremes(past: xr.DataArray, tail: Literal["low", "high"]) -> tuple[Array, float, int]:
    """Most extreme values of blocks of time, with the sign turned for lows.

    A block is a calendar year if there are :data:`ENOUGH_YEARS`, else 30 days counted from the
    first date of a calendar year; the last block of a year is left out if its dates span less than
    half of it.

    Parameters
    ----------
    past
        (time,), without NaN.

    Returns
    -------
    Extremes, length of a block in days, number of calendar years.
    """
    times = pd.DatetimeIndex(past["time"].values)
    series = pd.Series(past.values.astype(np.float64), index=times)
    series = (series if tail == "high" else -series).sort_index()
    by_year = series.groupby(pd.DatetimeIndex(series.index).year)
    years = int(by_year.ngroups)
    if years >= ENOUGH_YEARS:
        return np.asarray(by_year.max().values, np.float64), YEAR, years
    found: list[float] = []
    for _, part in by_year:
        since = pd.DatetimeIndex(part.index) - part.index[0]
        for _, block in part.groupby(since // MONTH):
            if block.index[-1] - block.index[0] >= MONTH / 2:
                found.append(float(block.max()))
    return np.array(found), MONTH / pd.Timedelta(days=1), years


def rarity(value: float, past: xr.DataArray, tail: Literal["low", "high"]) -> Rarity:
    """How rare a value is among past ones of the same place.

    Parameters
    ----------
    value
        Same units as ``past``.
    past
        (time,); values that are not finite are left out.
    tail
        ``low``: rare values are small ones.

    Raises
    ------
    InputError
        The value is NaN, or there are no past values.
    """
    past = past.where(np.isfinite(past)).dropna("time")
    if not past.size or not np.isfinite(value):
        raise InputError("how rare a value is can only be told from past values, and of a number")
    sign = 1.0 if tail == "high" else -1.0
    beyond = int(np.sum(sign * past.values.astype(np.float64) >= sign * value))
    extremes, days, years = block_extremes(past, tail)
    head = (float(value), beyond + 1, int(past.size), years, days)
    spread = np.ptp(extremes) if extremes.size else 0.0
    if extremes.size < FEWEST_BLOCKS or spread == 0:
        return Rarity(*head, 0, *(float("nan"),) * 4)
    # fitted in units of their own spread: the search is for numbers near one
    centre, width = float(np.median(extremes)), float(np.std(extremes))
    shape, location, scale = stats.genextreme.fit((extremes - centre) / width)
    location, scale = centre + width * location, width * scale
    exceeds = float(stats.genextreme.sf(sign * value, shape, location, scale))
    period = days / YEAR / exceeds if exceeds > 0 else float("inf")
    return Rarity(
        *head, int(extremes.size), float(shape), float(location), float(scale), float(period)
    )
