"""Commands that take a recipe or its run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weatherpp.cli.app import ForceOption, RecipeArgument, RunDirOption, SetOption, app

if TYPE_CHECKING:
    from weatherpp.pipeline.run import Outcome


def execute(
    recipe: str,
    overrides: list[str],
    force: list[str],
    run_dir: Path | None,
    until: str,
    scheduler: str | None = None,
) -> Outcome:
    """Run a recipe up to and including a stage, with progress in the terminal."""
    from weatherpp.pipeline.progress import Terminal
    from weatherpp.pipeline.run import find_recipe, run_recipe

    path = find_recipe(recipe)
    with Terminal() as terminal:
        return run_recipe(
            path,
            overrides=tuple(overrides),
            run_dir=run_dir,
            until=until,
            force=tuple(force),
            scheduler=scheduler,
            terminal=terminal,
        )


def _stage_command(stage: str, help_text: str) -> None:
    """Register a command that runs a recipe up to and including one stage."""

    def command(
        recipe: RecipeArgument,
        overrides: SetOption = [],  # noqa: B006  typer reads the default, nothing changes it
        force: ForceOption = [],  # noqa: B006
        run_dir: RunDirOption = None,
    ) -> None:
        outcome = execute(recipe, overrides, force, run_dir, stage)
        typer.echo(outcome.summary())

    command.__doc__ = f"{help_text}\n\nExample: weatherpp {stage} pipelines/demo.yaml"
    app.command(name=stage)(command)


@app.command()
def ingest(
    recipe: RecipeArgument,
    overrides: SetOption = [],  # noqa: B006
    force: ForceOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers do the work."
        ),
    ] = None,
) -> None:
    """Make the archive of a recipe from its source, or add what is new in the source.

    Example: weatherpp ingest pipelines/demo.yaml
    """
    outcome = execute(recipe, overrides, force, run_dir, "ingest", scheduler)
    typer.echo(outcome.summary())


_stage_command("fit", "Fit the recipe's methods (ingests first if need be).")
_stage_command("postprocess", "Predict with the fitted models (and all before that is not done).")
_stage_command("verify", "Score the predictions (and all before that is not done).")


@app.command()
def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|RECIPE", help="Folder of a finished run, a recipe file, or a shipped name."
        ),
    ],
    overrides: SetOption = [],  # noqa: B006
    force: ForceOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
) -> None:
    """Write the HTML report; of a recipe, do all before that is not done, of a run nothing else.

    Example: weatherpp report runs/demo
    """
    from weatherpp.errors import ConfigError
    from weatherpp.pipeline.progress import Terminal
    from weatherpp.pipeline.run import is_run, report_again

    if not is_run(Path(run)):
        typer.echo(execute(run, overrides, force, run_dir, "report").summary())
        return
    if overrides or force or run_dir is not None:
        raise ConfigError(
            f"{run}: the settings of a finished run stay as they are; give its recipe instead"
        )
    with Terminal() as terminal:
        typer.echo(report_again(Path(run), terminal).summary())


@app.command()
def index(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder that holds run folders.")
    ] = Path("runs"),
) -> None:
    """Write a page over past runs: title, date, claims, main gain, link.

    Example: weatherpp index runs
    """
    from weatherpp.report.index import write_index

    typer.echo(f"wrote {write_index(folder)}")


@app.command()
def run(
    recipe: RecipeArgument,
    overrides: SetOption = [],  # noqa: B006
    force: ForceOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
) -> None:
    """Run a recipe from its source to its report; finished stages are skipped.

    Example: weatherpp run pipelines/demo.yaml --set seed=2 --run-dir runs/second
    """
    outcome = execute(recipe, overrides, force, run_dir, "report")
    typer.echo(outcome.summary())


@app.command()
def demo(
    overrides: SetOption = [],  # noqa: B006
    force: ForceOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
) -> None:
    """Run the whole job on the embedded atmosphere: archive, networks, scores, report.

    Example: weatherpp demo
    """
    outcome = execute("demo", overrides, force, run_dir, "report")
    typer.echo(outcome.summary())


@app.command()
def tune(
    recipe: RecipeArgument,
    method: Annotated[
        str, typer.Option("--method", metavar="LABEL", help="Method whose settings to search.")
    ],
    target: Annotated[str, typer.Option("--target", metavar="NAME", help="Target to search for.")],
    trials: Annotated[int, typer.Option("--trials", min=1, help="Fits in all.")] = 20,
    overrides: SetOption = [],  # noqa: B006
    run_dir: RunDirOption = None,
) -> None:
    """Search a method's settings over its ranges under 'search', by validation dates alone.

    Prints the best settings as YAML for the recipe; a search that was stopped goes on.

    Example: weatherpp tune my.yaml --method mixed-5 --target z500 --trials 30
    """
    from weatherpp.pipeline.progress import Terminal
    from weatherpp.pipeline.run import find_recipe
    from weatherpp.pipeline.tuning import tune as search

    with Terminal() as terminal:
        found = search(
            find_recipe(recipe),
            label=method,
            target=target,
            trials=trials,
            overrides=tuple(overrides),
            run_dir=run_dir,
            terminal=terminal,
        )
    typer.echo(found.summary())


@app.command()
def claims(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
) -> None:
    """Print each claim of a run with value, interval, bound and verdict; exit 1 if one fails.

    Example: weatherpp claims runs/demo
    """
    from weatherpp.pipeline.run import read_claims

    found = read_claims(run)
    for claim in found:
        verdict = "holds" if claim["holds"] else "does not hold"
        typer.echo(f"{verdict:>13}  {claim['name']}: {claim['text']}")
    if not found:
        typer.echo("no claims: the recipe of this run makes none")
    if not all(claim["holds"] for claim in found):
        raise typer.Exit(1)
