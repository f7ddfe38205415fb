"""What the report says of the gains in a case's box."""

from __future__ import annotations

import numpy as np

from weatherpp.pipeline.case_report import gains_in_box


def row(target: str, reference: str, gain: float, dates: int, judged: bool) -> dict[str, object]:
    low, high = (gain - 0.1, gain + 0.1) if judged else (np.nan, np.nan)
    return {
        "method": "mixed", "target": target, "reference": reference, "gain": gain, "low": low,
        "high": high, "dates": dates,
    }  # fmt: skip


def test_too_few_dates_are_said_once() -> None:
    rows = [
        row("z-24h", "raw", 0.266, 2, False),
        row("z-24h", "emos", -0.001, 2, False),
        row("z-48h", "raw", 0.2, 3, False),
    ]
    assert gains_in_box(rows) == [
        "CRPS of mixed in the box: z-24h 26.6 % below raw and 0.1 % above emos; z-48h 20.0 % "
        "below raw. On 2 to 3 dates for each lead time; an interval takes 8."
    ]
    assert gains_in_box([row("z", "raw", 0.1, 1, False)])[0].endswith(
        "On 1 date for each lead time; an interval takes 8."
    )
    assert gains_in_box([]) == []


def test_intervals_stand_beside_their_gains() -> None:
    assert gains_in_box([row("z", "raw", 0.25, 40, True)]) == [
        "CRPS of mixed in the box: z 25.0 % below raw (gain 15.0 to 35.0 %). On 40 dates for each "
        "lead time."
    ]
