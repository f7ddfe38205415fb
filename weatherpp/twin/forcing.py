"""The constant source ``S`` of potential vorticity.

As in Marshall and Molteni (1993) the source is the one that would hold a given state steady,
``S = div(v q) + D`` evaluated at that state. They used the observed mean of northern winters (with
the effect of the observed transients added); here the *reference state* is analytic: two zonal
jets plus a stationary wave given as a short table of highs and lows
(:mod:`weatherpp.twin.parameters`). It is baroclinically unstable, so the model never stays there:
eddies grow, weaken the jets and make the weather. Cold troughs off the east coasts and warm ridges
over the eastern oceans put the strongest temperature gradients, and so the storm tracks, at the
western sides of the oceans.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weatherpp.twin.model import QGModel
from weatherpp.twin.parameters import Centre, Reference
from weatherpp.twin.spectral import Transform

GRAVITY = 9.80665
F_MIDDLE = 1.0e-4
"""Coriolis parameter by which the table's heights are turned into a streamfunction, s-1."""


def _zonal(transform: Transform, reference: Reference, speed: tuple[float, float]) -> Tensor:
    """Streamfunction of a jet in each hemisphere, spectral layout."""
    lat = transform.latitude
    wind = sum(
        s * np.exp(-0.5 * ((lat - centre) / width) ** 2)
        for s, centre, width in zip(speed, reference.latitude, reference.width, strict=True)
    )
    u_cos = np.broadcast_to((wind * np.cos(np.radians(lat)))[:, None], (lat.size, transform.nlon))
    u = transform.from_latlon(transform.tensor(u_cos))
    curl = transform.divergence(torch.stack([torch.zeros_like(u), -u]))
    return curl * transform.inverse_laplacian


def _centre(transform: Transform, centre: Centre, shift: float) -> NDArray[np.float64]:
    lon = (transform.longitude - centre.longitude - shift + 180.0) % 360.0 - 180.0
    east = lon * np.cos(np.radians(centre.latitude)) / centre.east
    north = (transform.latitude - centre.latitude) / centre.north
    return np.asarray(np.exp(-0.5 * (east[None, :] ** 2 + north[:, None] ** 2)))


def reference_streamfunction(transform: Transform, reference: Reference) -> Tensor:
    """Streamfunction (m2 s-1) of the reference state, spectral layout + (3, 1)."""
    lower = _zonal(transform, reference, reference.wind_800)
    middle = lower + _zonal(transform, reference, reference.shear_500_800)
    upper = middle + _zonal(transform, reference, reference.shear_200_500)
    levels = []
    for zonal, ratio, side in zip(
        (upper, middle, lower), reference.wave_ratio, (-1, 0, 1), strict=True
    ):
        wave = sum(c.height * _centre(transform, c, side * c.tilt) for c in reference.centres)
        grid = transform.from_latlon(transform.tensor(np.asarray(wave) * ratio))
        levels.append(zonal + transform.analysis(grid) * (GRAVITY / F_MIDDLE))
    psi = torch.stack(levels, dim=-1)[..., None] * transform.mask[..., None, None]
    psi[0, 0, 0, 0, 0] = 0.0
    return psi


def set_source(model: QGModel, reference: Reference) -> Tensor:
    """Give the model the source that would hold the reference state; return its ``psi``."""
    psi = reference_streamfunction(model.transform, reference)
    q = model.vorticity(psi)
    model.source = torch.zeros_like(q)
    model.source = -model.tendency(q) * model.mask
    return psi
