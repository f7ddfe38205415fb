"""Fitted once for all tests of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from night_cases import Cycles

from weatherpp.operations import registry


@pytest.fixture(scope="session")
def cycles() -> Cycles:
    """Synthetic cycles."""
    return Cycles()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, cycles: Cycles) -> Path:
    """Registry with EMOS of five and of three members as version ``v1``."""
    folder = tmp_path_factory.mktemp("models")
    fitted = [cycles.fit(folder / "fitted", count) for count in (5, 3)]
    registry.add(folder / "z500", "v1", fitted, use_it=True)
    return folder / "z500"


@pytest.fixture
def place(tmp_path: Path, models: Path, cycles: Cycles) -> Path:
    """A place with ``models/z500`` and two whole cycles in ``drop``."""
    shutil.copytree(models, tmp_path / "models" / "z500", symlinks=True)
    for day in (0, 1):
        cycles.drop(tmp_path, day)
    return tmp_path
