"""The families of distributions against scipy, scoringrules and plain integration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scoringrules
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from weatherpp.families import FAMILIES
from weatherpp.families.base import differences
from weatherpp.families.logistic import fermi2, fermi4

CASES = {  # parameters in the family's order
    "normal": [(3.0, 2.0), (-1.0, 0.3)],
    "logistic": [(3.0, 2.0), (-1.0, 0.3)],
    "truncated-normal": [(3.0, 2.0), (-1.0, 1.3), (8.0, 0.5)],
    "log-normal": [(3.0, 0.5), (0.2, 1.1)],
    "censored-logistic": [(3.0, 2.0), (-1.0, 0.7), (8.0, 0.5)],
    "squared-censored-logistic": [(1.5, 0.5), (-1.0, 0.7), (4.0, 0.2)],
    "censored-shifted-gamma": [(3.0, 0.7, 0.4), (0.5, 4.0, 1.0), (1.0, 2.0, 1e-3)],
}
EACH = [(name, p) for name, cases in CASES.items() for p in cases]
VALUES = np.array([0.0, 0.05, 0.8, 2.5, 7.0, 19.0])


def args(p: tuple[float, ...]) -> list[np.ndarray]:
    return [np.asarray(value) for value in p]


def sample(name: str, p: tuple[float, ...]) -> stats.rv_continuous:
    """The uncensored distribution behind a family, frozen in scipy."""
    return {
        "normal": lambda: stats.norm(*p),
        "logistic": lambda: stats.logistic(*p),
        "truncated-normal": lambda: stats.truncnorm(-p[0] / p[1], np.inf, *p),
        "log-normal": lambda: stats.lognorm(p[1], scale=p[0]),
        "censored-logistic": lambda: stats.logistic(*p),
        "squared-censored-logistic": lambda: stats.logistic(*p),
        "censored-shifted-gamma": lambda: stats.gamma(p[1], -p[2], p[0]),
    }[name]()


@pytest.mark.parametrize(("name", "p"), EACH)
def test_distribution_functions_are_scipys(name: str, p: tuple[float, ...]) -> None:
    family, known = FAMILIES[name], sample(name, p)
    at = np.sqrt(VALUES) if name.startswith("squared") else VALUES
    np.testing.assert_allclose(family.cdf(VALUES, *args(p)), known.cdf(at), rtol=1e-9, atol=1e-13)
    level = np.array([0.01, 0.3, 0.5, 0.9, 0.999])
    value = known.ppf(level)
    if family.floor == 0:
        value = np.maximum(value, 0)
        assert family.cdf(np.array(-0.1), *args(p)) == 0
    if name.startswith("squared"):
        value = value**2
    np.testing.assert_allclose(family.ppf(level, *args(p)), value, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("name", "p"), EACH)
def test_moments_are_integrals_of_the_quantiles(name: str, p: tuple[float, ...]) -> None:
    family = FAMILIES[name]

    def moment(power: int) -> float:
        def part(level: float) -> float:
            return float(family.ppf(np.asarray(level), *args(p))) ** power

        return sum(
            integrate.quad(part, a, b, limit=400)[0]
            for a, b in ((0, 0.5), (0.5, 0.999), (0.999, 1))
        )

    mean = moment(1)
    assert float(family.mean(*args(p))) == pytest.approx(mean, rel=1e-5)
    assert float(family.sd(*args(p))) == pytest.approx(np.sqrt(moment(2) - mean**2), rel=1e-4)


@pytest.mark.parametrize(("name", "p"), EACH)
def test_crps_is_the_integral_of_the_squared_difference(name: str, p: tuple[float, ...]) -> None:
    family = FAMILIES[name]
    low = float(family.ppf(np.asarray(1e-13), *args(p)))
    high = float(family.ppf(np.asarray(1 - 1e-13), *args(p)))
    for y in (-0.7, *VALUES):
        edges = np.unique([min(low, y), low, y, float(family.ppf(np.asarray(0.5), *args(p))), high])
        edges = np.append(edges[edges < y], [y, *edges[edges > y]])
        total = 0.0
        for a, b in itertools.pairwise(edges):
            if b > a:
                beyond = float((a + b) / 2 >= y)
                total += integrate.quad(
                    lambda x, beyond=beyond: (
                        (float(family.cdf(np.asarray(x), *args(p))) - beyond) ** 2
                    ),
                    a,
                    b,
                    limit=200,
                )[0]
        assert float(family.crps(np.asarray(y), *args(p))) == pytest.approx(
            total, rel=1e-6, abs=1e-8
        )


def test_closed_forms_agree_with_scoringrules() -> None:
    for name, known in (
        ("normal", scoringrules.crps_normal),
        ("logistic", scoringrules.crps_logistic),
        ("truncated-normal", lambda y, m, s: scoringrules.crps_tnormal(y, m, s, 0.0)),
        ("log-normal", lambda y, m, s: scoringrules.crps_lognormal(y, np.log(m), s)),
        (
            "censored-shifted-gamma",
            lambda y, s, k, d: scoringrules.crps_csg0(y, k, scale=s, shift=d),
        ),
        # with an upper limit, as scoringrules 0.10 gives NaN without
        ("censored-logistic", lambda y, m, s: scoringrules.crps_clogistic(y, m, s, 0.0, 99.0)),
    ):
        for p in CASES[name]:
            y = VALUES[1:]
            np.testing.assert_allclose(FAMILIES[name].crps(y, *args(p)), known(y, *p), rtol=1e-8)


@pytest.mark.parametrize(("name", "p"), EACH)
def test_slopes_are_those_of_the_scores(name: str, p: tuple[float, ...]) -> None:
    family = FAMILIES[name]
    numeric = differences(family.crps, VALUES, *args(p))
    for own, known in zip(family.crps_slopes(VALUES, *args(p)), numeric, strict=True):
        np.testing.assert_allclose(own, known, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("name", "p"), EACH)
def test_log_score_is_that_of_density_and_mass(name: str, p: tuple[float, ...]) -> None:
    family = FAMILIES[name]
    at, step = VALUES[1:], 1e-5
    density = (family.cdf(at + step, *args(p)) - family.cdf(at - step, *args(p))) / (2 * step)
    seen = density > 1e-7
    np.testing.assert_allclose(
        family.log_score(at, *args(p))[seen], -np.log(density[seen]), rtol=1e-4, atol=1e-4
    )
    if family.mass_at_floor:
        mass = family.cdf(np.asarray(0.0), *args(p))
        assert family.log_score(np.asarray(0.0), *args(p)) == pytest.approx(-np.log(mass))
        lower, upper = family.pit(np.array([0.0, 1.0]), *args(p))
        assert lower[0] == 0
        assert upper[0] == mass
        assert lower[1] == upper[1]


@pytest.mark.parametrize("name", sorted(CASES))
def test_nan_is_never_lost(name: str) -> None:
    family, p = FAMILIES[name], args(CASES[name][0])
    assert np.isnan(family.crps(np.array([np.nan]), *p)).all()
    for i in range(len(p)):
        bad = [np.array([np.nan]) if i == j else value for j, value in enumerate(p)]
        results = [family.cdf(VALUES[:1], *bad), family.crps(VALUES[:1], *bad)]
        results += [family.pit(VALUES[:1], *bad)[0], family.crps(np.array([-1.0]), *bad)]
        assert np.isnan(results).all()


@given(st.floats(-60, -3), st.floats(0.1, 3))
def test_truncated_normal_far_below_zero_is_nearly_exponential(a: float, scale: float) -> None:
    family, p = FAMILIES["truncated-normal"], args((a * scale, scale))
    mean = float(family.mean(*p))
    assert 0 < mean < scale / -a
    assert float(family.ppf(np.asarray(0.5), *p)) == pytest.approx(mean * np.log(2), rel=0.25)
    score = float(family.crps(np.asarray(mean), *p))
    exponential = float(scoringrules.crps_exponential(mean, 1 / mean))
    assert score == pytest.approx(exponential, rel=0.15)


def test_fermi_integrals() -> None:
    z = np.array([-9.0, -1.0, 0.0, 0.5, 4.0, 30.0])
    assert fermi2(np.array(0.0)) == pytest.approx(np.pi**2 / 12)
    assert fermi4(np.array(0.0)) == pytest.approx(7 * np.pi**4 / 720)
    for values, power in ((fermi2(z), 1), (fermi4(z), 3)):
        for at, value in zip(z, values, strict=True):

            def part(t: float, at: float = at, power: int = power) -> float:
                return t**power / (1 + np.exp(t - at))

            known = integrate.quad(part, 0, max(at, 0) + 60)[0]
            assert value == pytest.approx(known / special.factorial(power), rel=1e-7)
