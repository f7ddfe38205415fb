"""Amounts summed over time: what sources say of it, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from raw_data import H, ensemble, field

from weatherpp.data import netcdf
from weatherpp.data.amounts import since_start
from weatherpp.data.canonical import canonicalise
from weatherpp.data.catalog import SourceVariable
from weatherpp.data.join import join
from weatherpp.errors import InputError


def rain(leads: list[int], amounts: list[float], **attrs: Any) -> xr.Dataset:
    ds = ensemble(leads=leads).rename(t2m="tp")
    ds["tp"] = ds["tp"] * 0 + xr.DataArray(np.float32(amounts), dims="step")
    ds["tp"].attrs = {"units": "m", **attrs}
    return ds


AMOUNTS: dict[str, tuple[list[int], list[float], dict[str, Any], list[float]]] = {
    "since the start": ([6, 12], [1, 3], {"accumulation": "since_start"}, [1, 3]),
    "the file says so": ([6, 12], [1, 3], {"step_ranges": ["0-6", "0-12"]}, [1, 3]),
    "since the previous": ([6, 12, 24], [1, 2, 4], {"accumulation": "since_previous"}, [1, 3, 7]),
    "buckets of 6 h, as of GEFS": (
        [3, 6, 9, 12, 15],
        [1, 2, 4, 8, 16],
        {"accumulation": "6h", "step_ranges": ["0-3", "0-6", "6-9", "6-12", "12-15"]},
        [1, 2, 6, 10, 26],
    ),
    "no rain at the start": ([0, 6], [0, 2], {"accumulation": "since_previous"}, [0, 2]),
}


@pytest.mark.parametrize("case", AMOUNTS)
def test_amounts_are_summed_since_the_start(case: str) -> None:
    leads, amounts, attrs, wanted = AMOUNTS[case]
    out = since_start(canonicalise(rain(leads, amounts, **attrs).chunk(step=1), "x"), "x")
    assert out["tp"].chunks is not None
    assert out["tp"].dtype == np.float32
    assert out["tp"].attrs["accumulation"] == "since_start"
    np.testing.assert_allclose(out["tp"].isel(time=0, number=1)[:, 0, 0], wanted)


AMOUNTS_REFUSED: dict[str, tuple[list[int], dict[str, Any], str]] = {
    "the entry is silent": (
        [6, 12],
        {"step_ranges": ["0-6", "6-12"]},
        r"summed over 6 to 12 h, not since the start; state variables\.tp\.accumulation",
    ),
    "the entry is wrong": (
        [6, 12],
        {"step_ranges": ["0-6", "6-12"], "accumulation": "since_start"},
        "summed over 6 to 12 h; the catalog entry says accumulation: since_start, which is from 0",
    ),
    "a bucket is missing": (
        [6, 18],
        {"accumulation": "6h"},
        r"the sum from 12 to 18 h goes on from 12 h, which is not there \(there are 6, 18 h\)",
    ),
}


@pytest.mark.parametrize("case", AMOUNTS_REFUSED)
def test_amounts_over_unknown_times_are_refused(case: str) -> None:
    leads, attrs, text = AMOUNTS_REFUSED[case]
    with pytest.raises(InputError, match=text):
        since_start(canonicalise(rain(leads, [1.0, 2.0], **attrs), "x"), "x")


def test_bounds_of_lead_times_tell_what_is_summed() -> None:
    ds = rain([6, 12], [1, 2]).rename(step="forecast_period")
    ds["forecast_period"].attrs |= {"standard_name": "forecast_period", "bounds": "b"}
    ds["b"] = (("forecast_period", "two"), [[0, 6], [0, 12]])
    assert canonicalise(ds, "x")["tp"].attrs["accumulation"] == "since_start"
    ds["b"] = (("forecast_period", "two"), [[0, 6], [6, 12]])
    with pytest.raises(InputError, match="summed over 6 to 12 h"):
        canonicalise(ds, "x")


def bounded(
    folder: Path, begins: list[int], ends: list[int], dated: list[int] | None = None, **attrs: Any
) -> Path:
    """Rain of one run and two members; the bounds alone tell what it is summed over (hours)."""
    da = field("time number lat lon", len(ends), 2, 2, 3) * 0 + 1
    da.attrs = {"units": "mm", "cell_methods": "area: mean time: sum", **attrs}
    start = np.datetime64("2020-01-01T00", "ns")
    ds = xr.Dataset({"tp": da}, ensemble()[["number", "lat", "lon"]].coords)
    ds = ds.assign_coords(time=start + np.array(dated or ends) * H, forecast_reference_time=start)
    ds["time"].attrs = {"standard_name": "time", "bounds": "time_bnds"}
    ds["time_bnds"] = (("time", "bnds"), np.stack([begins, ends], -1) * H + start)
    ds["time"].encoding["units"] = "hours since 1970-01-01"
    path = folder / f"{len(list(folder.iterdir()))}.nc"
    ds.to_netcdf(path)
    return path


def rain_of(path: Path, kind: Any = "forecast", **given: Any) -> xr.DataArray:
    raw = netcdf.read(path)
    if kind == "analysis":
        raw = raw.isel(number=0, drop=True).drop_vars("forecast_reference_time")
    raw["tp"].attrs |= SourceVariable(**given).attrs()
    return since_start(canonicalise(raw, "x", kind), "x")["tp"]


def test_bounds_of_times_tell_what_is_summed(tmp_path: Path) -> None:
    path = bounded(tmp_path, [0, 0], [6, 12])
    out = rain_of(path)
    assert out.attrs["accumulation"] == "since_start"
    assert "window" not in out.attrs
    np.testing.assert_allclose(out[0, :, 0, 0, 0], [0.001, 0.001])
    path = bounded(tmp_path, [24, 48], [48, 72])  # days of which the first are not there
    out = rain_of(path)
    assert out.attrs["window"] == "24 h"
    assert "accumulation" not in out.attrs
    assert rain_of(path, period="24h").attrs == out.attrs
    truth = rain_of(path, "analysis")
    assert truth.attrs["window"] == "24 h"
    assert {"time_bounds", "step_ranges"} & set(truth.attrs) == set()
    path = bounded(tmp_path, [0, 6], [6, 12])
    added = rain_of(path, accumulation="since_previous")
    np.testing.assert_allclose(added[0, :, 0, 0, 0], [0.001, 0.002])
    # a rate is a mean over its bounds, which make an amount of it
    path = bounded(tmp_path, [0, 6], [6, 12], units="mm h-1", cell_methods="time: mean")
    np.testing.assert_allclose(rain_of(path), 0.006)
    assert rain_of(path).attrs["window"] == "6 h"
    # rows without a date and values do not disturb
    raw = netcdf.read(bounded(tmp_path, [0, 24, 48], [24, 48, 72])).load()
    raw["time"] = raw["time"].where(np.array([True, True, False])).assign_attrs(raw["time"].attrs)
    undated = canonicalise(raw.assign(tp=raw["tp"].where(raw["time"].notnull())), "x")["tp"]
    assert undated.sizes["step"] == 2
    assert undated.attrs["window"] == "24 h"
    # a value at a time has none
    path = bounded(tmp_path, [0, 6], [6, 12], cell_methods="time: point")
    assert not {"window", "accumulation"} & set(rain_of(path).attrs)


def test_bounds_of_times_that_contradict_are_refused(tmp_path: Path) -> None:
    path = bounded(tmp_path, [0, 24], [24, 48])
    with pytest.raises(InputError, match=r"2020-01-02 00:00 is over 24 h by .* says period: 6h"):
        rain_of(path, "analysis", period="6h")
    with pytest.raises(InputError, match=r"over 24 to 48 h; .* accumulation: since_start"):
        rain_of(path, accumulation="since_start")
    path = bounded(tmp_path, [0, 24], [24, 48], [12, 36])
    middle = "over 2020-01-01 00:00 to 2020-01-02 00:00 and dated 2020-01-01 12:00, not by its end"
    with pytest.raises(InputError, match=middle):
        rain_of(path, "analysis")
    assert rain_of(path, "analysis", period="24h").attrs["window"] == "24 h"
    path = bounded(tmp_path, [0, 0, 6], [3, 6, 9])
    with pytest.raises(InputError, match=r"summed over 6 to 9 h, not since the start; state"):
        rain_of(path)
    with pytest.raises(InputError, match=r"tp is a rate \(mm h-1\); state the time"):
        rain_of(bounded(tmp_path, [0, 0], [3, 6], units="mm h-1", cell_methods="time: mean"))


def test_files_that_sum_over_different_times_are_refused(tmp_path: Path) -> None:
    paths = [bounded(tmp_path, [begin], [begin + 24]) for begin in (0, 24)]
    pieces = [canonicalise(netcdf.read(path), "x").assign_attrs({"from": path}) for path in paths]
    with pytest.raises(
        InputError, match=r"sums in 0.nc \(accumulation: since_start\) are not .*24 h"
    ):
        join(pieces, "x", "forecast")
    pieces[0]["tp"].attrs = pieces[1]["tp"].attrs
    assert join(pieces, "x", "forecast")["tp"].attrs["window"] == "24 h"


def test_ranges_of_lead_times_must_be_as_long_as_the_period() -> None:
    out = canonicalise(rain([6, 12], [1, 2], step_ranges=["0-6", "6-12"], period="6h"), "x")
    assert out["tp"].attrs["window"] == "6 h"
    with pytest.raises(InputError, match="tp is over 0 to 12 h; the catalog entry says period: 6h"):
        canonicalise(rain([6, 12], [1, 2], step_ranges=["0-6", "0-12"], period="6h"), "x")


@pytest.mark.parametrize(
    ("units", "period", "wanted"),
    [
        ("mm/day", "24h", 0.002),
        ("mm day-1", "6h", 0.0005),
        ("kg m-2 s-1", "1h", 7.2),
        ("kg m**-2 s**-1", "1h", 7.2),
        ("mm", "24h", 0.002),
    ],
)
def test_rates_become_amounts_over_a_stated_period(units: str, period: str, wanted: float) -> None:
    given = SourceVariable(units=units, period=period)
    out = canonicalise(rain([24], [2.0], **given.attrs()), "x")
    assert float(out["tp"].max()) == pytest.approx(wanted)
    assert out["tp"].attrs["window"] == period.replace("h", " h")
    if units != "mm":
        with pytest.raises(InputError, match=r"tp is a rate .*variables\.tp\.period"):
            canonicalise(rain([24], [2.0], units=units), "x")
