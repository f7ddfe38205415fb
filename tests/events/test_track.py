"""Tracks of lows whose course is known, on grids that are cut in different places."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from events_sample import moving

from weatherpp.boxes import Box
from weatherpp.errors import InputError
from weatherpp.events.case import TrackRule
from weatherpp.events.track import analysis_track, centres, member_tracks, track_table

RULE = TrackRule(variable="z", level=500)
DATELINE = [(-18.2, 171.0), (-18.9, 177.3), (-20.1, 183.4), (-22.0, 189.1)]
GREENWICH = [(50.0, 350.2), (51.3, 356.1), (52.8, 3.7), (54.4, 10.2)]
GRIDS = {
    "from 0": np.arange(144) * 2.5,
    "from -180": -180 + np.arange(144) * 2.5,
    "part": 140 + np.arange(40) * 2.5,
    "part across Greenwich": -40 + np.arange(40) * 2.5,
}


def box_of(places: list[tuple[float, float]]) -> Box:
    latitudes, longitudes = zip(*places, strict=True)
    return Box(
        north=max(latitudes) + 5,
        south=min(latitudes) - 5,
        west=longitudes[0] - 10,
        east=(longitudes[-1] + 10) % 360,
    )


@pytest.mark.parametrize("peak", [0, 2, 3])
@pytest.mark.parametrize(
    ("places", "grid"),
    [
        (DATELINE, "from 0"),
        (DATELINE, "from -180"),
        (DATELINE, "part"),
        (GREENWICH, "from 0"),
        (GREENWICH, "from -180"),
        (GREENWICH, "part across Greenwich"),
    ],
)
def test_analysis_track_is_the_lows_own(
    places: list[tuple[float, float]], grid: str, peak: int
) -> None:
    analysis = moving(places, GRIDS[grid])
    times = pd.DatetimeIndex(analysis["valid_time"].values)
    track = analysis_track(analysis, times[peak], box_of(places), RULE)
    assert list(track) == list(times)
    for found, (latitude, longitude) in zip(track.values(), places, strict=True):
        assert 0 <= found.longitude < 360
        assert found.latitude == pytest.approx(latitude, abs=0.25)
        assert found.longitude == pytest.approx(longitude % 360, abs=0.25)
        assert found.value == pytest.approx(52000, abs=60)


def test_highs_are_followed_as_lows_are() -> None:
    analysis = moving(DATELINE, GRIDS["from 0"])
    times = pd.DatetimeIndex(analysis["valid_time"].values)
    high = (110000 - analysis).assign_coords(analysis.coords)
    rule = RULE.model_copy(update={"extreme": "max"})
    lows = analysis_track(analysis, times[0], box_of(DATELINE), RULE)
    highs = analysis_track(high, times[0], box_of(DATELINE), rule)
    for low, other in zip(lows.values(), highs.values(), strict=True):
        assert other[:2] == pytest.approx(low[:2])
        assert other.value == pytest.approx(110000 - low.value)


def test_a_deeper_low_far_away_is_not_jumped_to() -> None:
    analysis = moving(GREENWICH, GRIDS["from 0"])
    other = moving([(45.0, 60.0)] * 4, GRIDS["from 0"])
    both = analysis + 2 * (other - 55000)
    times = pd.DatetimeIndex(both["valid_time"].values)
    track = analysis_track(both, times[0], box_of(GREENWICH), RULE)
    assert [round(c.longitude) for c in track.values()] == [350, 356, 4, 10]
    assert centres(both.isel(valid_time=0))[0].longitude == pytest.approx(60, abs=0.3)


def test_a_track_ends_where_the_low_is_gone() -> None:
    analysis = moving(GREENWICH, GRIDS["from 0"])
    analysis[2] = 55000.0
    times = pd.DatetimeIndex(analysis["valid_time"].values)
    track = analysis_track(analysis, times[0], box_of(GREENWICH), RULE)
    assert list(track) == list(times[:2])
    assert analysis_track(analysis, times[2], box_of(GREENWICH), RULE) == {}
    with pytest.raises(InputError, match="no analysis at 2021"):
        analysis_track(analysis, pd.Timestamp("2021-01-01"), box_of(GREENWICH), RULE)


def test_members_near_the_analysis_and_those_that_lose_it() -> None:
    grid = GRIDS["from 0"]
    analysis = moving(DATELINE, grid)
    times = pd.DatetimeIndex(analysis["valid_time"].values)
    east = moving([(lat, lon + 3) for lat, lon in DATELINE], grid)
    far = moving([(lat, lon + 40) for lat, lon in DATELINE], grid)
    fading = analysis.copy()
    fading[2:] = 55000.0
    members = xr.concat([analysis, east, fading, far], pd.Index([0, 1, 2, 7], name="number"))
    forecast = members.rename(valid_time="step")
    forecast = forecast.assign_coords(
        step=times - times[0], valid_time=("step", times), time=times[0]
    )
    truth = analysis_track(analysis, times[0], box_of(DATELINE), RULE)
    table, lost = member_tracks(forecast, truth, RULE, "raw")
    assert lost == [
        "raw, member 2: lost at 2020-01-03 00:00",
        "raw, member 7: no centre within 750 km of the analysis'",
    ]
    assert table.groupby("number").size().to_dict() == {0: 4, 1: 4, 2: 2}
    own = table[table["number"] == 1]
    assert own["longitude"].to_numpy() == pytest.approx([174.0, 180.3, 186.4, 192.1], abs=0.3)
    assert list(own["time"]) == list(times)
    same = table[table["number"] == 0].drop(columns=["label", "number"]).reset_index(drop=True)
    truth_table = track_table(truth, "analysis").drop(columns=["label", "number"])
    pd.testing.assert_frame_equal(same, truth_table)
    # a field without members has the number -1
    mean, faults = member_tracks(forecast.isel(number=1, drop=True), truth, RULE, "mean")
    assert set(mean["number"]) == {-1}
    assert faults == []


def test_fields_that_have_no_centres_are_refused() -> None:
    analysis = moving(GREENWICH, GRIDS["from 0"])
    assert centres(xr.full_like(analysis[0], 3.0)) == []
    with pytest.raises(InputError, match="three points each way"):
        centres(analysis[0].isel(longitude=[0, 1]))
    with pytest.raises(InputError, match="three points each way"):
        centres(analysis[:, :, 0])
