"""The report as one HTML file that needs nothing else: no network, no other files."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from weatherpp.data.shipped import shipped_folder
from weatherpp.errors import InputError
from weatherpp.files import partial_name
from weatherpp.report import figures, words
from weatherpp.report.content import Figure, ReportData, chosen
from weatherpp.report.labels import number, percent, units_text
from weatherpp.report.style import colours_of
from weatherpp.report.tables import known, wide_tables


def render(data: ReportData) -> str:
    """The report of a run as HTML.

    All text is escaped, and a content security policy allows the page no network and no script
    but its own.
    """
    folder = shipped_folder("reports")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"base64": _base64, "png_size": _png_size, "unbroken": _unbroken}
    environment.globals |= {"percent": percent}
    script = (folder / "templates" / "report.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    colours = _colours(data)
    drawn: dict[str, Any] = {
        "gain_figures": _gain_figures(data, colours),
        "score_figures": _score_figures(data, colours),
        "calibration_figures": _calibration_figures(data, colours),
        "tables": wide_tables(data.scores),
    }
    return environment.get_template("report.html.j2").render(
        data=data,
        **drawn,
        contents=_contents(data, drawn),
        claims=[_claim(claim) for claim in data.claims],
        verdicts=_verdicts(data),
        other_regions=any(not table.main for table in drawn["tables"]),
        style=(folder / "styles" / "report.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
    )


def write_report(data: ReportData, path: Path) -> None:
    """Write the report under its final name once it is whole.

    Raises
    ------
    InputError
        The folder cannot be written to.
    """
    text = render(data)
    try:
        with partial_name(path) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path}: the report cannot be written ({error.strerror})") from error


def _base64(png: bytes) -> str:
    return base64.b64encode(png).decode("ascii")


def _unbroken(text: str) -> str:
    """Text in which a line never breaks between a number and its per cent sign."""
    return str(text).replace(" %", "\u00a0%")


def _png_size(png: bytes) -> tuple[int, int]:
    """Width and height from a PNG's header, so that the page does not jump while it loads."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def _colours(data: ReportData) -> dict[str, str]:
    """One colour for each method in all charts of the page."""
    drawn = [method for by_method in data.histograms.values() for method in by_method]
    return colours_of([*data.scores["method"], *data.gains["method"], *drawn])


def _gain_figures(data: ReportData, colours: Mapping[str, str]) -> list[Figure]:
    gains = known(chosen(data.gains, data.highlights), "gain")
    if gains.empty:
        return []
    scores = dict.fromkeys(gains["score"].astype(str)) if "score" in gains else ["crps"]
    return [figures.gain_bars(gains, score, colours) for score in scores]


def _score_figures(data: ReportData, colours: Mapping[str, str]) -> list[Figure]:
    shown = chosen(data.scores, data.highlights)
    found = set(known(shown, "value")["score"])
    wanted = ("crps", "spread_rmse")
    return [figures.score_bars(shown, score, colours) for score in wanted if score in found]


def _calibration_figures(data: ReportData, colours: Mapping[str, str]) -> list[Figure]:
    drawn = []
    shown = chosen(data.scores, data.highlights)
    if "spread_skill" in set(known(shown, "value")["score"]):
        drawn.append(figures.spread_skill(shown, colours))
    histograms = {
        target: {m: h for m, h in by.items() if not data.highlights or m in data.highlights}
        for target, by in data.histograms.items()
    }
    if any(len(by_method) for by_method in histograms.values()):
        drawn.append(figures.rank_histograms(histograms, colours))
    return drawn


def _contents(data: ReportData, drawn: Mapping[str, Any]) -> list[dict[str, str]]:
    """The parts that the page has, in its order."""
    parts = [
        ("claims", "Claims", data.claims),
        ("summary", "In words", data.summary or data.notes),
        ("gains", "Gains", drawn["gain_figures"]),
        ("scores", "Scores", drawn["tables"]),
        ("calibration", "Calibration", drawn["calibration_figures"]),
        *((f"part-{i}", part.title, True) for i, part in enumerate(data.sections, 1)),
        ("made", "How it was made", data.provenance or data.recipe_text),
    ]
    return [{"id": name, "title": title} for name, title, there in parts if there]


def _verdicts(data: ReportData) -> dict[str, Any] | None:
    if not data.claims:
        return None
    failed = any(claim["holds"] is not None and not claim["holds"] for claim in data.claims)
    return {"text": words.claims_sentence(data.claims), "failed": failed}


def _claim(claim: Mapping[str, Any]) -> dict[str, str]:
    """A claim as the page shows it."""
    units = claim.get("units")

    def shown(value: Any) -> str:
        return percent(value) if units is None else number(value)

    unit = "%" if units is None else units_text(str(units))
    kind, mark, verdict = "information", "i", "For information"
    if claim["holds"] is not None:
        kind = "holds" if claim["holds"] else "fails"
        mark, verdict = ("✓", "Holds") if claim["holds"] else ("✗", "Does not hold")
    low, high = shown(claim["low"]), shown(claim["high"])
    bound = shown(claim["bound"])
    return {
        "name": str(claim["name"]),
        "text": str(claim["text"] or ""),
        "value": f"{shown(claim['value'])} {unit}".strip(),
        "interval": "" if "–" in (low, high) else f"{low} to {high} {unit}".strip(),
        "bound": "" if bound == "–" else f"at least {bound} {unit}".strip(),
        "kind": kind,
        "mark": mark,
        "verdict": verdict,
    }
