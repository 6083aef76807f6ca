"""Runtimes that run an exported graph, behind one face: feeds by name in, outputs out. Threads share a session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from manyheads.errors import UserError
from manyheads.model.folder_checks import guarded

Runtime = Literal["onnxruntime", "openvino", "openvino-bf16"]
RUNTIMES: tuple[Runtime, ...] = ("onnxruntime", "openvino", "openvino-bf16")
Feeds = dict[str, np.ndarray]
EXACT_INT8 = "session.x64quantprecision"  # CPUs without VNNI round sums of int8 products off otherwise


class GraphSession(Protocol):
    inputs: tuple[str, ...]

    def run(self, names: list[str], feeds: Feeds) -> list[np.ndarray]: ...


class OnnxRuntimeSession:
    """ONNX Runtime: float32 and int8."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = _threads()
        options.add_session_config_entry(EXACT_INT8, "1")
        self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.inputs = tuple(given.name for given in self.session.get_inputs())

    def run(self, names: list[str], feeds: Feeds) -> list[np.ndarray]:
        outputs: list[np.ndarray] = self.session.run(names, feeds)
        return outputs


class OpenVinoSession:
    """OpenVINO. In bfloat16 it is the fastest where the CPU multiplies that (AVX512-BF16, AMX), at a loss of digits."""

    def __init__(self, content: bytes, precision: Literal["f32", "bf16"]) -> None:
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": _threads()}
        self.compiled = core.compile_model(core.read_model(content, b""), "CPU", settings)
        self.inputs = tuple(given.any_name for given in self.compiled.inputs)

    def run(self, names: list[str], feeds: Feeds) -> list[np.ndarray]:
        request = self.compiled.create_infer_request()  # one per call: a request serves one thread
        request.infer(feeds)
        return [np.array(request.get_tensor(name).data) for name in names]


def open_session(graph_file: Path, runtime: Runtime) -> GraphSession:
    package = "onnxruntime" if runtime == "onnxruntime" else "openvino"
    content = graph_file.read_bytes()  # not by its path: then a graph cannot name other files
    try:
        with guarded(graph_file, "damaged-model"):
            if runtime == "onnxruntime":
                return OnnxRuntimeSession(content)
            return OpenVinoSession(content, "bf16" if runtime == "openvino-bf16" else "f32")
    except UserError as fault:
        if isinstance(fault.__cause__, ImportError):
            extra = "onnx" if runtime == "onnxruntime" else "openvino"
            reason = f"this needs {package}: pip install 'manyheads[{extra}]'."
            raise UserError(f"{graph_file.parent}: {reason}", code="missing-extra") from None
        raise


def _threads() -> int:
    """As OMP_NUM_THREADS says, like PyTorch; else as many as there are cores (0)."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return int(threads) if threads.isdigit() else 0
