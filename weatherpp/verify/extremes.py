"""Which dates were extreme, by their analyses alone.

Scores on such dates are told beside those of all dates, never instead of them: forecasts that
always warn do well where the outcome was extreme (the forecaster's dilemma, Lerch et al. 2017,
doi:10.1214/16-STS588).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.verify.weights import grid_weights


def extreme_dates(truth: xr.DataArray, climate: xr.DataArray, share: float) -> pd.DatetimeIndex:
    """Initial dates whose analyses are farthest from the climate.

    The distance of a date is the weighted mean over the grid of ((y - mean) / std)^2, with mean
    and standard deviation of the climate at each point; points where the latter is zero or
    either is NaN do not take part.

    Parameters
    ----------
    truth
        Analyses of the dates to choose from, (time, grid...).
    climate
        Analyses of other dates, (time, grid...), same points.
    share
        Of the dates; at least one is chosen.

    Returns
    -------
    The chosen dates, in their order.
    """
    mean, std = climate.mean("time").load(), climate.std("time").load()
    squares = ((truth - mean) / std.where(std > 0)) ** 2
    dims = [dim for dim in squares.dims if dim != "time"]
    distance = squares.astype(np.float64).weighted(grid_weights(truth)).mean(dims).load()
    whole = distance.dropna("time")
    count = max(1, math.floor(share * whole.sizes["time"] + 0.5)) if whole.size else 0
    farthest = whole["time"].values[np.argsort(-whole.values, kind="stable")[:count]]
    return pd.DatetimeIndex(np.sort(farthest))
