"""Every score says how it was estimated and what was done with NaN, and lies about neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import xarray as xr
from verify_sample import ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import (
    averages,
    calibration,
    crps_parts,
    efi,
    events,
    kernels,
    multivariate,
    proper,
    scores,
    weighted,
)

DIST, TRUTH = ensemble()
NORMAL = distribution.normal(distribution.mean(DIST), distribution.spread(DIST))
GRID = ["latitude", "longitude"]
SPREAD = distribution.spread(DIST)
CLIMATE = efi.model_climate(DIST["value"])
EVENT = TRUTH > 281
PROBABILITY = distribution.exceedance(DIST, 281)

OF_MEMBERS: list[Callable[[xr.Dataset], Any]] = [
    lambda dist: multivariate.energy_score(dist, TRUTH, GRID),
    lambda dist: multivariate.variogram_score(dist, TRUTH, GRID),
    lambda dist: weighted.threshold_weighted_crps(dist, TRUTH, 280),
    lambda dist: weighted.outcome_weighted_crps(dist, TRUTH, 280),
    lambda dist: efi.extreme_forecast_index(dist, CLIMATE),
    lambda dist: efi.shift_of_tails(dist, CLIMATE),
    lambda dist: calibration.random_ranks(dist, TRUTH),
    lambda dist: crps_parts.hersbach(dist, TRUTH),
    lambda dist: crps_parts.isotonic(dist, TRUTH),
    lambda dist: events.brier_decomposition(PROBABILITY, EVENT),
    lambda dist: events.brier_decomposition(PROBABILITY, EVENT, 5),
    lambda dist: events.corp_decomposition(PROBABILITY, EVENT),
    lambda dist: events.roc(PROBABILITY, EVENT),
    lambda dist: events.reliability(PROBABILITY, EVENT, samples=5),
    lambda dist: events.economic_value(PROBABILITY, EVENT, np.array([0.2, 0.5])),
]
OF_ANY: list[Callable[[xr.Dataset], Any]] = [
    lambda dist: scores.crps(dist, TRUTH),
    lambda dist: scores.error(dist, TRUTH),
    lambda dist: scores.squared_error(dist, TRUTH),
    lambda dist: scores.variance(dist),
    lambda dist: scores.expected_squared_error(dist),
    lambda dist: scores.spread_squared_error(dist, SPREAD),
    lambda dist: averages.average(scores.crps(dist, TRUTH)),
    lambda dist: averages.bias(dist, TRUTH),
    lambda dist: averages.mae(dist, TRUTH),
    lambda dist: averages.rmse(dist, TRUTH),
    lambda dist: averages.mean_spread(dist),
    lambda dist: averages.spread_skill(dist, TRUTH),
    lambda dist: averages.anomaly_correlation(dist, TRUTH, TRUTH.mean("time")),
    lambda dist: calibration.ranks(dist, TRUTH),
    lambda dist: calibration.sharpness(dist),
    lambda dist: calibration.covered(dist, TRUTH),
    lambda dist: calibration.interval_score(dist, TRUTH),
    lambda dist: proper.brier(dist, TRUTH, 281),
    lambda dist: proper.quantile_score(dist, TRUTH, [0.1, 0.5]),
    lambda dist: proper.log_score(dist, TRUTH, gaussian=True),
]


@pytest.mark.parametrize(
    ("score", "dist"),
    [(score, DIST) for score in [*OF_ANY, *OF_MEMBERS]] + [(score, NORMAL) for score in OF_ANY],
)
def test_estimator_and_nan_policy_are_told(score: Any, dist: xr.Dataset) -> None:
    found = score(dist)
    attrs = found.attrs if isinstance(found, xr.DataArray) else found._asdict()
    assert isinstance(attrs["estimator"], str)
    assert attrs["estimator"]
    assert attrs["nan_policy"] in get_args(kernels.NanPolicy)


@pytest.mark.parametrize(
    ("score", "policy"),
    [
        # each did something else, and put the name that it was given into its attributes
        (lambda p: calibration.random_ranks(DIST, TRUTH, nan_policy=p), "omit"),
        (lambda p: calibration.ranks(DIST, TRUTH, nan_policy=p), "propagate"),
        (lambda p: calibration.ranks(DIST, TRUTH, nan_policy=p), "Raise"),
        (lambda p: proper.quantile_score(DIST, TRUTH, [0.5], nan_policy=p), "omit"),
        (lambda p: proper.log_score(DIST, TRUTH, gaussian=True, nan_policy=p), "omit"),
        (lambda p: multivariate.energy_score(DIST, TRUTH, GRID, nan_policy=p), "omit"),
        (lambda p: events.roc(PROBABILITY, EVENT, nan_policy=p), "propagate"),
        (lambda p: crps_parts.hersbach(DIST, TRUTH, nan_policy=p), "propagate"),
    ],
)
def test_a_policy_that_a_score_does_not_have_is_refused(score: Any, policy: str) -> None:
    with pytest.raises(InputError, match=f"nan_policy '{policy}'; known: raise, "):
        score(policy)


def test_the_remedy_for_nan_is_one_that_the_score_has() -> None:
    gap = TRUTH.where(TRUTH["time"] != TRUTH["time"][0])
    for score in (
        lambda: calibration.random_ranks(DIST, gap),
        lambda: proper.quantile_score(DIST, gap, [0.5], nan_policy="raise"),
        lambda: proper.log_score(DIST, gap, gaussian=True, nan_policy="raise"),
        lambda: multivariate.energy_score(DIST, gap, GRID, nan_policy="raise"),
    ):
        with pytest.raises(InputError, match="ask for nan_policy 'propagate'"):
            score()
    with pytest.raises(InputError, match="ask for nan_policy 'omit'"):
        calibration.ranks(DIST, gap)
