"""The three forms of a predictive distribution agree with scipy and with each other."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from weatherpp import distribution
from weatherpp.errors import InputError


def field(values: object, dims: tuple[str, ...] = ("x",)) -> xr.DataArray:
    return xr.DataArray(np.asarray(values, np.float32), dims=dims, attrs={"units": "K"})


def ensemble(seed: int = 1, count: int = 2000) -> xr.DataArray:
    rng = np.random.default_rng(seed)
    return field(280 + 3 * rng.standard_normal((count, 4)), ("number", "x"))


@given(st.floats(-50, 50), st.floats(0.01, 20), st.floats(-60, 60))
def test_normal_quantiles_and_probabilities_are_scipys(mean: float, sd: float, at: float) -> None:
    ds = distribution.normal(field([mean]), field([sd]))
    mu, sigma = float(ds["mean"][0]), float(ds["spread"][0])
    levels = [0.05, 0.5, 0.9]
    np.testing.assert_allclose(
        distribution.quantile(ds, levels)[:, 0],
        stats.norm.ppf(levels, mu, sigma),
        rtol=1e-5,
        atol=1e-4,
    )
    np.testing.assert_allclose(
        distribution.exceedance(ds, at)[0], stats.norm.sf(at, mu, sigma), atol=1e-6
    )


def test_forms_agree_on_a_large_ensemble() -> None:
    value = ensemble()
    members = distribution.members(value)
    normal = distribution.normal(distribution.mean(members), distribution.spread(members))
    levels = list(np.arange(0.01, 1, 0.01))
    quantiles = distribution.quantiles(distribution.quantile(members, levels))
    for ds in (normal, quantiles):
        np.testing.assert_allclose(distribution.mean(ds), 280, atol=0.3)
        np.testing.assert_allclose(distribution.spread(ds), 3, atol=0.3)
        np.testing.assert_allclose(
            distribution.exceedance(ds, 282), distribution.exceedance(members, 282), atol=0.03
        )


def test_sums_of_float32_near_280_kelvin_are_exact() -> None:
    value = ensemble(count=10)
    exact = value.values.astype(np.float64)
    ds = distribution.members(value)
    np.testing.assert_array_equal(distribution.mean(ds), exact.mean(0).astype(np.float32))
    np.testing.assert_array_equal(distribution.spread(ds), exact.std(0, ddof=1).astype(np.float32))
    assert distribution.mean(ds).dtype == np.float32


def test_nan_member_is_never_skipped() -> None:
    value = ensemble(count=5)
    value[2, 1] = np.nan
    ds = distribution.members(value)
    results = [
        distribution.mean(ds),
        distribution.spread(ds),
        distribution.quantile(ds, [0.5])[0],
        distribution.exceedance(ds, 280),
    ]
    for result in results:
        np.testing.assert_array_equal(np.isnan(result), [False, True, False, False])


def test_zero_spread_gives_certainty() -> None:
    ds = distribution.normal(field([280, 280]), field([0, 0]))
    assert distribution.exceedance(ds, 279).values.tolist() == [1, 1]
    assert distribution.exceedance(ds, 281).values.tolist() == [0, 0]


def test_one_member_has_no_spread() -> None:
    with pytest.raises(InputError, match="at least two members"):
        distribution.spread(distribution.members(ensemble(count=1)))


@pytest.mark.parametrize(
    ("ds", "words"),
    [
        (xr.Dataset(), "attribute 'distribution' is None"),
        (xr.Dataset(attrs={"distribution": "gamma"}), "'gamma'"),
        (xr.Dataset({"mean": field([1])}, attrs={"distribution": "normal"}), "lacks .* spread"),
    ],
)
def test_unknown_or_damaged_forms(ds: xr.Dataset, words: str) -> None:
    with pytest.raises(InputError, match=words):
        distribution.form_of(ds)


CSG = {"scale": field([3.0, 1.0]), "shape": field([0.7, 2.0]), "shift": field([0.4, 0.1])}
ROOT = {"location": field([1.5, -0.5]), "scale": field([0.5, 0.7])}


def rain() -> xr.DataArray:
    attrs = {"units": "m", "long_name": "precipitation", "standard_name": "rain"}
    return field([0, 0]).assign_attrs(attrs)


@pytest.mark.parametrize(
    ("family", "parameters", "draw"),
    [
        (
            "censored-shifted-gamma",
            CSG,
            lambda rng, i: rng.gamma([0.7, 2.0][i], [3.0, 1.0][i], 200_000) - [0.4, 0.1][i],
        ),
        (
            "squared-censored-logistic",
            ROOT,
            lambda rng, i: np.maximum(rng.logistic([1.5, -0.5][i], [0.5, 0.7][i], 200_000), 0) ** 2,
        ),
    ],
)
def test_families_agree_with_draws_from_them(family, parameters, draw) -> None:
    ds = distribution.parametric(family, parameters, rain(), variable="tp")
    assert distribution.form_of(ds) == family
    rng = np.random.default_rng(1)
    drawn = np.maximum(np.stack([draw(rng, i) for i in range(2)]), 0)
    mean, spread = distribution.mean(ds), distribution.spread(ds)
    np.testing.assert_allclose(mean, drawn.mean(1), rtol=0.02)
    np.testing.assert_allclose(spread, drawn.std(1), rtol=0.03)
    np.testing.assert_allclose(distribution.exceedance(ds, 0.5), (drawn > 0.5).mean(1), atol=0.005)
    quantiles = distribution.quantile(ds, [0.1, 0.5, 0.95])
    assert quantiles.dims == ("quantile", "x")
    np.testing.assert_allclose(
        quantiles, np.quantile(drawn, [0.1, 0.5, 0.95], axis=1), rtol=0.03, atol=0.01
    )
    for out in (mean, spread, quantiles):
        assert out.dtype == np.float32
        assert out.attrs == {"units": "m", "long_name": "precipitation"}


def test_parameters_of_families_tell_their_own_units() -> None:
    csg = distribution.parametric("censored-shifted-gamma", CSG, rain())
    assert [csg[name].attrs["units"] for name in CSG] == ["m", "1", "m"]
    root = distribution.parametric("squared-censored-logistic", ROOT, rain())
    assert root["location"].attrs == {"units": "(m)0.5", "long_name": "location of precipitation"}


def test_families_stay_lazy() -> None:
    lazy = {name: part.chunk({"x": 1}) for name, part in CSG.items()}
    ds = distribution.parametric("censored-shifted-gamma", lazy, rain())
    whole = distribution.parametric("censored-shifted-gamma", CSG, rain())
    for function in (
        distribution.mean,
        distribution.spread,
        lambda d: distribution.quantile(d, [0.2, 0.9]),
        lambda d: distribution.exceedance(d, 1.0),
    ):
        out = function(ds)
        assert out.chunks is not None
        xr.testing.assert_allclose(out.compute(), function(whole))
