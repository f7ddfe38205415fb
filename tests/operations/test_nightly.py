"""One night after the other: products, scores, faults, and what each leaves alone."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from night_cases import QUIET, TARGET, Cycles, contents, cycle_at, night, product_of, settings_of
from scipy import stats

from weatherpp.data.fields import select
from weatherpp.errors import ConfigError, InputError, PartialError
from weatherpp.methods.base import load_model
from weatherpp.operations import history, registry
from weatherpp.operations.nightly import run_nightly
from weatherpp.verify.weights import grid_weights


def test_products_are_those_of_the_model(place: Path, cycles: Cycles) -> None:
    assert night(place, 0).fault is None
    made = product_of(place, 0)
    forecast = cycles.forecast(0)
    direct = load_model(place / "models/z500/versions/v1/emos-5").predict(forecast)
    np.testing.assert_array_equal(made["mean"], direct["mean"])
    np.testing.assert_array_equal(made["spread"], direct["spread"])
    normal = stats.norm(made["mean"].values, made["spread"].values)
    np.testing.assert_allclose(made["exceedance"][1], normal.sf(55000.0), atol=1e-5)
    np.testing.assert_allclose(made["quantiles"][2], made["mean"], rtol=1e-6)
    # corrected members stand in the order of the raw ones, at levels (k - 1/2) / 5
    raw = select(forecast, "z", 500, "48h")
    order = raw.transpose("number", ...).values.argsort(axis=0)
    corrected = made["members"].transpose("number", ...).values
    assert (np.diff(np.take_along_axis(corrected, order, 0), axis=0) > 0).all()
    lowest = normal.ppf(0.1)
    np.testing.assert_allclose(corrected.min(axis=0), lowest, rtol=1e-5)
    assert made.attrs["cycle"] == "2026-11-01T00"
    assert made.attrs["model"] == "v1/emos-5"
    assert made.attrs["members_used"] == "0 1 2 3 4"
    assert "partial" not in made.attrs


def test_again_changes_nothing(place: Path) -> None:
    night(place, 0)
    before = contents(place / "work")
    files = {
        path: path.stat().st_mtime_ns for path in (place / "work").rglob("*") if path.is_file()
    }
    assert night(place, 0).fault is None
    assert contents(place / "work") == before
    after = {path: path.stat().st_mtime_ns for path in files}
    changed = {path.name for path in files if after[path] != files[path]}
    assert {name for name in changed if "ledger" not in name} == set()


def test_scores_come_with_the_analyses(place: Path, cycles: Cycles) -> None:
    night(place, 0)
    assert not (place / "work/cycles/2026-11-01T00/scores").exists()
    cycles.drop_truth(place, 0)
    assert night(place, 1).fault is None
    table = history.history(place / "work", "z", 500, 48).set_index("method")
    truth = cycles.truth(0)["z"].sel(level=500).isel(valid_time=0)
    raw = select(cycles.forecast(0), "z", 500, "48h").isel(time=0)
    error = raw.mean("number") - truth
    weights = grid_weights(error)
    expected = float((error**2).weighted(weights).mean() ** 0.5)
    assert table.loc["raw", "rmse"] == pytest.approx(expected, rel=1e-5)
    error = product_of(place, 0)["mean"].isel(time=0) - truth
    expected = float((error**2).weighted(weights).mean() ** 0.5)
    assert table.loc["post-processed", "rmse"] == pytest.approx(expected, rel=1e-5)
    assert table.loc["raw", "cycle"] == "2026-11-01T00"
    with pytest.raises(InputError, match="z500-48h"):
        history.history(place / "work", "t", None, None)


def test_missing_members_are_said_and_another_model_is_taken(place: Path) -> None:
    for number in (1, 4):
        (place / f"drop/2026-11-01T00/m{number}.nc").unlink()
    fault = night(place, 0).fault
    assert isinstance(fault, PartialError)
    assert "2 of 5 members missing (1, 4)" in str(fault)
    made = product_of(place, 0)
    assert made.attrs["model"] == "v1/emos-3"
    assert made.attrs["members_used"] == "0 2 3"
    assert made.attrs["members_missing"] == "1 4"
    assert "2 of 5" in made.attrs["partial"]
    # said again as long as it is so
    assert isinstance(night(place, 0).fault, PartialError)


def test_members_that_come_late_are_taken(place: Path, cycles: Cycles) -> None:
    (place / "drop/2026-11-01T00/m4.nc").unlink()
    assert isinstance(night(place, 0).fault, PartialError)
    cycles.drop(place, 0)
    assert night(place, 0).fault is None
    made = product_of(place, 0)
    assert made.attrs["model"] == "v1/emos-5"
    assert "partial" not in made.attrs


def test_too_few_members_are_refused(place: Path) -> None:
    for number in (1, 2, 4):
        (place / f"drop/2026-11-01T00/m{number}.nc").unlink()
    fault = night(place, 0).fault
    assert isinstance(fault, InputError)
    assert "3 of 5 members missing (1, 2, 4), and members.minimum is 3" in str(fault)
    assert not (place / "work/cycles/2026-11-01T00/z500-48h.nc").exists()


def test_no_model_for_so_few_members(place: Path) -> None:
    for number in (1, 2, 4):
        (place / f"drop/2026-11-01T00/m{number}.nc").unlink()
    fault = night(place, 0, members={"expected": [0, 4], "minimum": 2}).fault
    assert isinstance(fault, InputError)
    assert "5 members asked for, the data have 2" in str(fault)


def rewritten(path: Path, change: Callable[[xr.Dataset], xr.Dataset]) -> None:
    with xr.open_dataset(path, decode_timedelta=True) as ds:
        changed = change(ds.load())
    path.unlink()
    changed.to_netcdf(path)


def without_variable(path: Path) -> None:
    rewritten(path, lambda ds: ds.drop_vars("t"))


def without_level(path: Path) -> None:
    rewritten(path, lambda ds: ds.drop_sel(level=500))


def doubled(path: Path) -> None:
    path.with_name("m9.nc").write_bytes(path.read_bytes())


def cut_off(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])


def with_nan(path: Path) -> None:
    def change(ds: xr.Dataset) -> xr.Dataset:
        ds["z"].loc[{"level": 500}] = np.nan
        return ds

    rewritten(path, change)


def constant(path: Path) -> None:
    def change(ds: xr.Dataset) -> xr.Dataset:
        ds["z"].loc[{"level": 500}] = 55000.0
        return ds

    rewritten(path, change)


def wrong_date(path: Path) -> None:
    rewritten(path, lambda ds: ds.assign_coords(time=ds["time"] - np.timedelta64(1, "D")))


def wrong_grid(path: Path) -> None:
    rewritten(path, lambda ds: ds.assign_coords(latitude=ds["latitude"] - 1.0))


FAULTS: dict[Callable[[Path], None], tuple[str, ...]] = {
    without_variable: ("2026-11-02T00", "t", "number"),
    without_level: ("2026-11-02T00", "z", "level 500", "missing"),
    doubled: ("second field", "m9.nc"),
    cut_off: ("m2.nc",),
    with_nan: ("m2.nc", "z", "missing values"),
    constant: ("m2.nc", "z is the same at all points", "level 500"),
    wrong_date: ("m2.nc", "2026-11-02T00", "2026-11-01T00"),
    wrong_grid: ("m2.nc", "latitude"),
}


@pytest.mark.parametrize("damage", FAULTS, ids=lambda damage: damage.__name__)
def test_bad_file_is_named_and_other_products_stay(
    place: Path, damage: Callable[[Path], None]
) -> None:
    night(place, 0)
    before = contents(place / "work")
    damage(place / "drop/2026-11-02T00/m2.nc")
    fault = night(place, 1).fault
    assert isinstance(fault, InputError), fault
    for word in FAULTS[damage]:
        assert word in str(fault)
    assert "\n" not in str(fault)
    assert contents(place / "work") == before
    found = history.status(place / "work")
    assert [row["state"] for row in found["cycles"]] == ["failed", "done"]
    assert found["faults"][0]["cycle"] == "2026-11-02T00"


def test_a_bad_file_after_a_good_one_leaves_the_product(place: Path) -> None:
    night(place, 0)
    before = contents(place / "work")
    with_nan(place / "drop/2026-11-01T00/m2.nc")
    assert isinstance(night(place, 0).fault, InputError)
    assert contents(place / "work") == before


def test_all_files_on_another_grid(place: Path) -> None:
    for path in (place / "drop/2026-11-02T00").glob("*.nc"):
        wrong_grid(path)
    fault = night(place, 0, 1).fault
    assert isinstance(fault, InputError)
    assert "2026-11-02T00" in str(fault)
    assert "another grid" in str(fault)
    assert product_of(place, 0).sizes["time"] == 1


def test_no_file_is_said_and_backfilled_later(place: Path, cycles: Cycles) -> None:
    fault = night(place, 2).fault
    assert isinstance(fault, InputError)
    assert "no such file" in str(fault)
    assert "--from 2026-11-03T00 --to 2026-11-03T00" in str(fault)
    cycles.drop(place, 2)
    settings = settings_of(place)
    days = [cycle_at(day) for day in range(3)]
    assert run_nightly(settings, place / "work", days, jobs=2, log=QUIET).fault is None
    side_by_side = contents(place / "work")
    assert run_nightly(settings, place / "one", days, log=QUIET).fault is None
    assert contents(place / "one") == side_by_side
    assert sum(name.endswith("z500-48h.nc") for name in side_by_side) == 6  # three of them raw


def test_bad_analysis_is_named_and_the_night_goes_on(place: Path, cycles: Cycles) -> None:
    night(place, 0)
    path = cycles.drop_truth(place, 0)
    with_nan(path)
    fault = night(place, 1).fault
    assert isinstance(fault, InputError)
    assert path.name in str(fault)
    assert product_of(place, 1).attrs["cycle"] == "2026-11-02T00"


def test_back_to_an_older_model(place: Path, cycles: Cycles, tmp_path: Path) -> None:
    night(place, 0)
    before = contents(place / "work")
    other = cycles.fit(tmp_path / "fitted", 5, "bias")
    registry.add(place / "models/z500", "v2", [other], use_it=True)
    assert night(place, 0).fault is None
    assert product_of(place, 0).attrs["model"] == "v2/bias-5"
    registry.use(place / "models/z500", "v1")
    assert night(place, 0).fault is None
    assert contents(place / "work") == before


def test_changed_model_is_refused_and_the_product_stays(place: Path) -> None:
    night(place, 0)
    before = contents(place / "work")
    parameters = place / "models/z500/versions/v1/emos-5/parameters.nc"
    parameters.write_bytes(parameters.read_bytes() + b"x")
    assert night(place, 0).fault is None  # nothing to do, so it is not looked at
    fault = night(place, 1).fault
    assert isinstance(fault, InputError)
    assert "is not what was fitted" in str(fault)
    assert contents(place / "work").items() >= before.items()


def test_drift_is_told_and_the_exit_stays(place: Path, cycles: Cycles) -> None:
    version = place / "models/z500/versions/v1/version.json"
    content = json.loads(version.read_text())
    content["scores"] = {"emos-5": {"bias": 0.0, "rmse": 300.0, "spread_skill": 1.0, "crps": 150.0}}
    version.write_text(json.dumps(content))
    for day in (0, 1):
        rewritten(
            cycles.drop_truth(place, day),
            lambda ds: ds.assign(z=(ds["z"] + 1000.0).assign_attrs(ds["z"].attrs)),
        )
    outcome = night(place, 0, 1, drift={"cycles": 2})
    assert outcome.fault is None
    assert any("bias -" in text for text in outcome.drifts.own)
    assert any("CRPS" in text for text in outcome.drifts.own)
    severities = [row["severity"] for row in history.status(place / "work")["faults"]]
    assert set(severities) == {"warning"}
    assert "Drift: z500-48h" in (place / "work/report.html").read_text()
    failed = night(place, 1, drift={"cycles": 2}, alerts={"drift": "fail"})
    assert failed.fault is not None
    assert failed.fault.exit_code == 1


def test_metrics_for_prometheus(place: Path, cycles: Cycles) -> None:
    cycles.drop_truth(place, 0)
    path = place / "metrics" / "weatherpp.prom"
    night(place, 0, alerts={"prometheus": str(path)})
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    values = dict(line.rsplit(" ", 1) for line in lines)
    assert values['weatherpp_nightly_exit_code{job_name="night"}'] == "0"
    stamp = values['weatherpp_nightly_last_cycle_timestamp_seconds{job_name="night"}']
    assert float(stamp) == pd.Timestamp("2026-11-01", tz="UTC").timestamp()
    assert any('method="post-processed",score="crps"' in name for name in values)
    assert not list(path.parent.glob("*.part"))


def test_zarr_products_and_maps(place: Path) -> None:
    outcome = night(place, 0, maps=True, products={"format": "zarr"})
    assert outcome.fault is None
    folder = place / "work/cycles/2026-11-01T00"
    with xr.open_zarr(folder / "z500-48h.zarr", decode_timedelta=True) as ds:
        assert {"mean", "spread", "quantiles", "exceedance"} <= set(ds.data_vars)
    drawn = {path.name for path in (folder / "maps/z500-48h").iterdir()}
    assert drawn == {"mean.png", "spread.png", "exceedance.png", "maps.json"}
    page = (place / "work/index.html").read_text()
    assert page.count("data:image/png;base64,") == 3


@pytest.mark.parametrize("name", ["z500-48h.nc", "raw/z500-48h.nc"])
def test_a_product_that_was_damaged_is_made_again(place: Path, cycles: Cycles, name: str) -> None:
    night(place, 0)
    product = place / "work" / "cycles" / "2026-11-01T00" / name
    whole = product.read_bytes()
    product.write_bytes(b"")
    cycles.drop_truth(place, 0)
    (place / "work" / "cycles" / "2026-11-09T00").write_text("no cycle")
    fault = night(place, 1).fault
    assert isinstance(fault, InputError)
    assert f"{product}: cannot be read back (" in str(fault)
    assert "make it again with 'weatherpp nightly --cycle 2026-11-01T00'" in str(fault)
    assert night(place, 0).fault is None
    assert product.read_bytes() == whole
    assert len(history.history(place / "work", "z", None, None)) == 2


def test_a_constant_analysis_is_no_truth(place: Path, cycles: Cycles) -> None:
    def flat(ds: xr.Dataset) -> xr.Dataset:
        return ds[["z"]].sel(level=[500]) * 0 + 55000.0

    night(place, 0)
    path = cycles.drop_truth(place, 0)
    rewritten(path, lambda ds: flat(ds).assign(z=flat(ds)["z"].assign_attrs(ds["z"].attrs)))
    fault = night(place, 0).fault
    assert isinstance(fault, InputError)
    assert f"{path}: z is the same at all points (55000" in str(fault)


def test_a_name_that_is_not_utf8_is_named(place: Path) -> None:
    folder = place / "drop" / "2026-11-01T00"
    os.rename(folder / "m4.nc", os.fsencode(folder) + b"/m\xff4.nc")
    fault = night(place, 0, 1).fault
    assert isinstance(fault, InputError)
    assert r"m\xff4.nc: its name is not UTF-8; rename it" in str(fault)
    assert product_of(place, 1).attrs["cycle"] == "2026-11-02T00"


def test_of_very_many_faults_some_are_told(place: Path) -> None:
    fault = night(place, *range(100, 140)).fault
    assert isinstance(fault, InputError)
    assert str(fault).count("no such file") == 20
    assert str(fault).endswith("; and 20 more, see the log")
    assert len(history.status(place / "work", 100)["faults"]) == 40


def test_folders_are_replaced_while_they_are_looked_at(place: Path) -> None:
    """The Zarr product and the maps of a night made again have their names all the time."""
    folder = place / "work" / "cycles" / "2026-11-01T00"
    watched = [folder / "z500-48h.zarr" / "zarr.json", folder / "maps/z500-48h/maps.json"]
    changes = {"maps": True, "products": {"format": "zarr"}}
    assert night(place, 0, **changes).fault is None
    before = [path.stat().st_ino for path in watched]
    done, missed = threading.Event(), []

    def look() -> None:
        while not done.is_set():
            missed.extend(path.parent for path in watched if not path.parent.is_dir())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        changes["products"] = {"format": "zarr", "quantiles": [0.25, 0.75]}
        assert night(place, 0, **changes).fault is None
    finally:
        done.set()
        looking.join()
    assert missed == []
    assert all(path.stat().st_ino != was for path, was in zip(watched, before, strict=True))
    with xr.open_zarr(watched[0].parent, decode_timedelta=True) as ds:
        assert ds["quantile"].values.tolist() == [0.25, 0.75]


def test_a_target_that_fails_leaves_the_others(place: Path) -> None:
    settings = settings_of(place)
    other = {"variable": "t", "level": 650, "step": "48h", "models": str(place / "models/none")}
    recipe = settings.model_dump(mode="json", exclude_unset=True)
    recipe["targets"].append(other)
    fault = run_nightly(
        type(settings).model_validate(recipe), place / "work", [cycle_at(0)], log=QUIET
    ).fault
    assert isinstance(fault, ConfigError)
    assert "models/none: no current model" in str(fault)
    assert product_of(place, 0).attrs["target"] == TARGET.name
