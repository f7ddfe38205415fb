"""Scores of the methods in the box of a case, by lead time, and over all cases together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd
import xarray as xr

from weatherpp.boxes import inside
from weatherpp.conventions import has_gaps
from weatherpp.events.case import Case
from weatherpp.recipe import Bootstrap, Target
from weatherpp.verify import table
from weatherpp.verify.aggregate import FEWEST_DATES, interval

ALL_CASES = "all cases"
"""Region of the scores of all cases together, each in its own box."""


class BoxScores(NamedTuple):
    """Score table and per-date table as of :mod:`weatherpp.verify.table`; the region is the
    case's name."""

    rows: pd.DataFrame
    per_date: pd.DataFrame


def box_scores(
    case: Case,
    target: Target,
    dists: Mapping[str, xr.Dataset],
    truth: xr.DataArray,
    members: Mapping[str, int],
    bootstrap: Bootstrap,
    seed: int,
) -> BoxScores:
    """All scores of every method in the box of a case.

    Parameters
    ----------
    dists
        Predictive distributions by label, (time, grid...), on the case's dates; where one says
        that it has gaps, all are scored on the pairs that all have.
    truth
        Analysis, the same dates and points.
    members
        Number of trajectories that each method saw.

    Raises
    ------
    InputError
        As :func:`weatherpp.verify.table.score_method`; no point in the box.
    """
    gaps = any(has_gaps(field) for ds in dists.values() for field in ds.data_vars.values())
    gaps = gaps or has_gaps(truth)
    if gaps:
        truth = table.same_pairs(dists.values(), truth)
    scored = [
        table.score_method(
            label,
            dist,
            truth,
            target,
            members=members[label],
            regions={case.name: inside(truth, case.box)},
            nan_policy="omit" if gaps else "raise",
            bootstrap=bootstrap,
            seed=seed,
        )
        for label, dist in dists.items()
    ]
    rows = pd.concat([each.rows for each in scored], ignore_index=True)
    return BoxScores(rows, pd.concat([each.per_date for each in scored], ignore_index=True))


def pooled(per_date: pd.DataFrame) -> pd.DataFrame:
    """The per-date table of all cases together, with the region :data:`ALL_CASES`.

    Each case counts in its own box. Where two have one initial date, that date's value is their
    mean, as resampling needs one for each date.
    """
    keys = ["target", "method", "score", "estimator", "time"]
    joint = per_date.groupby(keys, sort=False).agg({"value": "mean", "pairs": "sum"})
    return joint.reset_index().assign(region=ALL_CASES)[list(table.PER_DATE_COLUMNS)]


def pooled_crps(
    per_date: pd.DataFrame, rows: pd.DataFrame, bootstrap: Bootstrap, seed: int
) -> pd.DataFrame:
    """CRPS of all cases together by target and method, columns of the score table.

    Parameters
    ----------
    per_date
        From :func:`pooled`.
    rows
        Score tables of the cases, for units, members and lead times.
    """
    crps = per_date[per_date["score"] == "crps"]
    firsts = rows.drop_duplicates(["target", "method"]).to_dict("records")
    known = {(row["target"], row["method"]): row for row in firsts}
    found = []
    for key, part in crps.groupby(["target", "method", "estimator"], sort=False):
        target, method, estimator = map(str, key)
        number = interval(part.set_index("time")["value"].sort_index(), bootstrap, seed)
        like = known[target, method]
        found.append(
            {
                **{name: like[name] for name in ("members", "step_hours", "units")},
                **number._asdict(),
                "method": method,
                "target": target,
                "region": ALL_CASES,
                "score": "crps",
                "estimator": estimator,
                "dates": len(part),
                "pairs": int(part["pairs"].sum()),
            }
        )
    return pd.DataFrame(found, columns=list(table.COLUMNS))


def dates_words(dates: int) -> str:
    """What a number of dates allows to be said of a score."""
    if dates == 1:
        return "one date: no interval"
    if dates < FEWEST_DATES:
        return f"{dates} dates: too few for an interval, which takes {FEWEST_DATES}"
    return f"{dates} dates"
