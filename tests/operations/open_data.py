"""Synthetic cycles in the layout of ECMWF's open data: GRIB 2 with an index beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import eccodes
import pandas as pd
import xarray as xr
from night_cases import MEMBERS, Cycles, cycle_at, recipe_with

from weatherpp.conventions import GRAVITY

FORECAST = "{cycle:%Y%m%d}/{cycle:%H}z/ifs/0p25/enfo/{cycle:%Y%m%d%H}0000-{step}h-enfo-ef.grib2"
ANALYSIS = "{valid:%Y%m%d}/{valid:%H}z/ifs/0p25/oper/{valid:%Y%m%d%H}0000-0h-oper-fc.grib2"
WANTED = [
    {"type": ["pf"], "param": ["gh"], "levelist": [500, 800], "number": [1, 2, 3, 4]},
    {"type": ["cf"], "param": ["gh"], "levelist": [500, 800]},
]
SOURCE: dict[str, Any] = {
    "driver": "grib",
    "forecast": [FORECAST],
    "analysis": [ANALYSIS],
    "steps": [48],
    "fields": WANTED,
    "analysis_fields": [{"param": ["gh"], "levelist": ["500"]}],
    "variables": {"z": {"source": "gh"}},
    "wait": "0h",
    "poll": "1s",
    "settle": "0s",
}


def recipe_of(place: Path, url: str, **changes: Any) -> dict[str, Any]:
    """The recipe of :mod:`night_cases` with this source below a URL."""
    recipe = recipe_with(place)
    recipe["source"] = {**SOURCE, "root": url, **changes}
    return recipe


def path_of(pattern: str, at: pd.Timestamp) -> str:
    """Name of a file."""
    name = pattern.replace("{step}", "48")
    for field in ("%Y%m%d%H", "%Y%m%d", "%H"):
        name = name.replace(f"{{cycle:{field}}}", at.strftime(field))
        name = name.replace(f"{{valid:{field}}}", at.strftime(field))
    return name


def put_forecast(cycles: Cycles, folder: Path, day: int, members: range = range(MEMBERS)) -> Path:
    """Write a cycle with all its fields; returns the GRIB file."""
    ds = cycles.forecast(day).isel(time=0, step=0).sel(number=list(members))
    return write(ds, folder / path_of(FORECAST, cycle_at(day)), cycle_at(day), 48)


def put_analysis(cycles: Cycles, folder: Path, day: int) -> Path:
    """Write the analysis that verifies a cycle."""
    valid = cycle_at(day) + pd.Timedelta(hours=48)
    ds = cycles.truth(day).isel(valid_time=0)
    return write(ds, folder / path_of(ANALYSIS, valid), valid, 0)


def write(ds: xr.Dataset, path: Path, time: pd.Timestamp, step: int) -> Path:
    """GRIB and index; fields of members if there is a dimension ``number``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    with path.open("wb") as out:
        for number in ds["number"].values if "number" in ds.dims else [None]:
            own = ds if number is None else ds.sel(number=number)
            for name, param in (("z", "gh"), ("t", "t")):
                for level in ds[name].attrs["levels"]:
                    field = own[name].sel(level=level) / (GRAVITY if param == "gh" else 1.0)
                    kind = "fc" if number is None else "pf" if number else "cf"
                    keys: dict[str, Any] = {"type": kind, "param": param, "levelist": str(level)}
                    if kind == "pf":
                        keys["number"] = str(number)
                    start = out.tell()
                    _write_field(out, field, keys, time, step)
                    places = {"_offset": start, "_length": out.tell() - start}
                    lines.append(json.dumps({**keys, "step": str(step), **places}))
    path.with_suffix(".index").write_text("\n".join(lines) + "\n")
    return path


def _write_field(
    out: Any, field: xr.DataArray, keys: dict[str, Any], time: pd.Timestamp, step: int
) -> None:
    lat, lon = field["latitude"].values, field["longitude"].values
    handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
    wanted = {
        "Ni": lon.size, "Nj": lat.size, "latitudeOfFirstGridPointInDegrees": float(lat[0]),
        "latitudeOfLastGridPointInDegrees": float(lat[-1]),
        "longitudeOfFirstGridPointInDegrees": float(lon[0]),
        "longitudeOfLastGridPointInDegrees": float(lon[-1]),
        "iDirectionIncrementInDegrees": float(lon[1] - lon[0]),
        "jDirectionIncrementInDegrees": float(lat[0] - lat[1]),
        "dataDate": int(time.strftime("%Y%m%d")), "dataTime": time.hour * 100,
        "bitsPerValue": 24, "setLocalDefinition": 1, "localDefinitionNumber": 1,
        "class": "od", "expver": "0001", "stream": "oper" if keys["type"] == "fc" else "enfo",
        "type": keys["type"],
    }  # fmt: skip
    if keys["type"] != "fc":
        wanted["productDefinitionTemplateNumber"] = 1
        wanted["numberOfForecastsInEnsemble"] = MEMBERS
        wanted["number"] = int(keys.get("number", 0))
    wanted |= {"shortName": keys["param"], "level": int(keys["levelist"]), "step": step}
    for key, value in wanted.items():
        eccodes.codes_set(handle, key, value)
    eccodes.codes_set_values(handle, field.values.ravel())
    eccodes.codes_write(handle, out)
    eccodes.codes_release(handle)
