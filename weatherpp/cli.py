"""Command line: parse, call, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import weatherpp
from weatherpp.errors import WeatherppError

if TYPE_CHECKING:
    from weatherpp.pipeline.run import Outcome

app = typer.Typer(
    name="weatherpp",
    help="Post-processing of ensemble weather forecasts: calibrated forecasts from a few members.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
catalog_app = typer.Typer(help="The sources of data that weatherpp knows.", no_args_is_help=True)
app.add_typer(catalog_app, name="catalog")

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="Recipe file, or the name of a shipped one.")
]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="A.B=C", help="Override a value of the recipe.")
]
ForceOption = Annotated[
    list[str], typer.Option("--force", metavar="STAGE", help="Do this stage again even if done.")
]
RunDirOption = Annotated[
    Path | None, typer.Option("--run-dir", help="Run folder (default: runs/NAME of the recipe).")
]


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"weatherpp {weatherpp.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    if debug:
        os.environ["WEATHERPP_DEBUG"] = "1"


def _execute(
    recipe: str,
    overrides: list[str],
    force: list[str],
    run_dir: Path | None,
    until: str,
    scheduler: str | None = None,
) -> Outcome:
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
        outcome = _execute(recipe, overrides, force, run_dir, stage)
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
    outcome = _execute(recipe, overrides, force, run_dir, "ingest", scheduler)
    typer.echo(outcome.summary())


_stage_command("fit", "Fit the recipe's methods (ingests first if need be).")
_stage_command("postprocess", "Predict with the fitted models (and all before that is not done).")
_stage_command("verify", "Score the predictions (and all before that is not done).")
_stage_command("report", "Write the HTML report (and all before that is not done).")


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
    outcome = _execute(recipe, overrides, force, run_dir, "report")
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
    outcome = _execute("demo", overrides, force, run_dir, "report")
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
    if not all(claim["holds"] for claim in found):
        raise typer.Exit(1)


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="GRIB, netCDF or Zarr.")],
) -> None:
    """Say what is in a file, in canonical terms, and what is missing for post-processing.

    Example: weatherpp inspect tests/data/grib/era5-levels-members.grib
    """
    from weatherpp.data.inspect import inspect as look

    typer.echo(str(look(file)))


@app.command()
def apply(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model folder of a fitted method.")
    ],
    forecast: Annotated[Path, typer.Argument(metavar="FORECAST", help="GRIB, netCDF or Zarr.")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="CF netCDF to write.")],
    recent: Annotated[
        Path | None,
        typer.Option(
            metavar="ARCHIVE", help="Recent forecasts and analyses, for method running-bias."
        ),
    ] = None,
) -> None:
    """Post-process one forecast file with one fitted model.

    Example: weatherpp apply runs/demo/models/z500/mixed-5 forecast.nc z500.nc
    """
    from weatherpp.pipeline.products import apply_model

    apply_model(model, forecast, output, recent)
    typer.echo(f"wrote {output}")


@catalog_app.command("list")
def catalog_list() -> None:
    """List the sources by name; exit 5 if the file of one cannot be used.

    Example: weatherpp catalog list
    """
    from weatherpp.data.catalog import readable_entries
    from weatherpp.errors import PartialError

    entries, faults = readable_entries()
    for entry in entries:
        typer.echo(f"{entry.name:24} {entry.title}")
    if faults:
        raise PartialError("not listed: " + "; ".join(map(str, faults)))


@catalog_app.command("show")
def catalog_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name from 'catalog list'.")],
) -> None:
    """Show one source: files, variables, members, licence, citation, quirks.

    Example: weatherpp catalog show era5-levels-members
    """
    import yaml

    from weatherpp.data.catalog import load_entry

    entry = load_entry(name).model_dump(mode="json", exclude_none=True)
    typer.echo(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True).rstrip())


@catalog_app.command("check")
def catalog_check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name from 'catalog list'.")],
    root: Annotated[
        str | None,
        typer.Option(
            "--root", metavar="FOLDER", help="Folder or URL, if not where the entry says."
        ),
    ] = None,
) -> None:
    """Compare the files of a source with what its entry says; exit 3 if something is missing.

    Reads headers only, no values; of files below a URL the first ones only.

    Example: weatherpp catalog check mogreps-uk-t --root tests/data/mogreps_uk_t
    """
    from weatherpp.data.catalog import load_entry
    from weatherpp.data.catalog_check import check_source
    from weatherpp.errors import InputError

    findings = check_source(load_entry(name), root)
    for finding in findings:
        typer.echo(str(finding))
    if any(finding.missing for finding in findings):
        raise typer.Exit(InputError.exit_code)


def _guarded(call: Callable[[], None]) -> int:
    """Run and turn any failure into one line on standard error and an exit code."""
    try:
        call()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except WeatherppError as error:
        if os.environ.get("WEATHERPP_DEBUG"):
            raise
        print(f"weatherpp: {_one_line(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("weatherpp: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:
        if os.environ.get("WEATHERPP_DEBUG"):
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"weatherpp: {where}{error.strerror or _one_line(error)}", file=sys.stderr)
        return 1
    except Exception as error:
        if os.environ.get("WEATHERPP_DEBUG"):
            raise
        kind = type(error).__name__
        print(
            f"weatherpp: fault, {kind}: {_one_line(error)}; run again with "
            "'weatherpp --debug ...' and report the traceback",
            file=sys.stderr,
        )
        return 1
    return 0


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def main() -> None:
    """Entry point of the ``weatherpp`` command."""
    for name in ("asyncio", "concurrent.futures"):
        # once a write has failed, others under way complain too, after the one line that tells it
        logging.getLogger(name).addFilter(lambda _: bool(os.environ.get("WEATHERPP_DEBUG")))
    sys.exit(_guarded(app))
