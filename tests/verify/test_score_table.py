"""Tables of scores, gains and claims."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp import distribution
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import Bootstrap, Claim, Target
from weatherpp.verify import table
from weatherpp.verify.claims import evaluate
from weatherpp.verify.gains import GAIN_COLUMNS, gains

TARGET = Target(variable="t", level=500, step="48h")
BOOT = Bootstrap(samples=200, block=4)


@pytest.fixture(scope="module")
def sample() -> dict[str, xr.DataArray]:
    """Truth, a biased ensemble of five, and the full ensemble's spread; 30 dates."""
    rng = np.random.default_rng(0)
    coords = {
        "time": pd.date_range("2020-01-01", periods=30),
        "number": range(20),
        "latitude": np.linspace(75, -75, 6),
        "longitude": np.arange(8) * 45.0,
    }
    signal = rng.normal(250, 5, (30, 1, 6, 8))
    full = xr.DataArray(
        (signal + 1 + rng.normal(size=(30, 20, 6, 8))).astype("f4"),
        coords=coords,
        dims=list(coords),
        attrs={"units": "K"},
    )
    truth = full.isel(number=0, drop=True).copy(data=(signal[:, 0] + rng.normal(size=(30, 6, 8))))
    return {"truth": truth, "few": full.isel(number=slice(5)), "spread": full.std("number", ddof=1)}


@pytest.fixture(scope="module")
def scored(sample: dict[str, xr.DataArray]) -> dict[str, table.Scored]:
    raw = distribution.members(sample["few"])
    better = distribution.members(sample["few"] - 1)
    mean = better["value"].mean("number")
    normal = distribution.normal(mean, xr.full_like(mean, np.sqrt(1.2)))
    return {
        label: table.score_method(
            label,
            dist,
            sample["truth"],
            TARGET,
            members=5,
            full_spread=sample["spread"],
            bootstrap=BOOT,
        )
        for label, dist in {"raw": raw, "bias": better, "normal": normal}.items()
    }


@pytest.fixture(scope="module")
def dates(scored: dict[str, table.Scored]) -> pd.DataFrame:
    return pd.concat([item.per_date for item in scored.values()], ignore_index=True)


def test_rows(scored: dict[str, table.Scored], sample: dict[str, xr.DataArray]) -> None:
    rows = scored["raw"].rows
    assert tuple(rows.columns) == table.COLUMNS
    assert set(zip(rows["score"], rows["estimator"], strict=True)) == {
        *(("crps", e) for e in ("plain", "fair", "gaussian")),
        *((s, "") for s in ("bias", "rmse", "spread_rmse", "spread_skill")),
    }
    assert (rows["step_hours"] == 48).all()
    assert (rows["dates"] == 30).all()
    assert (rows["target"] == "t500").all()
    by_score = rows.set_index("score")
    assert by_score.loc["bias", "value"] == pytest.approx(1, abs=0.1)
    assert by_score.loc["spread_skill", "units"] == "1"
    assert by_score.loc["rmse", "units"] == "K"
    assert (rows["low"] <= rows["value"]).all()
    assert (rows["value"] <= rows["high"]).all()
    ratio = scored["bias"].rows.set_index("score").loc["spread_skill", "value"]
    assert ratio == pytest.approx(1, abs=0.05)
    assert scored["normal"].rows.query("score == 'crps'")["estimator"].tolist() == ["normal"]


def test_rmse_is_the_root_of_the_mean_over_space_and_dates(
    scored: dict[str, table.Scored], sample: dict[str, xr.DataArray]
) -> None:
    from weatherpp.verify.weights import grid_weights

    error = sample["few"].astype(float).mean("number") - sample["truth"]
    expected = float((error**2).weighted(grid_weights(error)).mean() ** 0.5)
    rows = scored["raw"].rows.set_index("score")
    assert rows.loc["rmse", "value"] == pytest.approx(expected, rel=1e-9)
    maps = scored["raw"].maps
    assert float((maps["rmse"].astype(float) ** 2).weighted(grid_weights(error)).mean() ** 0.5) == (
        pytest.approx(expected, rel=1e-6)
    )
    assert maps["crps_fair"].dims == ("latitude", "longitude")
    assert maps["bias"].attrs["units"] == "K"


def test_maps_go_to_netcdf(scored: dict[str, table.Scored], tmp_path: Path) -> None:
    scored["raw"].maps.to_netcdf(tmp_path / "maps.nc")
    xr.testing.assert_identical(xr.load_dataset(tmp_path / "maps.nc"), scored["raw"].maps)


def test_numbers_can_be_recomputed_from_parquet(
    scored: dict[str, table.Scored], dates: pd.DataFrame, tmp_path: Path
) -> None:
    table.write([item.per_date for item in scored.values()], tmp_path / "dates.parquet")
    again = pd.read_parquet(tmp_path / "dates.parquet")
    pd.testing.assert_frame_equal(again, dates, check_dtype=False)
    claim = Claim(name="c", target="t500", better="normal", than="raw")
    assert evaluate([claim], again, BOOT) == evaluate([claim], dates, BOOT)
    assert not list(tmp_path.glob("*.part"))


def test_gains_are_told_against_plain_and_kindest(dates: pd.DataFrame) -> None:
    found = gains(dates, "raw", bootstrap=BOOT)
    assert tuple(found.columns) == GAIN_COLUMNS
    normal = found[found["method"] == "normal"].set_index("reference_estimator")
    kind = table.kindest(table.date_series(dates, "t500", "raw", "crps"))
    assert kind != "plain"
    assert set(normal.index) == {"plain", kind}
    assert normal.loc[kind, "gain"] < normal.loc["plain", "gain"]
    assert normal["excludes_zero"].all()
    bias = found[found["method"] == "bias"]
    assert (bias["estimator"] == bias["reference_estimator"]).all()  # like with like
    rmse = gains(dates, "raw", score="rmse", bootstrap=BOOT)
    assert set(rmse["reference_estimator"]) == {""}
    assert (rmse["gain"] > 0.2).all()


def test_gains_use_common_dates(dates: pd.DataFrame) -> None:
    late = dates["time"] >= pd.Timestamp("2020-01-11")
    found = gains(dates[(dates["method"] == "raw") | late], "raw", bootstrap=BOOT)
    assert (found["dates"] == 20).all()
    early = dates[(dates["method"] == "raw") ^ late]
    with pytest.raises(InputError, match="share no initial date"):
        gains(early, "raw", bootstrap=BOOT)


def test_claims_hold_and_fail(dates: pd.DataFrame) -> None:
    def claim(gain: float = 0.0, **more: str) -> Claim:
        names = {"name": "c", "target": "t500", "better": "normal", "than": "raw"}
        return Claim(**{**names, **more}, gain=gain)

    good, too_much, reverse, self, spread, rmse = evaluate(
        [
            claim(0.1),
            claim(0.9),
            claim(better="raw", than="normal"),
            claim(better="normal", than="normal"),
            claim(score="spread_rmse"),
            claim(0.1, score="rmse"),
        ],
        dates,
        BOOT,
    )
    assert good["holds"]
    assert 0 < good["low"] <= good["value"] <= good["high"]
    assert good["dates"] == 30
    assert "t500 crps: normal (normal) against raw" in good["text"]
    assert not too_much["holds"]
    assert too_much["value"] == good["value"]
    assert not reverse["holds"]
    assert not self["holds"]  # no gain: the interval does not exclude zero
    assert spread["holds"]
    assert rmse["holds"]


def test_claims_take_the_estimator_kindest_to_the_other(dates: pd.DataFrame) -> None:
    names = {"name": "c", "target": "t500", "better": "normal", "than": "raw"}
    kind, plain, fair = evaluate(
        [
            Claim(**names),
            Claim(**names, than_estimator="plain"),
            Claim(**names, than_estimator="fair"),
        ],
        dates,
        BOOT,
    )
    assert kind["value"] == min(kind["value"], plain["value"], fair["value"])
    assert plain["value"] > kind["value"]


def test_claims_on_one_date_never_hold(dates: pd.DataFrame) -> None:
    one = dates[dates["time"] == dates["time"].min()]
    claim = Claim(name="c", target="t500", better="normal", than="raw")
    (verdict,) = evaluate([claim], one, BOOT)
    assert verdict["value"] > 0
    assert not verdict["holds"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"than_estimator": "pwm"}, ConfigError, "no estimator 'pwm'"),
        ({"better": "unet"}, InputError, "no crps of unet for t500"),
        ({"target": "z500"}, InputError, "z500"),
    ],
)
def test_claims_that_cannot_be_told(dates: pd.DataFrame, change, error, message: str) -> None:
    names = {"name": "c", "target": "t500", "better": "normal", "than": "raw"}
    with pytest.raises(error, match=message):
        evaluate([Claim(**{**names, **change})], dates, BOOT)


def test_double_dates_are_refused(dates: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="two values for one date"):
        gains(pd.concat([dates, dates]), "raw", bootstrap=BOOT)


def test_spread_job_without_truth(sample: dict[str, xr.DataArray]) -> None:
    raw = distribution.members(sample["few"])
    found = table.score_method(
        "raw", raw, None, TARGET, members=5, full_spread=sample["spread"], bootstrap=BOOT
    )
    assert found.rows["score"].tolist() == ["spread_rmse"]
    assert list(found.maps) == ["spread_rmse"]
    with pytest.raises(InputError, match="neither"):
        table.score_method("raw", raw, None, TARGET, members=5)


def test_one_member(sample: dict[str, xr.DataArray]) -> None:
    one = distribution.members(sample["few"].isel(number=[0]))
    found = table.score_method("raw", one, sample["truth"], TARGET, members=1, bootstrap=BOOT)
    assert found.rows["score"].tolist() == ["crps", "bias", "rmse"]
    assert found.rows["estimator"].tolist() == ["plain", "", ""]


def test_region_and_nan(sample: dict[str, xr.DataArray]) -> None:
    truth = sample["truth"].copy()
    truth[0, 0, 0] = np.nan
    raw = distribution.members(sample["few"])
    with pytest.raises(InputError, match="1 of 1440 values of crps are NaN"):
        table.score_method("raw", raw, truth, TARGET, members=5, bootstrap=BOOT)
    south = truth["latitude"] < 0
    found = table.score_method(
        "raw", raw, truth, TARGET, members=5, regions={"south": south}, bootstrap=BOOT
    )
    assert (found.rows["region"] == "south").all()
    assert found.per_date["value"].notna().all()
    table.score_method("raw", raw, truth, TARGET, members=5, nan_policy="omit", bootstrap=BOOT)
