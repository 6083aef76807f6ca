"""bfloat16 products: operands are rounded and nothing else, whatever the number of rows; autocast has the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.encoder.bert import BertConfig, random_bert
from manyheads.encoder.bfloat16 import ROWS, feed_forward, linear
from manyheads.seeding import seeded_rng
from manyheads.tokens.packing import Sequence, pack

pytestmark = pytest.mark.numeric
SPACING = 2.0**-8  # of bfloat16, relative to the number


def rounded(tensor: Tensor) -> Tensor:
    return tensor.detach().bfloat16().double().requires_grad_()


def close(actual: Tensor | None, expected: Tensor | None, spacings: float = 2) -> None:
    """Equal within a few spacings of bfloat16 at the size of the tensor's numbers."""
    assert actual is not None
    assert expected is not None
    assert actual.dtype == torch.float32
    size = expected.abs().max().item()
    assert (actual.double() - expected).abs().max().item() <= spacings * SPACING * size


def rows_of(count: int, width: int) -> Tensor:
    with seeded_rng(count, "test"):
        return torch.randn(count, width, requires_grad=True)


@pytest.mark.parametrize("count", [1, ROWS - 1, ROWS, ROWS + 1, 200])
def test_a_product_is_that_of_rounded_operands(count: int) -> None:
    layer, x, to_y = nn.Linear(24, 40), rows_of(count, 24), rows_of(count, 40).detach()
    with torch.autocast("cpu", torch.bfloat16):
        y = linear(x, layer.weight, layer.bias)
    y.backward(to_y)
    exact_x, weight, bias = rounded(x), rounded(layer.weight), rounded(layer.bias)
    exact = F.linear(exact_x, weight, bias)
    exact.backward(rounded(to_y))
    close(y, exact)
    close(x.grad, exact_x.grad)
    close(layer.weight.grad, weight.grad)
    close(layer.bias.grad, bias.grad)


@pytest.mark.parametrize("count", [1, ROWS - 1, ROWS, ROWS + 1, 200])
def test_feed_forward_and_its_gradients(count: int) -> None:
    up, down, x, to_y = nn.Linear(16, 64), nn.Linear(64, 16), rows_of(count, 16), rows_of(count, 16).detach()
    with torch.autocast("cpu", torch.bfloat16):
        y = feed_forward(x, up, down)
    y.backward(to_y)
    exact_x = rounded(x)
    exact_up, exact_up_bias, exact_down, exact_down_bias = map(rounded, (up.weight, up.bias, down.weight, down.bias))
    exact = F.linear(F.gelu(F.linear(exact_x, exact_up, exact_up_bias)), exact_down, exact_down_bias)
    exact.backward(rounded(to_y))
    close(y, exact)
    close(x.grad, exact_x.grad, 4)
    for parameter, expected in (
        (up.weight, exact_up), (up.bias, exact_up_bias), (down.weight, exact_down), (down.bias, exact_down_bias),
    ):  # fmt: skip
        close(parameter.grad, expected.grad, 4)


def test_only_what_learns_has_a_gradient() -> None:
    layer, x = nn.Linear(8, 8), rows_of(5, 8).detach()
    layer.weight.requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16):
        linear(x, layer.weight, layer.bias).sum().backward()
    assert x.grad is None
    assert layer.weight.grad is None
    assert layer.bias.grad is not None


def test_without_autocast_products_are_torchs_own() -> None:
    up, down, x = nn.Linear(8, 32), nn.Linear(32, 8), rows_of(5, 8)
    assert torch.equal(linear(x, up.weight, up.bias), up(x))
    assert torch.equal(feed_forward(x, up, down), down(F.gelu(up(x))))


@pytest.mark.parametrize("kept", ["all", "first"])
def test_a_whole_encoder_in_bfloat16_is_near_float32(kept: str) -> None:
    """Its states and gradients, beside float32; what is kept between products is float32."""
    bert = random_bert(BertConfig(100, 32, 2, 4, 64, max_position_embeddings=64), seed=0).eval()
    draw = torch.Generator().manual_seed(1)
    sequences = []
    for length in (3, 7, 7, 12, 30):
        ids = torch.randint(0, 100, (length,), generator=draw).numpy()
        sequences.append(Sequence(ids, ids * 0, kept))  # type: ignore[arg-type]
    tokens = pack(sequences)
    results = {}
    for precision in ("float32", "bfloat16"):
        bert.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            states = bert(tokens)
        assert states.dtype == torch.float32
        (states * torch.linspace(-1, 1, states.numel()).view(states.shape)).sum().backward()
        results[precision] = states.detach(), bert.layers[0].up.weight.grad.clone()  # type: ignore[union-attr, operator]
    for plain, product in zip(results["float32"], results["bfloat16"], strict=True):
        assert not torch.equal(plain, product), "some operands were rounded"
        assert F.cosine_similarity(plain.flatten(), product.flatten(), dim=0) > 0.99


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_listens_to_a_layer_is_called(precision: str) -> None:
    bert = random_bert(BertConfig(100, 32, 1, 4, 64, max_position_embeddings=64), seed=0)
    layer = bert.layers[0]
    heard: list[nn.Module] = []
    parts = [layer.query_key_value, layer.attention_out, layer.up, layer.down]
    for part in parts:
        part.register_forward_hook(lambda module, inputs, output: heard.append(module))  # type: ignore[operator, union-attr]
    ids = torch.arange(7).numpy()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        bert(pack([Sequence(ids, ids * 0)]))
    assert heard == parts
