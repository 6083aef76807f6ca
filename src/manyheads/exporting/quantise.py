"""Linear layers and word embeddings in int8. Heads, norms, softmax and attention's own products stay in float32.

**int8** (dynamic): x·W ≈ s_x·(x_q − z)·s_w·W_q. W has a scale per column, known beforehand; s_x and z are those of all
tokens of a pass, so what else is in a pass changes a prediction. W has 7 bits: CPUs without VNNI add up two products of
8 bits in 16, which is too little for more.

**int8-steady**: W in blocks of 8 bits, each with a scale, and a scale for each token's share of a block: a token is
multiplied on its own, whatever stands beside it. Static scales, the other steady way, lose too much of this encoder
(mean cosine .92 to float32 over 32 SST sentences, scales from 256; blocks .9995, dynamic .990).

**Word embeddings** have a byte per number and a scale per word (`Int8Table`): they are half of a small encoder.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.errors import UserError
from manyheads.inference.onnx_folder import Precision

if TYPE_CHECKING:
    import onnx

BLOCK = 32  # weights that share a scale in int8-steady


def quantise(content: onnx.ModelProto, precision: Precision, float_layers: Collection[int] = ()) -> onnx.ModelProto:
    """The same graph with the encoder's products in int8, but those of `float_layers`, counted from 1."""
    if precision == "fp32":
        return content
    kept = _products_of(content, float_layers)
    logging.getLogger().setLevel(max(logging.getLogger().level, logging.WARNING))  # the tools talk
    return _in_blocks(content, kept) if precision == "int8-steady" else _dynamic(content, kept)


def _dynamic(content: onnx.ModelProto, kept: list[str]) -> onnx.ModelProto:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(content, source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul"],  # heads are Gemm, and stay as they are
            nodes_to_exclude=kept,
            per_channel=True,  # a scale for all of W falls to a cosine of .86
            reduce_range=True,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},
        )
        return onnx.load(target)


def _in_blocks(content: onnx.ModelProto, kept: list[str]) -> onnx.ModelProto:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantiser = MatMulNBitsQuantizer(
        content, bits=8, block_size=BLOCK, is_symmetric=True, accuracy_level=4, nodes_to_exclude=kept
    )
    quantiser.process()
    return quantiser.model.model


def _products_of(content: onnx.ModelProto, layers: Collection[int]) -> list[str]:
    """The names of the product nodes of some layers: their weights are called 'encoder.layers.NUMBER.…'."""
    names: list[str] = []
    found: set[int] = set()
    for node in content.graph.node:
        if node.op_type != "MatMul":
            continue
        for given in node.input:
            parts = given.split(".")
            if parts[:2] == ["encoder", "layers"] and int(parts[2]) + 1 in layers:
                names.append(node.name)
                found.add(int(parts[2]) + 1)
    missing = sorted(set(layers) - found)
    if missing:
        raise UserError(f"export: --float-layers: the encoder has no layer {missing[0]}.", code="no-such-layer")
    return names
