"""Past forecasts with the analyses that verify them, for methods that follow recent errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.data.archive import Archive
from weatherpp.data.fields import ensemble_mean, select
from weatherpp.data.matching import matched_times, truth_for
from weatherpp.errors import InputError
from weatherpp.families.base import Array
from weatherpp.recipe import Target

BLOCK = 32  # dates read at once


@dataclass(frozen=True)
class Recent:
    """Pairs of a target field; lazy.

    Attributes
    ----------
    mean, truth
        Mean of the method's own members, and analysis at valid time; dims (time, grid...), both
        on the same initial times, ascending.
    lead
        From initial to valid time.
    """

    mean: xr.DataArray
    truth: xr.DataArray
    lead: pd.Timedelta

    @classmethod
    def of(cls, archive: Archive, forecast: xr.Dataset, target: Target) -> Self:
        """All that an archive has.

        Parameters
        ----------
        archive
            Where the analyses are.
        forecast
            Its forecast with the members that the method sees.
        target
            Field and lead time.

        Raises
        ------
        InputError
            There are no analyses, or they are on another grid.
        """
        if archive.analysis is None:
            raise InputError(
                f"{archive.path}: no analyses, so there are no recent errors to correct by; take "
                "method bias"
            )
        times = matched_times(archive.analysis, target, pd.DatetimeIndex(forecast["time"].values))
        truth = truth_for(archive.analysis, target, times, forecast)
        return cls.of_pairs(forecast.sel(time=times), truth, target)

    @classmethod
    def of_pairs(cls, forecast: xr.Dataset, truth: xr.DataArray, target: Target) -> Self:
        """Of a forecast and the analysis of the target at valid time, on the same dates."""
        members = select(forecast, target.variable, target.level, target.lead)
        return cls(ensemble_mean(members), truth, target.lead)

    def verified(self, times: pd.DatetimeIndex) -> NDArray[np.intp]:
        """How many pairs, the oldest ones, have a valid time no later than each of ``times``, and
        an earlier initial time: at a lead time of zero a forecast's own analysis does not count."""
        initial = pd.DatetimeIndex(self.mean["time"].values)
        at = times.to_numpy()
        known = np.searchsorted((initial + self.lead).to_numpy(), at, side="right")
        earlier = np.searchsorted(initial.to_numpy(), at, side="left")
        return np.asarray(np.minimum(known, earlier), dtype=np.intp)

    def errors(self, first: int, end: int, dims: tuple[str, ...]) -> Iterator[Array]:
        """Mean less analysis of the pairs from ``first`` to before ``end``, float64, with the grid
        dimensions in the order of ``dims``; read in blocks of dates."""
        for start in range(first, end, BLOCK):
            part = slice(start, min(start + BLOCK, end))
            mean, truth = (
                each.isel(time=part).transpose("time", *dims).values.astype(np.float64)
                for each in (self.mean, self.truth)
            )
            yield from mean - truth
