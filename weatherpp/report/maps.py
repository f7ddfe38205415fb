"""Maps of fields: panels that share a colour scale, with coastlines, units and time in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.report.content import Figure
from weatherpp.report.grids import kind_of
from weatherpp.report.labels import field_name, number, sentence_case, time_text, with_units
from weatherpp.report.panels import Group, Kind, compose

# Fields smooth enough that contour lines help rather than clutter.
CONTOURED = ("z", "msl", "gh")


def field_maps(
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
) -> Figure:
    """Maps side by side, each of one two-dimensional field.

    Parameters
    ----------
    fields
        Fields on one area: a latitude/longitude grid, a projected grid with two-dimensional
        ``latitude`` and ``longitude``, or stations. Attributes ``units`` and ``long_name`` and
        scalar coordinates ``time``, ``step``, ``valid_time``, ``level`` label the figure.
    titles
        One for each panel.
    kind
        ``diverging`` centres the colours at zero; ``probability`` takes fractions.
    shared_scale
        One colour scale for all panels, so that colours may be compared.
    cyclic
        Whether the last longitude meets the first; by default told from the grid.
    """
    if not fields or len(fields) != len(titles):
        raise InputError("maps need at least one field, and a title for each")
    name = field_name(fields[0])
    label = _bar_label(fields[0], kind)
    if shared_scale:
        groups = [Group(fields, titles, kind, label, contours)]
    else:
        groups = [
            Group([field], [title], kind, _bar_label(field, kind), contours)
            for field, title in zip(fields, titles, strict=True)
        ]
    columns = columns or (1 if len(fields) == 1 else 2 if len(fields) in (2, 4) else 3)
    when = time_text(fields[0])
    png = compose(groups, columns, f"{name}\n{when}".rstrip(), cyclic)
    alt = alt or f"Maps of {name}: {'; '.join(titles)}. {when}. {_range_text(fields, kind)}"
    return Figure(png, alt, caption or f"{label}. {when}".rstrip(". ") + ".", chart=False)


def probability_maps(
    probabilities: Sequence[xr.DataArray],
    titles: Sequence[str],
    *,
    event: str,
    observed: xr.DataArray | None = None,
    caption: str = "",
) -> Figure:
    """Maps of the probability of an event, on one scale from 0 to 100 %.

    Parameters
    ----------
    probabilities
        Fractions from 0 to 1.
    event
        What may happen, in words: ``2 m temperature above 303 K``.
    observed
        Whether it happened (true or false on the same grid); outlined in each panel.
    """
    if not probabilities or len(probabilities) != len(titles):
        raise InputError("maps need at least one field, and a title for each")
    label = f"Probability of {event} (%)"
    group = Group(probabilities, titles, "probability", label, outline=observed)
    columns = 1 if len(titles) == 1 else 2 if len(titles) in (2, 4) else 3
    when = time_text(probabilities[0])
    png = compose([group], columns, f"{sentence_case(event)}\n{when}".rstrip(), None)
    line = "" if observed is None else " The dark line encloses where it happened."
    words = f"{label}. {when}".rstrip(". ") + "." + line
    alt = f"Maps of the probability of {event}: {'; '.join(titles)}. {when}."
    return Figure(png, alt, caption or words, chart=False)


def case_maps(
    truth: xr.DataArray,
    raw_mean: xr.DataArray,
    post_mean: xr.DataArray,
    raw_spread: xr.DataArray,
    post_spread: xr.DataArray,
    *,
    raw_label: str = "raw ensemble",
    post_label: str = "post-processed",
    caption: str = "",
) -> Figure:
    """One forecast against its analysis: means, their errors, and the spreads, three to a row.

    Each row has one colour scale. The first map of the second row shows where post-processing
    came closer to the analysis; the first of the third row shows the error on the scale of the
    spreads, so that both can be compared.
    """
    name, units = field_name(truth), str(truth.attrs.get("units", ""))
    raw_error, post_error = _minus(raw_mean, truth), _minus(post_mean, truth)
    closer = abs(post_error) - abs(raw_error)
    groups = [
        Group(
            [truth, raw_mean, post_mean],
            ["Analysis", f"Mean, {raw_label}", f"Mean, {post_label}"],
            "sequential",
            with_units("Value", units),
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
            with_units("Error", units),
        ),
        Group(
            [abs(post_error), raw_spread, post_spread],
            [f"|Error|, {post_label}", f"Spread, {raw_label}", f"Spread, {post_label}"],
            "spread",
            with_units("Spread", units),
        ),
    ]
    when = time_text(raw_mean)
    png = compose(groups, 3, f"{name}\n{when}".rstrip(), None, bars="right")
    numbers = _case_numbers(raw_error, post_error, raw_spread, post_spread, units)
    alt = f"Nine maps of {name}: analysis, means, errors and spreads. {when}. {numbers}"
    return Figure(png, alt, f"{caption} {numbers}".strip(), chart=False)


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
    return with_units(field_name(field), str(field.attrs.get("units", "")))


def _range_text(fields: Sequence[xr.DataArray], kind: Kind) -> str:
    values = np.concatenate([np.ravel(field.values) for field in fields]).astype(float)
    values = values[np.isfinite(values)]
    if not values.size:
        return "No valid data."
    factor = 100 if kind == "probability" else 1
    low, high = number(values.min() * factor), number(values.max() * factor)
    unit = "%" if kind == "probability" else str(fields[0].attrs.get("units", ""))
    return f"Values from {low} to {high} {unit}".strip() + "."
