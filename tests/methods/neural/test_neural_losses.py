"""The losses against independent implementations, and where they are fragile."""

from __future__ import annotations

import math

import numpy as np
import properscoring
import pytest
import scoringrules
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from weatherpp.methods.neural.losses import (
    ensemble_crps,
    gaussian_crps,
    gaussian_upper_crps,
    quantile_crps,
    weighted_mean,
)


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


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_ensemble_crps_equals_the_reference_implementations(count: int) -> None:
    members, truth = random(7, count, 4), random(7, 4, seed=2)
    kinds = {0.0: "nrg", 1.0: "fair"}
    for alpha, estimator in kinds.items():
        expected = scoringrules.crps_ensemble(
            truth.numpy(), members.numpy(), m_axis=1, estimator=estimator
        )
        np.testing.assert_allclose(ensemble_crps(members, truth, alpha), expected, atol=1e-12)
    plain = properscoring.crps_ensemble(truth.numpy(), members.numpy(), axis=1)
    np.testing.assert_allclose(ensemble_crps(members, truth), plain, atol=1e-12)


def test_almost_fair_crps_as_it_is_written_in_the_paper() -> None:
    count, alpha = 4, 0.95
    members, truth = random(3, count), random(3, seed=2)
    rest = 1 - (1 - alpha) / count
    expected = sum(
        (members[:, j] - truth).abs()
        + (members[:, k] - truth).abs()
        - rest * (members[:, j] - members[:, k]).abs()
        for j in range(count)
        for k in range(count)
        if j != k
    ) / (2 * count * (count - 1))
    torch.testing.assert_close(ensemble_crps(members, truth, alpha), expected)


def test_ensemble_crps_gradients_and_order() -> None:
    members, truth = random(2, 5, 3).requires_grad_(), random(2, 3, seed=2).requires_grad_()
    for alpha in (0.0, 0.95, 1.0):
        assert torch.autograd.gradcheck(
            lambda m, y, a=alpha: ensemble_crps(m, y, a), (members, truth)
        )
        shuffled = members[:, torch.tensor([3, 0, 4, 1, 2])]
        torch.testing.assert_close(
            ensemble_crps(shuffled, truth, alpha), ensemble_crps(members, truth, alpha)
        )


def test_one_member_has_the_absolute_error_and_no_fair_score() -> None:
    members, truth = random(4, 1), random(4, seed=2)
    torch.testing.assert_close(ensemble_crps(members, truth), (members[:, 0] - truth).abs())
    with pytest.raises(ValueError, match="two members"):
        ensemble_crps(members, truth, 1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_members_far_from_zero_keep_their_digits(dtype: torch.dtype) -> None:
    # half precision holds these exactly; their sums and products it would not
    members = (280 + torch.tensor([[-4.0, -2.0, 0.0, 2.0, 6.0]])).to(dtype).requires_grad_()
    truth = torch.tensor([282.0], dtype=dtype)
    score = ensemble_crps(members, truth, 1.0)
    expected = scoringrules.crps_ensemble(
        np.array([282.0]), members.detach().double().numpy(), m_axis=1, estimator="fair"
    )
    assert score.dtype == torch.float32
    np.testing.assert_allclose(score.detach(), expected, rtol=1e-5)
    score.sum().backward()
    assert members.grad is not None
    assert bool(torch.isfinite(members.grad).all())
    same = torch.full((1, 5), 282.0, dtype=dtype)
    assert float(ensemble_crps(same, truth, 0.95)) == 0


def test_quantile_crps() -> None:
    quantiles, truth = random(6, 5, 2).sort(dim=1).values, random(6, 2, seed=2)
    levels = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9], dtype=torch.float64)
    expected = scoringrules.crps_quantile(
        truth.numpy(), quantiles.movedim(1, -1).numpy(), levels.numpy()
    )
    np.testing.assert_allclose(quantile_crps(quantiles, levels, truth), expected, atol=1e-12)
    inputs = (quantiles.requires_grad_(), truth.requires_grad_())
    assert torch.autograd.gradcheck(lambda q, y: quantile_crps(q, levels, y), inputs)
    # many levels of a normal distribution come close to its exact score
    fine = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    normal = torch.special.ndtri(fine)[None]
    zero = torch.tensor([0.7], dtype=torch.float64)
    exact = gaussian_crps(torch.zeros(1), torch.ones(1), zero)
    torch.testing.assert_close(quantile_crps(normal, fine, zero), exact, atol=1e-4, rtol=1e-3)


@settings(deadline=None)
@given(st.floats(-3, 3), st.floats(0.05, 5), st.floats(-8, 8), st.floats(-6, 5))
def test_upper_crps_is_that_of_the_censored_normal(
    mean: float, spread: float, truth: float, above: float
) -> None:
    cut = mean + above * spread
    values = (torch.tensor(v, dtype=torch.float64) for v in (mean, spread, truth, cut))
    mass = float(special.ndtr(above))  # what cutting off puts on the threshold
    expected = scoringrules.crps_gtcnormal(max(truth, cut), mean, spread, cut, np.inf, mass, 0.0)
    assert float(gaussian_upper_crps(*values)) == pytest.approx(float(expected), 1e-6, 1e-8)


def test_upper_crps_joins_the_whole_and_the_rest() -> None:
    """Far below everything the threshold changes nothing; above and below add up to the whole."""
    mean, spread, truth, cut = (random(50, seed=s) for s in range(4))
    spread = spread.abs() + 0.1
    whole = gaussian_crps(mean, spread, truth)
    torch.testing.assert_close(gaussian_upper_crps(mean, spread, truth, cut - 60), whole)
    upper = gaussian_upper_crps(mean, spread, truth, cut)
    lower = gaussian_upper_crps(-mean, spread, -truth, -cut)
    torch.testing.assert_close(upper + lower, whole)
    inputs = tuple(v.requires_grad_() for v in (mean, spread, truth, cut))
    assert torch.autograd.gradcheck(gaussian_upper_crps, inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("error", [0.0, 1.0, 3e4])
def test_upper_crps_is_finite(dtype: torch.dtype, spread: float, error: float) -> None:
    mean = torch.tensor(error, dtype=dtype, requires_grad=True)
    scale = torch.tensor(spread, dtype=dtype, requires_grad=True)
    zero = torch.zeros((), dtype=dtype)
    score = gaussian_upper_crps(mean, scale, zero, zero)
    score.backward()
    assert math.isfinite(score.item())
    assert score.item() >= 0
    for gradient in (mean.grad, scale.grad):
        assert gradient is not None
        assert math.isfinite(float(gradient))
