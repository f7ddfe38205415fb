"""The page of the real sample files holds what its script gives."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_real_files", DOCS / "make_real_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sections() -> dict[str, list[str]]:
    """Rows of the page by folder."""
    found: dict[str, list[str]] = {}
    for line in (DOCS / "real-files.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            rows = found.setdefault(line.removeprefix("## "), [])
        elif line.startswith("| `"):
            rows.append(line)
    return found


def test_each_file_has_one_row(extra_data: Path) -> None:
    named = Counter(
        f"{folder}/{row.split('`')[1]}" for folder, rows in sections().items() for row in rows
    )
    there = {
        path.relative_to(extra_data).as_posix()
        for path in extra_data.rglob("*")
        if path.is_file() and path.name != "README.md"
    }
    assert set(named) == there
    assert max(named.values()) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::UserWarning")
@pytest.mark.parametrize(
    "folder", ["grib", "netcdf", "seasonal", "subseasonal", "mogreps_uk_lagged"]
)
def test_rows_are_what_the_script_gives(folder: str, script: ModuleType, extra_data: Path) -> None:
    page = sections()
    for file, cells in script.rows(extra_data, folder):
        wanted = f"| `{file.name}` | {' | '.join(cell.replace('|', '/') for cell in cells)} |"
        assert wanted in page[file.parent.as_posix()]


def test_the_page_names_no_folder_of_a_machine() -> None:
    text = (DOCS / "real-files.md").read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s(`])/\w+/", text)
