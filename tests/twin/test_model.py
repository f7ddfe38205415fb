"""The quasi-geostrophic model: inversion, conservation, friction, forcing, blow-up."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from weatherpp.errors import WeatherppError
from weatherpp.twin import settings
from weatherpp.twin.forcing import reference_streamfunction, set_source
from weatherpp.twin.model import QGModel

# so slow that nothing is damped within a test
FREE = replace(settings.FORECAST, relax_days=1e12, ekman_days=1e12, diffusion_days=1e12)


@pytest.fixture(scope="module")
def free() -> QGModel:
    return QGModel(replace(FREE, steps_per_day=48), dtype=torch.float64)


@pytest.fixture(scope="module")
def state(free: QGModel) -> torch.Tensor:
    """Potential vorticity of the reference state with a disturbance, T21, two members."""
    generator = torch.Generator().manual_seed(1)
    shape = (*free.transform.shape, 3, 2)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64) * 3e5
    noise = noise * torch.exp(-(((free.transform.n - 8) / 4) ** 2))[..., None, None] * free.mask
    psi = reference_streamfunction(free.transform, settings.REFERENCE) + noise
    return free.vorticity(psi)


def mean_product(model: QGModel, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Global mean of a product, (level, batch)."""
    weight = torch.where(model.transform.m > 0, 2.0, 1.0).to(a.dtype)[..., None, None]
    return (weight * a * b).sum(dim=(0, 1, 2, 3, 4))


def test_streamfunction_inverts_vorticity(free: QGModel, state: torch.Tensor) -> None:
    again = free.vorticity(free.streamfunction(state))
    assert float((again - state).abs().max()) < 1e-10 * float(state.abs().max())


def test_advection_changes_neither_energy_nor_enstrophy(free: QGModel, state: torch.Tensor) -> None:
    psi = free.streamfunction(state)
    total = state + free._planetary
    tendency = free.divergence(psi, state, friction=False)
    # d(energy)/dt = mean(psi div), summed over levels; d(enstrophy)/dt = -mean(q div)
    for other in (psi, total):
        product = mean_product(free, other, tendency)
        scale = (free.transform.mean_square(other) * free.transform.mean_square(tendency)) ** 0.5
        assert float((product / scale).abs().max()) < 1e-12


def test_energy_and_enstrophy_over_two_days(free: QGModel, state: torch.Tensor) -> None:
    def invariants(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        energy = -0.5 * mean_product(free, free.streamfunction(q), q).sum(0)
        return energy, free.transform.mean_square(q + free._planetary)

    energy, enstrophy = invariants(state)
    later = free.run(state, 48)
    assert float((free.streamfunction(later) - free.streamfunction(state)).abs().max()) > 1e5
    energy_later, enstrophy_later = invariants(later)
    torch.testing.assert_close(energy_later, energy, rtol=1e-5, atol=0)
    torch.testing.assert_close(enstrophy_later, enstrophy, rtol=1e-5, atol=0)


def test_relaxation_and_friction_take_energy_out(state: torch.Tensor) -> None:
    model = QGModel(settings.FORECAST, dtype=torch.float64)
    psi = model.streamfunction(state)
    drag = model.divergence(psi, state, friction=False) - model.divergence(psi, state)
    for tendency in (relaxation(model, state), drag):
        assert float(-mean_product(model, psi, tendency).sum(0).max()) < 0


def relaxation(model: QGModel, q: torch.Tensor) -> torch.Tensor:
    """The part of the tendency that is left without transport and source."""
    return model.tendency(q) + model.divergence(model.streamfunction(q), q) - model.source


def test_relaxation_damps_the_thickness_at_its_rate() -> None:
    model = QGModel(settings.FORECAST, dtype=torch.float64)
    psi = torch.zeros(*model.transform.shape, 3, 1, dtype=torch.float64)
    psi[1, 0, 0, 0, 0, 0] = 1e7  # m = 1, n = 1 at 200 hPa only
    expected = torch.zeros_like(psi)
    rate = 1e7 / 700e3**2 / (settings.FORECAST.relax_days * 86400.0)
    expected[1, 0, 0, 0, 0, :2, 0] = torch.tensor([rate, -rate], dtype=torch.float64)
    found = relaxation(model, model.vorticity(psi))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * rate)


def test_the_source_holds_the_reference_state() -> None:
    model = QGModel(settings.FORECAST, dtype=torch.float64)
    q = model.vorticity(set_source(model, settings.REFERENCE))
    free_tendency = model.tendency(q) - model.source
    assert float(model.tendency(q).abs().max()) < 1e-9 * float(free_tendency.abs().max())


def test_single_precision_is_near_double_after_a_day(state: torch.Tensor) -> None:
    double = QGModel(settings.FORECAST, dtype=torch.float64)
    single = QGModel(settings.FORECAST)
    for model in (double, single):
        set_source(model, settings.REFERENCE)
    a = double.streamfunction(double.run(state, 24))
    b = single.streamfunction(single.run(state.float(), 24))
    assert float((a - b).abs().max()) < 1e-3 * float(a.abs().max())


def test_blow_up_is_an_error(state: torch.Tensor) -> None:
    model = QGModel(replace(settings.FORECAST, steps_per_day=1))
    with pytest.raises(WeatherppError, match="blown up"):
        model.run(state.float() * 20, 24 * 40)


def test_odd_lengths_are_refused(free: QGModel, state: torch.Tensor) -> None:
    with pytest.raises(WeatherppError, match="whole number of steps"):
        free.run(state, 0.3)
