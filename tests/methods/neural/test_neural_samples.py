"""Predictors, grids, batches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.methods.base import FitData
from weatherpp.methods.neural.networks.padding import Topology
from weatherpp.methods.neural.samples import (
    Samples,
    area_weights,
    assemble,
    constant_fields,
    in_memory,
    plan,
    plane,
    topology_of,
)


def grid(latitude: np.ndarray, longitude: np.ndarray) -> xr.DataArray:
    values = np.zeros((len(latitude), len(longitude)))
    return xr.DataArray(values, {"latitude": latitude, "longitude": longitude})


def projected() -> xr.DataArray:
    latitude = np.linspace(50, 60, 12).reshape(3, 4)
    coords = {"latitude": (("y", "x"), latitude), "longitude": (("y", "x"), latitude)}
    return xr.DataArray(np.zeros((3, 4)), coords, dims=("y", "x"))


def test_topology() -> None:
    longitude = np.arange(64) * 360 / 64
    gaussian = (np.arange(32) + 0.5) / 32 * -180 + 90
    assert topology_of(grid(gaussian, longitude)) == Topology(True, True)
    assert topology_of(grid(np.linspace(90, -90, 33), longitude)) == Topology(True, True, True)
    assert topology_of(grid(np.linspace(75, 15, 9), longitude)) == Topology(True)
    assert topology_of(grid(np.linspace(75, 15, 9), longitude[:40])) == Topology()
    assert topology_of(projected()) == Topology()


def test_area_weights() -> None:
    weights = area_weights(grid(np.array([60.0, 0.0]), np.arange(4.0)))
    np.testing.assert_allclose(weights[0] / weights[1], 0.5)
    assert weights.mean() == pytest.approx(1)
    np.testing.assert_array_equal(area_weights(projected()), np.ones((3, 4)))


def test_plan_takes_what_exists(data: FitData) -> None:
    blocks = plan(data.forecast, ("mean", "spread"))
    names = [name for block in blocks for name in block.names]
    assert names[:3] == ["mean:z200@24h", "mean:z500@24h", "mean:z800@24h"]
    assert len(names) == 2 * 2 * (3 + 2)
    chosen = plan(data.forecast, ("control",), ("t",), (350,), (48,))
    assert [block.names for block in chosen] == [["control:t350@48h"]]


def test_one_member_has_no_spread(data: FitData) -> None:
    single = data.forecast.sel(number=[3])
    assert {kind for block in plan(single, ("mean", "spread")) for kind in block.kinds} == {"mean"}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"variables": ("q",)}, "no variable q; there are z, t"),
        ({"levels": (850,)}, "no level 850; there are 200, 350, 500, 650, 800"),
        ({"lead_hours": (6.0,)}, r"no lead time \(hours\) 6.0; there are 24, 48"),
        ({"variables": ("t",), "levels": (200,)}, "no predictors are left"),
    ],
)
def test_what_is_missing_is_named(data: FitData, choice: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        plan(data.forecast, ("mean",), **choice)
    assert "\n" not in str(error.value)


def test_assemble(data: FitData) -> None:
    blocks = plan(data.forecast, ("mean", "spread", "control", "members"), ("t",))
    out = assemble(data.forecast, blocks)
    names = blocks[0].names
    t350 = data.forecast["t"].sel(level=350, step=pd.Timedelta("48h"))
    for name, expected in (
        ("mean:t350@48h", t350.mean("number")),
        ("spread:t350@48h", t350.std("number", ddof=1)),
        ("control:t350@48h", t350.sel(number=0)),
        ("member3:t350@48h", t350.sel(number=3)),
    ):
        np.testing.assert_allclose(out[:, names.index(name)], expected, rtol=1e-5)
    assert out.dtype == np.float32
    assert out.shape == (60, 8 * 4, 8, 16)


def test_lazy_equals_loaded_and_order_of_members_does_not_matter(data: FitData) -> None:
    blocks = plan(data.forecast, ("mean", "spread", "control"))
    loaded = assemble(data.forecast, blocks)
    lazy = assemble(data.forecast.chunk(time=7, level=1), blocks)
    assert lazy.chunks is not None
    np.testing.assert_allclose(lazy, loaded, rtol=1e-6)
    shuffled = data.forecast.isel(number=[3, 1, 4, 0, 2])
    np.testing.assert_allclose(assemble(shuffled, blocks), loaded, rtol=1e-6)


def test_variable_without_level(data: FitData) -> None:
    surface = data.forecast[["t"]].sel(level=650, drop=True).rename(t="t2m")
    surface["t2m"].attrs.pop("levels", None)
    blocks = plan(surface, ("mean",))
    assert blocks[0].names == ["mean:t2m@24h", "mean:t2m@48h"]
    assert assemble(surface, blocks).shape == (60, 2, 8, 16)


def test_missing_predictor_of_a_model(data: FitData) -> None:
    blocks = plan(data.forecast, ("mean",))
    with pytest.raises(InputError, match="no variable t; there are z"):
        assemble(data.forecast[["z"]], blocks)
    without = data.forecast.copy()
    without["z"] = without["z"].assign_attrs(levels=[200, 500])
    with pytest.raises(InputError, match="no level of z 800; there are 200, 500"):
        assemble(without, blocks)


def test_stations_are_refused() -> None:
    with pytest.raises(InputError, match="need a grid"):
        plane(xr.DataArray(np.zeros((3, 4)), dims=("time", "station")))


def test_constant_fields(data: FitData) -> None:
    field = data.forecast["z"]
    fields = constant_fields(data.static, field)
    assert list(fields) == ["orog", "lsm", "sine of latitude"]
    for values in fields.values():
        assert values.shape == (8, 16)
        assert values.std() == pytest.approx(1, abs=1e-4)
    with pytest.raises(InputError, match="orog has the shape"):
        constant_fields(data.static.isel(latitude=slice(4)), field)
    assert list(constant_fields(xr.Dataset(), projected())) == ["sine of latitude"]


def samples(lazy: bool) -> Samples:
    x = np.arange(4 * 2 * 5 * 6, dtype=np.float32).reshape(4, 2, 5, 6)
    x[0, 0, 0, 0] = np.nan
    predictors = xr.DataArray(x, dims=("time", "predictor", "y", "x"))
    one = np.ones((2, 5, 6), np.float32)
    dated = {"extra": torch.full((4, 1, 5, 6), 7.0), "goal": torch.from_numpy(x[:, 1])}
    return Samples(
        predictors.chunk(time=1) if lazy else predictors, 0 * one, 2 * one, one[:1], dated
    )


@pytest.mark.parametrize("lazy", [False, True])
def test_batches(lazy: bool) -> None:
    dataset = samples(lazy)
    assert len(dataset) == 4
    batch = dataset.__getitems__([2, 0])
    assert batch["x"].shape == (2, 4, 5, 6)
    torch.testing.assert_close(batch["x"][:, 1] * 2, batch["goal"])
    assert batch["x"][1, 0, 0, 0] == 0
    assert (batch["x"][:, 2] == 7).all()
    assert (batch["x"][:, 3] == 1).all()
    assert torch.equal(dataset[2]["x"], batch["x"][0])


def test_tiles_are_seeded_cuts_of_everything_alike() -> None:
    one, two = samples(False), samples(True)
    for dataset in (one, two):
        dataset.cut(tile=3, tiles=5)
        dataset.reseed(4)
    assert len(one) == 20
    batch = one.__getitems__(list(range(20)))
    assert batch["x"].shape == (20, 4, 3, 3)
    torch.testing.assert_close(batch["x"][:, 1] * 2, batch["goal"])
    assert torch.equal(batch["x"], two.__getitems__(list(range(20)))["x"])
    assert len({float(value) for value in batch["goal"][:, 0, 0]}) > 8


def test_cache_keeps_what_was_asked_for_last(datasets: tuple[xr.Dataset, ...]) -> None:
    forecast = datasets[0].chunk(time=10)
    fields = [
        assemble(forecast.sel(number=[0, 1, n]), plan(forecast.sel(number=[0, 1, n]), ("mean",)))
        for n in (2, 3, 4)
    ]
    room = 2.5 * fields[0].nbytes
    cache: dict[str, object] = {}
    first, second = (in_memory(field, room, cache) for field in fields[:2])
    assert np.shares_memory(in_memory(fields[0], room, cache).values, first.values)
    assert len(cache) == 2
    in_memory(fields[2], room, cache)
    assert len(cache) == 2
    assert np.shares_memory(in_memory(fields[0], room, cache).values, first.values)
    assert not np.shares_memory(in_memory(fields[1], room, cache).values, second.values)
    xr.testing.assert_identical(in_memory(fields[1], room, cache), second)
