"""Embeddings by LitServe, as its documentation would have it: padded batches, mean token states. For its own Python.

.venv-litserve/bin/python benchmarks/serve_litserve.py ENCODER_FOLDER PORT
"""

from __future__ import annotations

import sys
from typing import Any

import litserve
import torch
from transformers import AutoModel, AutoTokenizer


class Embeddings(litserve.LitAPI):
    def __init__(self, folder: str) -> None:
        super().__init__(max_batch_size=32, batch_timeout=0.01, api_path="/v1/embeddings")
        self.folder = folder

    def setup(self, device: str) -> None:
        torch.set_num_threads(1)
        self.tokenizer = AutoTokenizer.from_pretrained(self.folder)
        self.model = AutoModel.from_pretrained(self.folder, dtype=torch.float32).to(device).eval()

    def decode_request(self, request) -> str:  # type: ignore[no-untyped-def]  # LitServe makes use of a type here
        (text,) = request["input"]
        return text

    def batch(self, inputs: list[str]) -> list[str]:
        return inputs

    @torch.inference_mode()
    def predict(self, texts: list[str]) -> list[list[float]]:
        tokens = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        states = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).float()
        means = (states * mask).sum(dim=1) / mask.sum(dim=1)
        return torch.nn.functional.normalize(means).tolist()

    def unbatch(self, output: list[list[float]]) -> list[list[float]]:
        return output

    def encode_response(self, output: list[float]) -> dict[str, Any]:
        return {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": output}]}


if __name__ == "__main__":
    folder, port = sys.argv[1:]
    server = litserve.LitServer(Embeddings(folder), accelerator="cpu", devices=1, workers_per_device=1)
    server.run(host="127.0.0.1", port=int(port), num_api_servers=1, generate_client_file=False, log_level="warning")
