"""The transforms against scipy's spherical harmonics and against analytic derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import sph_harm_y

from weatherpp.twin.spectral import EARTH_RADIUS, Transform

OMEGA = 7.292e-5


def random_field(transform: Transform, *batch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    white = torch.randn(*transform.shape, *batch, generator=generator, dtype=transform.dtype)
    return white * transform.expand(transform.mask, white)


@pytest.fixture(params=[(21, 64), (42, 128)], ids=["T21", "T42"])
def transform(request: pytest.FixtureRequest) -> Transform:
    return Transform(*request.param, dtype=torch.float64)


def test_synthesis_equals_the_sum_of_scipy_harmonics(transform: Transform) -> None:
    c = random_field(transform)
    colatitude = np.pi / 2 - np.radians(transform.latitude)[:, None]
    longitude = np.radians(transform.longitude)[None, :]
    expected = np.zeros((transform.nlat, transform.nlon))
    for p, i, s, r in np.ndindex(2, transform.jsize, 2, transform.ksize):
        m = 2 * i + p
        n = m + 2 * r + s
        if n > transform.truncation:
            continue
        # scipy's have unit square integral and the Condon-Shortley sign
        y = sph_harm_y(n, m, colatitude, longitude) * np.sqrt(4 * np.pi) * (-1) ** m
        value = complex(c[p, i, s, r, 0], c[p, i, s, r, 1])
        expected += (1 if m == 0 else 2) * (value * y).real
    np.testing.assert_allclose(
        transform.to_latlon(transform.synthesis(c[..., None]))[0], expected, atol=1e-10
    )


def test_analysis_inverts_synthesis_and_parseval_holds(transform: Transform) -> None:
    c = random_field(transform, 2, 3)
    grid = transform.synthesis(c)
    torch.testing.assert_close(transform.analysis(grid), c, atol=1e-11, rtol=0)
    weight = torch.as_tensor(transform.weight / 2)
    mean = (transform.to_latlon(grid**2).mean(-1) * weight).sum(-1)
    torch.testing.assert_close(transform.mean_square(c), mean)


def test_single_precision_round_trip() -> None:
    transform = Transform(42, 128)
    c = random_field(transform, 3)
    assert float((transform.analysis(transform.synthesis(c)) - c).abs().max()) < 2e-5


def test_winds_of_solid_rotation_and_of_a_wave(transform: Transform) -> None:
    mu = torch.as_tensor(transform.mu)[:, None].expand(transform.nlat, transform.nlon)
    lon = torch.as_tensor(np.radians(transform.longitude))[None, :]
    cos2 = 1 - mu**2
    # psi = -a U mu (solid rotation with u = U cos) plus a wave cos(lat)**2 sin(2 lon)
    psi = -20.0 * EARTH_RADIUS * mu + 1e7 * cos2 * torch.sin(2 * lon)
    c = transform.analysis(transform.from_latlon(psi)[..., None])
    u_cos, v_cos, other = transform.winds_and(c, c)
    to = transform.to_latlon
    expected_u = 20.0 * cos2 + 2e7 / EARTH_RADIUS * mu * cos2 * torch.sin(2 * lon)
    expected_v = 2e7 / EARTH_RADIUS * cos2 * torch.cos(2 * lon)
    torch.testing.assert_close(to(u_cos)[0], expected_u, atol=1e-8, rtol=0)
    torch.testing.assert_close(to(v_cos)[0], expected_v, atol=1e-8, rtol=0)
    torch.testing.assert_close(to(other)[0], psi, atol=1e-3, rtol=0)


def test_rotational_wind_has_its_vorticity_and_no_divergence(transform: Transform) -> None:
    psi = random_field(transform, 2) * 1e6
    u, v, _ = transform.winds_and(psi, psi)
    zeta = psi * transform.expand(transform.laplacian, psi)
    scale = float(zeta.abs().max())
    curl = transform.divergence(torch.stack([v, -u]))
    assert float((curl - zeta).abs().max()) < 1e-11 * scale
    assert float(transform.divergence(torch.stack([u, v])).abs().max()) < 1e-11 * scale


def test_linear_balance_solves_its_equation(transform: Transform) -> None:
    psi = random_field(transform, 1) * 1e6
    u, v, _ = transform.winds_and(psi, psi)
    mu = torch.as_tensor(transform.mu)[:, None].expand(transform.nlat, transform.nlon)
    f = 2 * OMEGA * transform.from_latlon(mu)[..., None]
    # grad psi = (v, -u)
    right = transform.divergence(torch.stack([f * v, -f * u]))
    phi = transform.linear_balance(psi, OMEGA)
    left = phi * transform.expand(transform.laplacian, phi)
    assert float((left - right).abs().max()) < 1e-11 * float(right.abs().max())


def test_resampling_keeps_the_common_waves() -> None:
    fine, coarse = Transform(42, 128, dtype=torch.float64), Transform(21, 64, dtype=torch.float64)
    c = random_field(coarse, 2)
    up = fine.resample(c, coarse)
    torch.testing.assert_close(coarse.resample(up, fine), c)
    assert float(fine.mean_square(up)[0]) == pytest.approx(float(coarse.mean_square(c)[0]))
