"""The scorecard of a run, and maps of where a gain is sure, as parts of its report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.pipeline.gain_maps import ALPHA
from weatherpp.pipeline.products import read_product

if TYPE_CHECKING:
    from weatherpp.report.content import Section

MOST_MAPS = 6  # methods of one target


def read_card(run: Path) -> pd.DataFrame:
    """Scorecard of a verified run, with the column ``variable``.

    Raises
    ------
    InputError
        The run was not verified.
    """
    try:
        card = pd.read_parquet(run / "scores" / "card.parquet")
        about: dict[str, Any] = json.loads((run / "scores" / "targets.json").read_text("utf-8"))
    except (OSError, ValueError):
        raise InputError(
            f"{run}: no scorecard there; make it with 'weatherpp verify RECIPE --run-dir {run} "
            "--force verify'"
        ) from None
    card.insert(0, "variable", [str(about[name]["variable"]) for name in card["target"]])
    return card


def card_text(run: Path) -> str:
    """The scorecard for a terminal."""
    from weatherpp.report.scorecard import text

    return text(read_card(run))


def card_sections(run: Path, highlights: tuple[str, ...] = (), source: str = "") -> list[Section]:
    """Scorecard and maps of gains, of all methods or those to highlight.

    Parameters
    ----------
    source
        Of the data, as the archive tells it: maps of an embedded atmosphere say so.
    """
    from weatherpp.report.content import chosen
    from weatherpp.report.scorecard import sections

    card = chosen(read_card(run), highlights)
    return [*sections(card), *_map_sections(run, card, source)]


def _map_sections(run: Path, card: pd.DataFrame, source: str) -> list[Section]:
    from weatherpp.report.content import Section
    from weatherpp.report.labels import field_name
    from weatherpp.report.maps import field_maps

    figures = []
    for target, part in card.groupby("target", sort=False):
        changes, hatched, titles = [], [], []
        for method in list(dict.fromkeys(part["method"]))[:MOST_MAPS]:
            path = run / "scores" / "maps" / str(target) / f"{method}.nc"
            maps = read_product(path) if path.is_file() else xr.Dataset()
            if "significant" not in maps or not _has_places(maps["gain"]):
                continue
            gain = maps["gain"]
            # of the spread alone there is no CRPS, which has an estimator
            score = "CRPS" if gain.attrs.get("estimator") else "squared error of the spread"
            what = gain.attrs.get("long_name", part["variable"].iloc[0])
            what = what if score == "CRPS" else str(what).removeprefix("spread of ")
            name = f"change of the {score} of {what}"
            change = (-100 * gain).assign_attrs(units="%", long_name=name, source=source)
            changes.append(change)
            hatched.append((maps["significant"] == 0) & change.notnull())
            titles.append(f"{method} against {gain.attrs['reference']}")
        if not changes:
            continue
        figure = field_maps(
            changes,
            titles,
            kind="diverging",
            hatched=hatched,
            caption=f"{target}.",
            heading=f"{field_name(changes[0])}, {target}",
        )
        figures.append(replace(figure, target=str(target)))
    text = (
        "By how much the score lies above (red: worse) or below (blue: better) that of the "
        "reference, in per cent of it. Hatched: may be chance, by the Diebold-Mariano test at each "
        f"point with at most {100 * 2 * ALPHA:.0f} % false discoveries over the map (Wilks 2016)."
    )
    return [Section("Where a method is better", [text], figures)] if figures else []


def _has_places(field: xr.DataArray) -> bool:
    """Whether the field can be drawn on a map."""
    names = ("latitude", "longitude")
    there = all(name in field.coords and bool(field[name].notnull().all()) for name in names)
    return there and field.size > 3
