"""Climate and ensemble of a twin archive: ``python -m weatherpp.twin.climate OUT.zarr``.

Prints the table of ``docs/twin.md``: jets, storm tracks, stationary wave, eddy kinetic energy,
slope of the energy spectrum, spread and error, and the error doubling time of both models.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from weatherpp.errors import InputError, WeatherppError
from weatherpp.twin import settings
from weatherpp.twin.ensemble import Noise, build_models, run_batched
from weatherpp.twin.forcing import GRAVITY
from weatherpp.twin.model import LEVELS, QGModel
from weatherpp.twin.spectral import EARTH_RADIUS, Transform

Array: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = list[tuple[str, float, str]]
"""Name, value, unit."""


def weighted_mean(field: xr.DataArray, south: float = -90.0, north: float = 90.0) -> xr.DataArray:
    """Mean over longitude and a latitude band, weighted by the cosine of latitude."""
    band = field.sel(latitude=slice(north, south))
    weight = xr.ufuncs.cos(xr.ufuncs.deg2rad(band["latitude"]))
    return band.weighted(weight).mean(("latitude", "longitude"))


def jets(analysis: xr.Dataset) -> Rows:
    """Maxima of the time-mean 200 hPa eastward wind: zonal mean and local."""
    u = analysis["u"].sel(level=200).mean("valid_time").compute()
    rows: Rows = []
    for name, band in (("northern", slice(90, 0)), ("southern", slice(0, -90))):
        zonal = u.sel(latitude=band).mean("longitude")
        rows.append((f"{name} zonal-mean jet, 200 hPa", float(zonal.max()), "m/s"))
        rows.append((f"{name} jet latitude", float(zonal.idxmax("latitude")), "deg"))
    for name, west, east in (
        ("East Asia and Pacific", 100, 200),
        ("America and Atlantic", 250, 330),
        ("eastern Pacific", 205, 240),
    ):
        box = u.sel(latitude=slice(65, 20), longitude=slice(west, east))
        rows.append((f"local jet maximum, {name}", float(box.max()), "m/s"))
    rows.append(
        ("largest wind of all, 200 hPa", float(abs(analysis["u"].sel(level=200)).max()), "m/s")
    )
    return rows


def storm_tracks(analysis: xr.Dataset) -> Rows:
    """Standard deviation of z500 (m) and the stationary wave."""
    z = analysis["z"].sel(level=500) / GRAVITY
    std = z.std("valid_time").compute()
    mean = z.mean("valid_time").compute()
    wave = mean - mean.mean("longitude")
    rows: Rows = []
    for latitude in (60, 50, 40, -50):
        row = std.sel(latitude=latitude, method="nearest")
        for what, value in (("mean", row.mean()), ("least", row.min()), ("most", row.max())):
            rows.append((f"z500 std near {latitude} deg, {what} over longitude", float(value), "m"))
    north = wave.sel(latitude=slice(65, 40))
    rows.append(("stationary wave z500, 40-65 N, rms", float((north**2).mean() ** 0.5), "m"))
    rows.append(("stationary wave z500, 40-65 N, largest", float(abs(north).max()), "m"))
    return rows


def eddy_energy(analysis: xr.Dataset) -> Rows:
    """Transient eddy kinetic energy, 20-80 degrees."""
    rows: Rows = []
    for level in (200, 500):
        wind = analysis[["u", "v"]].sel(level=level)
        energy = 0.5 * (wind["u"].var("valid_time") + wind["v"].var("valid_time"))
        rows.append((f"eddy kinetic energy {level} hPa, 20-80 N",
                     float(weighted_mean(energy, 20, 80)), "m2/s2"))  # fmt: skip
        rows.append((f"eddy kinetic energy {level} hPa, 20-80 S",
                     float(weighted_mean(energy, -80, -20)), "m2/s2"))  # fmt: skip
    return rows


def energy_spectrum(transform: Transform, psi: Tensor) -> Array:
    """Kinetic energy (m2 s-2) by total wavenumber, mean over the batch axes, shape (N + 1,)."""
    n = transform.n
    weight = torch.where(transform.m > 0, 2.0, 1.0) * transform.mask * n * (n + 1)
    power = (psi.flatten(5).double() ** 2).mean(-1) * weight / (2.0 * EARTH_RADIUS**2)
    energy = torch.zeros(transform.truncation + 1, dtype=torch.float64)
    energy.index_add_(0, n.long().flatten().cpu(), power.flatten().double().cpu())
    return energy.numpy()


def spectrum_slope(energy: Array, low: int, high: int) -> float:
    """Least-squares slope of log energy against log wavenumber, low to high inclusive."""
    n = np.arange(low, high + 1)
    return float(np.polyfit(np.log(n), np.log(energy[low : high + 1]), 1)[0])


def streamfunctions(transform: Transform, vorticity: xr.DataArray) -> Tensor:
    """Streamfunction, spectral + (3, time), from vorticity (valid_time, level, lat, lon)."""
    values = torch.as_tensor(vorticity.sel(level=list(LEVELS)).values).movedim(0, 1)
    zeta = transform.analysis(transform.from_latlon(values.to(transform.dtype)))
    return zeta * transform.expand(transform.inverse_laplacian, zeta)


def spread_error(
    forecast: xr.Dataset,
    analysis: xr.Dataset,
    variable: str,
    level: int | None,
    south: float = -90.0,
    north: float = 90.0,
) -> list[tuple[float, float, float]]:
    """Spread, error of the mean, and error of the control for each step; level None: no levels.

    The spread is the root of the mean ensemble variance (divisor M - 1) times (M + 1) / M, which
    equals the error of the ensemble mean for a calibrated ensemble (Fortin et al. 2014).
    """
    rows: list[tuple[float, float, float]] = []
    at: dict[str, Any] = {} if level is None else {"level": level}
    for step in forecast["step"].values:
        members = forecast[variable].sel({"step": step, **at}).load()
        truth = analysis[variable].sel({"valid_time": forecast["time"] + step, **at}).load()
        size = members.sizes["number"]
        variance = members.var("number", ddof=1) * ((size + 1) / size)
        error = (members.mean("number") - truth) ** 2
        control = (members.sel(number=members["number"][0]) - truth) ** 2
        sizes = [
            float(weighted_mean(x, south, north).mean()) ** 0.5 for x in (variance, error, control)
        ]
        rows.append((sizes[0], sizes[1], sizes[2]))
    return rows


def ensemble_rows(forecast: xr.Dataset, analysis: xr.Dataset, name: str) -> Rows:
    """Spread and error of z500 and t650."""
    rows: Rows = []
    bands = (("", -90.0, 90.0), (" 20-90 N", 20.0, 90.0))
    for variable, level, unit, factor in (("z", 500, "m", GRAVITY), ("t", 650, "K", 1.0)):
        for band, south, north in bands:
            values = spread_error(forecast, analysis, variable, level, south, north)
            steps = forecast["step"].values / np.timedelta64(1, "h")
            for hours, (spread, error, _) in zip(steps, values, strict=True):
                label = f"{name} {variable}{level}{band} {hours:g} h"
                rows.append((f"{label}: error of the mean", error / factor, unit))
                rows.append((f"{label}: spread / error", spread / error, ""))
    return rows


def doubling_time(
    model: QGModel, psi: Tensor, seed: int = 0, first: int = 5, last: int = 10
) -> float:
    """Doubling time (days) of a small random error, fitted from day ``first`` to day ``last``.

    Parameters
    ----------
    model
        The model; it is both truth and forecast.
    psi
        Start states on its attractor, spectral + (3, batch).
    seed
        Of the error, which has the structure of an observation error and 0.1 m rms.
    first, last
        Days between which the logarithm of the rms error (all states, 500 hPa) is fitted.
    """
    noise = Noise(model.transform, settings.CYCLE, [seed])
    other = psi + 0.1 * noise.draw(psi.shape[-1])
    growth = []
    for _ in range(last):
        psi, other = (run_batched(model, state, 24) for state in (psi, other))
        error = model.transform.mean_square((other - psi)[..., 1, :]).mean()
        growth.append(0.5 * float(torch.log(error)))
    rate = np.polyfit(np.arange(first, last + 1), growth[first - 1 :], 1)[0]
    return float(np.log(2.0) / rate)


def growth_rows(analysis: xr.Dataset, states: int = 4) -> Rows:
    """Doubling times of both models, from evenly spaced analyses after five days' adjustment."""
    truth, model = build_models("cpu")
    pick = np.linspace(0, analysis.sizes["valid_time"] - 1, states).astype(int)
    start = streamfunctions(model.transform, analysis["vo"].isel(valid_time=pick))
    rows: Rows = []
    with torch.inference_mode():
        for name, one in (("truth T42", truth), ("forecast model T21", model)):
            psi = run_batched(one, one.transform.resample(start, model.transform), 24 * 5)
            rows.append((f"error doubling time, {name}", doubling_time(one, psi), "d"))
    return rows


def report(path: str | Path, growth: bool = True) -> Rows:
    """All rows of the table.

    Raises
    ------
    InputError
        There is no twin archive at ``path``.
    """
    if not (Path(path) / "forecast" / "zarr.json").is_file():
        raise InputError(f"{path}: no twin archive there")
    forecast, analysis = (
        xr.open_zarr(path, group=name, consolidated=False) for name in ("forecast", "analysis")
    )
    rows = jets(analysis) + storm_tracks(analysis) + eddy_energy(analysis)
    transform = Transform(settings.FORECAST.truncation, settings.FORECAST.nlon)
    psi = streamfunctions(transform, analysis["vo"])
    slope = spectrum_slope(energy_spectrum(transform, psi[..., 1, :]), 8, 18)
    rows.append(("slope of the 500 hPa energy spectrum, n = 8 to 18", slope, ""))
    rows += ensemble_rows(forecast, analysis, "forecast")
    if (Path(path) / "limit").is_dir():
        limit = xr.open_zarr(path, group="limit", consolidated=False)
        rows += ensemble_rows(limit, analysis, "limit")
    return rows + (growth_rows(analysis) if growth else [])


def print_report(
    arguments: list[str] | None,
    *,
    module: str,
    about: str | None,
    flag: str,
    flag_help: str,
    rows: Callable[[str, bool], Rows],
) -> int:
    """Run the command of an embedded atmosphere: print ``rows(path, flag)``; the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("path", help="an archive of this atmosphere")
    parser.add_argument(flag, action="store_true", dest="flag", help=flag_help)
    options = parser.parse_args(arguments)
    try:
        for name, value, unit in rows(options.path, options.flag):
            print(f"{name:60s} {value:9.3g} {unit}")
    except WeatherppError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    return print_report(
        arguments,
        module="weatherpp.twin.climate",
        about=__doc__,
        flag="--no-growth",
        flag_help="without the doubling times",
        rows=lambda path, without: report(path, not without),
    )


if __name__ == "__main__":
    sys.exit(main())
