"""The model: grid, fields read another way, runs alone and among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from weatherpp.speedy.model import Speedy, States

START = np.datetime64("2001-01-01T12")


@pytest.fixture(scope="module")
def states(model: Speedy) -> States:
    """Two states a day after rest."""
    one, two = (model.at_rest(seed, 1.0) for seed in (1, 2))
    both = {name: np.concatenate([one[name], two[name]]) for name in one}
    return model.run(both, model.standard, START, 24)[0]


@pytest.fixture(scope="module")
def grid(model: Speedy, states: States) -> Any:
    """What the model itself has on its grid, (level, longitude, latitude from the south)."""
    from weatherpp.speedy.model import pack

    return model.model.dycore.to_physics_state(pack({k: v[1] for k, v in states.items()}))


def test_grid_and_geography(model: Speedy) -> None:
    gauss = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(32)[0]))[::-1]
    np.testing.assert_allclose(model.latitude, gauss, atol=1e-4)
    np.testing.assert_allclose(model.longitude, np.arange(64) * 5.625, atol=1e-4)
    static = model.static()
    area = np.cos(np.radians(model.latitude))
    assert 0.27 < np.average(static["lsm"].mean(1), weights=area) < 0.33
    tibet = static["orog"][
        np.abs(model.latitude - 34).argmin(), np.abs(model.longitude - 88).argmin()
    ]
    assert tibet > 3000


def test_fields_are_those_of_the_model(model: Speedy, states: States, grid: Any) -> None:
    fields = model.fields(states, START)
    for name, wind in (("u10", grid.u_wind), ("v10", grid.v_wind)):
        lowest = 0.95 * np.asarray(wind)[-1].T[::-1]
        np.testing.assert_allclose(fields[name][1], lowest, atol=1e-3)
    column = (1, slice(None), 5, 7)
    sigma = np.asarray(model.coords.vertical.centers)
    pressure = 1e5 * float(grid.normalized_surface_pressure[7, -6]) * sigma
    for name, values in (("t", grid.temperature), ("q", grid.specific_humidity)):
        expected = np.interp(np.log([5e4, 8.5e4]), np.log(pressure), np.asarray(values)[:, 7, -6])
        np.testing.assert_allclose(
            fields[name][column], np.maximum(expected, 0), rtol=1e-4, atol=1e-7
        )
    assert 180 < fields["t2m"].min() < fields["t2m"].max() < 330


def test_a_run_depends_on_its_states_alone(model: Speedy, states: States) -> None:
    whole, rain = model.run(states, model.standard, START, 24)
    one = {name: values[1:] for name, values in states.items()}
    half, first = model.run(one, model.standard, START, 12)
    both, second = model.run(half, model.standard, START + np.timedelta64(12, "h"), 12)
    again, _ = model.run(one, model.standard, START, 24)
    for name, values in whole.items():
        np.testing.assert_array_equal(again[name], values[1:])
        change = np.linalg.norm(values[1] - states[name][1])
        assert np.linalg.norm(both[name][0] - values[1]) < 0.05 * change
    assert rain.min() >= 0
    assert abs((first + second).mean() / rain[1].mean() - 1) < 0.05


def test_other_parameters_make_another_forecast(model: Speedy, states: States) -> None:
    from weatherpp.speedy.settings import FORECAST

    one, _ = model.run(states, model.standard, START, 12)
    same, _ = model.run(states, model.physics({}), START, 12)
    other, _ = model.run(states, model.physics(FORECAST), START, 12)
    np.testing.assert_array_equal(same["temperature"], one["temperature"])
    assert np.abs(other["temperature"] - one["temperature"]).max() > 1e-3
