"""Extreme forecast index and shift of tails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy import integrate
from verify_sample import ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import efi


def at_one_point(members: np.ndarray, climate: np.ndarray, levels: np.ndarray):
    value = xr.DataArray(members[None], dims=("station", "number"))
    quantiles = xr.DataArray(climate[:, None], {"quantile": levels}, ("quantile", "station"))
    return distribution.members(value), quantiles


def test_equals_the_integral() -> None:
    rng = np.random.default_rng(2)
    levels = np.linspace(0, 1, 101)
    climate = np.quantile(rng.normal(size=2000), levels)
    for shift in (-2, 0, 1, 3):
        members = rng.normal(size=51) + shift
        found = efi.extreme_forecast_index(*at_one_point(members, climate, levels))
        below = (members[:, None] <= climate).mean(axis=0)

        def part(angle: float, below=below) -> float:  # p = sin^2, which takes the poles away
            p = np.sin(angle) ** 2
            return 2 * (p - np.interp(p, levels, below))

        corners = np.arcsin(np.sqrt(levels))
        expected = sum(integrate.quad(part, a, b)[0] for a, b in itertools.pairwise(corners))
        assert float(found[0]) == pytest.approx(2 / np.pi * expected, abs=1e-9)
        assert found.attrs["nan_policy"] == "propagate"


def test_limits_and_sign() -> None:
    levels = np.linspace(0, 1, 101)
    climate = np.linspace(0, 10, 101)
    for members, expected in ((np.full(5, 11.0), 1), (np.full(5, -1.0), -1)):
        found = efi.extreme_forecast_index(*at_one_point(members, climate, levels))
        assert float(found[0]) == pytest.approx(expected, abs=1e-12)
    as_climate = efi.extreme_forecast_index(*at_one_point(climate + 1e-9, climate, levels))
    assert abs(float(as_climate[0])) < 0.02
    # half of the members above everything: (p - 1/2) / sqrt(p (1 - p)) integrates to zero
    half = efi.extreme_forecast_index(*at_one_point(np.array([-1.0, 11.0]), climate, levels))
    assert float(half[0]) == pytest.approx(0, abs=1e-12)
    gone = efi.extreme_forecast_index(*at_one_point(np.array([np.nan, 1]), climate, levels))
    assert np.isnan(gone[0])


def test_shift_of_tails() -> None:
    levels = np.linspace(0, 1, 101)
    climate = np.linspace(0, 100, 101)
    members = np.linspace(10, 110, 11)
    found = efi.shift_of_tails(*at_one_point(members, climate, levels))
    assert float(found[0]) == pytest.approx((np.quantile(members, 0.9) - 99) / (99 - 90))
    low = efi.shift_of_tails(*at_one_point(members, climate, levels), level=0.1)
    assert float(low[0]) == pytest.approx((np.quantile(members, 0.1) - 1) / (1 - 10))
    dry = efi.shift_of_tails(*at_one_point(members, np.zeros(101), levels))
    assert np.isnan(dry[0])
    with pytest.raises(InputError, match=r"0.01 and 0.99"):
        efi.shift_of_tails(*at_one_point(members, climate, levels), level=1.0)
    with pytest.raises(InputError, match=r"lacks the level 0.9"):
        efi.shift_of_tails(*at_one_point(members, climate[::50], levels[::50]))


def test_climate_of_the_model_on_fields() -> None:
    dist, _ = ensemble(members=5, times=200)
    climate = efi.model_climate(dist["value"])
    x = dist["value"].values
    np.testing.assert_allclose(climate.isel(quantile=0), x.min(axis=(0, 1)))
    np.testing.assert_allclose(climate.isel(quantile=100), x.max(axis=(0, 1)))
    one = dist.isel(time=0, drop=True)
    found = efi.extreme_forecast_index(one, climate)
    assert found.dims == ("latitude", "longitude")
    assert (abs(found) < 1).all()
    lazy = efi.extreme_forecast_index(one.chunk({"latitude": 1}), climate.chunk({"latitude": 1}))
    assert lazy.chunks is not None
    np.testing.assert_allclose(lazy, found)
    np.testing.assert_allclose(
        efi.shift_of_tails(one.chunk({"number": 1}), climate), efi.shift_of_tails(one, climate)
    )
    with pytest.raises(InputError, match="'latitude' differs"):
        efi.extreme_forecast_index(one, climate.assign_coords(latitude=[1.0, 2, 3]))
    with pytest.raises(InputError, match=r"levels 0.01 to 0.99"):
        efi.extreme_forecast_index(one, climate.isel(quantile=slice(1, -1)))
