"""Progress in the terminal: one bar per task, plain lines where there is no terminal."""

from __future__ import annotations

import sys
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

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()

    def on_task(self, task: str, state: str) -> None:
        """Note that a task was ``skipped``, has ``started`` or is ``done``."""
        if self._bar is not None:
            self.progress.remove_task(self._bar)
            self._bar = None
        if state == "started":
            self._task = task
            self._bar = self.progress.add_task(task, total=None)
        else:
            self.console.print(f"{state:>8}  {task}", highlight=False)

    def update(self, description: str, done: float, total: float) -> None:
        """Progress inside the running task."""
        if self._bar is not None:
            text = f"{self._task}: {description}" if description else self._task
            self.progress.update(self._bar, description=text, completed=done, total=total)
