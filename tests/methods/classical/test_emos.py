"""EMOS: its minimiser, and the method around it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from weatherpp.errors import InputError
from weatherpp.methods.classical.emos_normal import fit_coefficients
from weatherpp.verify.kernels import crps_normal


def sample(dates: int, points: int, seed: int = 0, a: float | np.ndarray = 3.0, b: float = 0.99):
    """Ensemble mean, variance and truth that follow the model with c = 0.3, d = 1.5."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(280, 5, (dates, points))
    variance = rng.gamma(2, 0.5, (dates, points))
    noise = rng.normal(size=mean.shape) * np.sqrt(0.3 + 1.5 * variance)
    return mean, variance, a + b * mean + noise


def score(found, mean, variance, truth) -> np.ndarray:
    """Mean CRPS of each point."""
    spread = np.sqrt(found.c + found.d * variance)
    return crps_normal(found.a + found.b * mean, spread, truth).mean(axis=0)


def test_recovers_known_coefficients() -> None:
    found = fit_coefficients(*sample(20_000, 2))
    assert found.failed == 0
    np.testing.assert_allclose(found.b, 0.99, atol=0.01)
    np.testing.assert_allclose(found.a + found.b * 280, 3 + 0.99 * 280, atol=0.05)
    np.testing.assert_allclose(found.c, 0.3, atol=0.06)
    np.testing.assert_allclose(found.d, 1.5, atol=0.1)


def test_reaches_the_minimum_that_scipy_finds() -> None:
    mean, variance, truth = sample(150, 3, seed=3)
    found = fit_coefficients(mean, variance, truth, prior=0.0)
    own = score(found, mean, variance, truth)
    for p in range(3):
        x = mean[:, p] - mean[:, p].mean()

        def objective(theta: np.ndarray, p: int = p, x: np.ndarray = x) -> float:
            centre = mean[:, p] + theta[0] + theta[1] * x
            spread = np.sqrt(theta[2] ** 2 + theta[3] ** 2 * variance[:, p])
            return float(crps_normal(centre, spread, truth[:, p]).mean())

        best = min(
            optimize.minimize(objective, start, method="L-BFGS-B", tol=1e-12).fun
            for start in ([0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.2, 2.0])
        )
        assert own[p] <= best * (1 + 1e-4)


def test_prior_is_lost_among_many_dates() -> None:
    data = sample(400, 20, seed=4)
    best = score(fit_coefficients(*data, prior=0.0), *data)
    pulled = score(fit_coefficients(*data), *data)
    assert (pulled / best - 1 < 1e-3).all()


@pytest.mark.parametrize(("dates", "least"), [(1, 0.1), (2, 0.2), (4, 0.3), (20, 0.4)])
def test_few_dates_do_better_than_no_calibration(dates: int, least: float) -> None:
    bias = np.random.default_rng(8).normal(0, 3, 2000)
    found = fit_coefficients(*sample(dates, 2000, seed=5, a=bias))
    assert found.failed == 0
    mean, variance, truth = sample(50, 2000, seed=6, a=bias)
    raw = crps_normal(mean, np.sqrt(variance), truth).mean()
    assert score(found, mean, variance, truth).mean() < (1 - least) * raw


def test_one_date_without_prior_is_refused() -> None:
    with pytest.raises(InputError, match="prior"):
        fit_coefficients(*sample(1, 5), prior=0.0)


@pytest.mark.parametrize("prior", [0.0, 2.0])
def test_degenerate_points_stay_finite(prior: float) -> None:
    mean, variance, truth = sample(40, 6, seed=7)
    mean[:, 0] = truth[:, 0] = 273.15  # constant, no error
    mean[:, 1] = 250.0
    variance[:, 2] = 0.0
    variance[:, 3] = 1.0
    truth[:, 4] = mean[:, 4]
    found = fit_coefficients(mean, variance, truth, prior=prior)
    assert found.failed == 0
    for part in found[:4]:
        assert np.isfinite(part).all()
    assert (found.c > 0).all()
    assert (found.d >= 0).all()
    if prior == 0:
        assert found.b[0] == found.b[1] == 1.0
        assert found.d[2] == 0.0
    raw = crps_normal(mean, np.sqrt(variance), truth).mean(axis=0)
    assert (score(found, mean, variance, truth) <= raw + 1e-9).all()


def test_all_constant() -> None:
    same = np.full((5, 3), 280.0)
    found = fit_coefficients(same, np.zeros_like(same), same)
    np.testing.assert_allclose(found.a + found.b * 280, 280, atol=1e-3)
    assert np.isfinite(score(found, same, np.zeros_like(same), same)).all()


def test_points_that_do_not_converge_keep_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from weatherpp.methods.classical import emos_normal

    monkeypatch.setattr(emos_normal, "EVALUATIONS", 0)
    found = fit_coefficients(*sample(30, 4, b=1.0, a=0.0))
    assert found.failed == 4
    np.testing.assert_array_equal(found.b, 1.0)
    np.testing.assert_array_equal(found.a, 0.0)


def test_pool_gives_one_set() -> None:
    data = sample(50, 40)
    found = fit_coefficients(*data, pool=True)
    assert np.ptp(found.b) == 0
    assert found.b[0] == pytest.approx(0.99, abs=0.02)
    assert found.c.shape == (40,)


def test_units_do_not_matter() -> None:
    mean, variance, truth = sample(30, 10)
    one = fit_coefficients(mean, variance, truth)
    big = fit_coefficients(mean * 1e4, variance * 1e8, truth * 1e4)
    np.testing.assert_allclose(big.b, one.b, rtol=1e-4)
    np.testing.assert_allclose(big.d, one.d, rtol=1e-3, atol=1e-3)


def test_shapes_are_checked() -> None:
    mean, variance, truth = sample(5, 3)
    with pytest.raises(InputError, match="do not fit"):
        fit_coefficients(mean, variance, truth[:, :2])
