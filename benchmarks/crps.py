"""CRPS of an ensemble: this package against scoringrules, in one run on one machine.

Prints a JSON line for each number of members: ``value`` is the time of scoringrules (the
faster of its two fair estimators, compiled by numba, members on its preferred axis) divided by
ours; more than one means that ours is faster. Both are compiled before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import results
import scoringrules

from weatherpp.verify.kernels import crps_ensemble

MEMBERS = (5, 10, 50)


def best_ns(
    functions: dict[str, Callable[[], object]], points: int, repeats: int
) -> dict[str, float]:
    """Least time of several runs, nanoseconds a point; a first run is not counted.

    The functions take turns, so that other load on the machine meets them all.
    """
    best = dict.fromkeys(functions, float("inf"))
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if repeat:
                best[name] = min(best[name], time.perf_counter() - start)
    return {name: seconds / points * 1e9 for name, seconds in best.items()}


def compare(m: int, shape: tuple[int, int], repeats: int) -> results.Result:
    """One line of results for ``m`` members on float32 fields (time, points)."""
    rng = np.random.default_rng(0)
    members = rng.normal(280, 3, (m, *shape)).astype(np.float32)
    obs = rng.normal(280, 3, shape).astype(np.float32)
    last = np.ascontiguousarray(np.moveaxis(members, 0, -1))
    points = obs.size

    def peer(estimator: str) -> Callable[[], object]:
        return lambda: scoringrules.crps_ensemble(obs, last, estimator=estimator, backend="numba")

    functions = {name: peer(name) for name in ("fair", "pwm")}
    functions["own"] = lambda: crps_ensemble(members, obs, "fair")
    peers = best_ns(functions, points, repeats)
    own = peers.pop("own")
    difference = np.abs(crps_ensemble(members, obs, "fair") - peer("fair")()).max()
    ratio = min(peers.values()) / own
    return results.result(
        f"crps-fair-{m}-members",
        ratio,
        1.0,
        ratio >= 1.0,
        own_ns=round(own, 1),
        scoringrules_ns={name: round(value, 1) for name, value in peers.items()},
        largest_difference=float(difference),
        points=points,
    )


def main() -> None:
    """Print the results."""
    parser = results.options(__doc__)
    parser.add_argument("--dates", type=int, default=100)
    parser.add_argument("--points", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    shape = (args.dates, args.points)
    results.report((compare(m, shape, args.repeats) for m in MEMBERS), args.out)


if __name__ == "__main__":
    main()
