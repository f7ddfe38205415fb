"""Probabilities of a yes or no: Brier decompositions, ROC, economic value, reliability."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
import xskillscore
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from verify_sample import ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import events, proper
from weatherpp.verify.weights import grid_weights


def sample(n: int = 4000, members: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities in steps of one member, and events."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, members + 1, n) / members
    return p, (rng.random(n) < p).astype(float)


@given(seed=st.integers(0, 2**32 - 1), bins=st.sampled_from([None, 1, 5, 10]))
@settings(deadline=None, max_examples=30)
def test_parts_of_the_brier_score_add_up(seed: int, bins) -> None:
    rng = np.random.default_rng(seed)
    p, o = rng.random(60).round(1), (rng.random(60) < 0.3).astype(float)
    for parts in (events.brier_decomposition(p, o, bins), events.corp_decomposition(p, o)):
        assert parts.score == pytest.approx(np.mean((p - o) ** 2))
        total = parts.reliability - parts.resolution + parts.uncertainty
        assert total == pytest.approx(parts.score, abs=1e-14)
        assert parts.uncertainty == pytest.approx(o.mean() * (1 - o.mean()))
        assert parts.reliability >= -1e-15


def test_murphy_decomposition_equals_that_of_xskillscore_s_reliability() -> None:
    p, o = sample(500, 4)
    parts = events.brier_decomposition(p, o)
    edges = np.array([-0.125, 0.125, 0.375, 0.625, 0.875, 1.125])
    diagram = xskillscore.reliability(
        xr.DataArray(o > 0, dims="case"), xr.DataArray(p, dims="case"), dim="case",
        probability_bin_edges=edges,
    )  # fmt: skip
    share, frequency = diagram["samples"].values / 500, diagram.values
    expected = share @ (np.arange(5) / 4 - frequency) ** 2
    assert parts.reliability == pytest.approx(expected)
    assert parts.resolution == pytest.approx(share @ (frequency - o.mean()) ** 2)


def test_corp_recalibrates() -> None:
    p, o = sample(20_000)
    right, wrong = events.corp_decomposition(p, o), events.corp_decomposition(p**3, o)
    assert right.reliability < 1e-3
    assert wrong.reliability > 0.01
    assert wrong.resolution == pytest.approx(right.resolution, abs=1e-12)  # the order is the same
    # pool adjacent violators by hand
    fitted = events.calibrated(np.array([0.1, 0.2, 0.3]), np.array([1.0, 0, 1]), np.ones(3) / 3)
    np.testing.assert_allclose(fitted, [0.5, 0.5, 1.0])


def test_area_under_the_roc_is_that_of_mann_and_whitney() -> None:
    p, o = sample(300)
    yes, no = p[o == 1], p[o == 0]
    expected = stats.mannwhitneyu(yes, no).statistic / (yes.size * no.size)
    curve = events.roc(p, o)
    assert curve.area == pytest.approx(expected)
    assert (curve.hit[0], curve.false_alarm[0], curve.hit[-1], curve.false_alarm[-1]) == (
        0,
        0,
        1,
        1,
    )
    assert events.roc(o, o).area == 1
    assert events.roc(np.full(300, 0.3), o).area == 0.5
    theirs = xskillscore.roc(
        xr.DataArray(o, dims="case"), xr.DataArray(p, dims="case"), np.linspace(-0.05, 1.05, 12)
    )
    assert curve.area == pytest.approx(float(theirs), abs=1e-9)
    with pytest.raises(InputError, match="one kind alone"):
        events.roc(p, np.zeros(300))


def test_economic_value() -> None:
    p, o = sample()
    ratios = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(events.economic_value(o, o, ratios), 1)
    np.testing.assert_allclose(events.economic_value(o, o, ratios, threshold="best"), 1)
    # expenses counted case by case
    for alpha, value in zip(ratios, events.economic_value(p, o, ratios), strict=True):
        protect = p >= alpha - 1e-12
        expense = np.where(protect, alpha, o).mean()
        climate = min(alpha, o.mean())
        assert value == pytest.approx((climate - expense) / (climate - alpha * o.mean()))
    own, best = events.economic_value(p, o, ratios), events.economic_value(
        p, o, ratios, threshold="best"
    )  # fmt: skip
    assert (best >= own - 1e-12).all()
    assert (best >= -1e-12).all()
    # at the base rate the value of one threshold is hit rate less false alarm rate
    curve = events.roc(p, o)
    k = int(np.argmin(abs(curve.threshold - 0.5)))
    found = events.economic_value(p, o, np.array([o.mean()]), threshold=0.5)
    assert found[0] == pytest.approx(curve.hit[k] - curve.false_alarm[k])
    with pytest.raises(InputError, match="between 0 and 1"):
        events.economic_value(p, o, np.array([1.0]))


def test_reliability_diagram_and_its_band() -> None:
    p, o = sample(5000)
    diagram = events.reliability(p, o, bins=None)
    np.testing.assert_allclose(diagram.probability, np.arange(11) / 10)
    np.testing.assert_allclose(
        diagram.frequency, [o[np.isclose(p, k / 10)].mean() for k in range(11)]
    )
    inside = (diagram.frequency >= diagram.low) & (diagram.frequency <= diagram.high)
    assert inside.mean() > 0.7
    # for one probability the band is that of the binomial distribution
    half = events.reliability(np.full(400, 0.5), np.arange(400) % 2, samples=3000)
    low, high = stats.binom.ppf([0.05, 0.95], 400, 0.5) / 400
    assert half.low[0] == pytest.approx(low, abs=0.006)
    assert half.high[0] == pytest.approx(high, abs=0.006)
    again = events.reliability(p, o, bins=None)
    np.testing.assert_array_equal(again.low, diagram.low)
    over = events.reliability(np.clip(2 * p - 0.5, 0, 1), o)
    assert ((over.frequency < over.low) | (over.frequency > over.high)).sum() > 2


def test_labelled_fields_weights_and_gaps() -> None:
    dist, truth = ensemble(members=5)
    p, event = distribution.exceedance(dist, 280.0), (truth > 280).astype(float)
    weights = grid_weights(truth)
    w = np.broadcast_to(weights.values[:, None], truth.shape)
    found = events.brier_decomposition(p, event, weights=weights)
    expected = np.average((p.values - event.values) ** 2, weights=w)
    assert found.score == pytest.approx(expected)
    score = proper.brier(dist, truth, 280.0)
    assert found.score == pytest.approx(float(score.weighted(weights).mean()))
    gap = p.where(p.time > p.time[0])
    with pytest.raises(InputError, match=r"12 of 240 pairs .*'omit'"):
        events.roc(gap, event)
    rest = events.roc(p[1:], event[1:])
    assert events.roc(gap, event, nan_policy="omit").area == pytest.approx(rest.area)
    for function in (events.roc, events.brier_decomposition, events.reliability):
        with pytest.raises(InputError, match="'time' differs"):
            function(p, event.assign_coords(time=event.time + np.timedelta64(1, "D")))
        with pytest.raises(InputError, match="no pair"):
            function(p.where(False), event, nan_policy="omit")
        with pytest.raises(InputError, match="between 0 and 1"):
            function(p + 1, event)
        with pytest.raises(InputError, match="one shape"):
            function(p.values, event.values[0])
