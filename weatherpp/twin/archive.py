"""Write a twin archive: one Zarr store, made block of years by block of years.

A block's marker in the work folder (see :mod:`weatherpp.twin.site`) is written (by rename) after
all its data: an interrupted run goes on with the first block without a marker, and writes the same
values as if it had not been interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weatherpp.errors import ConfigError
from weatherpp.files import write_whole
from weatherpp.twin import settings
from weatherpp.twin.ensemble import Block, single_threaded
from weatherpp.twin.settings import TwinConfig
from weatherpp.twin.site import Site
from weatherpp.twin.spectral import Transform
from weatherpp.twin.store import (
    Writer,
    create_group,
    dates_per_chunk,
    initial_times,
    limit_dates,
    valid_times,
    write_static,
)

Progress = Callable[[str, float, float], None]
FORMAT = 1


def generate(path: str | Path, config: TwinConfig, progress: Progress | None = None) -> None:
    """Make a twin archive, or finish one that was interrupted.

    Parameters
    ----------
    path
        The store, ``NAME.zarr``. If it is there already, made with the same configuration,
        nothing is done.
    config
        What to make.
    progress
        Called with (description, done, total); the unit is initial dates.

    Raises
    ------
    ConfigError
        There is something else at ``path``, or an unfinished archive with another configuration,
        or CUDA is asked for and not there.
    WeatherppError
        The model has blown up.
    """
    parameters = settings.all_parameters()
    content = {"config": _content_config(config), "parameters": parameters}
    site = Site(path, {"format": FORMAT, **content})
    if site.finished():
        return
    device = _device(config)
    attrs = {
        "title": "Twin experiment: three-level quasi-geostrophic atmosphere, perpetual winter",
        "source": "weatherpp.twin",
        "licence": "CC0-1.0",
        **content,
    }
    site.prepare(attrs, lambda store: _create(store, config))
    report = progress or (lambda description, done, total: None)
    total = float(config.number_of_years * config.number_of_dates)
    count = config.number_of_years
    for first in range(0, count, settings.BLOCK_YEARS):
        years = range(first, min(first + settings.BLOCK_YEARS, count))
        marker = site.work / f"block-{first:04d}.done"
        if not marker.exists():
            _write_block(site.store, config, years, device, report, total)
            write_whole(marker, site.identity)
        report("twin years", float(years.stop * config.number_of_dates), total)
    site.finish()


def _content_config(config: TwinConfig) -> dict[str, Any]:
    return {
        "seed": config.seed,
        "years": config.number_of_years,
        "dates_per_year": config.number_of_dates,
        "members": config.members,
        "first_year": config.first_year,
        "limit_dates": config.number_of_limit_dates,
        "limit_members": config.limit_members,
        # archives without it are what they always were
        **({"longest": config.longest} if config.longest > settings.STEP_HOURS[-1] else {}),
    }


def _device(config: TwinConfig) -> torch.device:
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda is asked for, but there is no CUDA device; use auto or cpu")
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.device)


def _create(store: Path, config: TwinConfig) -> None:
    """Write all groups without their values."""
    transform = Transform(settings.FORECAST.truncation, settings.FORECAST.nlon)
    times = initial_times(config).ravel()
    dates = dates_per_chunk(config)
    create_group(store, "forecast", transform, times, config.members, dates, config.steps)
    chosen = limit_dates(config)
    if chosen:
        limit_times = np.array([initial_times(config)[index] for index in chosen])
        create_group(store, "limit", transform, limit_times, config.limit_members, 1, config.steps)
    valid = np.sort(valid_times(config, config.steps).ravel())
    create_group(store, "analysis", transform, valid, None, dates * len(config.steps))
    write_static(store, transform)


def _write_block(
    store: Path,
    config: TwinConfig,
    years: range,
    device: torch.device,
    report: Progress,
    total: float,
) -> None:
    """Make the years (counted from 0) of one block and write them into the store."""
    numbers = [config.first_year + year for year in years]
    block = Block(numbers, config.seed, config.members, device, config.steps)
    limit: dict[int, list[int]] = {}
    for year, date in limit_dates(config):
        if year in years:
            limit.setdefault(date, []).append(year - years.start)
    writer = Writer(store, config, years, block.model.transform)
    done = years.start * config.number_of_dates
    report("twin years", float(done), total)
    with torch.inference_mode(), single_threaded():
        for output in block.dates(config.number_of_dates, limit, config.limit_members):
            writer.add(output)
            report("twin years", float(done + (output.date + 1) * len(years)), total)
