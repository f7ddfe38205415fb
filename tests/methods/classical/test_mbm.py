"""Member-by-member correction: its minimiser against a linear programme, and what it keeps."""

from __future__ import annotations

import numpy as np
import properscoring
import pytest
from scipy import optimize

from weatherpp.errors import InputError
from weatherpp.methods.classical.mbm import Coefficients, fit_coefficients, mean_difference
from weatherpp.verify.kernels import crps_ensemble


def sample(
    points: int, dates: int, members: int = 5, seed: int = 0, bias: float | np.ndarray = 1.5
) -> tuple[np.ndarray, np.ndarray]:
    """A biased ensemble with half the spread it should have; truth."""
    rng = np.random.default_rng(seed)
    signal, width = rng.normal(280, 5, (points, dates)), rng.uniform(0.3, 2, (points, dates))
    noise = rng.normal(size=(points, dates, members))
    x = (signal + bias)[..., None] + 0.5 * width[..., None] * noise
    return x, signal + width * rng.normal(size=(points, dates))


def corrected(found: Coefficients, x: np.ndarray) -> np.ndarray:
    a, b, c, d = (part[:, None, None] for part in found[:4])
    mean, difference = x.mean(axis=-1, keepdims=True), mean_difference(x)[..., None]
    return a + b * mean + (c + d / difference) * (x - mean)


def score(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mean CRPS of each point."""
    return crps_ensemble(np.moveaxis(x, -1, 0), y, "plain").mean(axis=1)


def test_mean_difference_is_that_of_all_pairs() -> None:
    x = np.random.default_rng(0).normal(280, 1, (4, 7))
    pairs = np.abs(x[:, :, None] - x[:, None, :]).mean(axis=(1, 2))
    np.testing.assert_allclose(mean_difference(x), pairs, rtol=1e-12)
    # the CRPS of properscoring has the same term
    at = np.zeros(4)
    term = 2 * (np.abs(x).mean(axis=1) - properscoring.crps_ensemble(at, x))
    np.testing.assert_allclose(mean_difference(x), term, rtol=1e-9)


def test_reaches_the_minimum_of_the_linear_programme() -> None:
    """Without rounding of |r|, the fit is a linear programme, which HiGHS solves exactly."""
    x, y = sample(2, 60)
    found = fit_coefficients(x, y, prior=0.0)
    assert found.failed == 0
    own = score(corrected(found, x), y)
    for p in range(2):
        mean, difference = x[p].mean(axis=1), mean_difference(x[p])
        dev = x[p] - mean[:, None]
        columns = [np.ones(dev.size), np.repeat(mean - 280, 5), dev.ravel()]
        design = np.stack([*columns, (dev / difference[:, None]).ravel()], axis=1)
        n = dev.size
        cost = np.concatenate([[0, 0, -difference.mean() / 2, -0.5], np.full(n, 1 / n)])
        upper = np.block([[design, -np.eye(n)], [-design, -np.eye(n)]])
        truth = np.repeat(y[p], 5)
        bounds = [(None, None)] * 2 + [(0, None)] * (2 + n)
        best = optimize.linprog(cost, upper, np.concatenate([truth, -truth]), bounds=bounds)
        assert best.fun <= own[p] <= best.fun * (1 + 2e-3)


@pytest.mark.parametrize("members", [2, 5, 10])
def test_repairs_bias_and_spread(members: int) -> None:
    """The truth becomes as far from a member as another member is, for few members too."""
    x, y = sample(3, 6000, members)
    new = corrected(fit_coefficients(x, y), x)
    error = new.mean(axis=-1) - y
    assert abs(error.mean()) < 0.05
    variance, wanted = new.var(axis=-1, ddof=1).mean(), (error**2).mean() * members / (members + 1)
    assert variance == pytest.approx(wanted, rel=0.12)  # the raw ensemble has a quarter
    if members > 2:  # two are never close together, as their difference is at least d
        assert np.mean(y > new.max(axis=-1)) == pytest.approx(1 / (members + 1), abs=0.03)
    assert (score(new, y) < score(x, y)).all()


def test_keeps_the_order_of_the_members_and_identical_ones() -> None:
    x, y = sample(2, 50)
    found = fit_coefficients(x, y)
    assert (found.c >= 0).all()
    assert (found.d >= 0).all()
    np.testing.assert_array_equal(corrected(found, x).argsort(axis=-1), x.argsort(axis=-1))
    x[0, :10] = x[0, :10, :1]
    again = fit_coefficients(x, y)
    assert all(np.isfinite(part).all() for part in again[:4])


@pytest.mark.parametrize("dates", [1, 3, 10])
def test_few_dates_do_better_than_no_correction(dates: int) -> None:
    bias = np.random.default_rng(8).normal(0, 3, (500, 1))
    found = fit_coefficients(*sample(500, dates, seed=5, bias=bias))
    x, y = sample(500, 40, seed=6, bias=bias)
    assert score(corrected(found, x), y).mean() < 0.8 * score(x, y).mean()


def test_prior_gaps_and_pool() -> None:
    x, y = sample(30, 400, bias=np.linspace(-2, 2, 30)[:, None])
    free, pulled = (score(corrected(fit_coefficients(x, y, prior=p), x), y) for p in (0.0, 2.0))
    assert (pulled / free - 1 < 2e-3).all()
    one = fit_coefficients(x, y, pool=True)
    assert np.ptp(one.b) == np.ptp(one.a) == 0
    y[0, 5:] = np.nan
    y[1, ::2] = np.nan
    x[2, 3, 1] = np.nan
    few = fit_coefficients(x, y, least=10)
    assert few.pooled == 1
    assert few.b[0] == pytest.approx(fit_coefficients(x, y, pool=True).b[0])
    whole = fit_coefficients(x[1:2, 1::2], y[1:2, 1::2], prior=0.0)
    assert fit_coefficients(x, y, prior=0.0).c[1] == pytest.approx(whole.c[0], rel=1e-2)


def test_units_do_not_matter() -> None:
    x, y = sample(3, 40)
    one, big = fit_coefficients(x, y), fit_coefficients(x * 1e4, y * 1e4)
    np.testing.assert_allclose(big.b, one.b, rtol=1e-6)
    np.testing.assert_allclose(big.c, one.c, rtol=1e-6)
    np.testing.assert_allclose(big.d, one.d * 1e4, rtol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    x, y = sample(2, 10)
    for bad in (x[:, :5], x[..., :1]):
        with pytest.raises(InputError, match="do not fit"):
            fit_coefficients(bad, y)
    with pytest.raises(InputError, match="no date has both"):
        fit_coefficients(x, np.full_like(y, np.nan))
