"""Where the files that ship with the package are: catalog entries, recipes, report templates."""

from __future__ import annotations

from pathlib import Path

from weatherpp.errors import ConfigError


def shipped_folder(kind: str) -> Path:
    """Folder ``data_catalog``, ``pipelines`` or ``reports`` as shipped.

    In a checkout it stands next to the package, in an installed wheel inside it.

    Raises
    ------
    ConfigError
        Neither is there: the installation is not whole.
    """
    package = Path(__file__).resolve().parent.parent
    if (package.parent / "pyproject.toml").is_file() and (package.parent / kind).is_dir():
        return package.parent / kind
    installed = package / "_shipped" / kind
    if not installed.is_dir():
        raise ConfigError(f"{installed}: missing from the installation; install weatherpp again")
    return installed


def own_and_shipped(kind: str) -> tuple[Path, Path]:
    """Folders to look for a file in, one after the other: the user's own, then the shipped one.

    A file in a folder ``kind`` of the working folder goes before the shipped one of that name.
    """
    return Path(kind), shipped_folder(kind)
