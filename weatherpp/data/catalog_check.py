"""A source held against its catalog entry: what is there, what of it is missing. Headers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import exists_on, hours
from weatherpp.data.catalog import CatalogEntry, Group
from weatherpp.data.ingest import lay_out_source, read
from weatherpp.data.inspect import counted, inspect, some
from weatherpp.errors import InputError
from weatherpp.recipe import parse_step


class Finding(NamedTuple):
    """One line for the user, and whether it tells of something that is missing."""

    text: str
    missing: bool = False

    def __str__(self) -> str:
        return f"missing: {self.text}" if self.missing else self.text


def check_source(entry: CatalogEntry, root: str | None = None) -> list[Finding]:
    """Look at the files of a source and compare them with what its entry says.

    All headers are read, and no values, as at the beginning of an ingest. Of files below a URL
    only the first that matches each pattern is fetched and looked at.

    Parameters
    ----------
    entry
        From :func:`weatherpp.data.catalog.load_entry`.
    root
        Folder or URL of the files, if not where the entry says.

    Raises
    ------
    ConfigError
        The root cannot be used.
    InputError
        There is no such folder.
    """
    if entry.driver == "twin":
        return [Finding("made by the embedded atmosphere; there are no files to look at")]
    there = entry.elsewhere(root)
    out = [Finding(f"{entry.driver} files below {there.url if there else entry.folder(root)}")]
    groups: tuple[Group, ...] = get_args(Group)
    for group in groups:
        for pattern in getattr(entry.files, group):
            out += _files(entry, group, pattern, root)
    if any(finding.missing for finding in out):
        return out
    if there is not None and entry.driver != "zarr":
        return [*out, Finding("the other files are not looked at, as they would be fetched")]
    try:
        return [*out, *_contents(entry, root)]
    except InputError as error:
        return [*out, Finding(str(error), missing=True)]


def _files(entry: CatalogEntry, group: Group, pattern: str, root: str | None) -> list[Finding]:
    """How many files match, and what the header of the first one says."""
    try:
        names = entry.matches(pattern, root, group)
        span = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        out = [Finding(f"{group}: {counted(len(names), 'file')}, {span}")]
        lines = inspect(entry.local(names[:1], root)[0], values=False).lines
    except InputError as error:
        return [Finding(str(error), missing=True)]
    return [*out, Finding(f"{group}, header of {names[0]}: {'; '.join(map(str.strip, lines))}")]


def _contents(entry: CatalogEntry, root: str | None) -> list[Finding]:
    """What all files hold together."""
    if not (entry.files.forecast or entry.files.control):
        analysis = read(entry, "analysis", root)
        return [] if analysis is None else [_analyses(analysis)]
    laid = lay_out_source(entry, root, None)
    forecast = laid["forecast"].ds
    out = [
        Finding(
            f"forecast: {_variables(forecast)}; {counted(forecast.sizes['number'], 'member')} "
            f"({some(forecast['number'].values)}); lead times "
            f"{some(f'{hours(step):g}' for step in forecast['step'].values)} h; "
            f"{_dates(forecast['time'], 'initial time')}"
        ),
        *_unexpected(entry, forecast),
    ]
    if "analysis" not in laid:
        return [*out, Finding("no analyses to verify the forecasts with")]
    analysis = laid["analysis"].ds
    waiting = read(entry, "apply", root)
    times = forecast["time"].values
    if waiting is not None:
        times = np.setdiff1d(times, waiting["time"].values)
    return [*out, _analyses(analysis), *_partners(times, forecast, analysis, entry.sparse)]


def _unexpected(entry: CatalogEntry, forecast: xr.Dataset) -> list[Finding]:
    """Members, levels and lead times that the entry says there are, and that are not there."""
    out: list[Finding] = []
    expected = entry.expected
    if expected.members is not None:
        first, last = expected.members
        lacking = sorted(set(range(first, last + 1)) - set(forecast["number"].values.tolist()))
        out += _lacking("member", lacking, f"{first} to {last}")
    levels = {int(level) for da in forecast.data_vars.values() for level in exists_on(da, "levels")}
    out += _lacking("level", sorted(set(expected.levels) - levels), f"{some(expected.levels)} hPa")
    there = pd.TimedeltaIndex(forecast["step"].values)
    steps = [step for step in expected.steps if parse_step(step) not in there]
    return [*out, *_lacking("lead time", steps, some(expected.steps))]


def _lacking(what: str, lacking: Sequence[object], said: str) -> list[Finding]:
    text = f"{what} {some(lacking)}; the entry says {said}"
    return [Finding(text, missing=True)] if lacking else []


def _partners(
    times: NDArray[np.datetime64], forecast: xr.Dataset, analysis: xr.Dataset, sparse: bool
) -> list[Finding]:
    """Forecasts and analyses matched by valid time."""
    valid = np.unique(times[:, None] + forecast["step"].values)
    there = analysis["valid_time"].values
    alone = valid[~np.isin(valid, there)]
    out = [
        Finding(
            f"{valid.size - alone.size} of {counted(valid.size, 'valid time')} of the forecasts "
            f"have an analysis; of {there.size} times with an analysis "
            f"{int((~np.isin(there, valid)).sum())} are of no forecast"
        )
    ]
    if alone.size:
        dates = _dates(xr.DataArray(alone), "valid time")
        # where gaps are expected, not every combination of dates and lead times is there
        out.append(Finding(f"no analysis for {dates}", missing=not sparse))
    return out


def _analyses(analysis: xr.Dataset) -> Finding:
    dates = _dates(analysis["valid_time"], "valid time")
    return Finding(f"analysis: {_variables(analysis)}; {dates}")


def _variables(ds: xr.Dataset) -> str:
    levels = {
        str(n): exists_on(da, "levels") for n, da in ds.data_vars.items() if "level" in da.dims
    }
    texts = {name: f" at {some(map(int, found))} hPa" for name, found in levels.items()}
    return ", ".join(f"{name}{texts.get(str(name), '')}" for name in ds.data_vars)


def _dates(times: xr.DataArray, what: str) -> str:
    index = pd.DatetimeIndex(times.values)
    span = f"{index[0]:%Y-%m-%d %H:%M}"
    if len(index) > 1:
        span += f" to {index[-1]:%Y-%m-%d %H:%M}"
    return f"{counted(len(index), what)}, {span} UTC"
