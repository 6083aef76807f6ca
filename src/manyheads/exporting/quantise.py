"""Linear layers and word embeddings in int8. Heads, norms, softmax and attention's own products stay in float32.

    x·W ≈ s ⊗ s_W · (x_q − 128)·W_q        x_q = round(x / s) + 128,  W_q = round(W / s_W)

s [tokens] = max|x| / 127 over a token's numbers, s_W [out] = max|W| / 127 over a column's. A token is rounded on its
own, so what else is in a pass does not change a prediction. (The usual tools take one s for all tokens of a pass.)

**After GELU** numbers are ≥ −.17: x + .17 needs no sign, and has a bit more: s = max(x + .17) / 255.

**After a norm** a few channels are many times as large as the others, and s is theirs. Such x are divided by c, and the
rows of W multiplied by it (SmoothQuant, 2023): c_j = √(max|x_j| / max|W_j|), see `channels.py`.

Unsigned times signed is what CPUs multiply fast: with a signed x_q, ONNX Runtime takes 20 to 30 times as long. CPUs
without VNNI add up two such products in 16 bits, which can be too little: it then needs `EXACT_INT8`. All operators are
plain ONNX, but OpenVINO 2026.4 misreads a scale that the graph works out for each row.

**Word embeddings** have a byte per number and a scale per word (`Int8Table`): they are half of a small encoder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.errors import UserError

if TYPE_CHECKING:
    import onnx

LARGEST = 127  # of W_q, and of x_q − 128
GELU_OFFSET = 0.17  # GELU's least value is −.16997
SMALLEST = 1e-12  # scales of columns of zeros
OWN_LAYERS = ("encoder", "layers")  # how the names of our own encoders' weights begin


def products_of(content: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The products with weights: their second factor is a stored matrix."""
    matrices = {tensor.name for tensor in content.graph.initializer if len(tensor.dims) == 2}
    return [node for node in content.graph.node if node.op_type == "MatMul" and node.input[1] in matrices]


def quantise(
    content: onnx.ModelProto, channel_maxima: Mapping[str, np.ndarray], float_layers: Collection[int] = ()
) -> None:
    """Put the products with weights in int8, but for those of `float_layers`, counted from 1.

    `channel_maxima`: max|x| of each channel of inputs that are to be smoothed.
    """
    kept = _products_of_layers(content, float_layers)
    products = [node for node in products_of(content) if node.name not in kept]
    rewriting = _Rewriting(content, products)
    names = {node.name for node in products}
    nodes: list[onnx.NodeProto] = []
    for node in content.graph.node:
        nodes += rewriting.rewrite(node, channel_maxima) if node.name in names else [node]
    quantised = {node.input[1] for node in products}
    tensors = [tensor for tensor in content.graph.initializer if tensor.name not in quantised]
    read = {name for node in nodes for name in node.input}  # ONNX Runtime warns of tensors that are not
    stored = [tensor for tensor in rewriting.tensors if tensor.name in read]
    del content.graph.node[:], content.graph.initializer[:]
    content.graph.node.extend(nodes)
    content.graph.initializer.extend([*tensors, *stored])


class _Rewriting:
    """The nodes and tensors that take the place of products. Products that read the same x share its x_q."""

    def __init__(self, content: onnx.ModelProto, products: list[onnx.NodeProto]) -> None:
        from onnx import numpy_helper

        self.tensors: list[onnx.TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.operators = {output: node.op_type for node in content.graph.node for output in node.output}
        read = {node.input[1] for node in products}
        self.weights: dict[str, np.ndarray] = {}  # [in, out]
        for tensor in content.graph.initializer:
            if tensor.name in read:
                self.weights[tensor.name] = numpy_helper.to_array(tensor)
        self.readers: dict[str, list[onnx.NodeProto]] = {}  # of each input
        for node in products:
            self.readers.setdefault(node.input[0], []).append(node)
        self.smoothing: dict[str, np.ndarray] = {}  # of each input c [in]
        self.made: set[str] = set()  # outputs of nodes so far
        self._store("int8/last", np.array([-1]))
        self._store("int8/zero", np.array(128, dtype=np.uint8))
        self._store("int8/signed", np.array(1 / 127, dtype=np.float32))
        self._store("int8/unsigned", np.array(1 / 255, dtype=np.float32))
        self._store("int8/gelu", np.array(GELU_OFFSET, dtype=np.float32))

    def rewrite(self, product: onnx.NodeProto, channel_maxima: Mapping[str, np.ndarray]) -> list[onnx.NodeProto]:
        """Nodes in an order in which they can run."""
        self.nodes = []
        x, name = product.input[0], product.name  # not the weights' name: layers may share them
        after_gelu = self.operators.get(x) == "Gelu"
        if f"{x}/int8" not in self.made:
            self._quantise_input(x, channel_maxima.get(x), after_gelu)
        weights = self.weights[product.input[1]]
        if x in self.smoothing:
            weights = weights * self.smoothing[x][:, None]
        scale = np.maximum(np.abs(weights).max(axis=0), SMALLEST) / LARGEST
        rounded = np.round(weights / scale).astype(np.int8)
        self._store(f"{name}/int8", rounded)
        self._store(f"{name}/scale", scale.astype(np.float32))
        zero = [] if after_gelu else ["int8/zero"]
        y = self._add("MatMulInteger", [f"{x}/int8", f"{name}/int8", *zero], f"{name}/sums")
        y = self._add("DequantizeLinear", [y, f"{x}/scale"], f"{name}/rows", axis=0)
        y = self._add("Mul", [y, f"{name}/scale"], f"{name}/product")
        if after_gelu:
            self._store(f"{name}/offset", (-GELU_OFFSET * (rounded * scale).sum(axis=0)).astype(np.float32))
            y = self._add("Add", [y, f"{name}/offset"], f"{name}/without_offset")
        if _layer_of(product) is not None:
            self._add("Identity", [y], product.output[0])
        else:
            self._store(f"{name}/width", np.array([weights.shape[1]]))
            shape = self._add("Concat", [f"{x}/outer", f"{name}/width"], f"{name}/shape", axis=0)
            self._add("Reshape", [y, shape], product.output[0])
        return self.nodes

    def _quantise_input(self, x: str, maxima: np.ndarray | None, after_gelu: bool) -> None:
        """x_q and s, as X/int8 and X/scale."""
        rows = x
        readers = [self.weights[product.input[1]] for product in self.readers[x]]
        zeros = "int8/zeros"
        if _layer_of(self.readers[x][0]) is None:  # not our own encoder: [batch, length, width], or what it likes
            zeros = f"{x}/zeros"
            self._store(f"{x}/rows_shape", np.array([-1, len(readers[0])]))
            self._add("Shape", [x], f"{x}/outer", end=-1)
            rows = self._add("Reshape", [x, f"{x}/rows_shape"], f"{x}/rows")
        if after_gelu:
            rows = self._add("Add", [rows, "int8/gelu"], f"{x}/unsigned")
            largest = self._add("ReduceMax", [rows, "int8/last"], f"{x}/largest", keepdims=0)
            self._add("Mul", [largest, "int8/unsigned"], f"{x}/scale")
            self._add("QuantizeLinear", [rows, f"{x}/scale"], f"{x}/int8", axis=0)
            return
        if maxima is not None:
            weights = np.max([np.abs(matrix).max(axis=1) for matrix in readers], axis=0)
            self.smoothing[x] = np.sqrt(np.maximum(maxima, SMALLEST) / np.maximum(weights, SMALLEST))
            self._store(f"{x}/smoothing", (1 / self.smoothing[x]).astype(np.float32))
            rows = self._add("Mul", [rows, f"{x}/smoothing"], f"{x}/smooth")
        size = self._add("Abs", [rows], f"{x}/size")
        largest = self._add("ReduceMax", [size, "int8/last"], f"{x}/largest", keepdims=0)
        self._add("Mul", [largest, "int8/signed"], f"{x}/scale")
        if zeros not in self.made:  # a zero point for each token, the same for all
            self._add("Shape", [f"{x}/scale"], f"{zeros}/shape")
            self._add("Expand", ["int8/zero", f"{zeros}/shape"], zeros)
        self._add("QuantizeLinear", [rows, f"{x}/scale", zeros], f"{x}/int8", axis=0)

    def _store(self, name: str, values: np.ndarray) -> None:
        from onnx import numpy_helper

        self.tensors.append(numpy_helper.from_array(values, name))

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        self.made.add(output)
        return output


def own_layers(content: onnx.ModelProto) -> set[int]:
    """The numbers of our own encoders' layers, from 1; others' layers have names of their own."""
    return {layer for node in products_of(content) if (layer := _layer_of(node)) is not None}


def _layer_of(product: onnx.NodeProto) -> int | None:
    """Weights are called 'encoder.layers.NUMBER.…'."""
    parts = product.input[1].split(".")
    return int(parts[2]) + 1 if tuple(parts[:2]) == OWN_LAYERS else None


def _products_of_layers(content: onnx.ModelProto, layers: Collection[int]) -> set[str]:
    missing = sorted(set(layers) - own_layers(content))
    if missing:
        raise UserError(f"export: --float-layers: the encoder has no layer {missing[0]}.", code="no-such-layer")
    return {node.name for node in products_of(content) if _layer_of(node) in layers}
