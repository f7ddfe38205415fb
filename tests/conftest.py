"""Fixtures that all rooms may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can say `import synthetic`

from synthetic import make_archive

from weatherpp.data.archive import Archive


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real sample files in the checkout."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def extra_data() -> Path:
    """Folder of sample files that cannot be shipped; skips without it."""
    folder = os.environ.get("WEATHERPP_EXTRA_DATA")
    if not folder:
        pytest.skip("WEATHERPP_EXTRA_DATA is not set")
    if not Path(folder).is_dir():
        pytest.fail(f"WEATHERPP_EXTRA_DATA: {folder} is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def tiny_archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Three years of twenty dates, ten members, z and t; do not change it on disk."""
    return make_archive(tmp_path_factory.mktemp("tiny") / "archive")
