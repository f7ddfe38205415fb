"""What is averaged: the weights of one training, and the networks of several."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from neural_cases import NARROW, Z500
from torch import Tensor, nn

from weatherpp.methods.base import FitData, load_model, silent
from weatherpp.methods.neural.build import Training
from weatherpp.methods.neural.mixed import Mixed
from weatherpp.methods.neural.samples import Batch, Samples
from weatherpp.methods.neural.training import train

DATES = 12


def samples() -> Samples:
    rng = np.random.default_rng(1)
    x = xr.DataArray(
        rng.normal(size=(DATES, 2, 3, 4)).astype("f4"), dims=("time", "predictor", "y", "x")
    )
    flat = np.zeros((2, 3, 4), "f4")
    goal = torch.from_numpy((x.values.sum(axis=1, keepdims=True) + 1).astype("f4"))
    extra = torch.zeros(DATES, 1, 3, 4)
    return Samples(x, flat, flat + 1, flat[:0], {"extra": extra, "goal": goal})


def loss(output: Tensor, batch: Batch) -> Tensor:
    return ((output - batch["goal"]) ** 2).mean()


def weights(epochs: int, average: float, batch: int = DATES) -> dict[str, Tensor]:
    """After so many epochs; with all dates in one batch an epoch is one step."""
    training = Training(
        epochs=epochs, batch=batch, average=average, schedule="constant", warm_up=0.0
    )

    def build() -> nn.Module:
        return nn.Conv2d(3, 1, 1)

    net, _ = train(build, loss, samples(), None, training, seed=3, device="cpu", progress=silent)
    return net.state_dict()


def test_what_is_kept_is_the_running_mean_of_the_weights() -> None:
    steps = [weights(epochs, 0.0) for epochs in (1, 2, 3, 4)]
    assert not torch.equal(steps[2]["weight"], steps[3]["weight"])
    found = weights(4, 0.8)
    for name, value in found.items():
        mean = steps[0][name]
        for step in steps[1:]:
            mean = 0.8 * mean + 0.2 * step[name]
        torch.testing.assert_close(value, mean)


SETTINGS = {**NARROW, "network": "residual", "base": "raw"}


def fit(data: FitData, seeds: int) -> Mixed:
    few = dataclasses.replace(data, train=data.train[:16], valid=data.valid[:0])
    return Mixed(Z500, {**SETTINGS, "seeds": seeds}).fit(few)


def test_networks_of_several_seeds_are_averaged(data: FitData, tmp_path: Path) -> None:
    """The mean of the networks' outputs: of the shifts, and of the logarithms of the factors."""
    three = fit(data, 3)
    three.save(tmp_path / "model", {})
    forecast = data.forecast.isel(time=slice(45, 50))
    together = load_model(tmp_path / "model").predict(forecast)
    alone = []
    for net in three.nets:
        one = load_model(tmp_path / "model")
        assert isinstance(one, Mixed)
        one.nets = [net]
        alone.append(one.predict(forecast))
    means, spreads = (np.stack([each[name] for each in alone]) for name in ("mean", "spread"))
    assert np.ptp(means, axis=0).max() > 1
    np.testing.assert_allclose(together["mean"], means.mean(axis=0), rtol=1e-6)
    mean_factor = np.exp(np.log(spreads).mean(axis=0))
    np.testing.assert_allclose(together["spread"], mean_factor, rtol=1e-5)
    # the first of three is the network that one seed gives
    first = fit(data, 1)
    assert len(first.nets) == 1
    for name, value in first.nets[0].state_dict().items():
        assert torch.equal(value, three.nets[0].state_dict()[name]), name
