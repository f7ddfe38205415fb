"""The season as a predictor, and how near two dates are in the year."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

YEAR = 365.25  # days


def harmonics(times: pd.DatetimeIndex, count: int = 1) -> NDArray[np.float64]:
    """Sine and cosine of the day of the year and of its multiples, (times, 2 * count)."""
    day = (times.day_of_year + times.hour / 24).to_numpy()
    angles = 2 * np.pi * day[:, None] * np.arange(1, count + 1) / YEAR
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(times), 2 * count)


def days_apart(days: NDArray[np.float64], day: float) -> NDArray[np.float64]:
    """Distance in the year between days of the year, never more than half a year."""
    away = np.abs(days - day)
    return np.minimum(away, YEAR - away)
