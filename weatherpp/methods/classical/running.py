r"""Bias correction that follows the errors of the most recent forecasts.

With :math:`b_0` the mean error over the training dates and :math:`e_1, e_2, \dots` the errors of
the ensemble mean of the forecasts that have verified by the initial time, the newest first, the
correction is

.. math:: b = b_0 + \sum_k w_k (e_k - b_0)

with :math:`w_k = 1/N` for the last :math:`N` of them (``average: window``), or
:math:`w_k = w (1 - w)^{k-1}` (``average: decay``), which is the recursion
:math:`b \leftarrow (1 - w)\, b + w\, e` of the decaying average that NAEFS uses, started from
:math:`b_0`. An error that is missing, because history begins later or the point has a gap, counts
as :math:`b_0`; so without any history the correction is that of the method ``bias``.

References
----------
Stensrud, D. J. and Skindlov, J. A. (1996), Wea. Forecasting 11, 103-110 (running mean).
Cui, B., Toth, Z., Zhu, Y. and Hou, D. (2012), Wea. Forecasting 27, 396-410,
doi:10.1175/WAF-D-11-00011.1 (decaying average).
"""

from __future__ import annotations

import math
from collections import deque
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
import xarray as xr
from pydantic import Field

from weatherpp.errors import InputError
from weatherpp.families.base import Array
from weatherpp.methods.classical.bias import LocalBias
from weatherpp.methods.classical.common import PointSettings, same_grid
from weatherpp.methods.recent import Recent

FORGOTTEN = 1e-7  # errors that all together have a smaller weight than this are not read


class RunningSettings(PointSettings):
    """Settings of :class:`RunningBias`."""

    average: Literal["window", "decay"] = "window"
    window: int = Field(default=30, ge=1, description="dates, with average: window")
    weight: float = Field(
        default=0.02, gt=0, lt=1, description="of the newest error, with average: decay"
    )


class RunningBias(LocalBias):
    """Takes the mean error of the forecasts that verified last at each grid point off every member.

    It starts from the mean error over the training dates.
    """

    name: ClassVar[str] = "running-bias"
    Settings = RunningSettings
    needs_recent: ClassVar[bool] = True

    def _error(self, members: xr.DataArray) -> xr.DataArray:
        """For each initial time, from what has verified by then; dims (time, grid...).

        Raises
        ------
        InputError
            There are no recent forecasts, or they are on another grid.
        """
        if self.recent is None:
            raise InputError(
                f"method {self.name} corrects by recent errors, but was given no recent forecasts; "
                "name an archive that has them"
            )
        bias = self.fitted()["bias"]
        same_grid(self.fitted(), self.recent.mean)
        times = pd.DatetimeIndex(members["time"].values)
        away = self._away(self.recent, times, bias)
        dims = ("time", *bias.dims)
        return bias + xr.DataArray(away, {"time": members["time"], **bias.coords}, dims)

    def _away(self, recent: Recent, times: pd.DatetimeIndex, bias: xr.DataArray) -> Array:
        """How far the running mean is from that of the training dates; (time, grid...)."""
        dims = tuple(map(str, bias.dims))
        mean: _Window | _Decay
        mean = _Window(self.settings.window)
        if self.settings.average == "decay":
            mean = _Decay(self.settings.weight)
        out = np.zeros((len(times), *bias.shape))
        counts = recent.verified(times)
        done = max(0, int(counts.min(initial=0)) - mean.reach)
        for place in np.argsort(counts, kind="stable"):
            for error in recent.errors(done, counts[place], dims):
                mean.add(np.nan_to_num(error - bias.values, posinf=0, neginf=0))
            done = max(done, counts[place])
            out[place] = mean.value()
        return out


class _Window:
    """Sum of the last values over how many are kept at most."""

    def __init__(self, reach: int):
        self.reach, self.kept = reach, deque[Array](maxlen=reach)

    def add(self, value: Array) -> None:
        self.kept.append(value)

    def value(self) -> Array | float:
        return sum(self.kept) / self.reach


class _Decay:
    """Each new value takes the place of a share of what was there."""

    def __init__(self, weight: float):
        self.weight, self.now = weight, np.zeros(())
        self.reach = math.ceil(math.log(FORGOTTEN) / math.log1p(-weight))

    def add(self, value: Array) -> None:
        self.now = self.now + self.weight * (value - self.now)

    def value(self) -> Array:
        return self.now
