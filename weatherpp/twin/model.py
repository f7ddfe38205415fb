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

from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Tables:
    """Constants repeated for each state of a batch.

    Arithmetic between tensors of the same shape is several times faster than with a constant that
    is broadcast along a short last axis.
    """

    to_psi: tuple[Tensor, ...]
    """For shifts 0, 1, 2: the weight of level (l + shift) mod 3 in psi of level l."""
    planetary: Tensor
    source: Tensor
    stretch: Tensor
    """Laplacian over the relaxation time."""


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
        self._source = torch.zeros(*transform.shape, 3, 1, device=device, dtype=dtype)
        self._tables: dict[int, _Tables] = {}

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

    @property
    def source(self) -> Tensor:
        """The constant source ``S``, s-2, spectral layout + (3, 1)."""
        return self._source

    @source.setter
    def source(self, source: Tensor) -> None:
        self._source = source
        self._tables.clear()

    def _for_batch(self, size: int) -> _Tables:
        if size not in self._tables:
            t = self.transform
            states = (*t.shape, 3, size)
            # index [..., l, (l + shift) mod 3]
            shifted = [
                torch.stack([self._to_psi[..., i, (i + shift) % 3] for i in range(3)], dim=-1)
                for shift in range(3)
            ]
            rate = 1.0 / (self.parameters.relax_days * DAY)
            self._tables[size] = _Tables(
                tuple(table[..., None].expand(states).contiguous() for table in shifted),
                self._planetary.expand(states).contiguous(),
                self._source.expand(states).contiguous(),
                (t.laplacian * rate)[..., None, None].expand(states).contiguous(),
            )
        return self._tables[size]

    def streamfunction(self, q: Tensor, out: Tensor | None = None) -> Tensor:
        """``psi`` (m2 s-1) from ``q'`` (s-1)."""
        same, one_on, two_on = self._for_batch(q.shape[-1]).to_psi
        # levels 2, 3, 1, 2: a shift of the levels is then a slice
        levels = self.transform.buffer("levels", *q.shape[:-2], 4, q.shape[-1])
        levels[..., :2, :] = q[..., 1:, :]
        levels[..., 2:, :] = q[..., :2, :]
        out = torch.mul(q, same, out=out)
        out.addcmul_(levels[..., :3, :], one_on)
        return out.addcmul_(levels[..., 1:, :], two_on)

    def vorticity(self, psi: Tensor) -> Tensor:
        """``q'`` (s-1) from ``psi`` (m2 s-1)."""
        return (self._to_q[..., None] * psi.unsqueeze(-3)).sum(dim=-2)

    def divergence(
        self, psi: Tensor, q: Tensor, friction: bool = True, out: Tensor | None = None
    ) -> Tensor:
        """``div(v q_total)``, with the Ekman friction in the same flux if asked for, s-2."""
        buffer = self.transform.buffer
        planetary = self._for_batch(q.shape[-1]).planetary
        total = torch.add(q, planetary, out=buffer("total", *q.shape))
        fields = self.transform.winds_and(psi, total, scratch=True)
        wind = fields[:2]
        flux = torch.mul(wind, fields[2:], out=buffer("flux", *wind.shape))
        if friction:
            # k grad psi = k (v, -u) is subtracted from -v q, that is, added to the flux v q.
            drag = self.friction[..., None]
            flux[0, ..., 2, :].addcmul_(drag, wind[1, ..., 2, :])
            flux[1, ..., 2, :].addcmul_(drag, wind[0, ..., 2, :], value=-1.0)
        return self.transform.divergence(flux, out)

    def tendency(self, q: Tensor, out: Tensor | None = None) -> Tensor:
        """``dq'/dt`` without the hyperdiffusion, s-2."""
        tables = self._for_batch(q.shape[-1])
        psi = self.streamfunction(q, self.transform.buffer("psi", *q.shape))
        out = self.divergence(psi, q, out=out)
        torch.sub(tables.source, out, out=out)
        # The stretching part of q is q - lap psi: relaxation needs no product of matrices.
        out.addcmul_(tables.stretch, psi)
        return out.add_(q, alpha=-1.0 / (self.parameters.relax_days * DAY))

    def step_(self, q: Tensor) -> Tensor:
        """One Runge-Kutta step of fourth order and the exact decay by hyperdiffusion, in place."""
        dt = self.step_seconds
        total, slope, stage = (
            self.transform.buffer(name, *q.shape) for name in ("slopes", "slope", "stage")
        )
        self.tendency(q, total)
        torch.add(q, total, alpha=0.5 * dt, out=stage)
        for weight, advance in ((2.0, 0.5), (2.0, 1.0)):
            self.tendency(stage, slope)
            total.add_(slope, alpha=weight)
            torch.add(q, slope, alpha=advance * dt, out=stage)
        total.add_(self.tendency(stage, slope))
        return q.add_(total, alpha=dt / 6.0).mul_(self._decay)

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
        q = q.clone()
        for _ in range(round(steps)):
            self.step_(q)
        if not bool(torch.isfinite(q).all()):
            raise WeatherppError(
                f"the T{self.parameters.truncation} model has blown up: take more steps per day"
            )
        return q
