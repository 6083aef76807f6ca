"""Tasks that read the same rows: they draw them together, and none trains on what another holds out."""

from __future__ import annotations

from pathlib import Path

from manyheads.config.recipe import Recipe
from manyheads.config.task import TRAIN_KEYS, TREE_KEYS, TaskSettings
from manyheads.data.readers import find_file
from manyheads.data.table import text_columns
from manyheads.errors import UserError
from manyheads.tasks.columns import choose_columns


def same_rows(recipe: Recipe) -> dict[str, str]:
    """Tasks that read the same columns of the same train files, by the name of these rows: 'stars+polarity'. A task
    alone where its recipe names its rows.

    Either all of them name dev data or none: else one would train on rows that another holds out.
    """
    if not recipe.data.together:
        return {}
    readers: dict[tuple[str, ...], list[str]] = {}
    for name, settings in recipe.tasks.items():
        text = _text_columns(recipe, settings)
        # of extra rows each task leaves out others
        has_extra = any(source.left_out_splits for source in settings.train)
        if text is not None and not has_extra:
            layouts = [
                {**source.layout, **source.changed((*TREE_KEYS, *TRAIN_KEYS))} for source in settings.sources("train")
            ]
            taught = (settings.unlabelled, settings.without_fold)
            parts = (settings.row_group, settings.id, settings.dev is None, settings.max_train, layouts, taught)
            key = (_train_files(recipe, settings), *map(str, parts), *text)
            readers.setdefault(key, []).append(name)
    row_groups = {}
    for names in readers.values():
        row_group = recipe.tasks[names[0]].row_group
        if row_group is None and len(names) > 1:
            row_group = "+".join(names)
        if row_group is not None:
            row_groups.update(dict.fromkeys(names, row_group))
    return row_groups


def with_row_groups(recipe: Recipe, all_tasks: dict[str, TaskSettings]) -> Recipe:
    """The recipe in which tasks have the splits that they have beside tasks which `tasks=[…]` left out.

    Rows are held out by the name of all tasks that read them: without this a task alone would train on other rows.
    """
    files = {_train_files(recipe, settings) for settings in recipe.tasks.values()}
    readers: dict[str, TaskSettings] = {}
    for name, settings in all_tasks.items():
        if _train_files(recipe, settings) in files:
            readers[name] = settings
    row_groups = same_rows(recipe.model_copy(update={"tasks": readers}))
    tasks: dict[str, TaskSettings] = {}
    for name, settings in recipe.tasks.items():
        row_group = row_groups.get(name)
        if row_group is not None and set(row_group.split("+")) - set(recipe.tasks):
            settings = settings.model_copy(update={"row_group": row_group})
        tasks[name] = settings
    return recipe.model_copy(update={"tasks": tasks})


def _train_files(recipe: Recipe, settings: TaskSettings) -> str:
    """A task's train sources, the same however their paths are written."""
    root = Path(recipe.data.root or ".")
    names = []
    for source in settings.train:
        file = find_file(source, root) if source.file else None
        names.append(str(file.resolve()) if file else source.model_dump_json())
    return " ".join(names)


def _text_columns(recipe: Recipe, settings: TaskSettings) -> tuple[str, ...] | None:
    """The text columns as they will be chosen; None where they cannot be, which is told when the task is read."""
    if settings.text and settings.candidates is None and settings.kind is None:
        return tuple(settings.text)
    try:
        return text_columns(choose_columns(settings, settings.sources("train")[0], Path(recipe.data.root or ".")))
    except UserError:
        return None


def leaks_between(recipe: Recipe, row_groups: dict[str, str]) -> dict[str, str]:
    """Tasks whose train rows another task may hold out as dev, though both read the same file: a sentence each."""
    readers: dict[str, list[str]] = {}
    for name, settings in recipe.tasks.items():
        readers.setdefault(_train_files(recipe, settings), []).append(name)
    leaks = {}
    for names in readers.values():
        for name in names:
            holding_out = []
            for neighbour in names:
                row_group = row_groups.get(neighbour)
                reads_the_same = row_group is not None and row_group == row_groups.get(name)
                if neighbour != name and recipe.tasks[neighbour].dev is None and not reads_the_same:
                    holding_out.append(neighbour)
            if holding_out:
                leaks[name] = (
                    f"{name}: it reads the train file of {', '.join(holding_out)} but not the same rows, so it trains "
                    "on texts that are held out there as dev; name `dev` for all of them or for none"
                )
    return leaks
