"""One small twin archive for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from weatherpp.twin import TwinConfig, generate

CONFIG = TwinConfig(years=2, dates_per_year=8, limit_dates=2, limit_members=4, device="cpu")


@pytest.fixture(scope="session")
def small_twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two years of eight dates, ten members, and a limit of two dates."""
    path = tmp_path_factory.mktemp("twin") / "twin.zarr"
    generate(path, CONFIG)
    return path
