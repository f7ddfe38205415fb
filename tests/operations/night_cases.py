"""A drop folder of synthetic cycles, fitted models in a registry, and a recipe."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from copy import deepcopy
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import yaml
from synthetic import make_datasets

from weatherpp.data.fields import select, subsample
from weatherpp.data.matching import truth_for
from weatherpp.methods.base import FitData, method_class
from weatherpp.operations import registry
from weatherpp.operations.log import Log
from weatherpp.operations.nightly import Outcome, run_nightly
from weatherpp.operations.settings import Nightly
from weatherpp.recipe import MemberChoice, Target
from weatherpp.strict import validate

FIRST = pd.Timestamp("2026-11-01T00")
MEMBERS = 5
TARGET = Target(variable="z", level=500, step="48h")
RECIPE: dict[str, Any] = {
    "name": "night",
    "source": {
        "driver": "netcdf",
        "root": "drop",
        "forecast": ["{cycle:%Y-%m-%dT%H}/m*.nc"],
        "analysis": ["analysis/{valid:%Y-%m-%dT%H}.nc"],
        "count": MEMBERS,
        "wait": "0h",
        "poll": "1s",
        "settle": "0s",
    },
    "members": {"expected": [0, MEMBERS - 1], "minimum": 3},
    "targets": [
        {
            "variable": "z",
            "level": 500,
            "step": "48h",
            "models": "models/z500",
            "thresholds": [54500.0, 55000.0],
        }
    ],
    "products": {"members": {"coupling": "ecc-q"}},
    "maps": False,
    "verify": {"bootstrap": {"samples": 100, "block": 2}},
}


QUIET = Log(quiet=True)


def cycle_at(day: int) -> pd.Timestamp:
    """The cycle of a day, counted from 0."""
    return FIRST + pd.Timedelta(days=day)


def recipe_with(place: Path, **changes: Any) -> dict[str, Any]:
    """The recipe with all its folders below ``place``."""
    recipe = deepcopy(RECIPE) | changes
    recipe["source"]["root"] = str(place / "drop")
    for target in recipe["targets"]:
        target["models"] = str(place / target["models"])
    return recipe


def settings_of(place: Path, **changes: Any) -> Nightly:
    """The same, checked."""
    return validate(Nightly, recipe_with(place, **changes), "test")


def night(place: Path, *days: int, **changes: Any) -> Outcome:
    """Make some days by the recipe with changes."""
    settings = settings_of(place, **changes)
    return run_nightly(settings, place / "work", [cycle_at(day) for day in days], log=QUIET)


def product_of(place: Path, day: int) -> xr.Dataset:
    """The product of a day."""
    path = place / "work" / "cycles" / f"{cycle_at(day):%Y-%m-%dT%H}" / "z500-48h.nc"
    with xr.open_dataset(path, decode_timedelta=True) as ds:
        return ds.load()


class Cycles:
    """Synthetic data re-dated to one cycle a day; writes the files of a drop folder."""

    def __init__(self, shape: tuple[int, int] = (8, 12)) -> None:
        forecast, analysis, _ = make_datasets(
            years=2, dates=20, members=MEMBERS, shape=shape, steps=("48h",)
        )
        self.past, self.analysis = forecast, analysis
        self.dates = forecast["time"].values[20:]

    def forecast(self, day: int) -> xr.Dataset:
        """The forecast of a day, canonical."""
        ds = self.past.sel(time=[self.dates[day]]).drop_vars("valid_time")
        return ds.assign_coords(time=[cycle_at(day).to_datetime64()])

    def truth(self, day: int) -> xr.Dataset:
        """The analysis that verifies the forecast of a day."""
        lead = np.timedelta64(48, "h")
        ds = self.analysis.sel(valid_time=[self.dates[day] + lead])
        return ds.assign_coords(valid_time=[(cycle_at(day) + lead).to_datetime64()])

    def drop(self, place: Path, day: int, members: range = range(MEMBERS)) -> Path:
        """Write the files of a cycle, one a member; returns their folder."""
        folder = place / "drop" / f"{cycle_at(day):%Y-%m-%dT%H}"
        folder.mkdir(parents=True, exist_ok=True)
        ds = self.forecast(day)
        for number in members:
            ds.sel(number=[number]).to_netcdf(folder / f"m{number}.nc")
        return folder

    def drop_truth(self, place: Path, day: int) -> Path:
        """Write the analysis that verifies the forecast of a day."""
        valid = cycle_at(day) + pd.Timedelta(hours=48)
        path = place / "drop" / "analysis" / f"{valid:%Y-%m-%dT%H}.nc"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.truth(day).to_netcdf(path)
        return path

    def fit(self, folder: Path, members: int, name: str = "emos") -> Path:
        """Fit a method on the first year and some members; returns the model folder."""
        choice = MemberChoice(choose="first", count=members)
        train = pd.DatetimeIndex(self.past["time"].values[:20])
        forecast = subsample(self.past, choice, 1).sel(time=train)
        data = FitData(
            forecast=forecast,
            truth=truth_for(self.analysis, TARGET, train, forecast).load(),
            full=select(forecast, "z", 500, "48h"),
            static=xr.Dataset(),
            target=TARGET,
            train=train,
            valid=train[:0],
        )
        method = method_class(name)(TARGET, {}).fit(data)
        numbers = list(range(members))
        path = folder / f"{name}-{members}"
        method.save(path, {"members": choice.model_dump(), "numbers": numbers, "seed": 1})
        return path

    def registry(self, folder: Path) -> Path:
        """Registry with EMOS of five and of three members as version ``v1``, which is current."""
        fitted = [self.fit(folder / "fitted", count) for count in (5, 3)]
        registry.add(folder / "z500", "v1", fitted, use_it=True)
        return folder / "z500"


def contents(folder: Path) -> dict[str, bytes]:
    """All products of a work folder, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.glob("cycles/*/**/*"))
        if path.is_file() and path.suffix in (".nc", ".png", ".parquet", ".grib2")
    }


PRELOADED = ["weatherpp.cli", "weatherpp.operations.page", "weatherpp.methods.classical.emos"]


def command(*args: str, log: Path, zone: str = "UTC") -> ForkServerProcess:
    """Start ``weatherpp`` with some arguments in a process of its own.

    Processes come from a server that has the modules loaded, as thirty starts from nothing would
    take minutes.

    Parameters
    ----------
    args
        Of the command line.
    log
        File for what it prints.
    zone
        Local time zone.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_command, args=(args, log, zone))
    process.start()
    return process


def _command(args: tuple[str, ...], log: Path, zone: str) -> None:
    # a suite that was started in the background ignores it, and so would its processes
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["TZ"] = zone
    time.tzset()
    with log.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    sys.argv = ["weatherpp", *args]
    from weatherpp.cli import main

    main()


def finish(process: ForkServerProcess) -> int | None:
    """Exit code of a process."""
    process.join(300)
    return process.exitcode


def write_recipe(place: Path, **changes: Any) -> str:
    """The recipe as a file; returns its name."""
    path = place / "night.yaml"
    path.write_text(yaml.safe_dump(recipe_with(place, **changes), sort_keys=False))
    return str(path)
