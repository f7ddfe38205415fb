"""Commands that say how good: of one run, and of two against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weatherpp.cli.app import ForceOption, RecipeArgument, RunDirOption, SetOption, app
from weatherpp.cli.runs import execute


@app.command()
def evaluate(
    recipe: RecipeArgument,
    overrides: SetOption = [],  # noqa: B006  typer reads the default, nothing changes it
    force: ForceOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
) -> None:
    """Score a recipe's methods, fitting them where need be; print the scorecard, write the report.

    Example: weatherpp evaluate pipelines/demo.yaml
    """
    from weatherpp.pipeline.card_sections import card_text

    outcome = execute(recipe, overrides, force, run_dir, "report")
    typer.echo(card_text(outcome.run_dir))
    typer.echo(f"report: {outcome.run_dir / 'report.html'}")


RunArgument = Annotated[Path, typer.Argument(help="Folder of a finished run.")]


@app.command()
def compare(
    run_a: RunArgument,
    run_b: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where to write (default: in RUN_B)."),
    ] = None,
    different_data: Annotated[
        bool,
        typer.Option("--different-data", help="Compare runs scored against different data."),
    ] = False,
) -> None:
    """Say whether RUN_B is better than RUN_A, where and how surely; write compare.html.

    Methods of the same label are compared for every target, region and score on the dates that
    both runs have.

    Example: weatherpp compare runs/demo runs/second --out compared
    """
    from weatherpp.pipeline.compare import compare_runs, write_comparison

    found = compare_runs(run_a, run_b, different_data=different_data)
    page = write_comparison(found, out or run_b / f"compared-with-{run_a.resolve().name}")
    typer.echo(found.text())
    typer.echo(f"report: {page}")
