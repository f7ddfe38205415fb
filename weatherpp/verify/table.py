"""Tidy tables of scores.

*Per-date table*: one row for each target, method, region, score, estimator and initial date;
``value`` is the weighted mean over space. Scores in it: ``crps``, ``error``,
``squared_error``, ``variance``, ``spread_squared_error`` (so that means over dates are exact;
roots are taken at the end); ``pairs`` is the number of points it is the mean of. Claims and
comparisons are computed from it, and can be again.

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
from weatherpp.verify.aggregate import (
    Interval,
    NanPolicy,
    gain_interval,
    interval,
    per_date,
    spread_skill,
)
from weatherpp.verify.weights import grid_weights

COLUMNS = (
    *("method", "members", "target", "step_hours", "region", "score", "estimator"),
    *("value", "low", "high", "units", "dates", "pairs"),
)
PER_DATE_COLUMNS = ("target", "method", "region", "score", "estimator", "time", "value", "pairs")
GAIN_COLUMNS = (
    *("target", "region", "score", "method", "estimator", "reference", "reference_estimator"),
    *("gain", "low", "high", "excludes_zero", "dates"),
)
# how the score of a perfect model is labelled, which is no method but the limit of all
LIMIT = "perfect-model"
# scores that are roots of a mean, and the per-date score they are the root of
ROOTS = {"rmse": "squared_error", "spread_rmse": "spread_squared_error"}


Key = tuple[str, str]  # score, estimator


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
    region: str = "whole grid",
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
) -> Scored:
    """All scores of one method for one target.

    Parameters
    ----------
    label
        The method's name in the tables.
    dist
        Predictive distribution, (time, grid...). Members are scored with the plain, the fair
        and the Gaussian CRPS, other forms with their own.
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
        Initial dates to score by themselves too, by name, which goes to the column ``region``.
    region, mask
        Name of the region, and which points lie in it (multiplies the area weights).
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
    fields = _fields(dist, truth, full_spread, full_name)
    if not fields:
        raise InputError(f"{label}: neither an analysis nor a full spread to score against")
    weights = grid_weights(next(iter(fields.values())))
    if mask is not None:
        weights = weights * mask.astype(np.float64)
    if nan_policy == "omit":
        whole = xr.concat([field.notnull() for field in fields.values()], "score").all("score")
        fields = {key: field.where(whole) for key, field in fields.items()}
    series = {key: per_date(field, weights, nan_policy) for key, field in fields.items()}
    dates = next(iter(series.values())).index
    pairs = _pairs(next(iter(fields.values())), weights).loc[dates]
    field = truth if truth is not None else full_spread
    units = field.attrs.get("units", "1") if field is not None else "1"
    rows: list[dict[str, Any]] = []
    tables: list[pd.DataFrame] = []
    for name, at in {region: dates, **(subsets or {})}.items():
        kept = dates.intersection(at)
        if kept.empty:
            continue
        part = {key: values.loc[kept] for key, values in series.items()}
        common = {"method": label, "target": target.name, "region": name}
        by_date = [_by_date(key, values, pairs.loc[kept]) for key, values in part.items()]
        tables.append(pd.concat(by_date).assign(**common))
        rows += [
            {
                **common,
                "members": members,
                "step_hours": target.lead / pd.Timedelta(hours=1),
                "score": score,
                "estimator": estimator,
                **number._asdict(),
                "units": "1" if score == "spread_skill" else units,
                "dates": len(kept),
                "pairs": int(pairs.loc[kept].sum()),
            }
            for (score, estimator), number in _numbers(
                dist, part, bootstrap or Bootstrap(), seed
            ).items()
        ]
    table = pd.concat(tables, ignore_index=True)
    scored = pd.DataFrame(rows, columns=list(COLUMNS))
    return Scored(scored, table[list(PER_DATE_COLUMNS)], _maps(fields, units, nan_policy))


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


def _pairs(field: xr.DataArray, weights: xr.DataArray) -> pd.Series[int]:
    """Number of points that take part, by date."""
    used = field.notnull() & (weights.drop_vars(list(weights.coords)) > 0)
    counts = used.sum([dim for dim in used.dims if dim != "time"])
    return pd.Series(counts.values, index=pd.DatetimeIndex(counts["time"].values))


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
        fields["squared_error", ""] = fields["error", ""] ** 2
        fields["squared_error", ""].name = "squared_error"
        if has_spread:
            fields["variance", ""] = scores.variance(dist)
    if full_spread is not None and has_spread:
        error = scores.spread_squared_error(dist, full_spread)
        fields["spread_squared_error", full_name] = error
    return fields


def _numbers(
    dist: xr.Dataset, series: dict[Key, pd.Series[float]], bootstrap: Bootstrap, seed: int
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
    if ("variance", "") in series:
        size = dist.sizes["number"] if distribution.form_of(dist) == "members" else None
        numbers["spread_skill", ""] = spread_skill(
            series["variance", ""], series["squared_error", ""], bootstrap, seed, members=size
        )
    return numbers


def _maps(fields: dict[Key, xr.DataArray], units: str, nan_policy: NanPolicy) -> xr.Dataset:
    names = {"error": "bias", "variance": "spread", **{v: k for k, v in ROOTS.items()}}
    maps = {}
    for (score, estimator), field in fields.items():
        mean = field.mean("time", skipna=nan_policy == "omit")
        if score not in ("crps", "error"):
            mean = mean**0.5
        name = names.get(score, f"{score}_{estimator}")
        maps[name] = mean.astype(np.float32).assign_attrs(units=units)
    return xr.Dataset(maps).drop_vars(["step", "number"], errors="ignore").compute()


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


def gains(
    table: pd.DataFrame,
    reference: str,
    *,
    score: str = "crps",
    region: str = "whole grid",
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Relative gain of every method over a reference, for every target, paired by date.

    A reference of members is told twice: scored plainly, and with the estimator that is
    kindest to it. Methods with other dates than the reference are compared on the common ones
    (column ``dates``). Errors of the spreads of different ensembles are not compared.

    Parameters
    ----------
    table
        Per-date table.
    reference
        Label of the method to compare with.
    score
        ``crps``, ``rmse`` or ``spread_rmse``.

    Returns
    -------
    Columns :data:`GAIN_COLUMNS`; ``gain`` is 1 - method / reference.

    Raises
    ------
    InputError
        The reference lacks the score, or shares no date with a method.
    """
    rows: list[list[Any]] = []
    stored = ROOTS.get(score, score)
    scored = table[(table["score"] == stored) & (table["region"] == region)]
    for target in scored.loc[scored["method"] == reference, "target"].unique():
        base = date_series(table, target, reference, score, region)
        against = dict.fromkeys((*(["plain"] if "plain" in base else []), kindest(base)))
        for method in scored.loc[scored["target"] == target, "method"].unique():
            if method == reference:
                continue
            own = date_series(table, target, method, score, region)
            for estimator in against:
                if score == "spread_rmse" and estimator not in own:
                    continue
                mine = own_estimator(own, estimator)
                gain, dates = paired_gain(
                    own[mine], base[estimator], bootstrap or Bootstrap(), seed, score in ROOTS
                )
                row = [target, region, score, method, mine, reference, estimator]
                rows.append([*row, *gain, gain.excludes_zero, dates])
    return pd.DataFrame(rows, columns=list(GAIN_COLUMNS))


def paired_gain(
    better: pd.Series[float], than: pd.Series[float], bootstrap: Bootstrap, seed: int, root: bool
) -> tuple[Interval, int]:
    """Gain on the common dates, and their number.

    Raises
    ------
    InputError
        No common date.
    """
    common = better.index.intersection(than.index).sort_values()
    if common.empty:
        raise InputError("two methods to compare share no initial date")
    gain = gain_interval(better[common], than[common], bootstrap, seed, root=root)
    return gain, len(common)


def write(tables: Iterable[pd.DataFrame], path: Path) -> None:
    """Write tables of the same columns as one parquet file, whole or not at all."""
    with partial_name(path) as partial:
        pd.concat(list(tables), ignore_index=True).to_parquet(partial, index=False)
