"""What a server answers is what the predictor predicts, whoever else asks at the same time."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads.inference.predictor import Predictor
from running_server import RunningServer

WORDS = [
    "a",
    "good",
    "film",
    "with",
    "warm",
    "words",
    "and",
    "no",
    "end",
    "that",
    "nobody",
    "saw",
    "twice",
    ",",
    "why",
    "?",
]


@pytest.fixture(scope="module")
def server(saved_model: Path) -> Iterator[RunningServer]:
    with RunningServer(saved_model) as running:
        yield running


@pytest.fixture(scope="module")
def predictor(saved_model: Path) -> Predictor:
    return Predictor.open(saved_model)


def random_text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 40)))


def check_equal(answered: dict[str, Any], predicted: dict[str, Any]) -> None:
    """To 1e-5: bits depend on what else is in a batch."""
    assert answered.keys() == predicted.keys()
    for key, value in predicted.items():
        if key == "probabilities":
            assert list(answered[key]) == list(value)
            assert list(answered[key].values()) == pytest.approx(list(value.values()), abs=1e-5)
        elif isinstance(value, float):
            assert answered[key] == pytest.approx(value, abs=1e-5)
        else:
            assert answered[key] == value


@pytest.mark.slow
def test_every_fitting_head_answers(server: RunningServer, predictor: Predictor) -> None:
    text, pair = "a good film", ("a good film", "why ?")
    answer = server.predict([text, list(pair)])
    single, both = answer["predictions"]
    assert list(single["tasks"]) == ["mood", "topics", "length"]
    assert list(both["tasks"]) == ["same", "near"]
    for name, [predicted] in {**predictor.predict_all([text]), **predictor.predict_all([pair])}.items():
        check_equal({**single["tasks"], **both["tasks"]}[name], predicted)
    assert answer["usage"] == {"inputs": 2, "tokens": single["tokens"] + both["tokens"]}
    assert answer["model"] == "best"
    assert server.predict(text)["predictions"] == server.predict([text])["predictions"]


def test_tasks_and_rows_with_the_tasks_own_columns(server: RunningServer, predictor: Predictor) -> None:
    [only] = server.predict(["why ?"], tasks=["length"])["predictions"]
    assert list(only["tasks"]) == ["length"]
    columns = {name: task.columns.text for name, task in predictor.tasks.items()}
    row = dict.fromkeys(columns["same"], "a film") | dict.fromkeys(columns["mood"], "a film")
    [all_tasks] = server.predict([row])["predictions"]
    assert set(all_tasks["tasks"]) == {name for name, needed in columns.items() if set(needed) <= set(row)}
    check_equal(all_tasks["tasks"]["same"], predictor.predict("same", [("a film", "a film")])[0])


@pytest.mark.slow
def test_under_load_answers_are_those_of_the_predictor(server: RunningServer, predictor: Predictor) -> None:
    rng = random.Random(0)
    requests: list[list[Any]] = []
    for _ in range(400):
        inputs: list[Any] = []
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            text = random_text(rng)
            inputs.append([text, random_text(rng)] if rng.random() < 0.4 else text)
        requests.append(inputs)
    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(server.predict, requests))
    texts: list[tuple[str, dict[str, Any]]] = []
    pairs: list[tuple[tuple[str, str], dict[str, Any]]] = []
    for inputs, answer in zip(requests, answers, strict=True):
        for content, described in zip(inputs, answer["predictions"], strict=True):
            if isinstance(content, str):
                texts.append((content, described["tasks"]))
            else:
                pairs.append(((content[0], content[1]), described["tasks"]))
    for answered in (texts, pairs):
        expected = predictor.predict_all([content for content, _ in answered])
        for row, (_, tasks) in enumerate(answered):
            assert set(tasks) == set(expected)
            for name, predictions in expected.items():
                check_equal(tasks[name], predictions[row])
    batches, inputs_encoded = server.figure("manyheads_batch_inputs_count"), server.figure("manyheads_batch_inputs_sum")
    assert inputs_encoded > 1.2 * batches  # requests did share passes


@pytest.mark.slow
def test_a_long_list_is_split_and_may_be_streamed(server: RunningServer, predictor: Predictor) -> None:
    rng = random.Random(1)
    texts = [random_text(rng) for _ in range(500)]
    whole = server.predict(texts, tasks=["mood"])["predictions"]
    expected = predictor.predict("mood", texts)
    for described, predicted in zip(whole, expected, strict=True):
        check_equal(described["tasks"]["mood"], predicted)
    body = {"inputs": texts, "tasks": ["mood"]}
    with server.client.stream("POST", "/v1/predict", json=body, headers={"accept": "application/x-ndjson"}) as stream:
        assert stream.headers["content-type"].startswith("application/x-ndjson")
        lines = [json.loads(line) for line in stream.iter_lines()]
    assert [line["index"] for line in lines] == list(range(500))
    for line, predicted in zip(lines, expected, strict=True):
        check_equal(line["tasks"]["mood"], predicted)


def test_embeddings_in_openais_form(server: RunningServer, predictor: Predictor) -> None:
    texts = ["a good film", "why ?", "a"]
    expected = predictor.embed(texts)
    answer = server.post("/v1/embeddings", {"input": texts, "model": "best"}).json()
    assert answer["object"] == "list"
    assert [entry["index"] for entry in answer["data"]] == [0, 1, 2]
    np.testing.assert_allclose([entry["embedding"] for entry in answer["data"]], expected, atol=1e-5)
    coded = server.post("/v1/embeddings", {"input": texts[0], "encoding_format": "base64"}).json()
    vector = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), dtype="<f4")
    np.testing.assert_allclose(vector, expected[0], atol=1e-5)
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0


def test_truncation_is_said(server: RunningServer) -> None:
    short, long = server.predict(["a", "a good film " * 600])["predictions"]
    assert not short["truncated"]
    assert long["truncated"]


def test_a_text_that_is_not_looked_at_to_its_end_is_truncated(server: RunningServer) -> None:
    """One word of 200,000 letters is one unknown token: what was left out cannot be seen in the tokens."""
    [described] = server.predict(["x" * 200_000])["predictions"]
    assert described["truncated"]
    [pair] = server.predict([["a", "x" * 200_000]])["predictions"]
    assert pair["truncated"]
    embedded = server.post("/v1/embeddings", {"input": "x" * 200_000}).json()
    assert embedded["data"][0]["truncated"]


def test_models_and_what_their_tasks_take(server: RunningServer) -> None:
    answer = server.client.get("/v1/models").json()
    assert answer["limits"] == {"inputs": 1000, "body_bytes": 2_000_000}
    [model] = answer["data"]
    assert model["id"] == "best"
    assert model["ready"]
    tasks = {task["name"]: task for task in model["tasks"]}
    assert tasks["mood"]["kind"] == "ordinal"
    assert tasks["near"]["texts"] == 2
    assert tasks["topics"]["labels"]


def test_words_that_mattered_are_named_by_their_place(server: RunningServer) -> None:
    text = "  a good film , why ?"
    [described] = server.predict([text], explain=True)["predictions"]
    for task in described["tasks"].values():
        words = [text[word["start"] : word["end"]] for word in task["words"]]
        assert words == ["a", "good", "film", ",", "why", "?"]
        assert any(word["weight"] for word in task["words"])
    [pair] = server.predict([["a film", "no end"]], tasks=["near"], explain=True)["predictions"]
    assert [word["side"] for word in pair["tasks"]["near"]["words"]] == [0, 0, 1, 1]


def test_metrics_count_what_was_asked(server: RunningServer) -> None:
    before = server.figure("manyheads_inputs_total")
    server.predict(["a", "b", "c"])
    assert server.figure("manyheads_inputs_total") == before + 3
    assert server.figure("manyheads_queued_tokens") == 0
    text = server.client.get("/metrics").text
    assert 'manyheads_requests_total{endpoint="/v1/predict",model="best",status="200"}' in text
    for stage in ("tokenise", "queue", "encode"):
        assert f'stage="{stage}"' in text
    [queue_help] = [line for line in text.splitlines() if line.startswith("# HELP manyheads_queued_tokens ")]
    assert "not those of the pass being computed" in queue_help


def test_the_page_and_its_files_are_there(server: RunningServer) -> None:
    for path, kind in {"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css"}.items():
        response = server.client.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith(kind)
        assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.slow
def test_several_models_by_name(saved_model: Path) -> None:
    with RunningServer(f"first={saved_model}", f"second={saved_model}") as server:
        assert [model["id"] for model in server.client.get("/v1/models").json()["data"]] == ["first", "second"]
        assert server.predict("a film")["model"] == "first"
        assert server.predict("a film", model="second")["model"] == "second"
        response = server.post("/v1/predict", {"inputs": "a", "model": "third"})
        assert response.status_code == 404
        with ThreadPoolExecutor(8) as clients:
            names = ["first", "second"] * 40
            answers = list(clients.map(lambda name: server.predict("a good film", model=name), names))
        assert [answer["model"] for answer in answers] == names


def test_a_request_id_of_the_clients_own_is_kept(server: RunningServer) -> None:
    response = server.post("/v1/predict", {"inputs": "a"}, **{"x-request-id": "mine-1"})
    assert response.headers["x-request-id"] == response.json()["id"] == "mine-1"
    strange = server.post("/v1/predict", {"inputs": "a"}, **{"x-request-id": "<script>"})
    assert strange.headers["x-request-id"] != "<script>"
