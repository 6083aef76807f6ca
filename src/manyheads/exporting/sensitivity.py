"""Which of the encoder's layers int8 costs most: what moves least when that layer is left in float32."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from manyheads.data.dataset import Dataset
from manyheads.exporting.check import predict, some_rows
from manyheads.exporting.quantise import own_layers, quantise
from manyheads.inference.graph_session import OnnxRuntimeSession
from manyheads.inference.onnx_backend import OnnxBackend
from manyheads.inference.torch_backend import TorchBackend

if TYPE_CHECKING:
    import onnx

EXAMPLES = 100  # of each task


def advise_layers(
    original: TorchBackend,
    exported: OnnxBackend,
    float_graph: onnx.ModelProto,
    channel_maxima: Mapping[str, np.ndarray],
    float_layers: Collection[int],
    examples: Mapping[str, Dataset],
) -> str | None:
    """'--float-layers 2 (predictions then move by 1.2e-02 instead of 3.1e-02)'; None where that helps nothing."""
    few = {name: some_rows(rows, EXAMPLES) for name, rows in examples.items()}
    expected = {name: predict(original, original.tasks[name], rows) for name, rows in few.items()}
    moved: dict[int, float] = {}
    for layer in sorted(own_layers(float_graph) - set(float_layers)):
        graph = copy.deepcopy(float_graph)
        quantise(graph, channel_maxima, (*float_layers, layer))
        other = copy.copy(exported)
        other.session = OnnxRuntimeSession(graph.SerializeToString())
        moved[layer] = _moved(other, expected, few)
    if not moved:
        return None
    best = min(moved, key=lambda layer: moved[layer])
    now = _moved(exported, expected, few)
    if moved[best] >= now:
        return None
    layers = ",".join(map(str, sorted({*float_layers, best})))
    return f"--float-layers {layers} (predictions then move by {moved[best]:.1e} instead of {now:.1e})"


def _moved(exported: OnnxBackend, expected: Mapping[str, np.ndarray], examples: Mapping[str, Dataset]) -> float:
    """Mean |difference| over tasks."""
    differences: list[float] = []
    for name, rows in examples.items():
        task = exported.tasks[name]
        differences.append(float(np.abs(expected[name] - predict(exported, task, rows)).mean()) / task.unit)
    return float(np.mean(differences))
