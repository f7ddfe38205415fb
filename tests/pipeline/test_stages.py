"""Tasks are done once, redone when anything they depend on changes, and survive kill -9."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from weatherpp.errors import ConfigError, LockedError
from weatherpp.files import file_digest, write_whole
from weatherpp.pipeline.stages import RunFolder


def do(run: RunFolder, log: list[str], *, settings: str = "s", inputs: str = "i") -> str:
    out = run.path / "out.txt"

    def work() -> None:
        log.append("work")
        out.write_text(settings + inputs)

    return run.task("fit/x", [settings], [inputs], [out], work)


def test_done_is_skipped_and_change_redoes(tmp_path: Path) -> None:
    log: list[str] = []
    run = RunFolder(tmp_path)
    first = do(run, log)
    assert do(run, log) == first
    assert log == ["work"]
    assert do(run, log, settings="t") != first
    do(run, log, settings="t", inputs="j")
    assert len(log) == 3


def test_force_redoes_only_its_stage(tmp_path: Path) -> None:
    log: list[str] = []
    do(RunFolder(tmp_path), log)
    do(RunFolder(tmp_path, force=["verify"]), log)
    assert len(log) == 1
    do(RunFolder(tmp_path, force=["fit"]), log)
    assert len(log) == 2


@pytest.mark.parametrize("damage", ["missing", "changed", "marker"])
def test_damaged_outputs_are_made_again(tmp_path: Path, damage: str) -> None:
    log: list[str] = []
    run = RunFolder(tmp_path)
    do(run, log)
    if damage == "missing":
        (tmp_path / "out.txt").unlink()
    elif damage == "changed":
        (tmp_path / "out.txt").write_text("other")
    else:
        (tmp_path / "stages/fit/x.json").write_text("{")
    do(run, log)
    assert len(log) == 2
    assert (tmp_path / "out.txt").read_text() == "si"


def test_copied_folder_is_known_by_its_content(tmp_path: Path) -> None:
    log: list[str] = []
    first = do(RunFolder(tmp_path / "one"), log)
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    os.utime(tmp_path / "two/out.txt", (1, 1))
    assert do(RunFolder(tmp_path / "two"), log) == first
    assert log == ["work"]
    (tmp_path / "two/out.txt").write_text("is")  # same size, other content
    do(RunFolder(tmp_path / "two"), log)
    assert len(log) == 2


def test_failed_work_leaves_no_marker(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)

    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run.task("fit/x", [], [], [tmp_path / "out.txt"], fail)
    log: list[str] = []
    do(run, log)
    assert log == ["work"]


def test_resumable_work_keeps_its_own_half_only_for_the_same_identity(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    out = tmp_path / "part"
    seen: list[bool] = []

    def half() -> None:
        seen.append((out / "year1").exists())
        out.mkdir(exist_ok=True)
        (out / "year1").write_text("1")
        if len(seen) < 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.task("ingest/a", ["s"], [], [out], half, resumable=True)
    run.task("ingest/a", ["s"], [], [out], half, resumable=True)
    run.task("ingest/a", ["other"], [], [out], half, resumable=True)
    assert seen == [False, True, False]


def test_digest_of_folder_sees_names_and_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = file_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert file_digest(tmp_path) != before


def test_write_whole_leaves_no_part(tmp_path: Path) -> None:
    write_whole(tmp_path / "sub" / "x.txt", "ä")
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["x.txt"]


HOLDER = """
import sys, time
from pathlib import Path
from weatherpp.pipeline.stages import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_lock_refuses_a_second_run_and_dies_with_its_holder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match="another run"), RunFolder(tmp_path).locked():
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    deadline = time.monotonic() + 10
    while True:
        try:
            with RunFolder(tmp_path).locked():
                return
        except LockedError:
            if time.monotonic() > deadline:
                raise


def test_a_folder_that_cannot_be_locked_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()  # cannot be opened for writing, whoever asks
    with (
        pytest.raises(ConfigError, match=r"\.lock: cannot be written .*--run-dir"),
        RunFolder(tmp_path).locked(),
    ):
        pytest.fail("not locked")
