"""Spherical-harmonic transforms on a Gaussian grid, as batched matrix products.

A real field is ``f(lon, lat) = sum_m w_m Re(c_m(lat) exp(i m lon))`` with ``w_0 = 1`` and
``w_m = 2`` otherwise, and ``c_m(lat) = sum_n c_nm P_nm(sin lat)``. The functions ``P_nm`` have unit
mean square over the sphere (together with ``exp(i m lon)``), so ``c_00`` is the global mean and
``mean(f**2) = sum_nm w_m |c_nm|**2``.

Layouts (they make every step a matrix product without a copy):

* spectral ``(parity, j, part, sym, k, *batch)`` with ``m = 2 j + parity``, ``part`` 0 real and
  1 imaginary, ``sym`` 0 for harmonics symmetric about the equator and 1 for antisymmetric ones, and
  ``n = m + 2 k + sym``. Slots with ``n`` above the truncation hold zero.
* grid ``(lon, hemisphere, row, *batch)``: hemisphere 0 is the northern one, row 0 the row next to
  the pole, and a row has the same distance from the equator in both hemispheres.

Splitting off the parity of ``m`` halves the Fourier step (harmonics of even and odd ``m`` repeat,
with and without a change of sign, half way round), splitting off the symmetry about the equator
halves the Legendre step.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

EARTH_RADIUS = 6.371e6
"""Radius of the Earth in m."""


def legendre_tables(
    truncation: int, mu: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normalised associated Legendre functions and their derivatives.

    Parameters
    ----------
    truncation
        Largest total wavenumber.
    mu
        Sines of latitude, shape (lat,).

    Returns
    -------
    p, h : float64 arrays of shape (m, n, lat), m and n from 0 to ``truncation``
        ``p`` has ``0.5 * integral(p**2 dmu) = 1`` and no Condon-Shortley sign;
        ``h = (1 - mu**2) dp/dmu``. Zero where n < m. Three-term recurrence and derivative formula
        with ``eps_nm = sqrt((n**2 - m**2) / (4 n**2 - 1))``, e.g. Machenhauer (1979).
    """
    size = truncation + 2
    p = np.zeros((size, size, mu.size))
    eps = epsilon(size)
    cos = np.sqrt(1.0 - mu**2)
    p[0, 0] = 1.0
    for m in range(1, size):
        p[m, m] = np.sqrt((2.0 * m + 1.0) / (2.0 * m)) * cos * p[m - 1, m - 1]
    for m in range(size):
        for n in range(m + 1, size):
            below = eps[m, n - 1] * p[m, n - 2] if n >= 2 else 0.0
            p[m, n] = (mu * p[m, n - 1] - below) / eps[m, n]
    order = np.arange(size - 1)[None, :, None]
    lower = np.concatenate([np.zeros((size, 1, mu.size)), p[:, :-2]], axis=1)
    h = (order + 1) * eps[:, :-1, None] * lower - order * eps[:, 1:, None] * p[:, 1:]
    return p[:-1, :-1], h[:-1]


def epsilon(size: int) -> NDArray[np.float64]:
    """``sqrt((n**2 - m**2) / (4 n**2 - 1))``, shape (m, n), zero where n <= m; float64."""
    m = np.arange(size, dtype=np.float64)[:, None]
    n = np.arange(size, dtype=np.float64)[None, :]
    return np.sqrt(np.maximum(n**2 - m**2, 0.0) / np.maximum(4.0 * n**2 - 1.0, 1.0))


class Transform:
    """Transforms between a Gaussian grid and triangular truncation.

    Parameters
    ----------
    truncation
        Largest total wavenumber N. The grid has ``nlon`` longitudes (a multiple of 4, at least
        3 N + 1 for products free of aliasing) and ``nlon / 2`` latitudes.
    nlon
        Number of longitudes.
    device, dtype
        Where and in which precision the tables and results are (tables are computed in float64).

    Attributes
    ----------
    latitude : (lat,) float64, degrees, north to south; longitude : (lon,) float64, degrees
    m, n : spectral-layout float tensors without batch: zonal and total wavenumber
    mask : 1 where ``n <= truncation`` (and not the imaginary part of m = 0), else 0
    """

    def __init__(
        self,
        truncation: int,
        nlon: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.truncation, self.nlon, self.nlat = truncation, nlon, nlon // 2
        self.device, self.dtype = torch.device(device), dtype
        self._workspace: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self.jsize = self.ksize = (truncation + 2) // 2
        nodes, weights = np.polynomial.legendre.leggauss(self.nlat)
        mu, weight = nodes[::-1].copy(), weights[::-1].copy()
        self.mu, self.weight = mu, weight
        self.latitude = np.degrees(np.arcsin(mu))
        self.longitude = 360.0 * np.arange(nlon) / nlon
        self.shape = (2, self.jsize, 2, 2, self.ksize)
        m, n = self._wavenumbers()
        valid = (n <= truncation) & (m <= truncation)
        valid[0, 0, 1] = False
        self.m, self.n = self.tensor(m), self.tensor(np.where(valid, n, 0))
        self.mask = self.tensor(valid)
        laplace = np.where(valid, -n * (n + 1.0) / EARTH_RADIUS**2, 0.0)
        self.laplacian = self.tensor(laplace)
        self.inverse_laplacian = self.tensor(
            np.where(laplace < 0, 1 / np.where(laplace < 0, laplace, 1), 0)
        )
        self._m_valid = self.tensor(np.where(valid, m, 0))
        self._legendre(m, n, valid)
        self._fourier()
        self._balance_tables(m, n, valid)

    def tensor(self, values: NDArray[np.generic]) -> Tensor:
        """A numpy array on this transform's device in its precision."""
        return torch.as_tensor(np.ascontiguousarray(values)).to(self.device, self.dtype)

    def _wavenumbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        p, j, _, s, k = np.indices(self.shape)
        m = 2 * j + p
        return m, m + 2 * k + s

    def _legendre(
        self, m: NDArray[np.int64], n: NDArray[np.int64], valid: NDArray[np.bool_]
    ) -> None:
        half = self.nlat // 2
        p, h = legendre_tables(self.truncation, self.mu[:half])
        index = (np.minimum(m, self.truncation), np.minimum(n, self.truncation))
        p = np.where(valid[..., None], p[index], 0.0).reshape(-1, self.ksize, half)
        h = np.where(valid[..., None], h[index], 0.0).reshape(-1, self.ksize, half)
        weight = 0.5 * self.weight[:half]
        metric = weight / (1.0 - self.mu[:half] ** 2)
        self._p_synthesis = self.tensor(p.transpose(0, 2, 1))
        # u cos = -H psi / a: the sign is in the table.
        self._h_synthesis = self.tensor(-h.transpose(0, 2, 1))
        self._p_analysis = self.tensor(p * weight)
        self._p_flux = self.tensor(p * metric)
        self._h_flux = self.tensor(h * metric)

    def _fourier(self) -> None:
        half = self.nlon // 2
        lon = 2.0 * np.pi * np.arange(half) / self.nlon
        m = (2 * np.arange(self.jsize)[None, :] + np.arange(2)[:, None])[..., None]
        w = np.where(m == 0, 1.0, 2.0) * (m <= self.truncation)
        waves = np.stack([np.cos(m * lon), -np.sin(m * lon)], axis=2)
        synthesis = (w[:, :, None] * waves).reshape(2, 2 * self.jsize, half)
        analysis = ((m <= self.truncation)[:, :, None] * waves / self.nlon).reshape(synthesis.shape)
        self._f_synthesis = self.tensor(synthesis.transpose(0, 2, 1))
        self._f_analysis = self.tensor(analysis)

    def _balance_tables(
        self, m: NDArray[np.int64], n: NDArray[np.int64], valid: NDArray[np.bool_]
    ) -> None:
        eps = epsilon(2 * self.truncation + 4)
        size = np.maximum(n * (n + 1.0), 1.0)
        below = (n - 1.0) * (n + 1.0) * eps[m, n] / size
        above = n * (n + 2.0) * eps[m, n + 1] / size
        self._below = self.tensor(np.where(valid & (n > m), below, 0.0))
        self._above = self.tensor(np.where(valid & (n < self.truncation) & (n > 0), above, 0.0))

    def expand(self, table: Tensor, like: Tensor) -> Tensor:
        """Append axes of length one to a spectral-layout table, to match the batch of ``like``."""
        return table.reshape(table.shape + (1,) * (like.dim() - table.dim()))

    def dlon(self, c: Tensor, out: Tensor | None = None) -> Tensor:
        """Spectral coefficients of the derivative with respect to longitude (radians)."""
        out = torch.empty_like(c) if out is None else out
        m = self.expand(self._m_valid, c)
        torch.mul(c[:, :, 1], -m[:, :, 1], out=out[:, :, 0])
        torch.mul(c[:, :, 0], m[:, :, 0], out=out[:, :, 1])
        return out

    def buffer(self, name: str, *shape: int) -> Tensor:
        """Uninitialised scratch memory, the same for every call with this name and shape.

        Fresh memory for every large intermediate costs more (page faults) than the arithmetic.
        """
        key = (name, shape)
        if key not in self._workspace:
            self._workspace[key] = torch.empty(shape, device=self.device, dtype=self.dtype)
        return self._workspace[key]

    def _legendre_synthesis(self, c: Tensor, table: Tensor, swap: bool, out: Tensor) -> None:
        """Coefficients (spectral layout) -> Fourier rows (2, 2 jsize, hemisphere, row, batch).

        ``swap`` where the table's functions have the symmetry opposite to that of ``c``.
        """
        half, size = self.nlat // 2, out.shape[-1]
        rows = self.buffer("legendre", table.shape[0], half, size)
        torch.bmm(table, c.reshape(table.shape[0], self.ksize, size), out=rows)
        rows = rows.view(2, 2 * self.jsize, 2, half, size)
        even, odd = rows[:, :, int(swap)], rows[:, :, 1 - int(swap)]
        torch.add(even, odd, out=out[:, :, 0])
        torch.sub(even, odd, out=out[:, :, 1])

    def _rows(self, size: int) -> Tensor:
        return self.buffer("rows", 2, 2 * self.jsize, 2, self.nlat // 2, size)

    def _fourier_synthesis(self, rows: Tensor, grid: Tensor) -> None:
        half, size = self.nlon // 2, self.nlat * rows.shape[-1]
        parts = self.buffer("halves", 2, half, size)
        torch.bmm(self._f_synthesis, rows.view(2, 2 * self.jsize, size), out=parts)
        flat = grid.view(self.nlon, size)
        torch.add(parts[0], parts[1], out=flat[:half])
        torch.sub(parts[0], parts[1], out=flat[half:])

    def _fourier_analysis(self, grid: Tensor) -> Tensor:
        half = self.nlon // 2
        flat = grid.reshape(self.nlon, -1)
        parts = self.buffer("halves", 2, half, flat.shape[1])
        torch.add(flat[:half], flat[half:], out=parts[0])
        torch.sub(flat[:half], flat[half:], out=parts[1])
        rows = self.buffer("analysed", 2, 2 * self.jsize, flat.shape[1])
        torch.bmm(self._f_analysis, parts, out=rows)
        return rows.view(2, 2 * self.jsize, 2, self.nlat // 2, *grid.shape[3:])

    def _legendre_analysis(self, rows: Tensor, table: Tensor, swap: bool) -> Tensor:
        north, south = rows[:, :, 0], rows[:, :, 1]
        parts = self.buffer("symmetric", *rows.shape)
        torch.add(north, south, out=parts[:, :, int(swap)])
        torch.sub(north, south, out=parts[:, :, 1 - int(swap)])
        product = torch.bmm(table, parts.view(table.shape[0], self.nlat // 2, -1))
        return product.view(*self.shape, *rows.shape[4:])

    def synthesis(self, c: Tensor) -> Tensor:
        """Spectral coefficients -> values on the grid; batch axes are kept."""
        batch = c.shape[len(self.shape) :]
        rows = self._rows(math.prod(batch))
        self._legendre_synthesis(c, self._p_synthesis, False, rows)
        shape = (self.nlon, 2, self.nlat // 2, *batch)
        grid = torch.empty(shape, device=self.device, dtype=self.dtype)
        self._fourier_synthesis(rows, grid)
        return grid

    def analysis(self, grid: Tensor) -> Tensor:
        """Values on the grid -> spectral coefficients; batch axes are kept."""
        return self._legendre_analysis(self._fourier_analysis(grid), self._p_analysis, False)

    def winds_and(self, psi: Tensor, other: Tensor, scratch: bool = False) -> Tensor:
        """``u cos(lat)``, ``v cos(lat)`` of a streamfunction and another field, on the grid.

        Parameters
        ----------
        psi
            Streamfunction (m2 s-1), spectral layout with batch axes.
        other
            Any field with the same batch axes.
        scratch
            Return scratch memory, which the next such call overwrites.

        Returns
        -------
        Tensor, grid layout with a leading batch axis of 3
            ``u cos = -(1 - mu**2)/a dpsi/dmu`` and ``v cos = 1/a dpsi/dlon`` (m s-1), ``other``.
        """
        batch = psi.shape[len(self.shape) :]
        size = math.prod(batch)
        scaled = torch.mul(psi, 1.0 / EARTH_RADIUS).reshape(*self.shape, size)
        pair = self.buffer("pair", *self.shape, 2 * size)
        self.dlon(scaled, out=pair[..., :size])
        pair[..., size:] = other.reshape(*self.shape, size)
        rows = self._rows(3 * size)
        self._legendre_synthesis(scaled, self._h_synthesis, True, rows[..., :size])
        self._legendre_synthesis(pair, self._p_synthesis, False, rows[..., size:])
        shape = (self.nlon, 2, self.nlat // 2, 3, *batch)
        if scratch:
            grid = self.buffer("winds", *shape)
        else:
            grid = torch.empty(shape, device=self.device, dtype=self.dtype)
        self._fourier_synthesis(rows, grid)
        return grid

    def divergence(self, flux: Tensor) -> Tensor:
        """Spectral divergence of a vector field.

        Parameters
        ----------
        flux
            Grid layout with a leading batch axis of 2: ``F_x cos(lat)``, ``F_y cos(lat)``.

        Returns
        -------
        Tensor, spectral layout
            ``(dF_x cos/dlon + (1 - mu**2) d(F_y cos)/dmu) / (a (1 - mu**2))``; the second term by
            integration by parts, so that it needs no derivative on the grid.
        """
        rows = self._fourier_analysis(flux)
        x = self._legendre_analysis(rows.select(4, 0), self._p_flux, False)
        y = self._legendre_analysis(rows.select(4, 1), self._h_flux, True)
        return self.dlon(x).sub_(y).mul_(1.0 / EARTH_RADIUS)

    def linear_balance(self, psi: Tensor, omega: float) -> Tensor:
        """Geopotential (m2 s-2, global mean 0) of a streamfunction: ``lap(phi) = div(f grad psi)``.

        In spectral space ``n(n+1) phi_n = 2 omega [(n-1)(n+1) eps_n psi_(n-1) +
        n(n+2) eps_(n+1) psi_(n+1)]`` for each m, with ``f = 2 omega mu``.
        """
        # n-1 and n+1 of the same m: the other symmetry, at the same or the neighbouring k.
        sym, anti = psi[:, :, :, 0], psi[:, :, :, 1]
        zero = torch.zeros_like(sym[:, :, :, :1])
        below = torch.stack([torch.cat([zero, anti[:, :, :, :-1]], dim=3), sym], dim=3)
        above = torch.stack([anti, torch.cat([sym[:, :, :, 1:], zero], dim=3)], dim=3)
        return (2.0 * omega) * (
            self.expand(self._below, psi) * below + self.expand(self._above, psi) * above
        )

    def to_latlon(self, grid: Tensor) -> Tensor:
        """Grid layout (lon, hemisphere, row, *batch) -> (*batch, latitude, longitude)."""
        full = torch.cat([grid[:, 0], grid[:, 1].flip(1)], dim=1)
        return full.movedim((1, 0), (-2, -1))

    def from_latlon(self, values: Tensor) -> Tensor:
        """(*batch, latitude north to south, longitude) -> grid layout."""
        half = self.nlat // 2
        full = values.movedim((-1, -2), (0, 1))
        return torch.stack([full[:, :half], full[:, half:].flip(1)], dim=1)

    def resample(self, c: Tensor, source: Transform) -> Tensor:
        """Coefficients of another transform, truncated or filled up with zeros to this one."""
        j, k = min(self.jsize, source.jsize), min(self.ksize, source.ksize)
        out = c.new_zeros(*self.shape, *c.shape[len(self.shape) :])
        out[:, :j, :, :, :k] = c[:, :j, :, :, :k]
        return out * self.expand(self.mask, out)

    def mean_square(self, c: Tensor) -> Tensor:
        """Global mean square of a field, from its coefficients; batch axes are kept."""
        weight = self.expand(torch.where(self.m > 0, 2.0, 1.0).to(c.dtype), c)
        return (weight * c * c).sum(dim=(0, 1, 2, 3, 4))
