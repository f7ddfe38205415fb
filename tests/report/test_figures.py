from __future__ import annotations

import io
import threading

import numpy as np
import pandas as pd
import pytest
import report_sample as sample
import xarray as xr
from PIL import Image

from weatherpp.errors import InputError
from weatherpp.report import figures
from weatherpp.report.content import Figure
from weatherpp.report.style import PALETTE, colours_of


def size(figure: Figure) -> tuple[int, int]:
    return Image.open(io.BytesIO(figure.png)).size


def test_gains_are_told_in_the_alt_text() -> None:
    figure = figures.gain_bars(sample.gains())
    assert "z500, mixed against raw (fair): 15.1 % (14.2 to 15.9)" in figure.alt
    assert "t850, mixed against emos: −0.2 %" in figure.alt
    assert "Hatched" in figure.caption
    assert "Hollow" not in figure.caption
    assert size(figure)[1] > 600


def test_an_uncertain_gain_is_drawn_hollow() -> None:
    gains = sample.gains().iloc[:1].assign(excludes_zero=True)
    filled = np.asarray(Image.open(io.BytesIO(figures.gain_bars(gains).png)).convert("L"))
    hollow = figures.gain_bars(gains.assign(excludes_zero=False))
    unsure = np.asarray(Image.open(io.BytesIO(hollow.png)).convert("L"))
    assert unsure.mean() > filled.mean() + 5


def test_gains_without_intervals_promise_none() -> None:
    gains = sample.gains().iloc[:2].assign(low=np.nan, high=np.nan, excludes_zero=False)
    figure = figures.gain_bars(gains)
    assert "bootstrap" not in figure.caption
    assert "Hollow: there are too few dates for an interval" in figure.caption
    assert "Hatched" not in figure.caption
    assert "20.2 %;" in figure.alt


def test_scores_show_plain_and_kindest_of_the_main_region() -> None:
    figure = figures.score_bars(sample.scores())
    assert "region global" in figure.alt
    assert "z500, raw, 10 members (plain): 72.3" in figure.alt
    assert "z500, raw, 10 members (fair): 65.7" in figure.alt
    assert "gaussian" not in figure.alt
    assert "z500, climatology: 192" in figure.alt
    assert "cut off" in figure.caption


def test_spread_skill_tells_the_ratio() -> None:
    figure = figures.spread_skill(sample.scores())
    assert "z500, raw, 10 members: 0.800" in figure.alt
    assert "(M + 1) / M" in figure.caption


def test_intervals_may_be_missing() -> None:
    scores = sample.scores().query("target == 'z500'").assign(low=np.nan, high=np.nan)
    assert figures.score_bars(scores).png
    assert figures.spread_skill(scores).png
    assert figures.gain_bars(sample.gains().iloc[:2].assign(low=np.nan, high=np.nan)).png


def test_rank_histograms_are_relative_to_what_is_expected() -> None:
    quantiles = np.array([0.1, 0.5, 0.9])
    expected = np.diff(np.concatenate([[0], quantiles, [1]]))
    calibrated = xr.DataArray(
        expected, dims="rank", coords={"expected": ("rank", expected)}, name="frequency"
    )
    figure = figures.rank_histograms({"t2m": {"net": calibrated, "raw": np.array([2.0, 1, 1, 4])}})
    assert "t2m, net: lowest 1.0, middle 1.0, highest 1.0" in figure.alt
    assert "t2m, raw: lowest 1.0, middle 0.50, highest 2.0" in figure.alt


def test_training_curve_names_the_best_epoch() -> None:
    history = pd.DataFrame({"epoch": [1, 2, 3], "train": [3.0, 2, 1], "valid": [3.0, 1.5, np.nan]})
    caption = figures.training_curve(history).caption
    assert "1.50 at epoch 2." in caption
    assert "patience" not in caption


def test_training_without_validation_shows_none() -> None:
    history = pd.DataFrame({"epoch": [1, 2], "train": [3.0, 2], "valid": [np.nan, np.nan]})
    assert "no dates to validate on" in figures.training_curve(history).caption


def test_a_best_epoch_that_is_the_last_is_said() -> None:
    history = pd.DataFrame({"epoch": [1, 2], "train": [3.0, 2], "valid": [3.0, 1.5]})
    assert "training ended by the number of epochs" in figures.training_curve(history).caption


def test_empty_tables_are_refused() -> None:
    with pytest.raises(InputError, match="no gains"):
        figures.gain_bars(sample.gains().iloc[:0])
    with pytest.raises(InputError, match="no crps"):
        figures.score_bars(sample.scores().iloc[:0])
    with pytest.raises(InputError, match="no spread_skill"):
        figures.spread_skill(sample.scores().query("score == 'crps'"))
    with pytest.raises(InputError, match="no histograms"):
        figures.rank_histograms({"z500": {}})


def test_colours_follow_methods_through_all_charts() -> None:
    colours = colours_of(["raw", "emos", "raw", "mixed"])
    assert list(colours) == ["raw", "emos", "mixed"]
    assert len(set(colours.values())) == 3


def test_figures_may_be_drawn_from_several_threads() -> None:
    gains = sample.gains().iloc[:2]
    expected = figures.gain_bars(gains).png
    drawn: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: drawn.append(figures.gain_bars(gains).png))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == [expected] * 3


def test_an_alt_text_is_required() -> None:
    with pytest.raises(InputError, match="alt text"):
        Figure(b"", " ", "")


def test_colours_do_not_repeat_until_there_are_many() -> None:
    names = [f"m{i}" for i in range(22)]
    found = colours_of(names)
    assert len(set(found.values())) == 22
    assert list(found)[:8] == names[:8]
    assert found["m0"] == PALETTE[0]
    assert colours_of(names[:3])["m2"] == found["m2"]
