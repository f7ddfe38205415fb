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


def find_yaml(name: str, kind: str, what: str, file_words: str) -> Path:
    """A YAML file by its path, or by its name among the user's own and the shipped ones.

    Parameters
    ----------
    name
        As the user gave it.
    kind
        Folder, as for :func:`own_and_shipped`.
    what, file_words
        Words for messages: ``no WHAT 'x'``, ``no such FILE_WORDS``.

    Raises
    ------
    ConfigError
        There is none.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if path.is_file():
            return path
        raise ConfigError(f"{path}: no such {file_words}")
    own, shipped = own_and_shipped(kind)
    for folder in (own, shipped):
        candidate = folder / f"{path.name}.yaml"
        if candidate.is_file() and path.name == name:
            return candidate
    known = ", ".join(sorted(file.stem for file in shipped.glob("*.yaml")))
    raise ConfigError(f"no {what} '{name}'; give a file or one of {known}")
