"""Explanations take room in the queue, and a part in the server's end, until they are given."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from held_encoder import HeldEncoder, wait_for_queued_tokens
from running_server import RunningServer

pytestmark = pytest.mark.slow

TEXT = {"inputs": "a film", "tasks": ["mood"], "explain": True}
TEXT_TOKENS = 4 * (1 + 3)  # a film between [CLS] and [SEP]: a prediction, and an explanation of one task


def test_what_is_to_be_explained_takes_room_in_the_queue(saved_model: Path, tmp_path: Path) -> None:
    encoder = HeldEncoder(tmp_path, "explain")
    limit = str(2 * TEXT_TOKENS)
    with (
        RunningServer(saved_model, "--queue-tokens", limit, before=encoder.code) as server,
        ThreadPoolExecutor(2) as clients,
    ):
        encoder.hold()
        first = clients.submit(server.post, "/v1/predict", TEXT)
        encoder.wait_until_reached()
        wait_for_queued_tokens(server, TEXT_TOKENS)
        second = clients.submit(server.post, "/v1/predict", TEXT)
        wait_for_queued_tokens(server, 2 * TEXT_TOKENS)
        assert server.post("/v1/predict", TEXT).status_code == 429
        encoder.release()
        assert {first.result().status_code, second.result().status_code} == {200}
        assert server.figure("manyheads_queued_tokens") == 0
        assert server.post("/v1/predict", TEXT).status_code == 200


def test_explanations_of_clients_that_left_take_no_room(saved_model: Path, tmp_path: Path) -> None:
    encoder = HeldEncoder(tmp_path, "explain")
    limit = str(2 * TEXT_TOKENS)
    with (
        RunningServer(saved_model, "--queue-tokens", limit, before=encoder.code) as server,
        ThreadPoolExecutor(1) as clients,
    ):
        encoder.hold()
        first = clients.submit(server.post, "/v1/predict", TEXT)
        encoder.wait_until_reached()
        for _ in range(3):  # each is the only one that somebody waits for
            assert server.post("/v1/predict", {**TEXT, "timeout_ms": 50}).status_code == 504
        encoder.release()
        assert first.result().status_code == 200


def test_the_pass_and_the_explanations_are_the_encoders_time(saved_model: Path, tmp_path: Path) -> None:
    """Each is held: what takes so long is not the queue, for there is no other request."""
    encoder, explainer = HeldEncoder(tmp_path), HeldEncoder(tmp_path, "explain")
    with (
        RunningServer(saved_model, before=encoder.code + explainer.code) as server,
        ThreadPoolExecutor(1) as clients,
    ):
        encoder.hold()
        explainer.hold()
        answer = clients.submit(server.predict, ["a film", "no end"], tasks=["mood"], explain=True)
        for held in (encoder, explainer):
            held.wait_until_reached()
            time.sleep(0.5)
            held.release()
        milliseconds = answer.result()["milliseconds"]
    assert milliseconds["encoder"] >= 2 * 500
    assert milliseconds["queue"] < 500


def test_told_to_stop_it_gives_up_explanations_too(saved_model: Path, tmp_path: Path) -> None:
    encoder = HeldEncoder(tmp_path, "explain")
    server = RunningServer(saved_model, "--drain-seconds", "0.2", before=encoder.code)
    server.wait_until_ready()
    with ThreadPoolExecutor(2) as clients:
        encoder.hold()
        first = clients.submit(server.post, "/v1/predict", TEXT)
        encoder.wait_until_reached()
        second = clients.submit(server.post, "/v1/predict", TEXT)
        wait_for_queued_tokens(server, 2 * TEXT_TOKENS)
        server.started.kill(signal.SIGTERM)
        for refused in (second.result(), first.result()):  # what waits at once, what is under way some seconds later
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "stopping"
        encoder.release()
    server.client.close()
    ended = server.started.wait()
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr
