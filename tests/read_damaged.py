"""Reads every file of a folder and prints what comes of it, a line of JSON each.

A process of its own, as a library that a damaged file kills would take the tests along.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from weatherpp.data import tables
from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.ingest import read_forecast
from weatherpp.data.inspect import inspect
from weatherpp.errors import WeatherppError
from weatherpp.strict import read_yaml, validate


def outcome(read: Callable[[Path], object], path: Path) -> tuple[str, str]:
    """``fine``, ``refused`` or ``fault``, and the message."""
    try:
        read(path)
    except WeatherppError as error:
        return "refused", str(error)
    except Exception as error:
        return "fault", f"{type(error).__name__}: {error}"
    return "fine", ""


def main(folder: Path, settings: Path) -> None:
    """Inspect and read every file; as a table if the settings are those of one."""
    warnings.simplefilter("ignore")
    readers: dict[str, Callable[[Path], object]] = {
        "inspect": inspect,
        "read": lambda path: read_forecast(path).load(),
    }
    if settings.is_file():
        entry = validate(CatalogEntry, read_yaml(settings), "entry")
        readers["read"] = lambda path: tables.read(path, entry, "forecast")[0].load()
    for path in sorted(folder.iterdir()):
        for name, read in readers.items():
            print(json.dumps([path.name, name, *outcome(read, path)]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
