"""The report stage: what a run folder holds, as the content of one HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from weatherpp.data.archive import Archive
from weatherpp.errors import InputError
from weatherpp.files import write_whole
from weatherpp.pipeline.products import read_product
from weatherpp.pipeline.record import Record, read_record
from weatherpp.recipe import EXTREME, FoldSplit, MethodEntry, Recipe, Target
from weatherpp.verify.regions import WHOLE
from weatherpp.verify.weights import grid_weights

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job
    from weatherpp.report.content import About

LARGE = 20_000_000  # bytes: slow to open on a phone, and too much for many mail servers


def short_table(scores: Path) -> str:
    """The few scores a person wants to see in the terminal."""
    table = pd.read_parquet(scores / "scores.parquet")
    wanted = table["score"].isin(["crps", "rmse", "spread_skill", "spread_rmse"])
    shown = table[wanted & (table["region"] == WHOLE)].copy()
    if shown.empty:
        return "nothing to score: the data hold no analysis and no spread job"
    names = shown["score"] + shown["estimator"].map(lambda e: f" ({e})" if e else "")
    shown["score"] = names
    shown["value"] = [
        f"{value:.4g}" if np.isnan(low) else f"{value:.4g} [{low:.4g}, {high:.4g}]"
        for value, low, high in shown[["value", "low", "high"]].to_numpy(dtype=float)
    ]
    columns = ["target", "method", "members", "score", "value", "units", "dates"]
    lines = [shown[columns].to_string(index=False)]
    verdicts = json.loads((scores / "claims.json").read_text(encoding="utf-8"))
    lines += [f"{'holds' if v['holds'] else 'DOES NOT HOLD'}: {v['text']}" for v in verdicts]
    return "\n".join(lines)


def report(
    job: Job,
    archive_hash: str,
    products: Mapping[str, str],
    scores_hash: str,
    overrides: tuple[str, ...],
) -> None:
    """Write ``report.html`` in the run folder, and what the index of runs tells of it."""
    from weatherpp.report.template import page_digest

    inputs = [archive_hash, scores_hash, *(products[name] for name in sorted(products))]
    settings = [job.recipe, job.text, list(overrides), page_digest()]
    outputs = [job.run.path / name for name in ("report.html", "report.json")]
    job.run.task("report/html", settings, inputs, outputs, lambda: write_report(job))


def write_report(job: Job) -> None:
    """The report of what the run folder holds, without any fit.

    Raises
    ------
    InputError
        The folder has no scores or does not tell how it was made, or cannot be written to.
    """
    from weatherpp.pipeline.report_sections import sections
    from weatherpp.report import html, index
    from weatherpp.report.content import ReportData, chosen
    from weatherpp.report.words import summary

    recipe, folder = job.recipe, job.run.path / "scores"
    record = read_record(job.run.path)
    scores, gains, verdicts, histograms = _read(folder)
    parts, left_out = sections(job, scores, gains)
    if isinstance(recipe.split, FoldSplit):
        # each date corrects the mean error of the others, so that there is none by construction
        scores = scores[scores["score"] != "bias"]
        left_out.append("bias: not told, as dates that are left out in turn correct each other's")
    scores = _with_local_bias(folder / "maps", scores)
    whole, level = gains[gains["region"] != EXTREME], recipe.verify.bootstrap.level
    highlights = recipe.report.highlights
    data = ReportData(
        title=recipe.report.title or recipe.title or recipe.name,
        name=recipe.name,
        summary=summary(
            chosen(scores, highlights), chosen(whole, highlights), verdicts, level=level
        ),
        notes=list(recipe.report.notes),
        claims=verdicts,
        scores=scores,
        gains=whole,
        highlights=highlights,
        histograms=histograms,
        sections=parts,
        targets={target.name: _about(target) for target in recipe.targets},
        provenance=_provenance(job, record),
        left_out=[*_not_scored(recipe, scores), *left_out],
        recipe_text=job.text,
        level=level,
    )
    size = html.write_report(data, job.run.path / "report.html")
    write_whole(job.run.path / "report.json", index.card(data, record.made))
    if size > LARGE:
        job.terminal.note(
            f"report.html has {size / 1e6:.0f} MB; fewer report.maps, thresholds or targets make "
            "it smaller"
        )


def _read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, list[Any], dict[str, Any]]:
    """Scores, gains, verdicts on the claims, and histograms by target and method."""
    try:
        scores = pd.read_parquet(folder / "scores.parquet")
        gains = pd.read_parquet(folder / "gains.parquet")
        verdicts = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
        raw = json.loads((folder / "histograms.json").read_text(encoding="utf-8"))
        histograms = {
            target: {label: np.asarray(counts, np.float64) for label, counts in by_method.items()}
            for target, by_method in raw.items()
        }
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(
            f"{folder}: no whole set of scores ({' '.join(str(error).split())}); make it with "
            f"'weatherpp verify RECIPE --run-dir {folder.parent} --force verify'"
        ) from None
    return scores, gains, verdicts, histograms


def _about(target: Target) -> About:
    from weatherpp.report.content import About

    level = "" if target.level is None else target.level
    return About(f"{target.variable}{level}", target.lead / pd.Timedelta(hours=1))


def _with_local_bias(maps: Path, scores: pd.DataFrame) -> pd.DataFrame:
    """Scores with the root-mean-square over the area of each point's mean error.

    Told where there are several points; errors of both signs cancel in the mean of all.
    """
    biases = scores[(scores["score"] == "bias") & (scores["region"] == WHOLE)]
    rows = []
    for row in biases.to_dict("records"):
        path = maps / str(row["target"]) / f"{row['method']}.nc"
        if not path.is_file():
            continue
        bias = read_product(path)["bias"].astype(np.float64)
        if bias.size > 1:
            value = float((bias**2).weighted(grid_weights(bias)).mean() ** 0.5)
            row |= {"low": np.nan, "high": np.nan, "score": "local_bias", "value": value}
            rows.append(row)
    return pd.concat([scores, pd.DataFrame(rows)], ignore_index=True) if rows else scores


def _not_scored(recipe: Recipe, scores: pd.DataFrame) -> list[str]:
    """One line for each method that a target has no scores of, and for missing intervals."""
    scored = set(zip(scores["target"], scores["method"], strict=True))
    lines = [
        f"{target.name}: {entry.label} is not scored, as there is nothing to score it against"
        for target in recipe.targets
        for entry in recipe.methods
        if (target.name, entry.label) not in scored
    ]
    whole = scores[(scores["region"] == WHOLE) & (scores["score"] == "crps")]
    few = whole[whole["low"].isna()].drop_duplicates("target")
    lines += [
        f"{row['target']}: no intervals, as {int(row['dates'])} "
        f"{'date is' if row['dates'] == 1 else 'dates are'} too few for them"
        for row in few.to_dict("records")
    ]
    return lines


def _provenance(job: Job, record: Record) -> dict[str, str]:
    stages: dict[str, float] = {}
    for task, time in job.run.seconds().items():
        stage = task.split("/")[0]
        stages[stage] = stages.get(stage, 0.0) + time
    recipe = job.recipe
    return {
        **_data_told(job),
        "recipe": f"{recipe.name}, seed {recipe.seed}",
        "methods": "; ".join(_method_text(entry, recipe.seed) for entry in recipe.methods),
        "command": record.command,
        "made": record.made,
        "weatherpp": record.version,
        "time taken": ", ".join(f"{stage} {time:.0f} s" for stage, time in stages.items()),
        "platform": record.system,
        "libraries": record.libraries,
    }


def _data_told(job: Job) -> dict[str, str]:
    """Title, licence and hash of the data, as far as the archive tells them."""
    try:
        attrs = Archive.open(job.archive_path).attrs
    except InputError:
        attrs = {}
    told: dict[str, Any] = {
        "data": attrs.get("title"),
        "licence of the data": attrs.get("licence"),
        "citation": attrs.get("citation"),
        "hash of the archive": job.run.result("ingest/archive"),
    }
    return {label: str(text) for label, text in told.items() if text}


def _method_text(entry: MethodEntry, seed: int) -> str:
    """A method as one phrase: ``mixed-5 (mixed, first 5 members, seed 2)``."""
    choice = entry.members
    members: str = {
        "all": "all members",
        "named": f"members {', '.join(map(str, choice.numbers))}",
    }.get(choice.choose, f"{choice.choose} {choice.count} members")
    own = "" if entry.seed in (None, seed) else f", seed {entry.seed}"
    return f"{entry.label} ({entry.method}, {members}{own})"
