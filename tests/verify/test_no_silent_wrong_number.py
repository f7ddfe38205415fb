"""Wrong numbers that others have given without a word: here right, or refused with a remedy."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from verify_sample import arrays, ensemble

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import (
    averages,
    calibration,
    crps_parts,
    efi,
    events,
    multivariate,
    proper,
    scores,
    weighted,
)
from weatherpp.verify.kernels import crps_ensemble
from weatherpp.verify.significance import diebold_mariano
from weatherpp.verify.weights import grid_weights

SCORES = (
    scores.crps,
    scores.squared_error,
    averages.rmse,
    averages.spread_skill,
    weighted.outcome_weighted_crps,
)


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_nothing_but_nan_is_not_a_perfect_forecast(policy) -> None:
    dist, truth = ensemble()
    for lost in ((dist.where(False), truth), (dist, truth.where(False))):
        score = scores.crps(*lost, nan_policy=policy)
        assert np.isnan(score).all()
        assert np.isnan(averages.average(score, nan_policy=policy))
        for function in (averages.rmse, averages.bias, averages.mae, averages.spread_skill):
            assert np.isnan(function(*lost, nan_policy=policy))
    with pytest.raises(InputError, match="omit"):
        scores.crps(dist.where(False), truth, nan_policy="raise")


def test_members_that_are_missing_do_not_count() -> None:
    # FIELD's example: 0.5 is right, other libraries give 0.556 or NaN without being asked
    members, obs = np.array([[1.0, 1.0], [3.0, 2.0], [np.nan, 4.0]]), np.array([2.0, 2.0])
    assert crps_ensemble(members, obs, "plain", nan_policy="omit")[0] == pytest.approx(0.5)
    assert np.isnan(crps_ensemble(members, obs, "plain")[0])
    # a constant on both sides changes nothing, and the spread is that of those that are there
    dist, truth = ensemble(members=5, dtype="f8")
    gap = dist.where((dist["number"] != 4) | (dist["time"] != dist["time"][0]))
    for estimator in ("plain", "fair", "almost-fair", "gaussian"):
        found = scores.crps(gap, truth, estimator, nan_policy="omit")
        moved = gap.assign(value=gap["value"] + 50)
        np.testing.assert_allclose(
            scores.crps(moved, truth + 50, estimator, nan_policy="omit"), found, atol=1e-9
        )
        four = scores.crps(dist.isel(number=slice(4)), truth, estimator)
        np.testing.assert_allclose(found[0], four[0], atol=1e-12)
        assert found.attrs["nan_policy"] == "omit"
        assert found.attrs["estimator"] == estimator
    expected = averages.spread_skill(dist.isel(number=slice(4), time=[0]), truth[:1])
    found = averages.spread_skill(gap.isel(time=[0]), truth[:1], nan_policy="omit")
    assert float(found) == pytest.approx(float(expected))


def test_one_member_is_refused_with_a_remedy() -> None:
    dist, truth = ensemble(members=1)
    for estimator in ("fair", "almost-fair"):
        with pytest.raises(InputError, match=r"at least two members.*'plain'"):
            scores.crps(dist, truth, estimator)
    for function in (averages.spread_skill, averages.mean_spread):
        with pytest.raises(InputError, match="at least two members"):
            function(dist, *([truth] if function is averages.spread_skill else []))
    with pytest.raises(InputError, match="at least two members"):
        proper.log_score(dist, truth, gaussian=True)


@pytest.mark.parametrize("score", SCORES)
def test_shifted_coordinates_are_not_joined_by_their_overlap(score) -> None:
    dist, truth = ensemble()
    later = truth.assign_coords(time=truth["time"] + np.timedelta64(1, "D"))
    with pytest.raises(InputError, match=r"'time' differs in 20 .*select the same"):
        score(dist, later)
    jitter = truth.assign_coords(latitude=np.nextafter(truth["latitude"].values, 99))
    with pytest.raises(InputError, match="'latitude' differs"):
        score(dist, jitter)


@pytest.mark.parametrize("score", SCORES)
def test_other_names_of_dimensions_make_no_outer_product(score) -> None:
    dist, truth = ensemble()
    with pytest.raises(InputError, match="they must be the same"):
        score(dist, truth.rename(latitude="lat"))
    with pytest.raises(InputError, match="they must be the same"):
        score(dist, truth.isel(latitude=0, drop=True))


def test_the_crps_does_not_turn_into_the_absolute_error() -> None:
    dist, truth = ensemble()
    with pytest.raises(InputError, match="needs the dimension 'number'"):
        distribution.members(dist["value"].isel(number=0, drop=True))
    with pytest.raises(InputError, match=r"expected \(member, \.\.\.\)"):
        crps_ensemble(truth.values, truth.values)
    one = scores.crps(dist.isel(number=[0]), truth, "plain")
    assert one.attrs["method"] == "absolute error (one member)"


def test_float32_near_280_loses_no_digits() -> None:
    dist, truth = ensemble(members=20, times=600)
    x, y = arrays(dist, truth)
    for estimator in ("plain", "fair"):
        exact = crps_ensemble(np.moveaxis(x, -1, 0), y, estimator, method="sort")
        np.testing.assert_allclose(scores.crps(dist, truth, estimator), exact, rtol=0, atol=1e-12)
    assert float(averages.average(truth)) == pytest.approx(y.mean(), abs=1e-10)
    assert float(averages.bias(dist, truth)) == pytest.approx(
        (x.mean(axis=-1) - y).mean(), abs=1e-10
    )
    assert averages.average(truth).dtype == np.float64


def test_spread_is_the_root_of_the_mean_variance() -> None:
    dist, _ = ensemble(members=3)
    x = dist["value"].values.astype(float)
    wrong = x.std(axis=1, ddof=1).mean()
    right = np.sqrt(x.var(axis=1, ddof=1).mean())
    found = float(averages.mean_spread(dist))
    assert found == pytest.approx(right, rel=1e-9)
    assert found > 1.05 * wrong


def test_poles_have_their_area_and_an_unknown_grid_is_refused() -> None:
    latitude = np.linspace(90, -90, 19)
    field = xr.DataArray(np.zeros((19, 8)), {"latitude": latitude}, ("latitude", "longitude"))
    weights = grid_weights(field)
    polar = (np.sin(np.deg2rad(90)) - np.sin(np.deg2rad(85))) / 2 * 19
    assert float(weights[0]) == pytest.approx(polar)
    at_poles = field.copy(data=np.where(abs(latitude) == 90, 1.0, 0.0)[:, None] + np.zeros(8))
    expected = 1 - np.sin(np.deg2rad(85))  # area of both caps by that of the sphere
    assert float(averages.average(at_poles, weights=weights)) == pytest.approx(expected)
    with pytest.raises(InputError, match="no area weights for the dimensions lat"):
        grid_weights(field.rename(latitude="lat"))


def test_a_value_left_out_takes_its_weight_with_it() -> None:
    dist, truth = ensemble()
    weights = grid_weights(truth)
    ones = xr.ones_like(truth, dtype=float)
    land = truth[0].drop_vars("time").copy(data=np.arange(12).reshape(3, 4) % 2 == 0)
    gap = ones.where(truth > 280)
    for mask in (None, land):
        assert float(averages.average(gap, None, weights, mask, "omit")) == pytest.approx(1)
    error = scores.squared_error(dist, truth)
    w = np.broadcast_to(weights.values[:, None] * land.values, truth.shape)
    used = truth.values > 280
    found = averages.average(error.where(truth > 280), None, weights, land, "omit")
    assert float(found) == pytest.approx(np.average(error.values[used], weights=w[used]))
    # outside of the mask anything may be missing; a mask of other points is refused
    inside = averages.average(error.where(land), None, weights, land, "raise")
    assert float(inside) == pytest.approx(np.average(error.values, weights=w))
    with pytest.raises(InputError, match="differ in the coordinate 'longitude'"):
        averages.average(error, mask=land.assign_coords(longitude=land["longitude"] + 1))
    # spread and error of a ratio are taken over the same pairs
    holes = truth.where(truth > 280)
    ratio = averages.spread_skill(dist, holes, nan_policy="omit")
    variance = scores.variance(dist).where(truth > 280).mean() * 7 / 6
    assert float(ratio) == pytest.approx(
        float(np.sqrt(variance / scores.squared_error(dist, holes).mean()))
    )


def test_other_units_are_not_subtracted_from_each_other() -> None:
    dist, truth = ensemble()
    celsius = (truth - 273.15).assign_attrs(units="degC")
    normal = distribution.normal(distribution.mean(dist), distribution.spread(dist))
    for score in SCORES:
        with pytest.raises(InputError, match=r"forecast is in 'K', the truth in 'degC'; convert"):
            score(dist, celsius)
    for function in (scores.crps, scores.spread_squared_error, proper.log_score):
        with pytest.raises(InputError, match="is in 'K'"):
            function(normal, celsius)
    climate = efi.model_climate(dist["value"] - 273.15).assign_attrs(units="degC")
    for index in (efi.extreme_forecast_index, efi.shift_of_tails):
        with pytest.raises(InputError, match="the model climate in 'degC'"):
            index(dist, climate)
    with pytest.raises(InputError, match="the climate is in 'degC', the truth in 'K'"):
        averages.anomaly_correlation(dist, truth, celsius.isel(time=0, drop=True))
    # what says nothing of its units is taken at its word
    plain = scores.crps(dist, truth.drop_attrs())
    np.testing.assert_array_equal(plain, scores.crps(dist, truth))


@pytest.mark.parametrize("dtype", [object, str, complex, bool])
def test_values_that_are_no_numbers_are_refused(dtype: type) -> None:
    dist, truth = ensemble()
    other = dist.assign(value=dist["value"].astype(dtype))
    for score in SCORES:
        with pytest.raises(InputError, match=r"the truth: .* not numbers; convert"):
            score(dist, truth.astype(dtype))
        with pytest.raises(InputError, match=r"the forecast: .* not numbers; convert"):
            score(other, truth)
    with pytest.raises(InputError, match=r"the forecast: .* not numbers"):
        efi.extreme_forecast_index(other, efi.model_climate(dist["value"]))


def test_a_forecast_without_spread_that_missed_is_not_left_out_of_the_log_score() -> None:
    _, truth = ensemble(dtype="f8")
    sure = distribution.normal(truth + 1, xr.zeros_like(truth))
    # NaN before, and then no part of a mean by 'omit'
    assert (proper.log_score(sure, truth) == np.inf).all()
    assert averages.average(proper.log_score(sure, truth), nan_policy="omit") == np.inf
    assert np.isnan(proper.log_score(sure, truth + 1)).all()
    assert np.isnan(proper.log_score(sure, truth.where(False))).all()


def test_infinite_values_have_no_decomposition() -> None:
    dist, truth = ensemble(dtype="f8")
    endless = truth.where(truth["time"] != truth["time"][0], np.inf)
    for part in (crps_parts.hersbach, crps_parts.isotonic):
        with pytest.raises(InputError, match="12 of 240 pairs have an infinite value"):
            part(dist, endless)


def test_a_forecast_that_is_none_has_no_score() -> None:
    dist, truth = ensemble()
    nobody = dist.isel(number=slice(0))
    levels = [10.0, 50.0, 90.0]
    values = np.stack([truth.values + shift for shift in (-1, 0, 1)])
    value = xr.DataArray(values, {"quantile": levels, **truth.coords}, ["quantile", *truth.dims])
    per_cent = distribution.quantiles(value.assign_attrs(units="K"))
    falling = per_cent.assign_coords(quantile=[0.9, 0.5, 0.1])
    spread = xr.full_like(truth, -1.0)
    for score in (scores.crps, scores.error, averages.rmse, averages.mae, calibration.ranks):
        with pytest.raises(InputError, match="the forecast has no member"):
            score(nobody, truth)
        # a CRPS of -235 K before
        with pytest.raises(InputError, match="must ascend between 0 and 1, not 10, 50, 90"):
            score(per_cent, truth)
        with pytest.raises(InputError, match=r"must ascend between 0 and 1, not 0.9, 0.5, 0.1"):
            score(falling, truth)
        with pytest.raises(InputError, match="the spread of the forecast is negative in 240 of 24"):
            score(distribution.normal(truth, spread), truth)
    with pytest.raises(InputError, match="negative"):  # a Brier score of 0 before
        proper.brier(distribution.normal(truth, spread), truth, 280)


def test_settings_that_are_no_numbers_are_refused() -> None:
    dist, truth = ensemble()
    p, o = np.array([0.2, 0.8]), np.array([0, 1])
    with pytest.raises(InputError, match="threshold is NaN"):  # zero, the best score, before
        proper.brier(dist, truth, np.nan)
    with pytest.raises(InputError, match="quantile levels"):
        proper.quantile_score(dist, truth, [])
    for threshold in (np.nan, "bets", 2):
        with pytest.raises(InputError, match=f"own, best or between 0 and 1, not {threshold}"):
            events.economic_value(p, o, p, threshold=threshold)
    with pytest.raises(InputError, match="given twice"):
        multivariate.energy_score(dist, truth, ["latitude", "latitude"])
    weights = grid_weights(truth)
    np.testing.assert_array_equal(
        multivariate.energy_score(dist, truth, "latitude", weights=weights),
        multivariate.energy_score(dist, truth, ["latitude"], weights=weights),
    )


def test_weights_of_a_rank_histogram_must_fit_too() -> None:
    dist, truth = ensemble()
    weights = grid_weights(truth)
    for faulty in (weights * np.nan, -weights, 0 * weights):
        with pytest.raises(InputError, match="finite, not negative and not all zero"):
            calibration.ranks(dist, truth, faulty)
    with pytest.raises(InputError, match="differ in the coordinate 'latitude'"):
        calibration.ranks(dist, truth, weights.assign_coords(latitude=[1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match=r"must be labelled, an xarray.DataArray, not ndarray"):
        averages.average(truth, None, weights.values)
    with pytest.raises(InputError, match="no latitude"):
        grid_weights(truth.isel(latitude=slice(0)))


def test_a_p_value_has_no_kelvins() -> None:
    dist, truth = ensemble()
    found = diebold_mariano(scores.crps(dist, truth), scores.crps(dist, truth, "plain"))
    assert found["difference"].attrs == {"units": "K"}
    assert found["p_value"].attrs == found["statistic"].attrs == {"units": "1"}
