"""Search for settings: by validation dates alone, the same again, and on from where it stopped."""

from __future__ import annotations

import shutil
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import properscoring
import pytest
import synthetic
import xarray as xr
import yaml
from typer.testing import CliRunner

from weatherpp import cli
from weatherpp.data.ingest import read_forecast
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import load_model
from weatherpp.pipeline import tuning
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.run import run_recipe
from weatherpp.pipeline.tuning import Tuned, tune, with_values

optuna = pytest.importorskip("optuna", reason="the optional package optuna is not installed")

ENTRY = {
    "name": "tiny",
    "title": "Synthetic forecasts",
    "driver": "netcdf",
    "root": "files",
    "files": {"forecast": ["forecast.nc"], "analysis": ["analysis.nc"]},
    "licence": "none",
    "citation": "none",
}
SMALL = {"width": 2, "depth": 0, "base": "raw", "training": {"epochs": 1, "batch": 8}}
RECIPE: dict[str, Any] = {
    "name": "tiny",
    "source": {"catalog": "tiny"},
    "targets": [{"variable": "z", "level": 500, "step": "48h"}],
    "split": {"train": [2001, 2001], "valid": [2002, 2002], "test": [2003, 2003]},
    "methods": [
        {"label": "raw", "method": "raw"},
        {
            "label": "emos",
            "method": "emos",
            "search": {"prior": {"low": 0.1, "high": 100, "log": True}, "least_dates": [5, 10]},
        },
        {
            "label": "net",
            "method": "mixed",
            "settings": SMALL,
            "search": {
                "training.learning_rate": {"low": 1.0e-3, "high": 1.0e-1, "log": True},
                "width": {"low": 2, "high": 4},
            },
        },
        {
            "label": "spread",
            "method": "spread-regression",
            "job": "spread",
            "members": {"choose": "first", "count": 4},
            "search": {"prior": [0.0, 2.0, 50.0]},
        },
        {
            "label": "recent",
            "method": "running-bias",
            "search": {"window": [1, 5, 20]},
        },
    ],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the files, the catalog entry, the recipe, and the archive made from them."""
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "files").mkdir()
    forecast, analysis, _ = synthetic.make_datasets(dates=15, shape=(6, 8), members=5)
    forecast.to_netcdf(folder / "files" / "forecast.nc")
    analysis.to_netcdf(folder / "files" / "analysis.nc")
    (folder / "data_catalog").mkdir()
    (folder / "data_catalog" / "tiny.yaml").write_text(yaml.safe_dump(ENTRY))
    (folder / "tiny.yaml").write_text(yaml.safe_dump(RECIPE))
    with pytest.MonkeyPatch.context() as patch, Terminal() as terminal:
        patch.chdir(folder)
        run_recipe(Path("tiny.yaml"), until="ingest", terminal=terminal)
    return folder


@pytest.fixture
def place(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in."""
    shutil.copytree(source, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def search(label: str, trials: int, **changes: Any) -> Tuned:
    with Terminal() as terminal:
        path = Path("tiny.yaml")
        return tune(path, label=label, target="z500", trials=trials, terminal=terminal, **changes)


def change_source(place: Path, year: int) -> None:
    """Other analyses of one year."""
    path = place / "files" / "analysis.nc"
    with xr.open_dataset(path, decode_timedelta=True) as ds:
        ds = ds.load()
    there = ds["valid_time"].dt.year == year
    ds["z"] = ds["z"].where(~there, ds["z"] + 300).assign_attrs(ds["z"].attrs)
    ds.to_netcdf(path)


def test_network_is_searched_resumed_and_the_same_again(place: Path) -> None:
    whole = search("net", 3)
    table = (place / "runs/tiny/tuning/z500/net/trials.csv").read_bytes()
    found = pd.read_csv(whole.table)
    assert list(found) == ["trial", "score", "training.learning_rate", "width", "fault"]
    # the recipe's own settings come first, so the best is no worse
    assert found.loc[0, ["training.learning_rate", "width"]].tolist() == [0.005, 2]
    assert found["training.learning_rate"].between(1e-3, 1e-1).all()
    assert found["width"].isin([2, 3, 4]).all()
    assert len(found.drop_duplicates(["training.learning_rate", "width"])) == 3
    assert whole.best == found["score"].idxmin()
    # what is printed can be put into the recipe
    printed = yaml.safe_load(whole.summary())["settings"]
    best = found.loc[whole.best]
    expected = {**SMALL["training"], "learning_rate": best["training.learning_rate"]}
    assert printed == {**SMALL, "width": int(best["width"]), "training": expected}
    # another run folder, stopped after one and in the middle of the second
    again = {"run_dir": Path("runs/again")}
    search("net", 1, **again)
    with pytest.MonkeyPatch.context() as patch:

        def stopped(*_: Any) -> float:
            raise KeyboardInterrupt

        patch.setattr(tuning, "_fit_and_score", stopped)
        with pytest.raises(KeyboardInterrupt):
            search("net", 3, **again)
    assert search("net", 3, **again).trials == whole.trials
    assert (place / "runs/again/tuning/z500/net/trials.csv").read_bytes() == table
    # nothing left to do
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "_fit_and_score", stopped)
        assert search("net", 3, **again).trials == whole.trials
    # another seed, another search
    other = search("net", 2, overrides=("seed=2",))
    assert other.trials[1].values != whole.trials[1].values


@pytest.mark.parametrize(("label", "trials"), [("emos", 2), ("spread", 2), ("recent", 2)])
def test_test_years_do_not_matter_and_validation_years_do(
    place: Path, label: str, trials: int
) -> None:
    before = search(label, trials)
    change_source(place, 2003)
    after = search(label, trials)
    assert after.trials == before.trials
    change_source(place, 2002)
    if label != "spread":  # learns and is scored without analyses
        assert search(label, trials).trials != before.trials


def test_score_is_that_of_the_model_on_the_validation_dates(place: Path) -> None:
    """Fitted by the run itself, and scored from its files with other libraries."""
    found = search("emos", 1)
    assert found.trials[0].values == {"least_dates": 10, "prior": 2.0}
    with Terminal() as terminal:
        run_recipe(Path("tiny.yaml"), until="fit", terminal=terminal)
    forecast = read_forecast(place / "files/forecast.nc").sel(time="2002")
    dist = load_model(place / "runs/tiny/models/z500/emos").predict(forecast)
    with xr.open_dataset(place / "files/analysis.nc") as ds:
        valid = dist["time"].values + np.timedelta64(48, "h")
        truth = ds["z"].sel(level=500, valid_time=valid).values
    # dates whose analysis falls into the test year are no validation dates
    kept = pd.DatetimeIndex(valid) < pd.Timestamp("2003-01-01")
    crps = properscoring.crps_gaussian(truth, dist["mean"].values, dist["spread"].values)[kept]
    weights = np.cos(np.deg2rad(dist["latitude"].values))
    expected = np.average(crps.mean(axis=(0, 2)), weights=weights)
    assert found.trials[0].score == pytest.approx(expected, rel=1e-3)  # cells end at the poles


def test_a_damaged_record_of_trials_is_one_line(place: Path) -> None:
    folder = place / "run" / "tuning" / "z500" / "net"
    folder.mkdir(parents=True)
    (folder / "studies.db").write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match=r"studies\.db: the trials .* remove it to begin"):
        search("net", 1, run_dir=place / "run")


def test_trials_that_fail_are_listed_and_passed_over(place: Path) -> None:
    recipe = deepcopy(RECIPE)
    net = recipe["methods"][2]
    net["settings"] = {**SMALL, "heads": 2}
    net["search"] = {"width": [2, 3, 5]}
    Path("tiny.yaml").write_text(yaml.safe_dump(recipe))
    found = search("net", 3)
    table = pd.read_csv(found.table)
    failed = table[table["width"] != 2]
    assert len(failed)
    assert failed["score"].isna().all()
    assert failed["fault"].str.contains("no multiple of heads").all()
    assert found.trials[found.best].values == {"width": 2}
    net["search"] = {"width": [3, 5]}
    Path("tiny.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(ConfigError, match=r"no trial gave a score; .*heads"):
        search("net", 2)


@pytest.mark.parametrize(
    ("args", "change", "words"),
    [
        (["--method", "nett"], {}, "--method nett: the recipe has no such method; there are raw,"),
        (["--target", "z5"], {}, "--target z5: the recipe has no such target; there are z500"),
        (["--method", "raw"], {}, "has nothing to search; add for example search:"),
        ([], {"search": {"training.learning_rte": [0.1]}}, "did you mean 'learning_rate'"),
        ([], {"search": {"training": [0.1]}}, "training"),
        (
            [],
            {"search": {"width": {"low": 4, "high": 2}}},
            "low: 4 is not below high: 2",
        ),
        ([], {"search": {"width": {"low": 0, "high": 2, "log": True}}}, "needs a low above zero"),
        ([], {"search": {"width": []}}, "search.width"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    place: Path, args: list[str], change: dict[str, Any], words: str
) -> None:
    recipe = deepcopy(RECIPE)
    recipe["methods"][2] |= change
    Path("tiny.yaml").write_text(yaml.safe_dump(recipe))
    told = {"--method": "net", "--target": "z500"} | dict(zip(args[::2], args[1::2], strict=True))
    result = CliRunner().invoke(
        cli.app, ["tune", "tiny.yaml", *(part for pair in told.items() for part in pair)]
    )
    assert isinstance(result.exception, ConfigError)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


def test_needs_years_to_validate_on(place: Path) -> None:
    with pytest.raises(ConfigError, match="split into years"):
        search("net", 2, overrides=("split={leave_out: year}",))


def test_without_optuna_one_line(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"needs the package optuna.*weatherpp\[tune\]"):
        search("net", 2)


def test_what_is_searched_changes_no_fit(place: Path) -> None:
    quick = ("methods=[{label: emos, method: emos, search: {prior: [1, 2]}}]",)
    other = ("methods=[{label: emos, method: emos}]",)
    with Terminal() as terminal:
        first = run_recipe(Path("tiny.yaml"), overrides=quick, until="fit", terminal=terminal)
        second = run_recipe(Path("tiny.yaml"), overrides=other, until="fit", terminal=terminal)
    assert "fit/z500/emos" in first.redone
    assert not second.redone


def test_values_are_put_into_settings() -> None:
    settings = {"width": 2, "training": {"epochs": 1}}
    found = with_values(settings, {"training.batch": 4, "width": 3, "a.b.c": 1})
    expected = {"width": 3, "training": {"epochs": 1, "batch": 4}, "a": {"b": {"c": 1}}}
    assert found == expected
    assert settings == {"width": 2, "training": {"epochs": 1}}
