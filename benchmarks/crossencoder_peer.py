"""sentence-transformers' CrossEncoder in an environment of its own: a line of JSON [pairs, batch] in, its seconds out.

python crossencoder_peer.py FOLDER BACKEND THREADS
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    folder, backend, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    import torch
    import transformers
    from sentence_transformers import CrossEncoder

    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    options = {"num_labels": 1, "device": "cpu", "backend": backend}
    if backend == "onnx":
        import onnxruntime

        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = threads
        options["model_kwargs"] = {"provider": "CPUExecutionProvider", "session_options": session}
    if backend == "openvino":
        options["model_kwargs"] = {"ov_config": {"INFERENCE_NUM_THREADS": str(threads)}}
    model = CrossEncoder(folder, **options)
    print("ready", flush=True)
    for line in sys.stdin:
        pairs, size = json.loads(line)
        began = time.perf_counter()
        for start in range(0, len(pairs), size):
            model.predict(pairs[start : start + size], show_progress_bar=False)
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
