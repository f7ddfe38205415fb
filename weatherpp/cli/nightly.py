"""Commands of the nightly job and of its models."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weatherpp.cli.app import SetOption, app

if TYPE_CHECKING:
    from weatherpp.operations.settings import Nightly

models_app = typer.Typer(help="Registry folders of the nightly job's models.", no_args_is_help=True)
app.add_typer(models_app, name="models")

RecipeOption = Annotated[
    str, typer.Option("--recipe", metavar="R", help="Recipe of the job, a file or a name.")
]
WorkOption = Annotated[
    Path | None, typer.Option("--work", help="Work folder (default: the recipe's).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="For machines.")]
RegistryArgument = Annotated[Path, typer.Argument(metavar="REGISTRY", help="Registry folder.")]


def _settings(recipe: str, overrides: list[str]) -> Nightly:
    from weatherpp.operations.settings import load_nightly
    from weatherpp.pipeline.run import find_recipe

    return load_nightly(find_recipe(recipe), overrides)


def _stop(number: int, _: object) -> None:
    """End in order when told to, as a service manager does, and say so."""
    os.write(2, b"weatherpp: terminated; run the same command again to go on\n")
    raise SystemExit(128 + number)


@app.command()
def nightly(
    recipe: RecipeOption = "nightly",
    cycle: Annotated[
        str | None, typer.Option("--cycle", metavar="T", help="Initial time (default: the last).")
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from", metavar="A", help="First cycle of a backfill.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="B", help="Last cycle of a backfill.")
    ] = None,
    work: WorkOption = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Cycles side by side.")] = 1,
    overrides: SetOption = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")] = False,
) -> None:
    """Post-process a cycle, verify earlier ones, and update the report.

    Waits for the cycle's files as the recipe says; a backfill (--from, --to) does not wait.

    Example: weatherpp nightly --recipe pipelines/nightly.yaml --cycle 2026-11-30T00
    """
    from weatherpp.errors import ConfigError
    from weatherpp.operations.cycles import cycles_between, latest_cycle, parse_cycle
    from weatherpp.operations.log import Log
    from weatherpp.operations.nightly import run_nightly

    settings = _settings(recipe, overrides)
    if (first is None) != (last is None):
        raise ConfigError("--from and --to go together")
    if cycle is not None and first is not None:
        raise ConfigError("give --cycle, or --from and --to")
    hours = settings.cycles
    if first is not None and last is not None:
        cycles = cycles_between(parse_cycle(first, hours), parse_cycle(last, hours), hours)
    else:
        cycles = [parse_cycle(cycle, hours) if cycle is not None else latest_cycle(hours)]
    folder = work or Path(settings.work)
    log = Log(as_json=as_json)
    patient = first is None
    signal.signal(signal.SIGTERM, _stop)
    outcome = run_nightly(settings, folder, cycles, patient=patient, jobs=jobs, log=log)
    if outcome.fault is not None:
        raise outcome.fault
    typer.echo(f"index: {folder / 'index.html'}")


@app.command()
def status(
    recipe: RecipeOption = "nightly", work: WorkOption = None, as_json: JsonOption = False
) -> None:
    """Where the nightly job stands: its last cycles, faults and warnings.

    Example: weatherpp status --work nightly
    """
    import json

    from weatherpp.operations import history

    found = history.status(work or Path(_settings(recipe, []).work))
    typer.echo(json.dumps(found, indent=1) if as_json else history.status_text(found))


@app.command("history")
def show_history(
    variable: Annotated[str, typer.Option("--variable", metavar="V", help="Such as t.")],
    level: Annotated[float | None, typer.Option("--level", metavar="HPA")] = None,
    lead: Annotated[float | None, typer.Option("--lead", metavar="HOURS")] = None,
    recipe: RecipeOption = "nightly",
    work: WorkOption = None,
    as_json: JsonOption = False,
) -> None:
    """Scores of a variable by cycle.

    Example: weatherpp history --variable t --lead 48 --work nightly
    """
    from weatherpp.operations import history

    folder = work or Path(_settings(recipe, []).work)
    table = history.history(folder, variable, level, lead)
    if as_json:
        typer.echo(table.to_json(orient="records", indent=1))
    else:
        typer.echo(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))


@models_app.command("add")
def models_add(
    registry: RegistryArgument,
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL...", help="Model folders, the preferred one first."),
    ],
    version: Annotated[str, typer.Option("--version", metavar="NAME", help="Of these models.")],
    use_it: Annotated[bool, typer.Option("--use", help="Make it the current version.")] = False,
) -> None:
    """Copy fitted models of a field into a registry as a new version.

    Example: weatherpp models add models/z500 runs/demo/models/z500/mixed-5 --version v1 --use
    """
    from weatherpp.operations import registry as registries

    added = registries.add(registry, version, models, use_it)
    typer.echo(f"added {added.path}")


@models_app.command("use")
def models_use(
    registry: RegistryArgument,
    version: Annotated[str, typer.Argument(metavar="VERSION")],
) -> None:
    """Make a version the current one; also the way back to an older one.

    Example: weatherpp models use models/z500 v1
    """
    from weatherpp.operations import registry as registries

    registries.use(registry, version)
    typer.echo(f"{registry}: {version} is current")


@models_app.command("promote")
def models_promote(
    registry: RegistryArgument,
    version: Annotated[str, typer.Argument(metavar="VERSION")],
    recipe: RecipeOption = "nightly",
    work: WorkOption = None,
    anyway: Annotated[bool, typer.Option("--yes", help="Even if it is not surely better.")] = False,
) -> None:
    """Make a version current if, as a shadow, it scored better than the current one.

    Exit code 1 if it did not, or on too few cycles to tell.

    Example: weatherpp models promote models/z500 v2 --work nightly
    """
    from weatherpp.operations.promotion import promote

    settings = _settings(recipe, [])
    verdict = promote(settings, work or Path(settings.work), registry, version, anyway)
    typer.echo(verdict.text())
    typer.echo(f"{registry}: {version} is current")


@models_app.command("rollback")
def models_rollback(registry: RegistryArgument) -> None:
    """Make the version current that was so before.

    Example: weatherpp models rollback models/z500
    """
    from weatherpp.operations import registry as registries

    typer.echo(f"{registry}: {registries.roll_back(registry)} is current")


@models_app.command("list")
def models_list(registry: RegistryArgument) -> None:
    """List the versions of a registry; the current one has a star.

    Example: weatherpp models list models/z500
    """
    from weatherpp.errors import ConfigError, InputError
    from weatherpp.operations import registry as registries

    found = registries.folders(registry)
    if not found:
        raise ConfigError(f"{registry}: no registry folder, or none with a version in it")
    now, faults = "", []
    try:
        if os.path.lexists(registry / registries.CURRENT):
            now = registries.current(registry).name
    except (ConfigError, InputError) as error:
        faults.append(error)
    for path in found:
        mark = "*" if path.name == now else " "
        try:
            models = ", ".join(registries.read_version(path).models)
        except InputError as error:
            faults.append(error)
            models = "not whole"
        typer.echo(f"{mark} {path.name:24} {models}")
    if faults:
        raise faults[-1]
