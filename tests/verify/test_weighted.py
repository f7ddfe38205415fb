"""Threshold- and outcome-weighted CRPS, EECRPS."""

from __future__ import annotations

import numpy as np
import pytest
import scoringrules
import xarray as xr
from verify_sample import arrays, ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import scores, weighted


@pytest.mark.parametrize(("low", "high"), [(281.0, np.inf), (-np.inf, 279.0), (278.0, 283.0)])
@pytest.mark.parametrize(("own", "other"), [("plain", "nrg"), ("fair", "fair")])
def test_threshold_weighted_equals_scoringrules(low, high, own, other) -> None:
    dist, truth = ensemble(dtype="f8")
    x, y = arrays(dist, truth)
    found = weighted.threshold_weighted_crps(dist, truth, low, high, own)
    expected = scoringrules.twcrps_ensemble(y, x, low, high, estimator=other, backend="numpy")
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found.attrs["low"] == low
    assert found.attrs["nan_policy"] == "propagate"


def test_threshold_weighted_is_an_integral_of_brier_scores() -> None:
    dist, truth = ensemble(members=4, times=2, dtype="f8")
    x, y = arrays(dist, truth)
    z = np.linspace(281, 295, 60_001)
    cdf = (x[0, 0, 0][:, None] <= z).mean(axis=0)
    expected = np.trapezoid((cdf - (y[0, 0, 0] <= z)) ** 2, z)
    found = weighted.threshold_weighted_crps(dist, truth, 281, np.inf, "plain")
    assert float(found[0, 0, 0]) == pytest.approx(expected, abs=1e-3)


def test_threshold_weighted_parts_add_up_and_quantiles_have_it() -> None:
    dist, truth = ensemble(members=9)
    levels = (np.arange(200) + 0.5) / 200
    for each in (dist, distribution.quantiles(distribution.quantile(dist, list(levels)))):
        choice = "plain" if each is dist else None
        below = weighted.threshold_weighted_crps(each, truth, -np.inf, 280.0, choice)
        above = weighted.threshold_weighted_crps(each, truth, 280.0, np.inf, choice)
        np.testing.assert_allclose(below + above, scores.crps(each, truth, choice), atol=1e-4)
    normal = distribution.normal(truth, xr.ones_like(truth))
    with pytest.raises(InputError, match="take quantiles or members"):
        weighted.threshold_weighted_crps(normal, truth, 0)
    with pytest.raises(InputError, match="low < high"):
        weighted.threshold_weighted_crps(dist, truth, 1, 0)


def test_outcome_weighted_equals_scoringrules() -> None:
    dist, truth = ensemble(members=30, dtype="f8")
    x, y = arrays(dist, truth)
    found = weighted.outcome_weighted_crps(dist, truth, 280, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = scoringrules.owcrps_ensemble(y, x, a=280, backend="numpy")
    inside = y > 280
    some = (x > 280).any(axis=-1)
    np.testing.assert_allclose(found.values[inside & some], expected[inside & some], atol=1e-10)
    assert (found.values[~inside] == 0).all()
    assert np.isnan(found.values[inside & ~some]).all()
    everywhere = weighted.outcome_weighted_crps(dist, truth)
    np.testing.assert_allclose(everywhere, scores.crps(dist, truth, "plain"), atol=1e-10)


def test_outcome_weighted_and_gaps() -> None:
    dist, truth = ensemble(members=5, dtype="f8")
    gap = dist.where(dist["number"] != 3)
    found = weighted.outcome_weighted_crps(gap, truth, 270, nan_policy="omit")
    four = weighted.outcome_weighted_crps(dist.sel(number=[0, 1, 2, 4]), truth, 270)
    np.testing.assert_allclose(found, four, atol=1e-12)
    assert np.isnan(weighted.outcome_weighted_crps(gap, truth, 270)).all()
    with pytest.raises(InputError, match="NaN"):
        weighted.outcome_weighted_crps(gap, truth, 270, nan_policy="raise")


def test_eecrps_is_the_crps_times_the_index() -> None:
    dist, truth = ensemble()
    efi = xr.full_like(truth, -0.5, dtype=float)
    found = weighted.extreme_event_crps(dist, truth, efi, "fair")
    np.testing.assert_allclose(found, 0.5 * scores.crps(dist, truth, "fair"))
    with pytest.raises(InputError, match="between -1 and 1"):
        weighted.extreme_event_crps(dist, truth, efi * 4)
    with pytest.raises(InputError, match="differ in the coordinate 'latitude'"):
        weighted.extreme_event_crps(dist, truth, efi.assign_coords(latitude=[1.0, 2.0, 3.0]))
