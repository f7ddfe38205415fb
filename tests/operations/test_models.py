"""The registry's versions: verified, run as shadows, compared, promoted, rolled back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from night_cases import Cycles, contents, cycle_at, recipe_with, settings_of
from typer.testing import CliRunner

from weatherpp.cli import app
from weatherpp.data.archive import Archive
from weatherpp.errors import ConfigError, InputError, WeatherppError
from weatherpp.files import file_digest
from weatherpp.operations import history, promotion, registry
from weatherpp.operations.ledger import SCORE_COLUMNS, Ledger
from weatherpp.operations.log import Log
from weatherpp.operations.nightly import run_nightly
from weatherpp.operations.scoring import OWN, RAW, SHADOW
from weatherpp.operations.settings import Nightly, from_environment, load_nightly
from weatherpp.strict import digest, validate

QUIET = Log(quiet=True)


@pytest.fixture(scope="session")
def raw_model(tmp_path_factory: pytest.TempPathFactory, cycles: Cycles) -> Path:
    """A worse model than EMOS."""
    return cycles.fit(tmp_path_factory.mktemp("raw"), 5, "raw")


def shadowed(place: Path, version: str) -> Nightly:
    recipe = recipe_with(place)
    recipe["targets"][0]["shadow"] = version
    return validate(Nightly, recipe, "test")


def test_versions_go_back_one_by_one(place: Path, raw_model: Path) -> None:
    folder = place / "models" / "z500"
    for name in ("v2", "v3"):
        registry.add(folder, name, [raw_model], use_it=True)
    assert registry.roll_back(folder) == "v2"
    assert registry.roll_back(folder) == "v1"
    with pytest.raises(ConfigError, match="no version was current before v1"):
        registry.roll_back(folder)
    assert registry.current(folder).name == "v1"
    # a kill between the switch and the note of it
    registry.use(folder, "v2")
    noted = (folder / registry.HISTORY).read_text()
    registry.use(folder, "v3")
    (folder / registry.HISTORY).write_text(noted)
    assert registry.roll_back(folder) == "v2"
    noted = (folder / registry.HISTORY).read_text()
    registry.roll_back(folder)
    (folder / registry.HISTORY).write_text(noted)
    with pytest.raises(ConfigError, match="before v1"):
        registry.roll_back(folder)
    (folder / registry.HISTORY).write_text("{}")
    with pytest.raises(InputError, match=r"history\.json: not a list"):
        registry.use(folder, "v2")


def test_a_model_that_was_put_in_place_of_another_is_refused(place: Path, raw_model: Path) -> None:
    folder = place / "models" / "z500"
    model = folder / "versions" / "v1" / "emos-5"
    whole = shutil.copytree(model, place / "whole")
    # whole in itself, but not what was added
    card = json.loads((model / "model.json").read_text())
    del card["digest"]
    card["seed"] = 2
    (model / "model.json").write_text(json.dumps({**card, "digest": digest(card)}))
    fault = run_nightly(settings_of(place), place / "work", [cycle_at(0)], log=QUIET).fault
    assert isinstance(fault, InputError)
    assert "emos-5: is not the model that was added as v1" in str(fault)
    # one byte of a file of it
    shutil.rmtree(model)
    shutil.copytree(whole, model)
    registry.use(folder, "v1")
    (parameters,) = model.glob("*.nc")
    content = bytearray(parameters.read_bytes())
    content[-1] ^= 1
    parameters.write_bytes(content)
    with pytest.raises(InputError, match="is not what was fitted"):
        registry.use(folder, "v1")


def test_a_forecast_in_other_units_is_refused(
    place: Path, cycles: Cycles, tmp_path: Path, tiny_archive: Archive
) -> None:
    run = tmp_path / "runs" / "one"
    fitted = cycles.fit(run / "models" / "z500", 5)
    shutil.copytree(tiny_archive.path, run / "archive.zarr")
    added = registry.add(place / "models" / "z500", "v2", [fitted], use_it=True)
    known = tiny_archive.forecast["z"].sel(level=500, step="48h").values.astype(float)
    assert added.climate == pytest.approx({"mean": known.mean(), "std": known.std()})
    for path in (place / "drop" / "2026-11-01T00").glob("m*.nc"):
        with xr.open_dataset(path, decode_timedelta=True) as ds:
            mine = ds.load()
        mine["z"] *= 1.2  # still what z at 500 hPa may be somewhere
        mine.to_netcdf(path)
    fault = run_nightly(settings_of(place), place / "work", [cycle_at(0)], log=QUIET).fault
    assert isinstance(fault, InputError)
    assert "z500-48h: z is 6.594e+04 in the mean, far from the 5.514e+04" in str(fault)
    assert "other units, or another field?" in str(fault)
    assert run_nightly(settings_of(place), place / "work", [cycle_at(1)], log=QUIET).fault is None


def test_a_shadow_is_scored_and_never_published(
    place: Path, cycles: Cycles, raw_model: Path
) -> None:
    registry.add(place / "models" / "z500", "v2", [raw_model])
    cycles.drop_truth(place, 0)
    plain = run_nightly(settings_of(place), place / "plain", [cycle_at(0)], log=QUIET)
    with_it = run_nightly(shadowed(place, "v2"), place / "work", [cycle_at(0)], log=QUIET)
    assert plain.fault is None
    assert with_it.fault is None
    own = {name for name in contents(place / "work") if "shadow" not in name}
    assert own == set(contents(place / "plain"))
    product = "cycles/2026-11-01T00/z500-48h.nc"
    assert file_digest(place / "work" / product) == file_digest(place / "plain" / product)
    assert "shadow/" not in (place / "work" / "index.html").read_text()
    table = history.history(place / "work", "z", 500, 48).set_index("method")
    assert table.loc[SHADOW, "model"] == "v2/raw-5"
    # the model of raw members, scored as what it is
    assert table.loc[SHADOW, "rmse"] == pytest.approx(table.loc[RAW, "rmse"], rel=1e-5)
    assert table.loc[OWN, "model"] == "v1/emos-5"
    # the product is not made again when a shadow comes or goes
    before = (place / "work" / product).stat().st_mtime_ns
    run_nightly(settings_of(place), place / "work", [cycle_at(0)], log=QUIET)
    assert (place / "work" / product).stat().st_mtime_ns == before


def test_a_shadow_that_fails_leaves_the_forecast_alone(place: Path) -> None:
    outcome = run_nightly(shadowed(place, "v9"), place / "work", [cycle_at(0)], log=QUIET)
    assert outcome.fault is None
    assert (place / "work/cycles/2026-11-01T00/z500-48h.nc").is_file()
    (warning,) = history.status(place / "work")["faults"]
    assert warning["severity"] == "warning"
    assert "z500-48h: shadow v9 was not run" in warning["text"]


def put_scores(place: Path, own: Sequence[float], other: Sequence[float]) -> None:
    """Scores of version v1 and of the shadow v2 by day."""
    work = place / "work"
    work.mkdir(exist_ok=True)
    rows = [
        (
            *(f"{cycle_at(day):%Y-%m-%dT%H}", "z500-48h", "z", 500.0, 48.0, method, model, 5),
            *("crps", "normal", float(value), 100, "m2 s-2"),
        )
        for method, model, values in ((OWN, "v1/emos-5", own), (SHADOW, "v2/raw-5", other))
        for day, value in enumerate(values)
    ]
    with Ledger(work) as ledger:
        ledger.put_scores(pd.DataFrame(rows, columns=list(SCORE_COLUMNS)))


def test_promotion_asks_for_proof(place: Path, raw_model: Path) -> None:
    folder, work = place / "models" / "z500", place / "work"
    registry.add(folder, "v2", [raw_model])
    settings = settings_of(place)
    rng = np.random.default_rng(1)
    own = 100.0 + rng.normal(size=20)
    put_scores(place, own, 90.0 + rng.normal(size=3))
    with pytest.raises(WeatherppError, match="on 3 cycles, too few for an interval; not promoted"):
        promotion.promote(settings, work, folder, "v2")
    put_scores(place, own, own + rng.normal(size=20))
    with pytest.raises(WeatherppError, match="not surely better; --yes") as caught:
        promotion.promote(settings, work, folder, "v2")
    assert caught.value.exit_code == 1
    assert registry.current(folder).name == "v1"
    better = 0.9 * own + 0.1 * rng.normal(size=20)
    put_scores(place, own, better)
    verdict = promotion.promote(settings, work, folder, "v2")
    assert verdict.gain.value == pytest.approx(1 - better.mean() / own.mean())
    assert 0.09 < verdict.gain.low < 0.1 < verdict.gain.high < 0.11
    assert verdict.cycles == 20
    assert registry.current(folder).name == "v2"
    with pytest.raises(ConfigError, match="v2 is the current version"):
        promotion.promote(settings, work, folder, "v2")
    # what another version scored does not count
    assert registry.roll_back(folder) == "v1"
    registry.add(folder, "v3", [raw_model])
    with pytest.raises(WeatherppError, match="no cycle that both were scored on"):
        promotion.promote(settings, work, folder, "v3")
    promotion.promote(settings, work, folder, "v3", anyway=True)
    assert registry.current(folder).name == "v3"
    with pytest.raises(ConfigError, match="the registry of no target of the recipe"):
        promotion.promote(settings, work, place, "v2")


def test_the_commands(place: Path, raw_model: Path) -> None:
    recipe = place / "recipe.yaml"
    recipe.write_text(json.dumps(recipe_with(place)))
    folder = str(place / "models" / "z500")
    put_scores(place, [100.0 + day % 3 for day in range(12)], [90.0 + day % 2 for day in range(12)])

    def say(*words: str) -> str:
        result = CliRunner().invoke(app, ["models", *words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    say("add", folder, str(raw_model), "--version", "v2")
    where = ["--recipe", str(recipe), "--work", str(place / "work")]
    assert "v2 against v1: CRPS 10.4 % lower [" in say("promote", folder, "v2", *where)
    assert "* v2" in say("list", folder)
    assert "v1 is current" in say("rollback", folder)


def test_settings_from_the_environment(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = place / "recipe.yaml"
    recipe.write_text(json.dumps(recipe_with(place)))
    given = {"WEATHERPP_NIGHTLY_SOURCE__WAIT": "5h", "WEATHERPP_NIGHTLY_TARGETS__0__SHADOW": "v2"}
    assert from_environment({**given, "WEATHERPP_CACHE": "x"}) == [
        "source.wait=5h",
        "targets.0.shadow=v2",
    ]
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load_nightly(recipe, ["source.wait=1h"])
    assert settings.source.wait == "1h"  # the command line has the last word
    assert settings.targets[0].shadow == "v2"
    monkeypatch.setenv("WEATHERPP_NIGHTLY_SOURCE__WAITS", "5h")
    with pytest.raises(ConfigError, match=r"source\.waits'; did you mean 'wait'"):
        load_nightly(recipe)
