"""Maps: how many a minute, and against cartopy used the usual way, in one run on one machine.

Fields of half a degree over the globe (361 x 720), each time another, to PNG of one size. Processor
time of one process counts, so that other load on the machine changes little; the first figure of
each kind, which reads the coastlines, does not.

maps-per-minute-global
    figures of one map each; more is better.
maps-per-minute-small-multiples
    panels a minute, drawn nine to a figure.
maps-against-cartopy
    time of ``pcolormesh`` on cartopy's axes in the same projection, with the same coastlines, by
    ours for one map; more is better. The two take turns.

    python benchmarks/maps.py [--out FILE]
"""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Callable, Iterator

import cartopy.crs as ccrs
import numpy as np
import results
import xarray as xr
from cartopy.feature import ShapelyFeature
from matplotlib.figure import Figure

from weatherpp.report.maps import field_maps
from weatherpp.report.shapes import geometries

SHAPE = (361, 720)
GOAL, GOAL_RATIO = 24.0, 3.0


def field(seed: int) -> xr.DataArray:
    """Waves around the globe, for one day."""
    latitude, longitude = np.linspace(90, -90, SHAPE[0]), np.arange(SHAPE[1]) * 0.5
    phi, lam = np.meshgrid(np.deg2rad(latitude), np.deg2rad(longitude), indexing="ij")
    phases = np.random.default_rng(seed).uniform(0, 6, 6)
    waves = sum(np.cos((k + 1) * lam + phases[k]) / (k + 1) for k in range(6))
    return xr.DataArray(
        285 - 40 * np.sin(phi) ** 2 + 6 * np.cos(phi) ** 2 * waves,
        dims=("latitude", "longitude"),
        coords={
            "latitude": latitude,
            "longitude": longitude,
            "time": np.datetime64("2020-03-01") + np.timedelta64(seed, "D"),
            "step": np.timedelta64(48, "h"),
        },
        name="t2m",
        attrs={"units": "K", "long_name": "2 metre temperature"},
    )


def usual(data: xr.DataArray) -> None:
    """One map as the gallery of cartopy draws it, with the same coastlines and of the same size."""
    figure = Figure(figsize=(7.0, 4.9), dpi=150, layout="constrained")
    ax = figure.add_subplot(projection=ccrs.Robinson())
    drawn = ax.pcolormesh(
        data["longitude"], data["latitude"], data, transform=ccrs.PlateCarree(), shading="nearest"
    )
    lines = ShapelyFeature(geometries("coastline", "110m"), ccrs.PlateCarree())
    ax.add_feature(lines, facecolor="none", edgecolor="black")
    ax.gridlines()
    ax.set_global()
    ax.set_title("2 metre temperature")
    figure.colorbar(drawn, ax=ax, location="bottom", label="K")
    figure.savefig(io.BytesIO(), format="png")


def seconds(call: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def compare(repeats: int) -> Iterator[results.Result]:
    """The three results."""
    fields = [field(seed) for seed in range(9)]
    turn = itertools.cycle(fields)
    calls: dict[str, Callable[[], object]] = {
        "own": lambda: field_maps([next(turn)], ["mean"]),
        "nine": lambda: field_maps(fields, [f"{i}" for i in range(9)], columns=3),
        "usual": lambda: usual(next(turn)),
    }
    best = dict.fromkeys(calls, float("inf"))
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            spent = seconds(call)
            if repeat:
                best[name] = min(best[name], spent)
    single, panels = 60 / best["own"], 9 * 60 / best["nine"]
    ratio = best["usual"] / best["own"]
    shape = list(SHAPE)
    yield results.result("maps-per-minute-global", single, GOAL, single >= GOAL, shape=shape)
    yield results.result(
        "maps-per-minute-small-multiples", panels, GOAL, panels >= GOAL, shape=shape
    )
    yield results.result(
        "maps-against-cartopy",
        ratio,
        GOAL_RATIO,
        ratio >= GOAL_RATIO,
        seconds={name: round(value, 3) for name, value in best.items()},
    )


def main() -> None:
    """Print the results."""
    parser = results.options(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    results.report(compare(args.repeats), args.out)


if __name__ == "__main__":
    main()
