"""A small job: catalog entry and recipe on synthetic files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Command = Callable[..., "subprocess.CompletedProcess[str]"]

ENTRY: dict[str, Any] = {
    "name": "tiny",
    "title": "Synthetic forecasts",
    "driver": "netcdf",
    "root": "files",
    "files": {"forecast": ["forecast.nc"], "analysis": ["analysis.nc"], "static": ["static.nc"]},
    "licence": "none",
    "citation": "none",
}
FIVE = {"choose": "first", "count": 5}
RECIPE: dict[str, Any] = {
    "name": "tiny",
    "source": {"catalog": "tiny"},
    "targets": [{"variable": "z", "level": 500, "step": "48h"}],
    "split": {"train": [2001, 2001], "valid": [2002, 2002], "test": [2003, 2003]},
    "methods": [
        {"label": "raw-10", "method": "raw"},
        {"label": "emos-5", "method": "emos", "members": FIVE},
        {"label": "sample-spread-5", "method": "raw", "job": "spread", "members": FIVE},
        {
            "label": "regression-5",
            "method": "spread-regression",
            "job": "spread",
            "members": FIVE,
        },
    ],
    "claims": [{"name": "emos wins", "target": "z500", "better": "emos-5", "than": "raw-10"}],
}


def write_yaml(path: Path, data: object) -> None:
    """Write a recipe or catalog entry."""
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
