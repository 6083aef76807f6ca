"""A recipe with nothing left open: checked as a whole, and every task with its defaults filled in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyheads.config.faults import list_faults
from manyheads.config.load import read_recipe
from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.config.task import TaskSettings
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.errors import UserError
from manyheads.tasks.compatibility import (
    INCOMPATIBLE,
    Fault,
    recipe_faults,
    refuse,
    task_faults,
)
from manyheads.tasks.extension import extension_faults
from manyheads.tasks.kind import Kind, LabelDeclaration, Labels, all_kinds, find_kind
from manyheads.tasks.part_compatibility import brought_pooling, ignores_order
from manyheads.tasks.part_defaults import ENCODINGS, HEADS, OUTPUTS, PartDefaults, encoding_case, text_case
from manyheads.tasks.same_rows import with_row_groups
from manyheads.tasks.task import PARTS, Task


def load_recipe(
    source: str | Path | dict[str, Any], overrides: dict[str, Any] | None = None, overrides_from: str = "overrides"
) -> Recipe:
    """A recipe from a YAML file, the name of a shipped recipe, or a dict; `overrides` are {dotted.key: value}.

    `overrides_from` is what messages call them.
    """
    recipe = read_recipe(source, overrides, overrides_from)
    if overrides and isinstance(overrides.get("tasks"), list):
        recipe = with_row_groups(recipe, _all_tasks(source, overrides))
    faults = [*recipe_faults(recipe), *extension_faults(recipe)]
    if faults:
        lines = [f"{recipe.location(*fault.path)}: {fault.reason}" for fault in faults]
        has_own_code = len(faults) == 1 and faults[0].code != INCOMPATIBLE
        raise list_faults(lines, recipe.file, faults[0].code if has_own_code else "bad-recipe")
    return recipe


def _all_tasks(source: str | Path | dict[str, Any], overrides: dict[str, Any]) -> dict[str, TaskSettings]:
    """Also those that `tasks=[…]` leaves out; none where the recipe has faults with them, which are not asked about."""
    others = {key: value for key, value in overrides.items() if key != "tasks"}
    try:
        return read_recipe(source, others).tasks
    except UserError:
        return {}


# --- labels -----------------------------------------------------------------------------------------------------


def infer_reader(labels: Iterable[str], kind_name: str | None, declared: LabelDeclaration) -> LabelReader:
    """What was declared, completed by the labels of train. A ValueError says what to declare instead."""
    kind = _declared_kind(kind_name, declared)
    if kind is not None and not kind.needs_labels:
        return kind.make_reader(set(), declared)
    words = {label for label in labels if label}
    if kind is None:
        kinds = all_kinds()
        sureness = [kind.recognise(words, declared) for kind in kinds]
        kind = kinds[sureness.index(max(sureness))]
    return kind.make_reader(words, declared)


def _declared_kind(kind_name: str | None, declared: LabelDeclaration) -> Kind | None:
    """The kind that a recipe names, or that its range belongs to; None where the labels must tell."""
    if kind_name is not None:
        return find_kind(kind_name)
    if declared.range is not None:
        return next(kind for kind in all_kinds() if kind.has_range)
    return None


READ_FROM_LABELS = ("word_columns", "per_candidate")  # what the labels of such tasks are depends on those in train


def choose_reader(settings: TaskSettings, columns: Columns, labels: Iterable[str]) -> LabelReader:
    """How labels are read: as the recipe says, else as train's labels look. A ValueError says what does not fit."""
    declared = LabelDeclaration(settings.labels, settings.range, settings.separator, settings.scheme)
    feature = _feature_of_columns(settings, columns)
    if feature is not None:
        kind = find_kind(settings.kind) if settings.kind else _kind_with(feature)
        if kind.searches:
            declared = replace(declared, scores=columns.label != columns.text[1])
        read = {label for label in labels if label} if feature in READ_FROM_LABELS else set()
        return kind.make_reader(read, declared)
    for key in ("scheme", "words"):
        if getattr(settings, key) is not None:
            raise ValueError(f"'{key}' is about tags of words, which this task has none of; set `kind: tags`")
    if not isinstance(columns.label, tuple):
        return infer_reader(labels, settings.kind, declared)
    kind = _kind_with("label_columns")
    declared_kind = settings.kind or kind.name
    if settings.labels is not None or declared_kind != kind.name:
        raise ValueError(f"several label columns make a {kind.name} task whose classes are the columns")
    return kind.make_reader(set(labels), replace(declared, labels=list(columns.label)))


def _kind_with(feature: str) -> Kind:
    return next(kind for kind in all_kinds() if getattr(kind, feature))


def _feature_of_columns(settings: TaskSettings, columns: Columns) -> str | None:
    """What the kind of a task has by which its columns are known: nothing, where they are texts and a label."""
    if settings.kind is None:
        is_search = len(columns.text) == 2 and columns.label == columns.text[1]
    else:
        is_search = find_kind(settings.kind).searches
    present = {
        "searches": is_search,
        "word_columns": columns.words is not None,
        "per_candidate": columns.choices is not None,
        "per_token": columns.answers is not None,
    }
    return next((feature for feature, is_present in present.items() if is_present), None)


# --- a task -----------------------------------------------------------------------------------------------------


def resolve_task(
    recipe: Recipe, name: str, columns: Columns, reader: LabelReader, labels: Labels, owner: Task | None
) -> Task:
    """The task with its defaults filled in, from the labels of its labelled train rows. `owner`: whose head it uses."""
    settings = recipe.tasks[name]
    kind = find_kind(reader.kind)
    statistics = kind.statistics(labels, reader, settings.scale)
    bounds, offset, unit = statistics.bounds, statistics.offset, statistics.unit
    parts = default_parts(recipe, name, pair=len(columns.text) == 2, reader=reader)
    if owner is not None:
        refuse(_shared_head_faults(recipe, name, len(columns.text), reader, owner), recipe)
        parts = {part: getattr(owner, part) for part in PARTS}
        bounds, offset, unit = owner.bounds, owner.offset, owner.unit
    task = Task(
        name=name,
        columns=columns,
        labels=reader,
        encoding=parts["encoding"],
        pooling=parts["pooling"],
        head=parts["head"],
        loss=parts["loss"],
        output=parts["output"],
        head_of=settings.head_of,
        symmetric=settings.symmetric and not ignores_order(parts["encoding"]),
        both_orders=settings.both_orders and not ignores_order(parts["encoding"]),
        offset=offset,
        unit=unit,
        bounds=bounds,
        train_examples=len(labels),
        counts=statistics.counts,
        metrics=tuple(settings.metrics or ()),
        predictions=settings.predictions,
    )
    refuse(task_faults(task, recipe), recipe)
    if task.metrics:
        return task
    return replace(task, metrics=PartDefaults(recipe.defaults).metrics(task))


def default_parts(recipe: Recipe, name: str, pair: bool, reader: LabelReader) -> dict[str, PartConfig]:
    """The parts as named, else those of the encoding, the head and the kind."""
    settings, defaults = recipe.tasks[name], PartDefaults(recipe.defaults)
    texts = text_case(pair)
    kind_encoding = find_kind(reader.kind).encoding
    encoding = settings.encoding or defaults.part("encoding", texts, ENCODINGS[texts])
    if settings.encoding is None and kind_encoding is not None:
        encoding = PartConfig(name=kind_encoding)
    gives = encoding_case(encoding)
    head = settings.head or defaults.part("head", gives, HEADS[gives])
    return {
        "encoding": encoding,
        "pooling": settings.pooling or brought_pooling(head) or _kind_pooling(reader) or defaults.pooling(encoding),
        "head": head,
        "output": settings.output or defaults.part("output", gives, OUTPUTS[gives]),
        "loss": settings.loss or defaults.loss(reader),
    }


def _kind_pooling(reader: LabelReader) -> PartConfig | None:
    name = find_kind(reader.kind).pooling
    return None if name is None else PartConfig(name=name)


def _shared_head_faults(recipe: Recipe, name: str, texts: int, reader: LabelReader, owner: Task) -> list[Fault]:
    """A task that uses another's head has its parts, its scale and its classes."""
    settings = recipe.tasks[name]
    owner_settings = recipe.tasks[owner.name]
    uses = f"this task uses the head of '{owner.name}', and with it its"
    for part in PARTS:
        named = getattr(settings, part)
        if named is not None and named != getattr(owner, part):
            return [Fault(("tasks", name, part), f"{uses} {part}; leave it out.")]
    if texts != len(owner.columns.text):
        takes = "two text columns" if owner.pair else "one text column"
        reason = f"the head of '{owner.name}' reads {takes}, this task has {texts}."
        return [Fault(("tasks", name, "head_of"), reason)]
    for key in ("range", "scale"):
        value, owner_value = getattr(settings, key), getattr(owner_settings, key)
        if key in settings.model_fields_set and value is not None and value != owner_value:
            return [Fault(("tasks", name, key), f"{uses} {key} ({owner_value}).")]
    if (reader.kind, reader.names) != (owner.labels.kind, owner.labels.names):
        classes = ", ".join(reader.names) or "numbers"
        owner_classes = ", ".join(owner.labels.names) or "numbers"
        reason = (
            f"tasks that share a head have the same classes in one order; here {classes}, in '{owner.name}' "
            f"{owner_classes}. Name them alike with `labels`."
        )
        return [Fault(("tasks", name, "head_of"), reason)]
    return []


def no_reader(recipe: Recipe, name: str, reason: str) -> UserError:
    """The labels of a task fit no kind."""
    return UserError(f"{recipe.location('tasks', name)}: {reason}.", code="unclear-labels")
