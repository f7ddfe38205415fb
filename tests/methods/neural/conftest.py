"""A small fit: synthetic archive, few epochs, narrow networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pandas as pd
import pytest
import torch
import xarray as xr
from synthetic import make_datasets

from weatherpp.data.fields import select
from weatherpp.methods.base import FitData
from weatherpp.recipe import Target

SMALL = {"width": 4, "depth": 1, "dropout": 0.0, "training": {"epochs": 2, "batch": 8}}
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
    truth = select(analysis, target.variable, target.level).sel(valid_time=times + target.lead)
    return FitData(
        forecast=forecast.sel(number=list(members)),
        truth=truth.rename(valid_time="time").assign_coords(time=times),
        full=select(forecast, target.variable, target.level, target.lead),
        static=static,
        target=target,
        train=times[:train],
        valid=times[train:],
        device="cpu",
    )


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost more than they bring on fields this small, above all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def datasets() -> tuple[xr.Dataset, xr.Dataset, xr.Dataset]:
    """Sixty dates on 8 x 16 points; do not change."""
    return make_datasets(shape=(8, 16))


@pytest.fixture
def data(datasets: tuple[xr.Dataset, xr.Dataset, xr.Dataset]) -> FitData:
    """Five of ten members, forty training dates."""
    return fit_data(*datasets)


@pytest.fixture
def without_valid(data: FitData) -> FitData:
    """The same without validation dates."""
    return dataclasses.replace(data, valid=data.valid[:0])
