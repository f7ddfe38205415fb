"""Checkpoints of a training without pickle: tensors as safetensors, the rest as JSON in them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from weatherpp.files import partial_name

FORMAT = "weatherpp checkpoint 1"


class SafeCheckpoints(CheckpointIO):
    """How Lightning reads and writes checkpoints here."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write under a name of its own first, so that a kill leaves the previous one."""
        write(checkpoint, Path(path))

    def load_checkpoint(self, path: str | os.PathLike[str], *_: Any, **__: Any) -> dict[str, Any]:
        """Read back; on the CPU, Lightning moves it."""
        return read(Path(path))

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove the file."""
        Path(path).unlink(missing_ok=True)


def write(content: Mapping[str, Any], path: Path) -> None:
    """Write nested containers of tensors and plain values.

    Raises
    ------
    TypeError
        A value is neither.
    """
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(_plain(content, tensors))
    with partial_name(path) as partial:
        save_file(tensors, partial, {"format": FORMAT, "tree": tree})


def read(path: Path) -> dict[str, Any]:
    """Undo :func:`write`.

    Raises
    ------
    ValueError
        The file is no such checkpoint.
    """
    try:
        with safe_open(path, framework="pt") as file:
            told = file.metadata() or {}
            if told.get("format") != FORMAT:
                raise ValueError("another format")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            content = _rich(json.loads(told["tree"]), tensors)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: not a checkpoint ({str(error).splitlines()[0]})") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a checkpoint")
    return content


def _plain(value: Any, tensors: dict[str, Tensor]) -> Any:
    """What JSON can hold; anything else than plain values is wrapped in a named pair."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # a clone, because safetensors refuses tensors that share memory
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"map": [[_plain(k, tensors), _plain(v, tensors)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_plain(item, tensors) for item in value]}
    if isinstance(value, list):
        return [_plain(item, tensors) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def _rich(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_rich(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return torch.as_tensor(tensors[content])
    if kind == "tuple":
        return tuple(_rich(item, tensors) for item in content)
    return {_rich(key, tensors): _rich(item, tensors) for key, item in content}
