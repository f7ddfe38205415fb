"""Heads: what zero outputs give, order, units, scores."""

from __future__ import annotations

import numpy as np
import properscoring
import pytest
import torch
import xarray as xr

from weatherpp import distribution
from weatherpp.methods.neural.heads import (
    Head,
    Members,
    Normal,
    Quantiles,
    make_head,
    mean_factor,
    relative_members,
)

rng = np.random.default_rng(1)
SHAPE = (3, 4, 5)
RAW = rng.normal(size=(3, 6, 4, 5))
SPREAD = rng.uniform(0.5, 2, SHAPE)
BASE = {
    "mean": rng.normal(280, 5, SHAPE),
    "spread": SPREAD,
    "members": relative_members(RAW, mean_factor(RAW, SPREAD), SPREAD),
}
LIKE = xr.DataArray(
    np.zeros(SHAPE, np.float32), dims=("time", "latitude", "longitude"), attrs={"units": "K"}
)
HEADS: dict[str, Head] = {"normal": Normal(), "quantiles": Quantiles(21), "members": Members(0.95)}


def outputs(head: Head) -> int:
    return head.outputs or RAW.shape[1]


@pytest.mark.parametrize("name", HEADS)
def test_zero_output_is_the_base(name: str) -> None:
    head = HEADS[name]
    result = head.result(np.zeros((3, outputs(head), 4, 5)), BASE, LIKE, target="t850")
    assert distribution.form_of(result) == name
    assert result.attrs["target"] == "t850"
    assert distribution.mean(result).attrs["units"] == "K"
    np.testing.assert_allclose(distribution.mean(result), BASE["mean"], rtol=1e-6)
    spread, expected = distribution.spread(result).values, SPREAD
    if name == "members":  # of the dates together
        spread, expected = ((each**2).mean(axis=0) for each in (spread, expected))
    # 21 levels leave out the tails of a normal distribution
    rtol = 0.06 if name == "quantiles" else 1e-4
    np.testing.assert_allclose(spread, expected, rtol=rtol)


def test_members_that_are_all_alike_stay_so() -> None:
    same = np.repeat(RAW[:, :1], 6, axis=1)
    factor = mean_factor(same, SPREAD)
    np.testing.assert_array_equal(factor, 1)
    np.testing.assert_allclose(relative_members(same, factor, SPREAD), 0, atol=1e-12)


def test_dates_with_gaps_do_not_take_part_in_the_factor() -> None:
    gap, spread = RAW.copy(), SPREAD.copy()
    gap[0, 2, 1, 1] = np.nan
    spread[1, 1, 1] = np.nan
    factor = mean_factor(gap, spread)
    np.testing.assert_allclose(factor[1, 1], mean_factor(RAW[2:], SPREAD[2:])[1, 1])
    np.testing.assert_allclose(np.delete(factor, 6), np.delete(mean_factor(RAW, SPREAD), 6))


def test_members_keep_the_order_of_the_raw_ones() -> None:
    result = Members(1.0).result(np.zeros((3, 6, 4, 5)), BASE, LIKE)
    np.testing.assert_array_equal(result["value"].argsort(1), RAW.argsort(1))


def test_quantiles_cannot_cross() -> None:
    output = torch.from_numpy(rng.normal(0, 30, (2, 9, 3, 3)))
    values = Quantiles(9).values(output, {})
    assert bool((values.diff(dim=1) > 0).all())
    torch.testing.assert_close(values[:, 4], output[:, 0])


def test_even_number_of_quantiles_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        make_head("quantiles", 4, 1.0)


@pytest.mark.parametrize("name", HEADS)
def test_scores(name: str) -> None:
    """CRPS in units of the base, times its spread, is that of the result."""
    head = HEADS[name]
    output = 0.3 * rng.normal(size=(3, outputs(head), 4, 5))
    goal = rng.normal(size=SHAPE)
    batch = {key: torch.from_numpy(value) for key, value in BASE.items()}
    far = torch.full(SHAPE, 50.0, dtype=torch.float64)
    batch |= {"goal": torch.from_numpy(goal), "upper": far, "lower": -far}
    ours = head.crps(torch.from_numpy(output), batch).numpy() * BASE["spread"]
    truth = BASE["mean"] + BASE["spread"] * goal
    like = LIKE.astype(np.float64)
    result = head.result(output, BASE, like)
    if name == "normal":
        expected = properscoring.crps_gaussian(truth, result["mean"], result["spread"])
    elif name == "members":
        values = result["value"].values
        plain = properscoring.crps_ensemble(truth, values, axis=1)
        # the fair score counts distances between different members only
        distances = np.abs(values[:, :, None] - values[:, None]).sum((1, 2)) / 2
        expected = plain - 0.95 * distances * (1 / (6 * 5) - 1 / 6**2)
    else:
        over = truth[:, None] - result["value"].values
        level = result["quantile"].values[:, None, None]
        expected = 2 * np.maximum(level * over, (level - 1) * over).mean(1)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-9)
    # nothing lies beyond thresholds that are far away, and everything beyond equal ones
    assert float(head.tail(torch.from_numpy(output), batch).abs().max()) < 1e-9
    both = {**batch, "upper": 0 * far, "lower": 0 * far}
    torch.testing.assert_close(
        head.tail(torch.from_numpy(output), both), head.crps(torch.from_numpy(output), batch)
    )
