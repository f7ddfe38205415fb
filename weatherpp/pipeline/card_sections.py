"""The scorecard of a run, and maps of where a gain is sure, as parts of its report."""

from __future__ import annotations

import json
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


def card_sections(run: Path, highlights: tuple[str, ...] = ()) -> list[Section]:
    """Scorecard and maps of gains, of all methods or those to highlight."""
    from weatherpp.report.content import chosen
    from weatherpp.report.scorecard import sections

    card = chosen(read_card(run), highlights)
    return [*sections(card), *_map_sections(run, card)]


def _map_sections(run: Path, card: pd.DataFrame) -> list[Section]:
    from weatherpp.report.content import Section
    from weatherpp.report.maps import field_maps

    found = []
    for target, part in card.groupby("target", sort=False):
        changes, hatched, titles = [], [], []
        for method in list(dict.fromkeys(part["method"]))[:MOST_MAPS]:
            path = run / "scores" / "maps" / str(target) / f"{method}.nc"
            maps = read_product(path) if path.is_file() else xr.Dataset()
            if "significant" not in maps or not _has_places(maps["gain"]):
                continue
            change = (-100 * maps["gain"]).assign_attrs(units="%", long_name="change of the score")
            changes.append(change)
            hatched.append((maps["significant"] == 0) & change.notnull())
            titles.append(f"{method} against {maps['gain'].attrs['reference']}")
        if not changes:
            continue
        caption = (
            "By how much the CRPS (of the spread alone: its mean squared error) lies above (red: "
            "worse) or below (blue: better) that of the reference, in per cent of it. Hatched: may "
            "be chance, by the Diebold-Mariano test at each point with at most "
            f"{100 * 2 * ALPHA:.0f} % false discoveries over the map (Wilks 2016)."
        )
        figure = field_maps(changes, titles, kind="diverging", hatched=hatched, caption=caption)
        found.append(Section(f"Where {target} is better", [], [figure], str(target)))
    return found


def _has_places(field: xr.DataArray) -> bool:
    """Whether the field can be drawn on a map."""
    names = ("latitude", "longitude")
    there = all(name in field.coords and bool(field[name].notnull().all()) for name in names)
    return there and field.size > 3
