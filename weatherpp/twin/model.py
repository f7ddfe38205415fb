"""The three-level quasi-geostrophic model of Marshall and Molteni (1993).

Potential vorticity ``q`` at 200, 500 and 800 hPa (levels 1, 2, 3), ``psi`` the streamfunction::

    q1 = lap psi1 - (psi1 - psi2) / R1**2                          + f
    q2 = lap psi2 + (psi1 - psi2) / R1**2 - (psi2 - psi3) / R2**2  + f
    q3 = lap psi3 + (psi2 - psi3) / R2**2                          + f (1 + h / H0)

    dq/dt = - div(v q) - D(psi) + S

``D`` is the relaxation of the two layer thicknesses (that is, temperatures) with time ``tau_R``,
Ekman friction ``div(k grad psi3)`` at 800 hPa with ``k`` larger over land and mountains, and a
hyperdiffusion ``del**8`` of ``q - f``; ``S`` is a constant source (:mod:`weatherpp.twin.forcing`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from weatherpp.errors import WeatherppError
from weatherpp.twin import surface
from weatherpp.twin.parameters import ModelParameters
from weatherpp.twin.spectral import Transform

OMEGA = 7.292e-5
"""Rotation rate of the Earth, s-1."""
DAY = 86400.0
LEVELS = (200, 500, 800)
"""Pressure levels of the model, hPa."""


def _apply(table: Tensor, state: Tensor) -> Tensor:
    """A 3 x 3 matrix for each wavenumber, (..., 3, 3), times (..., 3, batch).

    Nine fused multiply-adds: much faster on a CPU than thousands of tiny matrix products.
    """
    out = torch.empty_like(state)
    for row in range(3):
        target = out[..., row, :]
        torch.mul(state[..., 0, :], table[..., row, 0, None], out=target)
        target.addcmul_(state[..., 1, :], table[..., row, 1, None])
        target.addcmul_(state[..., 2, :], table[..., row, 2, None])
    return out


class QGModel:
    """The model on one device; states are ``q - f`` minus orography, spectral layout + (3, batch).

    The prognostic variable is ``q' = q - f - (0, 0, f h / H0)``, a linear function of ``psi``.

    Parameters
    ----------
    parameters
        See :class:`ModelParameters`.
    device, dtype
        Where and in which precision.
    """

    def __init__(
        self,
        parameters: ModelParameters,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.parameters = parameters
        self.transform = Transform(parameters.truncation, parameters.nlon, device, dtype)
        self.step_seconds = DAY / parameters.steps_per_day
        transform = self.transform
        self.mask = transform.expand(transform.mask, torch.empty(*transform.shape, 1, 1))
        self._vertical()
        self._lower_boundary()
        n = transform.n
        rate = (n * (n + 1) / (parameters.truncation * (parameters.truncation + 1))) ** 4
        decay = torch.exp(-rate * self.step_seconds / (parameters.diffusion_days * DAY))
        self._decay = (decay * transform.mask)[..., None, None]
        self.source = torch.zeros(*transform.shape, 3, 1, device=device, dtype=dtype)

    def _vertical(self) -> None:
        a, b = 1.0 / self.parameters.radius_12**2, 1.0 / self.parameters.radius_23**2
        coupling = np.array([[-a, a, 0.0], [a, -a - b, b], [0.0, b, -b]])
        n = self.transform.n.cpu().numpy().astype(np.float64)
        laplace = self.transform.laplacian.cpu().numpy().astype(np.float64)
        matrix = laplace[..., None, None] * np.eye(3) + coupling
        matrix[n == 0] = np.eye(3)
        inverse = np.linalg.inv(matrix)
        inverse[n == 0] = 0.0
        to = self.transform.tensor
        self._to_q = to(np.where((n == 0)[..., None, None], 0.0, matrix))
        self._to_psi = to(inverse)
        self._stretching = to(np.array([a, b]))[:, None]

    def _lower_boundary(self) -> None:
        p, t = self.parameters, self.transform
        height = t.from_latlon(t.tensor(surface.orography(t.latitude, t.longitude)))
        land = t.from_latlon(t.tensor(surface.land_fraction(t.latitude, t.longitude)))
        spectral = t.analysis(height) * p.orography
        spectral = spectral * torch.exp(-p.orography_smoothing * (t.n / p.truncation) ** 2)
        self.orography = t.synthesis(spectral)
        f = 2.0 * OMEGA * t.from_latlon(t.tensor(t.mu)[:, None].expand(t.nlat, t.nlon))
        planetary = torch.stack([f, f, f * (1.0 + self.orography / p.depth)], dim=-1)[..., None]
        self._planetary = t.analysis(planetary) * self.mask
        mountain = 1.0 - torch.exp(-self.orography.clamp(min=0.0) / 1000.0)
        self.friction = (1.0 + p.ekman_land * land + p.ekman_mountain * mountain) / (
            p.ekman_days * DAY
        )
        self.land = land

    def streamfunction(self, q: Tensor) -> Tensor:
        """``psi`` (m2 s-1) from ``q'`` (s-1)."""
        return _apply(self._to_psi, q)

    def vorticity(self, psi: Tensor) -> Tensor:
        """``q'`` (s-1) from ``psi`` (m2 s-1)."""
        return _apply(self._to_q, psi)

    def advection(self, psi: Tensor, q: Tensor, friction: bool = True) -> Tensor:
        """``-div(v q_total)``, with the Ekman friction in the same flux if asked for, s-2."""
        fields = self.transform.winds_and(psi, q + self._planetary, scratch=True)
        wind = fields[:, :, :, :2]
        flux = self.transform.buffer("flux", *wind.shape)
        torch.mul(wind, fields[:, :, :, 2:], out=flux)
        if friction:
            # k grad psi = k (v, -u) is subtracted from -v q, that is, added to the flux v q.
            drag = self.friction[..., None]
            flux[:, :, :, 0, 2].addcmul_(drag, wind[:, :, :, 1, 2])
            flux[:, :, :, 1, 2].addcmul_(drag, wind[:, :, :, 0, 2], value=-1.0)
        return self.transform.divergence(flux).neg_()

    def relaxation(self, psi: Tensor) -> Tensor:
        """Damping of the layer thicknesses, ``-D``, s-2: minus the stretching part of q / tau."""
        rate = 1.0 / (self.parameters.relax_days * DAY)
        thickness = (psi[..., :2, :] - psi[..., 1:, :]) * self._stretching
        out = torch.empty_like(psi)
        out[..., 0, :] = thickness[..., 0, :]
        torch.sub(thickness[..., 1, :], thickness[..., 0, :], out=out[..., 1, :])
        torch.neg(thickness[..., 1, :], out=out[..., 2, :])
        return out.mul_(rate)

    def tendency(self, q: Tensor) -> Tensor:
        """``dq'/dt`` without the hyperdiffusion, s-2."""
        psi = self.streamfunction(q)
        return self.advection(psi, q).add_(self.relaxation(psi)).add_(self.source)

    def step(self, q: Tensor) -> Tensor:
        """One Runge-Kutta step of fourth order, then the exact decay by hyperdiffusion."""
        dt = self.step_seconds
        slope = self.tendency(q)
        total = slope.clone()
        for weight, advance in ((2.0, 0.5), (2.0, 0.5), (1.0, 1.0)):
            slope = self.tendency(torch.add(q, slope, alpha=advance * dt))
            total.add_(slope, alpha=weight)
        return total.mul_(dt / 6.0).add_(q).mul_(self._decay)

    def run(self, q: Tensor, hours: float) -> Tensor:
        """Integrate for a whole number of steps.

        Raises
        ------
        WeatherppError
            If ``hours`` is not a whole number of steps, or the state is no longer finite.
        """
        steps = hours * 3600.0 / self.step_seconds
        if abs(steps - round(steps)) > 1e-9:
            raise WeatherppError(
                f"{hours} h is not a whole number of steps of {self.step_seconds} s"
            )
        for _ in range(round(steps)):
            q = self.step(q)
        if not bool(torch.isfinite(q).all()):
            raise WeatherppError(
                f"the T{self.parameters.truncation} model has blown up: take more steps per day"
            )
        return q
