"""The distributional regression network at stations whose errors are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from neural_cases import Z500

from weatherpp.conventions import GAPS
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.neural.drn import Drn
from weatherpp.methods.neural.mixed import Mixed
from weatherpp.methods.neural.networks.dense import DenseNet, DenseSetNet
from weatherpp.recipe import Target
from weatherpp.verify import scores

TARGET = Target(variable="t2m", step="24h")
DATES, STATIONS, MEMBERS = 300, 8, 4
TRAIN, VALID = slice(0, 200), slice(200, 240)
QUICK = {"seeds": 1, "training": {"epochs": 15, "learning_rate": 0.02}}


def make(stations: int = STATIONS) -> FitData:
    """Errors that depend on the station (by no predictor), the season, and the wind."""
    rng = np.random.default_rng(3)
    times = pd.date_range("2020-01-01", periods=DATES, freq="3D")
    shape = (DATES, stations)
    signal, wind = rng.normal(280, 5, shape), rng.gamma(2, 2, shape)
    own = rng.permutation(np.linspace(-4, 4, stations))
    season = 2 * np.sin(2 * np.pi * times.day_of_year.to_numpy() / 365.25)[:, None]
    truth = signal + (0.3 + 0.2 * wind) * rng.normal(size=shape)
    truth[rng.random(shape) < 0.1] = np.nan
    centre = {"t2m": signal + own + season + 2, "ws10": wind}
    coords = {
        "time": times,
        "number": np.arange(MEMBERS),
        "station": np.array([f"s{n}" for n in range(stations)], dtype=object),
        "latitude": ("station", np.linspace(40, 50, stations)),
        "longitude": ("station", np.linspace(355, 365, stations) % 360),
        "altitude": ("station", [np.nan, *np.linspace(0, 900, stations - 1)]),
    }
    fields = {}
    for name, unit in (("t2m", "K"), ("ws10", "m s-1")):
        values = centre[name][:, None] + 0.3 * rng.normal(size=(DATES, MEMBERS, stations))
        dims = ("time", "number", "station")
        attrs = {"units": unit, "gaps": GAPS}
        da = xr.DataArray(values.astype("f4"), dims=dims, attrs=attrs, name=name)
        fields[name] = da.expand_dims(step=[np.timedelta64(24, "h")], axis=1)
    forecast = xr.Dataset(fields, coords)
    full = forecast["t2m"].isel(step=0, drop=True)
    analysis = full.isel(number=0, drop=True).copy(data=truth.astype("f4"))
    parts = {"train": times[TRAIN], "valid": times[VALID], "device": "cpu"}
    return FitData(forecast, analysis, full, xr.Dataset(), TARGET, **parts)


@pytest.fixture(scope="module")
def stations() -> FitData:
    return make()


@pytest.fixture(scope="module")
def drn(stations: FitData) -> Drn:
    return Drn(TARGET, QUICK).fit(stations)


def test_learns_station_season_and_spread(stations: FitData, drn: Drn) -> None:
    later = slice(VALID.stop, None)
    forecast, truth = stations.forecast.isel(time=later), stations.truth[later]
    dist = drn.predict(forecast)
    found = float(scores.crps(dist, truth).mean())
    emos = method_class("emos")(TARGET).fit(stations).predict(forecast)
    assert found < 0.85 * float(scores.crps(emos, truth).mean())
    known = 0.3 + 0.2 * forecast["ws10"].isel(step=0).mean("number").values
    assert np.corrcoef(dist["spread"].values.ravel(), known.ravel())[0, 1] > 0.9


def test_start_is_the_bias_correction(stations: FitData) -> None:
    """Without an epoch better than the start, the start is what comes out."""
    settings = {"seeds": 1, "training": {"epochs": 1, "learning_rate": 1e-12}}
    method = Drn(TARGET, settings).fit(stations)
    dist = method.predict(stations.forecast)
    mean = stations.full.astype(float).mean("number")
    train = stations.truth[TRAIN] - mean[TRAIN]
    np.testing.assert_allclose(dist["mean"], mean + float(train.mean()), rtol=1e-6)
    np.testing.assert_allclose(dist["spread"], float(train.std()), rtol=1e-5)


def test_embedding_tells_stations_apart(stations: FitData, drn: Drn) -> None:
    without = Drn(TARGET, {**QUICK, "embedding": 0}).fit(stations)
    later = slice(VALID.stop, None)
    forecast, truth = stations.forecast.isel(time=later), stations.truth[later]
    found = [float(scores.crps(m.predict(forecast), truth).mean()) for m in (drn, without)]
    assert found[0] < 0.8 * found[1]


def test_same_seed_same_result_and_round_trip(stations: FitData, drn: Drn, tmp_path: Path) -> None:
    some = stations.forecast.isel(time=slice(20))
    before = drn.predict(some)
    again = Drn(TARGET, QUICK).fit(stations)
    xr.testing.assert_identical(again.predict(some), before)
    drn.save(tmp_path / "model", {})
    loaded = load_model(tmp_path / "model")
    xr.testing.assert_identical(loaded.predict(some), before)
    loaded.save(tmp_path / "again", {})
    cards = [(tmp_path / f / "model.json").read_text() for f in ("model", "again")]
    assert cards[0] == cards[1]
    assert {f.suffix for f in (tmp_path / "model").iterdir()} == {
        ".json", ".nc", ".csv", ".safetensors", ".md",
    }  # fmt: skip
    xr.testing.assert_allclose(drn.predict(some.chunk(time=6, number=2)), before)


def test_gaps_and_single_station() -> None:
    data = make(stations=2)
    one = data.forecast.isel(station=[0])
    lone = replace(data, forecast=one, truth=data.truth[:, :1], full=data.full[:, :, :1])
    settings = {"seeds": 2, "training": {"epochs": 2}}
    method = Drn(TARGET, settings).fit(lone)
    assert all(net.embedding.numel() == 0 for net in method.nets)
    holes = one.copy(deep=True)
    holes["t2m"][3, 0, 1] = np.nan
    holes["ws10"][5, 0, 1] = np.nan  # another predictor: its mean is taken
    dist = method.predict(holes)
    for name in ("mean", "spread"):
        assert dist[name].isnull().values.ravel().nonzero()[0].tolist() == [3]
    assert dist["mean"].attrs["gaps"] == GAPS


def test_station_without_truth_is_like_the_average_one(stations: FitData) -> None:
    truth = stations.truth.copy()
    truth[:, 2] = np.nan
    method = Drn(TARGET, {"seeds": 1, "training": {"epochs": 3}}).fit(
        replace(stations, truth=truth)
    )
    assert (method.nets[0].embedding[0, 2] == 0).all()
    assert (method.nets[0].embedding[0, 3] != 0).all()
    assert np.isfinite(method.predict(stations.forecast)["mean"][:, 2]).all()


def test_network_starts_at_zero_and_is_the_same_at_every_point() -> None:
    net = DenseNet(3, 2, 8, 2, points=5, embedding=2, dropout=0.0)
    x = torch.randn(4, 3, 1, 5)
    assert net(x).shape == (4, 2, 1, 5)
    assert (net(x) == 0).all()
    torch.nn.init.normal_(net.head.weight)
    torch.testing.assert_close(net(x.flip(-1)).flip(-1), net(x))
    assert not torch.equal(net(x)[..., 0], net(x)[..., 1])


def test_grids_and_stations_are_sent_to_the_right_method(
    data: FitData, stations: FitData, drn: Drn
) -> None:
    with pytest.raises(InputError, match=r"drn is for stations.* mixed for a grid"):
        Drn(Z500).fit(data)
    with pytest.raises(InputError, match="method drn is for stations"):
        Mixed(TARGET).fit(stations)
    with pytest.raises(InputError, match="another grid: 'station' differs"):
        drn.predict(stations.forecast.isel(station=slice(None, None, -1)))
    with pytest.raises(InputError, match="variable ws10"):
        drn.predict(stations.forecast[["t2m"]])
    with pytest.raises(InputError, match="there are none"):
        Drn(TARGET).fit(replace(stations, truth=None))
    with pytest.raises(ConfigError, match="embeding"):
        Drn(TARGET, {"embeding": 3})


def test_set_network_starts_at_zero_and_knows_no_order_of_members() -> None:
    net = DenseSetNet([[1, 2], [3, 4], [5, 6]], 8, 2, 8, 1, points=5, embedding=0, dropout=0.0)
    x = torch.randn(4, 8, 1, 5)
    assert net(x).shape == (4, 2, 1, 5)
    assert (net(x) == 0).all()
    torch.nn.init.normal_(net.dense.head.weight)
    torch.testing.assert_close(net(x[:, [0, 5, 6, 1, 2, 3, 4, 7]]), net(x))
    torch.testing.assert_close(net(x.flip(-1)).flip(-1), net(x))
    assert not torch.allclose(net(x[:, [0, 2, 1, 3, 4, 5, 6, 7]]), net(x))


@pytest.fixture(scope="module")
def outlier() -> FitData:
    """One member goes astray, to either side: mean and spread do not say to which."""
    data = make()
    rng = np.random.default_rng(8)
    members = data.forecast["t2m"].copy(deep=True)
    which = rng.integers(0, MEMBERS, (DATES, 1, 1, STATIONS))
    astray = np.arange(MEMBERS)[:, None] == which
    members[:] += np.where(astray, rng.choice([-8, 8], which.shape), 0)
    truth = members.isel(step=0, drop=True).median("number").where(data.truth.notnull())
    forecast = data.forecast.assign(t2m=members)
    return replace(data, forecast=forecast, truth=truth.transpose(*data.truth.dims))


def test_members_seen_one_by_one_say_more_than_mean_and_spread(outlier: FitData) -> None:
    later = slice(VALID.stop, None)
    forecast, truth = outlier.forecast.isel(time=later), outlier.truth[later]

    def crps(members: str) -> float:
        method = Drn(TARGET, {**QUICK, "members": members}).fit(outlier)
        return float(scores.crps(method.predict(forecast), truth).mean())

    assert crps("set") < 0.6 * crps("none")


def test_members_of_a_set_have_no_order_those_of_their_own_do(
    outlier: FitData, tmp_path: Path
) -> None:
    settings = {"seeds": 1, "training": {"epochs": 3, "learning_rate": 0.02}}
    some = outlier.forecast.isel(time=slice(20))
    swapped = some.isel(number=[1, 0, 2, 3]).assign_coords(number=some["number"])
    for members, same in (("set", True), ("each", False)):
        method = Drn(TARGET, {**settings, "members": members}).fit(outlier)
        dist, other = method.predict(some), method.predict(swapped)
        assert np.allclose(dist["mean"], other["mean"], atol=1e-3) is same
        method.save(tmp_path / members, {})
        xr.testing.assert_identical(load_model(tmp_path / members).predict(some), dist)
    with pytest.raises(InputError, match="member 3"):
        method.predict(some.isel(number=slice(3)))


def test_quantiles_have_a_mass_at_the_floor(stations: FitData) -> None:
    dry = replace(stations, truth=(stations.truth - 281).clip(min=0))
    head = {"head": "quantiles", "quantiles": 15}
    later = slice(VALID.stop, None)
    forecast, truth = dry.forecast.isel(time=later), dry.truth[later]
    method = Drn(TARGET, {**QUICK, **head, "floor": 0}).fit(dry)
    dist = method.predict(forecast)
    assert dist["value"].dims == ("time", "quantile", "station")
    assert float(dist["value"].min()) == 0
    assert (dist["value"].diff("quantile") >= 0).all()
    share = float((dist["value"] == 0).mean())
    assert share == pytest.approx(float((truth == 0).mean()), abs=0.05)
    normal = dry.truth[TRAIN].std()
    assert float(scores.crps(dist, truth).mean()) < 0.3 * float(normal)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"floor": 0}, "floor goes with"), ({"head": "quantiles", "quantiles": 10}, "odd")],
)
def test_settings_that_do_not_fit_together(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Drn(TARGET, settings)
