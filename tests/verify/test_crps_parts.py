"""Decompositions of the CRPS."""

from __future__ import annotations

import numpy as np
import properscoring
import pytest
import xarray as xr
from verify_sample import arrays, ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import crps_parts
from weatherpp.verify.weights import grid_weights


@pytest.mark.parametrize("part", [crps_parts.hersbach, crps_parts.isotonic])
@pytest.mark.parametrize("members", [1, 2, 7])
def test_parts_add_up_to_the_score_of_properscoring(part, members: int) -> None:
    dist, truth = ensemble(members, times=8)
    x, y = arrays(dist, truth)
    weights = grid_weights(truth)
    w = np.broadcast_to(weights.values[:, None], y.shape)
    score = properscoring.crps_ensemble(y, x)
    for own, weight in ((None, None), (weights, w)):
        found = part(dist, truth, own)
        assert found.score == pytest.approx(np.average(score, weights=weight), rel=1e-9)
        assert found.reliability - found.resolution + found.uncertainty == pytest.approx(
            found.score
        )
        # the CRPS of all observations as one ensemble for each of them
        flat, share = y.ravel(), None if weight is None else w.ravel()
        climate = [np.average(abs(flat - each), weights=share) for each in flat]
        half = np.average(climate, weights=share) / 2
        assert found.uncertainty == pytest.approx(half, rel=1e-9)


def test_one_case_by_hand() -> None:
    # Hersbach's intervals: 1 of width 2 is met half way, outliers none
    value = xr.DataArray([[0.0, 2.0]], dims=("station", "number"))
    found = crps_parts.hersbach(distribution.members(value), xr.DataArray([1.0], dims="station"))
    # g = 2, o = 1/2, p = 1/2: no reliability part; potential 2 * 1/4
    assert found.reliability == pytest.approx(0)
    assert found.score == pytest.approx(0.5)
    outlier = crps_parts.hersbach(distribution.members(value), xr.DataArray([3.0], dims="station"))
    # interval inside: g = 2, o = 0, p = 1/2; above: g = 1, o = 0, p = 1
    assert outlier.reliability == pytest.approx(2 / 4 + 1)
    assert outlier.score == pytest.approx(1.5)


def test_reliability_tells_a_bias_and_a_lack_of_spread() -> None:
    dist, truth = ensemble(members=20, times=40)
    centre = dist["value"].mean("number")
    narrow = dist.assign(value=centre + 0.3 * (dist["value"] - centre))
    for part, sample in ((crps_parts.hersbach, 40), (crps_parts.isotonic, 10)):
        cut = slice(0, sample)
        right = part(dist.isel(time=cut), truth.isel(time=cut))
        for wrong in (dist + 2.0, narrow):
            wrong.attrs = dist.attrs
            found = part(wrong.isel(time=cut), truth.isel(time=cut))
            assert found.reliability > right.reliability
            assert found.uncertainty == pytest.approx(right.uncertainty)
    assert crps_parts.hersbach(dist, truth).reliability < 0.02


def test_gaps_and_size() -> None:
    dist, truth = ensemble(times=4)
    gap = dist.where((dist["number"] != 1) | (dist["time"] != dist["time"][0]))
    for part in (crps_parts.hersbach, crps_parts.isotonic):
        with pytest.raises(InputError, match=r"12 of 48 pairs.*'omit'"):
            part(gap, truth)
        rest = part(dist.isel(time=slice(1, None)), truth.isel(time=slice(1, None)))
        assert part(gap, truth, nan_policy="omit")[:4] == pytest.approx(rest[:4])
        with pytest.raises(InputError, match="no pair is left"):
            part(dist.where(False), truth, nan_policy="omit")
    many = ensemble(members=50, times=100)
    with pytest.raises(InputError, match=r"take about 62[0-9] of them"):
        crps_parts.isotonic(*many)
