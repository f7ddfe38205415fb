"""Samples from an archive on disk against the same values out of xarray."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from numpy.typing import NDArray
from synthetic import make_archive

from weatherpp.data.archive import Archive, write_archive
from weatherpp.data.statistics import statistics
from weatherpp.errors import ConfigError, InputError, WeatherppError
from weatherpp.methods.neural.loading import loader, told_worker_loss
from weatherpp.methods.neural.samples import Batch, constant_fields
from weatherpp.methods.neural.stream import ArchiveSamples, Layout, day_of_year

BATCH = 4


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Fourteen dates, one chunk of ten and one of four; do not change it."""
    path = tmp_path_factory.mktemp("stream") / "archive"
    return make_archive(path, years=1, dates=14, members=4, shape=(40, 80))


@pytest.fixture(scope="module")
def times(archive: Archive) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(archive.forecast["time"].values)[1:]


@pytest.fixture(scope="module")
def found(archive: Archive, times: pd.DatetimeIndex) -> xr.Dataset:
    return statistics(archive, times[:9], "point")


def standardised(archive: Archive, found: xr.Dataset, date: np.datetime64, name: str) -> NDArray:
    """(member, rows, columns) of one field such as ``z500@48h``."""
    field, lead = name.split("@")
    da = archive.forecast[field[0]].sel(time=date, level=int(field[1:]), step=pd.Timedelta(lead))
    own = found.sel(channel=name)
    out: NDArray = ((da.astype(np.float64) - own["mean"]) / own["std"]).values
    return out


def drain(samples: ArchiveSamples, workers: int = 0) -> list[Batch]:
    return list(loader(samples, workers))


def same(one: list[Batch], two: list[Batch]) -> bool:
    return len(one) == len(two) and all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in zip(one, two, strict=True)
    )


@pytest.mark.parametrize("kind", ["set", "channels", "statistics"])
def test_values(archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset, kind: str) -> None:
    layout = Layout(members=kind, batch=BATCH)  # type: ignore[arg-type]
    samples = ArchiveSamples(archive, times, found, layout)
    batches = drain(samples)
    assert [len(batch["x"]) for batch in batches] == [4, 4, 4, 1]
    assert len(samples) == 4
    dates = [int(date) for batch in batches for date in batch["date"]]
    assert sorted(dates) == list(range(13))
    for batch in batches[-2:]:
        at, x = times.values[int(batch["date"][0])], batch["x"][0].numpy()
        for name in found["channel"].values:
            expected = standardised(archive, found, at, name)
            if kind == "set":
                own = x[:, samples.names.index(name)]
            elif kind == "channels":
                own = np.stack([x[samples.names.index(f"member{m}:{name}")] for m in range(4)])
            else:
                own = np.stack([x[samples.names.index(f"{k}:{name}")] for k in ("mean", "spread")])
                expected = np.stack([expected.mean(0), expected.std(0, ddof=1)])
            np.testing.assert_allclose(own, expected, atol=2e-3 if name[0] == "z" else 1e-4)


def test_one_member_has_no_spread(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    samples = ArchiveSamples(archive, times, found, members=[2], variables=["t"], levels=[350])
    assert samples.names == ["mean:t350@24h", "mean:t350@48h"]
    batch = drain(samples)[0]
    expected = standardised(archive, found, times.values[int(batch["date"][0])], "t350@48h")[2]
    np.testing.assert_allclose(batch["x"][0, 1], expected, atol=1e-4)


def test_each_lead_time_is_a_sample(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    layout = Layout(members="set", leads="each", batch=BATCH)
    samples = ArchiveSamples(archive, times, found, layout)
    assert samples.names == ["t350", "t650", "z200", "z500", "z800"]
    assert samples.context_names[-1] == "lead time"
    seen = set()
    for batch in drain(samples):
        for number, (date, lead) in enumerate(zip(batch["date"], batch["lead"], strict=True)):
            seen.add((int(date), int(lead)))
            hour = (24, 48)[int(lead)]
            expected = standardised(archive, found, times.values[int(date)], f"t650@{hour}h")
            np.testing.assert_allclose(batch["x"][number, :, 1], expected, atol=1e-4)
            assert (batch["context"][number, -1] == hour / 240).all()
    assert seen == {(date, lead) for date in range(13) for lead in range(2)}


def test_tiles_are_slices_of_the_rolled_field(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    truth = np.random.default_rng(1).random((13, 2, 40, 80), dtype=np.float32)
    settings = {"dated": {"truth": truth}, "variables": ["z"], "levels": [500], "shuffle": False}
    whole = drain(ArchiveSamples(archive, times, found, Layout("set", batch=13), **settings))[0]
    layout = Layout("set", tile=(16, 32), overlap=(4, 8), batch=5)
    samples = ArchiveSamples(archive, times, found, layout, **settings)
    assert {tile.column for tile in samples.tiles} == {0, 24, 48, 72}
    assert {tile.row for tile in samples.tiles} == {0, 12, 24}
    for batch in drain(samples)[:12]:
        for number in range(len(batch["x"])):
            date, row, column = (int(batch[name][number]) for name in ("date", "row", "column"))
            for name in ("x", "context", "truth"):
                rolled = torch.roll(whole[name][date], -column, -1)
                expected = rolled[..., row : row + 16, :32]
                assert torch.equal(batch[name][number], expected), name


def test_context(archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset) -> None:
    samples = ArchiveSamples(archive, times, found)
    names = ["lsm", "orog", "sine of latitude", "sine of day of year", "cosine of day of year"]
    assert samples.context_names == names
    batch = drain(samples)[0]
    constant = constant_fields(archive.static, archive.forecast["z"])
    for number, name in enumerate(names[:3]):
        np.testing.assert_array_equal(batch["context"][0, number], constant[name])
    angle = 2 * np.pi * (times[int(batch["date"][0])].day_of_year - 1) / 365
    np.testing.assert_allclose(batch["context"][0, 3], np.sin(angle), rtol=1e-5)
    np.testing.assert_allclose(batch["context"][0, 4], np.cos(angle), rtol=1e-5)


@pytest.mark.parametrize(
    ("time", "share"),
    [
        ("2001-01-01T00", 0),
        ("2001-07-02T12", 0.5),
        ("2004-07-02T00", 0.5),
        ("2004-12-31T00", 365 / 366),
    ],
)
def test_day_of_year(time: str, share: float) -> None:
    sine, cosine = day_of_year(np.datetime64(time, "ns"))
    assert sine == pytest.approx(np.sin(2 * np.pi * share), abs=1e-12)
    assert cosine == pytest.approx(np.cos(2 * np.pi * share), abs=1e-12)


def test_missing_values_become_the_mean(tmp_path: Path, archive: Archive) -> None:
    forecast = archive.forecast.load().copy()
    z = forecast["z"].values.copy()
    z[:, 1, 2, 2, 5, 7] = np.nan  # one member of z500@48h
    other = write_archive(tmp_path / "a", forecast.assign(z=forecast["z"].copy(data=z)))
    times = pd.DatetimeIndex(forecast["time"].values)
    found = statistics(other, times, "level", variables=["z"], levels=[500])
    for kind in ("set", "statistics"):
        samples = ArchiveSamples(
            other, times, found, Layout(kind), variables=["z"], levels=[500], lead_hours=[48]
        )  # type: ignore[arg-type]
        for batch in drain(samples):
            assert torch.isfinite(batch["x"]).all()
            at = batch["x"][..., 5, 7]
            gone = at[:, 2, 0] if kind == "set" else at
            assert (gone == 0).all()
            assert (at != 0).sum() == (3 * len(at) if kind == "set" else 0)


def test_ranks_share_the_samples(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    layout = Layout(tile=(20, 40), batch=3)
    seen = []
    for rank in range(3):
        for batch in drain(
            ArchiveSamples(archive, times, found, layout, levels=[350], rank=rank, ranks=3)
        ):
            columns = (batch[name].tolist() for name in ("date", "row", "column"))
            seen += list(zip(*columns, strict=True))
    assert len(seen) == len(set(seen)) == 13 * 4


def test_epochs_differ_and_repeat(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    samples = ArchiveSamples(archive, times, found, levels=[350], threads=3)
    first = drain(samples)
    assert same(first, drain(samples))
    samples.set_epoch(1)
    assert not same(first, drain(samples))
    serial = ArchiveSamples(archive, times, found, levels=[350], threads=1, waiting=1)
    assert same(first, drain(serial))


def test_workers_give_the_same_batches(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    samples = ArchiveSamples(archive, times, found, Layout(tile=(20, 40), batch=3), levels=[350])
    assert same(drain(samples, workers=2), drain(samples))


def test_a_worker_that_dies_is_an_error(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    samples = ArchiveSamples(archive, times, found, Layout(tile=(20, 40), batch=3), levels=[350])
    batches = iter(loader(samples, workers=1))
    next(batches)
    (worker,) = multiprocessing.active_children()

    def go_on_after_the_kill() -> None:
        with told_worker_loss():  # torch may find it out before the next batch is asked for
            os.kill(worker.pid or 0, signal.SIGKILL)
            list(batches)

    with pytest.raises(WeatherppError, match=r"worker process .* use fewer workers"):
        go_on_after_the_kill()


def test_damaged_chunk_surfaces(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset, tmp_path: Path
) -> None:
    shutil.copytree(archive.path, tmp_path / "a")
    broken = Archive.open(tmp_path / "a")
    next((broken.path / "forecast/z/c/1").rglob("2/0/0")).write_bytes(b"no zstd")
    with pytest.raises(InputError, match="z at 2001-02-06 00Z cannot be read"):
        drain(ArchiveSamples(broken, times, found))


def test_stopping_early_leaves_nothing_running(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    batches = iter(ArchiveSamples(archive, times, found, Layout(batch=1)))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_what_does_not_fit_is_named(
    archive: Archive, times: pd.DatetimeIndex, found: xr.Dataset
) -> None:
    some = found.isel(channel=slice(4, None))
    with pytest.raises(InputError, match="no statistics of t350@24h"):
        ArchiveSamples(archive, times, some)
    with pytest.raises(InputError, match="that of the statistics 39 x 80"):
        ArchiveSamples(archive, times, found.isel(latitude=slice(39)))
    with pytest.raises(InputError, match="standard deviation of 0"):
        ArchiveSamples(archive, times, found.assign(std=found["std"] * 0))
    with pytest.raises(InputError, match="must ascend"):
        ArchiveSamples(archive, times[::-1], found)
    with pytest.raises(ConfigError, match="rank 2 of 2"):
        ArchiveSamples(archive, times, found, rank=2, ranks=2)
