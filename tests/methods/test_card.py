"""The model card tells what a folder holds, and takes no markup from a catalog entry."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from synthetic import make_datasets

from weatherpp.data.fields import select
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData, load_model, method_class
from weatherpp.methods.card import CARD
from weatherpp.recipe import Target


def test_card_of_a_model(tmp_path: Path) -> None:
    forecast, analysis, static = make_datasets(dates=15)
    target = Target(variable="z", level=500, step="48h")
    times = pd.DatetimeIndex(forecast["time"].values)
    truth = select(analysis, "z", 500).sel(valid_time=times + target.lead)
    data = FitData(
        forecast=forecast,
        truth=truth.rename(valid_time="time").assign_coords(time=times),
        full=select(forecast, "z", 500, target.lead),
        static=static,
        target=target,
        train=times,
        valid=times[:0],
    )
    meta = {
        "numbers": [0, 1, 2],
        "train": ["2001-01-01 00:00:00", "2001-03-01 00:00:00", 15],
        "source": {"title": "<b>Bold</b>\n# claim", "licence": "CC BY 4.0"},
        "weatherpp": "1",
        "seed": 3,
    }
    method_class("emos")(target, {"prior": 3.0}).fit(data).save(tmp_path, meta)
    text = (tmp_path / CARD).read_text()
    for words in (
        "# emos: z at 500 hPa, 48h ahead",
        "Members: 0, 1, 2",
        "15 initial dates from 2001-01-01 to 2001-03-01",
        r"\<b\>Bold\</b\> \# claim",
        "`prior`: 3.0",
        r"not\_converged: ",
        "seed 3",
    ):
        assert words in text
    load_model(tmp_path)
    (tmp_path / CARD).write_text("another story")
    with pytest.raises(InputError, match="not what was fitted"):
        load_model(tmp_path)
