"""From sigma levels to pressure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def to_pressure(
    values: Array, pressure: Array, levels: Sequence[float], *, extend: bool = False
) -> Array:
    """Interpolate linearly in the logarithm of pressure.

    Parameters
    ----------
    values
        On model levels from top to bottom, (state, model level, ...).
    pressure
        Of the model levels, Pa, the same shape.
    levels
        Wanted pressures, hPa.
    extend
        Below the lowest model level (under mountains), go on as between the two lowest: for
        geopotential, which is then hydrostatic. Otherwise the lowest value holds.

    Returns
    -------
    Values, (state, level, ...).
    """
    height = np.log(pressure.astype(np.float64))
    last = values.shape[1] - 1
    out = []
    for level in levels:
        wanted = np.log(100.0 * level)
        above = np.clip((height < wanted).sum(axis=1) - 1, 0, last - 1)[:, None]
        upper, lower = (np.take_along_axis(height, above + i, axis=1) for i in (0, 1))
        weight = (wanted - upper) / (lower - upper)
        weight = np.clip(weight, 0.0, None if extend else 1.0)
        first, second = (np.take_along_axis(values, above + i, axis=1) for i in (0, 1))
        out.append((first + weight * (second - first))[:, 0])
    return np.stack(out, axis=1).astype(np.float32)
