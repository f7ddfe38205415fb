"""The recipes on real data, by the real command line, with networks cut short."""

from __future__ import annotations

from pathlib import Path

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
    assert "10 metre wind gust above 25 m s" in page
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
