"""Maps of a product, with the words that go with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xarray as xr

from weatherpp.files import write_whole
from weatherpp.report.content import Figure
from weatherpp.report.labels import number, units_text
from weatherpp.report.maps import CONTOURED, field_maps, probability_maps

WORDS = "maps.json"


def draw_maps(product: xr.Dataset, folder: Path) -> None:
    """PNG files of mean, spread and probabilities, and their captions in :data:`WORDS`."""
    ds = product.isel(time=0)
    mean = ds["mean"].assign_coords(valid_time=ds["time"] + ds["step"])
    contours = str(product.attrs.get("variable")) in CONTOURED
    drawn = {"mean": field_maps([mean], ["Mean"], contours=contours)}
    if "spread" in ds:
        spread = ds["spread"].assign_attrs(long_name=f"spread of {mean.attrs.get('long_name', '')}")
        drawn["spread"] = field_maps([spread], ["Spread"], kind="spread")
    if "exceedance" in ds:
        drawn["exceedance"] = _probabilities(ds["exceedance"], mean)
    words = []
    for name, figure in drawn.items():
        (folder / f"{name}.png").write_bytes(figure.png)
        words.append({"file": f"{name}.png", "alt": figure.alt, "caption": figure.caption})
    write_whole(folder / WORDS, json.dumps(words, indent=1) + "\n")


def _probabilities(exceedance: xr.DataArray, mean: xr.DataArray) -> Figure:
    units = units_text(str(exceedance["threshold"].attrs.get("units", "")))
    thresholds = [float(value) for value in np.atleast_1d(exceedance["threshold"].values)]
    titles = [f"More than {number(value, 6)} {units}".rstrip() for value in thresholds]
    parts = [exceedance.sel(threshold=value) for value in thresholds]
    name = str(mean.attrs.get("long_name", mean.name))
    return probability_maps(parts, titles, event=f"{name} above the threshold")
