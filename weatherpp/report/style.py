"""Look of all figures: sizes, colours, and how an image leaves Matplotlib.

Only Matplotlib's object interface is used and no global setting is changed, so figures may be
drawn from several threads.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as MplFigure
from PIL import Image

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
    small.save(buffer, format="png", compress_level=9)
    return buffer.getvalue()


def colours_of(methods: Iterable[str]) -> dict[str, str]:
    """Colour for each method, in order of first appearance."""
    names = list(dict.fromkeys(str(method) for method in methods))
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def plain_axes(ax: Axes, *, grid: str = "x") -> None:
    """Frame without top and right lines, a faint grid behind the data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=9, length=3)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]


def literal(text: str, most: int = 110) -> str:
    """Text as it is for Matplotlib, which would else set what stands between dollars as maths.

    Names come from files and recipes; one that is too long is shortened, or it would leave no
    room for the figure.
    """
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return short.replace("$", r"\$")


def heading(ax: Axes, text: str, **kwargs: Any) -> None:
    """Left-aligned title of a panel."""
    ax.set_title(
        literal(text, 60), loc="left", fontsize=10.5, fontweight="bold", color=INK, **kwargs
    )
