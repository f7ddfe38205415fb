"""Sources below a URL, from a real HTTP server on this machine and from fsspec's own memory."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import fsspec
import numpy as np
import pytest
import synthetic
import xarray as xr

from weatherpp.data import remote
from weatherpp.data.catalog import CatalogEntry, load_entry
from weatherpp.data.ingest import ingest, read
from weatherpp.errors import ConfigError, InputError, WeatherppError
from weatherpp.strict import validate


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; can cut a file off, hide its length, or fail. Notes what was sent whole.

    ``faults`` are what goes wrong with the next answers, one after the other; only then are there
    tags and ranges, as in RFC 9110. ``asked`` are the headers of the requests for content.
    """

    faults: list[str | Callable[[], object]] = []  # noqa: RUF012
    asked: list[dict[str, str]] = []  # noqa: RUF012
    ranged = False

    cut: set[str] = set()  # noqa: RUF012  set by the tests
    unsized: set[str] = set()  # noqa: RUF012
    broken: set[str] = set()  # noqa: RUF012
    sent: list[str] = []  # noqa: RUF012

    def tag(self) -> str:
        return f'"{hashlib.sha256(Path(self.translate_path(self.path)).read_bytes()).hexdigest()}"'

    def end_headers(self) -> None:
        if self.ranged and Path(self.translate_path(self.path)).is_file():
            self.send_header("ETag", self.tag())
        super().end_headers()

    def give(self, content: bytes) -> None:
        """An answer that knows ranges, with the next fault."""
        fault = self.faults.pop(0) if self.faults else ""
        if callable(fault):
            fault()
            fault = ""
        self.asked.append(dict(self.headers.items()))
        if fault == "busy":
            self.send_error(503)
            return
        start = 0
        if fault != "no ranges" and self.headers["If-Range"] == self.tag():
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        rest = content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if fault == "cut" else rest)
        if fault == "cut":
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        name = Path(self.path).name
        file = Path(self.translate_path(self.path))
        if self.ranged and file.is_file():
            self.give(file.read_bytes())
        elif name in self.broken:
            self.send_error(503)
        elif name in self.cut:
            content = file.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        elif name in self.unsized:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(file.read_bytes()[:100])
        else:
            super().do_GET()
            self.sent.append(name)

    def do_HEAD(self) -> None:
        if Path(self.path).name in self.unsized:
            self.send_response(200)
            self.end_headers()
        else:
            super().do_HEAD()

    def log_message(self, *_: object) -> None:
        pass


Server = tuple[str, Path, type[Handler]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """URL and folder of a server, and its handler; it ends with the test."""
    folder = tmp_path / "served"
    folder.mkdir()
    faults: dict[str, Any] = {"cut": set(), "unsized": set(), "broken": set(), "sent": []}
    faults |= {"faults": [], "asked": []}
    handler = type("Own", (Handler,), faults)
    serve = functools.partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder, handler
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEATHERPP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "PAUSE", 0.001)
    return tmp_path / "cache"


def entry(root: str, forecast: str = "*.nc", driver: str = "netcdf", **more: Any) -> CatalogEntry:
    data = {"name": "t", "title": "T", "licence": "none", "citation": "none", "root": root}
    files = {"forecast": [forecast], **more.pop("files", {})}
    return validate(CatalogEntry, {**data, "driver": driver, "files": files, **more}, "t.yaml")


def mogreps(data_dir: Path, folder: Path) -> Path:
    source = data_dir / "mogreps_uk_t"
    shutil.copytree(source, folder, dirs_exist_ok=True)
    return source


def test_files_of_a_server_make_the_same_archive(
    server: Server, data_dir: Path, tmp_path: Path, cache: Path
) -> None:
    url, folder, handler = server
    source = mogreps(data_dir, folder)
    far = ingest(load_entry("mogreps-uk-t"), tmp_path / "far", url)
    near = ingest(load_entry("mogreps-uk-t"), tmp_path / "near", source)
    xr.testing.assert_identical(far.forecast.load(), near.forecast.load())
    assert far.analysis is not None
    xr.testing.assert_identical(far.analysis.load(), near.analysis.load())  # type: ignore[union-attr]
    kept = {path.name for path in cache.rglob("*.nc")}
    assert kept == {path.name for path in source.rglob("*.nc")}
    # once more: nothing is fetched, but what has changed there
    handler.sent.clear()
    assert ingest(load_entry("mogreps-uk-t"), tmp_path / "far", url, overwrite=True)
    assert not [name for name in handler.sent if name.endswith(".nc")]
    mask = folder / "landmask.nc"
    os.utime(mask, (1, 1))
    load_entry("mogreps-uk-t").paths("static", url)
    assert [name for name in handler.sent if name.endswith(".nc")] == ["landmask.nc"]


def test_a_grib_file_and_a_table_of_a_server(server: Server, data_dir: Path) -> None:
    url, folder, _ = server
    for name in ("era5-levels-members.grib", "ens_storm.grib"):
        shutil.copy(data_dir / "grib" / name, folder)
    for name in ("FCTABLE_T2m_201902_00.sqlite", "synop_T2m.csv.gz"):
        shutil.copy(data_dir / "meps_stations" / name, folder)
    members = read(load_entry("era5-levels-members"), "forecast", url)
    assert members is not None
    assert members["z"].shape == (4, 1, 10, 2, 61, 120)
    stations = read(load_entry("meps-stations"), "forecast", url)
    assert stations is not None
    assert stations.sizes["station"] == 1149


def test_what_a_server_does_not_have(server: Server) -> None:
    url, folder, _ = server
    (folder / "a.txt").write_text("a")
    for pattern in ("none.nc", "*.nc", "deep/*/none.nc"):
        with pytest.raises(InputError, match=r"127\.0\.0\.1:\d+/.*nc: no such forecast file"):
            entry(url, pattern).paths("forecast")


def test_a_connection_that_breaks_is_no_file(server: Server, data_dir: Path, cache: Path) -> None:
    url, folder, handler = server
    shutil.copy(data_dir / "mogreps_uk_t" / "landmask.nc", folder / "a.nc")
    handler.cut.add("a.nc")
    with pytest.raises(InputError, match=r"a\.nc: (cannot be fetched|cut off)"):
        entry(url, "a.nc").paths("forecast")
    assert not list(cache.rglob("a.nc"))
    handler.cut.clear()
    (path,) = entry(url, "a.nc").paths("forecast")
    assert path.read_bytes() == (folder / "a.nc").read_bytes()
    # and a whole file gives way to no half of the next version
    (folder / "a.nc").write_bytes(b"x" * 999)
    handler.cut.add("a.nc")
    with pytest.raises(InputError, match=r"a\.nc"):
        entry(url, "a.nc").paths("forecast")
    handler.cut.clear()
    (path,) = entry(url, "a.nc").paths("forecast")
    assert path.read_bytes() == b"x" * 999


CONTENT = np.random.default_rng(0).bytes(3_000_000)


@pytest.fixture
def ranged(server: Server) -> tuple[CatalogEntry, Path, type[Handler]]:
    """An entry for one file of a server that knows ranges, the file, the handler."""
    url, folder, handler = server
    handler.ranged = True
    (folder / "a.nc").write_bytes(CONTENT)
    return entry(url, "a.nc"), folder / "a.nc", handler


def test_a_download_goes_on_where_it_was_cut_off(
    ranged: tuple[CatalogEntry, Path, type[Handler]],
) -> None:
    e, _, handler = ranged
    handler.faults += ["cut", "busy", "cut"]
    shown: list[tuple[float, float]] = []
    e.show_downloads(lambda _, done, total: shown.append((done, total)))
    (path,) = e.paths("forecast")
    assert path.read_bytes() == CONTENT
    starts = [asked.get("Range", "") for asked in handler.asked]
    half, rest = len(CONTENT) // 2, len(CONTENT) // 4
    assert starts == ["", f"bytes={half}-", f"bytes={half}-", f"bytes={half + rest}-"]
    assert shown[-1] == (len(CONTENT), len(CONTENT))
    assert max(done for done, _ in shown) == len(CONTENT)


def test_a_later_call_takes_what_an_earlier_one_left(
    ranged: tuple[CatalogEntry, Path, type[Handler]], monkeypatch: pytest.MonkeyPatch
) -> None:
    e, file, handler = ranged
    monkeypatch.setattr(remote, "TRIES", 1)
    handler.faults += ["cut"]
    with pytest.raises(InputError, match=r"a\.nc: cannot be fetched"):
        e.paths("forecast")
    again = entry(str(e.root), "a.nc")
    (path,) = again.paths("forecast")
    assert path.read_bytes() == CONTENT
    assert handler.asked[-1]["Range"] == f"bytes={len(CONTENT) // 2}-"
    # but not if the file is another one now
    file.write_bytes(CONTENT[::-1])
    handler.faults += ["cut"]
    with pytest.raises(InputError, match=r"a\.nc: cannot be fetched"):
        entry(str(e.root), "a.nc").paths("forecast")
    file.write_bytes(CONTENT[1:])
    (path,) = entry(str(e.root), "a.nc").paths("forecast")
    assert path.read_bytes() == CONTENT[1:]
    assert "Range" not in handler.asked[-1]


def test_a_server_that_knows_no_ranges_sends_everything(
    ranged: tuple[CatalogEntry, Path, type[Handler]],
) -> None:
    e, _, handler = ranged
    handler.faults += ["cut", "no ranges"]
    shown: list[float] = []
    e.show_downloads(lambda _, done, total: shown.append(done))
    (path,) = e.paths("forecast")
    assert path.read_bytes() == CONTENT
    assert len(handler.asked) == 2
    assert shown[-1] == max(shown) == len(CONTENT)


@pytest.mark.parametrize("length", [3_000_000, 2_000_000])
def test_a_file_that_changes_meanwhile_is_fetched_anew(
    ranged: tuple[CatalogEntry, Path, type[Handler]], length: int
) -> None:
    e, file, handler = ranged
    other = CONTENT[::-1][:length]
    handler.faults += ["cut", functools.partial(file.write_bytes, other)]
    (path,) = e.paths("forecast")
    assert path.read_bytes() == other


def test_a_server_that_stays_busy_is_given_up(
    ranged: tuple[CatalogEntry, Path, type[Handler]],
) -> None:
    e, _, handler = ranged
    handler.faults += ["busy"] * 99
    with pytest.raises(InputError, match=r"a\.nc: cannot be fetched .*503"):
        e.paths("forecast")
    assert len(handler.asked) == remote.TRIES


def test_a_length_that_is_not_stated_is_refused(server: Server) -> None:
    url, folder, handler = server
    (folder / "a.nc").write_bytes(b"x" * 1000)
    handler.unsized.add("a.nc")
    with pytest.raises(InputError, match="does not state its size"):
        entry(url, "a.nc").paths("forecast")


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        for pattern in ("a.nc", "*.nc"):
            with pytest.raises(InputError, match=r"cannot be fetched .*is the address right"):
                entry(url, pattern).paths("forecast")
        with pytest.raises(InputError, match="cannot be fetched"):
            entry(url, "a.zarr", "zarr").paths("forecast")


def test_roots_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = {
        "ftp://example.org/x": "URLs of this kind are not read; there are file, http, https, s3",
        "simplecache::s3://bucket": "URLs of this kind",
        "https://me:secret@example.org/x": "^https://example.org/x: no user, password",
        "https://example.org/x?sig=secret": "^https://example.org/x: no user, password",
        "http://": "http://: names no server",
        "https:///x": "https:///x: names no server",
        "http://[x/y": "is no URL",
        "http://me:secret@host:port/x": "^host:port/x: is no URL",
    }
    for root, message in faults.items():
        with pytest.raises(ConfigError, match=message) as caught:
            entry(root).paths("forecast")
        assert "secret" not in str(caught.value)
    for key in ("key", "secret", "token", "storage_options"):
        with pytest.raises(ConfigError, match=f"unknown key '{key}'"):
            entry("s3://bucket", **{key: "x"})
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ConfigError, match=r"package s3fs: pip install 'weatherpp\[remote\]'"):
        entry("s3://bucket").paths("forecast")


def test_file_urls_are_folders(tmp_path: Path, data_dir: Path) -> None:
    e = load_entry("mogreps-uk-t")
    url = (data_dir / "mogreps_uk_t").resolve().as_uri()
    assert e.paths("forecast", url) == e.paths("forecast")
    with pytest.raises(InputError, match="no folder"):
        e.paths("forecast", (tmp_path / "none").as_uri())


# -- Zarr stores, read where they are ---------------------------------------------------------


@pytest.fixture
def datasets() -> tuple[xr.Dataset, xr.Dataset]:
    """Forecast and analysis, on levels where they exist, without what can be worked out."""
    forecast, analysis, _ = synthetic.make_datasets(years=1, dates=4, members=3, shape=(4, 8))
    levels = [200, 500, 800]
    bare = forecast[["z"]].sel(level=levels).drop_vars("valid_time")
    return bare, analysis[["z"]].sel(level=levels)


def zarr_entry(root: str) -> CatalogEntry:
    return entry(root, "fc.zarr", "zarr", files={"analysis": ["an.zarr"]})


def put(target: Path, ds: xr.Dataset, zarr_format: Literal[2, 3] = 2) -> None:
    for da in ds.data_vars.values():
        da.attrs.pop("levels", None)
    ds.to_zarr(target, zarr_format=zarr_format, consolidated=True, mode="w")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stores_of_memory_and_folder_and_server_are_one(
    zarr_format: Literal[2, 3],
    server: Server,
    tmp_path: Path,
    datasets: tuple[xr.Dataset, xr.Dataset],
    cache: Path,
) -> None:
    url, folder, _ = server
    memory = f"memory://test{zarr_format}"
    for name, ds in zip(("fc", "an"), datasets, strict=True):
        put(folder / f"{name}.zarr", ds, zarr_format)
        fsspec.filesystem("memory").put(
            str(folder / f"{name}.zarr"), f"/test{zarr_format}/{name}.zarr", recursive=True
        )
    found = {
        root: ingest(zarr_entry(root), tmp_path / str(i))
        for i, root in enumerate((str(folder), folder.as_uri(), memory, url))
    }
    first = found.pop(str(folder))
    np.testing.assert_array_equal(first.forecast["z"], datasets[0]["z"])
    for archive in found.values():
        xr.testing.assert_identical(archive.forecast.load(), first.forecast.load())
        assert archive.analysis is not None
    # of a store there is a link only
    assert {path.name for path in cache.rglob("*") if path.is_file()} == {
        "fc.zarr.link.json",
        "an.zarr.link.json",
    }


def test_a_link_changes_with_its_store(
    server: Server, datasets: tuple[xr.Dataset, xr.Dataset]
) -> None:
    url, folder, _ = server
    put(folder / "fc.zarr", datasets[0].isel(time=slice(3)))
    (link,) = entry(url, "fc.zarr", "zarr").paths("forecast")
    before = link.stat().st_mtime_ns, link.read_text()
    (link,) = entry(url, "*.zarr", "zarr").paths("forecast")
    assert (link.stat().st_mtime_ns, link.read_text()) == before
    put(folder / "fc.zarr", datasets[0])
    entry(url, "fc.zarr", "zarr").paths("forecast")
    assert link.read_text() != before[1]


def test_a_store_that_fails_keeps_what_was_written(
    server: Server, tmp_path: Path, datasets: tuple[xr.Dataset, xr.Dataset]
) -> None:
    url, folder, handler = server
    ds = datasets[0].chunk(time=1, step=-1, number=-1, level=-1)
    put(folder / "fc.zarr", ds)
    e = entry(url, "fc.zarr", "zarr")
    handler.broken.add("3.0.0.0.0.0")
    with pytest.raises(WeatherppError, match=r"3\.0\.0\.0\.0\.0: cannot be read now .*503") as got:
        ingest(e, tmp_path / "a")
    assert not isinstance(got.value, InputError)
    assert (tmp_path / ".a.partial" / "blocks.done").is_file()
    handler.broken.clear()
    archive = ingest(e, tmp_path / "a")
    np.testing.assert_array_equal(archive.forecast["z"], ds["z"])
    # a chunk that is not there at all is a missing value, which is refused
    (folder / "fc.zarr" / "z" / "2.0.0.0.0.0").unlink()
    with pytest.raises(InputError, match="missing"):
        ingest(entry(url, "fc.zarr", "zarr"), tmp_path / "b")
