"""CSV, parquet and SQLite files as frames of plain columns, and those columns as numbers or times.

Rows are counted from 1 in messages; of a CSV file neither the line of names nor empty lines count.
"""

from __future__ import annotations

import csv
import gzip
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyarrow import parquet

from weatherpp.conventions import YEARS, listed
from weatherpp.data.table_layout import EPOCH
from weatherpp.errors import InputError

Floats = NDArray[np.float64]
EXACT = 2.0**53  # beyond, float64 passes over whole numbers
LAST_SECOND = (YEARS[-1] - 1970) * 365 * 86400  # within the times in nanoseconds, either way
BLANK = ("", "NA", "NaN", "nan", "None", "null")
GZIP, PARQUET, SQLITE = b"\x1f\x8b", b"PAR1", b"SQLite format 3\x00"


def table_kind(path: Path) -> str | None:
    """``CSV``, ``parquet`` or ``SQLite``; None if the file is no table.

    Raises
    ------
    InputError
        It cannot be read.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(16)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if start == SQLITE:
        return "SQLite"
    if start.startswith(PARQUET):
        return "parquet"
    packed = start.startswith(GZIP)
    name = path.name.lower().removesuffix(".gz") if packed else path.name.lower()
    return "CSV" if name.endswith(".csv") else None


def sheets(path: Path) -> list[str]:
    """Names of the tables in an SQLite data base.

    Raises
    ------
    InputError
        It is damaged.
    """
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    return [str(name) for name in _query(path, query).iloc[:, 0]]


def read_table(path: Path, sheet: str | None = None) -> pd.DataFrame:
    """All rows of a table. Cells of a CSV file stay text, those of others what they are.

    Parameters
    ----------
    path
        CSV (also packed with gzip), parquet or SQLite file.
    sheet
        Which table of an SQLite data base; may be left out if it has one.

    Raises
    ------
    InputError
        Missing, damaged, empty, or no such table.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    kind = table_kind(path)
    packed = kind is not None and path.name.lower().endswith(".gz")
    if kind is None:
        raise InputError(f"{path}: not a table; CSV (.csv, .csv.gz), parquet and SQLite are read")
    if kind == "SQLite":
        frame = _read_sheet(path, sheet)
    elif sheet is not None:
        raise InputError(f"{path}: {kind} has no sheets; leave table.sheet out")
    elif kind == "CSV":
        frame = _read_csv(path, packed)
    else:
        frame = _read_parquet(path)
    twice = frame.columns[frame.columns.duplicated()]
    if twice.size:
        raise InputError(f"{path}: two columns are called '{twice[0]}'; rename one")
    if frame.empty:
        raise InputError(f"{path}: a table without rows")
    return frame


def _read_csv(path: Path, packed: bool) -> pd.DataFrame:
    try:
        opener = gzip.open if packed else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "damaged, cut off or not UTF-8"
        raise InputError(f"{path}: cannot be read ({reason})") from None
    if not rows:
        return pd.DataFrame()
    head, body = rows[0], rows[1:]
    if len(head) < 2:
        raise InputError(f"{path}: one column only; are its cells separated by commas?")
    for number, row in enumerate(body, start=1):
        if len(row) != len(head):
            raise InputError(
                f"{path}: row {number} has {len(row)} cells, there are {len(head)} columns; is the "
                "file cut off?"
            )
    return pd.DataFrame(body, columns=head, dtype=object)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        table = parquet.read_table(path)
        table.validate(full=True)  # else text that is no UTF-8 is found out when it is used
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    except Exception as error:  # those of pyarrow and of pandas have no common base
        raise InputError(
            f"{path}: not a readable parquet file (damaged or cut off?); fetch it again"
        ) from error
    return frame


def _read_sheet(path: Path, sheet: str | None) -> pd.DataFrame:
    names = sheets(path)
    if sheet is None and len(names) != 1:
        raise InputError(f"{path}: say which table in table.sheet; there are {listed(names)}")
    chosen = sheet if sheet is not None else names[0]
    if chosen not in names:
        raise InputError(f"{path}: no table '{chosen}'; there are {listed(names)}")
    quoted = chosen.replace('"', '""')
    return _query(path, f'SELECT * FROM "{quoted}"')


def _query(path: Path, query: str) -> pd.DataFrame:
    try:
        # immutable: no journal is looked for or left beside the file
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            return pd.read_sql_query(query, connection)
    except Exception as error:  # those of sqlite3 and of pandas have no common base
        raise InputError(
            f"{path}: not a readable SQLite data base (damaged or cut off?); fetch it again"
        ) from error


def column(frame: pd.DataFrame, name: str, where: str) -> pd.Series[Any]:
    """A column by name.

    Raises
    ------
    InputError
        There is none; the message lists those there are.
    """
    if name not in frame.columns:
        raise InputError(f"{where}: no column '{name}'; there are {listed(frame.columns)}")
    return frame[name]


def numbers(values: pd.Series[Any], where: str, missing: tuple[float, ...] = ()) -> Floats:
    """A column as float64; blank cells and the numbers in ``missing`` are NaN.

    Raises
    ------
    InputError
        A cell is no finite number; the message names its row.
    """
    if pd.api.types.is_datetime64_any_dtype(values) or values.dtype.kind == "m":
        raise InputError(f"{where}: column '{values.name}' holds times, not numbers")
    if pd.api.types.is_bool_dtype(values):
        raise InputError(f"{where}: column '{values.name}' holds truth values, not numbers")
    blank = values.isna().to_numpy()
    if not pd.api.types.is_numeric_dtype(values):
        values = values.astype(object).where(~blank, "").astype(str).str.strip()
        blank = values.isin(BLANK).to_numpy()
    found = pd.to_numeric(values, errors="coerce").to_numpy(np.float64)
    bad = ~np.isfinite(found) & ~blank
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{where}: column '{values.name}', row {row + 1}: '{values.iloc[row]}' is no number"
        )
    return np.where(np.isin(found, missing), np.nan, found)


def times(values: pd.Series[Any], where: str, form: str | None = None) -> pd.DatetimeIndex:
    """A column of times, UTC, without a time zone.

    Parameters
    ----------
    form
        ``strptime`` format, ``epoch`` for seconds since 1970; by default ISO 8601 text.

    Raises
    ------
    InputError
        A cell is no time; the message names its row.
    """
    name = values.name
    if form == EPOCH:
        seconds = numbers(values, where)
        within = np.abs(seconds) < LAST_SECOND  # False for NaN
        found = pd.to_datetime(pd.Series(np.where(within, seconds, np.nan)), unit="s", utc=True)
    elif pd.api.types.is_datetime64_any_dtype(values):
        found = pd.to_datetime(values, utc=True)
    elif form is None and pd.api.types.is_numeric_dtype(values):
        raise InputError(
            f"{where}: column '{name}' holds numbers; say in table.time_format what they mean "
            "(epoch, %Y%m%d%H...)"
        )
    else:
        text = values.astype(str).str.strip()
        found = pd.to_datetime(text, format=form or "ISO8601", utc=True, errors="coerce")
    said = f"of the form {form}" if form else "(ISO 8601; or say table.time_format)"
    bad = found.isna().to_numpy()
    beyond = ~bad & ~found.dt.year.isin(YEARS).to_numpy()
    if (bad | beyond).any():
        row = int((bad | beyond).argmax())
        fault = f"is no time {said}"
        if beyond[row]:
            fault = f"lies beyond the years {YEARS[0]} to {YEARS[-1]}"
        raise InputError(f"{where}: column '{name}', row {row + 1}: '{values.iloc[row]}' {fault}")
    return pd.DatetimeIndex(found).tz_localize(None).as_unit("ns")


def names(values: pd.Series[Any], where: str) -> NDArray[np.str_]:
    """A column of identifiers as text; whole numbers lose no and gain no digits.

    Raises
    ------
    InputError
        A cell is empty, or a number with a fraction.
    """
    if values.dtype.kind == "f":
        found = numbers(values, where)
        odd = ~((found == np.rint(found)) & (np.abs(found) < EXACT))  # NaN is odd, too
        if odd.any():
            row = int(odd.argmax())
            raise InputError(
                f"{where}: column '{values.name}', row {row + 1}: '{values.iloc[row]}' is no "
                "identifier"
            )
        values = pd.Series(found.astype(np.int64), name=values.name)
    text = values.astype(object).where(values.notna().to_numpy(), "").astype(str).str.strip()
    empty = (text == "").to_numpy()
    if empty.any():
        raise InputError(
            f"{where}: column '{values.name}', row {int(empty.argmax()) + 1} is empty; every row "
            "needs a station"
        )
    return text.to_numpy(dtype=np.str_)
