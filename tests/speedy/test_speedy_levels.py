"""From sigma levels to pressure, against known atmospheres and scipy."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import interp1d

from weatherpp.speedy.levels import to_pressure

SIGMA = np.array([0.025, 0.095, 0.2, 0.34, 0.51, 0.685, 0.835, 0.95])


def pressures(surface: float) -> np.ndarray:
    return np.broadcast_to((surface * SIGMA)[None, :, None, None], (2, 8, 3, 4))


def test_geopotential_of_an_isothermal_atmosphere_is_exact_under_the_ground_too() -> None:
    for surface in (1.0e5, 0.6e5):
        pressure = pressures(surface)
        z = 287.0 * 250.0 * np.log(surface / pressure)
        found = to_pressure(z.astype(np.float32), pressure, (500, 850), extend=True)
        assert found.shape == (2, 2, 3, 4)
        expected = 287.0 * 250.0 * np.log(surface / np.array([5e4, 8.5e4]))
        np.testing.assert_allclose(found[0, :, 0, 0], expected, rtol=1e-5, atol=0.1)


def test_other_fields_are_held_under_the_ground() -> None:
    values = np.random.default_rng(1).normal(260, 10, (2, 8, 3, 4)).astype(np.float32)
    found = to_pressure(values, pressures(0.6e5), (500, 850))
    np.testing.assert_array_equal(found[:, 1], values[:, -1])


def test_as_scipy_interpolates() -> None:
    random = np.random.default_rng(2)
    values = random.normal(260, 10, (2, 8, 3, 4)).astype(np.float32)
    pressure = pressures(1.0e5) * random.uniform(0.95, 1.03, (2, 1, 3, 4))
    found = to_pressure(values, pressure, (500, 850))
    for state, row, column in np.ndindex(2, 3, 4):
        where = (state, slice(None), row, column)
        expected = interp1d(np.log(pressure[where]), values[where])(np.log([5e4, 8.5e4]))
        np.testing.assert_allclose(found[where], expected, rtol=1e-6)
