"""Maps of fields: panels that share a colour scale, with coastlines, units and time in words.

Each function ``..._sheet`` puts a figure together and draws nothing yet; :func:`figure_of` draws
it for the report, :func:`write_map` into a file. ``field_maps`` and its like do both of the first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec

import numpy as np
import xarray as xr

from weatherpp.errors import ConfigError, InputError
from weatherpp.files import partial_name
from weatherpp.report import style
from weatherpp.report.content import Figure
from weatherpp.report.grids import kind_of
from weatherpp.report.labels import (
    field_name,
    headline,
    number,
    origin_text,
    plain_name,
    sentence_case,
    short_time,
    spread_name,
    time_text,
    units_text,
    window_text,
    with_units,
)
from weatherpp.report.panels import Group, Kind, Sheet, compose

# Fields smooth enough that contour lines help rather than clutter.
CONTOURED = ("z", "msl", "gh")
LONGEST_NAME = 90  # letters on a colour bar; units always follow
P = ParamSpec("P")


def figure_of(sheet: Sheet) -> Figure:
    """A sheet of maps as an image of the report."""
    return Figure(style.png_of(compose(sheet)), sheet.alt, sheet.caption, chart=False)


def write_map(path: Path, sheet: Sheet) -> None:
    """Draw a sheet into a file: ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    In SVG and PDF coastlines, contours and text are lines and letters, fields are images. The
    same sheet gives the same bytes.

    Raises
    ------
    ConfigError
        The suffix is another.
    """
    file_format = path.suffix.lower().removeprefix(".")
    if file_format not in style.FORMATS:
        raise ConfigError(f"{path}: maps are written as .png, .svg or .pdf; name it so")
    image = style.image_of(compose(sheet), file_format)
    with partial_name(path) as partial:
        partial.write_bytes(image)


def field_sheet(
    fields: Sequence[xr.DataArray],
    titles: Sequence[str],
    *,
    caption: str = "",
    alt: str = "",
    kind: Kind = "sequential",
    shared_scale: bool = True,
    cyclic: bool | None = None,
    contours: bool = False,
    columns: int | None = None,
    hatched: Sequence[xr.DataArray] = (),
    heading: str = "",
) -> Sheet:
    """Maps side by side, each of one two-dimensional field.

    Parameters
    ----------
    fields
        Fields on one area: a latitude/longitude grid, a projected grid with two-dimensional
        ``latitude`` and ``longitude``, or stations. Attributes ``units``, ``long_name``,
        ``level``, ``window`` and ``source`` (see :func:`weatherpp.report.labels.origin_text`)
        and scalar coordinates ``time``, ``step``, ``valid_time``, ``level`` label the figure.
    titles
        One for each panel. Where the fields are of different times, each panel tells its own.
    kind
        ``diverging`` centres the colours at zero; ``spread`` names the colour bar so;
        ``probability`` takes fractions.
    shared_scale
        One colour scale for all panels, so that colours may be compared.
    cyclic
        Whether the last longitude meets the first; by default told from the grid.
    hatched
        Where to hatch (true or false on the same grid), one for each field.
    heading
        What the maps show, if not what the first field is called.

    Raises
    ------
    InputError
        The numbers of fields, titles and masks differ, or a field has no place on a map.
    """
    _one_title_each(fields, titles)
    if hatched and len(hatched) != len(fields):
        raise InputError(f"{len(fields)} maps need as many masks to hatch, not {len(hatched)}")
    when, shown = _when(fields, titles)
    if shared_scale:
        panels = [(fields, shown, hatched)]
    else:
        masks = [[mask] for mask in hatched] or [[]] * len(fields)
        panels = [([f], [t], m) for f, t, m in zip(fields, shown, masks, strict=True)]
    groups = [
        Group(alike, heads, kind, _bar_label(alike[0], kind), contours, hatched=mask)
        for alike, heads, mask in panels
    ]
    name = sentence_case(spread_name(fields[0])) if kind == "spread" else field_name(fields[0])
    title = headline(fields[0], heading or name)
    told = f"Maps of {title}: {'; '.join(titles)}. {when}. {_range_text(fields, kind)}"
    words = f"{groups[0].label}{_after(window_text(fields[0]))}. {when}".rstrip(". ") + "."
    words = f"{words}{_synthetic(fields[0])}"
    return Sheet(
        groups,
        columns or _columns(len(fields)),
        f"{title}\n{when}".rstrip(),
        alt or told.replace(". . ", ". "),
        caption or words,
        cyclic,
    )


def probability_sheet(
    probabilities: Sequence[xr.DataArray],
    titles: Sequence[str],
    *,
    event: str,
    observed: xr.DataArray | None = None,
    caption: str = "",
) -> Sheet:
    """Maps of the probability of an event, on one scale from 0 to 100 %.

    Parameters
    ----------
    probabilities
        Fractions from 0 to 1.
    event
        What may happen, in words: ``2 metre temperature above 303 K``.
    observed
        Whether it happened (true or false on the same grid); outlined in each panel.
    """
    _one_title_each(probabilities, titles)
    when, shown = _when(probabilities, titles)
    label = f"Probability of {event} (%)"
    group = Group(probabilities, shown, "probability", "Probability (%)", outline=observed)
    line = "" if observed is None else " The dark line encloses where it happened."
    words = f"{label}. {when}".rstrip(". ") + "." + line + _synthetic(probabilities[0])
    alt = f"Maps of the probability of {event}: {'; '.join(titles)}. {when}."
    title = headline(probabilities[0], f"Probability of {event}")
    return Sheet([group], _columns(len(titles)), f"{title}\n{when}".rstrip(), alt, caption or words)


def difference_sheet(
    raw: Sequence[xr.DataArray],
    post: Sequence[xr.DataArray],
    titles: Sequence[str],
    *,
    uncertain: Sequence[xr.DataArray] = (),
    caption: str = "",
) -> Sheet:
    """Maps of what post-processing changed: post-processed minus raw, centred at zero.

    Parameters
    ----------
    raw, post
        Fields (means, spreads, scores) before and after, on one grid, with one title for each
        pair.
    uncertain
        Where a difference may be chance (true or false on the same grid), one for each pair: for
        example where :func:`weatherpp.verify.significance.discoveries` makes none. Hatched.

    Raises
    ------
    InputError
        The numbers of fields differ, or their grids.
    """
    if len(raw) != len(post):
        raise InputError(f"{len(raw)} fields before and {len(post)} after make no differences")
    fields = [_minus(after, before) for before, after in zip(raw, post, strict=True)]
    sheet = field_sheet(fields, titles, kind="diverging", hatched=uncertain)
    what = plain_name(raw[0])
    label = with_units(f"Change of {_short(what)}", str(raw[0].attrs.get("units", "")))
    groups = [
        Group(g.fields, g.titles, g.kind, label, g.contours, hatched=g.hatched)
        for g in sheet.groups
    ]
    when = time_text(fields[0])
    words = f"{label}, post-processed minus raw. {when}".rstrip(". ") + "."
    words += " Hatched: the difference may be chance." if uncertain else ""
    title = headline(raw[0], f"Change of {what} by post-processing")
    _, *rest = sheet.title.splitlines()
    alt = f"{title}: {'; '.join(titles)}. {when}. {_range_text(fields, 'diverging')}"
    return Sheet(
        groups, sheet.columns, "\n".join([title, *rest]), alt,
        caption or words + _synthetic(raw[0]),
    )  # fmt: skip


def case_sheet(
    truth: xr.DataArray,
    raw_mean: xr.DataArray,
    post_mean: xr.DataArray,
    raw_spread: xr.DataArray,
    post_spread: xr.DataArray,
    *,
    raw_label: str = "raw ensemble",
    post_label: str = "post-processed",
    caption: str = "",
) -> Sheet:
    """One forecast against its analysis: means, their errors, and the spreads, three to a row.

    Each row has one colour scale. The first map of the second row shows where post-processing
    came closer to the analysis; the first of the third row shows the error on the scale of the
    spreads, so that both can be compared.
    """
    units = str(truth.attrs.get("units", ""))
    name = _short(plain_name(truth))
    raw_error, post_error = _minus(raw_mean, truth), _minus(post_mean, truth)
    closer = abs(post_error) - abs(raw_error)
    groups = [
        Group(
            [truth, raw_mean, post_mean],
            ["Analysis", f"Mean, {raw_label}", f"Mean, {post_label}"],
            "sequential",
            with_units(sentence_case(name), units),
            contours=str(truth.name) in CONTOURED,
        ),
        Group(
            [closer, raw_error, post_error],
            [
                "Change of |error| (blue: better)",
                f"Error, {raw_label}",
                f"Error, {post_label}",
            ],
            "diverging",
            with_units(f"Error of {name}", units),
        ),
        Group(
            [abs(post_error), raw_spread, post_spread],
            [f"|Error|, {post_label}", f"Spread, {raw_label}", f"Spread, {post_label}"],
            "spread",
            with_units(f"Spread of {name}", units),
        ),
    ]
    when, title = time_text(raw_mean), headline(truth)
    numbers = _case_numbers(raw_error, post_error, raw_spread, post_spread, units)
    alt = f"Nine maps of {title}: analysis, means, errors and spreads. {when}. {numbers}"
    words = f"{caption} {numbers}".strip() + _synthetic(truth)
    return Sheet(groups, 3, f"{title}\n{when}".rstrip(), alt, words, bars="right")


def _drawn(sheet_of: Callable[P, Sheet]) -> Callable[P, Figure]:
    """The function that draws what ``sheet_of`` puts together."""

    @functools.wraps(sheet_of)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Figure:
        return figure_of(sheet_of(*args, **kwargs))

    return draw


field_maps = _drawn(field_sheet)
probability_maps = _drawn(probability_sheet)
difference_maps = _drawn(difference_sheet)
case_maps = _drawn(case_sheet)


def _one_title_each(fields: Sequence[xr.DataArray], titles: Sequence[str]) -> None:
    if not fields or len(fields) != len(titles):
        raise InputError("maps need at least one field, and a title for each")


def _columns(panels: int) -> int:
    """Of a figure with so many panels."""
    if panels == 1:
        return 1
    if panels in (2, 4):
        return 2
    return 3 if panels <= 9 else 4


def _when(fields: Sequence[xr.DataArray], titles: Sequence[str]) -> tuple[str, list[str]]:
    """Time of the figure, and titles of the panels: with their own times if these differ."""
    if len({time_text(field) for field in fields}) == 1:
        return time_text(fields[0]), list(titles)
    return "", [
        f"{title}\n{short_time(field)}" for title, field in zip(titles, fields, strict=True)
    ]


def _after(words: str) -> str:
    return f", {words}" if words else ""


def _synthetic(field: xr.DataArray) -> str:
    origin = origin_text(field)
    return f" {sentence_case(origin)}." if origin else ""


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _minus(mean: xr.DataArray, truth: xr.DataArray) -> xr.DataArray:
    """Difference by position: forecast and analysis lie on one grid, up to rounding."""
    same = dict(mean.sizes) == dict(truth.sizes) and all(
        np.allclose(mean[name].values, truth[name].transpose(*mean[name].dims).values, atol=1e-3)
        for name in ("latitude", "longitude")
    )
    if not same:
        raise InputError("the forecast and the analysis to map lie on different grids")
    return mean.copy(data=mean.values - truth.transpose(*mean.dims).values)


def _case_numbers(
    raw_error: xr.DataArray,
    post_error: xr.DataArray,
    raw_spread: xr.DataArray,
    post_spread: xr.DataArray,
    units: str,
) -> str:
    """Area means of the day, in words; spreads as the root of the mean variance."""
    raw, post, before, after = (
        number(math.sqrt(_area_mean(field**2)))
        for field in (raw_error, post_error, raw_spread, post_spread)
    )
    unit = with_units("", units).strip(" ()")
    return (
        f"Over the area on this date: root-mean-square error of the mean {raw} {unit} before and "
        f"{post} {unit} after post-processing; root-mean-square spread {before} and {after} {unit}."
    )


def _area_mean(field: xr.DataArray) -> float:
    """Mean weighted by area on a latitude/longitude grid, plain on other grids."""
    if kind_of(field) != "latlon":
        return float(field.mean())
    weights = xr.DataArray(np.cos(np.deg2rad(field["latitude"].values)), dims="latitude")
    return float(field.weighted(weights).mean())


def _bar_label(field: xr.DataArray, kind: Kind) -> str:
    if kind == "probability":
        return "Probability (%)"
    name = sentence_case(spread_name(field)) if kind == "spread" else field_name(field)
    return with_units(_short(name), str(field.attrs.get("units", "")))


def _range_text(fields: Sequence[xr.DataArray], kind: Kind) -> str:
    values = np.concatenate([np.ravel(field.values) for field in fields]).astype(float)
    values = values[np.isfinite(values)]
    if not values.size:
        return "No valid data."
    factor = 100 if kind == "probability" else 1
    low, high = number(values.min() * factor), number(values.max() * factor)
    unit = "%" if kind == "probability" else units_text(str(fields[0].attrs.get("units", "")))
    return f"Values from {low} to {high} {unit}".strip() + "."
