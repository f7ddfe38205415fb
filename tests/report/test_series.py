from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from weatherpp.errors import InputError
from weatherpp.report import ensembles, grids, series, style, tracks
from weatherpp.report.content import Figure

HOUR = np.timedelta64(1, "h")
START = np.datetime64("2020-03-01T00:00")


def members(count: int = 11, leads: int = 10, units: str = "K") -> xr.DataArray:
    steps = 6 * np.arange(1, leads + 1)
    values = 280 + np.arange(count)[None, :] + np.sin(steps / 12)[:, None]
    return xr.DataArray(
        values,
        dims=("step", "number"),
        coords={
            "step": steps * HOUR,
            "number": np.arange(count),
            "time": START,
            "latitude": -33.9,
            "longitude": 341.4,
        },
        name="t2m",
        attrs={"units": units, "long_name": "2 metre temperature"},
    )


def colours(figure: Figure) -> np.ndarray:
    return np.unique(np.asarray(Image.open(io.BytesIO(figure.png)).convert("RGB")).reshape(-1, 3),
                     axis=0)  # fmt: skip


def test_plume_tells_place_start_and_numbers() -> None:
    raw = members()
    post = raw.quantile([0.1, 0.25, 0.5, 0.75, 0.9], dim="number", keep_attrs=True)
    truth = raw.isel(number=3, drop=True)
    figure = series.plume({"raw": raw, "mixed": post}, truth, title="A case")
    low = 281 + np.sin(5.0)
    assert f"raw: at 60 h median {low + 4:.0f}, from {low:.0f} (10 %)" in figure.alt
    assert figure.alt.count(f"to {low + 8:.0f} (90 %)") == 2  # quantiles give what members give
    assert "2 metre temperature (K)" in figure.caption
    assert "analysis" in figure.caption
    assert figure.chart
    assert figure == series.plume({"raw": raw, "mixed": post}, truth, title="A case")


def test_truth_by_valid_time_lies_where_truth_by_step_does() -> None:
    raw = members()
    truth = raw.isel(number=3, drop=True)
    dated = xr.DataArray(
        truth.values, dims="valid_time", coords={"valid_time": START + truth["step"].values}
    )
    start = ensembles.start_of(raw)
    for one, two in zip(
        ensembles.truth_points(truth, start), ensembles.truth_points(dated, start), strict=True
    ):
        np.testing.assert_allclose(one, two)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8), st.floats(0, 1))
def test_quantiles_of_members_are_numpys(values: list[float], level: float) -> None:
    field = xr.DataArray([values], dims=("step", "number"), coords={"step": [6 * HOUR]})
    ours = ensembles.ensemble_quantiles(field, [level])
    np.testing.assert_allclose(ours, [[np.quantile(values, level)]], atol=1e-9)


def test_quantiles_beyond_those_given_are_missing() -> None:
    field = xr.DataArray(
        [[1.0, 2.0, 3.0]],
        dims=("step", "quantile"),
        coords={"step": [6 * HOUR], "quantile": np.array([0.25, 0.5, 0.75], dtype="float32")},
    )
    found = ensembles.ensemble_quantiles(field, [0.1, 0.25, 0.375, 0.75, 0.9])[:, 0]
    np.testing.assert_allclose(found, [np.nan, 1.0, 1.5, 3.0, np.nan])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.isel(number=0), "needs the dimensions step and number"),
        (lambda f: f.rename(step="lead"), "needs the dimension step"),
        (lambda f: f.isel(step=slice(None, None, -1)), "not ascending"),
    ],
)
def test_what_is_no_plume_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        series.plume({"raw": change(members())}, None, title="none")


def test_units_are_not_mixed() -> None:
    with pytest.raises(InputError, match="units K and degC"):
        series.plume({"a": members(), "b": members(units="degC")}, None, title="none")
    with pytest.raises(InputError, match="no forecast"):
        series.plume({}, None, title="none")


def test_meteogram_has_a_row_for_each_variable() -> None:
    raw = members()
    rain = (raw - 283).clip(min=0).assign_attrs(units="m", long_name="total precipitation")
    rows = {"2 metre temperature": {"raw": raw, "mixed": raw + 1}, "Rain": {"raw": rain}}
    truth = {"Rain": rain.isel(number=0, drop=True)}
    figure = series.meteogram(rows, truth, title="Cape Town")
    assert "2 metre temperature, mixed: at 60 h median" in figure.alt
    assert "Rain, raw: at 60 h median" in figure.alt
    assert "Dots: the analysis" in figure.caption
    single = series.meteogram({"2 metre temperature": {"raw": raw}}, title="Cape Town")
    assert Image.open(io.BytesIO(figure.png)).height > Image.open(io.BytesIO(single.png)).height


def storm(lon: float = 175.0) -> pd.DataFrame:
    """Members that cross the dateline side by side; every other one ends early."""
    times = pd.date_range("2021-08-26", periods=9, freq="6h")
    rows = [
        ("raw", m, time, 20.0 + i + 0.2 * m, lon + i, 1e5 - 300.0 * i)
        for m in range(6)
        for i, time in enumerate(times[: 9 if m % 3 else 5])
    ]
    return pd.DataFrame(rows, columns=list(tracks.TRACK_COLUMNS))


def test_mean_track_crosses_the_dateline_and_ends_with_half_of_the_members() -> None:
    mean = tracks.mean_track(storm())
    # one degree of longitude a step, on a sphere: mean latitudes a little nearer the pole
    np.testing.assert_allclose((mean["longitude"] - 175) % 360, np.arange(9), atol=1e-9)
    np.testing.assert_allclose(mean["latitude"][:5], 20.5 + np.arange(5), atol=0.02)
    fewer = storm()
    late = fewer["time"] > fewer["time"].min() + pd.Timedelta("30h")
    fewer = fewer[~(late & (fewer["number"] > 2))]
    assert len(tracks.mean_track(fewer)) == 6


def test_track_map_tells_the_distance_from_the_analysis() -> None:
    table = storm(300.0)
    truth = tracks.mean_track(table).assign(latitude=lambda t: t["latitude"] + 1)
    figure = series.track_map(table, truth, title="A storm", value_label="Least pressure (Pa)")
    assert "6 members; on 28 August, 00:00 UTC their mean is 111 km" in figure.alt
    assert not figure.chart
    plain = series.track_map(table, None, title="A storm", area=(40, 10, -80, -40))
    assert "analysis" not in plain.caption


def test_track_without_positions_is_refused() -> None:
    with pytest.raises(InputError, match="no position of a track"):
        series.track_map(storm().assign(latitude=np.nan), None, title="none")
    with pytest.raises(InputError, match="lacks the column"):
        series.track_map(storm().drop(columns="value"), None, title="none")


def drawn_track(lons: list[float], lats: list[float], area: grids.Area) -> np.ndarray:
    ax = style.new_figure(3, 3).add_subplot()
    tracks._line(ax, pd.DataFrame({"longitude": lons, "latitude": lats}), area)
    return np.asarray(ax.lines[0].get_xdata(), dtype=float)


def test_a_track_is_broken_at_the_edge_of_the_world_alone() -> None:
    world = grids.area_within(60, -60, -180, 180)
    assert np.isnan(drawn_track([170, 178, -175], [10, 12, 14], world)).sum() == 1
    narrow = grids.area_within(70, 50, 10, 14)
    assert not np.isnan(drawn_track([12, 12, 12], [52, 60, 69], narrow)).any()
    lons, lats = [0.0, 100.0, 179.0, -100.0], [88.0, 89.0, 89.0, 88.0]
    pole = grids.area_around(np.array(lons), np.array(lats), 0.1, tracks.LEAST_KM)
    assert not np.isnan(drawn_track(lons, lats, pole)).any()


def test_a_map_of_few_positions_shows_their_surroundings() -> None:
    few = storm().query("number == 0").iloc[:2]
    area = tracks._area(few, None, None)
    assert area.north - area.south >= 1.5e6
    assert area.east - area.west >= 1.5e6


def lead_table() -> pd.DataFrame:
    rows = [
        (method, hours, size * hours / 24, size * hours / 24 - 0.1, size * hours / 24 + 0.1, "K")
        for method, size in (("raw", 1.0), ("mixed", 0.8))
        for hours in (24, 48, 120)
    ]
    return pd.DataFrame(rows, columns=list(series.LEAD_COLUMNS))


def test_score_over_leads_tells_each_value() -> None:
    figure = series.score_over_leads(lead_table(), name="CRPS", title="Temperature")
    assert "mixed: 24 h 0.800, 48 h 1.60, 120 h 4.00" in figure.alt
    assert "CRPS (K)" in figure.caption
    with pytest.raises(InputError, match="units K and m"):
        series.score_over_leads(lead_table().assign(units=["K"] * 5 + ["m"]))
    with pytest.raises(InputError, match="no score by lead time"):
        series.score_over_leads(lead_table().assign(value=np.nan))


def test_gap_of_dates_interrupts_the_line() -> None:
    dates = pd.date_range("2026-01-01", periods=10).delete([4, 5])
    rows = pd.DataFrame({"date": dates, "value": np.arange(8.0)})
    there, values = series._with_gaps(rows, pd.Timedelta("1D"))
    assert np.isnan(values).sum() == 1
    assert there[int(np.flatnonzero(np.isnan(values))[0])] == pd.Timestamp("2026-01-05")
    assert there.is_monotonic_increasing
    table = rows.assign(method="raw")
    figure = series.score_over_dates(table, name="CRPS", units="K")
    assert "1 January 2026 to 10 January 2026. raw: mean 3.50 over 8 dates" in figure.alt
    single = series.score_over_dates(table[:1], name="CRPS", units="K")
    assert "by date, 1 January 2026. raw: mean 0 over 1 date." in single.alt
    whole = series.score_over_dates(
        table.assign(date=pd.date_range("2026-01-01", periods=8)), name="CRPS", units="K"
    )
    assert figure.png != whole.png


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("days", [2, 4, 5, 31])
def test_any_number_of_days_has_round_ticks(days: int) -> None:
    dates = pd.date_range("2026-01-01", periods=days)
    table = pd.DataFrame({"method": "raw", "date": dates, "value": np.arange(float(days))})
    assert series.score_over_dates(table, name="CRPS", units="K").png


def test_nothing_by_date_is_refused() -> None:
    table = pd.DataFrame({"method": ["raw"], "date": ["2026-01-01"], "value": [np.nan]})
    with pytest.raises(InputError, match="no score by date"):
        series.score_over_dates(table)


@pytest.mark.parametrize(
    ("hours", "reach", "expected"),
    [
        ([24, 48, 72], (-4, 90), [24, 48, 72]),
        ([6, 12, 24, 48, 240], (0, 250), [48, 96, 144, 192, 240]),
        ([24], (20, 28), [24]),
    ],
)
def test_ticks_are_lead_times_where_they_fit(
    hours: list[int], reach: tuple[float, float], expected: list[int]
) -> None:
    ax = style.new_figure(7, 2).add_subplot()
    ax.set_xlim(*reach)
    series._lead_axis(ax, np.array(hours, dtype=float), pd.Timestamp(START), wide=True)
    assert list(ax.get_xticks()) == expected
    assert ax.get_xticklabels()[0].get_text() == f"{expected[0]}\n" + (
        "Mon 2 Mar" if expected[0] == 24 else "Tue 3 Mar"
    )
