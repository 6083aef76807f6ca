"""Runs and model folders as a server takes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.errors import UserError
from manyheads.inference.graph_session import Runtime
from manyheads.runs.opening import is_hub_name, is_model_folder, local_folder, open_predictor
from manyheads.serving.access import Access, ApiKeys
from manyheads.serving.app import Service, build_app
from manyheads.serving.limits import Limits
from manyheads.serving.models import Source

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SHOWN_EXAMPLES = 2  # of each task


def create_app(
    *models: str | Path,
    keys_file: Path | None = None,
    host: str = "127.0.0.1",
    cors: Sequence[str] = (),
    limits: Limits | None = None,
) -> ASGIApp:
    """An ASGI application that serves runs or model folders, for an ASGI server of your choice."""
    sources = read_sources([str(model) for model in models])
    return build_app(Service(sources, limits or Limits(), Access(ApiKeys(keys_file), host, cors)))


def read_sources(
    models: Sequence[str], model: str | None = None, imports: Sequence[Path] = (), runtime: Runtime | None = None
) -> list[Source]:
    """'runs/demo', 'runs/demo/best', 'hub:me/demo' or 'name=runs/demo'; a model is called by its run if not named."""
    sources: dict[str, Source] = {}
    for argument in models:
        given_name, equals, path = argument.partition("=")
        source = path if equals else argument
        folder = local_folder(source)
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; name a run or a model folder.", code="not-a-run")
        name = given_name if equals else _default_name(folder, source)
        if name in sources:
            message = f"two models are called '{name}'; name one of them: NAME={folder}."
            raise UserError(f"serve: {message}", code="duplicate-model")
        model_folder = folder if is_model_folder(folder) else folder / (model or "best")
        open_model = partial(open_predictor, folder, model, tuple(imports), runtime)
        sources[name] = Source(name, model_folder, open_model, partial(_demo_examples, folder))
    return list(sources.values())


def _default_name(folder: Path, source: str) -> str:
    if is_hub_name(source):
        return source.partition("@")[0].rpartition("/")[2]
    resolved = folder.resolve()
    if resolved.name.startswith("best") and (resolved.parent / "recipe.yaml").exists():
        return resolved.parent.name
    return resolved.name


def _demo_examples(folder: Path) -> list[dict[str, Any]]:
    """A few dev texts of the demo, to try on the page. Other data is the user's own, and not shown to callers."""
    if is_model_folder(folder):
        return []
    from manyheads.inference.dev_examples import read_dev_examples
    from manyheads.runs.run import Run

    run = Run(folder)
    dev_examples = read_dev_examples(run.folder)
    examples: list[dict[str, Any]] = []
    for name, settings in run.recipe.tasks.items():
        if name in dev_examples and any(split.demo for split in settings.dev or []):
            for texts in dev_examples[name].texts[:SHOWN_EXAMPLES]:
                examples.append({"inputs": texts[0] if len(texts) == 1 else list(texts)})
    return examples
