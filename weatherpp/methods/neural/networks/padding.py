"""Padding of fields on the sphere and on limited areas, by slices and concatenation only.

Zero padding invents a coast at the date line and at the poles. Here longitude wraps round where
it is periodic, and the row beyond a pole is the row on the other side of it, shifted by half the
circle. A limited area repeats its edge. Only slicing, flipping and concatenation are used, so
the networks can be exported to ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.jit._trace import is_tracing

STRIP_POINTS = 300_000
"""Most points of a grid that are predicted at once: half a degree of the globe."""


@dataclass(frozen=True)
class Topology:
    """How the edges of a grid are joined.

    Attributes
    ----------
    periodic
        Longitude closes on itself.
    poles
        The first and the last row lie at the poles; needs ``periodic``.
    pole_row
        The first and the last row are the poles themselves (a regular 361-row grid), which then
        must not be repeated.
    """

    periodic: bool = False
    poles: bool = False
    pole_row: bool = False

    def __post_init__(self) -> None:
        if self.poles and not self.periodic:
            raise ValueError("rows join across a pole only where longitude is periodic")


def _across(x: Tensor, rows: int, skip: int, north: bool) -> Tensor:
    """``rows`` rows beyond a pole: those inside it, in reverse order, half the circle on."""
    height, half = x.shape[-2], x.shape[-1] // 2
    first = skip if north else height - skip - rows
    inside = torch.flip(x[..., first : first + rows, :], dims=[-2])
    return torch.cat([inside[..., half:], inside[..., :half]], dim=-1)


def pad_rows(x: Tensor, before: int, after: int, topology: Topology) -> Tensor:
    """Add rows north (``before``) and south (``after``); shape (..., lat, lon).

    More rows than the field holds are taken in several rounds.
    """
    while before > 0 or after > 0:
        if topology.poles:
            skip = int(topology.pole_row and x.shape[-2] > 1)
            north, south = (min(n, x.shape[-2] - skip) for n in (before, after))
            parts = [
                _across(x, north, skip, north=True),
                x,
                _across(x, south, skip, north=False),
            ]
        else:
            north, south = before, after
            parts = [x[..., :1, :]] * north + [x] + [x[..., -1:, :]] * south
        x = torch.cat(parts, dim=-2)
        before, after = before - north, after - south
    return x


def pad_columns(x: Tensor, before: int, after: int, topology: Topology) -> Tensor:
    """Add columns west (``before``) and east (``after``); shape (..., lat, lon)."""
    while before > 0 or after > 0:
        width = x.shape[-1]
        if topology.periodic:
            west, east = min(before, width), min(after, width)
            parts = [x[..., width - west :], x, x[..., :east]]
        else:
            west, east = before, after
            parts = [x[..., :1]] * west + [x] + [x[..., -1:]] * east
        x = torch.cat(parts, dim=-1)
        before, after = before - west, after - east
    return x


def pad(x: Tensor, size: int, topology: Topology) -> Tensor:
    """Add ``size`` points on all four sides of the last two dimensions."""
    return pad_columns(pad_rows(x, size, size, topology), size, size, topology)


def missing_to_multiple(length: int, multiple: int) -> tuple[int, int]:
    """Points to add before and after, so that ``length`` becomes a multiple of ``multiple``."""
    missing = -length % multiple
    return missing // 2, missing - missing // 2


def in_strips(net: Callable[[Tensor], Tensor], x: Tensor, reach: int, multiple: int = 1) -> Tensor:
    """A network on a grid of any size, in bounded memory where nothing is learnt.

    A grid of more than :data:`STRIP_POINTS` points is gone through in strips of rows that
    overlap so far that the outputs are those of the whole grid, up to rounding.

    Parameters
    ----------
    net
        Maps (..., lat, lon) to (..., lat, lon).
    reach
        Rows beyond its own that an output depends on, at most.
    multiple
        Strips begin and end at multiples of so many rows.
    """
    height, width = x.shape[-2:]
    # What learns needs the whole for its gradients, and a trace (ONNX) must hold for all sizes.
    whole = torch.is_grad_enabled() or is_tracing()  # type: ignore[no-untyped-call]
    if whole or height * width <= STRIP_POINTS:
        return net(x)
    reach += -reach % multiple
    rows = max(STRIP_POINTS // width, 2 * reach, multiple)
    rows -= rows % multiple
    parts = []
    for first in range(0, height, rows):
        last, top = min(first + rows, height), max(first - reach, 0)
        part = net(x[..., top : min(last + reach, height), :])
        parts.append(part[..., first - top : last - top, :])
    return torch.cat(parts, dim=-2)


class Padded(nn.Module):
    """Base of networks that work on any grid size: pads to a multiple, runs in strips, crops.

    Where the grid already is a multiple nothing is added, and rolling the input in longitude by
    a multiple rolls the output exactly. Where it is not, the inner layers of a global grid join
    the *padded* edges, which is an approximation next to the date line and the poles.
    """

    def __init__(self, topology: Topology, multiple: int):
        super().__init__()
        self.topology = topology
        self.multiple = multiple

    def body(self, x: Tensor) -> Tensor:
        """The network proper, on a grid that is a multiple."""
        raise NotImplementedError

    def reach(self, x: Tensor) -> int:
        """Rows beyond its own that an output depends on, at most."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Run on any grid; the last two dimensions are (lat, lon)."""
        height, width = x.shape[-2], x.shape[-1]
        north, south = missing_to_multiple(height, self.multiple)
        west, east = missing_to_multiple(width, self.multiple)
        padded = pad_rows(x, north, south, self.topology)
        padded = pad_columns(padded, west, east, self.topology)
        out = in_strips(self.body, padded, self.reach(x), self.multiple)
        return out[..., north : north + height, west : west + width]
