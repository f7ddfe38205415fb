"""Recipes found by name, run in order of their stages, and what comes of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weatherpp.data.shipped import find_yaml
from weatherpp.errors import ConfigError, InputError, WeatherppError
from weatherpp.pipeline.job import Job
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.record import RECIPE, keep_record, read_record
from weatherpp.pipeline.stages import STAGES, RunFolder
from weatherpp.recipe import load_recipe
from weatherpp.strict import digest


def find_recipe(name: str) -> Path:
    """Path of a recipe given as a file or as the name of a shipped one.

    A file ``pipelines/NAME.yaml`` in the working folder goes before a shipped one.

    Raises
    ------
    ConfigError
        There is none.
    """
    return find_yaml(name, "pipelines", "recipe", "recipe file")


@dataclass(frozen=True)
class Outcome:
    """What a run left behind, for the person at the terminal."""

    run_dir: Path
    until: str
    redone: tuple[str, ...]

    def summary(self) -> str:
        """Short score table and where the report is."""
        lines: list[str] = []
        scores = self.run_dir / "scores"
        if self.until in STAGES[STAGES.index("verify") :]:
            from weatherpp.pipeline.reporting import short_table

            lines.append(short_table(scores))
        if self.until in ("events", "report") and (self.run_dir / "events").is_dir():
            from weatherpp.pipeline.case_report import case_lines

            lines += case_lines(self.run_dir / "events")
        if not self.redone:
            lines.append("all stages were already done; --force STAGE does one again")
        if self.until == "report":
            lines.append(f"report: {self.run_dir / 'report.html'}")
        else:
            lines.append(f"run folder: {self.run_dir}")
        return "\n".join(lines)


def run_recipe(
    path: Path,
    *,
    overrides: tuple[str, ...] = (),
    run_dir: Path | None = None,
    until: str = "report",
    force: tuple[str, ...] = (),
    scheduler: str | None = None,
    terminal: Terminal,
) -> Outcome:
    """Run a recipe up to and including a stage; what is done already is skipped.

    Parameters
    ----------
    path
        Recipe file.
    overrides
        ``a.b=c`` assignments.
    run_dir
        Run folder; by default ``runs/NAME``.
    until
        Last stage, one of :data:`weatherpp.pipeline.stages.STAGES`.
    force
        Stages to do again.
    scheduler
        Address of a dask.distributed scheduler, for ingest.
    terminal
        Shows progress.

    Raises
    ------
    ConfigError, InputError, LockedError
        Each with one line for the user.
    """
    from weatherpp.pipeline.case_views import named_cases
    from weatherpp.pipeline.cases import study
    from weatherpp.pipeline.reporting import report
    from weatherpp.pipeline.scoring import verify

    for stage in force:
        if stage not in STAGES:
            raise ConfigError(f"--force {stage}: the stages are {', '.join(STAGES)}")
    recipe = load_recipe(path, overrides)
    run = RunFolder(run_dir or Path("runs") / recipe.name, force, terminal.on_task)
    job = Job(recipe, path.read_text(encoding="utf-8"), run, terminal, scheduler=scheduler)
    job.methods()
    named = named_cases(recipe)
    with run.locked():
        archive_hash = job.ingest()
        job.trusted = run.done["ingest/archive"]  # hashed just now
        if until != "ingest":
            models = job.fit(archive_hash)
        if until in STAGES[STAGES.index("postprocess") :]:
            products = job.postprocess(archive_hash, models)
        if until in STAGES[STAGES.index("verify") :]:
            scores = verify(job, archive_hash, products)
        if until in ("events", "report") and recipe.cases is not None:
            scores = digest(scores, study(job, named, archive_hash, products, scores))
        if until == "report":
            fresh = any(run.done.values())
            keep_record(run.path, path, job.text, overrides, run_dir is not None, fresh)
            report(job, archive_hash, products, scores, overrides)
    if until == "report":
        _index(run.path, terminal)
    redone = tuple(name for name, fresh in run.done.items() if fresh)
    return Outcome(run.path, until, redone)


def report_again(run_dir: Path, terminal: Terminal) -> Outcome:
    """Make the report of a finished run anew from what its folder holds; nothing is fitted.

    Raises
    ------
    InputError
        The folder does not tell how it was made, or has no scores.
    LockedError
        A run is at work in it.
    """
    from weatherpp.pipeline.reporting import write_report

    record = read_record(run_dir)
    recipe = load_recipe(run_dir / RECIPE, record.overrides)
    text = (run_dir / RECIPE).read_text(encoding="utf-8")
    run = RunFolder(run_dir, (), terminal.on_task)
    with run.locked():
        write_report(Job(recipe, text, run, terminal))
    _index(run_dir, terminal)
    return Outcome(run_dir, "report", ("report/html",))


def is_run(path: Path) -> bool:
    """Whether a path is a run folder, finished or not."""
    return (path / "stages").is_dir() or (path / "scores").is_dir()


def _index(run: Path, terminal: Terminal) -> None:
    """The page over the runs beside this one; a run does not fail for the lack of it.

    Written where it is expected: in a folder ``runs``, and where there is one already.
    """
    from weatherpp.report.index import PAGE, is_index, write_index

    folder = run.resolve().parent
    if folder.name != "runs" and not is_index(folder / PAGE):
        return
    try:
        write_index(folder)
    except WeatherppError as error:
        terminal.note(str(error))


def read_claims(run: Path) -> list[dict[str, Any]]:
    """Claims of a finished run.

    Raises
    ------
    InputError
        The folder has none.
    """
    path = run / "scores" / "claims.json"
    try:
        claims = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(claims, list) or not all(type(c["holds"]) is bool for c in claims):
            raise ValueError
        return [{key: claim[key] for key in ("name", "text", "holds")} for claim in claims]
    except OSError:
        hint = "run the recipe first" if not run.is_dir() else "its recipe was not verified yet"
        raise InputError(f"{os.fspath(run)}: no claims there; {hint}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: damaged; make it again with 'weatherpp verify RECIPE --force verify'"
        ) from None
