"""Where on the map one method is better than another, and where that is no chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.data import netcdf
from weatherpp.data.archive import Archive
from weatherpp.pipeline.products import open_product, read_product
from weatherpp.pipeline.truths import prediction, references
from weatherpp.recipe import Target
from weatherpp.verify import scores
from weatherpp.verify.accumulate import date_blocks
from weatherpp.verify.aggregate import FEWEST_DATES, runs_of
from weatherpp.verify.significance import MeanTest, discoveries, lags_for
from weatherpp.verify.table import date_series, kindest, own_estimator

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job

ALPHA = 0.05
Score = Callable[[xr.Dataset, xr.DataArray], xr.DataArray]


def add_gain_maps(
    job: Job,
    archive: Archive,
    target: Target,
    per_date: pd.DataFrame,
    pairs: Iterable[tuple[str, str]],
) -> None:
    """Add ``gain``, ``p_value`` and ``significant`` to the maps of each method of a run.

    Of the CRPS, for spread jobs of the squared error of the spread. Significance is that of the
    Diebold-Mariano test at each point, with the false discoveries of the whole map held down
    (Wilks 2016, see :func:`weatherpp.verify.significance.discoveries`).

    Parameters
    ----------
    per_date
        Per-date table of scores, which tells the estimators to compare.
    pairs
        Labels of methods, and of the references that they are held against.
    """
    entries = {entry.label: entry for entry in job.recipe.methods}
    for label, other in pairs:
        own, reference = entries[label], entries[other]
        paths = [prediction(job, target, name) for name in (label, other)]
        maps = job.run.path / "scores" / "maps" / target.name / f"{label}.nc"
        if not all(path.is_file() for path in (*paths, maps)) or own.full != reference.full:
            continue
        if own.job == "spread" and own.full != "all":
            continue  # the spreads of different members
        with ExitStack() as files:
            dists = [files.enter_context(open_product(path)) for path in paths]
            truth, spread = references(job, archive, own, target, dists[0], files)
            against = truth if truth is not None else spread
            if against is None:
                continue
            names = ("", "")
            if own.job == "forecast":
                base = date_series(per_date, target.name, other, "crps")
                mine = date_series(per_date, target.name, label, "crps")
                theirs = kindest(base)
                names = (own_estimator(mine, theirs), theirs)
            found = _gain_map(dists[0], dists[1], against, names, target.lead, own.job)
        if found is not None:
            more = {"reference": other, "estimator": " ".join(names).strip()}
            told = {name: field.assign_attrs(more) for name, field in found.data_vars.items()}
            netcdf.write(read_product(maps).assign(told), maps)


def _score(job: str, estimator: str) -> Score:
    if job == "spread":
        return scores.spread_squared_error

    def crps(dist: xr.Dataset, truth: xr.DataArray) -> xr.DataArray:
        known = [each for each in scores.estimators_of(dist) if each == estimator]
        return scores.crps(dist, truth, known[0] if known else None)

    return crps


def _gain_map(
    own: xr.Dataset,
    reference: xr.Dataset,
    truth: xr.DataArray,
    estimators: tuple[str, str],
    lead: pd.Timedelta,
    job: str,
) -> xr.Dataset | None:
    """Gain by point, read some dates at a time; None for too few common dates."""
    times = pd.DatetimeIndex(np.intersect1d(own["time"].values, reference["time"].values))
    if len(times) < FEWEST_DATES:
        return None
    # of a product the parameters alone, not its quantiles
    forms = [
        dist[list(distribution.FORMS[distribution.form_of(dist)])] for dist in (own, reference)
    ]
    data = [each.sel(time=times) for each in (*forms, truth)]
    lags = lags_for(times, lead)
    test, first = MeanTest(lags), {start for start, _ in runs_of(times)}
    sums: list[xr.DataArray] = []
    for part in date_blocks(*data):
        one, two, at = (each.isel(time=part).load() for each in data)
        scored = [
            _score(job, name)(dist, at) for dist, name in zip((one, two), estimators, strict=True)
        ]
        difference = scored[0] - scored[1]
        totals = [each.where(difference.notnull(), 0.0).sum("time") for each in scored]
        sums = totals if not sums else [a + b for a, b in zip(sums, totals, strict=True)]
        dims = [dim for dim in difference.dims if dim != "time"]
        for i, date in enumerate(difference.transpose("time", *dims).values):
            test.add(date, gap=part.start + i in first)
    p_value = sums[0].transpose(*dims).copy(data=test.result()[1])
    if not bool(p_value.notnull().any()):
        return None
    found = discoveries(p_value, ALPHA)
    gain = (1 - sums[0] / sums[1].where(sums[1] > 0)).where(p_value.notnull())
    note = f"Diebold-Mariano, newey-west, {lags} lags, {len(times)} dates"
    policy = "points with a gap are tested on the dates that they have"
    gain = gain.astype(np.float32).assign_attrs(units="1", nan_policy=policy)
    p_value = p_value.astype(np.float32).assign_attrs(units="1", test=note, nan_policy=policy)
    flags = found.astype(np.int8).assign_attrs({**found.attrs, "units": "1", "test": note})
    maps = xr.Dataset({"gain": gain, "p_value": p_value, "significant": flags})
    return maps.drop_vars(["step", "number"], errors="ignore")
