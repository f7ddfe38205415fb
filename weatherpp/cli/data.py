"""Commands that take files, models and the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weatherpp.cli.app import app

catalog_app = typer.Typer(help="The sources of data that weatherpp knows.", no_args_is_help=True)
app.add_typer(catalog_app, name="catalog")


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
