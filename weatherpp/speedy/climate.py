"""Climate and ensemble of a SPEEDY archive: ``python -m weatherpp.speedy.climate OUT.zarr``.

Prints means, storm tracks, spread and error. ``--growth`` adds the time in which small differences
double, for which the model itself is run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import xarray as xr

from weatherpp.conventions import hours
from weatherpp.data.archive import Archive
from weatherpp.errors import InputError
from weatherpp.twin.climate import (
    Rows,
    print_report,
    spread_error,
    storm_tracks,
    weighted_mean,
)
from weatherpp.twin.forcing import GRAVITY

ENSEMBLE = (
    ("z", 500, "m", 1.0 / GRAVITY),
    ("t", 850, "K", 1.0),
    ("t2m", None, "K", 1.0),
    ("u10", None, "m/s", 1.0),
    ("tp", None, "mm", 1e3),
)


def means(analysis: xr.Dataset) -> Rows:
    """Temperature, wind and rain, averaged over all analyses."""
    mean = analysis.mean("valid_time").compute()
    rows: Rows = []
    for name, field in (("t2m", mean["t2m"]), ("t850", mean["t"].sel(level=850))):
        zonal = field.mean("longitude")
        rows.append((f"{name}, global mean", float(weighted_mean(field)), "K"))
        rows.append((f"{name}, least zonal mean", float(zonal.min()), "K"))
        rows.append((f"{name}, greatest zonal mean", float(zonal.max()), "K"))
    rows.append(("rain, global mean", 1e3 * float(weighted_mean(mean["tp"])), "mm/d"))
    wind = mean["u"].sel(level=500).mean("longitude")
    for name, band in (("northern", slice(90, 0)), ("southern", slice(0, -90))):
        jet = wind.sel(latitude=band)
        rows.append((f"{name} zonal-mean jet, 500 hPa", float(jet.max()), "m/s"))
        rows.append((f"{name} jet latitude", float(jet.idxmax("latitude")), "deg"))
    trades = mean["u10"].mean("longitude").sel(latitude=slice(25, -25))
    rows.append(("strongest easterly zonal mean of u10, 25 S to 25 N", float(trades.min()), "m/s"))
    return rows


def ensemble_rows(forecast: xr.Dataset, analysis: xr.Dataset) -> Rows:
    """Error of the mean and spread / error, globally, for each lead time that has values."""
    rows: Rows = []
    for variable, level, unit, factor in ENSEMBLE:
        values = spread_error(forecast, analysis, variable, level)
        for step, (spread, error, _) in zip(forecast["step"].values, values, strict=True):
            if np.isfinite(error):
                label = f"{variable}{level or ''} {hours(step):g} h"
                rows.append((f"{label}: error of the mean", error * factor, unit))
                rows.append((f"{label}: spread / error", spread / error, ""))
    return rows


def growth(truncation: int, days: int = 12, first: int = 4) -> float:
    """Time in which the difference of two true states doubles, d.

    One state is that of 1 January after two months from rest, the other has a hundredth of its
    difference from the state ten days before added, which is balanced, as noise is not; the
    logarithm of the rms difference of z500 is fitted from day ``first`` to day ``days``.
    """
    from weatherpp.speedy.archive import speedy

    model = speedy(truncation)
    start = np.datetime64("2000-11-02")
    state = model.at_rest(1, 1.0)
    before = state
    for day in range(60):
        state, _ = model.run(state, model.standard, start + np.timedelta64(day, "D"), 24)
        before = state if day < 50 else before
    states = {
        name: np.concatenate([each, each + 0.01 * (each - before[name])])
        for name, each in state.items()
    }
    sizes = []
    for day in range(60, 60 + days):
        time = start + np.timedelta64(day, "D")
        states, _ = model.run(states, model.standard, time, 24)
        z = model.fields(states, time + np.timedelta64(1, "D"))["z"][:, 0]
        weight = np.cos(np.radians(model.latitude))[:, None]
        sizes.append(0.5 * np.log(np.mean(weight * (z[1] - z[0]) ** 2)))
    rate = np.polyfit(np.arange(first, days + 1), sizes[first - 1 :], 1)[0]
    return float(np.log(2.0) / rate)


def report(path: str | Path, doubling: bool = False) -> Rows:
    """All rows of the table, the doubling time if asked for.

    Raises
    ------
    InputError
        There is no SPEEDY archive at ``path``.
    """
    archive = Archive.open(path)
    analysis = archive.analysis
    if analysis is None or "weatherpp.speedy" not in str(archive.attrs.get("source")):
        raise InputError(f"{path}: not a SPEEDY archive")
    rows = means(analysis) + storm_tracks(analysis) + ensemble_rows(archive.forecast, analysis)
    if doubling:
        truncation = archive.attrs["config"]["truncation"]
        rows.append(("doubling time of differences", growth(truncation), "d"))
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    return print_report(
        arguments,
        module="weatherpp.speedy.climate",
        about=__doc__,
        flag="--growth",
        flag_help="with the doubling time",
        rows=report,
    )


if __name__ == "__main__":
    sys.exit(main())
