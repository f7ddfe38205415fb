"""The Gaussian CRPS against independent implementations, and where it is fragile."""

from __future__ import annotations

import math

import numpy as np
import properscoring
import pytest
import scoringrules
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weatherpp.methods.neural.losses import gaussian_crps, weighted_mean


@settings(deadline=None)
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_equals_the_reference_implementations(mean: float, spread: float, truth: float) -> None:
    ours = float(
        gaussian_crps(*(torch.tensor(v, dtype=torch.float64) for v in (mean, spread, truth)))
    )
    assert ours == pytest.approx(properscoring.crps_gaussian(truth, mean, spread), 1e-9, 1e-9)
    assert ours == pytest.approx(float(scoringrules.crps_normal(truth, mean, spread)), 1e-9, 1e-9)


def test_gradients() -> None:
    rng = torch.Generator().manual_seed(1)
    mean, truth = (torch.randn(50, generator=rng, dtype=torch.float64) for _ in range(2))
    spread = torch.rand(50, generator=rng, dtype=torch.float64) + 0.05
    inputs = [t.requires_grad_() for t in (mean, spread, truth)]
    assert torch.autograd.gradcheck(gaussian_crps, inputs)


def test_gradients_broadcast() -> None:
    mean = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    spread = torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
    truth = torch.linspace(-1, 2, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda m, s: gaussian_crps(m, s, truth), (mean, spread))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.0, 1e-30, 1e-6, 1.0])
@pytest.mark.parametrize("error", [0.0, 1e-6, 1.0, 3e4])
def test_finite_everywhere(dtype: torch.dtype, spread: float, error: float) -> None:
    mean = torch.tensor(error, dtype=dtype, requires_grad=True)
    scale = torch.tensor(spread, dtype=dtype, requires_grad=True)
    score = gaussian_crps(mean, scale, torch.zeros((), dtype=dtype))
    score.backward()
    assert score.dtype in (torch.float32, torch.float64)
    assert math.isfinite(score.item())
    assert score.item() >= 0
    for gradient in (mean.grad, scale.grad):
        assert gradient is not None
        assert abs(float(gradient)) <= 1


def test_no_spread_is_the_absolute_error() -> None:
    error = torch.tensor([-2.0, 0.0, 1e3])
    score = gaussian_crps(error, torch.zeros(3), torch.zeros(3))
    torch.testing.assert_close(score, error.abs())


def test_half_precision_keeps_its_digits() -> None:
    mean, truth = torch.tensor(3.0), torch.tensor(1.0)
    exact = gaussian_crps(mean, torch.tensor(0.5), truth)
    half = gaussian_crps(mean.half(), torch.tensor(0.5).half(), truth.half())
    torch.testing.assert_close(half, exact)


def test_weighted_mean() -> None:
    values = torch.tensor([[1.0, 2.0], [3.0, math.nan]])
    weights = torch.tensor([[1.0, 1.0], [2.0, 0.0]])
    assert float(weighted_mean(values, weights)) == pytest.approx(9 / 4)
    latitude = torch.cos(torch.deg2rad(torch.tensor([60.0, 0.0])))[:, None]
    expected = np.average([1.5, 3.5], weights=[0.5, 1.0])
    field = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert float(weighted_mean(field, latitude)) == pytest.approx(expected)
