"""Spherical-harmonic transforms on a Gaussian grid, as batched matrix products.

A real field is ``f(lon, lat) = sum_m w_m Re(c_m(lat) exp(i m lon))`` with ``w_0 = 1`` and
``w_m = 2`` otherwise, and ``c_m(lat) = sum_n c_nm P_nm(sin lat)``. The functions ``P_nm`` have unit
mean square over the sphere (together with ``exp(i m lon)``), so ``c_00`` is the global mean and
``mean(f**2) = sum_nm w_m |c_nm|**2``.

Layouts (they make every step a matrix product without a copy):

* spectral ``(parity, j, sym, k, part, *batch)`` with ``m = 2 j + parity``, ``sym`` 0 for harmonics
  symmetric about the equator and 1 for antisymmetric ones, ``n = m + 2 k + sym``, and ``part`` 0
  real and 1 imaginary. Slots with ``n`` above the truncation hold zero.
* grid ``(lon, hemisphere, row, *batch)``: hemisphere 0 is the northern one, row 0 the row next to
  the pole, and a row has the same distance from the equator in both hemispheres. Several fields
  have a leading axis, so that arithmetic between fields runs over long stretches of memory.

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
        self.shape = (2, self.jsize, 2, self.ksize, 2)
        m, n = self._wavenumbers()
        valid = (n <= truncation) & (m <= truncation)
        valid[0, 0, :, :, 1] = False
        self.m, self.n = self.tensor(m), self.tensor(np.where(valid, n, 0))
        self.mask = self.tensor(valid)
        laplace = np.where(valid, -n * (n + 1.0) / EARTH_RADIUS**2, 0.0)
        self.laplacian = self.tensor(laplace)
        self.inverse_laplacian = self.tensor(
            np.where(laplace < 0, 1 / np.where(laplace < 0, laplace, 1), 0)
        )
        self._legendre()
        self._fourier()
        self._balance_tables(m, n, valid)

    def tensor(self, values: NDArray[np.generic]) -> Tensor:
        """A numpy array on this transform's device in its precision."""
        return torch.as_tensor(np.ascontiguousarray(values)).to(self.device, self.dtype)

    def _wavenumbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        p, j, s, k, _ = np.indices(self.shape)
        m = 2 * j + p
        return m, m + 2 * k + s

    def _legendre(self) -> None:
        half = self.nlat // 2
        p, h = legendre_tables(self.truncation, self.mu[:half])
        # the tables serve both parts
        m, n = (index[..., 0] for index in self._wavenumbers())
        index = (np.minimum(m, self.truncation), np.minimum(n, self.truncation))
        valid = ((n <= self.truncation) & (m <= self.truncation))[..., None]
        p = np.where(valid, p[index], 0.0).reshape(-1, self.ksize, half)
        h = np.where(valid, h[index], 0.0).reshape(-1, self.ksize, half) / EARTH_RADIUS
        weight = 0.5 * self.weight[:half]
        metric = weight / (1.0 - self.mu[:half] ** 2)
        self._p_synthesis = self.tensor(p.transpose(0, 2, 1))
        # One product gives psi and u cos = -H psi / a on the rows; one adds up both fluxes.
        self._wind_synthesis = self.tensor(np.concatenate([p, -h], axis=2).transpose(0, 2, 1))
        self._p_analysis = self.tensor(p * weight)
        self._divergence = self.tensor(
            np.concatenate([p * (metric / EARTH_RADIUS), -h * metric], axis=2)
        )

    def _fourier(self) -> None:
        half = self.nlon // 2
        lon = 2.0 * np.pi * np.arange(half) / self.nlon
        m = (2 * np.arange(self.jsize)[None, :] + np.arange(2)[:, None])[..., None]
        w = np.where(m == 0, 1.0, 2.0) * (m <= self.truncation)
        waves = np.stack([np.cos(m * lon), -np.sin(m * lon)], axis=2)
        slopes = m[:, :, None] * np.stack([-np.sin(m * lon), -np.cos(m * lon)], axis=2)
        shape = (2, 2 * self.jsize, half)
        valid = (m <= self.truncation)[:, :, None] / self.nlon
        synthesis, analysis = ((f * waves).reshape(shape) for f in (w[:, :, None], valid))
        slope = (w[:, :, None] * slopes / EARTH_RADIUS).reshape(shape).transpose(0, 2, 1)
        synthesis = synthesis.transpose(0, 2, 1)
        self._f_synthesis, self._f_analysis = self.tensor(synthesis), self.tensor(analysis)
        # u, v, other: v cos = dpsi/dlon / a has the rows of psi and differentiated waves
        self._f_winds = self.tensor(np.concatenate([synthesis, slope, synthesis]))
        # dF_x/dlon: the derivative is moved to the waves by integration by parts, hence the minus
        self._f_flux = self.tensor(np.concatenate([-(valid * slopes).reshape(shape), analysis]))

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

    def buffer(self, name: str, *shape: int) -> Tensor:
        """Uninitialised scratch memory, the same for every call with this name and shape.

        Fresh memory for every large intermediate costs more (page faults) than the arithmetic.
        """
        key = (name, shape)
        if key not in self._workspace:
            self._workspace[key] = torch.empty(shape, device=self.device, dtype=self.dtype)
        return self._workspace[key]

    def _to_hemispheres(self, even: Tensor, odd: Tensor, rows: Tensor) -> None:
        """Symmetric and antisymmetric halves (parity, j, row, part, batch) -> Fourier rows.

        ``rows``: (parity, 2 jsize, hemisphere, row, batch), with part inside of j.
        """
        out = rows.view(2, self.jsize, 2, 2, self.nlat // 2, rows.shape[-1])
        even, odd = even.transpose(2, 3), odd.transpose(2, 3)
        torch.add(even, odd, out=out[:, :, :, 0])
        torch.sub(even, odd, out=out[:, :, :, 1])

    def _to_symmetries(self, rows: Tensor, even: Tensor, odd: Tensor) -> None:
        """The way back of :meth:`_to_hemispheres`, without the factor 1/2."""
        halves = rows.view(2, self.jsize, 2, 2, self.nlat // 2, rows.shape[-1])
        # part by part: else the inner loop would run over the two parts, not over the rows
        for part in range(2):
            north, south = halves[:, :, part, 0], halves[:, :, part, 1]
            torch.add(north, south, out=even[:, :, :, part])
            torch.sub(north, south, out=odd[:, :, :, part])

    def _legendre_synthesis(self, c: Tensor, table: Tensor) -> Tensor:
        """Coefficients (spectral layout, batch) -> (parity, j, sym, table, row, part, batch).

        ``table``: one or several tables of ``nlat / 2`` rows under each other.
        """
        size = c.shape[-1]
        out = self.buffer("legendre", table.shape[0], table.shape[1], 2 * size)
        torch.bmm(table, c.reshape(table.shape[0], self.ksize, 2 * size), out=out)
        return out.view(2, self.jsize, 2, -1, self.nlat // 2, 2, size)

    def _rows(self, fields: int, size: int) -> Tensor:
        return self.buffer("rows", fields, 2, 2 * self.jsize, 2, self.nlat // 2, size)

    def _fourier_synthesis(self, rows: Tensor, table: Tensor, grid: Tensor) -> None:
        """Fourier rows (field, parity, ...) -> grid (field, lon, ...)."""
        fields, half, size = rows.shape[0], self.nlon // 2, self.nlat * rows.shape[-1]
        parts = self.buffer("halves", fields, 2, half, size)
        torch.bmm(table, rows.view(2 * fields, 2 * self.jsize, size), out=parts.flatten(0, 1))
        flat = grid.view(fields, 2, half, size)
        torch.add(parts[:, 0], parts[:, 1], out=flat[:, 0])
        torch.sub(parts[:, 0], parts[:, 1], out=flat[:, 1])

    def _fourier_analysis(self, grid: Tensor, table: Tensor) -> Tensor:
        """Grid (field, lon, ...) -> Fourier rows (field, parity, ...)."""
        fields, half = grid.shape[0], self.nlon // 2
        flat = grid.reshape(fields, 2, half, -1)
        size = flat.shape[-1]
        parts = self.buffer("halves", fields, 2, half, size)
        torch.add(flat[:, 0], flat[:, 1], out=parts[:, 0])
        torch.sub(flat[:, 0], flat[:, 1], out=parts[:, 1])
        rows = self._rows(fields, size // self.nlat)
        torch.bmm(table, parts.flatten(0, 1), out=rows.view(2 * fields, 2 * self.jsize, size))
        return rows

    def synthesis(self, c: Tensor) -> Tensor:
        """Spectral coefficients -> values on the grid; batch axes are kept."""
        batch = c.shape[len(self.shape) :]
        size = math.prod(batch)
        halves = self._legendre_synthesis(c.reshape(*self.shape, size), self._p_synthesis)
        rows = self._rows(1, size)
        self._to_hemispheres(halves[:, :, 0, 0], halves[:, :, 1, 0], rows[0])
        shape = (self.nlon, 2, self.nlat // 2, *batch)
        grid = torch.empty(shape, device=self.device, dtype=self.dtype)
        self._fourier_synthesis(rows, self._f_synthesis, grid[None])
        return grid

    def analysis(self, grid: Tensor) -> Tensor:
        """Values on the grid -> spectral coefficients; batch axes are kept."""
        rows = self._fourier_analysis(grid[None], self._f_analysis)[0]
        return self._legendre_analysis(rows[None], self._p_analysis, (0,), grid.shape[3:])

    def _legendre_analysis(
        self,
        rows: Tensor,
        table: Tensor,
        swap: tuple[int, ...],
        batch: torch.Size,
        out: Tensor | None = None,
    ) -> Tensor:
        """Fourier rows (field, ...) -> the sum over fields of their coefficients.

        ``swap`` 1 where a field's table has the symmetry opposite to that of the result.
        """
        half, size = self.nlat // 2, rows.shape[-1]
        parts = self.buffer("symmetric", 2, self.jsize, 2, len(swap), half, 2, size)
        for field, other in enumerate(swap):
            self._to_symmetries(
                rows[field], parts[:, :, other, field], parts[:, :, 1 - other, field]
            )
        if out is None:
            out = torch.empty((*self.shape, *batch), device=self.device, dtype=self.dtype)
        flat = out.view(table.shape[0], self.ksize, 2 * size)
        torch.bmm(table, parts.view(table.shape[0], table.shape[2], 2 * size), out=flat)
        return out

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
        Tensor, (3,) + grid layout
            ``u cos = -(1 - mu**2)/a dpsi/dmu`` and ``v cos = 1/a dpsi/dlon`` (m s-1), ``other``.
        """
        batch = psi.shape[len(self.shape) :]
        size = math.prod(batch)
        rows = self._rows(3, size)
        halves = self._legendre_synthesis(psi.reshape(*self.shape, size), self._wind_synthesis)
        # the derivative of a symmetric function is antisymmetric
        self._to_hemispheres(halves[:, :, 1, 1], halves[:, :, 0, 1], rows[0])
        self._to_hemispheres(halves[:, :, 0, 0], halves[:, :, 1, 0], rows[1])
        halves = self._legendre_synthesis(other.reshape(*self.shape, size), self._p_synthesis)
        self._to_hemispheres(halves[:, :, 0, 0], halves[:, :, 1, 0], rows[2])
        shape = (3, self.nlon, 2, self.nlat // 2, *batch)
        if scratch:
            grid = self.buffer("winds", *shape)
        else:
            grid = torch.empty(shape, device=self.device, dtype=self.dtype)
        self._fourier_synthesis(rows, self._f_winds, grid)
        return grid

    def divergence(self, flux: Tensor, out: Tensor | None = None) -> Tensor:
        """Spectral divergence of a vector field.

        Parameters
        ----------
        flux
            (2,) + grid layout: ``F_x cos(lat)``, ``F_y cos(lat)``.
        out
            Where to put the result.

        Returns
        -------
        Tensor, spectral layout
            ``(dF_x cos/dlon + (1 - mu**2) d(F_y cos)/dmu) / (a (1 - mu**2))``; both terms by
            integration by parts, so that they need no derivative on the grid.
        """
        rows = self._fourier_analysis(flux, self._f_flux)
        return self._legendre_analysis(rows, self._divergence, (0, 1), flux.shape[4:], out)

    def linear_balance(self, psi: Tensor, omega: float) -> Tensor:
        """Geopotential (m2 s-2, global mean 0) of a streamfunction: ``lap(phi) = div(f grad psi)``.

        In spectral space ``n(n+1) phi_n = 2 omega [(n-1)(n+1) eps_n psi_(n-1) +
        n(n+2) eps_(n+1) psi_(n+1)]`` for each m, with ``f = 2 omega mu``.
        """
        # n-1 and n+1 of the same m: the other symmetry, at the same or the neighbouring k.
        sym, anti = psi[:, :, 0], psi[:, :, 1]
        zero = torch.zeros_like(sym[:, :, :1])
        below = torch.stack([torch.cat([zero, anti[:, :, :-1]], dim=2), sym], dim=2)
        above = torch.stack([anti, torch.cat([sym[:, :, 1:], zero], dim=2)], dim=2)
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
        out[:, :j, :, :k] = c[:, :j, :, :k]
        return out * self.expand(self.mask, out)

    def mean_square(self, c: Tensor) -> Tensor:
        """Global mean square of a field, from its coefficients; batch axes are kept."""
        weight = self.expand(torch.where(self.m > 0, 2.0, 1.0).to(c.dtype), c)
        return (weight * c * c).sum(dim=(0, 1, 2, 3, 4))
