"""The archive: what is written is what is read, and only when whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr
from synthetic import make_archive, make_datasets

from weatherpp.data.archive import Archive, chunk_sizes, seal, write_archive
from weatherpp.errors import ConfigError, InputError

SMALL = {"years": 1, "dates": 3, "members": 3, "shape": (4, 8)}


def test_round_trip(tmp_path: Path) -> None:
    forecast, analysis, static = make_datasets(**SMALL)
    archive = write_archive(tmp_path / "a", forecast, analysis, static, attrs={"title": "T"})
    xr.testing.assert_identical(archive.forecast.load(), forecast)
    assert archive.analysis is not None
    xr.testing.assert_identical(archive.analysis.load(), analysis)
    xr.testing.assert_identical(archive.static.load(), static)
    assert archive.attrs["title"] == "T"
    assert archive.limit is None
    assert archive.forecast["step"].dtype == "timedelta64[ns]"
    assert archive.forecast["z"].attrs["levels"] == [200, 500, 800]
    assert list(tmp_path.iterdir()) == [tmp_path / "a"], "no partial folder is left"
    assert zarr.open_group(tmp_path / "a", mode="r").metadata.zarr_format == 3


def test_groups_are_optional(tmp_path: Path) -> None:
    forecast, _, _ = make_datasets(**SMALL)
    archive = write_archive(tmp_path / "a", forecast, limit=forecast.isel(number=0)[["z"]])
    assert archive.analysis is None
    assert not archive.static.data_vars
    assert archive.limit is not None


def test_chunks_hold_whole_samples(tiny_archive: Archive) -> None:
    da = tiny_archive.forecast["z"]
    sizes = chunk_sizes(da.sizes)
    assert sizes["level"] == 1
    assert all(sizes[dim] == da.sizes[dim] for dim in ("step", "number", "latitude", "longitude"))
    assert np.prod(list(sizes.values())) * 4 <= 1_000_000
    wide = xr.DataArray(dask.array.zeros((3, 1_000_000)), dims=("time", "latitude"))
    assert chunk_sizes(wide.sizes)["time"] == 1


def test_chunks_of_large_ensembles_stay_bounded() -> None:
    sizes = {"time": 9, "step": 10, "number": 51, "level": 2, "latitude": 721, "longitude": 1440}
    chunks = chunk_sizes(sizes)
    assert chunks == {**sizes, "time": 1, "step": 1, "number": 24, "level": 1}
    assert chunk_sizes({**sizes, "number": 10}) == {**chunks, "step": 2, "number": 10}


def test_identity_is_of_the_content(tmp_path: Path) -> None:
    one = make_archive(tmp_path / "one", **SMALL)
    same = make_archive(tmp_path / "same", **SMALL)
    other = make_archive(tmp_path / "other", **SMALL, seed=2)
    assert one.identity() == same.identity() != other.identity()
    manifest = tmp_path / "one" / "manifest.json"
    sealed = one.identity()
    manifest.unlink()
    assert one.identity() == sealed, "without a manifest the files are read"
    assert seal(tmp_path / "one") == sealed
    chunk = next(p for p in (tmp_path / "one" / "forecast" / "z" / "c").rglob("*") if p.is_file())
    chunk.unlink()
    assert one.identity() != sealed, "a file that went missing is seen in spite of the manifest"


def test_nothing_appears_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forecast, analysis, static = make_datasets(**SMALL)

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("weatherpp.data.archive.seal", fail)
    with pytest.raises(OSError, match="disk full"):
        write_archive(tmp_path / "a", forecast, analysis, static)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_is_not_overwritten_unasked(tmp_path: Path) -> None:
    forecast, _, _ = make_datasets(**SMALL)
    write_archive(tmp_path / "a", forecast)
    with pytest.raises(ConfigError, match="is there already"):
        write_archive(tmp_path / "a", forecast)
    write_archive(tmp_path / "a", forecast.isel(time=[0]), overwrite=True)
    assert Archive.open(tmp_path / "a").forecast.sizes["time"] == 1


def test_not_canonical_is_not_written(tmp_path: Path) -> None:
    forecast, _, _ = make_datasets(**SMALL)
    with pytest.raises(InputError, match="north to south"):
        write_archive(tmp_path / "a", forecast.isel(latitude=slice(None, None, -1)))
    assert list(tmp_path.iterdir()) == []


def test_no_archive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no archive there"):
        Archive.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not an archive"):
        Archive.open(tmp_path)


def test_damaged_archive(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a", **SMALL)
    shutil.rmtree(tmp_path / "a" / "forecast" / "number")
    with pytest.raises(InputError, match="no coordinate 'number'"):
        _ = archive.forecast
    (tmp_path / "a" / "analysis" / "zarr.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        _ = archive.analysis


def test_order_of_variables_does_not_depend_on_the_file_system(tiny_archive: Archive) -> None:
    for group in (tiny_archive.forecast, tiny_archive.analysis, tiny_archive.static):
        assert group is not None
        names = [str(name) for name in group.data_vars]
        assert names == sorted(names)


def test_what_a_kill_left_of_a_chunk_is_not_sealed(tiny_archive: Archive, tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    shutil.copytree(tiny_archive.path, store)
    before = seal(store)
    (store / "forecast" / "z" / "c" / "0.0123456789abcdef.partial").write_bytes(b"half")
    assert seal(store) == before
    assert not list(store.rglob("*.partial"))
