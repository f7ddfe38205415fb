"""Whether the scores bear out what a recipe claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

import numpy as np
import pandas as pd

from weatherpp.errors import ConfigError
from weatherpp.recipe import Bootstrap, Claim
from weatherpp.verify.aggregate import Interval
from weatherpp.verify.gains import paired_gain
from weatherpp.verify.table import ROOTS, date_series, kindest, own_estimator


class Verdict(TypedDict):
    """A claim's outcome; ``value``, ``low``, ``high`` and ``bound`` are relative gains."""

    name: str
    value: float
    low: float
    high: float
    bound: float
    holds: bool
    dates: int
    text: str


def evaluate(
    claims: Iterable[Claim],
    table: pd.DataFrame,
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
) -> list[Verdict]:
    """Verdict on each claim from the per-date table.

    A claim holds if the relative gain ``1 - better / than`` is at least the bound and the
    lower limit of its interval is above zero (so never on dates too few for an interval). Where
    a claim leaves the estimator of ``than`` open, the one that is kindest to it is taken.

    Parameters
    ----------
    claims
        From a recipe; their score is ``crps``, ``rmse`` or ``spread_rmse``.
    table
        Per-date table, see :mod:`weatherpp.verify.table`.

    Raises
    ------
    ConfigError
        An estimator that does not exist.
    InputError
        The table lacks a score that a claim names.
    """
    return [_evaluate(claim, table, bootstrap or Bootstrap(), seed) for claim in claims]


def _evaluate(claim: Claim, table: pd.DataFrame, bootstrap: Bootstrap, seed: int) -> Verdict:
    better, than = (
        date_series(table, claim.target, label, claim.score, claim.region)
        for label in (claim.better, claim.than)
    )
    reference = _known(claim, claim.than_estimator, than) or kindest(than)
    own = _known(claim, claim.estimator, better) or own_estimator(better, reference)
    gain, dates = paired_gain(
        better[own], than[reference], bootstrap, seed, root=claim.score in ROOTS
    )
    return Verdict(
        name=claim.name,
        value=gain.value,
        low=gain.low,
        high=gain.high,
        bound=claim.gain,
        holds=bool(gain.value >= claim.gain and gain.low > 0),
        dates=dates,
        text=_text(claim, gain, own, reference, dates, bootstrap.level),
    )


def _known(claim: Claim, estimator: str | None, series: dict[str, pd.Series[float]]) -> str | None:
    if estimator is not None and estimator not in series:
        known = ", ".join(sorted(series)) if any(series) else "none"
        raise ConfigError(f"claim '{claim.name}': no estimator '{estimator}'; there is {known}")
    return estimator


def _text(claim: Claim, gain: Interval, own: str, reference: str, dates: int, level: float) -> str:
    def named(label: str, estimator: str) -> str:
        return f"{label} ({estimator})" if estimator else label

    limits = f"{level:.0%} interval {gain.low:.1%} to {gain.high:.1%}"
    where = "" if claim.region == "whole grid" else f" on {claim.region}"
    return (
        f"{claim.target} {claim.score}{where}: {named(claim.better, own)} against "
        f"{named(claim.than, reference)}: gain {gain.value:.1%}, "
        f"{limits if np.isfinite(gain.low) else 'too few dates for an interval'}, "
        f"bound {claim.gain:.1%}, {dates} {'date' if dates == 1 else 'dates'}"
    )
