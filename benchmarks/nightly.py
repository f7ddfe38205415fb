"""One night at 0.5 degrees against only reading its input, and the memory that it takes.

    python benchmarks/nightly.py [--small] [--rounds N] [--network NAME] [--out FILE]

Makes a GRIB file (10 members, 11 levels, 2 variables, one lead time, 361 x 720 points, 16 bits a
value; 114 MB) and fits EMOS and a network on 5 members and a few dates of noise, as what a model
learnt does not matter to how long it takes. Then, each in a process of its own, in turn:

* reading: every value of the file is decoded, through the same reader, and nothing else;
* a night for each of the models: waiting, hashing, checks of every value, the forecast, its product
  with quantiles, exceedance and corrected members, the pages; without maps, which take as long
  whatever the grid.

Goals: at most 3 times as long as reading, by the clock and in processor time, which says more on a
machine that others use; below 2000 MB. The clock starts when the libraries are loaded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import results
import sources

CYCLE = "2018-01-04T00"
FACTOR, LIMIT = 3.0, 2000.0
MEMBERS, DATES = 5, 9
NETWORKS = ("residual", "set", "unet2d")


def recipe(place: Path, model: str) -> Any:
    from weatherpp.operations.settings import Nightly
    from weatherpp.strict import validate

    content = {
        "name": "bench",
        "source": {
            "driver": "grib",
            "root": str(place),
            "forecast": ["{cycle:%Y%m%d}.grib"],
            "settle": "0s",
        },
        "members": {"expected": [0, sources.MEMBERS - 1]},
        "targets": [
            {
                "variable": "t",
                "level": 500,
                "step": "48h",
                "models": str(place / "models" / model),
                "thresholds": [250.0, 255.0],
            }
        ],
        "products": {"members": {"coupling": "ecc-q"}},
        "maps": False,
    }
    return validate(Nightly, content, "bench")


def read_only(place: Path) -> None:
    """Every value, block by block, and nothing else."""
    import pandas as pd
    from dask.array.core import slices_from_chunks

    from weatherpp.operations.source import Drop, lay_out_forecast

    settings = recipe(place, "emos").source
    arrival = Drop(settings).forecast(pd.Timestamp(CYCLE), patient=False)
    for da in lay_out_forecast(settings, arrival).ds.data_vars.values():
        for block in slices_from_chunks(da.data.chunks):
            da.data[block].compute()


def fit(place: Path, name: str, small: bool) -> None:
    """A model folder and its registry."""
    import numpy as np
    import pandas as pd
    import xarray as xr

    from weatherpp.conventions import annotate
    from weatherpp.data.fields import select
    from weatherpp.methods.base import FitData, method_class
    from weatherpp.operations import registry
    from weatherpp.recipe import Target

    rows, columns = sources.shape_of(small)
    rng = np.random.default_rng(1)
    times = pd.date_range("2017-01-01", periods=DATES, freq="5D")
    shape = (DATES, 1, MEMBERS, 1, rows, columns)
    values = 250.0 + rng.standard_normal(shape, dtype=np.float32)
    coords = {
        "time": times,
        "step": pd.TimedeltaIndex(["48h"]),
        "number": np.arange(MEMBERS),
        "level": [500],
        "latitude": np.linspace(90.0, -90.0, rows),
        "longitude": np.arange(columns) * 360.0 / columns,
    }
    forecast = annotate(xr.Dataset({"t": (tuple(coords), values)}, coords))
    forecast = forecast.assign_coords(valid_time=forecast["time"] + forecast["step"])
    target = Target(variable="t", level=500, step="48h")
    full = select(forecast, "t", 500, "48h")
    # every value of any other field of the night stays unused by these models
    settings: dict[str, Any] = {}
    if name != "emos":
        settings = {"network": name, "cross_fit": 1, "training": {"epochs": 1, "batch": 2}}
    data = FitData(
        forecast=forecast,
        truth=full.mean("number") + rng.standard_normal((rows, columns), dtype=np.float32),
        full=full,
        static=xr.Dataset(),
        target=target,
        train=times[: DATES - 2],
        valid=times[DATES - 2 :],
    )
    method = method_class("emos" if name == "emos" else "mixed")(target, settings).fit(data)
    choice = {"choose": "first", "count": MEMBERS}
    folder = place / "fitted" / name
    method.save(folder, {"members": choice, "numbers": list(range(MEMBERS)), "seed": 1})
    registry.add(place / "models" / name, "v1", [folder], use_it=True)


def night(place: Path, model: str) -> None:
    import pandas as pd

    from weatherpp.operations.log import Log
    from weatherpp.operations.nightly import run_nightly

    with tempfile.TemporaryDirectory(dir=place) as work:
        settings = recipe(place, model)
        fault = run_nightly(settings, Path(work), [pd.Timestamp(CYCLE)], log=Log(quiet=True)).fault
    if fault is not None:
        raise fault


def child(what: str, place: Path) -> None:
    import weatherpp.operations.nightly
    import weatherpp.operations.page  # noqa: F401
    from weatherpp.methods.base import method_class

    method_class("mixed" if what in NETWORKS else "emos")
    wall, cpu = time.perf_counter(), time.process_time()
    if what == "reading":
        read_only(place)
    else:
        night(place, what)
    # of this program alone: ru_maxrss would start with that of the process which began it
    status = Path("/proc/self/status").read_text("ascii")
    highest = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    found = {
        "seconds": time.perf_counter() - wall,
        "processor": time.process_time() - cpu,
        "memory": int(highest.split()[1]) / 1024,
    }
    print(json.dumps(found))


def measured(what: str, place: Path) -> dict[str, float]:
    """Seconds by the clock, seconds of processor, megabytes of a process of its own."""
    command = [sys.executable, __file__, "--child", what, str(place)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    shown = {key: round(value, 2) for key, value in found.items()}
    print(f"{what}: {shown}", file=sys.stderr, flush=True)
    return found


def all_results(
    place: Path, small: bool, rounds: int, models: tuple[str, ...]
) -> Iterator[results.Result]:
    sources.grib(place / "20180104.grib", small, names=("z", "t"), steps=(48,))
    for name in models:
        fit(place, name, small)
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for what in ("reading", *models):
            runs.setdefault(what, []).append(measured(what, place))
    best = {
        what: {key: min(each[key] for each in found) for key in found[0]}
        for what, found in runs.items()
    }
    for name in models:
        for key in ("seconds", "processor"):
            ratio = best[name][key] / best["reading"][key]
            more = {"night": round(best[name][key], 2), "reading": round(best["reading"][key], 2)}
            yield results.result(
                f"nightly-{name}-{key}-against-reading", ratio, FACTOR, ratio <= FACTOR, **more
            )
        memory = best[name]["memory"]
        yield results.result(f"nightly-{name}-memory", memory, LIMIT, memory <= LIMIT)


def main() -> None:
    parser = results.options(__doc__)
    parser.add_argument("--small", action="store_true", help="2 degrees, to try it out")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--network", choices=NETWORKS, default="residual")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, place = options.child
        child(what, Path(place))
        return
    with tempfile.TemporaryDirectory() as name:
        models = ("emos", options.network)
        found = all_results(Path(name), options.small, options.rounds, models)
        results.report(found, options.out)


if __name__ == "__main__":
    main()
