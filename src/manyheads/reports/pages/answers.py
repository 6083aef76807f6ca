"""A task's sections in the report of a run, where it finds answers in a text."""

from __future__ import annotations

from manyheads.reports.facts import RunFacts
from manyheads.reports.pages.page import Section, example_texts
from manyheads.reports.pages.task import metrics_table

LISTED = 20
NO_ANSWER = "(no answer)"


def answer_section(facts: RunFacts, task_name: str) -> Section:
    """All metrics of a task, and apart for questions with and without an answer."""
    section = Section(f"task-{task_name}", f"Task {task_name}")
    metrics_table(section, facts, task_name)
    section.table(facts.answers[task_name].by_presence(), f"presence-{task_name}")
    return section


def answer_error_section(facts: RunFacts, task_name: str) -> Section:
    """Wrong answers, the most confident first, with their texts."""
    found = facts.answers[task_name]
    section = Section(f"errors-{task_name}", f"Where {task_name} is wrong")
    wrong = found.wrong_rows()
    if not wrong:
        return section
    section.heading(f"Wrong answers, the most confident first ({len(wrong):,} of {len(found.labels):,})")
    described = found.task.kind.describe(found.predictions, found.task)
    rows: list[dict[str, object]] = []
    for row in wrong[:LISTED]:
        cells: dict[str, object] = {}
        if found.texts:
            cells.update(example_texts(found.texts[row]))
        cells["right"] = " / ".join(found.right(row)) or NO_ANSWER
        cells["predicted"] = described[row]["prediction"] or NO_ANSWER
        rows.append({**cells, "confidence": described[row]["probability"]})
    section.table(rows, f"wrong-{task_name}")
    return section
