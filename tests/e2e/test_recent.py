"""The method that follows recent errors, in a run and on one file."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import numpy as np
import xarray as xr
from jobs import RECIPE, Command, write_yaml

from weatherpp.data.archive import Archive
from weatherpp.data.fields import ensemble_mean, select


def test_running_bias_in_a_run_and_applied_to_a_file(weatherpp: Command, workplace: Path) -> None:
    recipe = deepcopy(RECIPE)
    five = {"choose": "first", "count": 5}
    settings = {"window": 4}
    recipe["methods"] = [
        {"label": "run", "method": "running-bias", "members": five, "settings": settings},
        {"label": "fixed", "method": "bias", "members": five},
    ]
    recipe["claims"] = []
    write_yaml(workplace / "tiny.yaml", recipe)
    result = weatherpp("postprocess", "tiny.yaml", cwd=workplace)
    assert result.returncode == 0, result.stderr
    folder = workplace / "runs/tiny"
    archive = Archive.open(folder / "archive.zarr")
    assert archive.analysis is not None
    # every fourth day, 48 h ahead: the last four are those that began 4, 8, 12 and 16 days before
    raw = select(archive.forecast, "z", 500, "48h").sel(number=range(5)).load()
    valid = raw["valid_time"].rename(time="date")
    truth = select(archive.analysis, "z", 500).sel(valid_time=valid)
    error = (ensemble_mean(raw).astype(float).values - truth.values)[-5:-1].mean(axis=0)
    with xr.open_dataset(folder / "predictions/z500/run.nc", decode_timedelta=True) as ds:
        last = ds["value"].isel(time=-1).load()
        expected = ds["mean"].load()
    np.testing.assert_allclose(last, raw[-1] - error, rtol=1e-6)

    model, one = "runs/tiny/models/z500/run", ("files/forecast.nc", "out.nc")
    result = weatherpp("apply", model, *one, "--recent", "runs/tiny/archive.zarr", cwd=workplace)
    assert result.returncode == 0, result.stderr
    with xr.open_dataset(workplace / "out.nc", decode_timedelta=True) as ds:
        np.testing.assert_allclose(ds["mean"].sel(time=expected["time"]), expected, rtol=1e-6)
    result = weatherpp("apply", model, *one, cwd=workplace)
    assert result.returncode == 2
    assert "give its archive with --recent" in result.stderr
    fixed = "runs/tiny/models/z500/fixed"
    result = weatherpp("apply", fixed, *one, "--recent", "runs/tiny/archive.zarr", cwd=workplace)
    assert result.returncode == 2
    assert "leave --recent out" in result.stderr
