"""Ingest survives kills, grows by what is new, and leaves nothing half done behind."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from synthetic import make_datasets

from weatherpp.data import archive as archive_module
from weatherpp.data import netcdf, writing
from weatherpp.data.archive import Archive, Known, content_hash, sealed_hash
from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.ingest import ingest, lay_out_source, read_forecast
from weatherpp.errors import ConfigError, InputError
from weatherpp.files import Digest, file_digest, file_state
from weatherpp.strict import validate

SCRIPT = """
import os, signal, sys
from pathlib import Path
from weatherpp.data import archive
from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.ingest import ingest
from weatherpp.strict import validate

archive.CHUNK_BYTES = 1
root, out, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])

def progress(text, done, total):
    if limit and text == "writing fields" and done >= limit:
        os.kill(os.getpid(), signal.SIGKILL)

real = Path.replace

def replace(self, target):
    real(self, target)
    if not limit and Path(target) == Path(out):
        os.kill(os.getpid(), signal.SIGKILL)

Path.replace = replace

entry = {"name": "test", "title": "T", "driver": "netcdf", "root": root, "licence": "none",
         "citation": "none", "files": {"forecast": ["f*.nc"], "analysis": ["analysis.nc"]}}
ingest(validate(CatalogEntry, entry, "x"), out, progress=progress, overwrite=True)
"""


@pytest.fixture(autouse=True)
def one_date_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the grids of weather centres, where one date fills a chunk."""
    monkeypatch.setattr(archive_module, "CHUNK_BYTES", 1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Six dates, a file each; the analysis in one file."""
    root = tmp_path / "source"
    root.mkdir()
    forecast, analysis, _ = make_datasets(years=1, dates=6, members=3, shape=(4, 8))
    for number, time in enumerate(forecast["time"].values):
        forecast.sel(time=[time]).to_netcdf(root / f"f{number}.nc")
    analysis.to_netcdf(root / "analysis.nc")
    return root


def entry(root: Path, **settings: object) -> CatalogEntry:
    data = {
        "name": "test",
        "title": "T",
        "driver": "netcdf",
        "root": str(root),
        "licence": "none",
        "citation": "none",
        "files": {"forecast": ["f*.nc"], "analysis": ["analysis.nc"]},
        **settings,
    }
    return validate(CatalogEntry, data, "test.yaml")


class Blocks:
    """Counts the blocks that are read and written."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def __call__(self, text: str, done: float, total: float) -> None:
        if text == "writing fields":
            self.seen.append((done, total))


def test_the_archive_holds_what_the_files_hold(source: Path, tmp_path: Path) -> None:
    archive = ingest(entry(source), tmp_path / "a")
    want = xr.open_mfdataset(sorted(source.glob("f*.nc")), decode_timedelta=True)
    for name in ("z", "t"):
        got = archive.forecast[name].transpose(*want[name].dims)
        np.testing.assert_array_equal(got.values, want[name].values)
    assert not (tmp_path / ".a.partial").exists()


@pytest.mark.parametrize("limit", [1, 7, 25])
def test_killed_and_run_again_reads_the_rest_alone(
    source: Path, tmp_path: Path, limit: int
) -> None:
    whole, count = tmp_path / "whole", Blocks()
    ingest(entry(source), whole, progress=count)
    total = int(count.seen[-1][1])
    command = [sys.executable, "-c", SCRIPT, str(source), str(tmp_path / "a"), str(limit)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    rest = Blocks()
    ingest(entry(source), tmp_path / "a", progress=rest)
    # what was being written when the kill came is written again, a few blocks at most
    assert total - limit <= len(rest.seen) <= total - limit + 8
    assert content_hash(tmp_path / "a") == content_hash(whole)
    assert not (tmp_path / ".a.partial").exists()


@pytest.mark.parametrize("before", [False, True])
def test_killed_just_after_the_archive_has_its_name(
    source: Path, tmp_path: Path, before: bool
) -> None:
    if before:
        (source / "f5.nc").rename(tmp_path / "later.nc")
        ingest(entry(source), tmp_path / "a")
        (tmp_path / "later.nc").rename(source / "f5.nc")
    ingest(entry(source), tmp_path / "whole")
    command = [sys.executable, "-c", SCRIPT, str(source), str(tmp_path / "a"), "0"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "whole")
    again = Blocks()
    ingest(entry(source), tmp_path / "a", progress=again, overwrite=True)
    assert not again.seen
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "whole")
    assert not (tmp_path / ".a.partial").exists()


def test_what_is_no_file_is_refused(source: Path, tmp_path: Path) -> None:
    for make, words in (
        (lambda path: path.symlink_to(path.name), "leads nowhere|cannot be read"),
        (lambda path: path.symlink_to("gone.nc"), "cannot be read"),
        (os.mkfifo, "neither a file nor a folder"),
    ):
        make(source / "f9.nc")
        with pytest.raises(InputError, match=rf"f9\.nc: .*({words})"):
            ingest(entry(source), tmp_path / "a")
        (source / "f9.nc").unlink()


@pytest.mark.parametrize("pattern", ["", ".", "***", "a**b/*.nc"])
def test_patterns_that_are_none(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no pattern"):
        entry(tmp_path, files={"forecast": [pattern]})


def test_new_dates_alone_are_read(source: Path, tmp_path: Path) -> None:
    for late in ("f5.nc", "f2.nc"):  # at the end, and in between
        (source / late).rename(tmp_path / late)
    ingest(entry(source), tmp_path / "a")
    for late in ("f5.nc", "f2.nc"):
        (tmp_path / late).rename(source / late)
    count = Blocks()
    grown = ingest(entry(source), tmp_path / "a", overwrite=True, progress=count)
    # z and t, on the three and two levels they have
    assert len(count.seen) == 2 * (3 + 2)
    ingest(entry(source), tmp_path / "b")
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")
    assert grown.forecast.sizes["time"] == 6
    again = Blocks()
    ingest(entry(source), tmp_path / "a", overwrite=True, progress=again)
    assert again.seen == []
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")


def test_changed_file_is_read_again(source: Path, tmp_path: Path) -> None:
    ingest(entry(source), tmp_path / "a")
    with xr.open_dataset(source / "f3.nc", decode_timedelta=True) as ds:
        changed = ds.load() + 1.0
    changed = changed.assign({name: changed[name].assign_attrs(ds[name].attrs) for name in ds})
    changed.to_netcdf(source / "f3.nc")
    archive = ingest(entry(source), tmp_path / "a", overwrite=True)
    got = archive.forecast["z"].isel(time=3).sel(level=500)
    want = changed["z"].isel(time=0).sel(level=500)
    np.testing.assert_array_equal(got.values, want.transpose(*got.dims).values)


def test_a_date_twice_is_a_conflict_and_the_archive_stays(source: Path, tmp_path: Path) -> None:
    ingest(entry(source), tmp_path / "a")
    before = content_hash(tmp_path / "a")
    (source / "f9.nc").write_bytes((source / "f3.nc").read_bytes())
    with pytest.raises(InputError, match=r"a second field for time 2001-01-13 00:00, .* in f9\.nc"):
        ingest(entry(source), tmp_path / "a", overwrite=True)
    assert content_hash(tmp_path / "a") == before


def test_bad_values_leave_nothing_and_name_the_file(source: Path, tmp_path: Path) -> None:
    with xr.open_dataset(source / "f3.nc", decode_timedelta=True) as ds:
        spoiled = ds.load()
    spoiled["t"].loc[{"level": 650, "number": 1}] = 12.0
    spoiled.to_netcdf(source / "f3.nc")
    with pytest.raises(InputError, match=r"f3\.nc: t on 650 hPa at 2001-01-13 00Z has .* outside"):
        ingest(entry(source), tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.slow
def test_workers_of_a_cluster_give_the_same_archive(source: Path, tmp_path: Path) -> None:
    import distributed

    ingest(entry(source), tmp_path / "a")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        ingest(entry(source), tmp_path / "b", scheduler=cluster.scheduler_address)
        with xr.open_dataset(source / "f3.nc", decode_timedelta=True) as ds:
            spoiled = ds.load()
        spoiled["t"].loc[{"level": 650, "number": 1}] = np.nan
        spoiled.to_netcdf(source / "f3.nc")
        with pytest.raises(InputError, match=r"f3\.nc: t at 2001-01-13 00Z has .* missing"):
            ingest(entry(source), tmp_path / "c", scheduler=cluster.scheduler_address)
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")


def test_no_scheduler_there(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--scheduler nowhere: no address"):
        ingest(entry(source), tmp_path / "a", scheduler="nowhere")


def save(ds: xr.Dataset, path: Path, form: str) -> None:
    """In a form that xarray need not know."""
    if form != "NETCDF3_64BIT_DATA":
        ds.to_netcdf(path, format=form)  # type: ignore[call-overload]
        return
    with netCDF4.Dataset(path, "w", format=form) as file:
        ds.to_netcdf(path.with_suffix(".other"))
        with netCDF4.Dataset(path.with_suffix(".other")) as other:
            other.set_auto_maskandscale(False)
            for name, dim in other.dimensions.items():
                file.createDimension(name, len(dim))
            # coordinates first, so that fields come last
            for name in sorted(other.variables, key=lambda name: other[name].ndim):
                file.createVariable(name, other[name].dtype, other[name].dimensions)
                attrs = other[name].__dict__
                file[name].setncatts({k: v for k, v in attrs.items() if k != "_FillValue"})
                file[name][:] = other[name][:]


@pytest.mark.parametrize(
    "form", ["grib", "NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF3_64BIT_DATA"]
)
def test_a_file_cut_anywhere_is_refused(form: str, tmp_path: Path, data_dir: Path) -> None:
    if form == "grib":
        whole = (data_dir / "grib" / "wgust_ens.grib").read_bytes()
    else:
        forecast, _, _ = make_datasets(years=1, dates=2, members=3, shape=(4, 8))
        save(forecast, tmp_path / "whole.nc", form)
        whole = (tmp_path / "whole.nc").read_bytes()
    rng = random.Random(form)
    path = tmp_path / "cut"
    for _ in range(20):
        path.write_bytes(whole[: rng.randrange(len(whole))])
        settings = {"driver": "grib" if form == "grib" else "netcdf"}
        files = {"files": {"forecast": ["cut"]}}
        with pytest.raises(InputError) as caught:
            ingest(entry(tmp_path, **settings, **files), tmp_path / "a")
        assert "cut" in str(caught.value)
        assert "\n" not in str(caught.value)
        with pytest.raises(InputError):
            read_forecast(path)
        assert not (tmp_path / "a").exists()
        assert not (tmp_path / ".a.partial").exists()


def test_archive_opens_with_its_sources_named(source: Path, tmp_path: Path) -> None:
    ingest(entry(source), tmp_path / "a")
    manifest = (tmp_path / "a" / "manifest.json").read_text(encoding="utf-8")
    assert '"file": "f3.nc"' in manifest
    assert Archive.open(tmp_path / "a").identity() == content_hash(tmp_path / "a")


def test_hashes_of_sources_are_handed_on_while_they_hold(source: Path, tmp_path: Path) -> None:
    first, second = source / "f0.nc", source / "f1.nc"
    given = {
        str(first): Digest(file_state(first), "handed on"),
        str(second): Digest([[1, 1]], "of another state"),
    }
    ingest(entry(source), tmp_path / "a", digests=given)
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text(encoding="utf-8"))
    found = {each["file"]: each["sha256"] for each in manifest["sources"]}
    assert found.pop("f0.nc") == "handed on"
    assert found == {name: file_digest(source / name) for name in found}
    assert sealed_hash(tmp_path / "a") == content_hash(tmp_path / "a")


def test_a_known_hash_is_that_of_the_same_bytes(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    (old / "c").write_bytes(b"values")
    (new / "c").hardlink_to(old / "c")
    known: Known = {}
    assert content_hash(old, known) == content_hash(new, known) == content_hash(new)
    assert len(known) == 1
    (new / "c").unlink()
    (new / "c").write_bytes(b"others")
    assert content_hash(new, known) == content_hash(new) != content_hash(old)


def test_dates_of_one_large_chunk_are_read_together(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file whose chunks run over all dates, and the same read slice by slice."""
    one = tmp_path / "one"
    one.mkdir()
    with xr.open_mfdataset(sorted(source.glob("f*.nc")), decode_timedelta=True) as ds:
        whole = {"chunksizes": ds["z"].shape, "zlib": True}
        ds.to_netcdf(one / "f.nc", encoding={"z": whole, "t": {"contiguous": True}})
    shutil.copy(source / "analysis.nc", one)
    layout = lay_out_source(entry(one), None, None)["forecast"]
    wholes = {("forecast", name): whole for name, whole in layout.wholes.items()}
    todo = list(writing.blocks("forecast", layout.ds))
    together = writing.bundles(todo, wholes)
    assert sorted(block.key for each in together for block in each) == sorted(
        block.key for block in todo
    )
    assert {len(each) for each in together} == {6}
    monkeypatch.setattr(writing, "BUNDLE_BYTES", 2 * todo[0].bytes)
    assert {len(each) for each in writing.bundles(todo, wholes)} == {2}
    ingest(entry(source), tmp_path / "a")
    ingest(entry(one), tmp_path / "b")
    monkeypatch.setattr(netcdf, "SLICE_BYTES", 2 * todo[0].bytes)
    monkeypatch.setattr(netcdf, "FINE_BYTES", 1)
    raw = netcdf.read(one / "f.nc")
    assert 4 * np.prod(raw["z"].data.chunksize) == 2 * todo[0].bytes
    assert set(raw["t"].data.chunks[0]) == {1}
    ingest(entry(one), tmp_path / "c")
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "c")
