"""Commands of case studies: find events, run cases, list those that are shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weatherpp.cli.app import ForceOption, RunDirOption, SetOption, app

events_app = typer.Typer(help="Case studies: extreme events and what was forecast of them.")
app.add_typer(events_app, name="events", no_args_is_help=True)


@events_app.command()
def find(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run folder, or a recipe (file or shipped name).")
    ],
    count: Annotated[int, typer.Option("--count", min=1, max=100, help="Events at most.")] = 5,
    variable: Annotated[str, typer.Option("--variable", help="Short name.")] = "z",
    level: Annotated[int | None, typer.Option("--level", help="Pressure, hPa.")] = None,
    tail: Annotated[
        str | None, typer.Option("--tail", help="low or high (default: by the variable).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write (default: found_cases.yaml, there)."),
    ] = None,
    overrides: SetOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
) -> None:
    """Find the extremest events of the verified dates of a run, by its analyses alone.

    Prints them and writes them as cases, into the run folder if no other file is named.

    Example: weatherpp events find runs/demo --count 3 --variable z --level 500
    """
    from weatherpp.pipeline.find_events import find_events
    from weatherpp.pipeline.progress import Terminal
    from weatherpp.recipe import FindSettings
    from weatherpp.strict import validate

    values = {"count": count, "variable": variable, "level": level, "tail": tail}
    settings = validate(FindSettings, values, "events find")
    with Terminal() as terminal:
        cases, path = find_events(
            run,
            settings,
            overrides=tuple(overrides),
            run_dir=run_dir,
            output=output,
            terminal=terminal,
        )
    for case in cases:
        typer.echo(f"{case.peak:%Y-%m-%d %H:%M} UTC  {case.title}")
    typer.echo(f"cases: {path}")


@events_app.command(name="run")
def run_cases(
    cases: Annotated[
        list[str], typer.Argument(metavar="CASE...", help="Files of cases, or shipped names.")
    ],
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Recipe to run (default: the case's own).")
    ] = None,
    overrides: SetOption = [],  # noqa: B006
    force: ForceOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
) -> None:
    """Run a recipe from its source to its report with the cases given, instead of its own.

    Example: weatherpp events run storm-october-2013
    """
    from weatherpp.pipeline.find_events import cases_recipe
    from weatherpp.pipeline.progress import Terminal
    from weatherpp.pipeline.run import run_recipe

    path, more = cases_recipe(cases, recipe, tuple(overrides))
    with Terminal() as terminal:
        outcome = run_recipe(
            path,
            overrides=(*overrides, *more),
            run_dir=run_dir,
            force=tuple(force),
            terminal=terminal,
        )
    typer.echo(outcome.summary())


@events_app.command(name="list")
def list_cases() -> None:
    """List the cases that are shipped, with the recipe that runs each.

    Example: weatherpp events list
    """
    from weatherpp.data.shipped import shipped_folder
    from weatherpp.events.load import load_cases

    for file in sorted((shipped_folder("pipelines") / "cases").glob("*.yaml")):
        for case in load_cases(file).cases:
            typer.echo(f"{case.name:20}  {case.recipe or '-':14}  {case.heading}")
