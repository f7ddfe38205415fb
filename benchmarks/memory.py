"""Scores of a forecast that does not fit in memory: 1.6 GB of float32 in a Zarr store.

For each way to score it, a result ``memory-WAY``: the greatest memory beyond what the process held
before (libraries loaded, kernels compiled), in MB; the goal is 500 MB, less than a third of the
store. Each way is measured in a process of its own, on dask's default threads.

    python benchmarks/memory.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import results
import xarray as xr

from weatherpp import distribution
from weatherpp.recipe import Target
from weatherpp.verify import averages, calibration, proper, scores, table
from weatherpp.verify.regions import regions
from weatherpp.verify.weights import grid_weights

DATES, MEMBERS, SHAPE = 300, 20, (181, 360)
GOAL_MB = 500
Score = Callable[[xr.Dataset, xr.DataArray], object]


def _table(dist: xr.Dataset, truth: xr.DataArray) -> object:
    target = Target(variable="t2m", step="24h")
    parts = regions(truth)
    return table.score_method("raw", dist, truth, target, members=MEMBERS, regions=parts)


WAYS: dict[str, Score] = {
    "crps": lambda d, t: averages.average(scores.crps(d, t), None, grid_weights(t)).compute(),
    "rmse": lambda d, t: averages.rmse(d, t, None, grid_weights(t)).compute(),
    "spread-skill": lambda d, t: averages.spread_skill(d, t, None, grid_weights(t)).compute(),
    "brier": lambda d, t: averages.average(proper.brier(d, t, 280.0)).compute(),
    "ranks": lambda d, t: calibration.ranks(d, t, grid_weights(t)),
    "table": _table,
}


def write_store(path: Path, dates: int) -> int:
    """A forecast and its truth, a few dates at a time; returns the bytes of the forecast."""
    rng = np.random.default_rng(1)
    grid = {"latitude": np.linspace(90, -90, SHAPE[0]), "longitude": np.arange(SHAPE[1]) * 1.0}
    for start in range(0, dates, 5):
        times = pd.date_range("2020-01-01", periods=dates)[start : start + 5]
        coords = {"time": times, "number": np.arange(MEMBERS), **grid}
        members = rng.standard_normal((len(times), MEMBERS, *SHAPE), np.float32) * 3 + 280
        truth = rng.standard_normal((len(times), *SHAPE), np.float32) * 3 + 280
        part = xr.Dataset(
            {
                "value": (tuple(coords), members),
                "truth": (("time", *grid), truth),
            },
            coords,
        )
        chunks = {name: {"chunks": (1, *da.shape[1:])} for name, da in part.data_vars.items()}
        how = {"append_dim": "time"} if start else {"mode": "w", "encoding": chunks}
        part.to_zarr(path, consolidated=False, **how)
    return dates * MEMBERS * SHAPE[0] * SHAPE[1] * 4


def opened(path: Path) -> tuple[xr.Dataset, xr.DataArray]:
    """The store as a distribution and its truth, lazy."""
    ds = xr.open_zarr(path, consolidated=False)
    return distribution.members(ds["value"]), ds["truth"].assign_attrs(units="K")


def peak(path: Path, *ways: str) -> int:
    """Greatest memory of one way after the other beyond what was held before, bytes."""
    dist, truth = opened(path)
    for way in ways:
        WAYS[way](dist.isel(time=slice(2)), truth.isel(time=slice(2)))  # loaded, compiled
    Path("/proc/self/clear_refs").write_text("5")  # forget the greatest memory so far
    before = _status("VmRSS")
    for way in ways:
        WAYS[way](dist, truth)
    return _status("VmHWM") - before


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def measure(dates: int) -> Iterator[results.Result]:
    """A result for each way."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forecast.zarr"
        size = write_store(path, dates)
        for way in WAYS:
            child = [sys.executable, __file__, "--peak", way, "--store", str(path)]
            done = subprocess.run(child, capture_output=True, text=True, check=True)
            megabytes = json.loads(done.stdout) / 1e6
            yield results.result(
                f"memory-{way}", megabytes, GOAL_MB, megabytes <= GOAL_MB, store_mb=size / 1e6
            )


def main() -> None:
    """Print the results."""
    parser = results.options(__doc__)
    parser.add_argument("--dates", type=int, default=DATES, help="dates in the store")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        print(peak(args.store, args.peak))
        return
    results.report(measure(args.dates), args.out)


if __name__ == "__main__":
    main()
