"""Long lists leave the event loop free: whoever asks meanwhile is answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from held_encoder import HeldEncoder
from running_server import RunningServer


@pytest.mark.slow
def test_health_answers_while_lists_of_short_texts_are_tokenised(saved_model: Path, tmp_path: Path) -> None:
    """The tokenizer is held: what waits for it in the event loop would keep health waiting too."""
    tokenizer = HeldEncoder(tmp_path, "prepare")
    texts = [f"film {number}" for number in range(1000)]
    with RunningServer(saved_model, before=tokenizer.code) as server, ThreadPoolExecutor(3) as clients:
        tokenizer.hold()
        try:
            lists = [clients.submit(server.predict, texts, tasks=["mood"]) for _ in range(3)]
            tokenizer.wait_until_reached()
            for _ in range(3):
                assert server.client.get("/v2/health/live", timeout=5).status_code == 200
        finally:
            tokenizer.release()
        for answer in lists:
            assert answer.result()["usage"]["inputs"] == 1000
