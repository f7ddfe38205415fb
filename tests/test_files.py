"""Files that show their final name only when they are whole."""

import itertools
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from weatherpp import files
from weatherpp.files import partial_folder, partial_name, write_whole


def test_a_failed_writing_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, "old")

    def half() -> None:
        with partial_name(path) as partial:
            partial.write_text("ne")
            assert path.read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.txt", "old")]
    with partial_name(path) as partial:
        partial.write_text("new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.txt", "new")]


def test_a_folder_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Whoever looks, or comes after a kill, between any two lines of it finds a whole one."""
    path, seen = tmp_path / "product.zarr", []

    def write(text: str) -> None:
        with partial_folder(path) as partial:
            for name in ("first", "second"):
                (partial / name).write_text(text)

    def look(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == files.__file__:
            seen.append([each.read_text() for each in sorted(path.iterdir())])
        return look

    write("old")
    before = sys.gettrace()
    sys.settrace(look)
    try:
        write("new")
    finally:
        sys.settrace(before)
    texts = [text for text, _ in itertools.groupby(seen)]
    assert texts == [["old", "old"], ["new", "new"]]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_left_aside_is_put_back(tmp_path: Path) -> None:
    """What a kill leaves where two folders cannot exchange their names."""
    path, aside = tmp_path / "maps", tmp_path / ".maps.old"
    aside.mkdir()
    (aside / "mean.png").write_text("old")

    def fail() -> None:
        with partial_folder(path) as partial:
            (partial / "mean.png").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (path / "mean.png").read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    def write() -> None:
        with partial_name(path), Path("/dev/full").open("w") as full:
            full.write("new")
            full.flush()

    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write()
