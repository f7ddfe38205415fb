"""Diebold-Mariano, and maps of tests; statsmodels comes with xskillscore."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import signal, stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats import multitest

from weatherpp.errors import InputError
from weatherpp.verify import significance


def scores(n: int = 120, points: int = 3, seed: int = 0, ar: float = 0.0, gain: float = 0.0):
    rng = np.random.default_rng(seed)
    noise = signal.lfilter([1], [1, -ar], rng.normal(size=(n + 50, points)), axis=0)[50:]
    coords = {"time": pd.date_range("2020-01-01", periods=n)}
    two = xr.DataArray(rng.random((n, points)) + 5, coords, ("time", "station"))
    return two + noise - gain, two


def test_without_lags_it_is_the_t_test() -> None:
    one, two = scores()
    found = significance.diebold_mariano(one, two, lags=0)
    n = one.sizes["time"]
    expected = stats.ttest_rel(one, two, axis=0)
    # the variance is divided by n, not n - 1
    np.testing.assert_allclose(found["statistic"], expected.statistic * np.sqrt(n / (n - 1)))
    hln = significance.diebold_mariano(one, two, lags=0, variance="hln")
    np.testing.assert_allclose(hln["statistic"], expected.statistic)  # its correction for h = 1
    np.testing.assert_allclose(hln["p_value"], expected.pvalue)
    np.testing.assert_allclose(found["difference"], (one - two).mean("time"))


def test_newey_west_equals_statsmodels() -> None:
    one, two = scores(ar=0.6)
    found = significance.diebold_mariano(one, two, lags=4)
    for k in range(3):
        d = (one - two).values[:, k]
        fit = OLS(d, np.ones_like(d)).fit(
            cov_type="HAC", cov_kwds={"maxlags": 4, "use_correction": False}
        )
        assert float(found["statistic"][k]) == pytest.approx(float(fit.tvalues[0]))


def test_hln_by_its_formula() -> None:
    one, two = scores(ar=0.4)
    d = (one - two).values[:, 0]
    n, h = d.size, 3
    e = d - d.mean()
    gamma = [(e[k:] * e[: n - k]).sum() / n for k in range(h)]
    plain = d.mean() / np.sqrt((gamma[0] + 2 * gamma[1] + 2 * gamma[2]) / n)
    factor = np.sqrt((n + 1 - 2 * h + h * (h - 1) / n) / n)
    found = significance.diebold_mariano(one, two, lags=h - 1, variance="hln")
    assert float(found["statistic"][0]) == pytest.approx(plain * factor)


def test_autocorrelated_scores_do_not_make_discoveries() -> None:
    one, two = scores(n=200, points=1500, ar=0.7)
    naive = significance.diebold_mariano(one, two, lags=0)["p_value"]
    allowed = significance.diebold_mariano(one, two, lags=20)["p_value"]
    assert float((naive < 0.05).mean()) > 0.3
    assert float((allowed < 0.05).mean()) < 0.16
    better, than = scores(n=200, points=50, ar=0.7, gain=2.0)
    found = significance.diebold_mariano(better, than, lags=20)
    assert (found["p_value"] < 0.01).all()
    assert (found["statistic"] < 0).all()


def test_lazy_gaps_and_refusals() -> None:
    one, two = scores()
    found = significance.diebold_mariano(one.chunk({"time": 9}), two.chunk({"station": 1}))
    assert found["p_value"].chunks is not None
    xr.testing.assert_allclose(found.compute(), significance.diebold_mariano(one, two))
    same = significance.diebold_mariano(one, one)
    np.testing.assert_array_equal(same["p_value"], 1)
    gap = one.copy(data=np.where((np.arange(3) == 1) & (np.arange(120) < 3)[:, None], np.nan, one))
    with pytest.raises(InputError, match="3 differences are NaN"):
        significance.diebold_mariano(gap, two)
    left = significance.diebold_mariano(gap, two, nan_policy="propagate")["p_value"]
    assert np.isnan(left).values.tolist() == [False, True, False]
    with pytest.raises(InputError, match="at least 8 dates"):
        significance.diebold_mariano(one[:7], two[:7])
    with pytest.raises(InputError, match="below half"):
        significance.diebold_mariano(one, two, lags=60)
    with pytest.raises(InputError, match="'time' differs"):
        significance.diebold_mariano(one, two.assign_coords(time=two.time + np.timedelta64(1, "h")))
    swing = one.copy(data=np.where(np.arange(120) % 2, 1.0, -1.0)[:, None] + np.zeros(3))
    with pytest.raises(InputError, match=r"not positive.*'newey-west'"):
        significance.diebold_mariano(swing, xr.zeros_like(one), lags=1, variance="hln")


def test_discoveries_equal_statsmodels() -> None:
    rng = np.random.default_rng(1)
    p = xr.DataArray(np.concatenate([rng.random(300), rng.random(60) * 1e-3]), dims="station")
    found = significance.discoveries(p, alpha=0.05)
    theirs = multitest.multipletests(p.values, alpha=0.1, method="fdr_bh")[0]
    np.testing.assert_array_equal(found, theirs)
    assert found.attrs["alpha_fdr"] == 0.1
    assert found.attrs["tests"] == 360
    assert (p.values[found.values] <= found.attrs["threshold"]).all()
    # points without a test do not count as tests
    wide = xr.concat([p, p * np.nan], "station")
    again = significance.discoveries(wide)
    np.testing.assert_array_equal(again[:360], found)
    assert not again[360:].any()
    # a map of chance
    chance = [
        bool(significance.discoveries(xr.DataArray(rng.random(500))).any()) for _ in range(400)
    ]
    assert np.mean(chance) == pytest.approx(0.1, abs=0.04)
    with pytest.raises(InputError, match="between 0 and 1"):
        significance.discoveries(p * np.nan)
    with pytest.raises(InputError, match=r"0 and 0.5"):
        significance.discoveries(p, alpha=0.6)
