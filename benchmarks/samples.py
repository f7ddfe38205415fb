"""Statistics and training samples against bare reading: one archive, one run, one machine.

Makes a synthetic archive on disk (about 0.6 GB) and prints a JSON line for each of

- the loader's samples per second, divided by those of reading the same chunks with zarr alone;
- the same for the pass that finds the statistics;
- the share of the time in which a small training step waits for its batch.

Bare reading takes one date of one variable per call, all levels, without threads beyond those
of zarr itself; the ratio to bare reading on as many threads as the loader has is given beside it.
What is compared takes turns, so that other load and the page cache meet all
alike; the value is the median over the rounds of the ratio within each round. The ratio of
processor time beside it depends less on what else the machine does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import results
import torch
import xarray as xr
import zarr
from scipy import ndimage

from weatherpp.conventions import annotate
from weatherpp.data.archive import Archive, write_archive
from weatherpp.data.chunks import ahead
from weatherpp.data.statistics import statistics
from weatherpp.methods.neural.loading import loader
from weatherpp.methods.neural.networks.padding import Topology
from weatherpp.methods.neural.networks.residual import ResidualNet
from weatherpp.methods.neural.stream import ArchiveSamples, Layout

FIELDS = {"z": (50000.0, 800.0), "t": (280.0, 6.0)}
LEVELS = (200, 500, 850)


def make_archive(path: Path, dates: int, members: int, shape: tuple[int, int]) -> Archive:
    """Smooth fields and a little noise, which compress as forecasts do: to about 80 %."""
    rng = np.random.default_rng(0)
    rows, columns = shape

    def pattern() -> np.ndarray:
        noise = ndimage.gaussian_filter(rng.standard_normal(shape), 4, mode="wrap")
        return (noise / noise.std() + 0.02 * rng.standard_normal(shape)).astype(np.float32)

    patterns = [pattern() for _ in range(12)]
    dims = ("time", "step", "number", "level", "latitude", "longitude")
    variables = {}
    for name, (mean, scale) in FIELDS.items():
        values = np.empty((dates, 1, members, len(LEVELS), *shape), np.float32)
        for field in values.reshape(-1, *shape):
            one, two = rng.integers(len(patterns), size=2)
            field[:] = mean + scale * patterns[one]
            field += 0.3 * scale * np.roll(patterns[two], int(rng.integers(columns)), -1)
        variables[name] = (dims, values)
    coords = {
        "time": pd.date_range("2001-01-01", periods=dates, freq="84h"),
        "step": pd.to_timedelta(["48h"]),
        "number": np.arange(members),
        "level": list(LEVELS),
        "latitude": np.linspace(90, -90, rows),
        "longitude": np.arange(columns) * 360 / columns,
    }
    return write_archive(path, annotate(xr.Dataset(variables, coords)))


def turns(functions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each function, shape (round, 2): by the clock, and of processor time.

    A first round, which compiles, is not counted.
    """
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name, function in functions.items():
            start, work = time.perf_counter(), time.process_time()
            function()
            if number:
                seconds[name].append((time.perf_counter() - start, time.process_time() - work))
    return {name: np.array(values) for name, values in seconds.items()}


def bare(archive: Archive, threads: int = 0) -> None:
    """Read all that the loader reads; with ``threads``, ahead on as many of them."""
    group = zarr.open_group(archive.path / "forecast", mode="r")
    arrays: list[Any] = [group[name] for name in FIELDS]
    jobs = [(array, date) for date in range(arrays[0].shape[0]) for array in arrays]

    def read(job: tuple[Any, int]) -> np.ndarray:
        array, date = job
        return array[date : date + 1]

    for _ in ahead(read, jobs, threads, 4) if threads else map(read, jobs):
        pass


def waiting(samples: ArchiveSamples, epochs: int) -> tuple[float, float]:
    """Share of the time spent in waiting for batches, and seconds of one step.

    The network is narrower than any of the recipes', so that it asks for data often. The first
    batch of an epoch is not counted: there is nothing to do meanwhile.
    """
    torch.manual_seed(0)
    channels = len(samples.names) + len(samples.context_names)
    net = ResidualNet(channels, 1, 8, 1, Topology(True, True, True), 0.0, 0)
    optimiser = torch.optim.AdamW(net.parameters())
    waited, stepped = [], []
    for _ in range(epochs):
        batches: Iterator[Any] = iter(loader(samples))
        batch = next(batches)
        while batch is not None:
            start = time.perf_counter()
            x = torch.cat([batch["x"], batch["context"]], 1)
            loss = (net(x) - batch["x"][:, :1]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            middle = time.perf_counter()
            batch = next(batches, None)
            stepped.append(middle - start)
            waited.append(time.perf_counter() - middle)
    return sum(waited) / (sum(waited) + sum(stepped)), float(np.median(stepped))


def measure(folder: Path, dates: int, rounds: int) -> Iterator[results.Result]:
    """All results, one after the other."""
    archive = make_archive(folder / "archive", dates, 10, (181, 360))
    times = pd.DatetimeIndex(archive.forecast["time"].values)
    found = statistics(archive, times, "point")
    kinds = {
        kind: ArchiveSamples(archive, times, found, Layout(members=kind, batch=2))
        for kind in ("set", "statistics")
    }

    def drain(samples: ArchiveSamples) -> Callable[[], None]:
        def run() -> None:
            for _ in loader(samples):
                pass

        return run

    seconds = turns(
        {
            "bare": lambda: bare(archive),
            "bare-ahead": lambda: bare(archive, threads=2),
            **{kind: drain(samples) for kind, samples in kinds.items()},
            "point": lambda: statistics(archive, times, "point"),
            "level": lambda: statistics(archive, times, "level"),
        },
        rounds,
    )
    goals = {"set": 0.7, "statistics": 0.7, "point": 0.8, "level": 0.8}
    names = {kind: f"loader-{kind}" for kind in kinds}
    names |= {mode: f"statistics-pass-{mode}" for mode in ("point", "level")}
    speed = {key: float(np.median(dates / each[:, 0])) for key, each in seconds.items()}
    for key, goal in goals.items():
        ratio, work = np.median(seconds["bare"] / seconds[key], axis=0).tolist()
        more = {
            "processor_time_ratio": work,
            "against_bare_on_two_threads": np.median(seconds["bare-ahead"] / seconds[key], 0)[0],
            "dates_a_second": speed[key],
            "bare_dates_a_second": speed["bare"],
        }
        rounded = {what: round(float(each), 4) for what, each in more.items()}
        yield results.result(names[key], ratio, goal, ratio >= goal, **rounded)
    share, step = waiting(kinds["statistics"], 1)
    yield results.result("waiting-share", share, 0.05, share < 0.05, step_seconds=round(step, 4))


def main() -> None:
    """Print the results and write them to a file."""
    parser = results.options(__doc__)
    parser.add_argument("--dates", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    # one core for the step, the other for what feeds it
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        results.report(measure(Path(folder), args.dates, args.rounds), args.out)


if __name__ == "__main__":
    main()
