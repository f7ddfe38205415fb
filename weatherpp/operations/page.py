"""The rolling report of skill, and the index of cycles with their maps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

import weatherpp
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.ledger import main_estimator
from weatherpp.operations.maps import WORDS
from weatherpp.operations.night import CycleTasks, Night
from weatherpp.operations.scoring import RAW, by_version
from weatherpp.recipe import Bootstrap, parse_step
from weatherpp.report.content import ReportData, Section
from weatherpp.report.html import write_report
from weatherpp.report.labels import score_name
from weatherpp.report.series import score_over_dates
from weatherpp.report.template import page_digest, page_file, render_page, write_page
from weatherpp.strict import digest
from weatherpp.verify.aggregate import interval, spread_skill
from weatherpp.verify.gains import gains
from weatherpp.verify.regions import WHOLE
from weatherpp.verify.table import EXPECTED

REPORT, INDEX = "report.html", "index.html"
TEMPLATE = "nightly.html.j2"


def write_pages(night: Night, warnings: Sequence[str]) -> None:
    """The report of the scores in the window, and the index; nothing is written if neither has
    changed."""
    cycles = night.cycles()
    if not cycles:
        return
    since = cycle_name((night.newest() or cycles[-1]) - parse_step(night.settings.verify.window))
    scores = by_version(night.ledger.scores(since))
    faults = night.ledger.table(
        "SELECT cycle, state, members, expected, text FROM cycles WHERE cycle >= ? ORDER BY cycle",
        [since],
    )
    tasks = CycleTasks(night, night.work, "")
    content = [scores.to_json(double_precision=15), faults.to_json(), list(warnings)]
    tasks.do(
        "report/pages",
        [night.settings.name, night.settings.title, night.settings.verify, night.settings.seed],
        [digest(*content), digest([cycle_name(cycle) for cycle in cycles]), _made(night), *_look()],
        [night.work / REPORT, night.work / INDEX],
        lambda: _write(night, scores, faults, warnings),
    )


def _made(night: Night) -> str:
    """What the index links to."""
    folder = night.work / "cycles"
    links = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*.*"))
    return digest(links + sorted(p.as_posix() for p in folder.glob("*/maps/*/*.png")))


def _look() -> tuple[str, str]:
    """What the pages are made with beside the data."""
    own = page_file(f"templates/{TEMPLATE}").read_text(encoding="utf-8")
    return page_digest(), digest(own)


def _write(
    night: Night, scores: pd.DataFrame, faults: pd.DataFrame, warnings: Sequence[str]
) -> None:
    write_report(report_data(night, scores, faults, warnings), night.work / REPORT)
    title = night.settings.title or night.settings.name
    text = render_page(
        TEMPLATE, title=title, report=REPORT, warnings=warnings, cycles=_listed(night, faults)
    )
    write_page(text, night.work / INDEX)


def _listed(night: Night, faults: pd.DataFrame) -> list[dict[str, Any]]:
    """Cycles for the index, the newest first."""
    states = {str(row["cycle"]): row for row in faults.to_dict("records")}
    found: list[dict[str, Any]] = []
    for cycle in reversed(night.cycles()):
        name, folder = cycle_name(cycle), night.folder(cycle)
        maps = [
            {**word, "link": (words.parent / word["file"]).relative_to(night.work).as_posix()}
            for words in sorted(folder.glob(f"maps/*/{WORDS}"))
            for word in json.loads(words.read_text(encoding="utf-8"))
        ]
        if not found:  # shown on the page; those of others are links
            maps = [{**each, "png": (night.work / each["link"]).read_bytes()} for each in maps]
        products = [
            night.product(cycle, target).relative_to(night.work).as_posix()
            for target in night.settings.targets
            if night.product(cycle, target).exists()
        ]
        row = states.get(name, {})
        found.append(
            {
                "name": name,
                "state": row.get("state") or "unknown",
                "text": row.get("text") or "",
                "products": products,
                "maps": maps,
            }
        )
    return found


def report_data(
    night: Night, scores: pd.DataFrame, faults: pd.DataFrame, warnings: Sequence[str]
) -> ReportData:
    """Content of the rolling report; it tells no clock time, so equal scores give equal pages."""
    settings = night.settings
    tables = [
        _rows(part, settings.verify.bootstrap, settings.seed)
        for _, part in scores.groupby(["target", "method"], sort=False)
    ]
    sections = [
        _by_day(scores, target.name)
        for target in settings.targets
        if target.name in set(scores["target"])
    ]
    sections.append(_nights(faults))
    data: dict[str, Any] = {}
    if tables:
        data["scores"] = pd.concat(tables, ignore_index=True)
        data["gains"] = _gains(scores, settings.verify.bootstrap, settings.seed)
    days = scores["cycle"].nunique()
    summary = [f"{days} cycles have been scored of those of the last {settings.verify.window}."]
    return ReportData(
        title=settings.title or settings.name,
        name=settings.name,
        summary=summary,
        notes=[f"Drift: {text}." for text in warnings],
        sections=sections,
        provenance={"weatherpp": weatherpp.__version__, "seed": str(settings.seed)},
        level=settings.verify.bootstrap.level,
        **data,
    )


def _by_day(scores: pd.DataFrame, target: str) -> Section:
    own = scores[scores["target"] == target]
    crps = main_estimator(own[own["score"] == "crps"])
    units = str(own["units"].iloc[0])
    drawn = score_over_dates(
        _per_date(crps).rename(columns={"time": "date"}), name=score_name("crps"), units=units
    )
    return Section(f"Skill by day: {target}", [], [drawn])


def _nights(faults: pd.DataFrame) -> Section:
    told = [
        f"{row['cycle']}: {row['state']}. {row['text'] or ''}".strip()
        for row in faults.to_dict("records")
        if row["state"] != "done"
    ]
    count = f"{len(faults) - len(told)} of {len(faults)} cycles were made from all members."
    return Section("Cycles", [count, *told])


def _per_date(scores: pd.DataFrame) -> pd.DataFrame:
    """The table of scores by date that :mod:`weatherpp.verify` works with."""
    times = pd.to_datetime(scores["cycle"], format="%Y-%m-%dT%H")
    return scores.assign(time=times, region=WHOLE)


def _gains(scores: pd.DataFrame, bootstrap: Bootstrap, seed: int) -> pd.DataFrame:
    return gains(_per_date(scores), RAW, bootstrap=bootstrap, seed=seed)


def _rows(part: pd.DataFrame, bootstrap: Bootstrap, seed: int) -> pd.DataFrame:
    """Scores of one method and target over all dates, with intervals."""
    by_date = {
        (str(score), str(estimator)): rows.set_index("time")["value"].sort_index()
        for (score, estimator), rows in _per_date(part).groupby(["score", "estimator"])
    }
    found: list[tuple[str, str, Any]] = [
        ("crps", estimator, interval(values, bootstrap, seed))
        for (score, estimator), values in by_date.items()
        if score == "crps"
    ]
    found.append(("bias", "", interval(by_date["error", ""], bootstrap, seed)))
    squared = by_date["squared_error", ""]
    found.append(("rmse", "", interval(squared, bootstrap, seed, root=True)))
    if (EXPECTED, "") in by_date:
        ratio = spread_skill(by_date[EXPECTED, ""], squared, bootstrap, seed)
        found.append(("spread_skill", "", ratio))
    first = part.iloc[0]
    rows = [
        {
            "method": first["method"],
            "members": int(part["members"].max()),
            "target": first["target"],
            "step_hours": float(first["step_hours"]),
            "region": WHOLE,
            "score": score,
            "estimator": estimator,
            "value": number.value,
            "low": number.low,
            "high": number.high,
            "units": "1" if score == "spread_skill" else first["units"],
            "dates": len(squared),
        }
        for score, estimator, number in found
    ]
    return pd.DataFrame(rows)
