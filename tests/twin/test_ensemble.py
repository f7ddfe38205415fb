"""The truth in a thread of its own: order, errors, early end, one core for each thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from weatherpp.errors import WeatherppError
from weatherpp.twin.ensemble import Truth, ahead, single_threaded


def truths(count: int, made: list[int]) -> Iterator[Truth]:
    for number in range(count):
        made.append(number)
        assert torch.is_inference_mode_enabled()
        yield Truth(torch.tensor(number), [])
    if count == 4:
        raise WeatherppError("the model has blown up")


@pytest.mark.parametrize("count", [0, 1, 9])
def test_the_same_truths_in_the_same_order(count: int) -> None:
    numbers = [int(truth.initial) for truth in ahead(truths(count, []), depth=3)]
    assert numbers == list(range(count))


def test_an_error_of_the_truth_arrives_after_the_dates_before_it() -> None:
    seen: list[int] = []
    with pytest.raises(WeatherppError, match="blown up"):
        seen.extend(int(truth.initial) for truth in ahead(truths(4, []), depth=2))
    assert seen == [0, 1, 2, 3]


def test_only_some_dates_are_made_ahead_and_the_thread_ends_with_its_user() -> None:
    made: list[int] = []
    run = ahead(truths(100, made), depth=3)
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert len(made) <= 4
    assert not any(thread.name.startswith("truth") for thread in threading.enumerate())


def test_each_thread_computes_on_one_core_and_the_setting_is_put_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with single_threaded(), ThreadPoolExecutor(1) as pool:
            assert torch.get_num_threads() == 1
            assert pool.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
