"""From streamfunctions to the variables of the archive."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weatherpp.twin.forcing import GRAVITY
from weatherpp.twin.model import LEVELS, OMEGA
from weatherpp.twin.spectral import Transform

GAS_CONSTANT = 287.05
"""Of dry air, J kg-1 K-1."""
ARCHIVE_LEVELS = (200, 350, 500, 650, 800)
"""Levels of the archive, hPa: those of the model, and the middle of its two layers."""
VARIABLE_LEVELS = {
    "z": LEVELS,
    "t": (350, 650),
    "u": LEVELS,
    "v": LEVELS,
    "vo": LEVELS,
}


def standard_geopotential(pressure: float) -> float:
    """Geopotential (m2 s-2) of a pressure (hPa) in the International Standard Atmosphere.

    Troposphere with 288.15 K at 1013.25 hPa and 6.5 K/km up to 11 km, isothermal above.
    """
    lapse, surface = 0.0065, 288.15
    exponent = GAS_CONSTANT * lapse / GRAVITY
    tropopause_pressure = 1013.25 * (1.0 - lapse * 11000.0 / surface) ** (1.0 / exponent)
    if pressure >= tropopause_pressure:
        height = surface / lapse * (1.0 - (pressure / 1013.25) ** exponent)
    else:
        above = GAS_CONSTANT * (surface - lapse * 11000.0) / GRAVITY
        height = 11000.0 + above * np.log(tropopause_pressure / pressure)
    return float(GRAVITY * height)


def to_fields(transform: Transform, psi: Tensor) -> dict[str, NDArray[np.float32]]:
    """Variables on latitudes and longitudes.

    Parameters
    ----------
    transform
        Of the archive's grid.
    psi
        Streamfunction (m2 s-1), spectral + (3, *batch).

    Returns
    -------
    dict of float32 arrays (*batch, level, latitude, longitude)
        ``z`` (m2 s-2) by linear balance plus the standard atmosphere, ``u``, ``v`` (m s-1) and
        ``vo`` (s-1) of the non-divergent wind at 200, 500, 800 hPa; ``t`` (K) at 350 and 650 hPa
        from the thickness, ``t = (z_upper - z_lower) / (R ln(p_lower / p_upper))``.
    """
    u, v, vo = transform.winds_and(psi, psi * transform.expand(transform.laplacian, psi))
    phi = transform.synthesis(transform.linear_balance(psi, OMEGA))
    reference = phi.new_tensor([standard_geopotential(level) for level in LEVELS])
    z = phi + reference.reshape(3, *[1] * (phi.dim() - 4))
    depth = np.log(np.array(LEVELS[1:]) / np.array(LEVELS[:-1])) * GAS_CONSTANT
    layers = z[:, :, :, :2] - z[:, :, :, 1:]
    t = layers / layers.new_tensor(depth).reshape(2, *[1] * (phi.dim() - 4))
    cosine = transform.from_latlon(
        transform.tensor(np.cos(np.radians(transform.latitude)))[:, None].expand(-1, transform.nlon)
    )
    cosine = cosine.reshape(*cosine.shape, *[1] * (phi.dim() - 3))
    grids = {"z": z, "t": t, "u": u / cosine, "v": v / cosine, "vo": vo}
    return {name: _latlon(transform, grid) for name, grid in grids.items()}


def _latlon(transform: Transform, grid: Tensor) -> NDArray[np.float32]:
    values = transform.to_latlon(grid).movedim(0, -3)
    return np.asarray(values.to(torch.float32).cpu().contiguous().numpy())
