"""Shipped files are found in a checkout and in an installed wheel; imports stay light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weatherpp.data import shipped
from weatherpp.errors import ConfigError


def test_checkout() -> None:
    assert (shipped.shipped_folder("data_catalog") / "demo.yaml").is_file()


def test_installed_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "weatherpp"
    (package / "data").mkdir(parents=True)
    monkeypatch.setattr(shipped, "__file__", str(package / "data" / "shipped.py"))
    with pytest.raises(ConfigError, match="install weatherpp again"):
        shipped.shipped_folder("pipelines")
    (package / "_shipped" / "pipelines").mkdir(parents=True)
    assert shipped.shipped_folder("pipelines") == package / "_shipped" / "pipelines"


def test_no_torch_and_no_maps() -> None:
    code = (
        "import sys, weatherpp.data.ingest, weatherpp.data.inspect; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'matplotlib', 'cartopy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("first", ["weatherpp.conventions", "weatherpp.data.grib"])
def test_grib_and_projections_live_in_one_process(first: str, data_dir: Path) -> None:
    """The eccodes wheel brings a libproj of its own; loaded first it made pyproj crash."""
    code = (
        f"import {first}; import sys, xarray; "
        "xarray.open_dataset(sys.argv[1], engine='cfgrib', backend_kwargs={'indexpath': ''}); "
        "from pyproj import CRS, Transformer; "
        "assert CRS.from_epsg(4326).name == 'WGS 84'; "
        "Transformer.from_crs(3035, 4326).transform(3e6, 4e6)"
    )
    path = str(data_dir / "grib" / "hdate.grib")
    done = subprocess.run([sys.executable, "-c", code, path], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
