"""The command itself, to which the other modules of this room add theirs, and its options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import weatherpp

app = typer.Typer(
    name="weatherpp",
    help="Post-processing of ensemble weather forecasts: calibrated forecasts from a few members.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
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
