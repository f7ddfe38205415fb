"""What the tests of the neural methods share."""

from __future__ import annotations

import pandas as pd
import xarray as xr

from weatherpp.data.fields import select
from weatherpp.methods.base import FitData
from weatherpp.recipe import Target

SMALL = {"width": 4, "depth": 1, "dropout": 0.0, "training": {"epochs": 2, "batch": 8}}
NARROW = {**SMALL, "width": 2}
Z500 = Target(variable="z", level=500, step="48h")


def fit_data(
    forecast: xr.Dataset,
    analysis: xr.Dataset,
    static: xr.Dataset,
    members: tuple[int, ...] = (0, 1, 2, 3, 4),
    train: int = 40,
    target: Target = Z500,
) -> FitData:
    """All but the last dates for training, the others for validation."""
    times = pd.DatetimeIndex(forecast["time"].values)

    def truth_at(target: Target) -> xr.DataArray:
        truth = select(analysis, target.variable, target.level).sel(valid_time=times + target.lead)
        return truth.rename(valid_time="time").assign_coords(time=times)

    return FitData(
        forecast=forecast.sel(number=list(members)),
        truth=truth_at(target),
        truth_at=truth_at,
        full=select(forecast, target.variable, target.level, target.lead),
        static=static,
        target=target,
        train=times[:train],
        valid=times[train:],
        device="cpu",
    )
