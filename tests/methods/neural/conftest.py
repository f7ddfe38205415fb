"""A small fit: synthetic archive, few epochs, narrow networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
import xarray as xr
from neural_cases import NARROW, SMALL, Z500, fit_data
from synthetic import make_datasets

from weatherpp.methods.base import FitData
from weatherpp.methods.neural.correction import Correction
from weatherpp.methods.neural.leads import MixedLeads
from weatherpp.methods.neural.mixed import Mixed
from weatherpp.methods.neural.spread import SpreadNet


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


@pytest.fixture(scope="session")
def data(datasets: tuple[xr.Dataset, xr.Dataset, xr.Dataset]) -> FitData:
    """Five of ten members, forty training dates; do not change."""
    return fit_data(*datasets)


@pytest.fixture
def without_valid(data: FitData) -> FitData:
    """The same without validation dates."""
    return dataclasses.replace(data, valid=data.valid[:0])


@pytest.fixture(scope="session")
def mixed(data: FitData) -> Mixed:
    """Fitted on :func:`data`; do not change."""
    return Mixed(Z500, {**SMALL, "seeds": 2}).fit(data)


@pytest.fixture(scope="session")
def spread_net(data: FitData) -> SpreadNet:
    """Fitted on :func:`data`; do not change."""
    return SpreadNet(Z500, NARROW).fit(data)


@pytest.fixture(scope="session")
def mixed_leads(data: FitData) -> MixedLeads:
    """Fitted on :func:`data`; do not change."""
    return MixedLeads(Z500, SMALL).fit(data)


@pytest.fixture(params=["mixed", "spread_net", "mixed_leads"])
def fitted(request: pytest.FixtureRequest) -> Correction:
    """Each method, fitted; do not change."""
    method: Correction = request.getfixturevalue(request.param)
    return method
