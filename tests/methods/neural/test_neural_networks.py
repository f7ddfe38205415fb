"""Networks: shapes, symmetries, zero start, cost."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from weatherpp.methods.neural.build import level_table
from weatherpp.methods.neural.networks.padding import Topology
from weatherpp.methods.neural.networks.residual import ResidualNet
from weatherpp.methods.neural.networks.unet3d import LevelStack, UNet3d, upsample
from weatherpp.methods.neural.samples import Block

GLOBE = Topology(periodic=True, poles=True)


def awake(net: nn.Module) -> nn.Module:
    """Small random weights in place of the zeros of the heads; evaluation mode."""
    torch.manual_seed(1)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.2)
    return net.eval()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("topology", [GLOBE, Topology(True), Topology(True, True, True)])
def test_unet_follows_a_roll_in_longitude(stride: int, topology: Topology) -> None:
    net = awake(UNet3d(3, 2, width=4, depth=2, topology=topology, stride=stride))
    x = torch.randn(2, 3, 4, 8 * stride, 16 * stride)
    roll = 4 * stride
    with torch.inference_mode():
        torch.testing.assert_close(
            net(x.roll(roll, -1)), net(x).roll(roll, -1), atol=1e-5, rtol=1e-5
        )


def test_residual_net_follows_a_roll_in_longitude() -> None:
    net = awake(ResidualNet(3, 2, width=4, depth=2, topology=GLOBE, rows=8))
    x = torch.randn(2, 3, 8, 16)
    with torch.inference_mode():
        torch.testing.assert_close(net(x.roll(2, -1)), net(x).roll(2, -1), atol=1e-5, rtol=1e-5)


@settings(deadline=None, max_examples=12)
@given(
    st.integers(1, 19),
    st.integers(1, 19),
    st.integers(1, 3),
    st.sampled_from([Topology(), Topology(True), GLOBE, Topology(True, True, True)]),
)
def test_any_grid_size(height: int, width: int, levels: int, topology: Topology) -> None:
    volume = awake(UNet3d(2, 1, width=2, depth=2, topology=topology))
    plane = awake(ResidualNet(2, 3, width=2, depth=1, topology=topology, rows=height))
    with torch.inference_mode():
        out = volume(torch.randn(1, 2, levels, height, width))
        assert out.shape == (1, 1, levels, height, width)
        assert torch.isfinite(out).all()
        assert plane(torch.randn(1, 2, height, width)).shape == (1, 3, height, width)


def test_limited_area_is_local() -> None:
    """On a grid that needs no filling, only the receptive field of a point matters."""
    net = awake(ResidualNet(1, 1, width=3, depth=1))
    x = torch.randn(1, 1, 32, 32)
    y = x.clone()
    y[..., 20:, :] = 0
    with torch.inference_mode():
        torch.testing.assert_close(net(x)[..., :12, :], net(y)[..., :12, :])


@pytest.mark.parametrize(
    "net",
    [ResidualNet(3, 2, rows=6), UNet3d(3, 2, width=2, depth=1)],
    ids=["residual", "unet3d"],
)
def test_untrained_network_corrects_nothing(net: nn.Module) -> None:
    x = torch.randn(2, 3, 6, 8) if isinstance(net, ResidualNet) else torch.randn(2, 3, 2, 6, 8)
    assert not net(x).any()


def test_one_level_of_output_is_that_of_all() -> None:
    torch.manual_seed(0)
    net = awake(UNet3d(3, 2, width=2, depth=1, stride=2))
    x = torch.randn(1, 3, 4, 8, 8)
    with torch.inference_mode():
        whole = net(x)
        net.kept = slice(2, 3)
        torch.testing.assert_close(net(x), whole[:, :, 2:3])


def test_upsampling_repeats() -> None:
    x = torch.randn(2, 3, 4, 5)
    assert torch.equal(upsample(x), torch.nn.functional.interpolate(x, scale_factor=2))


def test_levels_of_fields() -> None:
    blocks = [
        Block("z", (200, 500), (0.0, 48.0), ("mean",)),
        Block("t", (350,), (48.0,), ("mean",)),
        Block("t2m", (), (48.0,), ("mean",)),
    ]
    table, level = level_table(blocks, others=1, target_level=350)
    assert table == [[0, -1, 1], [2, -1, 3], [-1, 4, -1], [5, 5, 5], [6, 6, 6]]
    assert level == 1
    assert level_table(blocks, 0, None)[1] == 2


def test_stack_puts_fields_on_their_levels() -> None:
    class Echo(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = x
            return x[:, :1, :1]

    net = Echo()
    x = torch.randn(2, 3, 4, 5)
    LevelStack(net, [[0, -1], [1, 2]])(x)  # type: ignore[arg-type]
    assert torch.equal(net.seen[:, 0, 0], x[:, 0])
    assert not net.seen[:, 0, 1].any()
    assert torch.equal(net.seen[:, 1], x[:, 1:3])


def test_cost_of_the_default_network() -> None:
    """45 million multiply-adds a sample at 32 x 64, for the fields of a typical archive."""
    net = ResidualNet(130, 2, topology=GLOBE, rows=32)
    cost = []

    def count(module: nn.Module, _: object, out: torch.Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            cost.append(out.numel() * module.weight[0].numel())

    for module in net.modules():
        module.register_forward_hook(count)
    net(torch.randn(1, 130, 32, 64))
    assert sum(cost) + net.linear[..., 0].numel() * 32 * 64 < 45e6


def test_unet_exports_to_onnx_operators() -> None:
    """The padding must trace to plain slices and concatenations."""
    net = LevelStack(
        UNet3d(2, 1, width=2, depth=1, topology=GLOBE, level=0), [[0, 1], [2, 2]]
    ).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit.trace(net, torch.randn(1, 3, 4, 8)).inlined_graph
    names = {node.kind() for node in graph.nodes()}
    assert "aten::slice" in names
    assert not {name for name in names if "pad" in name or "roll" in name}
    assert isinstance(io.StringIO(str(graph)).read(), str)
