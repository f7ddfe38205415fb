"""Tidy tables of scores.

*Per-date table*: one row for each target, method, region, score, estimator and initial date;
``value`` is the weighted mean over space. Scores in it: ``crps``, ``error``,
``squared_error``, ``variance``, ``expected_squared_error`` (what the squared error would be if
the forecast were calibrated: the variance, for m members times (m + 1) / m),
``spread_squared_error`` (so that means over dates are exact; roots are taken at the end);
``pairs`` is the number of points it is the mean of. Claims and comparisons are computed from it,
and can be again, see :mod:`weatherpp.verify.gains`.

*Score table*: one row for each number with its interval, see :data:`COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.files import partial_name
from weatherpp.recipe import Bootstrap, Target
from weatherpp.verify import scores
from weatherpp.verify.accumulate import Accumulated, Key, date_blocks
from weatherpp.verify.aggregate import Interval, NanPolicy, interval, spread_skill
from weatherpp.verify.alignment import aligned
from weatherpp.verify.regions import WHOLE

COLUMNS = (
    *("method", "members", "target", "step_hours", "region", "score", "estimator"),
    *("value", "low", "high", "units", "dates", "pairs", "nan_policy"),
)
PER_DATE_COLUMNS = ("target", "method", "region", "score", "estimator", "time", "value", "pairs")
# how the score of a perfect model is labelled, which is no method but the limit of all
LIMIT = "perfect-model"
# scores that are roots of a mean, and the per-date score they are the root of
ROOTS = {"rmse": "squared_error", "spread_rmse": "spread_squared_error"}
EXPECTED = "expected_squared_error"


class Scored(NamedTuple):
    """What scoring one method gives.

    Attributes
    ----------
    rows
        Score table, columns :data:`COLUMNS`.
    per_date
        Per-date table, columns :data:`PER_DATE_COLUMNS`.
    maps
        Scores of each grid point over all dates, (grid...), float32: ``crps_<estimator>``,
        ``bias``, ``rmse``, ``spread``, ``spread_rmse``, each with units.
    """

    rows: pd.DataFrame
    per_date: pd.DataFrame
    maps: xr.Dataset


def score_method(
    label: str,
    dist: xr.Dataset,
    truth: xr.DataArray | None,
    target: Target,
    *,
    members: int,
    full_spread: xr.DataArray | None = None,
    full_name: str = "",
    subsets: Mapping[str, pd.DatetimeIndex] | None = None,
    regions: Mapping[str, xr.DataArray] | None = None,
    nan_policy: NanPolicy = "raise",
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
) -> Scored:
    """All scores of one method for one target, in memory that does not grow with the dates.

    Parameters
    ----------
    label
        The method's name in the tables.
    dist
        Predictive distribution, (time, grid...); may be lazy. Members are scored with the plain,
        the fair and the Gaussian CRPS, other forms with their own.
    truth
        Analysis at the valid time, same dates and points; None to score the spread alone.
    members
        Number of trajectories the method saw.
    full_spread
        Spread of the full ensemble (divided by m - 1); without it there is no ``spread_rmse``.
    full_name
        Which ensemble that is, if not all members; goes to the column ``estimator``, so that
        errors of different spreads are never compared.
    subsets
        Initial dates to score by themselves too, by name, which goes to the column ``region``;
        over the points of the first region.
    regions
        Which points lie in each region (multiplies the area weights), as from
        :func:`weatherpp.verify.regions.regions`; by default all.
    nan_policy
        ``raise`` or ``omit``, see :func:`weatherpp.verify.aggregate.per_date`. With ``omit``
        all scores are taken over the same pairs, those that have every one of them; methods
        to compare are given the truth of :func:`same_pairs`.
    bootstrap, seed
        How intervals are made.

    Raises
    ------
    InputError
        Fields are not aligned, NaN scores, no grid to weight, nothing to score against.
    """
    if truth is None and full_spread is None:
        raise InputError(f"{label}: neither an analysis nor a full spread to score against")
    form = distribution.form_of(dist)
    dist = dist[list(distribution.FORMS[form])]
    for reference in (truth, full_spread):
        if reference is not None:
            aligned(dist, reference)
    found = Accumulated(regions or {WHOLE: xr.DataArray(True)}, nan_policy)
    for part in date_blocks(dist, truth, full_spread):
        obs, spread = (
            each if each is None else each.isel(time=part).load() for each in (truth, full_spread)
        )
        found.add(_fields(dist.isel(time=part).load(), obs, spread, full_name))
    field = truth if truth is not None else full_spread
    units = field.attrs.get("units", "1") if field is not None else "1"
    common = {"method": label, "members": members, "target": target.name, "units": units}
    common |= {"step_hours": target.lead / pd.Timedelta(hours=1), "nan_policy": nan_policy}
    tables, rows = [], []
    for region in found.regions:
        series, pairs = found.by_date(region)
        apart = subsets if region == next(iter(found.regions)) else None
        for name, at in {region: pairs.index, **(apart or {})}.items():
            kept = pairs.index.intersection(at)
            if kept.empty:
                continue
            part_of = {key: values.loc[kept] for key, values in series.items()}
            by_date = [_by_date(key, values, pairs.loc[kept]) for key, values in part_of.items()]
            own = {"method": label, "target": target.name, "region": name}
            tables.append(pd.concat(by_date).assign(**own))
            numbers = _numbers(part_of, bootstrap or Bootstrap(), seed)
            counts = {"dates": len(kept), "pairs": int(pairs.loc[kept].sum())}
            rows.append(_rows(numbers, {**common, **counts, "region": name}))
    table = pd.concat(tables, ignore_index=True)
    scored = pd.concat(rows, ignore_index=True)[list(COLUMNS)]
    return Scored(scored, table[list(PER_DATE_COLUMNS)], _maps(found.maps(), units))


def _rows(numbers: Mapping[Key, Interval], common: Mapping[str, Any]) -> pd.DataFrame:
    rows = [
        {**common, "score": score, "estimator": estimator, **number._asdict()}
        for (score, estimator), number in numbers.items()
    ]
    table = pd.DataFrame(rows)
    table.loc[table["score"] == "spread_skill", "units"] = "1"
    return table


def _by_date(key: Key, values: pd.Series[float], pairs: pd.Series[int]) -> pd.DataFrame:
    score, estimator = key
    columns = {"score": score, "estimator": estimator, "time": values.index, "value": values}
    return pd.DataFrame({**columns, "pairs": pairs})


def same_pairs(dists: Iterable[xr.Dataset], truth: xr.DataArray) -> xr.DataArray:
    """The truth where every one of the distributions has a value, NaN elsewhere.

    Scored against it with ``nan_policy="omit"``, methods are compared on the same pairs.

    Raises
    ------
    InputError
        A distribution is not aligned with the truth.
    """
    for dist in dists:
        truth = truth.where(scores.error(dist, truth).notnull())
    return truth


def _fields(
    dist: xr.Dataset,
    truth: xr.DataArray | None,
    full_spread: xr.DataArray | None,
    full_name: str,
) -> dict[Key, xr.DataArray]:
    fields: dict[Key, xr.DataArray] = {}
    has_spread = distribution.form_of(dist) != "members" or dist.sizes["number"] > 1
    if truth is not None:
        for choice in scores.estimators_of(dist):
            field = scores.crps(dist, truth, choice)
            fields["crps", field.attrs["estimator"]] = field
        fields["error", ""] = scores.error(dist, truth)
        fields["squared_error", ""] = (fields["error", ""] ** 2).rename("squared_error")
        if has_spread:
            fields["variance", ""] = scores.variance(dist)
            fields[EXPECTED, ""] = scores.expected_squared_error(dist)
    if full_spread is not None and has_spread:
        error = scores.spread_squared_error(dist, full_spread)
        fields["spread_squared_error", full_name] = error
    return fields


def _numbers(
    series: Mapping[Key, pd.Series[float]], bootstrap: Bootstrap, seed: int
) -> dict[Key, Interval]:
    numbers: dict[Key, Interval] = {}
    for key, values in series.items():
        if key[0] == "crps":
            numbers[key] = interval(values, bootstrap, seed)
    if ("error", "") in series:
        numbers["bias", ""] = interval(series["error", ""], bootstrap, seed)
    for name, score in ROOTS.items():
        for key, values in series.items():
            if key[0] == score:
                numbers[name, key[1]] = interval(values, bootstrap, seed, root=True)
    if (EXPECTED, "") in series:
        expected, error = series[EXPECTED, ""], series["squared_error", ""]
        numbers["spread_skill", ""] = spread_skill(expected, error, bootstrap, seed)
    return numbers


def _maps(means: Mapping[Key, xr.DataArray], units: str) -> xr.Dataset:
    names = {"error": "bias", "variance": "spread", **{v: k for k, v in ROOTS.items()}}
    maps = {}
    for (score, estimator), mean in means.items():
        if score == EXPECTED:
            continue
        field = mean if score in ("crps", "error") else mean**0.5
        attrs = {key: mean.attrs[key] for key in ("estimator", "nan_policy") if key in mean.attrs}
        name = names.get(score, f"{score}_{estimator}")
        maps[name] = field.astype(np.float32)
        maps[name].attrs = {**attrs, "units": units}
    return xr.Dataset(maps).drop_vars(["step", "number"], errors="ignore")


def date_series(
    table: pd.DataFrame, target: str, method: str, score: str, region: str = "whole grid"
) -> dict[str, pd.Series[float]]:
    """Per-date values of one method's score for each of its estimators.

    ``rmse`` and ``spread_rmse`` give the mean squares they are the roots of.

    Raises
    ------
    InputError
        The table has no such score.
    """
    stored = ROOTS.get(score, score)
    found = table[
        (table["target"] == target)
        & (table["method"] == method)
        & (table["region"] == region)
        & (table["score"] == stored)
    ]
    if found.empty:
        raise InputError(f"no {score} of {method} for {target} in {region} among the scores")
    if found.duplicated(["estimator", "time"]).any():
        raise InputError(f"{score} of {method} for {target} has two values for one date")
    return {
        str(estimator): part.set_index("time")["value"].sort_index()
        for estimator, part in found.groupby("estimator")
    }


def kindest(series: dict[str, pd.Series[float]]) -> str:
    """The estimator that gives the lowest mean score."""
    return min(series, key=lambda estimator: float(series[estimator].mean()))


def own_estimator(series: dict[str, pd.Series[float]], reference_estimator: str) -> str:
    """Which of a method's estimators to compare with one of a reference.

    The same one if the method has it, or else its only one, or else the plain one.
    """
    if reference_estimator in series:
        return reference_estimator
    return next(iter(series)) if len(series) == 1 else "plain"


def read(path: Path, again: str, columns: Iterable[str] | None = None) -> pd.DataFrame:
    """A table from a parquet file.

    Parameters
    ----------
    path
        As :func:`write` left it.
    again
        The command that makes it anew, for the message.
    columns
        Those that are wanted; by default all.

    Raises
    ------
    InputError
        It is missing or damaged.
    """
    try:
        return pd.read_parquet(path, columns=None if columns is None else list(columns))
    except FileNotFoundError:
        raise InputError(f"{path}: is missing; make it again with '{again}'") from None
    except (OSError, ValueError, KeyError):
        raise InputError(f"{path}: damaged; make it again with '{again}'") from None


def write(tables: Iterable[pd.DataFrame], path: Path) -> None:
    """Write tables of the same columns as one parquet file, whole or not at all."""
    with partial_name(path) as partial:
        pd.concat(list(tables), ignore_index=True).to_parquet(partial, index=False)
