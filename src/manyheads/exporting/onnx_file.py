"""A model's graph as an ONNX file's content, by torch.onnx."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manyheads.exporting.graph import ModelGraph, PackedGraph, PaddedGraph, cannot_export
from manyheads.inference.onnx_folder import PACKED_INPUTS, PADDED_INPUTS, Layout, numbers_input, output_names
from manyheads.model.multitask import ManyHeads

if TYPE_CHECKING:
    import onnx

OPSET = 20  # the first with GELU
PACKED_TRACED = (*PACKED_INPUTS, "slots", "places")
TRIAL_LENGTHS = (7, 12, 9, 5)  # of the sequences that the graph is traced with: any will do


def to_onnx(model: ManyHeads, layout: Layout, int8_words: bool = False) -> onnx.ModelProto:
    """The whole model as one graph whose numbers of tokens, sequences and examples are open."""
    graph = PackedGraph(model, layout, int8_words) if layout == "packed" else PaddedGraph(model, layout, int8_words)
    inputs, shapes = _trial(graph, layout)
    names = [*(PACKED_TRACED if layout == "packed" else PADDED_INPUTS)]
    outputs: list[str] = []
    for task in graph.tasks:
        names.append(numbers_input(task.name))
        outputs += output_names(task)
    with _quiet():
        try:
            program = torch.onnx.export(
                graph.eval(),
                inputs,
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=names,
                output_names=[*outputs, "embeddings"],
                opset_version=OPSET,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as fault:
            raise cannot_export(f"torch.onnx fails on this model: {str(fault).strip().splitlines()[-1]}") from fault
    assert program is not None
    content = program.model_proto
    del content.graph.value_info[:]  # shapes of the trial, which stop quantisation
    _drop_traces(content)
    if layout == "packed":
        _find_places_inside(content)
    return content


def _drop_traces(content: onnx.ModelProto) -> None:
    """Every node names the source file that it was traced from: paths of this machine, and most of a small graph."""
    for node in content.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for function in content.functions:
        for node in function.node:
            del node.metadata_props[:]
            node.doc_string = ""


def _trial(graph: ModelGraph, layout: Layout) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Inputs to trace with, and which of their sizes are open."""
    lengths = torch.tensor(TRIAL_LENGTHS)
    longest, count = int(lengths.max()), len(lengths)
    sequences, width = torch.export.Dim("sequences"), torch.export.Dim("longest")
    numbers: list[Tensor] = []
    number_shapes: list[dict[int, Any]] = []
    for index, task in enumerate(graph.tasks):
        sides = len(graph.task_heads[index].encoding.frames) * (2 if task.both_orders else 1)
        numbers.append(torch.arange(2 * sides).view(2, sides) % count)
        number_shapes.append({0: torch.export.Dim(f"examples_{index}")})
    real = torch.arange(longest) < lengths[:, None]
    if layout == "padded":
        square = {0: sequences, 1: width}
        ids = torch.ones(count, longest, dtype=torch.int64)
        return (ids, real.long(), torch.zeros_like(ids), numbers), (square, square, square, number_shapes)
    tokens = torch.export.Dim("tokens")
    ids = torch.ones(int(lengths.sum()), dtype=torch.int64)
    starts = lengths.cumsum(0) - lengths
    slots = starts[:, None] + torch.minimum(torch.arange(longest), lengths[:, None] - 1)
    places = torch.nonzero(real.reshape(-1))[:, 0]
    shapes = ({0: tokens}, {0: tokens}, {0: sequences}, {0: sequences, 1: width}, {0: tokens}, number_shapes)
    return (ids, torch.zeros_like(ids), lengths, slots, places, numbers), shapes


def _find_places_inside(content: onnx.ModelProto) -> None:
    """`slots` and `places` follow from `lengths`: the graph works them out, so that nobody has to give them."""
    from onnx import helper, numpy_helper

    graph = content.graph
    for given in [given for given in graph.input if given.name in ("slots", "places")]:
        graph.input.remove(given)
    constants = {"places/zero": 0, "places/one": 1}
    vectors = {"places/axis_0": [0], "places/axis_1": [1], "places/flat": [-1]}
    for name, value in {**constants, **vectors}.items():
        graph.initializer.append(numpy_helper.from_array(np.array(value, dtype=np.int64), name))
    nodes = [
        helper.make_node("ReduceMax", ["lengths"], ["places/longest"], keepdims=0),
        helper.make_node("Range", ["places/zero", "places/longest", "places/one"], ["places/steps"]),
        helper.make_node("Unsqueeze", ["lengths", "places/axis_1"], ["places/column"]),
        helper.make_node("CumSum", ["lengths", "places/zero"], ["places/starts"], exclusive=1),
        helper.make_node("Unsqueeze", ["places/starts", "places/axis_1"], ["places/start_column"]),
        # slots = start + min(step, length − 1)
        helper.make_node("Sub", ["places/column", "places/one"], ["places/last"]),
        helper.make_node("Min", ["places/steps", "places/last"], ["places/within"]),
        helper.make_node("Add", ["places/start_column", "places/within"], ["slots"]),
        # places: where step < length, row by row
        helper.make_node("Less", ["places/steps", "places/column"], ["places/real"]),
        helper.make_node("Reshape", ["places/real", "places/flat"], ["places/flat_real"]),
        helper.make_node("NonZero", ["places/flat_real"], ["places/nonzero"]),
        helper.make_node("Squeeze", ["places/nonzero", "places/axis_0"], ["places"]),
    ]
    for index, node in enumerate(nodes):
        graph.node.insert(index, node)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says to those who work on it."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
