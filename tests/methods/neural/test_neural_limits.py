"""Odd grids, data without spread, gaps and absurd settings: told in words, or done rightly."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from neural_cases import NARROW, SMALL, Z500, fit_data
from synthetic import make_datasets

from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.neural.losses import weighted_mean
from weatherpp.methods.neural.mixed import Mixed
from weatherpp.methods.neural.networks.bias import LocallyConnected
from weatherpp.methods.neural.spread import SpreadNet
from weatherpp.methods.neural.two_step import MeanNet, TwoStep


@pytest.mark.parametrize("shape", [(1, 8), (8, 1), (1, 1)])
def test_a_grid_of_one_row_or_column_has_a_roughness(shape: tuple[int, int]) -> None:
    layer = LocallyConnected(2, 1, shape, periodic=False)
    with torch.no_grad():
        layer.offset += torch.arange(layer.offset.numel()).reshape(layer.offset.shape)
    # the offset rises by one from each point to the next, the two weights do not
    wanted = 0.0 if shape == (1, 1) else 1 / 3
    assert float(layer.roughness().detach()) == pytest.approx(wanted)


def test_the_locally_connected_network_learns_on_one_row() -> None:
    data = fit_data(*make_datasets(dates=8, shape=(1, 8)), train=16)
    dist = MeanNet(Z500, SMALL).fit(data).predict(data.forecast)
    assert np.isfinite(dist["mean"].values).all()


def test_no_training_dates_are_told(data: FitData) -> None:
    none = dataclasses.replace(data, train=data.train[:0])
    with pytest.raises(InputError, match="there are no training dates"):
        TwoStep(Z500, {**SMALL, "bias": SMALL}).fit(none)


def test_an_ensemble_without_spread_is_told(data: FitData) -> None:
    alike = data.full * 0 + data.full.isel(number=0)
    with pytest.raises(InputError, match="z500 has no spread on any training date"):
        SpreadNet(Z500, NARROW).fit(dataclasses.replace(data, full=alike))


def test_more_parts_than_dates_are_cut(data: FitData) -> None:
    few = dataclasses.replace(data, train=data.train[:31], valid=data.valid[:1])
    dist = Mixed(Z500, {**SMALL, "base": "bias", "cross_fit": 100}).fit(few).predict(few.forecast)
    assert np.isfinite(dist["spread"].values).all()


def test_a_batch_of_gaps_has_no_loss() -> None:
    values = torch.tensor([1.0, float("nan")], requires_grad=True)
    loss = weighted_mean(values, torch.zeros(2))
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0
    assert values.grad is not None
    assert not values.grad.any()


def test_dates_of_gaps_are_not_trained_on(data: FitData) -> None:
    assert data.truth is not None
    truth = data.truth.copy(deep=True).assign_attrs(gaps="expected")
    truth[3] = np.nan
    settings = {**SMALL, "training": {"epochs": 1, "batch": 1}}
    dist = Mixed(Z500, settings).fit(dataclasses.replace(data, truth=truth)).predict(data.forecast)
    assert np.isfinite(dist["mean"].values).all()


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("mixed", {"width": 10**6}, "width: must be 4096 or less, found 1000000"),
        ("drn", {"depth": 10**6}, "depth: must be 64 or less, found 1000000"),
        ("spread-net", {"training": {"epochs": 10**6}}, "training.epochs: must be 100000 or less"),
        ("mean-net", {"training": {"learning_rate": 1e300}}, "learning_rate: must be 100 or less"),
        ("two-step", {"bias": {"width": 10**6}}, "bias.width: must be 4096 or less"),
        ("mixed", {"training": {"batch": 10**30}}, "training.batch: must be 100000 or less"),
        ("mixed", {"seeds": 1001}, "seeds: must be 1000 or less"),
        ("mixed", {"box": 10**12}, "box: must be 999 or less"),
        ("mixed", {"smoothing": 1e6}, "smoothing: must be 999 or less"),
    ],
)
def test_absurd_settings_are_refused(name: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        method_class(name)(Z500, settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"network": "inception", "width": 4096, "depth": 64}, "lower width or depth"),
        ({"network": "unet2d", "depth": 40}, "40 poolings are too many for a grid of 16 points"),
    ],
)
def test_a_network_that_no_memory_holds_is_refused(
    data: FitData, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Mixed(Z500, {**SMALL, "base": "raw", **settings}).fit(data)


@pytest.mark.parametrize("kind", ["float16", "int32"])
def test_narrow_and_whole_numbers_give_results_of_their_values(data: FitData, kind: str) -> None:
    """A mean of whole numbers is none; and netCDF knows no float16."""
    assert data.truth is not None
    forecast = (data.forecast[["z"]].fillna(0) / 4).astype(kind)  # float16 ends at 65504
    wide = xr.Dataset({"z": forecast["z"].astype("f8")}).assign_attrs(forecast.attrs)
    wide["z"].attrs = forecast["z"].attrs
    truth = data.truth / 4
    found, wanted = (
        method_class("bias")(Z500).fit(part).predict(part.forecast)["value"].astype("f8")
        for part in (
            dataclasses.replace(data, forecast=each, truth=truth) for each in (forecast, wide)
        )
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_weights_that_are_no_numbers_are_told(mixed: Mixed, tmp_path: Path) -> None:
    weights = {name: value.clone() for name, value in mixed.nets[0].state_dict().items()}
    next(iter(weights.values())).fill_(float("nan"))
    damaged = copy.deepcopy(mixed)
    damaged.nets[0].load_state_dict(weights)
    damaged.save(tmp_path, {})
    with pytest.raises(InputError, match=r"networks\.safetensors: 0\.\S+ is not finite"):
        load_model(tmp_path)
