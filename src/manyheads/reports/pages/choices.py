"""A task's sections in the report of a run, where it chooses among candidates."""

from __future__ import annotations

from manyheads.data.choices import split_candidates
from manyheads.reports.facts import RunFacts
from manyheads.reports.pages.page import Section, example_texts
from manyheads.reports.pages.task import metrics_table

LISTED = 20


def choice_section(facts: RunFacts, task_name: str) -> Section:
    """All metrics of a task, and its accuracy by how many candidates there are."""
    section = Section(f"task-{task_name}", f"Task {task_name}")
    metrics_table(section, facts, task_name)
    section.table(facts.choices[task_name].by_count(), f"candidates-{task_name}")
    return section


def choice_error_section(facts: RunFacts, task_name: str) -> Section:
    """Wrong choices, the most confident first, with their texts."""
    choices = facts.choices[task_name]
    section = Section(f"errors-{task_name}", f"Where {task_name} is wrong")
    wrong, chosen = choices.wrong_rows(), choices.chosen
    if not wrong:
        return section
    section.heading(f"Wrong choices, the most confident first ({len(wrong):,} of {len(choices.labels):,})")
    rows: list[dict[str, object]] = []
    for row in wrong[:LISTED]:
        cells: dict[str, object] = {}
        right, choice = f"candidate {choices.labels[row] + 1}", f"candidate {chosen[row] + 1}"
        if choices.texts:
            context, joined = choices.texts[row][:2]
            question, candidates = split_candidates(joined)
            cells.update(example_texts([f"{context} {question}".strip()]))
            right, choice = candidates[choices.labels[row]], candidates[chosen[row]]
        cells.update(right=right, chosen=choice, confidence=float(choices.predictions[row][chosen[row]]))
        rows.append(cells)
    section.table(rows, f"wrong-{task_name}")
    return section
