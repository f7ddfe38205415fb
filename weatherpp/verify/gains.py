r"""How much better one method is than another, how surely, and where: gains and scorecards.

A *gain* is :math:`1 - s / s_{ref}` for scores where less is better. For the ratio r of spread to
error, whose best value is one, it is :math:`|\log r_{ref}| - |\log r|`: how much nearer to one
the ratio has come, as a fraction. Intervals are of the moving-block bootstrap, p values of the
Diebold-Mariano test on what the two methods scored on the same dates; for roots (RMSE) on the mean
squares, for the ratio on its linear approximation (the delta method), which does not see that
the sign of a log may turn where a ratio is hardly different from one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.recipe import Bootstrap
from weatherpp.verify.aggregate import Interval, gain_interval, limits_of, resample
from weatherpp.verify.regions import WHOLE
from weatherpp.verify.significance import discoveries, equal_means
from weatherpp.verify.table import EXPECTED, ROOTS, date_series, kindest, own_estimator

GAIN_COLUMNS = (
    *("target", "region", "score", "method", "estimator", "reference", "reference_estimator"),
    *("gain", "low", "high", "excludes_zero", "p_value", "dates"),
)
CARD_COLUMNS = (
    *("target", "step_hours", "region", "score", "method", "estimator"),
    *("reference", "reference_estimator", "value", "reference_value", "gain", "low", "high"),
    *("p_value", "significant", "dates", "left_out"),
)
CARD_SCORES = ("crps", "rmse", "spread_skill", "spread_rmse")
RATIO = "spread_skill"
Leads = Mapping[str, pd.Timedelta]


class Comparison(NamedTuple):
    """One method against another on their common dates.

    Attributes
    ----------
    value, reference_value
        The two scores.
    gain
        See the module, with its interval.
    p_value
        Probability of as large a difference if there were none; NaN for too few dates.
    dates, left_out
        Number of common dates, and of those that only one of the two has.
    """

    value: float
    reference_value: float
    gain: Interval
    p_value: float
    dates: int
    left_out: int


def common_dates(one: pd.Series[float], two: pd.Series[float]) -> pd.DatetimeIndex:
    """Dates that both have, sorted.

    Raises
    ------
    InputError
        None.
    """
    common = pd.DatetimeIndex(one.index.intersection(two.index).sort_values())
    if common.empty:
        raise InputError("two methods to compare share no initial date")
    return common


def paired_gain(
    better: pd.Series[float], than: pd.Series[float], bootstrap: Bootstrap, seed: int, root: bool
) -> tuple[Interval, int]:
    """Gain on the common dates, and their number.

    Raises
    ------
    InputError
        No common date.
    """
    common = common_dates(better, than)
    gain = gain_interval(better[common], than[common], bootstrap, seed, root=root)
    return gain, len(common)


def compare(
    own: pd.Series[float],
    reference: pd.Series[float],
    *,
    root: bool = False,
    lead: pd.Timedelta | None = None,
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
) -> Comparison:
    """Two scores by date, less is better.

    Parameters
    ----------
    own, reference
        Means over space by date.
    root
        The score is the root of the mean.
    lead
        Of the forecasts, see :func:`weatherpp.verify.significance.lags_for`.

    Raises
    ------
    InputError
        No common date.
    """
    gain, dates = paired_gain(own, reference, bootstrap or Bootstrap(), seed, root)
    common = common_dates(own, reference)
    one, two = own[common], reference[common]
    power = 0.5 if root else 1.0
    values = float(one.mean() ** power), float(two.mean() ** power)
    left_out = len(own) + len(reference) - 2 * dates
    return Comparison(*values, gain, equal_means(one, two, lead), dates, left_out)


def compare_ratio(
    own: tuple[pd.Series[float], pd.Series[float]],
    reference: tuple[pd.Series[float], pd.Series[float]],
    *,
    lead: pd.Timedelta | None = None,
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
) -> Comparison:
    """Two ratios of spread to error, each given by its expected and true squared error by date.

    Raises
    ------
    InputError
        No common date.
    """
    bootstrap = bootstrap or Bootstrap()
    common = common_dates(own[0], reference[0])
    parts = [series[common].to_numpy(np.float64) for series in (*own, *reference)]
    draws = resample(common, bootstrap, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = _logs(*(part.mean() for part in parts))
        again = _logs(*(part[draws].mean(axis=1) for part in parts))
        gain = float(abs(logs[1]) - abs(logs[0]))
        found = limits_of(abs(again[1]) - abs(again[0]), gain, len(common), bootstrap.level)
        pulls = [0.5 * (parts[i] / parts[i].mean() - parts[i + 1] / parts[i + 1].mean())
                 for i in (0, 2)]  # fmt: skip
    slopes = np.sign(logs[1]) * pulls[1] - np.sign(logs[0]) * pulls[0]
    p_value = equal_means(
        pd.Series(gain + slopes, index=common), pd.Series(0.0, index=common), lead
    )
    left_out = len(own[0]) + len(reference[0]) - 2 * len(common)
    values = float(np.exp(logs[0])), float(np.exp(logs[1]))
    return Comparison(*values, found, p_value, len(common), left_out)


def _logs(own: Any, own_error: Any, other: Any, other_error: Any) -> tuple[Any, Any]:
    return 0.5 * np.log(own / own_error), 0.5 * np.log(other / other_error)


def gains(
    table: pd.DataFrame,
    reference: str,
    *,
    score: str = "crps",
    region: str = WHOLE,
    leads: Leads | None = None,
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
        Per-date table, see :mod:`weatherpp.verify.table`.
    reference
        Label of the method to compare with.
    score
        ``crps``, ``rmse`` or ``spread_rmse``.
    leads
        Lead time by target, for the lags of the test.

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
                found = compare(
                    own[mine],
                    base[estimator],
                    root=score in ROOTS,
                    lead=(leads or {}).get(str(target)),
                    bootstrap=bootstrap,
                    seed=seed,
                )
                row = [target, region, score, method, mine, reference, estimator]
                gain = found.gain
                rows.append([*row, *gain, gain.excludes_zero, found.p_value, found.dates])
    return pd.DataFrame(rows, columns=list(GAIN_COLUMNS))


def scorecard(
    own: pd.DataFrame,
    reference: pd.DataFrame,
    pairs: Iterable[tuple[str, str]],
    leads: Leads,
    *,
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
    alpha: float = 0.05,
    same_estimator: bool = False,
) -> pd.DataFrame:
    """Every target, region and score of methods against others, with discoveries over all of it.

    Parameters
    ----------
    own, reference
        Per-date tables; the same one to compare methods of one run.
    pairs
        Labels: a method of ``own`` and the one of ``reference`` that it is held against.
    leads
        Lead time by target.
    bootstrap, seed
        How intervals are made.
    alpha
        Of what is marked as significant, the expected share that is none is at most this: the
        procedure of Benjamini and Hochberg (1995) over the whole card at this level itself, as
        the doubled one of Wilks (2016) is for the points of a map.
    same_estimator
        Compare the CRPS by the same estimator alone. Else a method whose distribution has one
        of its own is compared by that. The reference is scored in the way kindest to it.

    Returns
    -------
    Columns :data:`CARD_COLUMNS`; no row where one of the two lacks the score.

    Raises
    ------
    InputError
        No date in common; under ``same_estimator`` no estimator in common.
    """
    rows = []
    for label, other in pairs:
        for (target, region), mine in own[own["method"] == label].groupby(
            ["target", "region"], sort=False
        ):
            theirs = reference[
                (reference["method"] == other)
                & (reference["target"] == target)
                & (reference["region"] == region)
            ]
            lead = leads[str(target)]
            settings = {"lead": lead, "bootstrap": bootstrap, "seed": seed}
            head = {"target": target, "region": region, "method": label, "reference": other}
            head["step_hours"] = lead / pd.Timedelta(hours=1)
            for score in CARD_SCORES:
                found = _cell(mine, theirs, score, same_estimator, settings)
                rows += [{**head, "score": score, **found}] if found else []
    card = pd.DataFrame(rows, columns=[c for c in CARD_COLUMNS if c != "significant"])
    significant = np.zeros(len(card), bool)
    if card["p_value"].notna().any():
        p_values = xr.DataArray(card["p_value"].to_numpy(np.float64), dims="cell")
        significant = discoveries(p_values, alpha / 2).values
    return card.assign(significant=significant)[list(CARD_COLUMNS)]


def _cell(
    own: pd.DataFrame,
    reference: pd.DataFrame,
    score: str,
    same_estimator: bool,
    settings: Mapping[str, Any],
) -> dict[str, Any] | None:
    stored = EXPECTED if score == RATIO else ROOTS.get(score, score)
    if not all((table["score"] == stored).any() for table in (own, reference)):
        return None
    names = [str(own[name].iloc[0]) for name in ("target", "region")]
    labels = [str(table["method"].iloc[0]) for table in (own, reference)]

    def series(what: str, table: pd.DataFrame) -> dict[str, pd.Series[float]]:
        return date_series(table, names[0], str(table["method"].iloc[0]), what, names[1])

    if score == RATIO:
        pairs = [
            (series(EXPECTED, table)[""], series("squared_error", table)[""])
            for table in (own, reference)
        ]
        found = compare_ratio(*pairs, **settings)
        mine = theirs = ""
    else:
        left, right = series(score, own), series(score, reference)
        if same_estimator or score == "spread_rmse":
            shared = {key: value for key, value in right.items() if key in left}
            if not shared and score == "spread_rmse":
                return None
            if not shared:
                raise InputError(
                    f"{names[0]}: the {score} of {labels[0]} is by the estimator "
                    f"{', '.join(left)}, that of {labels[1]} by {', '.join(right)}; the two "
                    "cannot be compared"
                )
            right = shared
        theirs = kindest(right)
        mine = own_estimator(left, theirs)
        found = compare(left[mine], right[theirs], root=score in ROOTS, **settings)
    head = {"estimator": mine, "reference_estimator": theirs}
    numbers = found._asdict() | {"gain": found.gain.value}
    return {**head, **numbers, "low": found.gain.low, "high": found.gain.high}
