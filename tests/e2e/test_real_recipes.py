"""The recipes on real data, by the real command line, with networks cut short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from jobs import Command


def epochs(*places: int) -> list[str]:
    return [part for at in places for part in ("--set", f"methods.{at}.settings.training.epochs=1")]


@pytest.mark.slow
def test_storm_of_51_members(weatherpp: Command, tmp_path: Path) -> None:
    result = weatherpp("run", "real_storm", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    run = tmp_path / "runs" / "real_storm"
    with xr.open_dataset(run / "predictions/fg10/raw-51.nc", engine="netcdf4") as ds:
        assert ds.sizes["number"] == 51
        assert ds["number"].to_numpy().tolist() == list(range(51))
        assert ds["value"].attrs["units"] == "m s-1"
    page = (run / "report.html").read_text(encoding="utf-8")
    for threshold in ("25", "32.7"):
        assert f"10 metre wind gust above {threshold} m\N{NO-BREAK SPACE}s⁻¹" in page
    assert "nothing is verified here" in page


@pytest.mark.slow
def test_spread_of_the_era5_ensemble(weatherpp: Command, tmp_path: Path) -> None:
    result = weatherpp("run", "real_spread", *epochs(2), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    scores = pd.read_parquet(tmp_path / "runs/real_spread/scores/scores.parquet")
    assert set(scores["score"]) == {"spread_rmse"}
    assert set(scores["target"]) == {"z500", "t850"}
    assert set(scores["dates"]) == {4}
    page = (tmp_path / "runs/real_spread/report.html").read_text(encoding="utf-8")
    assert "it cannot show skill" in page


@pytest.mark.slow
def test_correction_of_the_mogreps_ensemble(weatherpp: Command, tmp_path: Path) -> None:
    result = weatherpp("run", "real_correct", *epochs(3), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    run = tmp_path / "runs" / "real_correct"
    scores = pd.read_parquet(run / "scores" / "scores.parquet")
    raw = scores[(scores["method"] == "raw") & (scores["estimator"] == "plain")]
    # mean of the three days' plain CRPS, computed apart from this project
    assert float(raw["value"].iloc[0]) == pytest.approx((0.483 + 0.358 + 0.298) / 3, abs=1e-3)
    for method in ("raw", "bias", "emos", "mixed"):
        with xr.open_dataset(run / "applied/t2m" / f"{method}.nc", engine="netcdf4") as ds:
            assert ds["time"].to_numpy().astype("datetime64[h]").tolist() == [
                pd.Timestamp("2017-06-05T03").to_pydatetime()
            ]
            assert bool(ds["mean"].notnull().all())
    assert weatherpp("claims", "runs/real_correct", cwd=tmp_path).returncode in (0, 1)


@pytest.mark.slow
def test_rain_at_a_station(weatherpp: Command, extra_data: Path, tmp_path: Path) -> None:
    result = weatherpp("run", "stations_rain", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    scores = pd.read_parquet(tmp_path / "runs/stations_rain/scores/scores.parquet")
    # the plain CRPS of the table, computed apart from this project
    table = pd.read_csv(extra_data / "stations/rain_innsbruck_gefs_reforecast.csv.gz")
    start = pd.to_datetime(table["date"]) - pd.Timedelta(hours=192)
    table = table[start.dt.year.between(2009, 2013).to_numpy()]
    x, y = table.filter(like="rainfc").to_numpy() / 1000, table["rain"].to_numpy() / 1000
    pairs = np.abs(x[:, :, None] - x[:, None]).mean(axis=(1, 2))
    known = (np.abs(x - y[:, None]).mean(axis=1) - pairs / 2).mean()
    raw = scores[(scores["method"] == "raw") & (scores["estimator"] == "plain")]
    assert float(raw["value"].iloc[0]) == pytest.approx(known, rel=1e-5)
    assert weatherpp("claims", "runs/stations_rain", cwd=tmp_path).returncode == 0
