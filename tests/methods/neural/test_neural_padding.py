"""Padding on the sphere and on limited areas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weatherpp.methods.neural.networks.padding import (
    Topology,
    missing_to_multiple,
    pad,
    pad_columns,
    pad_rows,
)

GLOBE = Topology(periodic=True, poles=True)


def test_limited_area_repeats_its_edge() -> None:
    x = torch.randn(2, 3, 5, 6)
    expected = torch.nn.functional.pad(x, (2, 2, 2, 2), mode="replicate")
    assert torch.equal(pad(x, 2, Topology()), expected)


def test_longitude_wraps() -> None:
    x = torch.randn(1, 1, 4, 7)
    expected = torch.nn.functional.pad(x, (2, 2, 0, 0), mode="circular")
    assert torch.equal(pad_columns(x, 2, 2, Topology(periodic=True)), expected)


@pytest.mark.parametrize(("pole_row", "rows"), [(False, 6), (True, 7)])
def test_rows_beyond_the_poles_are_those_on_the_other_side(pole_row: bool, rows: int) -> None:
    if pole_row:
        latitude = np.linspace(90, -90, rows)
    else:
        latitude = (np.arange(rows) + 0.5) / rows * -180 + 90
    longitude = np.arange(8) * 45.0
    step = latitude[0] - latitude[1]

    def field(lat: np.ndarray) -> torch.Tensor:
        # a smooth function of the place on the sphere, so it goes on beyond the pole
        phi, lam = np.deg2rad(lat)[:, None], np.deg2rad(longitude)[None]
        values = np.cos(phi) * np.cos(lam) + 2 * np.cos(phi) * np.sin(lam) + 3 * np.sin(phi)
        return torch.from_numpy(values)

    beyond = np.concatenate(
        [latitude[0] + step * np.array([2, 1]), latitude, latitude[-1] - step * np.array([1, 2])]
    )
    padded = pad_rows(field(latitude), 2, 2, Topology(True, True, pole_row))
    torch.testing.assert_close(padded, field(beyond))


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 12),
    st.integers(0, 12),
    st.sampled_from([Topology(), Topology(True), GLOBE, Topology(True, True, True)]),
)
def test_any_size(height: int, width: int, before: int, after: int, topology: Topology) -> None:
    x = torch.arange(float(height * width)).reshape(1, height, width)
    y = pad_columns(pad_rows(x, before, after, topology), before, after, topology)
    assert y.shape == (1, height + before + after, width + before + after)
    assert torch.equal(y[..., before : before + height, before : before + width], x)


def test_to_a_multiple() -> None:
    assert missing_to_multiple(8, 4) == (0, 0)
    assert missing_to_multiple(361, 8) == (3, 4)


def test_poles_need_a_periodic_grid() -> None:
    with pytest.raises(ValueError, match="periodic"):
        Topology(poles=True)
