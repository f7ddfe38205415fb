"""The two methods on a small synthetic archive."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import properscoring
import pytest
import torch
import xarray as xr
from neural_cases import NARROW, SMALL, Z500, fit_data
from synthetic import make_datasets

from weatherpp import distribution
from weatherpp.data.fields import ensemble_mean, ensemble_spread, select
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.neural.build import pick_device
from weatherpp.methods.neural.correction import Correction
from weatherpp.methods.neural.losses import gaussian_upper_crps
from weatherpp.methods.neural.mixed import Mixed
from weatherpp.methods.neural.spread import SpreadNet


def test_two_fits_give_the_same_weights(fitted: Correction, data: FitData) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    again = type(fitted)(Z500, fitted.settings).fit(data)
    assert torch.equal(before, torch.random.get_rng_state())
    for one, two in zip(fitted.nets, again.nets, strict=True):
        assert_same_state(one, two)
    np.testing.assert_array_equal(again.curve, fitted.curve)


def assert_same_state(one: torch.nn.Module, two: torch.nn.Module) -> None:
    other = two.state_dict()
    assert one.state_dict().keys() == other.keys()
    for name, value in one.state_dict().items():
        assert torch.equal(value, other[name]), name


def test_seeds_differ(mixed: Mixed) -> None:
    first, second = (np.array([row for row in mixed.curve if row[0] == n]) for n in (0, 1))
    assert first[0, 3] == second[0, 3]
    assert (first[1:, 2:] != second[1:, 2:]).all()


def test_saved_and_loaded(fitted: Correction, data: FitData, tmp_path: Path) -> None:
    expected = fitted.predict(data.forecast)
    fitted.save(tmp_path / "model", {"note": "test"})
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, Correction)
    xr.testing.assert_identical(loaded.predict(data.forecast), expected)
    np.testing.assert_array_equal(loaded.curve, fitted.curve)
    files = {file.name for file in (tmp_path / "model").rglob("*") if file.is_file()}
    assert {"model.json", "networks.safetensors", "inputs.nc", "training.csv"} <= files
    assert {Path(name).suffix for name in files} <= {".json", ".safetensors", ".nc", ".csv", ".md"}
    (tmp_path / "model" / "networks.safetensors").write_bytes(b"\x80\x04 pickle")
    with pytest.raises(InputError, match=r"networks\.safetensors") as error:
        load_model(tmp_path / "model")
    assert "\n" not in str(error.value)


def test_result_is_a_canonical_distribution(fitted: Correction, data: FitData) -> None:
    result = fitted.predict(data.forecast)
    assert distribution.form_of(result) == "normal"
    assert result["mean"].dims == ("time", "latitude", "longitude")
    assert result["mean"].attrs["units"] == result["spread"].attrs["units"] == "m2 s-2"
    assert result.attrs["target"] == "z500"
    assert float(result["spread"].min()) > 0
    assert bool(np.isfinite(result["mean"]).all())


@pytest.mark.parametrize("base", ["emos", "ridge", "bias", "raw"])
def test_mixed_starts_from_its_base(base: str, data: FitData) -> None:
    # with so small a learning rate no epoch changes anything that float32 can show
    settings = {**SMALL, "base": base, "training": {"epochs": 1, "learning_rate": 1e-30}}
    method = Mixed(Z500, settings).fit(data)
    expected = method_class(base)(Z500).fit(data).predict(data.forecast)
    result = method.predict(data.forecast)
    for part in (distribution.mean, distribution.spread):
        np.testing.assert_allclose(part(result), part(expected), rtol=1e-6)


def test_untrained_score_is_that_of_the_base(mixed: Mixed, data: FitData) -> None:
    valid = data.forecast.sel(time=data.valid)
    base = mixed.base.predict(valid)
    assert data.truth is not None
    truth = data.truth.sel(time=data.valid)
    crps = properscoring.crps_gaussian(truth.values, base["mean"].values, base["spread"].values)
    weights = np.cos(np.deg2rad(valid["latitude"].values))
    expected = np.average(crps.mean((0, 2)), weights=weights)
    _, epoch, _, score = mixed.curve[0]
    assert epoch == 0
    assert score == pytest.approx(expected, rel=1e-4)


def test_spread_net_uses_no_truth(spread_net: SpreadNet, data: FitData) -> None:
    without = dataclasses.replace(data, truth=None)
    again = SpreadNet(Z500, spread_net.settings).fit(without)
    assert_same_state(spread_net.nets[0], again.nets[0])
    with pytest.raises(InputError, match="the archive has none"):
        Mixed(Z500, {**SMALL, "base": "raw"}).fit(without)


def test_order_of_members_does_not_matter(fitted: Correction, data: FitData) -> None:
    expected = fitted.predict(data.forecast)
    result = fitted.predict(data.forecast.isel(number=[4, 2, 0, 3, 1]))
    for name in ("mean", "spread"):
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-5)


def test_dates_are_predicted_one_by_one(fitted: Correction, data: FitData) -> None:
    whole = fitted.predict(data.forecast)
    one = fitted.predict(data.forecast.isel(time=[50]).chunk())
    np.testing.assert_allclose(one["mean"], whole["mean"][[50]], rtol=1e-6)
    np.testing.assert_allclose(one["spread"], whole["spread"][[50]], rtol=1e-4)


def test_lazy_and_loaded_archives_train_alike(data: FitData) -> None:
    few = dataclasses.replace(data, train=data.train[:16], valid=data.valid[:4])
    settings = {**NARROW, "network": "residual", "base": "raw", "training": {"epochs": 1}}
    loaded = SpreadNet(Z500, settings).fit(few)
    lazy = dataclasses.replace(few, forecast=data.forecast.chunk(time=20, level=1))
    again = SpreadNet(Z500, {**settings, "memory": 1e-9}).fit(lazy)
    np.testing.assert_allclose(again.curve, loaded.curve, rtol=1e-3)


def test_standardisation_sees_training_dates_only(mixed: Mixed, data: FitData) -> None:
    changed = data.forecast.copy(deep=True)
    changed["z"].loc[{"time": data.valid}] *= 2
    settings = {**SMALL, "base": "raw", "training": {"epochs": 1}}
    other = Mixed(Z500, settings).fit(dataclasses.replace(data, forecast=changed))
    xr.testing.assert_identical(mixed.inputs, other.inputs)


def test_base_of_the_network_is_cross_fitted(data: FitData) -> None:
    method = Mixed(Z500, {**SMALL, "base": "bias", "cross_fit": 4})
    times = data.train.union(data.valid)
    mean, _ = method._base(data, times)
    whole = distribution.mean(method.base.predict(data.forecast.sel(time=times))).values
    at_train = times.isin(data.train)
    np.testing.assert_allclose(mean[~at_train], whole[~at_train], rtol=1e-6)
    assert (mean[at_train].astype(np.float32) != whole[at_train]).mean() > 0.9


SET = {**SMALL, "base": "raw", "network": "set", "variables": ["z"]}


@pytest.mark.parametrize("head", ["normal", "quantiles", "members"])
def test_heads_over_the_set_of_members(head: str, data: FitData, tmp_path: Path) -> None:
    method = Mixed(Z500, {**SET, "head": head, "tails": 0.5}).fit(data)
    result = method.predict(data.forecast)
    assert distribution.form_of(result) == head
    assert result["mean" if head == "normal" else "value"].attrs["units"] == "m2 s-2"
    losses = [row[3] for row in method.curve]
    assert min(losses[1:]) < losses[0]
    # members in another order
    order = data.forecast.isel(number=[3, 0, 4, 1, 2])
    xr.testing.assert_allclose(method.predict(order), result, rtol=1e-5)
    # fewer and other members, by a model read back
    method.save(tmp_path / "model", {})
    loaded = load_model(tmp_path / "model")
    xr.testing.assert_identical(loaded.predict(data.forecast), result)
    other = data.forecast.isel(number=[0, 1, 2]).assign_coords(number=[0, 7, 8])
    fewer = loaded.predict(other)
    assert bool(np.isfinite(distribution.spread(fewer)).all())
    if head == "members":
        assert fewer["number"].values.tolist() == [0, 7, 8]
    # statistics are those of all members together
    names = method.inputs["predictor"].values.tolist()
    assert len(names) == len(set(names)) == 3 * 2
    assert all(name.startswith("member:z") for name in names)


def test_members_head_needs_members(data: FitData) -> None:
    with pytest.raises(ConfigError, match="needs network: set"):
        Mixed(Z500, {**SMALL, "head": "members"})
    with pytest.raises(ConfigError, match="must be odd"):
        Mixed(Z500, {**SMALL, "head": "quantiles", "quantiles": 4})
    one = dataclasses.replace(data, forecast=data.forecast.isel(number=[0]))
    with pytest.raises(InputError, match="at least two members"):
        Mixed(Z500, {**SET, "base": "bias", "head": "members"}).fit(one)


def test_weight_on_the_tails_moves_the_fit_towards_them(data: FitData) -> None:
    """More weight on what lies beyond the quantiles lowers that part of the training loss."""
    settings = {**SMALL, "base": "raw", "variables": ["z"], "tail": 0.6}
    train = {"epochs": 12, "batch": 8, "patience": 12}
    plain, heavy = (
        Mixed(Z500, {**settings, "tails": weight, "training": train}).fit(data)
        for weight in (0.0, 50.0)
    )
    truth = data.truth.sel(time=data.train)
    upper = truth.quantile(0.6, "time")

    def above(method: Mixed) -> float:
        result = method.predict(data.forecast.sel(time=data.train))
        score = gaussian_upper_crps(
            *(
                torch.from_numpy(np.broadcast_to(part, truth.shape).astype(np.float64))
                for part in (result["mean"], result["spread"], truth, upper)
            )
        )
        return float(score.mean())

    assert above(heavy) < above(plain)


@pytest.mark.parametrize(
    "network", ["unet2d", "local", "tiles", "inception", "temporal", "unet2d+local"]
)
def test_every_network_fits_and_comes_back(network: str, data: FitData, tmp_path: Path) -> None:
    name, _, behind = network.partition("+")
    settings = {**NARROW, "network": name, "local": bool(behind), "base": "raw"}
    few = dataclasses.replace(data, train=data.train[:16], valid=data.valid[:4])
    method = Mixed(Z500, {**settings, "training": {"epochs": 1, "batch": 8}}).fit(few)
    result = method.predict(data.forecast.isel(time=slice(3)))
    method.save(tmp_path / "model", {})
    again = load_model(tmp_path / "model").predict(data.forecast.isel(time=slice(3)))
    xr.testing.assert_identical(again, result)


def test_schedules_and_precision(data: FitData, without_valid: FitData) -> None:
    curves = {}
    for change in (
        {"schedule": "cosine"},
        {"schedule": "constant"},
        {"schedule": "plateau"},
        {"precision": "bf16-mixed"},
    ):
        training = {"epochs": 2, "batch": 8, **change}
        fitted = Mixed(Z500, {**NARROW, "base": "raw", "training": training}).fit(data)
        curves[str(change)] = fitted.curve[-1][3]
        assert np.isfinite(fitted.curve[-1][3])
    assert len(set(curves.values())) == 4
    with pytest.raises(ConfigError, match="plateau needs validation dates"):
        Mixed(Z500, {**NARROW, "base": "raw", "training": {"schedule": "plateau"}}).fit(
            without_valid
        )


def test_without_validation_dates_the_last_weights_are_kept(without_valid: FitData) -> None:
    fitted = Mixed(Z500, {**SMALL, "base": "raw"}).fit(without_valid)
    assert [epoch for _, epoch, *_ in fitted.curve] == [1, 2]
    assert any(bool(value.any()) for value in fitted.nets[0].core.head.parameters())


def test_another_grid_of_the_same_shape_is_refused(data: FitData) -> None:
    settings = {**NARROW, "base": "raw", "training": {"epochs": 1}}
    few = dataclasses.replace(data, train=data.train[:8], valid=data.valid[:4])
    method = Mixed(Z500, settings).fit(few)
    other = data.forecast.assign_coords(latitude=data.forecast["latitude"] - 5)
    with pytest.raises(InputError, match="another grid: 'latitude' differs"):
        method.predict(other)


def test_missing_fields_are_told_in_one_line(fitted: Correction, data: FitData) -> None:
    with pytest.raises(InputError, match="no variable t") as error:
        fitted.predict(data.forecast[["z"]])
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="fitted on a grid of 8 x 16, the forecast has 4 x 16"):
        fitted.predict(data.forecast.isel(latitude=slice(4)))
    target = Z500.model_copy(update={"level": 850})
    with pytest.raises(InputError, match="850 hPa is not in the data; there are 200") as error:
        type(fitted)(target, fitted.settings).fit(data)
    assert "\n" not in str(error.value)


def test_settings() -> None:
    with pytest.raises(ConfigError, match="did you mean 'width'"):
        Mixed(Z500, {"widht": 3})
    with pytest.raises(ConfigError, match="did you mean 'epochs'"):
        Mixed(Z500, {"training": {"epoch": 3}})
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no CUDA device"):
            pick_device("cuda")


def test_progress_is_told(data: FitData) -> None:
    seen: list[tuple[str, float, float]] = []
    progress = lambda *step: seen.append(step)  # noqa: E731
    Mixed(Z500, {**SMALL, "base": "raw"}).fit(dataclasses.replace(data, progress=progress))
    assert seen[-1] == ("mixed z500, network 1", 2, 2)


def test_tiles_are_for_limited_areas(data: FitData) -> None:
    with pytest.raises(ConfigError, match="limited areas"):
        Mixed(Z500, {**SMALL, "tile": 4}).fit(data)


def test_three_dates_on_a_projected_grid(data: FitData) -> None:
    """One variable, no levels, no validation, tiles."""

    def flat(ds: xr.Dataset) -> xr.Dataset:
        t = ds["t"].sel(level=650, drop=True).drop_vars(("latitude", "longitude"))
        t = t.rename(latitude="y", longitude="x").drop_attrs()
        latitude = np.linspace(50, 60, 8 * 16).reshape(8, 16)
        return xr.Dataset({"t2m": t.assign_coords(latitude=(("y", "x"), latitude))})

    target = Z500.model_copy(update={"variable": "t2m", "level": None})
    forecast = flat(data.forecast.isel(time=slice(3)))
    truth = flat(data.truth.rename("t").expand_dims(level=[650]).to_dataset())["t2m"]
    small = dataclasses.replace(
        data, forecast=forecast, truth=truth.isel(time=slice(3)), static=xr.Dataset(),
        target=target, train=data.train[:2], valid=data.valid[:0],
    )  # fmt: skip
    settings = {**SMALL, "base": "bias", "tile": 5, "tiles": 8}
    for network in ("residual", "unet3d"):
        result = Mixed(target, {**settings, "network": network}).fit(small).predict(forecast)
        assert result["mean"].dims == ("time", "y", "x")
        assert bool(np.isfinite(result["spread"]).all())


def test_missing_values_in_truth_do_not_spoil_the_fit(data: FitData) -> None:
    truth = data.truth.copy(deep=True)
    truth[3, :4] = np.nan
    fitted = Mixed(Z500, {**SMALL, "base": "raw"}).fit(dataclasses.replace(data, truth=truth))
    assert all(np.isfinite(loss) for row in fitted.curve[1:] for loss in row)


@pytest.mark.slow
def test_spread_net_beats_the_sample_spread() -> None:
    """The size of the errors differs from date to date and is common to the whole field, so a
    network that pools neighbouring points must do better than five members at one point."""
    forecast, analysis, static = make_datasets(years=8, dates=20, shape=(8, 16), steps=("48h",))
    data = fit_data(forecast, analysis, static, train=110)
    test = pd.DatetimeIndex(forecast["time"].values)[140:]
    data = dataclasses.replace(data, valid=data.valid[:30])
    settings = {"width": 4, "depth": 1, "training": {"epochs": 20, "batch": 8}}
    result = SpreadNet(Z500, settings).fit(data).predict(data.forecast.sel(time=test))
    full = ensemble_spread(data.full.sel(time=test))
    field = select(data.forecast, "z", 500, "48h").sel(time=test)
    regression = method_class("spread-regression")(Z500).fit(data)
    other = regression.predict(data.forecast.sel(time=test))["spread"]

    def rmse(spread: xr.DataArray) -> float:
        return float(((spread - full) ** 2).mean() ** 0.5)

    assert rmse(result["spread"]) < rmse(other) < rmse(ensemble_spread(field))
    np.testing.assert_allclose(result["mean"], ensemble_mean(field), rtol=1e-6)


def test_imports_are_light() -> None:
    """Torch comes with the methods, and Lightning with training only."""
    code = (
        "import sys, weatherpp.methods.neural; a = 'torch' in sys.modules;"
        "import weatherpp.methods.neural.mixed; sys.exit(a or 'lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
