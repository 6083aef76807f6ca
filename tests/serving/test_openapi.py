"""The OpenAPI file says what the server does; a fuzzer that reads it finds no fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from running_server import RunningServer

CHECKS = "status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection"


@pytest.fixture(scope="module")
def server(saved_model: Path) -> Iterator[RunningServer]:
    with RunningServer(saved_model) as running:
        yield running


@pytest.mark.slow
def test_examples_are_of_the_models_own_tasks_and_are_answered(server: RunningServer) -> None:
    document = server.client.get("/openapi.json").json()
    examples = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    assert len(examples) == 2  # texts and pairs
    for example in examples.values():
        answer = server.predict(**example["value"])
        assert list(answer["predictions"][0]["tasks"]) == example["value"]["tasks"]
    choices = document["components"]["schemas"]["PredictRequest"]["properties"]["tasks"]["anyOf"][0]["items"]["enum"]
    assert choices == ["mood", "topics", "length", "same", "near"]


@pytest.mark.slow
def test_a_fuzzer_finds_nothing(server: RunningServer) -> None:
    command = [Path(sys.executable).with_name("schemathesis"), "run", f"{server.url}/openapi.json", "--no-color"]
    options = ["--checks", CHECKS, "--max-examples", "40", "--seed", "1"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout
    for line in server.client.get("/metrics").text.splitlines():
        if line.startswith("manyheads_requests_total"):
            assert 'status="500"' not in line, line
