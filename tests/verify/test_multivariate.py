"""Energy and variogram scores against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from verify_sample import arrays, ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import multivariate, scores
from weatherpp.verify.weights import grid_weights

OVER = ("latitude", "longitude")


def test_energy_score_by_its_formula() -> None:
    dist, truth = ensemble(members=5, times=3)
    x, y = arrays(dist, truth)
    weights = grid_weights(truth)
    w = np.broadcast_to(weights.values[:, None], (3, 4))
    for estimator, pairs in (("plain", 25), ("fair", 20)):
        for own, weight in ((None, np.ones((3, 4))), (weights, w)):
            found = multivariate.energy_score(dist, truth, OVER, estimator, weights=own)
            for t in range(3):

                def norm(d: np.ndarray, weight=weight) -> float:
                    return float(np.sqrt((weight * d**2).sum()))  # fmt: skip

                error = np.mean([norm(x[t, ..., i] - y[t]) for i in range(5)])
                spread = sum(norm(x[t, ..., i] - x[t, ..., j]) for i in range(5) for j in range(i))
                assert float(found[t]) == pytest.approx(error - spread / pairs, rel=1e-6)
    assert found.attrs["nan_policy"] == "propagate"


def test_energy_score_of_one_value_is_the_crps() -> None:
    dist, truth = ensemble(members=4)
    wide = distribution.members(dist["value"].expand_dims(z=[0]))
    found = multivariate.energy_score(wide, truth.expand_dims(z=[0]), ("z",))
    np.testing.assert_allclose(found, scores.crps(dist, truth, "fair"), atol=1e-6)


def test_variogram_score_by_its_formula() -> None:
    dist, truth = ensemble(members=5, times=2)
    x, y = arrays(dist, truth)
    weights = grid_weights(truth)
    found = multivariate.variogram_score(dist, truth, OVER, 0.5)
    weighted = multivariate.variogram_score(dist, truth, OVER, 0.5, weights=weights)
    w = np.broadcast_to(weights.values[:, None], (3, 4)).ravel()
    for t in range(2):
        flat, seen = x[t].reshape(12, 5), y[t].ravel()
        forecast = (abs(flat[:, None] - flat[None]) ** 0.5).mean(axis=-1)
        square = (abs(seen[:, None] - seen[None]) ** 0.5 - forecast) ** 2
        assert float(found[t]) == pytest.approx(square.sum(), rel=1e-5)
        assert float(weighted[t]) == pytest.approx((np.outer(w, w) * square).sum(), rel=1e-5)
    assert found.attrs["units"] == "(K)1"


def test_lazy_gaps_and_refusals() -> None:
    dist, truth = ensemble(members=5, times=6)
    lazy = dist.chunk({"time": 2, "number": 2}), truth.chunk({"time": 2, "latitude": 1})
    for score in (multivariate.energy_score, multivariate.variogram_score):
        found = score(*lazy, OVER)
        assert found.chunks is not None
        np.testing.assert_allclose(found, score(dist, truth, OVER), rtol=1e-12)
        gap = dist.where((dist["number"] != 1) | (dist["time"] != dist["time"][2]))
        assert np.isnan(score(gap, truth, OVER)).values.tolist() == [t == 2 for t in range(6)]
        with pytest.raises(InputError, match="NaN"):
            score(gap, truth, OVER, nan_policy="raise")
        with pytest.raises(InputError, match="known: raise, propagate"):
            score(gap, truth, OVER, nan_policy="omit")
        with pytest.raises(InputError, match="two members"):
            score(dist.isel(number=[0]), truth, OVER)
        with pytest.raises(InputError, match="no dimension level"):
            score(dist, truth, ("level",))
        with pytest.raises(InputError, match="needs members"):
            score(distribution.normal(truth, xr.ones_like(truth)), truth, OVER)
