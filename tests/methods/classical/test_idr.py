"""Isotonic distributional regression against other implementations of its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from weatherpp.errors import InputError
from weatherpp.methods.classical.idr import quantile_levels, regress
from weatherpp.verify.kernels import crps_ensemble

LEVELS = quantile_levels(7)


def exact_cdf(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds and distribution functions (at, thresholds), threshold by threshold by scipy."""
    distinct, group = np.unique(x, return_inverse=True)
    weight = np.bincount(group)
    thresholds = np.unique(y)
    rows = []
    for z in thresholds:
        share = np.bincount(group, y <= z) / weight
        fit = optimize.isotonic_regression(share, weights=weight, increasing=False).x
        rows.append(np.interp(at, distinct, fit))
    return thresholds, np.array(rows).T


def exact_quantiles(x: np.ndarray, y: np.ndarray, at: np.ndarray, levels: np.ndarray) -> np.ndarray:
    thresholds, cdf = exact_cdf(x, y, at)
    first = (cdf[:, None, :] >= levels[:, None] - 1e-12).argmax(axis=-1)
    return thresholds[first]


def sample(pairs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, pairs)
    return x, rng.gamma(np.sqrt(x) + 0.1, np.clip(x, 1, 6))  # the gamma example of the paper


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(-4, 4)), min_size=1, max_size=25),
    st.lists(st.floats(-2, 8), min_size=1, max_size=5),
)
def test_agrees_with_isotonic_regression_of_scipy(pairs, at) -> None:
    """Ties in predictor and truth, predictors between and beyond the training ones."""
    x, y = np.array(pairs, float).T
    found = regress(x[None], y[None], np.array(at)[None], LEVELS)[0]
    np.testing.assert_array_equal(found, exact_quantiles(x, y, np.array(at), LEVELS))


def test_has_the_least_crps_of_all_ordered_distributions() -> None:
    """Against a general optimiser on a sample small enough for it."""
    rng = np.random.default_rng(2)
    x, y = np.arange(6.0), np.sort(rng.normal(size=6))[[1, 0, 2, 5, 3, 4]]
    thresholds, cdf = exact_cdf(x, y, x)
    width = np.diff(thresholds)

    def crps(flat: np.ndarray) -> float:
        steps = flat.reshape(6, -1)
        return float((((steps - (y[:, None] <= thresholds[:-1])) ** 2) * width).sum())

    count = 6 * width.size
    order = [
        {"type": "ineq", "fun": lambda f: (f.reshape(6, -1)[:-1] - f.reshape(6, -1)[1:]).ravel()},
        {"type": "ineq", "fun": lambda f: np.diff(f.reshape(6, -1), axis=1).ravel()},
    ]
    best = optimize.minimize(
        crps, np.full(count, 0.5), method="SLSQP", bounds=[(0, 1)] * count, constraints=order
    )
    assert best.success
    assert crps(cdf[:, :-1].ravel()) == pytest.approx(best.fun, abs=1e-5)


def test_a_hundred_quantiles_lose_little_of_the_distribution() -> None:
    x, y = sample(400)
    at, truth = sample(300, seed=1)
    thresholds, cdf = exact_cdf(x, y, at)
    edges = np.concatenate([thresholds, [np.inf]])
    exact = np.zeros(at.size)
    for i, z in enumerate(truth):
        inside = np.clip(z, edges[:-1], edges[1:])  # each step cut in two where the truth lies
        with np.errstate(invalid="ignore"):
            above = np.nan_to_num((edges[1:] - inside) * (1 - cdf[i]) ** 2, posinf=0.0)
        exact[i] = ((inside - edges[:-1]) * cdf[i] ** 2 + above).sum() + max(edges[0] - z, 0)
    levels = quantile_levels(100)
    found = regress(x[None], y[None], at[None], levels)[0]
    given_up = crps_ensemble(found.T, truth, "plain").mean() / exact.mean() - 1
    assert abs(given_up) < 1e-3
    coarse = regress(x[None], y[None], at[None], quantile_levels(10))[0]
    assert crps_ensemble(coarse.T, truth, "plain").mean() > exact.mean()


def test_order_gaps_and_units() -> None:
    x, y = sample(200)
    at = np.sort(np.random.default_rng(4).uniform(-1, 11, 50))
    both = regress(np.tile(x, (2, 1)), np.tile(y, (2, 1)), np.tile(at, (2, 1)), LEVELS)
    assert (np.diff(both, axis=1) >= 0).all()  # rises with the predictor
    assert (np.diff(both, axis=2) >= 0).all()  # and with the level
    gaps = np.concatenate([x, [np.nan, 3.0]]), np.concatenate([y, [1.0, np.nan]])
    with_nan = np.concatenate([at, [np.nan]])
    found = regress(gaps[0][None], gaps[1][None], with_nan[None], LEVELS)
    np.testing.assert_array_equal(found[0, :-1], both[0])
    assert np.isnan(found[0, -1]).all()
    scaled = regress(1e3 * x[None] + 7, 10 * y[None], 1e3 * at[None] + 7, LEVELS)
    np.testing.assert_allclose(scaled[0], 10 * both[0])


def test_what_does_not_fit_is_refused() -> None:
    x, y = sample(10)
    with pytest.raises(InputError, match="do not fit"):
        regress(x[None], y[None, :5], x[None], LEVELS)
    with pytest.raises(InputError, match="no pair"):
        regress(x[None], np.full((1, 10), np.nan), x[None], LEVELS)
