"""Tasks that read the same rows: they draw them together, and none trains on what another holds out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from manyheads.config.recipe import Recipe
from manyheads.config.task import TRAIN_KEYS, TREE_KEYS, Source, TaskSettings
from manyheads.data.advice import shown_names
from manyheads.data.readers import find_file, name_lines, read_chunks, source_name
from manyheads.data.recognise import (
    label_look,
    recognise_answers,
    recognise_choices,
    recognise_columns,
    recognise_query,
    recognise_search,
)
from manyheads.data.table import Columns, text_columns
from manyheads.data.words import WordRule
from manyheads.errors import UserError
from manyheads.tasks.kind import find_kind


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


def choose_columns(settings: TaskSettings, source: Source, root: Path) -> Columns:
    """The columns that the recipe names, completed by those that are recognised in the file."""
    for columns_of_kind in (_choice_columns, _answer_columns, _search_columns):
        columns = columns_of_kind(settings, source, root)
        if columns is not None:
            return columns
    label = tuple(settings.label) if isinstance(settings.label, list) else settings.label
    may_tag = settings.kind is None or find_kind(settings.kind).word_columns
    if settings.text and label:
        columns = Columns(tuple(settings.text), label, settings.id)
        if not may_tag or (source.file is not None and find_file(source, root) is None):  # told when it is read
            return columns
        chunk = next(read_chunks(name_lines(source, columns.text, label), root, "train"))
    else:
        named = name_lines(source, tuple(settings.text), label) if settings.text else source
        chunk = next(read_chunks(named, root, "train"))
        prefer_words = settings.kind is not None and may_tag
        columns = recognise_columns(source, chunk, settings.text, label, settings.id, prefer_words=prefer_words)
    return replace(columns, words=_word_rule(settings, label_look(chunk, columns))) if may_tag else columns


def _choice_columns(settings: TaskSettings, source: Source, root: Path) -> Columns | None:
    """Those of a multiple choice, where the recipe names candidates or the file has lists of them; else None."""
    is_choice = settings.kind is not None and find_kind(settings.kind).per_candidate
    may_be_choice = settings.kind is None and not isinstance(settings.label, list) and settings.scheme is None
    if not (is_choice or may_be_choice or settings.candidates):
        return None
    if not is_choice and settings.candidates is None and settings.text and settings.label:
        return None
    if source.file is not None and find_file(source, root) is None and not (is_choice or settings.candidates):
        return None  # told when it is read
    if settings.candidates and settings.kind is not None and not is_choice:
        raise UserError(f"`candidates` are for `kind: multiple-choice`, found `kind: {settings.kind}`.", "bad-choice")
    chunk = next(read_chunks(source, root, "train"))
    columns = recognise_choices(chunk, settings.text, settings.candidates, settings.label, settings.id)
    if columns is None and (is_choice or settings.candidates):
        names = ", ".join(shown_names(chunk))
        raise UserError(
            f"{source_name(source, 'train')}: a multiple choice needs a question, candidates and a label. Name them: "
            f"`text: question`, `candidates: choices` (a column of lists) or `candidates: [A, B, C]`, `label: answer`. "
            f"Columns: {names}.",
            code="no-column",
        )
    return columns


def _answer_columns(settings: TaskSettings, source: Source, root: Path) -> Columns | None:
    """Those of a search for answers, where the recipe or the file says so; else None."""
    is_search = settings.kind is not None and find_kind(settings.kind).per_token
    if not is_search and (settings.kind is not None or isinstance(settings.label, list)):
        return None
    if not is_search and source.file is not None and find_file(source, root) is None:
        return None  # told when it is read
    if not is_search and settings.text is not None and len(settings.text) != 2:
        return None
    chunk = next(read_chunks(source, root, "train"))
    columns = recognise_answers(chunk, settings.text, settings.label, settings.id, named=is_search)
    if columns is None and is_search:
        names = ", ".join(shown_names(chunk))
        raise UserError(
            f"{source_name(source, 'train')}: a search for answers needs a question, a text and answers. Name them: "
            f"`text: [question, context]`, `label: answers`. Columns: {names}.",
            code="no-column",
        )
    return columns


def _search_columns(settings: TaskSettings, source: Source, root: Path) -> Columns | None:
    """The columns of a search, where the recipe or the names of the columns say that the task is one; else None."""
    searches = settings.kind is not None and find_kind(settings.kind).searches
    if not searches and (settings.kind or settings.label or settings.text):
        return None
    named = name_lines(source, tuple(settings.text)) if settings.text else source
    chunk = next(read_chunks(named, root, "train"))
    if not searches and recognise_query(chunk.columns) is None:
        return None
    columns = recognise_search(source, chunk, settings.text, settings.negatives)
    label = settings.label if isinstance(settings.label, str) else columns.label
    return replace(columns, label=label, id=settings.id)


def _word_rule(settings: TaskSettings, looks: str) -> WordRule | None:
    """How texts are cut into words; None where labels are not of words."""
    if settings.kind is None and looks == "other":
        return None
    return settings.words or ("letters" if looks == "spans" else "edges")
