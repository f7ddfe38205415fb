"""Fitted once for all tests of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from night_cases import Cycles


@pytest.fixture(scope="session")
def cycles() -> Cycles:
    """Synthetic cycles."""
    return Cycles()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, cycles: Cycles) -> Path:
    """Registry with EMOS of five and of three members as version ``v1``."""
    return cycles.registry(tmp_path_factory.mktemp("models"))


@pytest.fixture
def place(tmp_path: Path, models: Path, cycles: Cycles) -> Path:
    """A place with ``models/z500`` and two whole cycles in ``drop``."""
    shutil.copytree(models, tmp_path / "models" / "z500", symlinks=True)
    for day in (0, 1):
        cycles.drop(tmp_path, day)
    return tmp_path
