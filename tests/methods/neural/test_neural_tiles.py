"""Tiles that cover a grid, and the order of samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weatherpp.errors import ConfigError
from weatherpp.methods.neural.networks.padding import Topology
from weatherpp.methods.neural.tiles import Order, Sample, tiles


@given(
    shape=st.tuples(st.integers(1, 30), st.integers(1, 30)), data=st.data(), around=st.booleans()
)
def test_tiles_cover_every_point(shape: tuple[int, int], data: st.DataObject, around: bool) -> None:
    size = (data.draw(st.integers(1, shape[0])), data.draw(st.integers(1, shape[1])))
    overlap = (data.draw(st.integers(0, size[0] - 1)), data.draw(st.integers(0, size[1] - 1)))
    seen = np.zeros(shape, int)
    corners = tiles(shape, size, overlap, Topology(around))
    for row, column in corners:
        assert 0 <= row <= shape[0] - size[0]
        assert around or column <= shape[1] - size[1]
        columns = np.arange(column, column + size[1]) % shape[1]
        seen[row : row + size[0], columns] += 1
    assert (seen >= 1).all()
    assert len(set(corners)) == len(corners)


def test_tiles_overlap_and_go_round() -> None:
    assert tiles((8, 16), (8, 16), (0, 0), Topology(True)) == [(0, 0)]
    around = tiles((8, 16), (8, 8), (0, 2), Topology(True))
    assert [tile.column for tile in around] == [0, 6, 12]
    part = tiles((8, 16), (8, 8), (0, 2), Topology())
    assert [tile.column for tile in part] == [0, 6, 8]


@pytest.mark.parametrize(("size", "overlap"), [((9, 4), (0, 0)), ((4, 4), (4, 0))])
def test_tiles_that_do_not_suit(size: tuple[int, int], overlap: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="does not suit a grid of 8 x 16"):
        tiles((8, 16), size, overlap, Topology(True))


def order(**settings: object) -> Order:
    blocks = [range(4), range(4, 5), range(5, 9), range(9, 13), range(13, 14)]
    return Order(
        blocks, **{"leads": 2, "tiles": 3, "batch": 4, "shuffle": True, "seed": 5} | settings
    )  # type: ignore[arg-type]


@given(ranks=st.integers(1, 6), epoch=st.integers(0, 3), workers=st.integers(1, 4))
def test_each_sample_once_over_ranks_and_workers(ranks: int, epoch: int, workers: int) -> None:
    seen: list[Sample] = []
    for rank in range(ranks):
        batches = order().batches(epoch, rank, ranks, even=False)
        for worker in range(workers):
            seen += [sample for batch in batches[worker::workers] for sample in batch]
    assert len(seen) == len(set(seen)) == 14 * 2 * 3
    assert {sample.date for sample in seen} == set(range(14))


def test_order_is_a_function_of_seed_and_epoch() -> None:
    first = order().batches(0, 1, 2, even=False)
    assert first == order().batches(0, 1, 2, even=False)
    assert first != order().batches(1, 1, 2, even=False)
    assert first != order(seed=6).batches(0, 1, 2, even=False)
    plain = order(shuffle=False).batches(0, 0, 1, even=False)
    assert [sample.date for batch in plain for sample in batch] == sorted(list(range(14)) * 6)


def test_even_ranks_have_as_many_batches_each() -> None:
    for epoch in range(5):
        counts = {len(order().batches(epoch, rank, 3, even=True)) for rank in range(3)}
        assert len(counts) == 1
