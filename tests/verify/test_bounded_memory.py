"""A forecast larger than the memory allowed is scored within it, and gives the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from weatherpp import distribution
from weatherpp.recipe import Bootstrap, Target
from weatherpp.verify import accumulate, calibration, table
from weatherpp.verify.regions import regions

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CHILD = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import memory
path = Path(sys.argv[2])
memory.SHAPE, memory.MEMBERS = (91, 180), 10
found = []
for dates in (200, 500):
    store = path / f"{dates}.zarr"
    size = memory.write_store(store, dates)
    found.append([size, memory.peak(store, "crps", "ranks", "table")])
print(json.dumps(found))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured by Linux's /proc")
def test_memory_does_not_grow_with_the_dates(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(BENCHMARKS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (small, few), (large, many) = json.loads(done.stdout.splitlines()[-1])
    assert large - small > 190e6
    assert many < 0.6 * large
    assert many - few < 0.25 * (large - small)


def test_blocks_give_the_numbers_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    coords = {
        "time": np.arange("2020-01-01", "2020-01-24", dtype="datetime64[D]").astype("M8[ns]"),
        "number": np.arange(5),
        "latitude": np.linspace(80, -80, 9),
        "longitude": np.arange(8) * 45.0,
    }
    value = xr.DataArray(rng.normal(280, 3, [len(c) for c in coords.values()]), coords)
    truth = value.isel(number=0, drop=True) + rng.normal(size=(23, 9, 8))
    truth = truth.where(rng.random(truth.shape) > 0.1).assign_attrs(units="K")
    truth[5] = np.nan
    target = Target(variable="t2m", step="24h")

    def scored(dist: xr.Dataset, obs: xr.DataArray) -> table.Scored:
        return table.score_method(
            *("m", dist, obs, target), members=5, regions=regions(obs), nan_policy="omit",
            bootstrap=Bootstrap(samples=100),
        )  # fmt: skip

    dist = distribution.members(value)
    whole, ranks = scored(dist, truth), calibration.ranks(dist, truth, nan_policy="omit")
    monkeypatch.setattr(accumulate, "BLOCK_BYTES", 4 * value[0].nbytes)
    assert len(list(accumulate.date_blocks(dist, truth))) > 5
    lazy = distribution.members(value.chunk({"time": 3, "number": 2}))
    parts = scored(lazy, truth.chunk({"time": 5}))
    for one, two in ((whole.rows, parts.rows), (whole.per_date, parts.per_date)):
        numbers = one.select_dtypes("number").columns
        np.testing.assert_allclose(one[numbers], two[numbers], rtol=1e-12)
        assert one.drop(columns=numbers).equals(two.drop(columns=numbers))
    xr.testing.assert_allclose(whole.maps, parts.maps)
    np.testing.assert_allclose(
        calibration.ranks(lazy, truth.chunk({"time": 5}), nan_policy="omit"), ranks
    )
    assert whole.maps["crps_fair"].attrs["estimator"] == "fair"
    assert whole.maps["rmse"].attrs["nan_policy"] == "omit"
    assert set(whole.rows["region"]) == set(regions(truth))
    assert (whole.rows["dates"] == 22).all()
