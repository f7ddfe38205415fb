"""Files that show their final name only when they are whole."""

from pathlib import Path

import pytest

from weatherpp.files import partial_name, write_whole


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
