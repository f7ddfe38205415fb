"""Weights of the networks of a model, in one safetensors file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

NETWORKS = "networks.safetensors"


def save_networks(nets: Sequence[nn.Module], path: Path) -> None:
    """Write the weights; equal weights give equal bytes."""
    weights = {
        f"{number}.{name}": value.cpu().contiguous()
        for number, net in enumerate(nets)
        for name, value in net.state_dict().items()
    }
    save_file(weights, path)


def load_networks(build: Callable[[], nn.Module], count: int, path: Path) -> list[nn.Module]:
    """Networks that ``build`` makes, with the weights of :func:`save_networks`, for evaluation.

    Raises
    ------
    ValueError
        The file is damaged, holds other networks, or numbers that are none.
    """
    try:
        weights = load_file(path)
        for name, value in weights.items():
            if not value.isfinite().all():
                raise ValueError(f"{name} is not finite")
        nets = [build().eval() for _ in range(count)]
        for number, net in enumerate(nets):
            start = f"{number}."
            own = {k.removeprefix(start): v for k, v in weights.items() if k.startswith(start)}
            net.load_state_dict(own)
    except Exception as error:  # safetensors and torch raise types of their own
        raise ValueError(f"{path.name}: {' '.join(str(error).split())[:200]}") from None
    return nets
