"""Resumable tasks in a run folder: identity by content, done-markers, lock.

A *task* (for example ``fit/z500/mixed-5``) has an identity: the hash of its settings, of the
identities of what it reads, and of the source of the rooms that do the work. Its done-marker
holds that identity and the size and hash of every output, and is written last, by rename. A
task whose marker fits is skipped; anything else is done again from scratch. So a killed run
leaves either a finished task or one that is redone, never half a result taken for a whole one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

import weatherpp
from weatherpp.errors import ConfigError, LockedError
from weatherpp.files import file_digest, write_whole
from weatherpp.strict import digest

STAGES = ("ingest", "fit", "postprocess", "verify", "events", "report")

_LEARNING = ("families", "distribution.py", "data", "methods")
# Whose source decides what a stage gives: a change there makes finished work stale.
_SOURCE = {
    "ingest": ("conventions.py", "data", "twin", "speedy"),
    "fit": (*_LEARNING, "pipeline/plan.py", "pipeline/leads.py", "pipeline/job.py"),
    "postprocess": (
        *_LEARNING,
        *(f"pipeline/{name}.py" for name in ("plan", "job", "coupling", "products")),
    ),
    "verify": (
        *("families", "distribution.py", "data", "verify"),
        *(f"pipeline/{name}.py" for name in ("scoring", "truths", "gain_maps")),
    ),
    "events": (
        *("families", "distribution.py", "data", "verify", "events"),
        *("pipeline/cases.py", "pipeline/case_views.py"),
    ),
    "report": ("report", "events", "pipeline"),
}


def source_digest(stage: str) -> str:
    """Hash of the Python source that a stage's result depends on."""
    return digest_of_source(*_SOURCE[stage])


@cache
def digest_of_source(*parts: str) -> str:
    """Hash of the Python source of some rooms and files of the package."""
    root = Path(weatherpp.__file__).parent
    hasher = hashlib.sha256()
    for part in parts:
        path = root / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            hasher.update(file.relative_to(root).as_posix().encode() + b"\0")
            hasher.update(file.read_bytes())
    return hasher.hexdigest()[:16]


@contextmanager
def alone(folder: Path, option: str) -> Iterator[None]:
    """Hold a folder for one run at a time; the system frees the lock if the run dies.

    Parameters
    ----------
    folder
        Is there already.
    option
        Of the command line, which names another folder.

    Raises
    ------
    LockedError
        Another run holds it.
    ConfigError
        Nothing can be written there, as in a folder that may only be read.
    """
    with _lock_file(folder / ".lock", option):
        yield


def _lock_file(path: Path, option: str) -> IO[str]:
    """The file, open and locked."""
    with ExitStack() as closing:
        try:
            stream = closing.enter_context(path.open("a"))
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(
                f"{path.parent}: another run is at work in this folder; wait for it to end, "
                f"or use another one with {option}"
            ) from None
        except OSError as error:
            if error.errno == errno.ENOSPC:  # no fault of the folder, and told as such
                raise
            raise ConfigError(
                f"{path}: cannot be written ({error.strerror}), so no run can work in this folder; "
                f"make it writable, or use another one with {option}"
            ) from None
        closing.pop_all()
        return stream


class RunFolder:
    """A run's folder: where tasks put their outputs and markers.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    force
        Stages to do again even if finished.
    on_task
        Called with (task, state) where state is ``skipped``, ``started`` or ``done``.
    source
        Hash of the code that does a stage.
    """

    def __init__(
        self,
        path: Path,
        force: Sequence[str] = (),
        on_task: Callable[[str, str], None] = lambda task, state: None,
        source: Callable[[str], str] = source_digest,
    ):
        self.path = path
        self.force = frozenset(force)
        self.on_task = on_task
        self.source = source
        self.done: dict[str, bool] = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be a run folder ({error.strerror}); choose one with --run-dir"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one run at a time, see :func:`alone`."""
        with alone(self.path, "--run-dir"):
            yield

    def task(
        self,
        name: str,
        settings: Sequence[Any],
        inputs: Sequence[str],
        outputs: Sequence[Path],
        work: Callable[[], None],
        resumable: bool = False,
        replaces: bool = False,
        content: Callable[[Path], str] = file_digest,
        made: Callable[[Path], str] | None = None,
    ) -> str:
        """Do a task unless it is done; return the hash of its outputs.

        Parameters
        ----------
        name
            ``stage/...``; the first part is a stage.
        settings
            All that decides the result: models and plain values.
        inputs
            Hashes of what is read.
        outputs
            Files or folders the work writes.
        work
            Does it.
        resumable
            The work itself goes on from what an interrupted attempt at the *same* identity
            left; without it, old outputs are removed first.
        replaces
            The work puts new outputs in place of old ones by itself, and makes use of these; they
            are only removed first if the stage is forced.
        content
            Hash of an output.
        made
            The same of one that the work has just made, if it is known without reading it.
        """
        stage = name.split("/")[0]
        identity = digest(name, list(settings), list(inputs), self.source(stage))
        marker = self.path / "stages" / f"{name}.json"
        found = None
        if stage not in self.force:
            found = finished(marker, identity, outputs, content)
        if found is not None:
            self.done[name] = False
            self.on_task(name, "skipped")
            return found
        self.on_task(name, "started")
        started = marker.with_suffix(".started")
        if not (resumable and started.is_file() and started.read_text() == identity):
            _remove([marker] if replaces and stage not in self.force else [marker, *outputs])
            write_whole(started, identity)
        for output in outputs:
            output.parent.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        work()
        result = digest(*map(made or content, outputs))
        noted = {
            "identity": identity,
            "result": result,
            "seconds": round(time.monotonic() - start, 2),
            "files": _listing(outputs),
        }
        write_whole(marker, json.dumps(noted, indent=1) + "\n")
        started.unlink()
        self.done[name] = True
        self.on_task(name, "done")
        return result

    def result(self, name: str) -> str | None:
        """Hash of a finished task's outputs, from its marker; None if there is none."""
        marker = self.path / "stages" / f"{name}.json"
        try:
            return str(json.loads(marker.read_text(encoding="utf-8"))["result"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def seconds(self) -> dict[str, float]:
        """Duration of every finished task, from the markers; damaged ones are passed over."""
        root = self.path / "stages"
        found: dict[str, float] = {}
        for file in sorted(root.rglob("*.json")):
            try:
                seconds = float(json.loads(file.read_text(encoding="utf-8"))["seconds"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            found[file.relative_to(root).with_suffix("").as_posix()] = seconds
        return found


def finished(
    marker: Path, identity: str, outputs: Sequence[Path], content: Callable[[Path], str]
) -> str | None:
    """Hash of a task's outputs if its marker says that they are there and whole, else None.

    Sizes and times of change are compared first; only if the times differ, as in a run folder
    that was copied or restored, the content is hashed, and the marker set to the new times.
    """
    try:
        noted = json.loads(marker.read_text(encoding="utf-8"))
        same = noted["identity"] == identity
        result, was = str(noted["result"]), [list(row) for row in noted["files"]]
        now = _listing(outputs)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not same or [row[:2] for row in was] != [row[:2] for row in now]:
        return None
    if was != now:
        if digest(*map(content, outputs)) != result:
            return None
        write_whole(marker, json.dumps({**noted, "files": now}, indent=1) + "\n")
    return result


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _listing(outputs: Sequence[Path]) -> list[list[Any]]:
    """Names, sizes and change times of output files; cheap to compare on the next run."""
    rows: list[list[Any]] = []
    for output in outputs:
        files = output.rglob("*") if output.is_dir() else [output]
        for file in sorted(files):
            if file.is_dir():
                continue
            state = file.stat()
            rows.append(
                [file.relative_to(output.parent).as_posix(), state.st_size, state.st_mtime_ns]
            )
    return rows
