"""Read a study's file, with every fault named by file and line."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from manyheads.config.faults import explain_faults
from manyheads.config.load import STUDIES
from manyheads.config.yaml_file import parse_file
from manyheads.errors import UserError, nearest
from manyheads.studies.config import (
    BY_TASK,
    SEED_IS_SET,
    Overrides,
    RankedLayers,
    Study,
    names_ranked_layers,
    names_value_by_task,
)

SECTIONS = ("data", "tasks", "training", "evaluate", "checkpoint")  # of a recipe


def shipped_studies() -> dict[str, Path]:
    """The studies that come with the package, the papers' and our own: 'papers/NAME' → file."""
    folder = Path(str(resources.files("manyheads"))) / "recipes"
    studies: dict[str, Path] = {}
    for subfolder in STUDIES:
        for file in sorted((folder / subfolder).glob("*.yaml")):
            studies[str(file.relative_to(folder).with_suffix(""))] = file
    return studies


def load_study(source: str | Path) -> Study:
    """A study from a YAML file, or the name of a shipped one."""
    path, shipped = Path(source), shipped_studies()
    if not path.is_file():
        if str(source) not in shipped:
            raise UserError(
                f"No study '{source}': there is no such file, and no shipped study has that name."
                f"{nearest(str(source), shipped)}",
                code="unknown-study",
            )
        path = shipped[str(source)]
    origin, content = parse_file(path.resolve(), "base: recipe.yaml\n  variants:\n    plain: {}")
    content.setdefault("name", path.stem)
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        raise explain_faults(error, origin, Study) from None
    study._origin = origin
    if path not in shipped.values():
        study._folder = path.resolve().parent
    _check_scales(study)
    _check_settings(study)
    return study


def _check_scales(study: Study) -> None:
    """A scale changes and leaves out variants by name, and leaves out not all of them."""
    for name, scale in study.scales.items():
        for key, variants in {"leave_out": scale.leave_out, "variants": list(scale.variants)}.items():
            for variant in variants:
                if variant not in study.variants:
                    location = study.location("scales", name, key)
                    raise UserError(
                        f"{location}: no variant '{variant}'.{nearest(variant, study.variants)}", code="unknown-variant"
                    )
        if set(scale.leave_out) == set(study.variants):
            location = study.location("scales", name, "leave_out")
            raise UserError(f"{location}: nothing is left to compare.", code="nothing-to-compare")


def _check_settings(study: Study) -> None:
    """No setting is the seed, and none is a section as a whole."""
    settings: dict[tuple[str, ...], Overrides] = {("set",): study.set}
    for name, variant in study.variants.items():
        settings["variants", name] = {**dict.fromkeys(variant.keys), **variant.set}
    for name, scale in study.scales.items():
        settings["scales", name, "set"] = scale.set
        for variant_name, variant_settings in scale.variants.items():
            settings["scales", name, "variants", variant_name] = variant_settings
    for path, overrides in settings.items():
        if "seed" in overrides:
            raise UserError(f"{study.location(*path)}: {SEED_IS_SET}", code="seed-is-set")
        for key, value in overrides.items():
            is_task = key.startswith("tasks.") and key.count(".") == 1
            if isinstance(value, dict) and (key in SECTIONS or is_task):
                raise UserError(
                    f"{study.location(*path, key)}: would replace all of the base's {key}; set its keys one "
                    f"by one, such as {key}.{next(iter(value), 'KEY')}.",
                    code="section-replaced",
                )
            if names_ranked_layers(value):
                _check_ranked_layers(study, (*path, key), value)
            _check_value_by_task(study, (*path, key), value)


def _check_value_by_task(study: Study, path: tuple[str, ...], value: Any) -> None:
    """A value for each task stands in a row with a run for every task."""
    if not names_value_by_task(value):
        return
    row = path[path.index("variants") + 1] if "variants" in path else None
    if row is None or "task" not in study.variants[row].each:
        raise UserError(
            f"{study.location(*path)}: {BY_TASK} stands in a row with a run for every task (`each: task`).",
            code="no-run-per-task",
        )


def _check_ranked_layers(study: Study, path: tuple[str, ...], value: dict[str, Any]) -> None:
    location = study.location(*path)
    if "variants" in path:
        raise UserError(f"{location}: layers_from stands in `set`, for all variants.", code="ranked-layers")
    try:
        RankedLayers.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(step) for step in fault["loc"])
        raise UserError(
            f"{location}: {key}: {fault['msg']}; expected "
            "{layers_from: STUDY, task: TASK, top: N, otherwise: [LAYERS]}.",
            code="ranked-layers",
        ) from None
