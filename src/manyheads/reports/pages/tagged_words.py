"""A task's sections in the report of a run, where its words are tagged."""

from __future__ import annotations

from manyheads.data.tags import TagNames
from manyheads.parts.metrics.tags import count_entities
from manyheads.reports.facts import RunFacts
from manyheads.reports.pages.page import Section, example_texts
from manyheads.reports.pages.task import metrics_table
from manyheads.reports.tagged_words import (
    ERROR_KINDS,
    LISTED,
    NOTHING,
    ErrorKind,
    TagError,
    TaggedWords,
    confused_tags,
    count_confusions,
    find_errors,
    marked_text,
)

CONFUSIONS_LISTED = 30


def tag_section(facts: RunFacts, task_name: str) -> Section:
    """All metrics of a task, and of each type of entity; types that are confused."""
    tagged = facts.tagged_words[task_name]
    section = Section(f"task-{task_name}", f"Task {task_name}")
    metrics_table(section, facts, task_name)
    if tagged.task.labels.scheme == "plain":
        confused = confused_tags(tagged)
    else:
        section.table(_type_rows(tagged), f"types-{task_name}")
        confused = count_confusions(tagged, find_errors(tagged))
    rows: list[dict[str, object]] = []
    for (true, predicted), count in confused.most_common(CONFUSIONS_LISTED):
        rows.append({"labelled": true, "predicted": predicted, "times": count})
    if rows:
        section.heading(f"Confused, the same words or others ({NOTHING}: nothing is there)")
        section.table(rows, f"confused-{task_name}")
    return section


def _type_rows(tagged: TaggedWords) -> list[dict[str, object]]:
    counts = count_entities(tagged.predictions, tagged.labels, tagged.task).tolist()
    rows: list[dict[str, object]] = []
    for name, (right, predicted, true) in zip(TagNames.of(tagged.task.labels.names).types, counts, strict=True):
        row: dict[str, object] = {"type": name or "entity"}
        row["precision"] = right / predicted if predicted else None
        row["recall"] = right / true if true else None
        row["f1"] = 2 * right / (predicted + true) if predicted + true else None
        rows.append({**row, "labelled": true, "predicted": predicted})
    return rows


def tag_error_section(facts: RunFacts, task_name: str) -> Section:
    """Errors by kind, the most confident with their texts: [labelled] and ⟨predicted⟩."""
    tagged = facts.tagged_words[task_name]
    section = Section(f"errors-{task_name}", f"Where {task_name} is wrong")
    if tagged.task.labels.scheme == "plain":
        return section
    errors_by_kind: dict[ErrorKind, list[TagError]] = {}
    for error in find_errors(tagged):
        errors_by_kind.setdefault(error.kind, []).append(error)
    for kind, meaning in ERROR_KINDS.items():
        errors = errors_by_kind.get(kind, [])
        if not errors:
            continue
        section.heading(f"{kind}: {meaning} ({len(errors):,})")
        rows: list[dict[str, object]] = []
        for error in errors[:LISTED]:
            true = error.true.type if error.true else NOTHING
            predicted = error.predicted.type if error.predicted else NOTHING
            texts = example_texts([marked_text(tagged, error)])
            rows.append({**texts, "labelled": true, "predicted": predicted, "confidence": error.confidence})
        section.table(rows, f"{kind}-{task_name}")
    return section
