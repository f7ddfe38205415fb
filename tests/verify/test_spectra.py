"""Zonal and spherical power spectra."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import special

from weatherpp.errors import InputError
from weatherpp.verify import spectra
from weatherpp.verify.weights import cell_areas


def grid(latitude: np.ndarray, columns: int) -> tuple[xr.DataArray, xr.DataArray]:
    longitude = np.arange(columns) * 360 / columns
    return (
        xr.DataArray(latitude, {"latitude": latitude}, "latitude"),
        xr.DataArray(longitude, {"longitude": longitude}, "longitude"),
    )


def gaussian(rows: int) -> np.ndarray:
    return np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(rows)[0]))[::-1]


EVEN = np.linspace(90, -90, 25)


def wave(n: int, m: int, latitude: xr.DataArray, longitude: xr.DataArray) -> xr.DataArray:
    """A real spherical harmonic with a mean square of one, from scipy."""
    colatitude = np.deg2rad(90 - latitude)
    values = special.sph_harm_y(n, m, colatitude.values[:, None], np.deg2rad(longitude.values))
    factor = np.sqrt(4 * np.pi) * (1 if m == 0 else np.sqrt(2))
    return xr.DataArray(factor * values.real, {"latitude": latitude, "longitude": longitude},
                        ("latitude", "longitude"), attrs={"units": "m"})  # fmt: skip


@pytest.mark.parametrize("latitude", [EVEN, gaussian(24), EVEN[::-1]])
@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (3, 3), (7, 4), (11, 1)])
def test_a_spherical_harmonic_has_all_its_power_at_its_wavenumber(latitude, n, m) -> None:
    found = spectra.spherical_spectrum(wave(n, m, *grid(latitude, 48)))
    np.testing.assert_allclose(found, np.eye(found.size)[n], atol=1e-9)
    assert found.attrs == {"units": "(m)2", "nan_policy": "propagate"}


def test_functions_equal_scipy() -> None:
    sines = np.linspace(-0.99, 0.99, 9)
    own = spectra.legendre(sines, 40)
    for n, m in ((0, 0), (5, 2), (17, 17), (40, 1), (40, 33)):
        y = special.sph_harm_y(n, m, np.arccos(sines), 0).real * np.sqrt(4 * np.pi)
        np.testing.assert_allclose(own[m, n], (-1) ** m * y, atol=1e-10)


def test_quadrature_is_that_of_gauss() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    np.testing.assert_allclose(spectra.quadrature(nodes), weights / 2, atol=1e-12)
    even = spectra.quadrature(np.sin(np.deg2rad(np.linspace(-90, 90, 181))))
    assert even @ np.sin(np.deg2rad(np.linspace(-90, 90, 181))) ** 2 == pytest.approx(1 / 3)


def test_powers_sum_to_the_mean_square_and_members_keep_their_own() -> None:
    latitude, longitude = grid(EVEN, 36)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 25, 36)).astype("f4")
    dims = ("number", "latitude", "longitude")
    field = xr.DataArray(values, {"latitude": latitude, "longitude": longitude}, dims)
    found = spectra.zonal_spectrum(field)
    area = cell_areas(latitude)
    expected = (field.astype(float) ** 2).mean("longitude").weighted(area).mean("latitude")
    np.testing.assert_allclose(found.sum("wavenumber"), expected)
    one = (0.5 + 2 * np.cos(np.deg2rad(5 * longitude)) + 0 * latitude).transpose(*dims[1:])
    np.testing.assert_allclose(
        spectra.zonal_spectrum(one), [0.25, 0, 0, 0, 0, 2, *[0] * 13], atol=1e-12
    )
    for spectrum in (spectra.zonal_spectrum, spectra.spherical_spectrum):
        lazy = spectrum(field.chunk({"number": 1, "latitude": 5}))
        assert lazy.chunks is not None
        np.testing.assert_allclose(lazy, spectrum(field))
        gap = field.where(field != field[1, 2, 3])
        found = spectrum(gap).isnull().any("wavenumber")
        assert found.values.tolist() == [False, True, False]


def test_what_is_no_sphere_is_refused() -> None:
    field = wave(1, 0, *grid(EVEN, 24))
    with pytest.raises(InputError, match="full circle"):
        spectra.zonal_spectrum(field.isel(longitude=slice(3)))
    with pytest.raises(InputError, match="pole to pole"):
        spectra.spherical_spectrum(field.isel(latitude=slice(0, 15)))
    with pytest.raises(InputError, match="to 11, not 12"):
        spectra.spherical_spectrum(field, degree=12)
    with pytest.raises(InputError, match="needs the dimension"):
        spectra.zonal_spectrum(field.isel(latitude=0))
