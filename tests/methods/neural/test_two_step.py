"""Bias network first, spread network on what it leaves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from neural_cases import NARROW, Z500

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData, load_model
from weatherpp.methods.neural.two_step import MeanNet, TwoStep

BIAS = {**NARROW, "depth": 0, "base": "bias", "local": False}
SETTINGS = {**NARROW, "bias": BIAS, "bias_members": 5, "spread_members": 3}


@pytest.fixture(scope="module")
def chain(data: FitData) -> TwoStep:
    return TwoStep(Z500, SETTINGS).fit(data)


def test_the_mean_is_that_of_the_first_network(chain: TwoStep, data: FitData) -> None:
    result = chain.predict(data.forecast)
    assert distribution.form_of(result) == "normal"
    assert result["mean"].attrs["units"] == "m2 s-2"
    first = chain.base.predict(data.forecast)
    assert isinstance(chain.base, MeanNet)
    np.testing.assert_allclose(result["mean"], first["mean"], rtol=1e-6)
    assert float(abs(result["spread"] - first["spread"]).max()) > 0


def test_the_second_network_lowers_the_crps_and_not_the_mean_error(chain: TwoStep) -> None:
    losses = [row[3] for row in chain.curve]
    assert min(losses[1:]) < losses[0]
    assert chain.notes()[0] == "B5U3C"


def test_each_network_sees_its_own_members(chain: TwoStep, data: FitData) -> None:
    changed = data.forecast.copy(deep=True)
    changed["z"].loc[{"number": 4}] += 500.0  # the fifth member: in B, not in U
    before, after = chain.predict(data.forecast), chain.predict(changed)
    assert float(abs(after["mean"] - before["mean"]).min()) > 1
    names = chain.inputs["predictor"].values.tolist()
    assert all(name.split(":")[0] in ("spread", "control") for name in names)
    without = TwoStep(Z500, {**SETTINGS, "bias_members": 2})
    assert without._for_base(data.forecast)["number"].values.tolist() == [0, 1]
    assert without._own(data.forecast)["number"].values.tolist() == [0, 1, 2]


def test_saved_and_loaded(chain: TwoStep, data: FitData, tmp_path: Path) -> None:
    chain.save(tmp_path / "model", {})
    loaded = load_model(tmp_path / "model")
    xr.testing.assert_identical(loaded.predict(data.forecast), chain.predict(data.forecast))


def test_interrupted_fit_comes_to_the_same(chain: TwoStep, data: FitData, tmp_path: Path) -> None:
    """Checkpoints of the first networks and of the second do not meet."""
    few = dataclasses.replace(data, keep=tmp_path / "keep")
    whole = TwoStep(Z500, SETTINGS).fit(few)
    np.testing.assert_array_equal(whole.curve, chain.curve)
    found = {path.relative_to(tmp_path / "keep").as_posix() for path in tmp_path.rglob("*.safe*")}
    assert found == {"network-1.safetensors", "base/network-1.safetensors"}
    again = TwoStep(Z500, SETTINGS).fit(few)
    xr.testing.assert_identical(again.predict(data.forecast), chain.predict(data.forecast))


def test_too_few_members_and_no_analysis(data: FitData) -> None:
    with pytest.raises(InputError, match="5"):
        TwoStep(Z500, {**SETTINGS, "bias_members": 9}).fit(data)
    without = dataclasses.replace(data, truth=None)
    with pytest.raises(InputError, match="analyses"):
        TwoStep(Z500, SETTINGS).fit(without)


def test_mean_net_beats_its_base_by_rmse(data: FitData) -> None:
    settings = {**BIAS, "base": "raw", "network": "residual", "training": {"epochs": 6}}
    method = MeanNet(Z500, settings).fit(data)
    assert data.truth is not None
    valid = data.forecast.sel(time=data.valid)
    truth = data.truth.sel(time=data.valid)
    own, base = method.predict(valid), method.base.predict(valid)
    weights = np.cos(np.deg2rad(truth["latitude"]))
    errors = [
        float(((distribution.mean(d) - truth) ** 2).weighted(weights).mean()) for d in (own, base)
    ]
    assert errors[0] < errors[1]
    best = min(row[3] for row in method.curve)
    assert best == pytest.approx(errors[0] ** 0.5, rel=1e-3)
