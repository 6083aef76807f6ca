"""Products in int8, beside the same arithmetic in float64."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from manyheads.exporting.quantise import quantise
from manyheads.inference.graph_session import OnnxRuntimeSession

pytestmark = pytest.mark.numeric
RNG = np.random.default_rng(3)
X = RNG.standard_normal((7, 16)) * np.where(np.arange(16) == 5, 40.0, 1.0)  # a channel larger than the others
W = RNG.standard_normal((16, 12))
V = RNG.standard_normal((16, 4))


def graph(weights: str, before: str, dimensions: int) -> onnx.ModelProto:
    """y = f(x)·W and z = f(x)·V."""
    nodes = [
        helper.make_node(before, ["x"], ["f"], name="f"),
        helper.make_node("MatMul", ["f", f"{weights}.W"], ["y"], name="y"),
        helper.make_node("MatMul", ["f", f"{weights}.V"], ["z"], name="z"),
    ]
    stored = {f"{weights}.W": W, f"{weights}.V": V}
    tensors = [numpy_helper.from_array(values.astype(np.float32), name) for name, values in stored.items()]
    shape = ["batch", "length", 16][-dimensions:]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    content = helper.make_graph(nodes, "products", given, outputs, tensors)
    return helper.make_model(content, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(content: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    return OnnxRuntimeSession(content.SerializeToString()).run(["y", "z"], {"x": x.astype(np.float32)})


def rounded(x: np.ndarray, axis: int) -> np.ndarray:
    """s·round(x / s), s = max|x| / 127 along an axis."""
    scale = np.abs(x).max(axis=axis, keepdims=True) / 127
    values: np.ndarray = scale * np.round(x / scale)
    return values


def test_each_token_and_each_column_has_a_scale() -> None:
    content = graph("encoder.layers.0", "Identity", 2)
    quantise(content, {})
    y, z = run(content, X)
    assert np.allclose(y, rounded(X, 1) @ rounded(W, 0), atol=1e-4)
    assert np.allclose(z, rounded(X, 1) @ rounded(V, 0), atol=1e-4)
    assert sum(node.op_type == "QuantizeLinear" for node in content.graph.node) == 1  # both read the same
    assert {"encoder.layers.0.W", "encoder.layers.0.V"}.isdisjoint(tensor.name for tensor in content.graph.initializer)


def test_large_channels_are_divided_before_rounding() -> None:
    plain, smooth = graph("encoder.layers.0", "Identity", 2), graph("encoder.layers.0", "Identity", 2)
    quantise(plain, {})
    maxima = np.abs(X).max(axis=0)
    quantise(smooth, {"f": maxima})
    c = np.sqrt(maxima / np.abs(np.concatenate([W, V], axis=1)).max(axis=1))
    y, _ = run(smooth, X)
    assert np.allclose(y, rounded(X / c, 1) @ rounded(W * c[:, None], 0), atol=1e-4)
    assert np.abs(y - X @ W).mean() < 0.7 * np.abs(run(plain, X)[0] - X @ W).mean()


def test_after_gelu_no_bit_is_spent_on_the_sign() -> None:
    """f = GELU(x) ≥ −.17: s = max(f + .17) / 255."""
    x = RNG.standard_normal((7, 16)).astype(np.float32)
    content = graph("encoder.layers.0", "Gelu", 2)
    content.graph.output.append(helper.make_tensor_value_info("f", TensorProto.FLOAT, None))
    quantise(content, {})
    y, f = OnnxRuntimeSession(content.SerializeToString()).run(["y", "f"], {"x": x})
    scale = (f + 0.17).max(axis=1, keepdims=True) / 255
    assert np.allclose(y, (scale * np.round((f + 0.17) / scale) - 0.17) @ rounded(W, 0), atol=1e-4)


def test_batches_of_other_encoders_keep_their_shape() -> None:
    rows, batches = graph("encoder.layers.0", "Identity", 2), graph("encoder.model.layer", "Identity", 3)
    quantise(rows, {})
    quantise(batches, {})
    x = RNG.standard_normal((3, 5, 16))
    y, z = run(batches, x)
    assert (y.shape, z.shape) == ((3, 5, 12), (3, 5, 4))
    assert np.array_equal(y.reshape(15, 12), run(rows, x.reshape(15, 16))[0])


def test_layers_may_share_weights() -> None:
    content = graph("encoder.model.layer", "Identity", 3)
    content.graph.node.insert(1, helper.make_node("Neg", ["x"], ["g"], name="g"))
    content.graph.node[3].input[:] = ["g", "encoder.model.layer.W"]
    quantise(content, {"g": np.abs(X).max(axis=0)})
    y, z = run(content, X[None])
    assert np.allclose(y[0], rounded(X, 1) @ rounded(W, 0), atol=1e-4)
    assert (
        np.abs(z[0] + X @ W).mean() < 0.7 * np.abs(y[0] - X @ W).mean()
    )  # smoothed, beside the same weights that are not


@pytest.mark.parametrize("before", ["Identity", "Gelu"])
def test_a_token_of_zeros_stays_finite(before: str) -> None:
    content = graph("encoder.layers.0", before, 2)
    quantise(content, {})
    y, _ = run(content, np.zeros((2, 16)))
    assert np.abs(y).max() < 0.02


def test_layers_stay_in_float_where_asked() -> None:
    content = graph("encoder.layers.0", "Identity", 2)
    quantise(content, {}, float_layers=(1,))
    assert np.allclose(run(content, X)[0], X @ W, atol=1e-4)


@pytest.mark.parametrize("before", ["Identity", "Gelu"])
def test_nothing_is_stored_that_no_node_reads(before: str) -> None:
    """ONNX Runtime warns of each such tensor whenever the model is opened."""
    content = graph("encoder.layers.0", before, 2)
    quantise(content, {})
    read = {name for node in content.graph.node for name in node.input}
    assert {tensor.name for tensor in content.graph.initializer} - read == set()
