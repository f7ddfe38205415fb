"""Look of all figures: sizes, colours, and how an image leaves Matplotlib.

Only Matplotlib's object interface is used and no global setting is changed, so figures may be
drawn from several threads.
"""

from __future__ import annotations

import io
import re
import textwrap
import threading
from collections.abc import Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure as MplFigure
from PIL import Image

FORMATS = ("png", "svg", "pdf")
BOLD = 1.1  # width of bold letters over that of others
DPI = 150
INK = "#1b2530"
FAINT = "#6b7784"
GRID = "#dfe4e9"
# Okabe and Ito's palette: told apart with any of the common kinds of colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A", "#000000")


def new_figure(width: float, height: float) -> MplFigure:
    """Empty figure of a size in inches."""
    return MplFigure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")


def png_of(figure: MplFigure) -> bytes:
    """PNG of a figure; the same figure gives the same bytes.

    A palette of 256 colours keeps figures, which have few, at a third of the size.
    """
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    small = image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    small.save(buffer, format="png", compress_level=6)  # 9: five times the time, 4 % less
    return buffer.getvalue()


_VECTORS = threading.Lock()


def image_of(figure: MplFigure, file_format: str) -> bytes:
    """A figure as ``png``, ``svg`` or ``pdf``; the same figure gives the same bytes.

    Lines and text of SVG and PDF stay lines and text (in SVG as outlines, so that they look the
    same everywhere), fields are images within.
    """
    if file_format == "png":
        return png_of(figure)
    # identifiers in SVG are random, and fonts in PDF are of a type that journals refuse, but for
    # these settings; they are of the whole process, so vector files are made one at a time
    stable: Any = {"svg.hashsalt": "weatherpp", "pdf.fonttype": 42}
    undated = {"Date": None} if file_format == "svg" else {"CreationDate": None}
    buffer = io.BytesIO()
    with _VECTORS, mpl.rc_context(stable):
        figure.savefig(buffer, format=file_format, metadata=undated)
    return buffer.getvalue()


def colours_of(methods: Iterable[str]) -> dict[str, str]:
    """Colour for each method, in order of first appearance.

    After as many as the palette has, its colours come again lighter, then darker.
    """
    names = list(dict.fromkeys(str(method) for method in methods))
    shades = [PALETTE, *(tuple(_mixed(c, other) for c in PALETTE) for other in ("white", "black"))]
    colours = list(dict.fromkeys(colour for shade in shades for colour in shade))
    return {name: colours[i % len(colours)] for i, name in enumerate(names)}


def _mixed(colour: str, other: str) -> str:
    """Half of one colour and half of another."""
    one, two = (np.asarray(to_rgb(each)) for each in (colour, other))
    return to_hex((one + two) / 2)


def plain_axes(ax: Axes, *, grid: str = "x") -> None:
    """Frame without top and right lines, a faint grid behind the data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=9, length=3)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]


def date_axis(ax: Axes, dates: pd.DatetimeIndex, most: int) -> None:
    """Few ticks at round dates, days with their month, whose year the figure tells elsewhere."""
    if len(dates) == 1:
        ax.set_xticks(dates.to_numpy(), [f"{dates[0]:%d %b}"])
        return
    # a few days would have too few ticks by days for the default of five, and too many by hours
    locator: Any = AutoDateLocator(minticks=2, maxticks=most)  # type: ignore[no-untyped-call]
    formatter: Any = ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator,
        formats=["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"],
        zero_formats=["", "%b %Y", "%d %b", "%d %b", "%H:%M", "%H:%M"],
        show_offset=False,
    )
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(formatter)


def literal(text: str, most: int = 110) -> str:
    """Text as it is for Matplotlib, which would else set what stands between dollars as maths.

    Names come from files and recipes; one that is too long is shortened, or it would leave no
    room for the figure.
    """
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return short.replace("$", r"\$")


def wrapped(text: str, inches: float, size: float, most: int = 3) -> str:
    """Text broken to a width, each of its lines to so many at most; for a font size in points.

    What stands in brackets stays together where it can.
    """
    count = max(12, int(inches * 72 / (0.57 * size)))  # letters of a usual width
    tied = re.sub(r"\([^()]*\)", lambda part: part[0].replace(" ", "\u00a0"), text)
    lines = [
        part
        for line in tied.splitlines()
        for part in textwrap.wrap(line, count, max_lines=most, placeholder=" …")
    ]
    return literal("\n".join(lines), 1000)


def heading(ax: Axes, text: str, inches: float | None = None, **kwargs: Any) -> None:
    """Left-aligned title of a panel, broken to a width if it is given."""
    lines = (
        "\n".join(literal(line, 60) for line in text.splitlines())
        if inches is None
        else wrapped(text, inches, BOLD * 10.5)
    )
    ax.set_title(lines, loc="left", fontsize=10.5, fontweight="bold", color=INK, **kwargs)


def title_lines(text: str, width: float) -> list[str]:
    """Lines that a title takes in a figure so many inches wide."""
    return wrapped(text, width - 0.2, 10.5).splitlines()


def title(figure: MplFigure, text: str) -> None:
    """Left-aligned title of a figure, in as many lines as its width asks for."""
    words = "\n".join(title_lines(text, figure.get_figwidth()))
    figure.suptitle(words, x=0.01, ha="left", fontsize=10.5, color=INK)
