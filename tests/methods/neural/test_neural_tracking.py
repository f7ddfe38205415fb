"""Records of trainings: the losses of each epoch are there, and nothing else changes."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from neural_cases import NARROW, Z500

from weatherpp.errors import ConfigError
from weatherpp.methods.base import FitData
from weatherpp.methods.neural import tracking
from weatherpp.methods.neural.mixed import Mixed
from weatherpp.recipe import Recipe, Tracking
from weatherpp.strict import validate

NAME = "demo/z500/mixed-5"
SETTINGS = {**NARROW, "network": "residual", "base": "raw", "seeds": 2}


def fit(data: FitData, where: dict[str, str] | None, **changes: object) -> Mixed:
    told = None if where is None else Tracking.model_validate(where)
    few = dataclasses.replace(data, train=data.train[:16], valid=data.valid[:4])
    return Mixed(Z500, SETTINGS).fit(dataclasses.replace(few, tracking=told, name=NAME, **changes))


@pytest.fixture(scope="module")
def plain(data: FitData) -> Mixed:
    return fit(data, None)


def assert_same(one: Mixed, two: Mixed) -> None:
    np.testing.assert_array_equal(one.curve, two.curve)
    for first, second in zip(one.nets, two.nets, strict=True):
        for name, value in first.state_dict().items():
            assert torch.equal(value, second.state_dict()[name]), name


def test_csv_holds_the_losses_and_changes_nothing(
    data: FitData, plain: Mixed, tmp_path: Path
) -> None:
    where = {"csv": str(tmp_path / "new" / "records")}
    assert_same(fit(data, where, keep=tmp_path / "keep"), plain)
    for number in (0, 1):
        folder = tmp_path / "new" / "records" / NAME / f"network-{number + 1}" / "version_0"
        found = pd.read_csv(folder / "metrics.csv").groupby("epoch")[["train", "valid"]].first()
        curve = np.array([row[2:] for row in plain.curve if row[0] == number and row[1] > 0])
        # the curve is in the units of the target
        np.testing.assert_allclose(found.to_numpy() * plain.scale, curve, rtol=1e-6)
        assert "learning_rate: 0.005" in (folder / "hparams.yaml").read_text()
    # what was trained already is not recorded again; a new fit has records of its own
    assert_same(fit(data, where, keep=tmp_path / "keep"), plain)
    assert [path.name for path in folder.parent.iterdir()] == ["version_0"]
    fit(data, where)
    assert {path.name for path in folder.parent.iterdir()} == {"version_0", "version_1"}


def test_tensorboard_events(data: FitData, plain: Mixed, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the optional package tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert_same(fit(data, {"tensorboard": str(tmp_path)}), plain)
    events = EventAccumulator(str(tmp_path / NAME / "network-1" / "version_0")).Reload()
    found = [event.value * plain.scale for event in events.Scalars("valid")]
    expected = [row[3] for row in plain.curve if row[0] == 0 and row[1] > 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_mlflow_run(data: FitData, plain: Mixed, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the optional package mlflow is not installed")
    place = f"sqlite:///{tmp_path / 'runs.db'}"
    assert_same(fit(data, {"mlflow": place}), plain)
    client = mlflow.MlflowClient(place)
    experiment = client.get_experiment_by_name("demo")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.run_name for run in runs} == {f"z500/mixed-5/network-{n}" for n in (1, 2)}
    assert {run.info.status for run in runs} == {"FINISHED"}


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_missing_package_is_one_line(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(tracking, "find_spec", lambda name: None if name == kind else there(name))
    with pytest.raises(
        ConfigError, match=rf"tracking\.{kind} needs .* 'pip install {kind}"
    ) as error:
        tracking.check_tracking(Tracking.model_validate({kind: "somewhere"}))
    assert "\n" not in str(error.value)


def test_place_that_cannot_be_written_is_one_line(data: FitData, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"tracking\.csv: .*file cannot be written to") as error:
        fit(data, {"csv": str(tmp_path / "file")})
    assert "\n" not in str(error.value)


def test_recipe_takes_one_of_them() -> None:
    recipe = {
        "name": "a",
        "source": {"twin": {}},
        "targets": [{"variable": "z", "level": 500}],
        "methods": [{"label": "raw", "method": "raw"}],
    }
    told = validate(Recipe, {**recipe, "tracking": {"mlflow": "http://localhost:5000"}}, "r")
    assert told.tracking is not None
    assert (told.tracking.kind, told.tracking.place) == ("mlflow", "http://localhost:5000")
    for wrong in ({}, {"csv": "a", "mlflow": "b"}):
        with pytest.raises(ConfigError, match="one of csv, tensorboard, mlflow"):
            validate(Recipe, {**recipe, "tracking": wrong}, "r")
    with pytest.raises(ConfigError, match="did you mean 'tensorboard'"):
        validate(Recipe, {**recipe, "tracking": {"tensorbord": "a"}}, "r")
