"""The work folder of the nightly job, one folder a cycle, and how its tasks are journalled."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from weatherpp.errors import WeatherppError
from weatherpp.files import file_digest
from weatherpp.operations.cycles import FORMAT, cycle_name
from weatherpp.operations.fetch import Server
from weatherpp.operations.ledger import Ledger
from weatherpp.operations.log import Log
from weatherpp.operations.settings import Nightly, NightlyTarget
from weatherpp.operations.source import Drop, Source
from weatherpp.pipeline.stages import RunFolder, digest_of_source

_READING = ("conventions.py", "data", "operations")
_LEARNT = ("families", "distribution.py", "methods", "pipeline")
_SOURCE = {
    "check": _READING,
    "product": (*_READING, *_LEARNT),
    "shadow": (*_READING, *_LEARNT),
    "maps": ("report", "operations"),
    "score": (*_READING, "families", "distribution.py", "verify"),
    "report": ("report", "verify", "operations"),
}
FETCHED = "fetched"
# which of several faults gives the exit code
ORDER = (1, 2, 3, 4, 5)
TOLD = 20


@dataclass
class Night:
    """Settings, places and records of one run; ``faults`` are collected, not raised."""

    settings: Nightly
    work: Path
    ledger: Ledger
    log: Log
    faults: list[WeatherppError] = field(default_factory=list)

    @cached_property
    def source(self) -> Source:
        """Where the files come from."""
        settings = self.settings.source
        return Server(settings, self.work / FETCHED) if settings.elsewhere else Drop(settings)

    def folder(self, cycle: pd.Timestamp) -> Path:
        """Folder of a cycle."""
        return self.work / "cycles" / cycle_name(cycle)

    def cycles(self) -> list[pd.Timestamp]:
        """Cycles that have a folder, in order."""
        found = []
        for path in filter(Path.is_dir, (self.work / "cycles").glob("*")):
            with suppress(ValueError):
                found.append(pd.Timestamp(pd.to_datetime(path.name, format=FORMAT)).as_unit("ns"))
        return sorted(found)

    def newest(self) -> pd.Timestamp | None:
        """The last cycle that has a product; a folder alone may be that of a date that was wrong,
        and against it all others would be old."""
        made = [
            cycle
            for cycle in self.cycles()
            if any((self.folder(cycle) / "stages" / "product").glob("*.json"))
        ]
        return made[-1] if made else None

    def product(self, cycle: pd.Timestamp, target: NightlyTarget) -> Path:
        """Where a cycle's product of a target is."""
        suffix = "nc" if self.settings.products.format == "netcdf" else "zarr"
        return self.folder(cycle) / f"{target.name}.{suffix}"

    def raw(self, cycle: pd.Timestamp, target: NightlyTarget) -> Path:
        """Where the raw members of a target are kept, to be scored beside the product."""
        return self.folder(cycle) / "raw" / f"{target.name}.nc"

    def shadow(self, cycle: pd.Timestamp, target: NightlyTarget) -> Path:
        """Where a cycle's product of the shadow version is, which nobody is shown."""
        return self.folder(cycle) / "shadow" / f"{target.name}.nc"

    def scored(self, cycle: pd.Timestamp, target: NightlyTarget) -> Path:
        """Where a cycle's scores of a target are."""
        return self.folder(cycle) / "scores" / f"{target.name}.parquet"

    @contextmanager
    def collecting(self, cycle: str) -> Iterator[None]:
        """Note a fault and go on with what else there is to do."""
        try:
            yield
        except WeatherppError as error:
            self.note(cycle, error)
        except OSError as error:
            where = error.filename or self.work  # not every library tells the file
            self.note(cycle, WeatherppError(f"{where}: {error.strerror or error}"))
        except Exception as error:
            # a fault of ours in one cycle or field must not cost the others
            if os.environ.get("WEATHERPP_DEBUG"):
                raise
            self.note(cycle, WeatherppError(f"fault, {type(error).__name__}: {error}"))

    def note(self, cycle: str, error: WeatherppError) -> None:
        """Note a fault in the log and, if the disk allows, in the ledger."""
        # kept until the end, and the frames it came through would keep their files open
        error.__context__ = None
        self.faults.append(error.with_traceback(None))
        text = " ".join(str(error).split())
        self.log.say(cycle, "", "fault", text)
        with suppress(WeatherppError):
            self.ledger.fault(cycle, "fault", error.exit_code, text)

    def warn(self, cycle: str, text: str) -> None:
        """Note a warning in the log and in the ledger."""
        self.log.say(cycle, "", "warning", text)
        self.ledger.fault(cycle, "warning", 0, text)


class CycleTasks:
    """Tasks in the folder of a cycle, each noted in log and ledger.

    Work puts its outputs in place of old ones by rename, so that the old ones stay until then.
    """

    def __init__(self, night: Night, folder: Path, cycle: str):
        self.night, self.cycle = night, cycle
        self.run = RunFolder(
            folder, on_task=self._on_task, source=lambda stage: digest_of_source(*_SOURCE[stage])
        )

    def _on_task(self, task: str, state: str) -> None:
        if state == "started":
            self.night.ledger.stage(self.cycle, task, state)

    def do(
        self,
        name: str,
        settings: Sequence[Any],
        inputs: Sequence[str],
        outputs: Sequence[Path],
        work: Callable[[], None],
    ) -> str:
        """Do a task unless it is done; returns the hash of its outputs."""
        result = self.run.task(name, settings, inputs, outputs, work, replaces=True)
        if self.run.done[name]:
            seconds = self.run.seconds().get(name)
            self.night.ledger.outputs(self.cycle, name, self._hashes(outputs))
            self.night.ledger.stage(self.cycle, name, "done", seconds)
            self.night.log.say(self.cycle, name, "done", seconds=seconds)
        return result

    def again(self, name: str, outputs: Sequence[Path], put: Callable[[], None]) -> None:
        """Put what a finished task has made into the ledger if that does not know of it, because
        it was lost or is an older copy."""
        made = self._hashes(outputs)
        if not self.night.ledger.noted(self.cycle, name, made):
            put()
            self.night.ledger.outputs(self.cycle, name, made)

    def _hashes(self, outputs: Sequence[Path]) -> list[tuple[str, str]]:
        folder = self.run.path
        return [(path.relative_to(folder).as_posix(), file_digest(path)) for path in outputs]


def in_words(error: Exception) -> str:
    """Text of an error of any kind."""
    return str(error) if isinstance(error, WeatherppError) else f"{type(error).__name__}: {error}"


def together(faults: Sequence[WeatherppError]) -> WeatherppError | None:
    """Faults as one, with the exit code of the gravest; None if there is none. Of very many some
    are told, as all are in the log and in the ledger."""
    if not faults:
        return None
    gravest = min(faults, key=lambda fault: ORDER.index(fault.exit_code))
    texts = list(dict.fromkeys(str(fault) for fault in (gravest, *faults)))
    more = [f"and {len(texts) - TOLD} more, see the log"] if len(texts) > TOLD else []
    return type(gravest)("; ".join(texts[:TOLD] + more))
