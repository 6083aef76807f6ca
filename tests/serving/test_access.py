"""Who may call, and from where."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import check_refused, manyheads
from running_server import RunningServer

pytestmark = pytest.mark.slow

KEY, OTHER_KEY = "k" * 32, "another-key-of-good-length"


def test_with_keys(saved_model: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"# of the team\n{KEY}\n")
    with RunningServer(saved_model, "--keys", keys, "--cors", "https://friend.example") as server:
        body = {"inputs": "a film"}
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {KEY}"}):
            response = server.post("/v1/predict", body, **headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert KEY not in response.text
        assert server.client.get("/metrics").status_code == 401
        assert server.client.get("/v1/models").status_code == 401
        assert server.client.get("/openapi.json").status_code == 401
        assert server.client.get("/v2/health/live").status_code == 200
        assert server.client.get("/").status_code == 200
        authorization = {"authorization": f"Bearer {KEY}"}
        assert server.post("/v1/predict", body, **authorization).status_code == 200
        asked = {"origin": "https://friend.example", "access-control-request-method": "POST"}
        assert server.client.options("/v1/predict", headers=asked).status_code == 204
        from_there = server.post("/v1/predict", body, **authorization, origin="https://friend.example")
        assert from_there.headers["access-control-allow-origin"] == "https://friend.example"
        keys.write_text(OTHER_KEY)
        server.started.kill(signal.SIGHUP)
        until = time.monotonic() + 10
        while server.post("/v1/predict", body, **authorization).status_code == 200:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert server.post("/v1/predict", body, authorization=f"Bearer {OTHER_KEY}").status_code == 200
        keys.write_text("short")
        server.started.kill(signal.SIGHUP)
        time.sleep(0.2)
        assert server.post("/v1/predict", body, authorization=f"Bearer {OTHER_KEY}").status_code == 200
    assert server.ended
    assert KEY not in server.ended.stderr


def test_without_keys_only_this_machines_pages(saved_model: Path) -> None:
    with RunningServer(saved_model, "--cors", "https://friend.example") as server:
        body = {"inputs": "a film"}
        assert server.post("/v1/predict", body, host="evil.example").status_code == 403
        assert server.post("/v1/predict", body, origin="https://evil.example").status_code == 403
        assert server.post("/v1/predict", body, origin="null").status_code == 403
        assert server.post("/v1/predict", body, host=f"localhost:{server.port}").status_code == 200
        assert server.post("/v1/predict", body, origin=server.url).status_code == 200
        allowed = server.post("/v1/predict", body, origin="https://friend.example")
        assert allowed.headers["access-control-allow-origin"] == "https://friend.example"
        assert allowed.headers["access-control-expose-headers"] == "Retry-After, X-Request-Id"
        preflight = server.client.options(
            "/v1/predict", headers={"origin": "https://friend.example", "access-control-request-method": "POST"}
        )
        assert preflight.status_code == 204
        assert "access-control-allow-origin" not in server.post("/v1/predict", body).headers


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--host", "0.0.0.0"], "no-keys"),
        (["--keys", "nowhere"], "no-keys"),
        (["--host", "0.0.0.0", "--keys", "empty"], "no-keys"),
        (["--keys", "short"], "short-key"),
    ],
)
def test_what_a_server_does_not_begin_with(saved_model: Path, tmp_path: Path, words: list[str], code: str) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "short").write_text("abc\n")
    words = [str(tmp_path / word) if word in ("nowhere", "empty", "short") else word for word in words]
    check_refused(manyheads("serve", saved_model, *words), f"[{code}]")


def test_a_port_in_use(saved_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_refused(manyheads("serve", saved_model, "--port", str(port)), "[cannot-listen]")


def test_folders_that_are_no_models(saved_model: Path, tmp_path: Path) -> None:
    check_refused(manyheads("serve", tmp_path / "nowhere"), "[not-a-run]")
    check_refused(manyheads("serve", saved_model, saved_model), "[duplicate-model]")


def test_texts_are_logged_only_where_asked(saved_model: Path) -> None:
    for words, logged in (([], False), (["--log-texts"], True)):
        with RunningServer(saved_model, *words) as server:
            server.predict("a secret sentence")
        assert server.ended
        assert ("a secret sentence" in server.ended.stderr) == logged
        assert "POST /v1/predict 200" in server.ended.stderr


WITHOUT_THE_EXTRA = """
import sys
import manyheads, manyheads.cli

for package in ("starlette", "uvicorn", "httptools", "orjson", "prometheus_client"):
    sys.modules[package] = None  # as if it was not installed
    for call in (lambda: manyheads.create_app("x"), lambda: manyheads.Run.serve(None)):
        try:
            call()
        except manyheads.UserError as fault:
            print(fault.code, fault)
    if package != "prometheus_client":
        del sys.modules[package]
manyheads.cli.main()
"""


def test_without_the_extra_one_message_says_what_to_install() -> None:
    command = [sys.executable, "-c", WITHOUT_THE_EXTRA, "serve", "x"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    expected: list[str] = []
    for package in ("starlette", "uvicorn", "httptools", "orjson", "prometheus_client"):
        message = f"serve: {package} is not installed; pip install 'manyheads[serve]'."
        expected += [f"not-installed {message}"] * 2
    assert ended.stdout.splitlines() == expected
    assert message in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
