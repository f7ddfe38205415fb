"""A month of nights on the embedded atmosphere, with analyses two days late and six faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from jobs import write_yaml

from weatherpp.data.archive import Archive
from weatherpp.methods.base import load_model
from weatherpp.operations import history, registry
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.log import Log
from weatherpp.operations.nightly import run_nightly
from weatherpp.operations.settings import load_nightly
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.run import run_recipe

FIRST, DAYS, MEMBERS = pd.Timestamp("2026-10-01T00"), 31, 5
WEATHERS = 12  # dates of a year of the archive; each night has the weather of one, in turn
LEAD = pd.Timedelta("48h")
CHOICE = {"choose": "first", "count": 3}
FIT = {
    "name": "fit",
    "source": {"twin": {"years": 3, "dates_per_year": WEATHERS, "members": MEMBERS, "seed": 1}},
    "targets": [
        {"variable": "z", "level": 500, "step": "48h"},
        {"variable": "t", "level": 650, "step": "48h"},
    ],
    "split": {"train": [2001, 2001], "valid": [2002, 2002], "test": [2003, 2003]},
    "methods": [
        {"label": "emos-5", "method": "emos"},
        {"label": "emos-3", "method": "emos", "members": CHOICE},
        {
            "label": "set",
            "method": "mixed",
            "settings": {"network": "set", "width": 8, "cross_fit": 1, "training": {"epochs": 1}},
        },
    ],
    "verify": {"bootstrap": {"samples": 100}},
}
NIGHTLY = {
    "name": "month",
    "title": "A month of nights",
    "work": "work",
    "source": {
        "driver": "netcdf",
        "root": "drop",
        "forecast": ["{cycle:%Y-%m-%dT%H}/m*.nc"],
        "analysis": ["analysis/{valid:%Y-%m-%dT%H}.nc"],
        "count": MEMBERS,
        "settle": "0s",
    },
    "members": {"expected": [0, MEMBERS - 1], "minimum": 3},
    "targets": [
        {"variable": "z", "level": 500, "step": "48h", "models": "models/z500"},
        {"variable": "t", "level": 650, "step": "48h", "models": "models/t650"},
    ],
    "products": {"members": {"coupling": "ecc-q"}},
    "maps": False,
    "verify": {"window": "40d", "bootstrap": {"samples": 100}},
}
FEW, CUT, NAN, GRID, KILLED, NONE = 3, 7, 11, 15, 19, 23  # the nights of the faults
BACKFILL = {8: CUT, 12: NAN, 16: GRID, 25: NONE}  # day -> the night it makes good


def put(ds: xr.Dataset, path: Path) -> None:
    """Write a file as those who know their readers do: whole, then renamed."""
    ds.to_netcdf(path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


class Centre:
    """The place of work of a small forecasting centre, one day after the other."""

    def __init__(self, archive: Archive):
        dates = archive.forecast["time"].values
        self.data = archive
        self.dates = [dates[-WEATHERS:][day % WEATHERS] for day in range(DAYS)]

    def cycle(self, day: int) -> pd.Timestamp:
        return FIRST + pd.Timedelta(days=day)

    def forecast(self, day: int) -> xr.Dataset:
        ds = self.data.forecast.sel(time=[self.dates[day]]).load()
        ds = ds.drop_vars("valid_time").assign_coords(time=[self.cycle(day).to_datetime64()])
        for name in ds.variables:
            ds[name].encoding = {}
        return ds

    def arrive(self, day: int, fault: bool = True) -> None:
        """The files of a night, with its fault if it has one."""
        folder = Path("drop") / cycle_name(self.cycle(day))
        folder.mkdir(parents=True, exist_ok=True)
        ds = self.forecast(day)
        for number in range(MEMBERS):
            part, path = ds.sel(number=[number]), folder / f"m{number}.nc"
            if fault and day == NONE:
                continue
            if fault and day == FEW and number == 4:
                continue
            if fault and number == 2 and day == NAN:
                part = part.assign(t=part["t"].where(part["level"] != 650))
            if fault and number == 2 and day == GRID:
                part = part.isel(longitude=slice(None, None, 2))
            put(part, path)
            if fault and number == 2 and day == CUT:
                path.write_bytes(path.read_bytes()[:-3000])

    def verify(self, day: int) -> None:
        """The analysis that a forecast of that day waits for."""
        valid = self.cycle(day) + LEAD
        path = Path("drop") / "analysis" / f"{cycle_name(valid)}.nc"
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.data.analysis is not None
        ds = self.data.analysis.sel(valid_time=[self.dates[day] + LEAD.to_timedelta64()]).load()
        ds = ds.assign_coords(valid_time=[valid.to_datetime64()])
        for name in ds.variables:
            ds[name].encoding = {}
        put(ds, path)

    def night(self, *days: int) -> int:
        """Exit code of the job for some cycles, in this process."""
        settings = load_nightly(Path("month.yaml"))
        cycles = [self.cycle(day) for day in days]
        fault = run_nightly(settings, Path("work"), cycles, log=Log(quiet=True)).fault
        return 0 if fault is None else fault.exit_code

    def killed_night(self, day: int) -> None:
        """The command in a process of its own, killed as soon as it makes a product."""
        command = Path(sys.executable).with_name("weatherpp")
        name = cycle_name(self.cycle(day))
        begun = Path("work") / "cycles" / name / "stages" / "product"
        with subprocess.Popen(
            [command, "nightly", "--recipe", "month.yaml", "--cycle", name],
            stderr=subprocess.DEVNULL,
        ) as process:
            while process.poll() is None and not list(begun.glob("*.started")):
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL


@pytest.fixture
def centre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Centre:
    """Models fitted by an ordinary recipe and put into registries; no file has come yet."""
    monkeypatch.chdir(tmp_path)
    write_yaml(Path("fit.yaml"), FIT)
    write_yaml(Path("month.yaml"), NIGHTLY)
    with Terminal() as terminal:
        run_recipe(Path("fit.yaml"), until="verify", terminal=terminal)
    for name, labels in (("z500", ("emos-5", "emos-3")), ("t650", ("set",))):
        models = [Path("runs/fit/models") / name / label for label in labels]
        added = registry.add(Path("models") / name, "v1", models, use_it=True)
        assert set(added.scores[labels[0]]) == {"crps", "rmse", "bias", "spread_skill"}
    return Centre(Archive.open("runs/fit/archive.zarr"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_month_of_nights(centre: Centre) -> None:
    codes = {}
    for day in range(DAYS):
        centre.arrive(day)
        if day >= 4:
            centre.verify(day - 4)  # valid two days ago, and it comes two days late
        if day == KILLED:
            centre.killed_night(day)
        codes[day] = centre.night(day)
        if day in BACKFILL:
            centre.arrive(BACKFILL[day], fault=False)
            assert centre.night(BACKFILL[day]) == 0
    expected = dict.fromkeys(range(DAYS), 0) | {FEW: 5, CUT: 3, NAN: 3, GRID: 3, NONE: 3}
    assert codes == expected
    for day in range(DAYS - 4, DAYS):
        centre.verify(day)
    assert centre.night(DAYS - 1) == 0

    check_products(centre)
    check_records()


def check_products(centre: Centre) -> None:
    """Every product is what its model gives for the members that came."""
    whole = [day for day in range(DAYS) if day != FEW]
    for name, label, days, count in (
        ("z500", "emos-5", whole, MEMBERS),
        ("z500", "emos-3", [FEW], CHOICE["count"]),
        ("t650", "set", whole, MEMBERS),
        ("t650", "set", [FEW], MEMBERS - 1),
    ):
        forecast = xr.concat(map(centre.forecast, days), "time").isel(number=slice(count))
        forecast = forecast.assign_coords(valid_time=forecast["time"] + forecast["step"])
        direct = load_model(Path("runs/fit/models") / name / label).predict(forecast)
        for day, date in zip(days, forecast["time"].values, strict=True):
            path = Path("work/cycles") / cycle_name(centre.cycle(day)) / f"{name}-48h.nc"
            with xr.open_dataset(path, decode_timedelta=True) as made:
                assert made.attrs["model"] == f"v1/{label}"
                assert made.attrs["members_used"] == " ".join(map(str, range(count)))
                assert ("partial" in made.attrs) == (day == FEW)
                assert made.sizes["number"] == count
                for part in ("mean", "spread"):
                    expected = direct[part].sel(time=[date])
                    np.testing.assert_allclose(made[part], expected, rtol=1e-6)


def check_records() -> None:
    """The history is complete, the faults are noted, the report shows the skill by day."""
    for variable in ("z", "t"):
        table = history.history(Path("work"), variable, None, 48)
        assert table["cycle"].nunique() == DAYS
        assert (table.groupby("method")["cycle"].nunique() == DAYS).all()
        assert table["crps"].notna().all()
    z = history.history(Path("work"), "z", 500, 48).groupby("method")["crps"].mean()
    assert z["post-processed"] < z["raw"]
    found = history.status(Path("work"), count=100)
    assert {row["state"] for row in found["cycles"]} == {"done", "partial"}
    faults = [row for row in found["faults"] if row["severity"] == "fault"]
    assert sorted(row["code"] for row in faults) == [3, 3, 3, 3, 5]
    assert not list(Path("work").rglob("*.part"))
    report = Path("work/report.html").read_text(encoding="utf-8")
    assert "Skill by day: z500-48h" in report
    assert "1 October 2026 to 31 October 2026" in report
    index = Path("work/index.html").read_text(encoding="utf-8")
    assert index.count("UTC</h2>") == DAYS
