"""Charts of scores: gains, errors, spread and skill, rank histograms, training curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.report import style
from weatherpp.report.content import GAIN_COLUMNS, SCORE_COLUMNS, Figure, need_columns
from weatherpp.report.labels import (
    estimator_text,
    lead_text,
    members_text,
    number,
    percent,
    score_name,
    units_text,
    with_units,
)
from weatherpp.report.tables import has_intervals, known, main_region, own_and_kindest

WIDTH = 7.0  # inches; the width of the report's text column
ROW = 0.32
OFF_SCALE = 2.0  # times the median of a panel: where bars are cut off
MOST_LOSS = 0.5  # fraction: gains below minus this are cut off
TALLEST = 3.0  # of a histogram's bars, relative to flat
Histogram = NDArray[np.float64] | xr.DataArray


def gain_bars(
    gains: pd.DataFrame, score: str = "crps", colours: Mapping[str, str] | None = None
) -> Figure:
    """Gain of each method over its references, with intervals; hollow if it may be nil.

    Hatched if the interval includes zero, empty if there is no interval.
    """
    need_columns(gains, GAIN_COLUMNS, "gains")
    gains = known(gains, "gain")
    if "score" in gains:
        gains = gains[gains["score"] == score]
    if gains.empty:
        raise InputError("there are no gains to draw")
    name = score_name(score)
    blocks = list(gains.groupby("target", sort=False))
    sizes = [len(block) for _, block in blocks]
    figure = style.new_figure(WIDTH, ROW * sum(sizes) + 0.55 * len(blocks) + 0.7)
    all_axes = figure.subplots(
        len(blocks), 1, squeeze=False, sharex=True, gridspec_kw={"height_ratios": sizes}
    )[:, 0]
    colours = colours or style.colours_of(gains["method"])
    for ax, (target, block) in zip(all_axes, blocks, strict=True):
        style.plain_axes(ax)
        style.heading(ax, str(target))
        for i, row in enumerate(block.to_dict("records")):
            _gain_bar(ax, i, row, colours[str(row["method"])])
        ax.set_yticks(range(len(block)), [_tick(_against(row)) for row in block.to_dict("records")])
        ax.set_ylim(len(block) - 0.5, -0.5)
        ax.axvline(0, color=style.INK, linewidth=1.0)
        ax.margins(x=0.12)
        left, right = ax.get_xlim()
        if (block["gain"] < -MOST_LOSS).any():  # room for what is written beside a cut bar
            ax.set_xlim(left, max(right, -0.7 * left))
    all_axes[-1].set_xlabel(f"{name} below the reference's, % (right: better)", fontsize=9.5)
    alt = f"Gain in {name} by method. " + "; ".join(
        f"{row['target']}, {_against(row)}: {_gain_words(row)}" for row in gains.to_dict("records")
    )
    caption = (
        f"By how much the {name} lies below that of the reference, in per cent of it"
        f"{_with_interval(gains)}."
    )
    judged = gains[["low", "high"]].notna().all(axis=1)
    if (judged & ~gains["excludes_zero"].astype(bool)).any():
        caption += " Hatched: the interval includes zero, so the difference is not certain."
    if not judged.all():
        caption += (
            " Hollow: there are too few dates for an interval, so nothing is certain about the "
            "difference."
        )
    if (gains["gain"] < -MOST_LOSS).any():
        caption += f" Losses of more than {percent(MOST_LOSS, 0)} % are cut off."
    return Figure(style.png_of(figure), alt + ".", caption)


def _gain_bar(ax: Any, place: int, row: dict[Any, Any], colour: str) -> None:
    gain, low, high = (100 * float(row[key]) for key in ("gain", "low", "high"))
    sure = bool(row["excludes_zero"])
    judged = np.isfinite([low, high]).all()
    cut = gain < -100 * MOST_LOSS
    gain = max(gain, -100 * MOST_LOSS)
    ax.barh(
        place, gain, height=0.62, facecolor=colour if sure else "white", edgecolor=colour,
        linewidth=1.4, hatch="////" if judged and not sure else None,
    )  # fmt: skip
    if cut:
        _annotate(ax, f"◀ {percent(row['gain'])} %, off the scale", 0.0, place)
        return
    _interval(ax, place, low, high)
    edge = max(v for v in (gain, high, 0.0) if np.isfinite(v))
    _annotate(ax, f"{percent(row['gain'])} %", edge, place)


def _tick(label: str) -> str:
    return style.wrapped(label, 3.0, 9, most=2)


def _against(row: dict[Any, Any]) -> str:
    estimator = estimator_text(row["reference_estimator"])
    return f"{row['method']} against {row['reference']}{estimator}"


def _gain_words(row: dict[Any, Any]) -> str:
    judged = np.isfinite([float(row["low"]), float(row["high"])]).all()
    limits = f" ({percent(row['low'])} to {percent(row['high'])})" if judged else ""
    return f"{percent(row['gain'])} %{limits}"


def _with_interval(table: pd.DataFrame) -> str:
    """What a caption says of the intervals, if there are any."""
    return ", with the interval of the bootstrap over dates" if has_intervals(table) else ""


def score_bars(
    scores: pd.DataFrame, score: str = "crps", colours: Mapping[str, str] | None = None
) -> Figure:
    """One score of every method by target, from zero, with intervals; lower is better."""
    need_columns(scores, SCORE_COLUMNS, "scores")
    table = known(scores[scores["score"] == score], "value")
    if table.empty:
        raise InputError(f"there is no {score} to draw")
    region = main_region(table)
    table = own_and_kindest(table[table["region"].astype(str) == region])
    blocks = list(table.groupby(["target", "step_hours"], sort=False))
    sizes = [len(block) for _, block in blocks]
    figure = style.new_figure(WIDTH, ROW * sum(sizes) + 0.95 * len(blocks) + 0.1)
    all_axes = figure.subplots(len(blocks), 1, squeeze=False, gridspec_kw={"height_ratios": sizes})[
        :, 0
    ]
    colours = colours or style.colours_of(scores["method"])
    for ax, (key, block) in zip(all_axes, blocks, strict=True):
        style.plain_axes(ax)
        style.heading(ax, f"{key[0]}, {lead_text(key[1])}")
        limit = OFF_SCALE * float(block["value"].median())
        for i, row in enumerate(block.to_dict("records")):
            _score_bar(ax, i, row, colours[str(row["method"])], limit)
        ax.set_yticks(
            range(len(block)), [_tick(_with_members(row)) for row in block.to_dict("records")]
        )
        ax.set_ylim(len(block) - 0.5, -0.5)
        ax.set_xlim(left=0)
        ax.margins(x=0.12)
        label = with_units(score_name(score), str(block["units"].iloc[0]))
        ax.set_xlabel(style.literal(label), fontsize=9.5)
    alt = f"{score_name(score)} by method, region {region}. " + "; ".join(
        f"{row['target']}, {_with_members(row)}: {number(row['value'])} {units_text(row['units'])}"
        for row in table.to_dict("records")
    )
    caption = (
        f"{score_name(score)} (lower is better) over the region “{region}”"
        f"{_with_interval(table)}. The bars start at zero."
    )
    if any(_far_off(block["value"]) for _, block in blocks):
        caption += f" Bars beyond {OFF_SCALE:g} times the median are cut off."
    return Figure(style.png_of(figure), alt + ".", caption)


def _far_off(values: pd.Series[Any]) -> bool:
    """Whether a value is so high that its bar is cut off."""
    return bool((values > OFF_SCALE * values.median()).any())


def _score_bar(ax: Any, place: int, row: dict[Any, Any], colour: str, limit: float) -> None:
    """One bar; far beyond the others it is cut off, so that these can be told apart."""
    value, low, high = (float(row[key]) for key in ("value", "low", "high"))
    ax.barh(place, min(value, limit), height=0.62, color=colour)
    if value > limit:
        text, edge = f"▶ {number(value)}, off the scale", limit
    else:
        _interval(ax, place, low, high)
        text, edge = number(value), max(v for v in (value, high) if np.isfinite(v))
    _annotate(ax, text, edge, place)


def _interval(ax: Any, place: int, low: float, high: float) -> None:
    ax.plot([low, high], [place, place], "|-", color=style.INK, linewidth=1.6, markersize=8)


def _annotate(ax: Any, text: str, x: float, place: int, *, left: bool = False) -> None:
    ax.annotate(
        text, (x, place), xytext=(-8 if left else 7, 0), textcoords="offset points",
        ha="right" if left else "left", va="center", fontsize=8.5, color=style.INK,
    )  # fmt: skip


def _with_members(row: dict[Any, Any]) -> str:
    """Method, its members and the score's estimator as one label."""
    count = members_text(row["members"])
    noun = "member" if count == "1" else "members"
    members = f", {count} {noun}" if count else ""
    return f"{row['method']}{members}{estimator_text(row['estimator'])}"


def spread_skill(scores: pd.DataFrame, colours: Mapping[str, str] | None = None) -> Figure:
    """Ratio of the spread to the error of the mean, with intervals; one if calibrated."""
    need_columns(scores, SCORE_COLUMNS, "scores")
    table = known(scores[scores["score"] == "spread_skill"], "value")
    if table.empty:
        raise InputError("there is no spread_skill to draw")
    region = main_region(table)
    table = table[table["region"].astype(str) == region]
    blocks = list(table.groupby(["target", "step_hours"], sort=False))
    sizes = [len(block) for _, block in blocks]
    figure = style.new_figure(WIDTH, ROW * sum(sizes) + 0.55 * len(blocks) + 0.9)
    all_axes = figure.subplots(
        len(blocks), 1, squeeze=False, sharex=True, gridspec_kw={"height_ratios": sizes}
    )[:, 0]
    colours = colours or style.colours_of(scores["method"])
    limits = known(table, "low")["low"].min(), known(table, "high")["high"].max()
    low = min(0.85, *(float(v) for v in (limits[0], table["value"].min()) if pd.notna(v)))
    high = max(1.15, *(float(v) for v in (limits[1], table["value"].max()) if pd.notna(v)))
    room = 0.15 * (high - low)  # for the numbers beside the dots
    for ax, (key, block) in zip(all_axes, blocks, strict=True):
        style.plain_axes(ax)
        style.heading(ax, f"{key[0]}, {lead_text(key[1])}")
        for i, row in enumerate(block.to_dict("records")):
            _ratio_dot(ax, i, row, colours[str(row["method"])])
        ax.axvline(1, color=style.INK, linewidth=1.0)
        ax.set_yticks(
            range(len(block)), [_tick(_with_members(row)) for row in block.to_dict("records")]
        )
        ax.set(ylim=(len(block) - 0.5, -0.5), xlim=(low - room, high + room))
    # of the whole figure, as it is wider than a panel beside long names
    figure.supxlabel(
        "Spread / error of the mean   (left of 1: too sure of itself, right: too unsure)",
        fontsize=9.5,
    )
    alt = "Ratio of spread to error. " + "; ".join(
        f"{row['target']}, {_with_members(row)}: {number(row['value'])}"
        for row in table.to_dict("records")
    )
    caption = (
        f"Root of the mean variance over the root-mean-square error of the mean, region "
        f"“{region}”{_with_interval(table)}. The variance of M members is multiplied by "
        "(M + 1) / M, which allows for the error of a mean of so few. In a calibrated forecast the "
        "ratio is one."
    )
    return Figure(style.png_of(figure), alt + ".", caption)


def _ratio_dot(ax: Any, place: int, row: dict[Any, Any], colour: str) -> None:
    value, low, high = (float(row[key]) for key in ("value", "low", "high"))
    ax.plot([1, value], [place, place], color=colour, linewidth=1.2, alpha=0.5)
    _interval(ax, place, low, high)
    ax.plot(value, place, "o", color=colour, markersize=8)
    left = value < 1
    ends = [v for v in (value, low, high) if np.isfinite(v)]
    _annotate(ax, number(value), min(ends) if left else max(ends), place, left=left)


def rank_histograms(
    histograms: Mapping[str, Mapping[str, Histogram]], colours: Mapping[str, str] | None = None
) -> Figure:
    """Rank or PIT histograms: a row for each target, a panel for each method; flat is best.

    A histogram is an array of counts; a DataArray may tell by a coordinate ``expected`` what
    a calibrated forecast gives, if that is not the same in each class.
    """
    rows = [
        (target, [(method, *_relative(h)) for method, h in by_method.items() if np.size(h)])
        for target, by_method in histograms.items()
    ]
    rows = [(target, panels) for target, panels in rows if panels]
    if not rows:
        raise InputError("there are no histograms to draw")
    columns = min(4, max(len(panels) for _, panels in rows))
    lines = [-(-len(panels) // columns) for _, panels in rows]
    wide = WIDTH / columns - 0.4  # beside the numbers of the axis
    heads = [f"{target}, {method}" for target, panels in rows for method, *_ in panels]
    most = max(style.wrapped(head, wide, style.BOLD * 10.5).count("\n") for head in heads)
    figure = style.new_figure(WIDTH, (1.9 + 0.17 * most) * sum(lines) + 0.3)
    colours = colours or style.colours_of(method for _, panels in rows for method, *_ in panels)
    peak = max(float(heights.max()) for _, panels in rows for _, heights, _ in panels)
    top = min(TALLEST, 1.1 * peak)
    line, words = 0, []
    for (target, panels), count in zip(rows, lines, strict=True):
        for i, (method, heights, edges) in enumerate(panels):
            ax = figure.add_subplot(sum(lines), columns, line * columns + i + 1)
            _histogram(ax, heights, edges, colours[method], top)
            style.heading(ax, f"{target}, {method}", wide, pad=9)
            words.append(f"{target}, {method}: {_shape_words(heights)}")
        line += count
    figure.supylabel("Frequency (1: calibrated)", fontsize=9.5)
    figure.supxlabel("Place of the analysis in the forecast, lowest to highest", fontsize=9.5)
    caption = (
        "How often the analysis fell into each part of the forecast distribution. Flat (dashed "
        "line) is calibrated; a U means too little spread, a dome too much, a slope a bias."
    )
    if peak > top:
        caption += f" Bars above {TALLEST:g} are cut off, with their value written above."
    return Figure(style.png_of(figure), "Rank histograms. " + "; ".join(words) + ".", caption)


def _relative(
    histogram: Histogram,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Frequencies relative to those expected, and the edges of the classes in [0, 1]."""
    counts = np.asarray(histogram, dtype=float)
    expected = np.full(counts.size, 1 / counts.size)
    if isinstance(histogram, xr.DataArray) and "expected" in histogram.coords:
        expected = np.asarray(histogram["expected"].values, dtype=float)
    total = counts.sum()
    heights = counts / total / expected if total > 0 else counts
    return heights, np.concatenate([[0.0], np.cumsum(expected)])


def _histogram(
    ax: Any,
    heights: NDArray[np.float64],
    edges: NDArray[np.float64],
    colour: str,
    top: float,
) -> None:
    style.plain_axes(ax, grid="y")
    ax.bar(edges[:-1], np.minimum(heights, top), width=np.diff(edges), align="edge",
           color=colour, edgecolor="white", linewidth=0.5)  # fmt: skip
    ax.axhline(1, color=style.INK, linewidth=1.0, linestyle="--")
    ax.set(xlim=(0, 1), ylim=(0, top), xticks=[])
    for middle, height in zip((edges[:-1] + edges[1:]) / 2, heights, strict=True):
        if height > top:
            ax.annotate(number(height, 2), (middle, top), xytext=(0, 1), ha="center",
                        textcoords="offset points", fontsize=7.5, color=style.INK,
                        annotation_clip=False)  # fmt: skip


def _shape_words(heights: NDArray[np.float64]) -> str:
    """Ends and middle of a histogram, in words."""
    third = heights.size // 3
    middle = heights[third : heights.size - third].mean()
    ends = number(heights[0], 2), number(heights[-1], 2)
    return f"lowest {ends[0]}, middle {number(middle, 2)}, highest {ends[1]}"


def training_curve(history: pd.DataFrame, *, label: str = "", units: str = "") -> Figure:
    """Training and validation loss by epoch (columns ``epoch``, ``train``, ``valid``)."""
    need_columns(history, ("epoch", "train", "valid"), "training losses")
    if history.empty:
        raise InputError("there are no training losses to draw")
    figure = style.new_figure(WIDTH, 3.2)
    ax = figure.add_subplot()
    style.plain_axes(ax, grid="y")
    if label:
        style.heading(ax, label, WIDTH - 1)
    ax.plot(history["epoch"], history["train"], color=style.PALETTE[5], label="training")
    words = "There were no dates to validate on."
    if history["valid"].notna().any():
        ax.plot(history["epoch"], history["valid"], color=style.PALETTE[1], label="validation")
        best = history.iloc[int(np.nanargmin(history["valid"].astype(float)))]
        ax.plot(best["epoch"], best["valid"], "o", color=style.PALETTE[1], label="best epoch")
        words = f"Best validation loss {number(best['valid'])} at epoch {int(best['epoch'])}"
        if best["epoch"] == history["epoch"].max():
            words += (
                ", the last one: training ended by the number of epochs, not by patience, and more "
                "epochs might have gained more"
            )
        words += "."
    ax.legend(frameon=False, fontsize=9)
    ax.set_xlabel("Epoch", fontsize=9.5)
    ax.set_ylabel(style.literal(with_units("Loss", units)), fontsize=9.5)
    alt = f"Loss by epoch{f' of {label}' if label else ''}. {words}"
    return Figure(style.png_of(figure), alt, f"Loss by epoch. {words}")
