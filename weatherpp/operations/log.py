"""Short lines on standard error, as text or as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Log:
    """Where lines go; ``as_json`` for machines, ``quiet`` for warnings and faults alone."""

    as_json: bool = False
    quiet: bool = False

    def say(
        self, cycle: str, what: str, state: str, text: str = "", seconds: float | None = None
    ) -> None:
        """One line: ``2026-11-30T00 product/z500-48h done 1.2 s``."""
        if self.quiet and state not in ("warning", "fault"):
            return
        if self.as_json:
            line = {
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "cycle": cycle,
                "what": what,
                "state": state,
                "seconds": seconds,
                "text": text,
            }
            shown = json.dumps({k: v for k, v in line.items() if v not in ("", None)})
        else:
            took = "" if seconds is None else f"{seconds:.1f} s"
            shown = " ".join(each for each in (cycle, what, state, took, text) if each)
        print(shown, file=sys.stderr, flush=True)
