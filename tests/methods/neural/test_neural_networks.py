"""Networks: shapes, symmetries, zero start, cost."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from weatherpp.methods.neural.arrange import arrange
from weatherpp.methods.neural.networks import padding
from weatherpp.methods.neural.networks.bias import Local, LocallyConnected, TileNet, UNet2d
from weatherpp.methods.neural.networks.inception import InceptionNet
from weatherpp.methods.neural.networks.padding import Topology
from weatherpp.methods.neural.networks.residual import ResidualNet
from weatherpp.methods.neural.networks.sets import SetNet
from weatherpp.methods.neural.networks.stack import Stack
from weatherpp.methods.neural.networks.temporal import TemporalNet
from weatherpp.methods.neural.networks.unet3d import LevelStack, UNet3d, upsample
from weatherpp.methods.neural.samples import Block

GLOBE = Topology(periodic=True, poles=True)


FLAT = {
    # name: the network for two predictors and three outputs, for any grid
    "residual": lambda topology: ResidualNet(2, 3, 4, 1, topology),
    "unet2d": lambda topology: UNet2d(2, 3, 2, 2, topology),
    "inception": lambda topology: InceptionNet(2, 3, 3, 2, topology),
    "tiles": lambda topology: TileNet(2, 3, 3, 2, topology, (2, 3)),
    "temporal": lambda topology: Stack(TemporalNet(2, 3, 12, 2, topology), [[0, 1], [1, 1]]),
    "set": lambda topology: Stack(SetNet(1, 1, 3, 4, 1, topology, rows=0), [[0, 0], [1, 1]]),
    "attention": lambda topology: Stack(
        SetNet(1, 1, 3, 4, 1, topology, mixing="attention", heads=2), [[0, 0], [1, 1]]
    ),
}


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


@pytest.mark.parametrize("topology", [Topology(), GLOBE, Topology(True, True, True)])
@pytest.mark.parametrize("name", [*sorted(set(FLAT) - {"tiles"}), "volume", "strided volume"])
def test_strips_of_a_large_grid_give_what_the_whole_gives(
    name: str, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = {
        "volume": lambda: LevelStack(UNet3d(2, 3, 2, 2, topology, level=0), [[0], [1]]),
        "strided volume": lambda: LevelStack(
            UNet3d(2, 3, 2, 1, topology, stride=2, level=0), [[0], [1]]
        ),
    }
    net = awake(volumes[name]() if name in volumes else FLAT[name](topology))
    x = torch.randn(2, 2, 151, 6)
    with torch.inference_mode():
        whole = net(x)
        monkeypatch.setattr(padding, "STRIP_POINTS", 200)
        strips = net(x)
    assert not torch.equal(whole[..., :1, :], whole[..., 1:2, :])
    torch.testing.assert_close(strips, whole, atol=1e-5, rtol=1e-5)
    far = x.clone()
    far[..., -1, :] += 1  # the outermost row tells in its own strip, and not in the first
    with torch.inference_mode():
        changed = net(far)
    assert torch.equal(changed[..., 0, :], strips[..., 0, :])
    assert not torch.equal(changed[..., -1, :], strips[..., -1, :])


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


@pytest.mark.parametrize("name", FLAT)
@settings(deadline=None, max_examples=6)
@given(
    st.integers(1, 19),
    st.integers(1, 19),
    st.sampled_from([Topology(), Topology(True), GLOBE, Topology(True, True, True)]),
)
def test_flat_networks_take_any_grid(
    name: str, height: int, width: int, topology: Topology
) -> None:
    net = awake(FLAT[name](topology))
    with torch.inference_mode():
        out = net(torch.randn(1, 2, height, width))
    assert out.shape == (1, 3, height, width)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("name", [name for name in FLAT if name != "tiles"])
def test_flat_networks_follow_a_roll_in_longitude(name: str) -> None:
    net = awake(FLAT[name](GLOBE))
    x = torch.randn(2, 2, 8, 16)
    with torch.inference_mode():
        torch.testing.assert_close(net(x.roll(4, -1)), net(x).roll(4, -1), atol=1e-4, rtol=1e-4)


def test_tiles_follow_a_roll_by_tiles_if_they_are_alike() -> None:
    net = TileNet(2, 1, 3, 2, Topology(True), (2, 4))
    awake(net)
    for layer in [*net.layers, net.head]:
        first = len(layer.weight) // 8
        layer.weight.data[:] = layer.weight.data[:first].repeat(8, 1, 1, 1)
        layer.bias.data[:] = layer.bias.data[:first].repeat(8)
    x = torch.randn(1, 2, 8, 16)
    with torch.inference_mode():
        # a single convolution over the whole grid gives the same: tiles read across their edges
        torch.testing.assert_close(net(x.roll(3, -1)), net(x).roll(3, -1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", FLAT)
def test_samples_of_a_batch_do_not_mix(name: str) -> None:
    net = awake(FLAT[name](GLOBE))
    x = torch.randn(3, 2, 6, 8)
    with torch.inference_mode():
        whole = net(x)
        for number in range(3):
            one = net(x[number : number + 1])
            torch.testing.assert_close(one[0], whole[number], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", FLAT)
def test_networks_can_learn_eight_samples_by_heart(name: str) -> None:
    torch.manual_seed(2)
    net = FLAT[name](GLOBE)
    assert not net(torch.randn(2, 2, 6, 8)).any()
    x = torch.randn(8, 2, 6, 8)
    y = torch.stack([x[:, 0], x.roll(1, -1)[:, 1], x[:, 0] * 0.5], 1)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        loss = (net(x) - y).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert min(losses) < 0.35 * losses[0]


@pytest.mark.parametrize("mixing", ["mean", "attention"])
def test_order_of_members(mixing: str) -> None:
    order = torch.tensor([2, 0, 3, 1])
    x = torch.randn(2, 3, 4, 6, 8)
    x[:, 2] = x[:, 2, :1]  # the field that members share
    pooled = awake(SetNet(2, 1, 2, 4, 2, GLOBE, rows=6, mixing=mixing, heads=2))
    each = awake(SetNet(2, 1, 1, 4, 2, GLOBE, rows=6, mixing=mixing, heads=2, pooled=False))
    close = {"atol": 1e-5, "rtol": 1e-5}
    with torch.inference_mode():
        torch.testing.assert_close(pooled(x[:, :, order]), pooled(x), **close)
        torch.testing.assert_close(each(x[:, :, order]), each(x)[:, order], **close)
        # every member twice is the same set, but for the divisor of the spread
        assert pooled(torch.cat([x, x], 2)).shape == (2, 2, 6, 8)
        assert pooled(x[:, :, :1]).isfinite().all()


def test_gradient_where_members_are_alike() -> None:
    net = SetNet(1, 0, 1, 4, 1, GLOBE)
    torch.nn.init.ones_(net.linear)
    x = torch.zeros(1, 1, 3, 4, 4, requires_grad=True)
    net(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_locally_connected_layer() -> None:
    layer = LocallyConnected(2, 1, (3, 4), periodic=True)
    assert float(layer.roughness().detach()) == 0
    weights = torch.arange(24, dtype=torch.float32).reshape(1, 2, 3, 4)
    layer.weight.data[:] = weights
    x = torch.randn(5, 2, 3, 4)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), (x * weights).sum(1, keepdim=True))
        # rows differ by 4; columns by 1, and 3 round the globe; the offsets, a third, not at all
        expected = (4 * 2 / 3 + (3 * 1 + 3) / 4 * 2 / 3) / 2
        assert float(layer.roughness()) == pytest.approx(expected)
        behind = Local(awake(UNet2d(2, 2, 2, 1)), layer, 10.0)
        assert float(behind.penalty()) == pytest.approx(10 * expected)
        assert behind(x).shape == (5, 1, 3, 4)


def test_published_sizes_of_the_bias_networks() -> None:
    """Channels of the published U-Nets; there convolutions are 3 x 3 x 3, here one level less."""
    net = UNet2d(14, 7, width=32, depth=2)
    made = [conv.conv.out_channels for pair in net.down for conv in pair]
    assert made == [32, 64, 64, 128, 128, 256]


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
    table, levels = arrange(blocks, "level", others=1)
    assert table == [[0, -1, 1], [2, -1, 3], [-1, 4, -1], [5, 5, 5], [6, 6, 6]]
    assert levels == [200, 350, 500]
    flat = [Block("t2m", (), (48.0,), ("mean",))]
    assert arrange(flat, "level", others=1) == ([[0], [1]], [None])


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
