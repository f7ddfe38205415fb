"""A tiny archive: canonical form, determinism, and going on after an interruption."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xarray as xr

from weatherpp.data.archive import Archive
from weatherpp.data.checks import check_dataset
from weatherpp.data.matching import truth_for
from weatherpp.errors import ConfigError
from weatherpp.recipe import Target
from weatherpp.speedy import SpeedyConfig, generate, settings

if TYPE_CHECKING:
    from weatherpp.speedy.model import Speedy

TINY = SpeedyConfig(years=1, dates_per_year=2, members=3)


class Interrupted(Exception):
    """Ends a run from within."""


@pytest.fixture(scope="module")
def shorten() -> None:
    """No warm-up and hardly a spin-up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "SPINUP_DAYS", 1)
        patch.setattr(settings, "CYCLE", replace(settings.CYCLE, warmup_dates=0, library=2))
        yield


@pytest.fixture(scope="module")
def tiny(model: Speedy, shorten: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speedy") / "a.zarr"
    generate(path, TINY)
    return path


def content(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_canonical_form(tiny: Path) -> None:
    archive = Archive.open(tiny)
    analysis = archive.analysis
    assert analysis is not None
    check_dataset(archive.forecast, "forecast")
    check_dataset(analysis, "analysis")
    assert archive.forecast["time"].values.astype("datetime64[h]").astype(str).tolist() == [
        "2001-01-01T00",
        "2001-01-04T12",
    ]
    assert archive.forecast["tp"].isel(step=slice(1, None)).notnull().all()
    assert archive.forecast["tp"].isel(step=0).isnull().all()
    assert analysis.notnull().all().to_array().all()
    assert "lowest model level" in archive.forecast["u10"].attrs["long_name"]
    assert set(archive.static.data_vars) == {"orog", "lsm"}


def test_members_differ_and_the_truth_is_near(tiny: Path) -> None:
    archive = Archive.open(tiny)
    assert archive.analysis is not None
    target = Target(variable="z", level=500, step="0h")
    start = archive.forecast["z"].sel(level=500).isel(step=0).load()
    truth = truth_for(archive.analysis, target, start.indexes["time"], archive.forecast).load()
    error = np.sqrt(((start - truth) ** 2).mean(("time", "latitude", "longitude")))
    weather = float(truth.std("longitude").mean())
    assert (error > 0).all()
    assert float(error.max()) < weather
    assert (start.std("number").mean(("latitude", "longitude")) > 0).all()


def test_interrupted_and_run_again_gives_the_same_bytes(
    tiny: Path, shorten: None, tmp_path: Path
) -> None:
    path, seen = tmp_path / "a.zarr", list[float]()

    def stop(_: str, done: float, __: float) -> None:
        if done == 1:
            raise Interrupted

    with pytest.raises(Interrupted):
        generate(path, TINY, stop)
    assert not path.exists()
    with pytest.raises(ConfigError, match="another configuration"):
        generate(path, TINY.model_copy(update={"seed": 2}))
    generate(path, TINY, lambda _, done, __: seen.append(done))
    assert seen == [0.0, 2.0]  # the first date was not made again
    assert content(path) == content(tiny)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_finished_archive_is_left_alone_and_a_different_one_refused(
    tiny: Path, shorten: None
) -> None:
    before = {p: p.stat().st_mtime_ns for p in tiny.rglob("*")}
    generate(tiny, TINY)
    assert {p: p.stat().st_mtime_ns for p in tiny.rglob("*")} == before
    with pytest.raises(ConfigError, match="exists and is not this archive"):
        generate(tiny, TINY.model_copy(update={"seed": 9}))


def test_perturbations_in_the_store_are_what_xarray_reads(tiny: Path) -> None:
    raw = xr.open_zarr(tiny, group="forecast", consolidated=False)
    assert raw["t"].dims == ("time", "step", "number", "level", "latitude", "longitude")
    assert raw["level"].values.tolist() == [500, 850]
