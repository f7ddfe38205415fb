"""CRPS of an ensemble: this package against its peers, in one run on one machine.

For each number of members, on a global field of half a degree (361 x 720, float32), two results:

crps-fair-M-members
    time of the fastest peer by ours; more is better. Peers are scoringrules (all its estimators,
    compiled by numba), properscoring and xskillscore, each with the members on its preferred
    axis, prepared before the clock starts. Functions take turns, so that other load on the
    machine meets them all, and are compiled before. Two estimators of scoringrules compare each
    member with one other instead of all and so give other values, whose scatter about the fair
    score is told (`approximate_scatter`, rms by the mean score); their times are told too, but
    they are no peers.
crps-memory-M-members
    greatest memory of a call, inputs and output included, by the size of inputs and output;
    what the loaded libraries hold is not counted. Each is measured in a process of its own.

    python benchmarks/crps.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import properscoring
import results
import scoringrules
import xarray as xr
import xskillscore

from weatherpp.verify.kernels import crps_ensemble

MEMBERS = (5, 10, 50, 100)
GOALS = {10: 5.0, 50: 5.0}  # times as fast as the fastest peer; at other sizes not slower
SHAPE = (361, 720)
ESTIMATORS = ("fair", "pwm", "qd", "nrg", "int", "akr", "akr_circperm")
APPROXIMATE = ("scoringrules-akr", "scoringrules-akr_circperm")
Score = Callable[[], object]


def functions(m: int, shape: tuple[int, int]) -> tuple[dict[str, Score], int]:
    """The calls to compare, by name, and the bytes of their inputs and output."""
    rng = np.random.default_rng(0)
    members = rng.normal(280, 3, (m, *shape)).astype(np.float32)
    obs = rng.normal(280, 3, shape).astype(np.float32)
    last = np.ascontiguousarray(np.moveaxis(members, 0, -1))
    labelled = xr.DataArray(obs, dims=("y", "x"))
    ensemble = xr.DataArray(last, dims=("y", "x", "member"))

    def peer(estimator: str) -> Score:
        return lambda: scoringrules.crps_ensemble(obs, last, estimator=estimator, backend="numba")

    calls: dict[str, Score] = {f"scoringrules-{name}": peer(name) for name in ESTIMATORS}
    calls["properscoring"] = lambda: properscoring.crps_ensemble(obs, last)
    calls["xskillscore"] = lambda: xskillscore.crps_ensemble(labelled, ensemble, dim=[])
    calls["own"] = lambda: crps_ensemble(members, obs, "fair")
    return calls, members.nbytes + obs.nbytes + obs.size * 8


def best_ns(calls: dict[str, Score], points: int, repeats: int) -> dict[str, float]:
    """Least time of several runs, nanoseconds a point; a first run is not counted."""
    best = dict.fromkeys(calls, float("inf"))
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if repeat:
                best[name] = min(best[name], time.perf_counter() - start)
    return {name: seconds / points * 1e9 for name, seconds in best.items()}


def peak(m: int) -> int:
    """Greatest memory of our call beyond what the process held before its inputs, bytes."""
    few, _ = functions(m, (2, SHAPE[1]))
    few["own"]()  # compiled, threads started
    rng = np.random.default_rng(0)
    Path("/proc/self/clear_refs").write_text("5")  # forget the greatest memory so far
    before = _status("VmRSS")
    members = rng.standard_normal((m, *SHAPE), np.float32)
    obs = rng.standard_normal(SHAPE, np.float32)
    score = crps_ensemble(members, obs, "fair")
    assert np.isfinite(score).all()
    return _status("VmHWM") - before


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def compare(m: int, repeats: int) -> Iterator[results.Result]:
    """The two results for ``m`` members."""
    calls, size = functions(m, SHAPE)
    points = SHAPE[0] * SHAPE[1]
    ns = best_ns(calls, points, repeats)
    own = ns.pop("own")
    fair = np.asarray(calls["scoringrules-fair"]())
    approximate = {name: ns.pop(name) for name in APPROXIMATE}
    scatter = [
        float(np.sqrt(np.mean((np.asarray(calls[name]()) - fair) ** 2)) / fair.mean())
        for name in APPROXIMATE
    ]
    ratio, goal = min(ns.values()) / own, GOALS.get(m, 1.0)
    yield results.result(
        f"crps-fair-{m}-members",
        ratio,
        goal,
        ratio >= goal,
        own_ns=round(own, 1),
        peers_ns={name: round(value, 1) for name, value in ns.items()},
        approximate_ns={name: round(value, 1) for name, value in approximate.items()},
        approximate_scatter=[round(value, 3) for value in scatter],
        largest_difference=float(np.abs(np.asarray(calls["own"]()) - fair).max()),
        points=points,
    )
    child = [sys.executable, __file__, "--peak", str(m)]
    done = subprocess.run(child, capture_output=True, text=True, check=True)
    memory = json.loads(done.stdout) / size
    yield results.result(f"crps-memory-{m}-members", memory, 1.1, memory <= 1.1, bytes=size)


def main() -> None:
    """Print the results."""
    parser = results.options(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        print(peak(args.peak))
        return
    results.report((each for m in MEMBERS for each in compare(m, args.repeats)), args.out)


if __name__ == "__main__":
    main()
