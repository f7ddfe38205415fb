"""What a run folder tells of how it was made: the recipe as it was run, and ``run.json``."""

from __future__ import annotations

import platform
import shlex
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

import weatherpp
from weatherpp.data.shipped import own_and_shipped
from weatherpp.errors import InputError
from weatherpp.files import write_whole
from weatherpp.strict import Strict

RECIPE, RECORD = "recipe.yaml", "run.json"
VERSIONS = ("xarray", "numpy", "torch", "lightning", "zarr", "cfgrib", "cartopy")


class Record(Strict):
    """How a run was made, beside its recipe.

    Parameters
    ----------
    command
        The command line that makes it again.
    overrides
        ``a.b=c`` assignments to the recipe.
    made
        When the last of its work was done, UTC.
    version, system, libraries
        What it was done with.
    """

    command: str
    overrides: tuple[str, ...]
    made: str
    version: str
    system: str
    libraries: str


def keep_record(
    run: Path, recipe: Path, text: str, overrides: tuple[str, ...], own_folder: bool, fresh: bool
) -> None:
    """Write the recipe as it was run, and the record.

    Parameters
    ----------
    run, recipe, text
        Run folder, recipe file and its text.
    overrides, own_folder
        Assignments to the recipe, and whether the run folder was named by the user.
    fresh
        Whether any work was done just now; if not, versions and time stay those of the work.
    """
    assignments = [part for each in overrides for part in ("--set", each)]
    place = ["--run-dir", str(run)] if own_folder else []
    command = shlex.join(["weatherpp", "run", _short(recipe), *assignments, *place])
    record = Record(
        command=command,
        overrides=overrides,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        version=f"{weatherpp.__version__}{_commit()}",
        system=f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        libraries=", ".join(f"{name} {metadata.version(name)}" for name in VERSIONS),
    )
    if not fresh:
        with suppress(InputError):
            before = read_record(run)
            record = before.model_copy(update={"command": command, "overrides": overrides})
    write_whole(run / RECIPE, text)
    write_whole(run / RECORD, record.model_dump_json(indent=1) + "\n")


def read_record(run: Path) -> Record:
    """The record of a run folder.

    Raises
    ------
    InputError
        There is none, or it is damaged.
    """
    path = run / RECORD
    try:
        return Record.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"{run}: does not tell how it was made ({RECORD} is missing); "
            f"use 'weatherpp report RECIPE --run-dir {run}'"
        ) from None
    except (ValidationError, ValueError):
        raise InputError(
            f"{path}: damaged; make it again with 'weatherpp report RECIPE --run-dir {run}'"
        ) from None


def _short(recipe: Path) -> str:
    """A recipe as one would type it: by its name if it is a shipped one."""
    _, shipped = own_and_shipped("pipelines")
    return recipe.stem if recipe.resolve().parent == shipped.resolve() else str(recipe)


def _commit() -> str:
    """Commit of the checkout this package runs from; empty for an installed wheel."""
    folder = Path(weatherpp.__file__).parent
    if not (folder.parent / ".git").exists():
        return ""
    git = ["git", "-C", str(folder)]
    try:
        commit, changed = (
            subprocess.run([*git, *rest], capture_output=True, text=True, check=True, timeout=5)
            for rest in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "."])
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    mark = " with changes" if changed.stdout.strip() else ""
    return f", commit {commit.stdout.strip()}{mark}"
