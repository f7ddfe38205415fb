"""What is in a table, column by column: enough to write a catalog entry for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from weatherpp.data.table_files import BLANK, read_table, sheets, table_kind

EPOCHS = (1e8, 4e9)  # seconds since 1970 of the years 1973 to 2096
PERCENTILES = "percentiles are no ensemble members, see table.percentiles of a catalog entry"
HINT = (
    "a table does not say what its columns mean: write a catalog entry with 'driver: table' "
    "(for example: weatherpp catalog show temp-innsbruck)"
)


def findings(path: Path) -> tuple[list[str], list[str]]:
    """Lines on a CSV, parquet or SQLite file, and what is missing for post-processing.

    Raises
    ------
    InputError
        It is damaged.
    """
    kind = table_kind(path)
    parts = sheets(path) if kind == "SQLite" else [None]
    lines: list[str] = []
    for sheet in parts:
        frame = read_table(path, sheet)
        title = f"{kind} table" + (f" {sheet}" if sheet is not None else "")
        lines.append(f"{title}, {len(frame)} rows, {len(frame.columns)} columns")
        lines += ["  " + _column(frame, group) for group in _groups(list(map(str, frame.columns)))]
    percentiles = any(re.match("  (percentile|quantile)", line) for line in lines)
    return lines, [*([PERCENTILES] if percentiles else []), HINT]


def _groups(columns: list[str]) -> list[list[str]]:
    """Successive columns that differ in a number at their end, such as members, taken together."""
    groups: list[list[str]] = []
    for name in columns:
        stem = re.sub(r"\d+$", "", name)
        if stem != name and groups and re.sub(r"\d+$", "", groups[-1][-1]) == stem:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _column(frame: pd.DataFrame, group: list[str]) -> str:
    values: pd.Series[Any] = pd.concat([frame[name] for name in group])
    name = group[0] if len(group) == 1 else f"{group[0]} to {group[-1]} ({len(group)} columns)"
    there = values[~(values.isna() | values.isin(BLANK))]
    gaps = f", {len(values) - len(there)} missing" if len(there) < len(values) else ""
    if there.empty:
        return f"{name}: empty"
    if there.dtype.kind in "OU" or pd.api.types.is_string_dtype(there):
        parsed = pd.to_numeric(there, errors="coerce")
        there = parsed if parsed.notna().all() else there.astype(str).str.strip()
    first, last = there.min(), there.max()
    count = f"{there.nunique()} different" + gaps
    if pd.api.types.is_numeric_dtype(there):
        times = ""
        if "date" in name.lower() or "time" in name.lower():
            times = _dates(float(first), float(last))
        return f"{name}: numbers {_short(first)} to {_short(last)}{times}, {count}"
    what = "text" if pd.api.types.is_string_dtype(there) else "times"
    return f"{name}: {what} {first} to {last}, {count}"


def _short(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6g}"


def _dates(first: float, last: float) -> str:
    """How numbers in a column of dates may be meant."""
    ends = [f"{end:.0f}" for end in (first, last)]
    days = pd.to_datetime(pd.Series(ends), format="%Y%m%d%H", errors="coerce")
    if len(ends[0]) == 10 and days.notna().all():
        meaning = "if they are YYYYMMDDHH"
    elif EPOCHS[0] <= first <= last <= EPOCHS[1]:
        days = pd.to_datetime(pd.Series([first, last]), unit="s")
        meaning = "if they are seconds since 1970"
    else:
        return ""
    return f" ({days[0]:%Y-%m-%d %H:%M} to {days[1]:%Y-%m-%d %H:%M} {meaning})"
