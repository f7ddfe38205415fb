"""Is it weather? Climate, growth of errors and ensemble, with wide bounds: the sample is small."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.twin import climate, settings
from weatherpp.twin.ensemble import Noise, build_models, run_batched, stream_seed
from weatherpp.twin.fields import standard_geopotential
from weatherpp.twin.spectral import Transform


@pytest.fixture(scope="module")
def forecast(small_twin: Path) -> xr.Dataset:
    return xr.open_zarr(small_twin, group="forecast", consolidated=False, decode_timedelta=True)


@pytest.fixture(scope="module")
def analysis(small_twin: Path) -> xr.Dataset:
    return xr.open_zarr(small_twin, group="analysis", consolidated=False).load()


def test_jets(analysis: xr.Dataset) -> None:
    rows = {name: value for name, value, _ in climate.jets(analysis)}
    assert 33 < rows["northern zonal-mean jet, 200 hPa"] < 52
    assert 28 < rows["northern jet latitude"] < 50
    assert 22 < rows["southern zonal-mean jet, 200 hPa"] < 48
    assert 50 < rows["local jet maximum, East Asia and Pacific"] < 85
    assert 45 < rows["local jet maximum, America and Atlantic"] < 80
    assert rows["largest wind of all, 200 hPa"] < 130


def test_storm_tracks_are_regional(analysis: xr.Dataset) -> None:
    rows = {name: value for name, value, _ in climate.storm_tracks(analysis)}
    assert 80 < rows["z500 std near 50 deg, mean over longitude"] < 150
    ratio = (
        rows["z500 std near 50 deg, most over longitude"]
        / rows["z500 std near 50 deg, least over longitude"]
    )
    assert ratio > 1.4
    assert 50 < rows["z500 std near -50 deg, mean over longitude"] < 130
    assert 45 < rows["stationary wave z500, 40-65 N, rms"] < 120


def test_eddy_energy_and_spectrum(analysis: xr.Dataset) -> None:
    rows = {name: value for name, value, _ in climate.eddy_energy(analysis)}
    assert 90 < rows["eddy kinetic energy 200 hPa, 20-80 N"] < 260
    transform = Transform(21, 64)
    psi = climate.streamfunctions(transform, analysis["vo"])
    slope = climate.spectrum_slope(climate.energy_spectrum(transform, psi[..., 1, :]), 8, 18)
    assert -3.8 < slope < -2.2


def test_energy_spectrum_adds_up_to_the_kinetic_energy() -> None:
    transform = Transform(21, 64, dtype=torch.float64)
    psi = Noise(transform, settings.CYCLE, [1]).draw(2)
    energy = climate.energy_spectrum(transform, psi[..., 1, :])
    u, v, _ = transform.winds_and(psi[..., 1, :], psi[..., 1, :])
    cos = torch.as_tensor(np.cos(np.radians(transform.latitude)))[:, None]
    squares = [(transform.to_latlon(w) / cos) ** 2 for w in (u, v)]
    mean = (0.5 * sum(squares).mean((0, 2)) * torch.as_tensor(transform.weight / 2)).sum()
    assert energy.sum() == pytest.approx(float(mean), rel=1e-3)
    power = np.concatenate([[0.0], np.arange(1.0, 30.0) ** -3.0])
    assert climate.spectrum_slope(power, 5, 15) == pytest.approx(-3.0)


def test_errors_double_in_a_few_days(analysis: xr.Dataset) -> None:
    truth, model = build_models("cpu")
    start = climate.streamfunctions(
        model.transform, analysis["vo"].isel(valid_time=[10, 22, 34, 46])
    )
    with torch.inference_mode():
        psi = run_batched(truth, truth.transform.resample(start, model.transform), 24 * 3)
        # measured from larger samples: 3.6 to 4.6 days
        assert 1.5 < climate.doubling_time(truth, psi, first=3, last=7) < 5.5


def test_spread_is_somewhat_too_small(forecast: xr.Dataset, analysis: xr.Dataset) -> None:
    rows = climate.spread_error(forecast, analysis, "z", 500)
    ratios = [spread / error for spread, error, _ in rows]
    assert 0.75 < ratios[0] < 0.97
    assert 0.55 < ratios[2] < 0.88
    errors = [error for _, error, _ in rows]
    assert errors[0] < errors[1] < errors[2]


def test_perturbed_members_are_exchangeable(forecast: xr.Dataset) -> None:
    z = forecast["z"].sel(level=500, number=slice(1, None)).isel(step=2).load()
    z = z - z.mean("number")
    variance = climate.weighted_mean(z**2).mean("time")
    assert float(variance.max() / variance.min()) < 1.6
    # no member leans to one side: the mean of 16 dates is small beside their scatter
    lean = climate.weighted_mean(z.mean("time") ** 2) / variance
    assert float(lean.max()) < 3.0 / z.sizes["time"]


def test_noise_has_its_stated_size_and_streams_are_independent() -> None:
    transform = Transform(21, 64)
    noise = Noise(transform, settings.CYCLE, [stream_seed(1, 2001), stream_seed(1, 2002)])
    draw = noise.draw(40)
    assert draw.shape == (*transform.shape, 3, 80)
    height = transform.mean_square(draw).mean(-1).sqrt() * 1e-4 / 9.80665
    np.testing.assert_allclose(height, settings.CYCLE.level_ratio, rtol=0.1)
    alone = Noise(transform, settings.CYCLE, [stream_seed(1, 2002)]).draw(40)
    assert torch.equal(alone, draw[..., 40:])


def test_temperature_is_that_of_the_thickness(analysis: xr.Dataset) -> None:
    z = analysis["z"]
    t = (z.sel(level=500) - z.sel(level=800)) / (287.05 * np.log(800 / 500))
    np.testing.assert_allclose(analysis["t"].sel(level=650), t, rtol=1e-4)
    weighted = climate.weighted_mean(z.sel(level=500)).mean()
    assert float(weighted) == pytest.approx(standard_geopotential(500), rel=0.01)


@pytest.mark.parametrize(("pressure", "height"), [(500, 5574.4), (200, 11784.1), (800, 1948.7)])
def test_standard_atmosphere(pressure: float, height: float) -> None:
    assert standard_geopotential(pressure) / 9.80665 == pytest.approx(height, abs=3.0)


def test_report_prints_every_part(small_twin: Path) -> None:
    names = [name for name, _, _ in climate.report(small_twin, growth=False)]
    assert any(name.startswith("limit z500") for name in names)
    assert len(names) == len(set(names))
    with pytest.raises(InputError):
        climate.report(small_twin / "nothing")


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("WEATHERPP_LONG"), reason="five minutes alone; set WEATHERPP_LONG to run it"
)
def test_ten_years_without_a_blow_up() -> None:
    truth, model = build_models("cpu")
    seeds = [stream_seed(5, year) for year in range(10)]
    noise = 20.0 * Noise(model.transform, settings.CYCLE, seeds).draw(1)
    with torch.inference_mode():
        psi = run_batched(model, noise, 24 * 30)
        psi = run_batched(truth, truth.transform.resample(psi, model.transform), 24 * 365)
    assert bool(torch.isfinite(psi).all())
