"""The command that serves models over HTTP."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.options import Imports, ModelOption, RuntimeOption, read_runtime


def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="RUN_OR_MODEL...", help="Folders or hub:NAME; or NAME=FOLDER.")
    ],
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; beyond this machine an API key is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", help="API keys, one per line; also MANYHEADS_API_KEYS. SIGHUP reads it again."),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option("--cors", help="An origin whose pages may call; may be repeated.")
    ] = None,
    queue_tokens: Annotated[
        int, typer.Option("--queue-tokens", min=1, help="Tokens that may wait; then 429.")
    ] = 32_768,
    requests: Annotated[int, typer.Option("--requests", min=1, help="Under way at once, at most; then 429.")] = 500,
    body_bytes: Annotated[int, typer.Option("--body-bytes", min=100, help="Of a request, at most.")] = 2_000_000,
    inputs: Annotated[int, typer.Option("--inputs", min=1, help="Of a request, at most.")] = 1_000,
    refuse_long: Annotated[bool, typer.Option("--refuse-long", help="Refuse what is truncated otherwise.")] = False,
    drain_seconds: Annotated[
        float, typer.Option("--drain-seconds", min=0, help="To finish requests at the end.")
    ] = 30.0,
    unready_seconds: Annotated[
        float, typer.Option("--unready-seconds", min=0, help="Be unready so long before closing the port at SIGTERM.")
    ] = 0.0,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write the inputs into the log.")] = False,
    model: ModelOption = None,
    imports: Imports = None,
    runtime: RuntimeOption = None,
) -> None:
    """Serve every head over HTTP, from one encoder pass; for example: manyheads serve runs/demo"""
    from manyheads.runs.served import read_sources
    from manyheads.serving.limits import Limits, ServerSettings
    from manyheads.serving.server import serve as serve_models

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    limits = Limits(
        body_bytes=body_bytes,
        inputs=inputs,
        queue_tokens=queue_tokens,
        requests=requests,
        long_inputs="refuse" if refuse_long else "truncate",
        drain_seconds=drain_seconds,
    )
    settings = ServerSettings(host, port, keys, tuple(cors or ()), log_texts, unready_seconds)
    serve_models(read_sources(models, model, imports or (), read_runtime(runtime)), settings, limits)
