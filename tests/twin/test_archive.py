"""The store: canonical form, missing levels, dates, determinism, resume after kill -9."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from pydantic import ValidationError

from weatherpp import conventions
from weatherpp.data.checks import check_dataset
from weatherpp.errors import ConfigError
from weatherpp.twin import TwinConfig, generate, settings
from weatherpp.twin.store import initial_times, limit_dates, valid_times

TINY = TwinConfig(
    years=2, dates_per_year=2, members=3, limit_dates=1, limit_members=2, device="cpu"
)

TINY_RUN = """
import os, signal, sys
from dataclasses import replace
from weatherpp.twin import TwinConfig, generate, settings

settings.BLOCK_YEARS = 1
settings.SPINUP_COARSE_DAYS, settings.SPINUP_DAYS = 2, 1
settings.CYCLE = replace(settings.CYCLE, warmup_dates=0)
started = []

def progress(description, done, total):
    started.append(done)
    print(done, flush=True)
    if sys.argv[3] != "-" and done >= float(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

generate(sys.argv[1], TwinConfig.model_validate_json(sys.argv[2]), progress)
"""


def run_tiny(path: Path, kill_at: str = "-") -> tuple[int, list[float]]:
    """A real process; its exit code and the dates it reported."""
    done = subprocess.run(
        [sys.executable, "-c", TINY_RUN, str(path), TINY.model_dump_json(), kill_at],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, [float(line) for line in done.stdout.split()]


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of TINY_RUN in this process."""
    monkeypatch.setattr(settings, "BLOCK_YEARS", 1)
    monkeypatch.setattr(settings, "SPINUP_COARSE_DAYS", 2)
    monkeypatch.setattr(settings, "SPINUP_DAYS", 1)
    monkeypatch.setattr(settings, "CYCLE", replace(settings.CYCLE, warmup_dates=0))


def content(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.zarr"
    assert run_tiny(path)[0] == 0
    return path


@pytest.mark.parametrize(
    "kill_at",
    [
        pytest.param("3", id="half way", marks=pytest.mark.slow),
        pytest.param("4", id="data written, marker not"),
    ],
)
def test_killed_and_run_again_gives_the_same_bytes(
    uninterrupted: Path, tmp_path: Path, kill_at: str
) -> None:
    path = tmp_path / "a.zarr"
    assert run_tiny(path, kill_at)[0] == -signal.SIGKILL
    assert not path.exists()
    code, reported = run_tiny(path)
    assert code == 0
    # the first year was not made again, the second was, from its first date
    assert reported == [2.0, 2.0, 3.0, 4.0, 4.0]
    assert content(path) == content(uninterrupted)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_year_alone_is_the_same_as_among_others_and_a_seed_changes_it(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    one_year = {"years": 1, "limit_dates": 0}
    generate(tmp_path / "one.zarr", TINY.model_copy(update=one_year))
    one = xr.open_zarr(tmp_path / "one.zarr", group="forecast", consolidated=False)["z"]
    two = xr.open_zarr(uninterrupted, group="forecast", consolidated=False)["z"]
    xr.testing.assert_equal(one.load(), two.isel(time=slice(0, 2)).load())
    generate(tmp_path / "other.zarr", TINY.model_copy(update={"seed": 2, **one_year}))
    other = xr.open_zarr(tmp_path / "other.zarr", group="forecast", consolidated=False)["z"]
    assert float(abs(other - one).sel(level=500).max()) > 100


def test_a_finished_archive_is_left_alone_and_a_different_one_refused(
    uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {p: p.stat().st_mtime_ns for p in uninterrupted.rglob("*")}
    shorten(monkeypatch)
    generate(uninterrupted, TINY)
    assert {p: p.stat().st_mtime_ns for p in uninterrupted.rglob("*")} == before
    with pytest.raises(ConfigError, match="exists and is not this archive"):
        generate(uninterrupted, TINY.model_copy(update={"seed": 9}))


def test_half_made_archive_of_another_configuration_is_refused(tmp_path: Path) -> None:
    work = tmp_path / ".a.zarr.partial"
    work.mkdir()
    (work / "prepared").write_text("something else")
    with pytest.raises(ConfigError, match="another configuration"):
        generate(tmp_path / "a.zarr", TINY)


@pytest.mark.parametrize("group", ["forecast", "limit", "analysis"])
def test_canonical_form(small_twin: Path, group: str) -> None:
    ds = xr.open_zarr(small_twin, group=group, consolidated=False)
    kind = "analysis" if group == "analysis" else "forecast"
    conventions.check(ds, group, kind)
    check_dataset(ds, group)
    assert list(ds.data_vars) == ["t", "u", "v", "vo", "z"] or set(ds.data_vars) == set("tuvz") | {
        "vo"
    }
    assert ds["level"].values.tolist() == [200, 350, 500, 650, 800]
    for name in ds.data_vars:
        levels = [350, 650] if name == "t" else [200, 500, 800]
        assert list(ds[name].attrs["levels"]) == levels
        assert ds[name].dtype == np.float32
        assert bool(ds[name].drop_sel(level=levels).isnull().all())
        for key in ("units", "standard_name", "long_name"):
            assert ds[name].attrs[key]


def test_static_fields(small_twin: Path) -> None:
    static = xr.open_zarr(small_twin, group="static", consolidated=False).load()
    conventions.check(static, "static", "static")
    point = {"method": "nearest"}
    assert float(static["lsm"].sel(latitude=50, longitude=60, **point)) == 1.0
    assert float(static["lsm"].sel(latitude=40, longitude=180, **point)) == 0.0
    assert float(static["orog"].sel(latitude=34, longitude=90, **point)) > 3500
    assert float(static["orog"].sel(latitude=40, longitude=180, **point)) < 5
    weight = np.cos(np.radians(static["latitude"]))
    assert float(static["lsm"].weighted(weight).mean()) == pytest.approx(0.29, abs=0.02)


def test_chunks_without_values_are_not_written(small_twin: Path) -> None:
    array = zarr.open_group(small_twin, mode="r")["forecast/t"]
    assert isinstance(array, zarr.Array)
    assert array.chunks == (8, 3, 10, 1, 32, 64)
    assert array.nchunks_initialized == 2 * 2  # levels, years


def test_forecasts_match_their_analyses(small_twin: Path) -> None:
    forecast = xr.open_zarr(small_twin, group="forecast", consolidated=False, decode_timedelta=True)
    analysis = xr.open_zarr(small_twin, group="analysis", consolidated=False)
    assert set(np.unique(forecast["valid_time"])) == set(analysis["valid_time"].values)
    z = forecast["z"].sel(level=500, number=0)
    for step in forecast["step"].values:
        right = analysis["z"].sel(level=500, valid_time=forecast["time"] + step)
        error = float(((z.sel(step=step) - right) ** 2).mean()) ** 0.5 / 9.80665
        assert error < 60  # a pairing with the wrong time has an error of more than 100 m


def test_dates() -> None:
    config = TwinConfig(size="full")
    times = initial_times(config)
    assert times.shape == (20, 105)
    years = times.astype("datetime64[Y]").astype(int) + 1970
    assert (years == np.arange(2001, 2021)[:, None]).all()
    assert (np.diff(times.ravel()) > np.timedelta64(0)).all()
    assert str(times[0, 0])[:13] == "2001-01-01T00"
    assert str(times[1, 0])[:13] == "2002-01-01T12"
    every = valid_times(config).ravel()
    assert np.unique(every).size == every.size
    chosen = limit_dates(config)
    assert len(chosen) == 50
    assert {year for year, _ in chosen} == {19}


def test_wrong_configurations_are_refused() -> None:
    for wrong in ({"seeds": 1}, {"years": 0}, {"size": "tiny"}, {"members": 2}):
        with pytest.raises(ValidationError):
            TwinConfig.model_validate(wrong)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, weatherpp.twin; sys.exit('torch' in sys.modules or 'xarray' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weatherpp.twin", str(tmp_path / "a.zarr"), "--years", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --years")


def test_a_third_day_changes_no_truth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a lead time of 72 h the truth is the same, the forecast goes on from that of 48 h."""
    shorten(monkeypatch)
    two = TwinConfig(years=1, dates_per_year=2, members=3, device="cpu")
    generate(tmp_path / "two.zarr", two)
    generate(tmp_path / "three.zarr", two.model_copy(update={"longest": 72}))
    one, other = (
        {
            group: xr.open_zarr(tmp_path / name, group=group, decode_timedelta=True)
            for group in ("forecast", "analysis")
        }
        for name in ("two.zarr", "three.zarr")
    )
    hours = other["forecast"]["step"].values / np.timedelta64(1, "h")
    assert list(hours) == [0, 24, 48, 72]
    there = one["analysis"]["valid_time"]
    assert other["analysis"].sizes["valid_time"] == there.size + 2
    truth = [each["analysis"]["z"].sel(level=500, valid_time=there).load() for each in (one, other)]
    np.testing.assert_allclose(truth[1], truth[0], rtol=1e-5)
    z = other["forecast"]["z"].sel(level=500).isel(time=0).load()
    np.testing.assert_allclose(
        z.isel(step=slice(3)), one["forecast"]["z"].sel(level=500).isel(time=0), rtol=1e-6
    )
    late = other["analysis"]["z"].sel(level=500, valid_time=z["valid_time"][3]).load()
    errors = [float(abs(z.isel(step=s) - late).mean()) for s in (1, 3)]
    assert errors[1] < errors[0]
    assert set(np.diff(np.unique(other["analysis"]["valid_time"])) / np.timedelta64(1, "h")) == {
        12.0,
        24.0,
    }
