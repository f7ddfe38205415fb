"""Area weights."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.verify.weights import grid_weights


def on_latitudes(latitude: np.ndarray) -> xr.DataArray:
    return xr.DataArray(
        np.zeros((len(latitude), 4)),
        dims=("latitude", "longitude"),
        coords={"latitude": latitude, "longitude": [0, 90, 180, 270]},
    )


@pytest.mark.parametrize("order", [1, -1])
def test_gaussian_grid_is_close_to_quadrature(order: int) -> None:
    nodes, quadrature = np.polynomial.legendre.leggauss(32)
    latitude = np.rad2deg(np.arcsin(nodes))[::order]
    weights = grid_weights(on_latitudes(latitude.astype(np.float32)))
    np.testing.assert_allclose(weights, quadrature[::order] * 16, rtol=0.01)
    np.testing.assert_allclose(weights[1:-1], quadrature[::order][1:-1] * 16, rtol=1e-3)
    assert float(weights.mean()) == pytest.approx(1, abs=1e-12)


def test_poles_have_area_and_the_sphere_is_covered() -> None:
    weights = grid_weights(on_latitudes(np.linspace(90, -90, 181)))
    assert float(weights[0]) > 0
    area = np.sin(np.deg2rad(90)) - np.sin(np.deg2rad(89.5))
    assert float(weights[0]) == pytest.approx(area / 2 * 181)
    squares = (weights * np.sin(np.deg2rad(weights.latitude)) ** 2).mean()
    assert float(squares) == pytest.approx(1 / 3, rel=1e-3)


def test_regional_grid() -> None:
    weights = grid_weights(on_latitudes(np.arange(35.0, 61.0)))
    cosine = np.cos(np.deg2rad(weights.latitude))
    np.testing.assert_allclose(weights, cosine / cosine.mean(), rtol=1e-12)
    assert float(grid_weights(on_latitudes(np.array([50.0])))[0]) == 1


def test_points_and_projected_grids_weigh_the_same() -> None:
    projected = xr.DataArray(np.zeros((2, 3, 4)), dims=("time", "y", "x"))
    assert grid_weights(projected).shape == (3, 4)
    assert (grid_weights(projected) == 1).all()
    assert (grid_weights(xr.DataArray(np.zeros(5), dims="station")) == 1).all()


def test_no_grid_is_refused() -> None:
    with pytest.raises(InputError, match=r"lat, lon; a grid has"):
        grid_weights(xr.DataArray(np.zeros((2, 2)), dims=("lat", "lon")))
    with pytest.raises(InputError, match="no coordinate"):
        grid_weights(xr.DataArray(np.zeros((2, 2)), dims=("latitude", "longitude")))
    with pytest.raises(InputError, match="sorted"):
        grid_weights(on_latitudes(np.array([0.0, 20.0, 10.0])))
    with pytest.raises(InputError, match="metres"):
        grid_weights(on_latitudes(np.array([0.0, 20000.0])))
