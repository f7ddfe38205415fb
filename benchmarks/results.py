"""What all benchmarks share: one form of result, printed as a JSON line and kept in a file.

    python benchmarks/results.py FILE PART...

gathers the files of several benchmarks into one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Result = dict[str, Any]


def result(name: str, value: float, goal: float, holds: bool, **more: Any) -> Result:
    """One result; ``more`` is what else is worth knowing."""
    return {"name": name, "value": round(value, 3), "goal": goal, "holds": bool(holds), **more}


def options(what: str | None) -> argparse.ArgumentParser:
    """A parser with the option that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="also write the results to this file")
    return parser


def report(results: Iterable[Result], out: Path | None) -> None:
    """Print each result as it comes; write all of them to a file."""
    found = []
    for each in results:
        print(json.dumps(each), flush=True)
        found.append(each)
    if out is not None:
        write(found, out)


def write(results: list[Result], out: Path) -> None:
    """Results as a JSON list."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    target, *parts = map(Path, sys.argv[1:])
    write([each for part in parts for each in json.loads(part.read_text("utf-8"))], target)
