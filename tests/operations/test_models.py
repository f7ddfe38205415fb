"""The registry's versions: verified, run as shadows, compared, promoted, rolled back."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
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


def note_scores(version: Path, **numbers: float) -> None:
    """Say what the preferred model of a version was known for."""
    content = json.loads((version / registry.VERSION).read_text())
    content["scores"] = {content["models"][0]: numbers}
    (version / registry.VERSION).write_text(json.dumps(content))


def test_a_shadow_that_drifts_is_told_apart(place: Path, cycles: Cycles, raw_model: Path) -> None:
    versions = place / "models" / "z500" / "versions"
    registry.add(place / "models" / "z500", "v2", [raw_model])
    known = {"rmse": 300.0, "spread_skill": 1.0}
    note_scores(versions / "v1", bias=0.0, crps=1e4, **known)
    note_scores(versions / "v2", bias=0.0, crps=1.0, **known)
    for day in (0, 1):
        cycles.drop_truth(place, day)
    recipe = recipe_with(place, drift={"cycles": 2, "bias": 1e3, "spread_skill": 1e3})
    recipe["targets"][0]["shadow"] = "v2"
    recipe["alerts"] = {"drift": "fail", "prometheus": str(place / "metrics")}
    settings = validate(Nightly, recipe, "test")
    days = [cycle_at(day) for day in (0, 1)]
    outcome = run_nightly(settings, place / "work", days, log=QUIET)
    assert outcome.fault is None  # nobody is shown it
    assert outcome.drifts.own == ()
    (text,) = outcome.drifts.shadow
    assert text.startswith("z500-48h, shadow v2, cycles 2026-11-01T00 to 2026-11-02T00: CRPS ")
    (noted,) = history.status(place / "work")["faults"]
    assert (noted["severity"], noted["text"]) == ("warning", f"drift: {text}")
    metrics = (place / "metrics").read_text()
    assert 'shadow_drift_warnings{job_name="night"} 1' in metrics
    assert 'nightly_drift_warnings{job_name="night"} 0' in metrics
    assert 'method="shadow v2",score="crps"' in metrics
    report = (place / "work" / "report.html").read_text()
    assert f"Drift: {text}" in report
    assert "shadow v2" in report
    # as the current version it is held against the same, and fails the night
    registry.use(place / "models" / "z500", "v2")
    again = run_nightly(settings, place / "work", days, log=QUIET)
    assert again.fault is not None
    assert "drift: z500-48h, cycles 2026-11-01T00" in str(again.fault)


def test_a_new_version_is_not_held_against_what_the_last_one_made(
    place: Path, cycles: Cycles, raw_model: Path
) -> None:
    folder = place / "models" / "z500"
    cycles.drop_truth(place, 0)
    cycles.drop_truth(place, 1)
    changes = {"drift": {"cycles": 2, "bias": 1e3, "spread_skill": 1e3}}
    settings = settings_of(place, **changes)
    run_nightly(settings, place / "work", [cycle_at(0), cycle_at(1)], log=QUIET)
    registry.add(folder, "v2", [raw_model])
    note_scores(folder / "versions" / "v2", crps=1.0)
    registry.use(folder, "v2")
    assert run_nightly(settings, place / "work", [cycle_at(1)], log=QUIET).drifts.own == ()
    both = run_nightly(settings, place / "work", [cycle_at(0)], log=QUIET)
    assert "CRPS" in both.drifts.own[0]


def test_a_shadow_that_cannot_be_scored_leaves_the_night_alone(
    place: Path, cycles: Cycles, raw_model: Path
) -> None:
    registry.add(place / "models" / "z500", "v2", [raw_model])
    run_nightly(shadowed(place, "v2"), place / "work", [cycle_at(0)], log=QUIET)
    (place / "work/cycles/2026-11-01T00/shadow/z500-48h.nc").write_bytes(b"cut off")
    cycles.drop_truth(place, 0)
    outcome = run_nightly(shadowed(place, "v2"), place / "work", [cycle_at(1)], log=QUIET)
    assert outcome.fault is None
    (warning,) = history.status(place / "work")["faults"]
    assert "z500-48h: shadow was not scored: " in warning["text"]
    assert set(history.history(place / "work", "z", 500, 48)["method"]) == {OWN, RAW}


def a_folder(current: Path) -> None:
    current.unlink()
    shutil.copytree(current.parent / "versions" / "v1", current)


def dangling(current: Path) -> None:
    current.unlink()
    current.symlink_to("versions/v9")


def outside(current: Path) -> None:
    away = shutil.copytree(current.parent / "versions" / "v1", current.parents[2] / "away" / "v1")
    current.unlink()
    current.symlink_to(away)


def a_file(current: Path) -> None:
    current.unlink()
    current.write_text("v1")


CURRENTS: dict[Callable[[Path], None], str] = {
    a_folder: "is a folder and no link",
    dangling: "leads to versions/v9, which is no version of this registry",
    outside: "which is no version of this registry",
    a_file: "no current model",
}


@pytest.mark.parametrize("damage", CURRENTS, ids=lambda damage: damage.__name__)
def test_current_that_is_no_version_of_the_registry(
    place: Path, damage: Callable[[Path], None]
) -> None:
    folder = place / "models" / "z500"
    damage(folder / registry.CURRENT)
    for call in (registry.current, registry.roll_back):
        with pytest.raises(ConfigError, match=CURRENTS[damage]):
            call(folder)
    result = CliRunner().invoke(app, ["models", "list", str(folder)])
    assert "v1                       emos-5, emos-3" in result.output
    if damage is a_folder:
        with pytest.raises(ConfigError, match="remove it, then"):
            registry.use(folder, "v1")
        shutil.rmtree(folder / registry.CURRENT)
    registry.use(folder, "v1")
    assert registry.current(folder).name == "v1"


@pytest.mark.parametrize(
    "content",
    [
        {"models": []},
        {"models": "emos-5"},
        {"models": ["../v1/emos-5"]},
        {"models": ["emos-5"], "scores": {"emos-5": 5}},
        {"models": ["emos-5"], "climate": {"mean": "much"}},
    ],
)
def test_a_version_that_says_nonsense(place: Path, content: dict[str, object]) -> None:
    folder = place / "models" / "z500"
    whole = {"scores": {}, "digests": {}, "climate": {}, **content}
    (folder / "versions" / "v1" / registry.VERSION).write_text(json.dumps(whole))
    with pytest.raises(InputError, match="v1: not a whole version of a registry"):
        registry.current(folder)


def test_a_damaged_version_hides_no_other(place: Path, raw_model: Path) -> None:
    folder = place / "models" / "z500"
    registry.add(folder, "v2", [raw_model])
    (folder / "versions" / "v1" / registry.VERSION).write_text("{")
    shutil.copytree(folder / "versions" / "v2", folder / "versions" / ".v3.part")  # just added
    result = CliRunner().invoke(app, ["models", "list", str(folder)])
    assert isinstance(result.exception, InputError)
    assert result.output.split("\n")[:2] == [
        "  v1                       not whole",
        "  v2                       raw-5",
    ]
    assert "v3" not in result.output


@pytest.mark.parametrize("name", ["../versions/v1", "", ".", "v1/"])
def test_names_that_are_none(place: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no version"):
        registry.use(place / "models" / "z500", name)
    assert not (place / "none").exists()
    with pytest.raises(ConfigError, match="no current model"):
        registry.roll_back(place / "none")
    assert not (place / "none").exists()


def test_one_change_of_a_registry_at_a_time(place: Path, raw_model: Path) -> None:
    """Of many that add the same version at once one succeeds, and the version is whole."""
    folder, context = place / "models" / "z500", multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(4, context) as pool:
        calls = [pool.submit(registry.add, folder, "v2", [raw_model], True) for _ in range(4)]
        faults = [call.exception() for call in calls]
    told = sorted(str(fault) for fault in faults if fault is not None)
    assert len(told) == 3
    assert all("this version is there already" in text for text in told)
    assert registry.current(folder).name == "v2"


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
