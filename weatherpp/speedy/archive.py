"""Write a SPEEDY archive: one Zarr store, made date by date, year after year.

After each initial date the state of the cycle is written (by rename) into the work folder, see
:mod:`weatherpp.twin.site`: an interrupted run goes on with the first date that has not been
written, and writes the same values as if it had not been interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray

from weatherpp import conventions
from weatherpp.data.amounts import window_text
from weatherpp.data.archive import write_group
from weatherpp.speedy import settings
from weatherpp.speedy.ensemble import Output, Progressed, Year
from weatherpp.speedy.model import ALOFT, Speedy
from weatherpp.speedy.settings import SpeedyConfig
from weatherpp.twin.settings import STEP_HOURS
from weatherpp.twin.site import Site
from weatherpp.twin.store import initial_times, valid_times

Progress = Callable[[str, float, float], None]
FORMAT = 1
NEAR = ("t2m", "u10", "v10", "tp")
LONG_NAMES = {
    "t2m": "near-surface temperature, extrapolated from the two lowest model levels",
    "u10": "near-surface eastward wind, 0.95 of that on the lowest model level (about 400 m)",
    "v10": "near-surface northward wind, 0.95 of that on the lowest model level (about 400 m)",
    "tp": "total precipitation of the 24 hours before",
}
"""Of the variables that are not quite what their short names say."""


def generate(path: str | Path, config: SpeedyConfig, progress: Progress | None = None) -> None:
    """Make a SPEEDY archive, or finish one that was interrupted.

    Parameters
    ----------
    path
        The store, ``NAME.zarr``. If it is there already, made with the same configuration,
        nothing is done.
    config
        What to make.
    progress
        Called with (description, done, total); the unit is initial dates.

    Raises
    ------
    ConfigError
        There is something else at ``path``, or an unfinished archive with another configuration.
    WeatherppError
        The model has blown up.
    """
    content: dict[str, Any] = {"config": config.content(), "parameters": settings.all_parameters()}
    content["jcm"] = version("jcm")
    site = Site(path, {"format": FORMAT, **content})
    if site.finished():
        return
    model = speedy(config.wavenumbers)
    attrs = {
        "title": f"Twin experiment with the primitive-equation model SPEEDY at T{model.truncation}",
        "source": "weatherpp.speedy, with the model of the package jcm",
        "licence": "CC0-1.0; height and land fraction as in jcm, Apache-2.0",
        **content,
    }
    site.prepare(attrs, lambda store: _create(store, config, model))
    report = progress or (lambda description, done, total: None)
    total = float(config.number_of_years * config.number_of_dates)
    writer = Writer(site.store, config)
    for year in range(config.number_of_years):
        start = initial_times(config)[year, 0]
        seed = [config.seed, config.first_year + year]
        one = Year(model, start, seed, config.number_of_members)
        saved = site.work / f"year-{year:04d}.npz"
        report("spinning up", float(year * config.number_of_dates), total)
        at = Progressed.load(saved) if saved.exists() else one.spin_up()
        while at.date < config.number_of_dates:
            output, at = one.next(at)
            if output.date >= 0:
                writer.write(year, output)
            at.save(saved)
            report("dates", float(year * config.number_of_dates + max(at.date, 0)), total)
    site.finish()


@cache
def speedy(truncation: int) -> Speedy:
    """The model, built and compiled once a process."""
    return Speedy(truncation)


def _create(store: Path, config: SpeedyConfig, model: Speedy) -> None:
    """Write all groups without their values, and the static fields."""
    grid = {"latitude": model.latitude, "longitude": model.longitude}
    times = initial_times(config).ravel()
    steps = np.array(STEP_HOURS, dtype="timedelta64[h]").astype("timedelta64[ns]")
    forecast = _empty(
        {"time": times, "step": steps, "number": np.arange(config.number_of_members)}, grid
    )
    forecast = forecast.assign_coords(valid_time=(("time", "step"), times[:, None] + steps))
    forecast["tp"].attrs["steps"] = [hours for hours in STEP_HOURS if hours >= 24]
    analysis = _empty({"valid_time": np.sort(valid_times(config).ravel())}, grid)
    for ds, name in ((forecast, "forecast"), (analysis, "analysis")):
        write_group(store, name, ds, values=False)
    static = xr.Dataset(
        {name: (tuple(grid), values) for name, values in model.static().items()}, coords=grid
    )
    write_group(store, "static", conventions.annotate(static))


def _empty(labels: dict[str, NDArray[Any]], grid: dict[str, NDArray[Any]]) -> xr.Dataset:
    """A canonical Dataset whose values are only a type and a shape."""
    level = {"level": np.array(settings.LEVELS)}
    ds = xr.Dataset(coords={**labels, **level, **grid})
    for name in (*ALOFT, *NEAR):
        dims = (*labels, *(level if name in ALOFT else ()), *grid)
        lazy = da.zeros([ds.sizes[dim] for dim in dims], dtype=np.float32)
        ds[name] = xr.Variable(dims, lazy)
    ds = conventions.annotate(ds)
    for name, text in LONG_NAMES.items():
        ds[name].attrs["long_name"] = text
    ds["tp"].attrs["window"] = window_text(np.timedelta64(24, "h"))
    return ds


class Writer:
    """Writes one initial date at a time."""

    def __init__(self, store: Path, config: SpeedyConfig) -> None:
        self.root = zarr.open_group(store, mode="r+")
        self.dates = config.number_of_dates
        valid = valid_times(config)
        self.rows = np.searchsorted(np.sort(valid.ravel()), valid)

    def write(self, year: int, output: Output) -> None:
        """Write the forecast and its verifying analyses."""
        row = year * self.dates + output.date
        for name, values in output.forecast.items():
            self._array("forecast", name)[row] = values
        for name, values in output.truth.items():
            for place, each in zip(self.rows[year, output.date], values, strict=True):
                self._array("analysis", name)[place] = each

    def _array(self, group: str, name: str) -> Any:
        return self.root[f"{group}/{name}"]
