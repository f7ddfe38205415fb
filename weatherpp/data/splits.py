"""Training, validation and test by time, never mixed and with a gap of the lead time."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from weatherpp.conventions import hours
from weatherpp.errors import ConfigError
from weatherpp.recipe import YearSplit


def by_years(
    times: pd.DatetimeIndex, split: YearSplit, lead: pd.Timedelta
) -> dict[str, pd.DatetimeIndex]:
    """Initial times of each split.

    A date whose valid time (initial time + ``lead``) reaches or passes the first initial time
    of a later split is dropped from the earlier one, so that nothing is learned from the state
    another split starts with.

    Returns
    -------
    dict with the keys ``train``, ``valid``, ``test``; each sorted, none empty.

    Raises
    ------
    ConfigError
        A split has no dates; the message names the years there are.
    """
    times = times.unique().sort_values()
    ranges = {"train": split.train, "valid": split.valid, "test": split.test}
    parts = {
        name: times[(times.year >= first) & (times.year <= last)]
        for name, (first, last) in ranges.items()
    }
    order = sorted(ranges, key=lambda name: ranges[name])
    for place, name in enumerate(order):
        starts = [parts[later][0] for later in order[place + 1 :] if len(parts[later])]
        if starts:
            parts[name] = parts[name][parts[name] + lead < min(starts)]
    for name, part in parts.items():
        if not len(part):
            first, last = ranges[name]
            years = sorted(set(times.year))
            there = f"{years[0]} to {years[-1]}" if years else "no dates"
            raise ConfigError(
                f"split.{name}: no dates in {first} to {last} with a gap of {hours(lead):g} h; "
                f"the data have {there}"
            )
    return parts


def sliding(
    times: pd.DatetimeIndex, past: pd.DatetimeIndex, window: pd.Timedelta, lead: pd.Timedelta
) -> Iterator[tuple[pd.DatetimeIndex, pd.DatetimeIndex]]:
    """Pairs (train, predict) of each of ``times`` that has a whole ``window`` before it.

    Trained on are those of ``past`` whose valid time (initial time + ``lead``) is before the date
    that is predicted, by no more than ``window``. A date after a gap, whose window holds less
    than half as many of them as the fullest, is left out: a fit on one date or two is none.
    """
    times, past = (part.unique().sort_values() for part in (times, past))
    valid = past + lead
    at = times[times - window >= valid.min()]
    trains = [past[(valid >= each - window) & (valid < each)] for each in at]
    fullest = max(map(len, trains), default=0)
    for each, train in zip(at, trains, strict=True):
        if len(train) and 2 * len(train) >= fullest:
            yield train, pd.DatetimeIndex([each])


def leave_years_out(
    times: pd.DatetimeIndex, lead: pd.Timedelta
) -> Iterator[tuple[pd.DatetimeIndex, pd.DatetimeIndex, pd.DatetimeIndex]]:
    """Triples (train, valid, test) in which each calendar year of initial times is the test once.

    The year before it validates, for the first year the last one. Dates whose analysis falls into
    another part, or that begin within ``lead`` of its end, are left out of training.

    Raises
    ------
    ConfigError
        Fewer than three years, or no date is left to train on.
    """
    times = times.unique().sort_values()
    years = sorted(set(times.year))
    if len(years) < 3:
        raise ConfigError(
            f"split.leave_out: year needs three years at least, the data have {len(years)}"
        )
    for place, year in enumerate(years):
        test, valid = (times[times.year == each] for each in (year, years[place - 1]))
        train = times[(times.year != year) & (times.year != years[place - 1])]
        for part in (test, valid):
            train = train[(train < part[0] - lead) | (train > part[-1] + lead)]
        valid = valid[(valid < test[0] - lead) | (valid > test[-1] + lead)]
        if not len(train) or not len(valid):
            raise ConfigError(
                f"split.leave_out: no dates are left to train or validate on without {year}"
            )
        yield train, valid, test


def leave_one_out(
    times: pd.DatetimeIndex, lead: pd.Timedelta
) -> Iterator[tuple[pd.DatetimeIndex, pd.DatetimeIndex]]:
    """Pairs (train, test) in which each initial time is the test once.

    Dates at most ``lead`` before or after the test's are not trained on either: the analysis that
    one of the two is verified with would fall into the forecast of the other.

    Raises
    ------
    ConfigError
        Fewer than two dates, or none far enough from one of them.
    """
    times = times.unique().sort_values()
    if len(times) < 2:
        raise ConfigError(f"split.leave_out: needs two dates at least, the data have {len(times)}")
    folds = [
        (times[(times < time - lead) | (times > time + lead)], times[at : at + 1])
        for at, time in enumerate(times)
    ]
    for train, test in folds:
        if not len(train):
            raise ConfigError(
                f"split.leave_out: no date is more than the lead time of {hours(lead):g} h away "
                f"from {test[0]:%Y-%m-%d %H:%M}, so none is left to train on"
            )
    return iter(folds)
