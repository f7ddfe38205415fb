"""The CRPS kernels against other libraries and against what must hold."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import properscoring
import pytest
import scoringrules
import xarray as xr
import xskillscore
from hypothesis import given, settings
from hypothesis import strategies as st

from weatherpp.errors import InputError
from weatherpp.verify.kernels import crps_ensemble, crps_normal


def sample(m: int, shape: tuple[int, ...] = (7, 300), seed: int = 0, dtype: str = "f4"):
    rng = np.random.default_rng(seed)
    members = rng.normal(280, 3, (m, *shape)).astype(dtype)
    return members, rng.normal(280, 3, shape).astype(dtype)


@pytest.mark.parametrize("m", [1, 2, 5, 10, 50, 97, 600])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_plain_equals_properscoring(m: int, dtype: str) -> None:
    members, obs = sample(m, dtype=dtype)
    wide = members.astype(float)
    expected = properscoring.crps_ensemble(obs.astype(float), wide, axis=0)
    np.testing.assert_allclose(crps_ensemble(members, obs, "plain"), expected, atol=1e-6)


@pytest.mark.parametrize("m", [2, 5, 10, 50, 97])
@pytest.mark.parametrize(("own", "other"), [("plain", "nrg"), ("fair", "fair"), ("fair", "pwm")])
def test_equals_scoringrules(m: int, own, other: str) -> None:
    members, obs = sample(m, dtype="f8")
    expected = scoringrules.crps_ensemble(obs, members, m_axis=0, estimator=other, backend="numpy")
    np.testing.assert_allclose(crps_ensemble(members, obs, own), expected, rtol=1e-9, atol=1e-10)


def test_equals_xskillscore() -> None:
    members, obs = sample(6, dtype="f8")
    expected = xskillscore.crps_ensemble(
        xr.DataArray(obs, dims=("y", "x")),
        xr.DataArray(members, dims=("member", "y", "x")),
        dim=[],
    )
    np.testing.assert_allclose(crps_ensemble(members, obs, "plain"), expected, rtol=1e-10)


@pytest.mark.parametrize("m", [5, 50, 120])
def test_float32_near_280_loses_nothing(m: int) -> None:
    members, obs = sample(m)
    exact = crps_ensemble(members.astype(float), obs.astype(float), "fair")
    np.testing.assert_allclose(crps_ensemble(members, obs, "fair"), exact, rtol=0, atol=3e-6)


@pytest.mark.parametrize("m", [2, 3, 17, 64])
def test_sort_equals_network(m: int) -> None:
    members, obs = sample(m, dtype="f8")
    for estimator in ("plain", "fair"):
        network, by_sort = (
            crps_ensemble(members, obs, estimator, method=method) for method in ("network", "sort")
        )
        np.testing.assert_allclose(network, by_sort, rtol=1e-9, atol=1e-11)


@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(2, 12),
    shift=st.floats(-300, 300),
    scale=st.floats(0.01, 100),
    estimator=st.sampled_from(["plain", "fair"]),
)
@settings(deadline=None, max_examples=40)
def test_invariances(seed: int, m: int, shift: float, scale: float, estimator) -> None:
    rng = np.random.default_rng(seed)
    members, obs = rng.normal(size=(m, 30)), rng.normal(size=30)
    score = crps_ensemble(members, obs, estimator)
    moved = crps_ensemble(members + shift, obs + shift, estimator)
    scaled = crps_ensemble(members * scale, obs * scale, estimator)
    mixed = crps_ensemble(rng.permutation(members), obs, estimator)
    np.testing.assert_allclose(mixed, score, atol=1e-12)
    np.testing.assert_allclose(moved, score, atol=1e-10)
    np.testing.assert_allclose(scaled, score * scale, rtol=1e-9, atol=1e-12 * scale)


def test_fair_does_not_depend_on_the_number_of_members_and_plain_does() -> None:
    rng = np.random.default_rng(3)
    obs = rng.normal(size=40_000)
    means = {}
    for m in (2, 5, 20):
        members = rng.normal(size=(m, obs.size))
        means[m] = {e: crps_ensemble(members, obs, e).mean() for e in ("plain", "fair")}
    exact = 1 / np.sqrt(np.pi)  # of N(0, 1) against N(0, 1)
    for m, score in means.items():
        assert score["fair"] == pytest.approx(exact, abs=0.012)
        assert score["plain"] == pytest.approx(exact * (1 + 1 / m), abs=0.012)


@pytest.mark.parametrize("m", [3, 600])
@pytest.mark.parametrize("estimator", ["plain", "fair"])
def test_nan_is_never_a_score(m: int, estimator) -> None:
    members, obs = sample(m, shape=(1, 6))
    obs[0, 0] = members[0, 0, 1] = members[-1, 0, 2] = np.nan
    members[:, 0, 3] = np.nan
    score = crps_ensemble(members, obs, estimator)
    assert np.isnan(score[0, :4]).all()
    assert np.isfinite(score[0, 4:]).all()


def test_one_member() -> None:
    members, obs = sample(1)
    absolute = np.abs(members[0].astype(float) - obs)
    np.testing.assert_array_equal(crps_ensemble(members, obs, "plain"), absolute)
    with pytest.raises(InputError, match=r"two members.*'plain'"):
        crps_ensemble(members, obs, "fair")


def test_any_strides_and_integers() -> None:
    members, obs = sample(4, shape=(5, 6, 7))
    moved = np.moveaxis(np.ascontiguousarray(np.moveaxis(members, 0, -1)), -1, 0)
    np.testing.assert_array_equal(crps_ensemble(moved, obs), crps_ensemble(members, obs))
    assert crps_ensemble([[1], [3]], [2]).tolist() == [0.0]
    assert crps_ensemble([1, 3], 2, "plain") == pytest.approx(0.5)


def test_wrong_shapes_and_names_are_refused() -> None:
    members, obs = sample(4)
    with pytest.raises(InputError, match="shape"):
        crps_ensemble(members, obs[:, 1:])
    with pytest.raises(InputError, match="no member"):
        crps_ensemble(members[:0], obs)
    with pytest.raises(InputError, match="known: plain, fair"):
        crps_ensemble(members, obs, "pwm")


def test_normal_equals_others() -> None:
    rng = np.random.default_rng(1)
    mean, obs = rng.normal(280, 3, (2, 1000))
    spread = rng.uniform(0.01, 5, 1000)
    score = crps_normal(mean, spread, obs)
    np.testing.assert_allclose(score, scoringrules.crps_normal(obs, mean, spread), rtol=1e-9)
    np.testing.assert_allclose(score, properscoring.crps_gaussian(obs, mean, spread), rtol=1e-9)


def test_normal_without_spread_is_the_absolute_error() -> None:
    tiny = [0.0, 5e-324, 1e-300, 1e-12]
    np.testing.assert_allclose(crps_normal(1.0, tiny, 3.5), 2.5, rtol=1e-12)
    np.testing.assert_allclose(crps_normal(1.0, tiny, 1.0), 0.0, atol=1e-12)
    assert np.isnan(crps_normal([np.nan, 1, 1], [1, np.nan, 1], [1, 1, np.nan])).all()
    with pytest.raises(InputError, match="1 spreads are negative"):
        crps_normal(0.0, [-1.0, 1.0], 0.0)


def test_import_is_light() -> None:
    code = (
        "import sys, weatherpp.verify.table, weatherpp.verify.claims; "
        "print([m for m in ('torch', 'numba', 'matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("m", [2, 3, 10])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.95, 1.0])
def test_almost_fair_is_the_mixture_of_both(m: int, alpha: float) -> None:
    members, obs = sample(m)
    fair, plain = (crps_ensemble(members, obs, e) for e in ("fair", "plain"))
    almost = crps_ensemble(members, obs, "almost-fair", alpha=alpha)
    np.testing.assert_allclose(almost, alpha * fair + (1 - alpha) * plain, atol=1e-12)
    with pytest.raises(InputError, match="alpha"):
        crps_ensemble(members, obs, "almost-fair", alpha=1.5)


@pytest.mark.parametrize("m", [5, 600])
@pytest.mark.parametrize("estimator", ["plain", "fair", "almost-fair"])
def test_omit_scores_each_point_by_the_members_it_has(m: int, estimator) -> None:
    members, obs = sample(m, shape=(3, 8))
    rng = np.random.default_rng(5)
    members[rng.random(members.shape) < 0.4] = np.nan
    members[:, 0, 0] = members[1:, 0, 1] = obs[0, 2] = np.nan
    members[0, 0, 1] = 280
    score = crps_ensemble(members, obs, estimator, nan_policy="omit")
    for at in np.ndindex(obs.shape):
        there = members[(slice(None), *at)]
        there = there[~np.isnan(there)].astype(float)
        if np.isnan(obs[at]) or there.size < (1 if estimator == "plain" else 2):
            assert np.isnan(score[at])
            continue
        own = crps_ensemble(there, float(obs[at]), estimator, method="sort")
        assert score[at] == pytest.approx(float(own), abs=1e-9)
    with pytest.raises(InputError, match=r"NaN in .* of .* points.*'omit'"):
        crps_ensemble(members, obs, estimator, nan_policy="raise")
    with pytest.raises(InputError, match="known: raise, omit, propagate"):
        crps_ensemble(members, obs, estimator, nan_policy="skip")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["network", "sort"])
def test_ties_and_no_spread(method) -> None:
    same = np.full((7, 4), 280.5, np.float32)
    obs = np.array([280.5, 281.5, 279.5, 280.5], np.float32)
    for estimator in ("plain", "fair"):
        score = crps_ensemble(same, obs, estimator, method=method)
        np.testing.assert_array_equal(score, [0, 1, 1, 0])


@pytest.mark.parametrize("m", [*range(1, 40), 50, 63, 64, 65, 100])
def test_networks_sort_whatever_comes(m: int) -> None:
    from weatherpp.verify.kernels import _network

    # a network that sorts all columns of zeros and ones sorts everything (Knuth 5.3.4)
    rng = np.random.default_rng(m)
    x = (rng.random((m, 3000)) < rng.random(3000)).astype(int)
    expected = np.sort(x, axis=0)
    for i, j in _network(m):
        x[i], x[j] = np.minimum(x[i], x[j]), np.maximum(x[i], x[j])
    np.testing.assert_array_equal(x, expected)
