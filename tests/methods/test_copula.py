"""Coupling: values are the distribution's, order is the template's, and the structure shows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.methods.copula import couple, levels_of, past_dates, past_template
from weatherpp.verify import scores

TIMES = pd.date_range("2021-01-01", periods=6, freq="7D")
GRID = {"latitude": [50.0, 40.0, 30.0], "longitude": [0.0, 10.0, 20.0, 30.0]}
SHAPE = (len(TIMES), 3, 4)


def field(values: np.ndarray, members: bool = True) -> xr.DataArray:
    dims = ("time", *(("number",) if members else ()), *GRID)
    coords = {"time": TIMES, **GRID}
    if members:
        coords["number"] = np.arange(values.shape[1])
    return xr.DataArray(
        values, dims=dims, coords={d: coords[d] for d in dims}, attrs={"units": "K"}
    )


def template(members: int = 9, seed: int = 0) -> xr.DataArray:
    rng = np.random.default_rng(seed)
    return field(rng.normal(280, 5, (len(TIMES), members, 3, 4)).astype("f4"))


def forms() -> dict[str, xr.Dataset]:
    rng = np.random.default_rng(1)
    mean, spread = rng.normal(285, 3, SHAPE), rng.uniform(0.5, 2, SHAPE)
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    rows = mean[:, None] + spread[:, None] * stats.norm.ppf(levels)[:, None, None]
    value = field(rows).rename(number="quantile").assign_coords(quantile=levels)
    attrs = {"variable": "t2m", "target": "t2m", "method": "emos"}
    return {
        "normal": distribution.normal(field(mean, False), field(spread, False), **attrs),
        "quantiles": distribution.quantiles(value, **attrs),
        "members": distribution.members(template(20, seed=2), **attrs),
        "truncated-normal": distribution.parametric(
            "truncated-normal",
            {"location": field(mean, False), "scale": field(spread, False)},
            field(mean, False),
            **attrs,
        ),
    }


def ranks(da: xr.DataArray) -> np.ndarray:
    return stats.rankdata(da.transpose("time", "number", ...).values, axis=1)


@pytest.mark.parametrize("draw", ["quantiles", "random", "stratified"])
@pytest.mark.parametrize("form", ["normal", "truncated-normal", "quantiles", "members"])
def test_ranks_are_those_of_the_template_for_every_form(form: str, draw) -> None:
    dist, raw = forms()[form], template()
    out = couple(dist, raw, draw)
    value = out["value"]
    assert distribution.form_of(out) == "members"
    assert out.attrs["target"] == "t2m"
    assert value.attrs["units"] == "K"
    assert value.dims == ("time", "number", *GRID)
    assert np.isfinite(value).all()
    if (form, draw) == ("quantiles", "quantiles") or draw == "random":
        # values may be equal: no level lies beyond the outermost quantiles
        order = np.take_along_axis(value.values, raw.values.argsort(axis=1), axis=1)
        assert (np.diff(order, axis=1) >= 0).all()
    else:
        np.testing.assert_array_equal(ranks(value), ranks(raw))


def test_marginals_are_the_quantiles_drawn() -> None:
    dist = forms()["normal"]
    out = couple(dist, template())["value"]
    levels = (np.arange(9) + 0.5) / 9
    expected = stats.norm.ppf(
        levels[:, None, None], dist["mean"].values[:, None], dist["spread"].values[:, None]
    )
    np.testing.assert_allclose(np.sort(out.values, axis=1), expected, rtol=1e-12)


@pytest.mark.parametrize("draw", ["random", "stratified"])
def test_draws_follow_the_distribution(draw) -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 7):
        levels = np.array([levels_of(count, draw, rng) for _ in range(4000)])
        assert (levels > 0).all()
        assert (levels < 1).all()
        assert (np.diff(levels, axis=1) >= 0).all()
        assert stats.kstest(levels.ravel(), "uniform").pvalue > 1e-3
        strata = np.floor(levels * count)
        assert (strata == np.arange(count)).all() == (draw == "stratified" or count == 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=8), st.integers(0, 5))
def test_ties_are_resolved_by_a_seeded_draw(values: list[int], seed: int) -> None:
    """Rain, where most members agree on nothing."""
    shape = (len(TIMES), len(values), 3, 4)
    raw = field(np.broadcast_to(np.array(values, float)[:, None, None], shape))
    one, two = (couple(forms()["normal"], raw, seed=seed)["value"] for _ in range(2))
    xr.testing.assert_identical(one, two)
    ordered = np.sort(one.values, axis=1)
    assert (np.diff(ordered, axis=1) > 0).all()
    for low in range(len(values)):
        for high in range(len(values)):
            if values[low] < values[high]:
                assert (one.isel(number=low) < one.isel(number=high)).all()


def test_ties_fall_out_differently_from_date_to_date() -> None:
    raw = field(np.zeros((len(TIMES), 9, 3, 4)))
    found = ranks(couple(forms()["normal"], raw)["value"])
    assert len({tuple(row) for row in found[:, :, 0, 0]}) == len(TIMES)
    assert (found == found[..., :1, :1]).all()  # but alike at all points


@pytest.mark.parametrize("draw", ["quantiles", "random"])
@pytest.mark.parametrize("form", ["normal", "quantiles", "members"])
def test_lazy_and_parts_of_the_dates_give_the_same(form: str, draw) -> None:
    dist, raw = forms()[form], template()
    whole = couple(dist, raw, draw)
    chunks = {"time": 2, "latitude": 2}
    lazy = couple(dist.chunk(chunks), raw.chunk({"number": 4, **chunks}), draw)
    assert lazy["value"].chunks is not None
    xr.testing.assert_allclose(lazy.compute(), whole, rtol=1e-6)
    some = couple(dist.isel(time=[1, 4]), raw.isel(time=[1, 4]), draw)
    xr.testing.assert_allclose(some, whole.isel(time=[1, 4]))


def test_stations_and_gaps() -> None:
    def stations(da: xr.DataArray) -> xr.DataArray:
        flat = da.stack(station=("latitude", "longitude")).reset_index("station")
        return flat.assign_coords(station=[f"s{n}" for n in range(12)])

    dist, raw = forms()["normal"], template()
    whole = couple(dist, raw)["value"]
    points = couple(dist.map(stations).assign_attrs(dist.attrs), stations(raw))["value"]
    np.testing.assert_array_equal(points.values, whole.values.reshape(6, 9, 12))
    raw[2, 3, 1, 1] = np.nan
    dist["spread"][4, 0, 0] = np.nan
    out = couple(dist, raw)["value"]
    missing = out.isnull()
    assert missing[2, :, 1, 1].all()
    assert missing[4, :, 0, 0].all()
    assert int(missing.sum()) == 18


def test_what_does_not_fit_is_refused() -> None:
    dist, raw = forms()["normal"], template()
    with pytest.raises(InputError, match="needs members"):
        couple(dist, raw.isel(number=0))
    with pytest.raises(InputError, match="'latitude' has 3 values in the distribution and 2"):
        couple(dist, raw.isel(latitude=slice(2)))
    with pytest.raises(InputError, match="'time' differs"):
        couple(dist, raw.assign_coords(time=TIMES + pd.Timedelta("1D")))


def energy_and_variogram(members: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Fair energy score and variogram score (p = 0.5) of (m, dim) members; by definition."""
    m = len(members)
    apart = np.linalg.norm(members[:, None] - members[None], axis=-1).sum() / (m * (m - 1))
    energy = np.linalg.norm(members - truth, axis=1).mean() - apart / 2
    found = np.sqrt(np.abs(members[:, :, None] - members[:, None])).mean(axis=0)
    seen = np.sqrt(np.abs(truth[:, None] - truth[None]))
    return energy, ((found - seen) ** 2).sum()


@pytest.mark.parametrize("kind", ["ecc", "schaake"])
def test_structure_scores_better_than_independent_members(kind: str) -> None:
    """Multivariate normal truth; raw members biased and too narrow, but of the right pattern."""
    rng = np.random.default_rng(5)
    count, dates = 15, 250
    places = np.arange(12)
    covariance = 0.95 ** np.abs(places[:, None] - places)
    root = np.linalg.cholesky(covariance)
    truth = rng.normal(size=(dates, 12)) @ root.T
    times = pd.date_range("2020-01-01", periods=dates, freq="D")
    coords = {"time": times, "station": places}
    zero = xr.DataArray(np.zeros((dates, 12)), dims=("time", "station"), coords=coords)
    dist = distribution.normal(zero, zero + 1.0)
    if kind == "ecc":
        values = 3 + 0.5 * rng.normal(size=(dates, count, 12)) @ root.T
        dims = ("time", "number", "station")
        raw = xr.DataArray(values, dims=dims, coords=coords | {"number": np.arange(count)})
    else:
        past = zero.copy(data=280 + rng.normal(size=(dates, 12)) @ root.T)
        raw = past_template(past, times, count, window=None)
    noise = raw.copy(data=rng.normal(size=raw.shape))
    found = {}
    for name, order in (("structure", raw), ("independent", noise)):
        members = couple(dist, order)["value"]
        rows = [energy_and_variogram(m, y) for m, y in zip(members.values, truth, strict=True)]
        found[name] = np.array(rows)
        assert float(members.std()) == pytest.approx(1, abs=0.1)
    gain = found["independent"] - found["structure"]
    assert (gain.mean(axis=0) > 3 * gain.std(axis=0) / np.sqrt(dates)).all()


def test_marginal_score_does_not_depend_on_the_template() -> None:
    dist, truth = forms()["normal"], template(1, seed=7).isel(number=0, drop=True) + 5
    one, two = (scores.crps(couple(dist, template(9, seed)), truth) for seed in (0, 3))
    xr.testing.assert_allclose(one, two)


def test_past_dates_are_near_in_the_year_and_seeded() -> None:
    past = pd.date_range("2000-01-01", "2004-12-31", freq="3D")
    times = pd.DatetimeIndex(["2010-01-05", "2010-07-01"])
    at = past_dates(times, past, 20, 30.0, seed=1)
    assert at.shape == (2, 20)
    for row, time in zip(at, times, strict=True):
        assert len(set(row)) == 20
        away = np.abs(past[row].day_of_year - time.day_of_year)
        assert (np.minimum(away, 366 - away) <= 31).all()
    np.testing.assert_array_equal(past_dates(times[1:], past, 20, 30.0, seed=1), at[1:])
    assert not np.array_equal(past_dates(times, past, 20, 30.0, seed=2), at)
    anywhere = past_dates(times, past, 200, None, seed=1)
    assert np.ptp(past[anywhere[0]].day_of_year) > 300
    near = past_dates(times, past, 200, 5.0, seed=1)  # more than are within five days
    assert len(set(near[0])) == 200
    with pytest.raises(InputError, match=r"700 members from \d+ training dates"):
        past_dates(times, past, 700, 30.0, seed=1)


def test_past_template_holds_the_analyses_of_those_dates() -> None:
    past = pd.date_range("2000-01-01", periods=40, freq="D")
    values = np.arange(40.0)[:, None] + np.array([0.0, 100.0])
    analyses = xr.DataArray(
        values,
        dims=("time", "station"),
        coords={"time": past, "station": ["a", "b"], "valid_time": ("time", past)},
    )
    found = past_template(analyses, TIMES[:2], 5, None, seed=3)
    at = past_dates(TIMES[:2], past, 5, None, seed=3)
    assert found.dims == ("time", "number", "station")
    np.testing.assert_array_equal(found.sel(station="b"), at + 100)
    assert found["number"].values.tolist() == [1, 2, 3, 4, 5]
    lazy = past_template(analyses.chunk(time=7), TIMES[:2], 5, None, seed=3)
    xr.testing.assert_identical(lazy.compute(), found)
