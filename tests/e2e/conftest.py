"""A working folder with a small source, catalog entry and recipe, and the real command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from jobs import ENTRY, RECIPE, Command, write_yaml


@pytest.fixture(scope="session")
def source_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forecast, analysis and static fields as netCDF."""
    folder = tmp_path_factory.mktemp("source")
    names = ("forecast", "analysis", "static")
    for name, ds in zip(names, synthetic.make_datasets(dates=15), strict=True):
        ds.to_netcdf(folder / f"{name}.nc")
    return folder


@pytest.fixture
def workplace(tmp_path: Path, source_files: Path) -> Path:
    """Folder with ``files/``, ``data_catalog/tiny.yaml`` and ``tiny.yaml``."""
    shutil.copytree(source_files, tmp_path / "files")
    (tmp_path / "data_catalog").mkdir()
    write_yaml(tmp_path / "data_catalog" / "tiny.yaml", ENTRY)
    write_yaml(tmp_path / "tiny.yaml", RECIPE)
    return tmp_path


@pytest.fixture
def weatherpp() -> Command:
    """Run the real command line in a folder."""

    def call(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("weatherpp")), *args],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return call
