r"""Power of a field at each scale: whether members are as rough as analyses are.

Fields on a full circle of evenly spaced longitudes. The zonal spectrum is that along each
latitude; the spherical one sums over all waves of the same total wavenumber and needs the sphere
from pole to pole. Powers of all wavenumbers sum up to the mean square of the field.

References
----------
Boer, G. J. and Shepherd, T. G. (1983), J. Atmos. Sci. 40, 164-184 (spectra by total wavenumber).
Holmes, S. A. and Featherstone, W. E. (2002), J. Geod. 76, 279-299 (Legendre functions).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.verify.weights import cell_areas

Array = NDArray[np.float64]
GRID = ("latitude", "longitude")


def _check_circle(field: xr.DataArray) -> None:
    missing = [dim for dim in GRID if dim not in field.dims or dim not in field.coords]
    if missing:
        raise InputError(f"a spectrum needs the dimension and coordinate {', '.join(missing)}")
    longitude = np.asarray(field["longitude"].values, np.float64)
    step = np.diff(np.concatenate([longitude, longitude[:1] + 360]))
    if not np.allclose(step, 360 / longitude.size, atol=1e-3):
        raise InputError(
            "a spectrum needs a full circle of evenly spaced, ascending longitudes; cut regions "
            "have none"
        )


def _power(
    field: xr.DataArray, function: Callable[[Array], Array], name: str, size: int
) -> xr.DataArray:
    if field.chunks is not None:
        field = field.chunk(dict.fromkeys(GRID, -1))
    out: xr.DataArray = xr.apply_ufunc(
        function,
        field,
        input_core_dims=[list(GRID)],
        output_core_dims=[["wavenumber"]],
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {"wavenumber": size}},
    )
    units = f"({field.attrs.get('units', '1')})2"
    attrs = {"units": units, "nan_policy": "propagate"}
    return out.assign_coords(wavenumber=np.arange(size)).rename(name).assign_attrs(attrs)


def zonal_spectrum(field: xr.DataArray) -> xr.DataArray:
    """Power of each zonal wavenumber, averaged over latitudes by their area.

    Parameters
    ----------
    field
        (..., latitude, longitude), a full circle; any band of latitudes.

    Returns
    -------
    (..., wavenumber 0 to n / 2) float64, units squared; NaN in a field makes all its powers NaN.

    Raises
    ------
    InputError
        Not a full circle of evenly spaced longitudes.
    """
    _check_circle(field)
    area = cell_areas(field["latitude"]).values
    n = field.sizes["longitude"]

    def power(values: Array) -> Array:
        waves = np.fft.rfft(values.astype(np.float64), axis=-1) / n
        each = (waves * waves.conj()).real
        each[..., 1 : (n + 1) // 2] *= 2  # the waves that run the other way
        out: Array = np.einsum("...yk,y->...k", each, area / area.sum())
        return out

    return _power(field, power, "zonal_power", n // 2 + 1)


def legendre(sines: Array, degree: int) -> Array:
    r"""Associated Legendre functions with a mean square of one over the sphere.

    :math:`\bar P_n^m(\mu)` for 0 <= m <= n <= degree, by recursion in n (Holmes and Featherstone
    2002, eqs. 11 and 12, without the factor :math:`\sqrt 2` for m > 0), shape
    (m, n, latitude), zero for n < m.
    """
    out = np.zeros((degree + 1, degree + 1, sines.size))
    cosines = np.sqrt(np.maximum(1 - sines**2, 0))
    sectoral = np.ones(sines.size)
    for m in range(degree + 1):
        if m:
            sectoral = sectoral * cosines * np.sqrt((2 * m + 1) / (2 * m))
        out[m, m] = sectoral
        if m < degree:
            out[m, m + 1] = np.sqrt(2 * m + 3) * sines * sectoral
        for n in range(m + 2, degree + 1):
            a = np.sqrt((2 * n + 1) * (2 * n - 1) / ((n - m) * (n + m)))
            b = np.sqrt((2 * n + 1) * (n + m - 1) * (n - m - 1) / ((2 * n - 3) * (n - m) * (n + m)))
            out[m, n] = a * sines * out[m, n - 1] - b * out[m, n - 2]
    return out


def quadrature(sines: Array) -> Array:
    """Weights (sum 1) that integrate polynomials of degree below the number of latitudes exactly.

    Those of Gauss on a Gaussian grid, of Clenshaw and Curtis on one that is evenly spaced with
    poles.

    Raises
    ------
    InputError
        Latitudes that do not cover the sphere, for which there are none of use.
    """
    degrees = np.arange(sines.size)
    matrix = np.polynomial.legendre.legvander(sines, sines.size - 1) * np.sqrt(2 * degrees + 1)
    wanted = np.zeros(sines.size)
    wanted[0] = 1.0
    weights = np.linalg.lstsq(matrix.T, wanted, rcond=None)[0].astype(np.float64)
    residual = abs(matrix.T @ weights - wanted).max()
    if weights.min() < -1e-6 / sines.size or not residual < 1e-6:
        raise InputError(
            "a spherical spectrum needs latitudes from pole to pole, evenly spaced or Gaussian"
        )
    return weights


def spherical_spectrum(field: xr.DataArray, degree: int | None = None) -> xr.DataArray:
    """Power of each total wavenumber, summed over the zonal ones.

    Exact for fields without waves beyond ``degree``.

    Parameters
    ----------
    field
        (..., latitude, longitude) on the whole sphere.
    degree
        Greatest total wavenumber; if not given, half the number of latitudes less one, which an
        evenly spaced grid resolves.

    Returns
    -------
    (..., wavenumber 0 to degree) float64, units squared; NaN in a field makes all its powers NaN.

    Raises
    ------
    InputError
        Not the whole sphere, or a degree that the grid does not resolve.
    """
    _check_circle(field)
    rows, n = (field.sizes[dim] for dim in GRID)
    most = min((rows - 1) // 2, (n - 1) // 2)
    top = most if degree is None else degree
    if not 0 <= top <= most:
        raise InputError(f"a grid of {rows} x {n} resolves total wavenumbers to {most}, not {top}")
    sines = np.sin(np.deg2rad(np.asarray(field["latitude"].values, np.float64)))
    functions = legendre(sines, top) * quadrature(sines)

    def power(values: Array) -> Array:
        waves = np.fft.rfft(values.astype(np.float64), axis=-1)[..., : top + 1] / n
        total = np.zeros((*values.shape[:-2], top + 1))
        for m in range(top + 1):
            coefficients = np.einsum("...y,ny->...n", waves[..., m], functions[m])
            total += (1 if m == 0 else 2) * abs(coefficients) ** 2
        return total

    return _power(field, power, "spherical_power", top + 1)
