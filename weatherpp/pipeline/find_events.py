"""What the commands ``weatherpp events`` do: find events of a run, choose a recipe for cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from weatherpp.data.archive import Archive
from weatherpp.errors import ConfigError, InputError
from weatherpp.events.case import Case
from weatherpp.events.load import check_output, find_cases, load_cases, write_cases
from weatherpp.pipeline.case_views import found_cases, found_in
from weatherpp.pipeline.job import Job
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.record import RECIPE, read_record
from weatherpp.pipeline.run import find_recipe, is_run
from weatherpp.pipeline.stages import RunFolder
from weatherpp.recipe import CatalogSource, FindSettings, Recipe, load_recipe


def find_events(
    name: str,
    settings: FindSettings,
    *,
    overrides: tuple[str, ...],
    run_dir: Path | None,
    output: Path | None,
    terminal: Terminal,
) -> tuple[list[Case], Path]:
    """Find events in the archive of a run, or of a recipe; it is made if it is not there yet.

    Parameters
    ----------
    name
        Run folder, recipe file or name of a shipped recipe.
    settings
        What to look for.
    overrides, run_dir
        As for :func:`weatherpp.pipeline.run.run_recipe`.
    output
        File to write; by default ``found_cases.yaml`` in the run folder.

    Returns
    -------
    The cases, and the file they were written to.

    Raises
    ------
    ConfigError, InputError, LockedError
        Each with one line for the user.
    """
    if is_run(Path(name)):
        record, run_dir = read_record(Path(name)), Path(name)
        path, overrides = run_dir / RECIPE, (*record.overrides, *overrides)
    else:
        path = find_recipe(name)
    recipe = load_recipe(path, overrides)
    found_in(recipe, settings)
    if output is not None:
        check_output(output)
    run = RunFolder(run_dir or Path("runs") / recipe.name, (), terminal.on_task)
    job = Job(recipe, path.read_text(encoding="utf-8"), run, terminal)
    with run.locked():
        job.ingest()
        cases = found_cases(job, Archive.open(job.archive_path), settings)
        file = output or run.path / "found_cases.yaml"
        write_cases(cases, file)
    return cases, file


def cases_recipe(
    names: Sequence[str], recipe: str | None, overrides: tuple[str, ...]
) -> tuple[Path, tuple[str, ...]]:
    """The recipe that runs some cases, and the overrides that put them into it.

    Raises
    ------
    ConfigError
        A file cannot be used, or the cases do not agree on a recipe.
    InputError
        The data of the recipe are not there; the message says which they are and where to put
        them.
    """
    files = [find_cases(name) for name in names]
    cases = [case for file in files for case in load_cases(file).cases]
    if recipe is None:
        wanted = {case.recipe for case in cases}
        if len(wanted) != 1 or None in wanted:
            known = ", ".join(sorted(str(name) for name in wanted if name)) or "none"
            raise ConfigError(
                f"the cases name {known} as their recipe; give one for all with --recipe"
            )
        recipe = str(wanted.pop())
    path = find_recipe(recipe)
    _need_data(load_recipe(path, overrides), [case.name for case in cases])
    listed = json.dumps([str(file) for file in files])
    return path, (f"cases.files={listed}", "cases.find=null")


def _need_data(recipe: Recipe, names: Sequence[str]) -> None:
    """Refuse a recipe whose source is not there, saying what it is."""
    from weatherpp.data.catalog import load_entry

    if not isinstance(recipe.source, CatalogSource):
        return
    entry = load_entry(recipe.source.catalog)
    try:
        entry.folder(recipe.source.root or None)
    except (ConfigError, InputError) as error:
        few = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise InputError(
            f"case {few} needs {entry.title} ({entry.citation}), which is not here: {error}; "
            f"'weatherpp catalog show {entry.name}' says how its files lie"
        ) from None
