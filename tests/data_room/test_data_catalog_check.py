"""``weatherpp catalog check``: sources that are whole, and what is said of those that are not."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from pathlib import Path

import pytest
import synthetic
import xarray as xr

from weatherpp.data.catalog import CatalogEntry, load_entry
from weatherpp.data.catalog_check import Finding, check_source
from weatherpp.errors import InputError
from weatherpp.strict import validate


def missing(findings: list[Finding]) -> list[str]:
    return [finding.text for finding in findings if finding.missing]


def text(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))


def entry(root: Path, **settings: object) -> CatalogEntry:
    data = {
        "name": "t", "title": "T", "driver": "netcdf", "root": str(root), "licence": "none",
        "citation": "none", "files": {"forecast": ["forecast*.nc"], "analysis": ["analysis.nc"]},
    }  # fmt: skip
    return validate(CatalogEntry, {**data, **settings}, "t.yaml")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Forecasts of four dates, a file each, and the analyses of all their valid times."""
    forecast, analysis, _ = synthetic.make_datasets(years=1, dates=4, members=3, shape=(4, 8))
    levels = [200, 500, 800]
    bare = forecast[["z"]].sel(level=levels).drop_vars("valid_time")
    for number in range(4):
        bare.isel(time=[number]).to_netcdf(tmp_path / f"forecast{number}.nc")
    analysis[["z"]].sel(level=levels).to_netcdf(tmp_path / "analysis.nc")
    return tmp_path


def test_real_sources_that_are_whole() -> None:
    found = check_source(load_entry("mogreps-uk-t"))
    assert not missing(found)
    assert "forecast: 3 files, history/20170602T0300Z" in text(found)
    assert "t2m; 12 members" in text(found)
    assert "3 of 3 valid times of the forecasts have an analysis" in text(found)
    levels = text(check_source(load_entry("era5-levels-members")))
    assert "z at 500, 850 hPa, t at 500, 850 hPa; 10 members" in levels
    assert "no analyses to verify" in levels
    assert "analysis: msl; 4 valid times" in text(check_source(load_entry("mslp-packed")))
    assert "no files" in text(check_source(load_entry("demo")))


def test_real_sources_with_something_missing(extra_data: Path) -> None:
    found = check_source(load_entry("cfsv2-iberia"))
    assert not missing(found), "gaps are expected"
    assert "no analysis for 15 valid times, 1983-03-01 00:00 to 2002-03-01" in text(found)
    assert not missing(check_source(load_entry("meps-stations")))


def test_every_pattern_without_files_is_told(source: Path) -> None:
    files = {"forecast": ["forecast*.nc", "none*.nc"], "static": ["mask.nc"]}
    found = missing(check_source(entry(source, files=files)))
    assert found == [
        f"{source}/none*.nc: no such forecast file",
        f"{source}/mask.nc: no such static file",
    ]
    with pytest.raises(InputError, match="no folder"):
        check_source(entry(source), str(source / "elsewhere"))


def test_what_an_entry_expects(source: Path) -> None:
    whole = {"members": [0, 2], "levels": [200, 500, 800], "steps": ["24h", "48h"]}
    assert not missing(check_source(entry(source, expected=whole)))
    more = {"members": [0, 4], "levels": [500, 1000], "steps": ["0h", "24h", "72h"]}
    assert missing(check_source(entry(source, expected=more))) == [
        "member 3, 4; the entry says 0 to 4",
        "level 1000; the entry says 500, 1000 hPa",
        "lead time 0h, 72h; the entry says 0h, 24h, 72h",
    ]
    variables = {"z": {}, "t": {}}
    (fault,) = missing(check_source(entry(source, variables=variables)))
    assert fault.endswith("no variable t; there are z")


def test_forecasts_and_analyses_without_a_partner(source: Path) -> None:
    with xr.open_dataset(source / "analysis.nc") as ds:
        whole = ds.load()
    times = whole["valid_time"]
    whole.isel(valid_time=slice(1, None)).to_netcdf(source / "analysis.nc")
    found = check_source(entry(source))
    assert missing(found) == ["no analysis for 1 valid time, 2001-01-02 00:00 UTC"]
    assert f"{times.size - 1} of {times.size} valid times of the forecasts" in text(found)
    assert not missing(check_source(entry(source, missing_values="expected")))
    # forecasts that wait for their truth lack nothing
    files = {
        "forecast": ["forecast[123].nc"],
        "apply": ["forecast0.nc"],
        "analysis": ["analysis.nc"],
    }
    found = check_source(entry(source, files=files))
    assert not missing(found)
    assert "of 7 times with an analysis 1 are of no forecast" in text(found)


def test_damaged_and_ill_fitting_files(source: Path) -> None:
    with xr.open_dataset(source / "forecast1.nc") as ds:
        other = ds.load()
    other.isel(number=slice(2)).to_netcdf(source / "forecast1.nc")
    (fault,) = missing(check_source(entry(source)))
    assert "the files do not belong to one table, or some are missing" in fault
    (source / "forecast0.nc").write_bytes((source / "forecast0.nc").read_bytes()[:900])
    (fault,) = missing(check_source(entry(source)))
    assert "forecast0.nc: not a readable netCDF file" in fault


def test_of_files_below_a_url_the_first_is_fetched(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHERPP_CACHE", str(tmp_path / "cache"))
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(source))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,)).start()
        try:
            url = f"http://127.0.0.1:{running.server_port}"
            found = check_source(entry(source), url)
            # a store is read where it is
            with xr.open_dataset(source / "forecast0.nc") as ds:
                ds.load().to_zarr(source / "fc.zarr", zarr_format=2)
            files = {"forecast": ["fc.zarr"]}
            stored = check_source(entry(source, driver="zarr", files=files), url)
        finally:
            running.shutdown()
    assert not missing([*found, *stored])
    assert found[0].text == f"netcdf files below {url}"
    assert "forecast: 4 files, forecast0.nc to forecast3.nc" in text(found)
    assert "the other files are not looked at" in text(found)
    assert "3 members (0, 1, 2); lead times 24, 48 h; 1 initial time" in text(stored)
    kept = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert {name for name in kept if name.endswith(".nc")} == {"forecast0.nc", "analysis.nc"}
    shutil.rmtree(tmp_path / "cache")
