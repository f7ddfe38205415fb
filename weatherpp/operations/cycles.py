"""Cycles: initial times in UTC, named as folders are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd

from weatherpp.errors import ConfigError

FORMAT = "%Y-%m-%dT%H"
EXAMPLE = "2026-11-30T00"


def cycle_name(cycle: pd.Timestamp) -> str:
    """Text of a cycle, such as ``2026-11-30T00``."""
    return cycle.strftime(FORMAT)


def parse_cycle(text: str, hours: Sequence[int]) -> pd.Timestamp:
    """A cycle from its text; times without a zone are UTC.

    Raises
    ------
    ConfigError
        It is no time, or none at which a cycle starts.
    """
    fault = ConfigError(f"'{text}' is no cycle; write for example {EXAMPLE}")
    try:
        time = pd.Timestamp(text)
    except ValueError:
        raise fault from None
    if pd.isna(time):
        raise fault
    if time.tzinfo is not None:
        time = time.tz_convert("UTC").tz_localize(None)
    if time != time.floor("h") or time.hour not in hours:
        known = ", ".join(f"{hour:02}" for hour in sorted(hours))
        raise ConfigError(f"'{text}' is no cycle; they start at {known} UTC (cycles in the recipe)")
    try:
        return time.as_unit("ns")
    except ValueError:  # beyond what nanoseconds can count
        raise fault from None


def latest_cycle(hours: Sequence[int], now: datetime | None = None) -> pd.Timestamp:
    """The last cycle that has started."""
    time = pd.Timestamp(now or datetime.now(UTC)).tz_convert("UTC").tz_localize(None).floor("h")
    while time.hour not in hours:
        time -= pd.Timedelta(hours=1)
    return time.as_unit("ns")


def cycles_between(
    first: pd.Timestamp, last: pd.Timestamp, hours: Sequence[int]
) -> list[pd.Timestamp]:
    """All cycles from ``first`` to ``last``, both included.

    Raises
    ------
    ConfigError
        ``last`` comes before ``first``.
    """
    if last < first:
        raise ConfigError(f"--to {cycle_name(last)} comes before --from {cycle_name(first)}")
    return [time for time in pd.date_range(first, last, freq="h") if time.hour in hours]
