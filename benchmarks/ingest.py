"""Ingest: against xarray's own way on one date, then its memory alone on sources of any size.

    python benchmarks/ingest.py [--small] [--dates N] [--rounds N] [--out FILE]

Makes a GRIB file with eccodes (10 members, 11 levels, 7 variables, 3 lead times, 0.5 degrees, 16
bits a value; about 1.2 GB), then turns it into Zarr twice, each in a process of its own, in turn:

* peer: ``xr.open_mfdataset(..., engine="cfgrib").to_zarr(...)``,
* ours: :func:`weatherpp.data.ingest.ingest`, which also checks every value.

Goals: at least twice as fast, at most a quarter of the memory. Memory is the highest resident set
of the process, libraries included.

Then ours alone, each source below a goal of 2000 MB:

* N dates of the GRIB, which must take within 25 % of the memory of one;
* netCDF of 4 GB in one file: contiguous, and in chunks that run over all dates;
* Zarr with all dates of a variable, 312 MB, in one chunk.

Needs up to 6 GB of disk in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import results
import sources

ENTRY = """\
name: bench
title: as large as in life
driver: {driver}
root: {root}
files: {{forecast: ["*.{ending}"]}}
licence: none
citation: none
"""
DRIVERS = {"grib": "grib", "nc": "netcdf", "zarr": "zarr"}
LIMIT = 2000.0
MORE = 1.25


def peer(source: Path, out: Path) -> None:
    import xarray as xr

    keys = {"backend_kwargs": {"indexpath": ""}, "engine": "cfgrib", "decode_timedelta": True}
    parts = [
        # control and perturbed members clash in a plain open
        xr.open_mfdataset(
            [source], combine="nested", **{**keys, "backend_kwargs": {"indexpath": "", **kind}}
        )
        for kind in (
            {"filter_by_keys": {"dataType": "cf"}},
            {"filter_by_keys": {"dataType": "pf"}},
        )
    ]
    parts[0] = parts[0].expand_dims("number")
    xr.concat(parts, "number").chunk(number=-1).to_zarr(out, consolidated=False)


def ours(source: Path, out: Path) -> None:
    import yaml

    from weatherpp.data.catalog import CatalogEntry
    from weatherpp.data.ingest import ingest
    from weatherpp.strict import validate

    ending = source.suffix[1:]
    text = ENTRY.format(root=source.parent, ending=ending, driver=DRIVERS[ending])
    ingest(validate(CatalogEntry, yaml.safe_load(text), "bench"), out)


def measured(what: str, source: Path, out: Path) -> tuple[float, float]:
    """Seconds and megabytes of a run in a process of its own."""
    command = [sys.executable, __file__, "--child", what, str(source), str(out)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds, memory = map(float, done.stdout.split()[-2:])
    print(f"{what}, {source.parent.name}: {seconds:.1f} s, {memory:.0f} MB", file=sys.stderr)
    shutil.rmtree(out)
    return seconds, memory


def child(what: str, source: Path, out: Path) -> None:
    start = time.perf_counter()
    {"peer": peer, "ours": ours}[what](source, out)
    seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def against_xarray(source: Path, work: Path, rounds: int) -> Iterator[results.Result]:
    """Speed and memory on one date; then the memory itself."""
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        for what in found:
            found[what].append(measured(what, source, work / what))
    best = {what: [min(col) for col in zip(*runs, strict=True)] for what, runs in found.items()}
    (seconds, memory), (peer_seconds, peer_memory) = best["ours"], best["peer"]
    speed, share = peer_seconds / seconds, memory / peer_memory
    more = {"seconds": round(seconds, 1), "cores": os.cpu_count()}
    yield results.result("ingest-speed-against-xarray", speed, 2.0, speed >= 2, **more)
    yield results.result("ingest-memory-against-xarray", share, 0.25, share <= 0.25)
    yield results.result("ingest-memory-grib-1-date", memory, LIMIT, memory <= LIMIT)


def alone(name: str, source: Path, work: Path) -> results.Result:
    """Peak memory of ours, MB."""
    seconds, memory = measured("ours", source, work / "ours")
    more = {"seconds": round(seconds, 1)}
    return results.result(f"ingest-memory-{name}", memory, LIMIT, memory <= LIMIT, **more)


def all_results(work: Path, small: bool, dates: int, rounds: int) -> Iterator[results.Result]:
    """One source after the other; each is removed before the next is made."""
    source = work / "grib" / "date0.grib"
    source.parent.mkdir()
    sources.grib(source, small)
    print(f"{source.stat().st_size / 1e9:.2f} GB of GRIB a date", file=sys.stderr)
    yield from (compared := list(against_xarray(source, work, rounds)))
    for number in range(1, dates):
        sources.redated(source, source.with_name(f"date{number}.grib"), 20180104 + number)
    found = alone(f"grib-{dates}-dates", source, work)
    yield found
    shutil.rmtree(source.parent)
    ratio = found["value"] / compared[-1]["value"]
    yield results.result("ingest-memory-dates-against-one", ratio, MORE, ratio <= MORE)
    makers: dict[str, tuple[str, Callable[[Path], None]]] = {
        "netcdf-contiguous": ("a.nc", lambda path: sources.netcdf(path, 70, small, "contiguous")),
        "netcdf-chunks-of-all-dates": (
            "a.nc",
            lambda path: sources.netcdf(path, 70, small, "dates"),
        ),
        "zarr-one-chunk": ("a.zarr", lambda path: sources.zarr(path, 30, small)),
    }
    for name, (file, make) in makers.items():
        folder = work / name
        folder.mkdir()
        make(folder / file)
        yield alone(name, folder / file, work)
        shutil.rmtree(folder)


def main() -> None:
    parser = results.options(__doc__)
    parser.add_argument("--small", action="store_true", help="2 degrees, to try it out")
    parser.add_argument("--dates", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, source, out = options.child
        child(what, Path(source), Path(out))
        return
    with tempfile.TemporaryDirectory() as name:
        found = all_results(Path(name), options.small, options.dates, options.rounds)
        results.report(found, options.out)


if __name__ == "__main__":
    main()
