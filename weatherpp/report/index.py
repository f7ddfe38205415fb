"""A page over past runs: what each one found, with a link to its report."""

from __future__ import annotations

import fcntl
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from weatherpp.errors import ConfigError, WeatherppError
from weatherpp.report.content import ReportData, chosen
from weatherpp.report.tables import kindest_gains, known, of_main_region
from weatherpp.report.template import render_page, write_page
from weatherpp.report.words import gain_phrase
from weatherpp.verify.table import LIMIT

PAGE, CARD, REPORT = "index.html", "report.json", "report.html"
MARK = '<meta name="generator" content="weatherpp index">'


@dataclass(frozen=True)
class Run:
    """One line of the index."""

    folder: str
    link: str
    title: str
    made: str
    claims: str
    share: float | str
    gain: float | str
    gain_text: str


def card(data: ReportData, made: str) -> str:
    """What a report leaves for the index, as JSON.

    The main gain is the largest of the first target over its first reference, scored kindest.
    """
    judged = [claim for claim in data.claims if claim["holds"] is not None]
    found: dict[str, Any] = {
        "title": data.title or data.name,
        "made": made,
        "claims": len(judged),
        "held": sum(bool(claim["holds"]) for claim in judged),
        "gain": None,
        "gain_text": "",
    }
    gains = kindest_gains(of_main_region(known(chosen(data.gains, data.highlights), "gain")))
    gains = gains[~gains["method"].astype(str).str.startswith(LIMIT)]
    if len(gains):
        first = gains.iloc[0]
        alike = gains[
            (gains["target"] == first["target"]) & (gains["reference"] == first["reference"])
        ]
        best = alike.loc[alike["gain"].astype(float).idxmax()].to_dict()
        found["gain"] = float(best["gain"])
        found["gain_text"] = (
            f"{best['target']}, {best['method']}: {gain_phrase(best, level=data.level)}"
        )
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def write_index(folder: Path) -> Path:
    """Write ``index.html`` over the reports in the folders of ``folder``; returns its path.

    Several runs may end at once: each waits for the other, and the last one sees them all.

    Raises
    ------
    ConfigError
        No such folder, or its ``index.html`` is another page.
    WeatherppError
        It cannot be written to.
    """
    path = folder / PAGE
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give the one that holds the run folders")
    try:
        with (folder / ".index.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists() and not is_index(path):
                raise ConfigError(
                    f"{path}: is there and is no index of runs; move it, or keep the runs in "
                    "another folder"
                )
            runs, damaged = _runs(folder)
            page = render_page("index.html.j2", runs=[asdict(run) for run in runs], damaged=damaged)
            write_page(page, path)
    except OSError as error:
        raise WeatherppError(f"{folder}: no index can be written ({error.strerror})") from None
    return path


def is_index(path: Path) -> bool:
    """Whether a file is an index of runs."""
    return path.is_file() and MARK in path.read_text(encoding="utf-8", errors="replace")


def _runs(folder: Path) -> tuple[list[Run], list[str]]:
    """Runs, newest first, and a line for each that has no card or a damaged one."""
    found: list[Run] = []
    damaged: list[str] = []
    for report in sorted(folder.glob(f"*/{REPORT}")):
        try:
            found.append(_run(report.parent))
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            damaged.append(
                f"{report.parent.name} is not listed: make its report again, to know what it found."
            )
    return sorted(found, key=lambda run: run.made, reverse=True), damaged


def _run(folder: Path) -> Run:
    if not all((folder / name).is_file() for name in (REPORT, CARD)):
        raise FileNotFoundError  # a folder, or a pipe that would never end
    told = json.loads((folder / CARD).read_text(encoding="utf-8"))
    claims, held = int(told["claims"]), int(told["held"])
    gain = told["gain"]
    if not (0 <= held <= claims and (gain is None or math.isfinite(gain))):
        raise ValueError
    for name in ("title", "made", "gain_text"):
        str(told[name]).encode()  # half a character cannot be written to the page
    return Run(
        folder=folder.name,
        link=f"{quote(folder.name)}/{REPORT}",
        title=str(told["title"]),
        made=str(told["made"]),
        claims=f"{held} of {claims}" if claims else "",
        share=held / claims if claims else "",
        gain="" if gain is None else float(gain),
        gain_text=str(told["gain_text"]).replace(" %", "\u00a0%"),
    )
