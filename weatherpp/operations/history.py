"""What the ledger knows, for people and machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from weatherpp.conventions import listed
from weatherpp.errors import InputError
from weatherpp.operations.ledger import Ledger, main_estimator


def status(work: Path, count: int = 10) -> dict[str, Any]:
    """The last cycles, the last run, and the last faults and warnings.

    Raises
    ------
    InputError
        There is no ledger.
    """
    with Ledger(work, there=True) as ledger:
        runs = ledger.table("SELECT * FROM runs ORDER BY id DESC LIMIT 1")
        cycles = ledger.table("SELECT * FROM cycles ORDER BY cycle DESC LIMIT ?", [count])
        faults = ledger.table("SELECT * FROM faults ORDER BY id DESC LIMIT ?", [count])
        scored = ledger.table("SELECT max(cycle) AS cycle FROM scores")
    return {
        "run": _records(runs)[0] if len(runs) else None,
        "scored_until": scored["cycle"].iloc[0],
        "cycles": _records(cycles),
        "faults": _records(faults),
    }


def status_text(found: dict[str, Any]) -> str:
    """The same for a terminal."""
    run = found["run"]
    if run is None:
        lines = ["last run: none"]
    else:
        ended = "has not ended" if run["ended"] is None else f"exit code {run['code']}"
        lines = [f"last run: {run['cycles']}, {ended}"]
    lines.append(f"scored until: {found['scored_until'] or 'nothing yet'}")
    for row in found["cycles"]:
        members = "" if row["members"] is None else f"{row['members']:.0f}/{row['expected']:.0f}"
        lines.append(
            f"{row['cycle']}  {row['state']:<8} {members:>7}  {row['text'] or ''}".rstrip()
        )
    for row in found["faults"]:
        when = pd.Timestamp(row["at"], unit="s")
        lines.append(f"{row['severity']} at {when:%Y-%m-%d %H:%M} UTC: {row['text']}")
    return "\n".join(lines)


def history(work: Path, variable: str, level: float | None, lead: float | None) -> pd.DataFrame:
    """Scores by cycle of the fields of a variable.

    Parameters
    ----------
    work
        Work folder.
    variable, level, lead
        Of the field; level (hPa) and lead time (hours) if there are several.

    Returns
    -------
    One row a cycle, target and method: CRPS, error (bias), rmse, members, model.

    Raises
    ------
    InputError
        There is no ledger, or nothing of that field is scored.
    """
    with Ledger(work, there=True) as ledger:
        scores = ledger.scores()
    own = scores[scores["variable"] == variable]
    for column, wanted in (("level", level), ("step_hours", lead)):
        if wanted is not None:
            own = own[own[column].astype(float) == wanted]
    if own.empty:
        known = listed(scores["target"].unique())
        raise InputError(f"{work}: nothing of that field is scored yet; there are {known}")
    own = main_estimator(own)
    keys = ["cycle", "target", "method", "members", "model", "units"]
    wide = own.pivot_table(index=keys, columns="score", values="value").reset_index()
    wide = wide.reindex(columns=[*keys, "crps", "error", "squared_error"])  # all NaN: left out
    wide["rmse"] = wide["squared_error"] ** 0.5
    names = {"error": "bias"}
    return wide.rename(columns=names)[[*keys[:5], "crps", "bias", "rmse", "units"]]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    plain = table.astype(object).where(table.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in plain.to_dict("records")]
