"""Progress: one bar per task in a terminal; elsewhere plain lines, one per task and per stage."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Terminal:
    """Shows tasks as they start and end, and progress inside a task.

    Everything goes to standard error, so that standard output holds results alone.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._bar: TaskID | None = None
        self._task = ""
        self._stage = ""
        self._counts: Counter[str] = Counter()
        self._since = time.monotonic()

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._end_stage()
        self.progress.stop()

    def note(self, text: str) -> None:
        """A line that tells the user something beside the progress."""
        self.console.print(f"note: {text}", highlight=False, markup=False, soft_wrap=True)

    def on_task(self, task: str, state: str) -> None:
        """Note that a task was ``skipped``, has ``started`` or is ``done``."""
        if self._bar is not None:
            self.progress.remove_task(self._bar)
            self._bar = None
        stage = task.split("/")[0]
        if stage != self._stage:
            self._end_stage()
            self._stage, self._since = stage, time.monotonic()
        self._counts[state] += 1
        if state == "started":
            self._task = task
            self._bar = self.progress.add_task(task, total=None)
        else:
            self.console.print(f"{state:>8}  {task}", highlight=False, soft_wrap=True)

    def _end_stage(self) -> None:
        """One line for a whole stage, for whoever follows a log file."""
        if self._stage and self.progress.disable:
            told = [f"{self._counts[s]} {s}" for s in ("done", "skipped") if self._counts[s]]
            seconds = time.monotonic() - self._since
            line = f"stage {self._stage} finished: {', '.join(told)}, {seconds:.0f} s"
            self.console.print(line, highlight=False, soft_wrap=True)
        self._stage = ""
        self._counts.clear()

    def update(self, description: str, done: float, total: float) -> None:
        """Progress inside the running task."""
        if self._bar is not None:
            text = f"{self._task}: {description}" if description else self._task
            self.progress.update(self._bar, description=text, completed=done, total=total)
