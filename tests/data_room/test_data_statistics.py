"""Statistics of an archive against numpy on all values at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_archive, make_datasets

from weatherpp.data.archive import Archive, write_archive
from weatherpp.data.statistics import LEAST_SHARE, Moments, statistics
from weatherpp.errors import ConfigError, InputError

HERE = {"years": 1, "dates": 6, "members": 3, "shape": (4, 8)}


def all_times(archive: Archive) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(archive.forecast["time"].values)


def changed(path: Path, change: dict[str, np.ndarray]) -> Archive:
    """An archive in which variables have other values."""
    forecast, _, _ = make_datasets(**HERE)  # type: ignore[arg-type]
    for name, values in change.items():
        forecast[name] = forecast[name].copy(data=values)
    return write_archive(path, forecast)


@pytest.mark.parametrize(("offset", "spread"), [(280.0, 0.01), (5e4, 0.5), (0.0, 1e-6)])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_moments_of_float32_far_from_zero(offset: float, spread: float, gaps: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(offset, spread, (40, 3, 700)).astype(np.float32)
    x[rng.random(x.shape) < gaps] = np.nan
    x[:, 2, 5] = np.nan
    x[7, 0, 0] = np.inf
    out = Moments.of(x)
    wide = np.ma.masked_invalid(x.astype(np.float64))
    np.testing.assert_array_equal(out.count, wide.count(0))
    np.testing.assert_allclose(out.mean, wide.mean(0).filled(0), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(out.variance, wide.var(0).filled(0), rtol=1e-6, atol=0)
    whole = out.pooled()
    assert float(whole.mean) == pytest.approx(wide.mean(), rel=1e-13)
    assert float(whole.variance) == pytest.approx(wide.var(), rel=1e-9)


def test_first_value_far_from_all_others() -> None:
    x = np.random.default_rng(1).normal(0, 1, (50, 5))
    x[0] = 1e9
    np.testing.assert_allclose(Moments.of(x).variance, x.var(0), rtol=1e-12)
    x[0] = 3e4
    np.testing.assert_allclose(Moments.of(x).variance, x.var(0), rtol=1e-12)


@given(cuts=st.sets(st.integers(1, 29)), seed=st.integers(0, 2**16))
def test_parts_merge_in_any_order(cuts: set[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(5e4, 2, (30, 4)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = np.nan
    parts = np.split(x, sorted(cuts))
    total = Moments.empty((4,))
    for at in rng.permutation(len(parts)):
        total.add(Moments.of(parts[at]))
    whole = Moments.of(x)
    np.testing.assert_array_equal(total.count, whole.count)
    np.testing.assert_allclose(total.mean, whole.mean, rtol=1e-14)
    np.testing.assert_allclose(total.m2, whole.m2, rtol=1e-9, atol=1e-9)


def test_modes_against_numpy(tiny_archive: Archive) -> None:
    times = all_times(tiny_archive)[[3, 4, 11, 30, 31, 59]]
    z = tiny_archive.forecast["z"].sel(time=times).load().astype(np.float64)
    point = statistics(tiny_archive, times, "point")
    assert [str(name) for name in point["channel"].values][-6:] == [
        "z200@24h", "z500@24h", "z800@24h", "z200@48h", "z500@48h", "z800@48h"
    ]  # fmt: skip
    own = point.sel(channel="z500@48h")
    expected = z.sel(level=500, step="48h")
    np.testing.assert_allclose(own["mean"], expected.mean(("time", "number")), rtol=1e-12)
    np.testing.assert_allclose(own["std"], expected.std(("time", "number")), rtol=1e-9)
    assert (own["count"] == 60).all()
    level = statistics(tiny_archive, times, "level")
    for lead in ("24h", "48h"):
        own = level.sel(channel=f"z800@{lead}")
        assert float(own["mean"]) == pytest.approx(float(z.sel(level=800).mean()), rel=1e-12)
        assert float(own["std"]) == pytest.approx(float(z.sel(level=800).std()), rel=1e-9)
    whole = statistics(tiny_archive, times, "global")
    some = z.sel(level=[200, 500, 800])  # it does not exist on the others
    for name in point["channel"].values:
        if name.startswith("z"):
            assert float(whole["mean"].sel(channel=name)) == pytest.approx(float(some.mean()))
            assert float(whole["std"].sel(channel=name)) == pytest.approx(float(some.std()))


def test_local_is_the_box_around_a_point(tiny_archive: Archive) -> None:
    times = all_times(tiny_archive)
    out = statistics(
        tiny_archive, times, "local", variables=["t"], periodic=True, box=3, smoothing=0
    )
    t = tiny_archive.forecast["t"].sel(level=350, step="24h").load().astype(np.float64)
    box = t.roll(longitude=1, roll_coords=False).isel(latitude=slice(4, 7), longitude=slice(0, 3))
    own = out.sel(channel="t350@24h").isel(latitude=5, longitude=0)
    assert float(own["mean"]) == pytest.approx(float(box.mean()))
    assert float(own["std"]) == pytest.approx(float(box.std()))


def test_choice_of_members_levels_and_leads(tiny_archive: Archive) -> None:
    out = statistics(
        tiny_archive, all_times(tiny_archive), "level", variables=["z"], levels=[200, 800],
        lead_hours=[48], members=[7, 2],
    )  # fmt: skip
    assert out["channel"].values.tolist() == ["z200@48h", "z800@48h"]
    z = tiny_archive.forecast["z"].sel(level=800, step="48h", number=[2, 7]).astype(np.float64)
    assert float(out["std"][1]) == pytest.approx(float(z.std()))


def test_threads_do_not_change_the_result(tiny_archive: Archive) -> None:
    times = all_times(tiny_archive)
    one, many = (statistics(tiny_archive, times, "point", threads=n) for n in (1, 3))
    xr.testing.assert_identical(one, many)


def test_surface_fields_and_other_chunks(tmp_path: Path) -> None:
    forecast, _, _ = make_datasets(**HERE)  # type: ignore[arg-type]
    surface = forecast["t"].sel(level=650, drop=True).rename("t2m").drop_attrs()
    forecast = forecast.assign(t2m=surface.assign_attrs(units="K"))
    archive = write_archive(tmp_path / "one", forecast)
    others = tmp_path / "two"
    chunks = {"time": 4, "step": 1, "number": 2, "level": 2, "latitude": 3, "longitude": 8}
    encoding = {
        name: {"chunks": tuple(chunks[str(dim)] for dim in da.dims)}
        for name, da in forecast.data_vars.items()
    }
    forecast.to_zarr(others, group="forecast", zarr_format=3, encoding=encoding, consolidated=False)
    times = all_times(archive)[1:]
    one, two = (statistics(Archive.open(path), times, "point") for path in (archive.path, others))
    # other parts are merged, so digits at the end differ
    xr.testing.assert_allclose(one, two, rtol=1e-10)
    expected = surface.isel(time=slice(1, None), step=1).astype(np.float64)
    own = one.sel(channel="t2m@48h")["mean"]
    np.testing.assert_allclose(own, expected.mean(("time", "number")), rtol=1e-12)


def test_constant_and_missing_points_are_bounded(tmp_path: Path) -> None:
    t = make_datasets(**HERE)[0]["t"].values.copy()  # type: ignore[arg-type]
    t[..., 1, :, :] = 273.15  # level 350
    t[..., 3, 0, 0] = 5.0  # level 650
    t[..., 3, 1, 1] = np.nan
    archive = changed(tmp_path / "a", {"t": t})
    out = statistics(archive, all_times(archive), "point", variables=["t"])
    flat = out.sel(channel="t350@24h")
    np.testing.assert_allclose(flat["mean"], 273.15, rtol=1e-6)
    np.testing.assert_allclose(flat["std"], LEAST_SHARE)
    own = out.sel(channel="t650@24h")
    values = t[:, 0, :, 3].astype(np.float64)
    typical = np.sqrt(values.var((0, 1))[np.isfinite(values[0, 0])].mean())
    assert 0.9 < float(own["std"][0, 0]) / (LEAST_SHARE * typical) < 1.1
    assert float(own["mean"][1, 1]) == pytest.approx(np.nanmean(values))
    assert float(own["std"][1, 1]) == pytest.approx(np.nanstd(values))
    assert float(own["count"][1, 1]) == 0
    level = statistics(archive, all_times(archive), "level", variables=["t"], levels=[350])
    np.testing.assert_array_equal(level["std"], 1)
    for each in (out, level):
        assert np.isfinite(each["mean"]).all()
        assert (each["std"] > 0).all()


def test_a_field_without_any_value_is_an_error(tmp_path: Path) -> None:
    z = make_datasets(**HERE)[0]["z"].values.copy()  # type: ignore[arg-type]
    z[:3, 1, :, 2] = np.nan
    archive = changed(tmp_path / "a", {"z": z})
    times = all_times(archive)
    assert (statistics(archive, times, "point").sel(channel="z500@48h")["count"] == 9).all()
    with pytest.raises(InputError, match="z500@48h has no value at any training date"):
        statistics(archive, times[:3], "level")


def test_what_cannot_be_done_is_named(tiny_archive: Archive) -> None:
    times = all_times(tiny_archive)
    with pytest.raises(ConfigError, match="'median'; known: local, point, level, global"):
        statistics(tiny_archive, times, "median")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no forecast of 1999-01-01"):
        statistics(tiny_archive, pd.DatetimeIndex(["1999-01-01"]), "level")
    with pytest.raises(InputError, match="no dates"):
        statistics(tiny_archive, times[:0], "level")
    with pytest.raises(InputError, match="no member 77"):
        statistics(tiny_archive, times, "level", members=[77])


def test_damaged_chunk_is_named_by_variable_and_date(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a", **HERE)
    next((archive.path / "forecast/z/c").rglob("2/0/0")).write_bytes(b"no zstd")
    with pytest.raises(InputError, match="z at 2001-01-01 00Z cannot be read") as error:
        statistics(archive, all_times(archive), "level")
    assert "\n" not in str(error.value)


def test_kept_result_is_known_by_dates_and_content(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a", **HERE)
    times, kept = all_times(archive), tmp_path / "kept"
    before = archive.identity()
    first = statistics(archive, times[:4], "point", keep=kept)
    assert archive.identity() == before
    file = next(kept.iterdir())
    stamp = file.stat().st_mtime_ns
    again = statistics(archive, times[:4], "point", keep=kept)
    assert file.stat().st_mtime_ns == stamp
    np.testing.assert_array_equal(again["std"], first["std"])
    assert again["channel"].values.tolist() == first["channel"].values.tolist()
    assert again.attrs["mode"] == "point"
    statistics(archive, times[:3], "point", keep=kept)
    statistics(archive, times[:4], "level", keep=kept)
    assert len(list(kept.iterdir())) == 3
