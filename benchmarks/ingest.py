"""Ingest of one date of ENS-10's shape against xarray's own way, time and memory in the same run.

    python benchmarks/ingest.py [--small] [--json FILE]

Makes a GRIB file with eccodes (10 members, 11 levels, 7 variables, 3 lead times, 0.5 degrees, 16
bits a value; about 1.2 GB), then turns it into Zarr twice, each in a process of its own, in turn:

* peer: ``xr.open_mfdataset(..., engine="cfgrib").to_zarr(...)``,
* ours: :func:`weatherpp.data.ingest.ingest`, which also checks every value.

Goals: at least twice as fast, at most a quarter of the memory. Memory is the highest resident set
of the process, libraries included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LEVELS = (10, 50, 100, 200, 300, 400, 500, 700, 850, 925, 1000)
VARIABLES = {"z": 5e4, "t": 250.0, "q": 5e-3, "w": 0.0, "d": 0.0, "u": 5.0, "v": 0.0}
SCATTER = {"z": 3e3, "t": 15.0, "q": 1e-3, "w": 0.3, "d": 3e-5, "u": 12.0, "v": 9.0}
STEPS = (0, 24, 48)
ENTRY = """\
name: bench
title: ENS-10's shape
driver: grib
root: {root}
files: {{forecast: ["*.grib"]}}
licence: none
citation: none
"""


def make(path: Path, small: bool) -> None:
    """One date, member after member as archives give it."""
    import eccodes

    rows, columns = (91, 180) if small else (361, 720)
    rng = np.random.default_rng(1)
    handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib1")
    spacing = 360 / columns
    keys = {
        "Ni": columns, "Nj": rows, "latitudeOfFirstGridPointInDegrees": 90.0,
        "longitudeOfFirstGridPointInDegrees": 0.0, "latitudeOfLastGridPointInDegrees": -90.0,
        "longitudeOfLastGridPointInDegrees": 360.0 - spacing,
        "iDirectionIncrementInDegrees": spacing, "jDirectionIncrementInDegrees": spacing,
        "dataDate": 20180104, "dataTime": 0, "bitsPerValue": 16, "setLocalDefinition": 1,
        "localDefinitionNumber": 1, "class": "od", "stream": "enfo", "expver": "0001",
        "numberOfForecastsInEnsemble": 10,
    }  # fmt: skip
    for key, value in keys.items():
        eccodes.codes_set(handle, key, value)
    noise = rng.normal(size=(rows, columns))
    waves = np.sin(np.arange(rows) / 20)[:, None] + np.cos(np.arange(columns) / 30)
    with path.open("wb") as out:
        for number in range(10):
            for step in STEPS:
                for name, mean in VARIABLES.items():
                    for level in LEVELS:
                        eccodes.codes_set(handle, "type", "pf" if number else "cf")
                        eccodes.codes_set(handle, "number", number)
                        eccodes.codes_set(handle, "step", step)
                        eccodes.codes_set(handle, "shortName", name)
                        eccodes.codes_set(handle, "level", level)
                        shift = rng.integers(0, columns)
                        field = waves + 0.1 * np.roll(noise, shift, axis=1)
                        field = mean + 0.5 * SCATTER[name] * field
                        if name == "q":
                            field = np.abs(field)
                        eccodes.codes_set_values(handle, field.ravel())
                        eccodes.codes_write(handle, out)


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
    from weatherpp.recipe import validate

    entry = validate(CatalogEntry, yaml.safe_load(ENTRY.format(root=source.parent)), "bench")
    ingest(entry, out)


def measured(what: str, source: Path, out: Path) -> tuple[float, float]:
    """Seconds and megabytes of a run in a process of its own."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, __file__, "--child", what, str(source), str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = done.stdout.split()[-2:]
    return float(seconds), float(memory)


def child(what: str, source: Path, out: Path) -> None:
    start = time.perf_counter()
    {"peer": peer, "ours": ours}[what](source, out)
    seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="2 degrees, to try it out")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, source, out = options.child
        child(what, Path(source), Path(out))
        return
    results = []
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source" / "date.grib"
        source.parent.mkdir()
        make(source, options.small)
        print(f"{source.stat().st_size / 1e9:.2f} GB of GRIB, {os.cpu_count()} cores")
        found: dict[str, list[tuple[float, float]]] = {"ours": [], "peer": []}
        for _ in range(options.rounds):
            for what in found:
                found[what].append(measured(what, source, Path(name) / what))
                seconds, memory = found[what][-1]
                print(f"{what}: {seconds:.1f} s, {memory:.0f} MB")
        best = {
            what: [min(column) for column in zip(*runs, strict=True)]
            for what, runs in found.items()
        }
        speed = best["peer"][0] / best["ours"][0]
        memory = best["ours"][1] / best["peer"][1]
        results.append(
            {
                "name": "ingest, speed against xarray",
                "value": speed,
                "goal": 2.0,
                "holds": speed >= 2,
            }
        )
        results.append(
            {
                "name": "ingest, memory against xarray",
                "value": memory,
                "goal": 0.25,
                "holds": memory <= 0.25,
            }
        )
    for result in results:
        verdict = "holds" if result["holds"] else "DOES NOT HOLD"
        print(f"{result['name']}: {result['value']:.2f} (goal {result['goal']}, {verdict})")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
