"""Two runs held against each other: is the second better, where, and how surely?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from weatherpp.errors import ConfigError, InputError
from weatherpp.files import partial_name, write_whole
from weatherpp.pipeline.truths import VERIFIED
from weatherpp.recipe import EXTREME, Bootstrap
from weatherpp.verify.gains import scorecard
from weatherpp.verify.table import LIMIT, PER_DATE_COLUMNS, read

ALPHA = 0.05
LEADING = ("crps", "spread_rmse")  # scores that are told in words in the terminal


class About(NamedTuple):
    """What a target is."""

    variable: str
    step_hours: float


@dataclass(frozen=True)
class RunScores:
    """What a finished run scored, and against what."""

    path: Path
    per_date: pd.DataFrame
    verified: pd.DataFrame
    targets: dict[str, About]

    @classmethod
    def read(cls, run: Path) -> RunScores:
        """Scores of a run folder.

        Raises
        ------
        InputError
            It is no run folder, was not verified, or is damaged.
        """
        folder = run / "scores"
        if not run.is_dir():
            raise InputError(f"{run}: no such run folder; give the folder of a finished run")
        if not (folder / "per_date.parquet").is_file():
            raise InputError(
                f"{run}: no scores there; make them with 'weatherpp verify RECIPE --run-dir {run}'"
            )
        again = f"weatherpp verify RECIPE --run-dir {run} --force verify"
        tables = []
        for name, columns in (("per_date", PER_DATE_COLUMNS), ("verified", VERIFIED)):
            path = folder / f"{name}.parquet"
            table = read(path, again, columns)
            fault = _fault(table)
            if fault:
                raise InputError(f"{path}: damaged, {fault}; make it again with '{again}'")
            tables.append(table)
        path = folder / "targets.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            targets = {
                str(name): About(str(about["variable"]), float(about["step_hours"]))
                for name, about in found.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path}: missing or damaged; make it again with '{again}'") from None
        for name in tables[0]["target"].unique():
            if name not in targets or not np.isfinite(targets[name].step_hours):
                raise InputError(
                    f"{path}: does not tell the lead time of {name}; make it again with '{again}'"
                )
        scores = tables[0][~tables[0]["method"].astype(str).str.startswith(LIMIT)]
        return cls(run, scores, tables[1], targets)

    def dates(self, target: str, method: str) -> set[Any]:
        """Initial dates on which a method was scored."""
        own = (self.per_date["target"] == target) & (self.per_date["method"] == method)
        return set(self.per_date.loc[own, "time"])


def _fault(table: pd.DataFrame) -> str:
    """What is wrong with a table of scores by date, or of what was verified; empty if nothing."""
    times = table["time"]
    if not pd.api.types.is_datetime64_any_dtype(times) or times.isna().any():
        return "its dates are none"
    if "value" in table and not (
        pd.api.types.is_float_dtype(table["value"]) and np.isfinite(table["value"]).all()
    ):
        return "some of its scores are no numbers"
    keys = [name for name in table if name not in ("value", "pairs", "digest")]
    twice = table.duplicated(keys)
    return f"{int(twice.sum())} of its rows stand twice" if twice.any() else ""


@dataclass(frozen=True)
class Compared:
    """How the second run fares against the first.

    Attributes
    ----------
    card
        Scorecard with the column ``variable``; the method is that of B, its reference that of A.
    notes
        What was left out, and other things to know, in words.
    """

    a: Path
    b: Path
    card: pd.DataFrame
    notes: list[str]

    def verdict(self) -> str:
        """One sentence on all of it."""
        sure = self.card[self.card["significant"]]
        better, worse = int((sure["gain"] > 0).sum()), int((sure["gain"] < 0).sum())
        return (
            f"B ({self.b}) against A ({self.a}): of {len(self.card)} comparisons B is "
            f"significantly better in {better} and worse in {worse}; at most "
            f"{100 * ALPHA:.0f} % of these are expected to be chance."
        )

    def sentences(self, scores: Sequence[str] = ()) -> list[str]:
        """Each comparison in words; of some scores alone if they are named."""
        from weatherpp.report.scorecard import sentence

        rows = self.card.to_dict("records")
        return [sentence(row) for row in rows if not scores or row["score"] in scores]

    def text(self) -> str:
        """For a terminal."""
        from weatherpp.report.scorecard import text

        told = self.sentences(LEADING)
        return "\n".join([self.verdict(), *self.notes, *told, "", text(self.card, ALPHA)])


def compare_runs(
    a: Path,
    b: Path,
    *,
    different_data: bool = False,
    bootstrap: Bootstrap | None = None,
    seed: int = 1,
) -> Compared:
    """Compare methods of the same label in two runs, target by target, on their common dates.

    Parameters
    ----------
    a, b
        Run folders.
    different_data
        Compare them even if they were not scored against the same data.
    bootstrap, seed
        How intervals are made.

    Raises
    ------
    InputError
        A folder cannot be used; there is nothing in common; the runs were scored against
        different data, or by different estimators.
    """
    one, two = RunScores.read(a), RunScores.read(b)
    matched, notes = _match(one, two)
    notes += _same_truth(one, two, matched, different_data)
    parts = [
        run.per_date[
            [key in matched for key in zip(run.per_date["target"], run.per_date["method"],
                                           strict=True)]
        ]
        for run in (one, two)
    ]  # fmt: skip
    parts = [part[part["region"] != EXTREME] for part in parts]
    card = scorecard(
        parts[1],
        parts[0],
        [(method, method) for method in dict.fromkeys(method for _, method in matched)],
        {name: pd.Timedelta(hours=about.step_hours) for name, about in two.targets.items()},
        bootstrap=bootstrap,
        seed=seed,
        alpha=ALPHA,
        same_estimator=True,
    )
    card.insert(0, "variable", [two.targets[name].variable for name in card["target"]])
    return Compared(a, b, card, notes)


def _match(one: RunScores, two: RunScores) -> tuple[list[tuple[str, str]], list[str]]:
    """Targets with methods that both runs have, and what only one of them has."""
    keys = [
        list(dict.fromkeys(zip(run.per_date["target"], run.per_date["method"], strict=True)))
        for run in (one, two)
    ]
    both = [key for key in keys[0] if key in keys[1]]
    if not both:
        shown = [", ".join(f"{m} of {t}" for t, m in key[:6]) or "nothing" for key in keys]
        raise InputError(
            f"{one.path} and {two.path} have no method of the same label and target in common; "
            f"the first has {shown[0]}, the second {shown[1]}"
        )
    notes, matched = [], []
    for name, key, run in (("A", keys[0], one), ("B", keys[1], two)):
        alone = [f"{method} of {target}" for target, method in key if (target, method) not in both]
        notes += [f"Only {name} ({run.path}) has {', '.join(alone)}."] if alone else []
    for target, method in both:
        if one.targets.get(target) != two.targets.get(target):
            raise InputError(
                f"target {target} is another field or lead time in {one.path} than in {two.path}; "
                "give them different labels"
            )
        dates = [run.dates(target, method) for run in (one, two)]
        common, alone_on = len(dates[0] & dates[1]), len(dates[0] ^ dates[1])
        if not common:
            notes.append(f"{method} of {target} is left out: the runs share no date of it.")
            continue
        if alone_on:
            notes.append(
                f"{method} of {target}: {common} common dates, {alone_on} of one run left out."
            )
        matched.append((target, method))
    if not matched:
        raise InputError(f"{one.path} and {two.path} share no initial date to be compared on")
    return matched, notes


def _same_truth(
    one: RunScores, two: RunScores, matched: Sequence[tuple[str, str]], different_data: bool
) -> list[str]:
    """Refuse runs scored against different data, unless told to go on; then say so."""
    keys = ["target", "method", "time"]
    both = one.verified.merge(two.verified, on=keys, suffixes=("_a", "_b"))
    both = both[[key in matched for key in zip(both["target"], both["method"], strict=True)]]
    differ = both[both["digest_a"] != both["digest_b"]]
    if differ.empty:
        return []
    first = differ.iloc[0]
    text = (
        f"{len(differ)} of {len(both)} forecasts were scored against other data or on other "
        f"points in {one.path} than in {two.path}, first {first['method']} of {first['target']} on "
        f"{pd.Timestamp(first['time']):%Y-%m-%d %H:%M}"
    )
    if not different_data:
        raise InputError(f"{text}; --different-data compares them all the same")
    return [f"Mind: {text}."]


def write_comparison(found: Compared, folder: Path) -> Path:
    """Write ``compare.html``, ``compare.json`` and ``compare.csv``; returns the page's path.

    Raises
    ------
    ConfigError
        The folder cannot be made.
    InputError
        A file cannot be written.
    """
    from weatherpp.report.content import ReportData, Section
    from weatherpp.report.html import write_report
    from weatherpp.report.scorecard import sections

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made ({error.strerror}); choose --out") from None
    rows = [
        {key: _plain(value) for key, value in row.items()} for row in found.card.to_dict("records")
    ]
    content = {
        "a": str(found.a),
        "b": str(found.b),
        "verdict": found.verdict(),
        "notes": found.notes,
        "alpha": ALPHA,
        "comparisons": rows,
    }
    text = json.dumps(content, indent=1, allow_nan=False)
    write_whole(folder / "compare.json", text + "\n")
    with partial_name(folder / "compare.csv") as partial:
        found.card.to_csv(partial, index=False)
    page = folder / "compare.html"
    data = ReportData(
        title=f"{found.b.name} against {found.a.name}",
        name="comparison of two runs",
        summary=[found.verdict(), *found.notes],
        sections=[
            *sections(found.card, ALPHA),
            Section("Every comparison", found.sentences()),
        ],
        provenance={"A": str(found.a), "B": str(found.b)},
    )
    write_report(data, page)
    return page


def _plain(value: Any) -> Any:
    """A value that JSON knows; it has no NaN."""
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
