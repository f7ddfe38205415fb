"""Tables of docs/research.md from the scores of a run.

python docs/make_research.py runs/research_full
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

ORDER = ["plain", "fair", "gaussian"]


def cell(row: pd.Series) -> str:
    """Value and interval, as many digits as its size asks for."""
    digits = 1 if row["value"] >= 10 else 3
    text = f"{row['value']:.{digits}f}"
    if pd.notna(row["low"]):
        text += f" [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"
    return text


def wide(rows: pd.DataFrame, columns: str) -> list[str]:
    """Markdown table: a line for each method and estimator, a column for each target."""
    rows = rows.assign(text=rows.apply(cell, axis=1))
    names = list(dict.fromkeys(rows[columns]))
    lines = ["| | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    keys = list(dict.fromkeys(zip(rows["method"], rows["estimator"], strict=True)))
    for method, estimator in keys:
        part = rows[(rows["method"] == method) & (rows["estimator"] == estimator)]
        found = part.set_index(columns)["text"]
        kind = f" ({estimator})" if estimator in ORDER else ""
        lines.append(f"| {method}{kind} | " + " | ".join(found.get(n, "") for n in names) + " |")
    return lines


def main(run: Path) -> None:
    """Print everything."""
    scores = pd.read_parquet(run / "scores" / "scores.parquet")
    for region in dict.fromkeys(scores["region"]):
        for score in ("crps", "spread_rmse"):
            rows = scores[(scores["region"] == region) & (scores["score"] == score)]
            if len(rows):
                dates = sorted(set(rows["dates"]))
                print(f"\n{score}, {region}, {dates} dates\n")
                print("\n".join(wide(rows, "target")))
    gains = pd.read_parquet(run / "scores" / "gains.parquet")
    for (region, reference, estimator), rows in gains.groupby(
        ["region", "reference", "reference_estimator"], sort=False
    ):
        rows = rows.assign(
            text=[
                f"{100 * g:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
                for g, low, high in rows[["gain", "low", "high"]].to_numpy()
            ]
        )
        print(f"\nbelow {reference} {estimator}, {region}\n")
        print(rows.pivot(index="method", columns="target", values="text").to_string())
    for name in ("curves", "worth"):
        table = pd.read_parquet(run / "scores" / f"{name}.parquet")
        if len(table):
            print(f"\n{name}\n")
            print(table.to_string(index=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
