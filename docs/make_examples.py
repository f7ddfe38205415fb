"""Publish the reports of finished runs as examples under ``reports/examples``.

    python docs/make_examples.py runs/demo runs/research

Each report is made anew from what its run folder holds, so that it has today's look.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.run import report_again

EXAMPLES = Path(__file__).resolve().parent.parent / "reports" / "examples"
LARGEST = 3_500_000  # bytes, as every clone of the repository carries them


def publish(run: Path, terminal: Terminal) -> Path:
    """Make a run's report anew and copy it; returns the copy's path."""
    report_again(run, terminal)
    report, example = run / "report.html", EXAMPLES / f"{run.resolve().name}.html"
    size = report.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"{report}: {size / 1e6:.1f} MB is too large for an example")
    if str(Path.home()) in report.read_text(encoding="utf-8"):
        raise SystemExit(f"{report}: names the home folder; run with paths relative to the work")
    EXAMPLES.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(report, example)
    return example


if __name__ == "__main__":
    with Terminal() as shown:
        for folder in sys.argv[1:]:
            print(f"wrote {publish(Path(folder), shown)}")
