"""/openapi.json: the endpoints, with examples from the models' own tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from manyheads.serving.models import ServedModel
from manyheads.serving.requests import (
    EmbeddingRequest,
    EmbeddingResponse,
    ErrorResponse,
    PredictRequest,
    PredictResponse,
)

SCHEMAS: tuple[type[BaseModel], ...] = (
    PredictRequest, PredictResponse, EmbeddingRequest, EmbeddingResponse, ErrorResponse,
)  # fmt: skip
REFERENCE = "#/components/schemas/{model}"
FAULTS = {
    400: "The body is not valid JSON.",
    401: "An API key is needed.",
    403: "The request comes from elsewhere.",
    404: "No such model.",
    405: "This address takes another method.",
    408: "The body took too long to arrive.",
    413: "The body, the list of inputs or an input is too large.",
    415: "The body is compressed or not JSON.",
    422: "The body is valid JSON and not what is expected.",
    429: "There is too much to do; Retry-After says when to try again.",
    500: "The model failed on the input.",
    503: "The model is not loaded yet.",
    504: "The deadline of timeout_ms passed.",
}
MODELS = "The models and their tasks; 'limits': how many 'inputs', and 'body_bytes', a request may have."
READ_FAULTS = (401, 403, 405, 429)


def describe_api(models: Sequence[ServedModel], with_keys: bool) -> dict[str, Any]:
    references, definitions = models_json_schema([(schema, "validation") for schema in SCHEMAS], ref_template=REFERENCE)
    del references
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "manyheads", "version": "1", "description": "Every head of a model from one encoder pass."},
        "paths": {
            "/v1/predict": {"post": _predict(models)},
            "/v1/embeddings": {"post": _embed()},
            "/v1/models": {"get": _read(MODELS, "application/json")},
            "/v2/health/live": {"get": _read("The process answers.", "application/json", (403, 405))},
            "/v2/health/ready": {"get": _read("All models are loaded.", "application/json", (403, 405, 503))},
            "/metrics": {"get": _read("Figures for Prometheus.", "text/plain")},
        },
        "components": {"schemas": definitions["$defs"]},
    }
    _name_choices(document["components"]["schemas"], models)
    if with_keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
        for path in ("/v2/health/live", "/v2/health/ready"):
            document["paths"][path]["get"]["security"] = []
    return document


def _name_choices(schemas: dict[str, Any], models: Sequence[ServedModel]) -> None:
    """Which tasks and models there are, as soon as they are loaded."""
    tasks: dict[str, None] = {}
    for model in models:
        tasks |= dict.fromkeys(model.backend.tasks)
    if models:
        names = [model.name for model in models]
        items = {"type": "array", "items": {"enum": list(tasks)}, "minItems": 1}
        schemas["PredictRequest"]["properties"]["tasks"]["anyOf"] = [items, {"type": "null"}]
        for request in ("PredictRequest", "EmbeddingRequest"):
            schemas[request]["properties"]["model"]["anyOf"] = [{"enum": names}, {"type": "null"}]


def _predict(models: Sequence[ServedModel]) -> dict[str, Any]:
    ndjson = {"schema": {"type": "string", "description": "A JSON object per line and input."}}
    operation = _write("All fitting heads' predictions.", "PredictRequest", "PredictResponse")
    operation["responses"]["200"]["content"]["application/x-ndjson"] = ndjson
    examples = _examples(models)
    if examples:
        operation["requestBody"]["content"]["application/json"]["examples"] = examples
    return operation


def _embed() -> dict[str, Any]:
    return _write("Sentence vectors, in OpenAI's form.", "EmbeddingRequest", "EmbeddingResponse")


def _write(summary: str, request: str, response: str) -> dict[str, Any]:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": _schema(request)}}},
        "responses": {
            "200": {"description": summary, "content": {"application/json": {"schema": _schema(response)}}},
            **_faults(FAULTS),
        },
    }


def _read(summary: str, media_type: str, faults: Sequence[int] = READ_FAULTS) -> dict[str, Any]:
    return {
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {media_type: {}}}, **_faults(faults)},
    }


def _faults(statuses: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": _schema("ErrorResponse")}}
    return {str(status): {"description": FAULTS[status], "content": content} for status in statuses}


def _schema(name: str) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=name)}


def _examples(models: Sequence[ServedModel]) -> dict[str, Any]:
    """A request for each way in which the tasks of a model read texts."""
    examples: dict[str, Any] = {}
    for model in models:
        for text_count, inputs in ((1, ["A text."]), (2, [["A text.", "Another text."]])):
            tasks = [task.name for task in model.tasks_for(text_count)]
            if tasks:
                value = {"inputs": inputs, "tasks": tasks, "model": model.name}
                examples[f"{model.name}, {'pairs' if text_count == 2 else 'texts'}"] = {"value": value}
    return examples
