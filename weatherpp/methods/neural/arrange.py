"""Which predictor stands where: a flat list of fields, arranged by level, lead time or member."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

from weatherpp.methods.neural.samples import Block


class Channel(NamedTuple):
    """One predictor; ``level`` is None for a field without levels.

    ``layer`` is the number of a member, or one of the statistics of members.
    """

    layer: str | int
    variable: str
    hour: float
    level: int | None


def channels(blocks: Sequence[Block]) -> list[Channel]:
    """Every predictor, in the order of :attr:`~weatherpp.methods.neural.samples.Block.names`."""
    return [
        Channel(layer, block.variable, hour, level)
        for block in blocks
        for layer in (*(kind for kind in block.kinds if kind != "members"), *block.members)
        for hour in block.hours
        for level in (block.levels or (None,))
    ]


def arrange(
    blocks: Sequence[Block], axis: Literal["level", "hour", "layer"], others: int = 0
) -> tuple[list[list[int]], list[Hashable]]:
    """Table of predictors (channel, place along the axis), for a :class:`Stack`.

    Parameters
    ----------
    blocks
        Their fields come first, in the order of their names.
    axis
        What the second dimension is: ``level``, lead time (``hour``) or member (``layer``).
    others
        Number of fields behind them, which have no place along the axis.

    Returns
    -------
    Table of positions, -1 where there is no such field; a field without a place along the axis
    stands everywhere. And the places, ascending (members in the order given).
    """
    fields = channels(blocks)
    found = dict.fromkeys(getattr(field, axis) for field in fields)
    places = [place for place in found if place is not None]
    if axis != "layer":
        places.sort()
    places = places or [None]
    rows: dict[Hashable, list[int]] = {}
    for number, field in enumerate(fields):
        place = getattr(field, axis)
        rest = {name: value for name, value in field._asdict().items() if name != axis}
        key = (place is None, *rest.values())
        row = rows.setdefault(key, [-1] * len(places))
        for at, here in enumerate(places):
            if place in (None, here):
                row[at] = number
    table = list(rows.values())
    table += [[len(fields) + number] * len(places) for number in range(others)]
    return table, places
