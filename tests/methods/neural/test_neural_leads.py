"""One network for all lead times."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import properscoring
import pytest
import torch
import xarray as xr
from neural_cases import NARROW, Z500, fit_data
from synthetic import make_datasets

from weatherpp import distribution
from weatherpp.data.fields import select
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.neural.leads import MixedLeads
from weatherpp.methods.neural.mixed import Mixed
from weatherpp.methods.neural.pool import Pool
from weatherpp.methods.neural.samples import Samples
from weatherpp.recipe import Target

Z500_24 = Z500.model_copy(update={"step": "24h"})
RAW = {**NARROW, "base": "raw"}


def at(data: FitData, target: Target) -> FitData:
    """The data as they are for the same field at another lead time."""
    assert data.truth_at is not None
    return dataclasses.replace(data, target=target, truth=data.truth_at(target))


def test_fit_is_the_same_for_whichever_lead_time(data: FitData, tmp_path: Path) -> None:
    """Called for each lead time, and taken for each from the fit for the other one."""
    fits = {t.step: MixedLeads(t, RAW).fit(at(data, t)) for t in (Z500_24, Z500)}
    for target in (Z500_24, Z500):
        one, two = (fit.at(target) for fit in fits.values())
        expected = fits[target.step].predict(data.forecast)
        for number, method in enumerate((one, two)):
            assert list(method.parts) == [int(target.step[:2])]
            xr.testing.assert_identical(method.predict(data.forecast), expected)
            folder = tmp_path / f"{target.step}-{number}"
            method.save(folder, {})
            loaded = load_model(folder)
            xr.testing.assert_identical(loaded.predict(data.forecast), expected)
            with pytest.raises(InputError, match="was not trained for z500 at 36 h but for"):
                loaded.at(Z500.model_copy(update={"step": "36h"}))
    assert fits["24h"].predict(data.forecast)["mean"].attrs["step"] == "24h"
    assert not (tmp_path / "48h-0" / "24h").exists()


def test_untrained_score_is_that_of_the_bases_each_in_its_spread(
    mixed_leads: MixedLeads, data: FitData
) -> None:
    valid = data.forecast.sel(time=data.valid)
    weights = np.cos(np.deg2rad(valid["latitude"].values))
    scores = []
    for target in (Z500_24, Z500):
        own = at(data, target)
        base = method_class("emos")(target).fit(own)
        result = base.predict(valid)
        truth = own.truth.sel(time=data.valid).values
        crps = properscoring.crps_gaussian(truth, result["mean"].values, result["spread"].values)
        # the spread that training sees: of bases that have not seen the dates
        part = mixed_leads.parts[float(target.step[:2])]
        scores.append(np.average(crps.mean((0, 2)), weights=weights) / part.scale)
        spread = distribution.spread(base.predict(data.forecast.sel(time=data.train)))
        assert part.scale == pytest.approx(float(spread.mean()), rel=0.1)
    _, epoch, _, score = mixed_leads.curve[0]
    assert epoch == 0
    assert score == pytest.approx(np.mean(scores), rel=1e-4)
    assert "mean spreads of the base" in " ".join(mixed_leads.notes())


def test_each_lead_time_has_its_own_statistics_and_is_told(
    mixed_leads: MixedLeads, data: FitData
) -> None:
    for hour, told in ((24.0, -1.0), (48.0, 1.0)):
        inputs = mixed_leads.parts[hour].inputs
        alone = Mixed(Z500, {**RAW, "leads": [hour], "training": {"epochs": 1}}).fit(data).inputs
        for name in ("mean", "std"):
            xr.testing.assert_equal(inputs[name], alone[name])
        assert inputs["field"].values.tolist() == [*alone["field"].values, "lead time"]
        assert (inputs["constant"][-1] == told).all()
        names = inputs["predictor"].values.tolist()
        assert {name.split("@")[1] for name in names} == {f"{hour:g}h"}


def test_predictors_of_earlier_lead_times(datasets: tuple[xr.Dataset, ...], data: FitData) -> None:
    settings = {**RAW, "hours": [48], "earlier": 1, "variables": ["z"], "training": {"epochs": 1}}
    method = MixedLeads(Z500, settings).fit(data)
    names = {str(name).split("@")[1] for name in method.parts[48.0].inputs["predictor"].values}
    assert names == {"24h", "48h"}
    # nothing to tell one lead time from
    assert not method.parts[48.0].inputs["constant"][-1].any()
    with pytest.raises(ConfigError, match="earlier: 1 asks for 1 lead times before 24 h"):
        MixedLeads(Z500, {**settings, "hours": []}).fit(data)


def test_network_learns_what_differs_between_lead_times() -> None:
    """Errors of the two lead times that are opposite, by heart, from eight dates of one field."""
    forecast, analysis, static = make_datasets(years=1, dates=8, shape=(8, 16))
    field = select(forecast, "z", 500).isel(number=slice(0, 5))
    noise = 20 * torch.randn(8, 1, 8, 16, generator=torch.Generator().manual_seed(1)).numpy()
    mean = field.mean("number").transpose("time", "step", ...).values
    sign = np.array([-1.0, 1.0])[None, :, None, None]
    truths = mean + sign * 300 + noise

    data = fit_data(forecast, analysis, static, train=8)

    def truth_at(target: Target) -> xr.DataArray:
        step = 0 if target.step == "24h" else 1
        assert data.truth is not None
        return data.truth.copy(data=truths[:, step])

    data = dataclasses.replace(data, truth=truth_at(Z500), truth_at=truth_at)
    training = {"epochs": 40, "batch": 4, "learning_rate": 3e-2, "weight_decay": 0.0}
    settings = {**RAW, "variables": ["z"], "static": False, "rows": False, "training": training}
    method = MixedLeads(Z500, settings).fit(data)
    for step, target in enumerate((Z500_24, Z500)):
        raw = mean[:, step]
        result = method.at(target).predict(data.forecast)["mean"].values
        before, after = (np.abs(each - truths[:, step]).mean() for each in (raw, result))
        assert after < 0.3 * before


def test_stopped_fit_goes_on_to_the_same_weights(data: FitData, tmp_path: Path) -> None:
    settings = {**RAW, "dropout": 0.3, "training": {"epochs": 3, "batch": 8}}
    whole = MixedLeads(Z500, settings).fit(data)

    class Stopped(Exception):
        pass

    def stop(what: str, done: float, total: float) -> None:
        if what.endswith("network 1") and done == 2:
            raise Stopped

    with pytest.raises(Stopped):
        MixedLeads(Z500, settings).fit(dataclasses.replace(data, keep=tmp_path, progress=stop))
    again = MixedLeads(Z500, settings).fit(dataclasses.replace(data, keep=tmp_path))
    np.testing.assert_array_equal(again.curve, whole.curve)
    for name, value in whole.nets[0].state_dict().items():
        assert torch.equal(value, again.nets[0].state_dict()[name]), name


@pytest.mark.parametrize("head", ["quantiles", "members"])
def test_heads_over_the_set_of_members(head: str, data: FitData, tmp_path: Path) -> None:
    settings = {**RAW, "network": "set", "head": head, "variables": ["z"], "tails": 0.5}
    method = MixedLeads(Z500, {**settings, "training": {"epochs": 1, "batch": 8}}).fit(data)
    for target in (Z500_24, Z500):
        result = method.at(target).predict(data.forecast)
        assert distribution.form_of(result) == head
        order = data.forecast.isel(number=[3, 0, 4, 1, 2])
        xr.testing.assert_allclose(method.at(target).predict(order), result, rtol=1e-5)
        fewer = data.forecast.isel(number=[0, 1, 2]).assign_coords(number=[0, 7, 8])
        fewer = method.at(target).predict(fewer)
        assert bool(np.isfinite(distribution.spread(fewer)).all())


def test_only_dates_that_all_lead_times_have_are_learnt_from(data: FitData) -> None:
    def truth_at(target: Target) -> xr.DataArray:
        assert data.truth is not None
        return data.truth.drop_sel(time=data.train[-4:])

    fewer = dataclasses.replace(data, truth_at=truth_at)
    settings = {**RAW, "training": {"epochs": 1}}
    method = MixedLeads(Z500, settings).fit(fewer)
    assert method.dates == len(data.train) - 4
    same = dataclasses.replace(data, train=data.train[:-4])
    again = MixedLeads(Z500, settings).fit(dataclasses.replace(same, truth_at=truth_at))
    np.testing.assert_array_equal(again.curve, method.curve)
    none = dataclasses.replace(data, truth_at=lambda _: data.truth[:0])
    with pytest.raises(InputError, match="no date can be trained on at every lead time of 24, 48"):
        MixedLeads(Z500, settings).fit(none)


def test_faults_are_told_in_one_line(data: FitData) -> None:
    with pytest.raises(ConfigError, match="its lead time of 48 h is none of the hours 24"):
        MixedLeads(Z500, {"hours": [24]})
    with pytest.raises(ConfigError, match="lead times must ascend"):
        MixedLeads(Z500, {"hours": [48, 24]})
    with pytest.raises(ConfigError, match="leads cannot be chosen here"):
        MixedLeads(Z500, {"leads": [24]})
    with pytest.raises(InputError, match=r"no lead time \(hours\) 36.0; there are 24, 48"):
        MixedLeads(Z500, {**RAW, "hours": [36, 48]}).fit(data)
    with pytest.raises(InputError, match="learns from analyses at all lead times"):
        MixedLeads(Z500, RAW).fit(dataclasses.replace(data, truth_at=None))
    with pytest.raises(InputError, match="serves no lead time but 48h"):
        method_class("raw")(Z500).at(Z500_24)
    forecast = data.forecast.assign(t=data.forecast["t"].assign_attrs(steps=[48]))
    with pytest.raises(InputError, match="other fields for 48 h than for 24 h"):
        MixedLeads(Z500, RAW).fit(dataclasses.replace(data, forecast=forecast))


def test_network_of_another_field_is_not_taken(mixed_leads: MixedLeads) -> None:
    with pytest.raises(InputError, match="for z500 cannot serve z200"):
        mixed_leads.at(Z500.model_copy(update={"level": 200}))


def test_pool_keeps_the_order_of_a_batch() -> None:
    rng = np.random.default_rng(1)

    def samples(dates: int) -> Samples:
        values = rng.standard_normal((dates, 2, 3, 4)).astype(np.float32)
        x = xr.DataArray(values, dims=("time", "predictor", "latitude", "longitude"))
        zeros, ones = np.zeros((2, 3, 4), np.float32), np.ones((2, 3, 4), np.float32)
        goal = torch.from_numpy(values[:, 0])
        return Samples(x, zeros, ones, zeros[:0], {"goal": goal})

    parts = [samples(3), samples(5)]
    pool = Pool(parts)
    assert len(pool) == 8
    order = [5, 0, 7, 3, 2]
    batch = pool.__getitems__(order)
    for place, index in enumerate(order):
        part, number = (parts[0], index) if index < 3 else (parts[1], index - 3)
        for name, value in part[number].items():
            assert torch.equal(batch[name][place], value)
            assert torch.equal(pool[index][name], value)
    pool.cut(2, 3)
    assert len(pool) == 24
    assert pool.__getitems__([0, 23])["x"].shape == (2, 2, 2, 2)
