"""Checkpoints without pickle, and a training that goes on where it was stopped."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from neural_cases import SMALL, Z500

from weatherpp.methods.base import FitData, Progress
from weatherpp.methods.neural import checkpoint
from weatherpp.methods.neural.mixed import Mixed


def test_everything_comes_back(tmp_path: Path) -> None:
    shared = torch.arange(6.0).reshape(2, 3)
    content = {
        "state": {"a": shared, "b": shared[0], 3: torch.tensor(7, dtype=torch.int64)},
        "list": [1, 2.5, None, True, "x", {"y": (1, (2,))}],
        "none": math.inf,
        "empty": {},
    }
    path = tmp_path / "one"
    checkpoint.write(content, path)
    found = checkpoint.read(path)
    assert torch.equal(found["state"].pop("a"), shared)
    assert torch.equal(found["state"].pop("b"), shared[0])
    assert torch.equal(found["state"].pop(3), torch.tensor(7))
    assert found["list"] == content["list"]
    assert (found["none"], found["empty"]) == (math.inf, {})
    assert [file.name for file in tmp_path.iterdir()] == ["one"]


def test_other_objects_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot hold a"):
        checkpoint.write({"a": tmp_path}, tmp_path / "one")
    for content in (b"", b"\x80\x04 pickle", b"\x08\0\0\0\0\0\0\0{}      "):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ValueError, match="not a checkpoint"):
            checkpoint.read(tmp_path / "bad")


class Stopped(Exception):
    """What ends a fit early."""


def stop_after(epoch: int, network: int) -> Progress:
    def progress(description: str, done: float, total: float) -> None:
        if description.endswith(f"network {network}") and done == epoch:
            raise Stopped

    return progress


@pytest.mark.parametrize(("network", "epoch"), [(1, 1), (1, 3), (2, 2)])
def test_stopped_fit_goes_on_to_the_same_weights(
    data: FitData, tmp_path: Path, network: int, epoch: int
) -> None:
    training = {"epochs": 5, "batch": 8, "patience": 2}
    settings = {**SMALL, "base": "raw", "dropout": 0.3, "seeds": 2, "training": training}
    whole = Mixed(Z500, settings).fit(data)
    stopping = dataclasses.replace(data, keep=tmp_path, progress=stop_after(epoch, network))
    with pytest.raises(Stopped):
        Mixed(Z500, settings).fit(stopping)
    seen: list[tuple[str, float]] = []
    goes_on = dataclasses.replace(
        data, keep=tmp_path, progress=lambda what, done, _: seen.append((what, done))
    )
    again = Mixed(Z500, settings).fit(goes_on)
    np.testing.assert_array_equal(again.curve, whole.curve)
    for one, two in zip(whole.nets, again.nets, strict=True):
        for name, value in one.state_dict().items():
            assert torch.equal(value, two.state_dict()[name]), name
    # epochs that were finished are not done again
    first = min(done for what, done in seen if what.endswith(f"network {network}"))
    assert first == epoch
    if network == 2:
        assert not [what for what, _ in seen if what.endswith("network 1")]


def test_damaged_checkpoint_is_no_checkpoint(data: FitData, tmp_path: Path) -> None:
    settings = {**SMALL, "base": "raw"}
    whole = Mixed(Z500, settings).fit(data)
    (tmp_path / "network-1.safetensors").write_bytes(b"cut off")
    again = Mixed(Z500, settings).fit(dataclasses.replace(data, keep=tmp_path))
    np.testing.assert_array_equal(again.curve, whole.curve)
