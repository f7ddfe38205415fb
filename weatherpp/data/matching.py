"""Forecasts and the analyses that verify them, joined by valid time and by place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import grid_dims
from weatherpp.data.amounts import SINCE_START, window_text
from weatherpp.data.fields import select
from weatherpp.errors import InputError
from weatherpp.recipe import Target

TOLERANCE = 1e-3  # degrees or metres: far above float32 noise, far below most grid spacings


@dataclass(frozen=True)
class Partners:
    """Initial times of forecasts with an analysis at their valid time, and those without.

    Parameters
    ----------
    target
        Field and lead time.
    found, missing
        Initial times with and without a partner, in the order they came in.
    analyses
        Valid times of all analyses, ascending.
    """

    target: Target
    found: pd.DatetimeIndex
    missing: pd.DatetimeIndex
    analyses: pd.DatetimeIndex

    def __str__(self) -> str:
        """How many there are, from when to when, and the first that lacks a partner."""
        total = len(self.found) + len(self.missing)
        name, step = self.target.name, self.target.step
        out = f"{name} at {step}: {len(self.found)} of {total} forecasts have an analysis"
        if len(self.found):
            out += f" (from {self.found.min():%Y-%m-%d} to {self.found.max():%Y-%m-%d})"
        if len(self.missing):
            out += f"; {self.lacking}"
        return out

    @property
    def lacking(self) -> str:
        """What is missing, as a message; needs one that is."""
        first = self.missing.min()
        total = len(self.found) + len(self.missing)
        there = "there is none at all"
        if len(self.analyses):
            ends = self.analyses[0], self.analyses[-1]
            there = f"the analyses run from {ends[0]:%Y-%m-%d} to {ends[1]:%Y-%m-%d}"
        return (
            f"no analysis of {self.target.name} for {first + self.target.lead:%Y-%m-%d %H:%M} UTC, "
            f"{self.target.step} after the forecast of {first:%Y-%m-%d %H:%M} "
            f"({len(self.missing)} of {total} dates lack one); {there}"
        )


def partners(analysis: xr.Dataset, target: Target, times: pd.DatetimeIndex) -> Partners:
    """Which forecasts an analysis can verify.

    Parameters
    ----------
    analysis
        Canonical analysis.
    target
        Field and lead time.
    times
        Initial times of the forecasts.
    """
    analyses = pd.DatetimeIndex(analysis["valid_time"].values)
    there = (times + target.lead).isin(analyses)
    return Partners(target, times[there], times[~there], analyses)


def matched_times(
    analysis: xr.Dataset, target: Target, times: pd.DatetimeIndex
) -> pd.DatetimeIndex:
    """Those of the initial ``times`` whose valid time is in the analysis."""
    return partners(analysis, target, times).found


def truth_for(
    analysis: xr.Dataset,
    target: Target,
    times: pd.DatetimeIndex,
    like: xr.Dataset | xr.DataArray | None = None,
) -> xr.DataArray:
    """Analysis of the target field at the valid time of each initial time; lazy.

    Parameters
    ----------
    analysis
        Canonical analysis, dims (valid_time, level, grid...).
    target
        Field and lead time.
    times
        Initial times.
    like
        If given, data whose grid the result must have; coordinates within tolerance are
        replaced by its own, so that later arithmetic drops no rows. Where it says what time its
        values are summed over, or the extreme of, the analysis must not say another.

    Returns
    -------
    DataArray with dims (time, grid...), its ``time`` exactly ``times``, ``valid_time`` a
    coordinate along it.

    Raises
    ------
    InputError
        A valid time is not in the analysis (the first is named), the grids differ, or the
        values are of different windows of time.
    """
    da = select(analysis, target.variable, target.level)
    matched = partners(analysis, target, times)
    if len(matched.missing):
        raise InputError(matched.lacking)
    if like is not None:
        _same_window(da, like, target)
    valid = times + target.lead
    at = matched.analyses.get_indexer(valid)
    out = da.isel(valid_time=at).rename(valid_time="time")
    # pandas may hold the times in another unit than the archive; the archive's is the rule
    index = times.as_unit("ns")
    out = out.assign_coords(time=("time", index), valid_time=("time", valid.as_unit("ns")))
    out = out.transpose("time", *grid_dims(out))
    return out if like is None else snap(out, like, f"analysis of {target.name}")


def _same_window(truth: xr.DataArray, like: xr.Dataset | xr.DataArray, target: Target) -> None:
    """Refuse sums or extremes over another time than the forecast's, where both say theirs."""
    if isinstance(like, xr.Dataset):
        if target.variable not in like.data_vars:
            return
        like = like[target.variable]
    stated, since = like.attrs.get("window"), ""
    if stated is None and like.attrs.get("accumulation") == SINCE_START:
        stated, since = window_text(target.lead), " (since its start)"
    theirs = truth.attrs.get("window")
    if stated is None or theirs is None or pd.Timedelta(stated) == pd.Timedelta(theirs):
        return
    raise InputError(
        f"{target.name} at {target.step}: the forecast is over {stated}{since}, the analysis over "
        f"{theirs}; take a lead time or an analysis that agree (in the catalog entry, "
        f"variables.{target.variable}.period and accumulation say what the files hold)"
    )


def _tolerance(values: NDArray[Any]) -> float:
    """:data:`TOLERANCE`, but never more than a tenth of the distance between grid points."""
    wide = [axis for axis, size in enumerate(values.shape) if size > 1]
    gaps = [float(np.nanmedian(np.abs(np.diff(values.astype(float), axis=a)))) for a in wide]
    return min(TOLERANCE, 0.1 * max(gaps)) if gaps else TOLERANCE


def snap(da: xr.DataArray, like: xr.Dataset | xr.DataArray, where: str) -> xr.DataArray:
    """``da`` with the grid coordinates of ``like`` if they agree within tolerance.

    Raises
    ------
    InputError
        The grids differ.
    """
    dims = grid_dims(like)
    if grid_dims(da) != dims:
        raise InputError(f"{where}: its grid is {grid_dims(da)}, the forecast's {dims}")
    names = [*dims, *(n for n in ("latitude", "longitude") if n not in dims)]
    for name in names:
        if name not in da.coords or name not in like.coords:
            continue
        one, two = da[name].values, like[name].values
        if one.shape != two.shape:
            raise InputError(
                f"{where}: {name} has {' x '.join(map(str, one.shape))} points, the forecast's "
                f"{' x '.join(map(str, two.shape))}; regrid one of them to the other's grid"
            )
        same = (
            np.array_equal(one, two)
            if one.dtype.kind not in "fiu"
            else np.allclose(
                one.astype(float), two.astype(float), rtol=0, atol=_tolerance(two), equal_nan=True
            )
        )
        if not same:
            raise InputError(f"{where}: {name} differs from the forecast's; regrid one of them")
    return da.assign_coords({n: like[n] for n in names if n in like.coords and n in da.coords})
