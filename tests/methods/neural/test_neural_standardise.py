"""Local area-wise standardisation on fields whose statistics are known."""

from __future__ import annotations

import dask.array
import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

from weatherpp.data.statistics import default_smoothing
from weatherpp.methods.neural.standardise import local_standardisation


def predictors(values: NDArray[np.float64]) -> xr.DataArray:
    return xr.DataArray(values, dims=("time", "predictor", "latitude", "longitude"))


def test_one_point_box_without_smoothing_is_plain_statistics() -> None:
    x = np.random.default_rng(1).normal(5e4, 3, (30, 2, 6, 8))
    out = local_standardisation(predictors(x), periodic=True, box=1, smoothing=0)
    np.testing.assert_allclose(out["mean"], x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(out["std"], x.std(0), rtol=1e-8)


def test_box_pools_dates_and_points() -> None:
    x = np.random.default_rng(1).normal(0, 1, (10, 1, 9, 12)) + np.arange(12.0)
    out = local_standardisation(predictors(x), periodic=False, box=3, smoothing=0)
    around = x[:, 0, 3:6, 4:7]
    assert float(out["mean"][0, 4, 5]) == pytest.approx(around.mean())
    assert float(out["std"][0, 4, 5]) == pytest.approx(around.std())
    across = np.concatenate([x[:, 0, 3:6, -1:], x[:, 0, 3:6, :2]], axis=-1)
    periodic = local_standardisation(predictors(x), periodic=True, box=3, smoothing=0)
    assert float(periodic["mean"][0, 4, 0]) == pytest.approx(across.mean())


def test_linear_field_keeps_its_mean_inside() -> None:
    slope = np.arange(40.0)[:, None] * np.ones(10)
    x = np.stack([slope - 1, slope + 1])[:, None]
    out = local_standardisation(predictors(x), periodic=True, box=7, smoothing=1)
    np.testing.assert_allclose(out["mean"][0, 10:30], slope[10:30], atol=1e-8)
    # variance in time 1, and 4 of the seven rows of the box
    np.testing.assert_allclose(out["std"][0, 10:30], np.sqrt(5.0))


def test_constant_and_empty_fields() -> None:
    x = np.full((5, 3, 6, 8), 7.0)
    x[:, 1] = np.nan
    x[:, 2] = 0.1 + 0.2
    out = local_standardisation(predictors(x), periodic=True)
    np.testing.assert_allclose(out["mean"][0], 7)
    np.testing.assert_array_equal(out["mean"][1], 0)
    np.testing.assert_array_equal(out["std"], 1)


def test_missing_values_do_not_count() -> None:
    x = np.random.default_rng(1).normal(0, 1, (50, 1, 6, 8))
    x[:, :, :2] = np.nan
    x[3, 0, 4, 4] = np.nan
    out = local_standardisation(predictors(x), periodic=True, box=1, smoothing=0)
    np.testing.assert_allclose(out["mean"][0, 2:], np.nanmean(x[:, 0, 2:], 0), atol=1e-12)
    assert np.isfinite(out["std"]).all()


def test_rolls_with_the_field() -> None:
    x = np.random.default_rng(1).normal(0, 1, (8, 1, 6, 12)) * (2 + np.sin(np.arange(12)))
    one = local_standardisation(predictors(x), periodic=True, smoothing=1)
    two = local_standardisation(predictors(np.roll(x, 5, -1)), periodic=True, smoothing=1)
    np.testing.assert_allclose(two["std"], np.roll(one["std"], 5, -1))


def test_lazy_float32_is_summed_in_double() -> None:
    x = np.random.default_rng(1).normal(5e4, 0.5, (400, 1, 4, 4)).astype(np.float32)
    lazy = predictors(dask.array.from_array(x, chunks=(7, 1, 4, 4)))  # type: ignore[no-untyped-call]
    out = local_standardisation(lazy, periodic=True, box=1, smoothing=0)
    np.testing.assert_allclose(out["std"], x.astype(np.float64).std(0), rtol=1e-6)


def test_smoothing_scales_with_the_grid() -> None:
    assert default_smoothing(361) == pytest.approx(10)
    assert default_smoothing(32) < 1
