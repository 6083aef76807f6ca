"""Rows of a search that teach the wrong thing."""

from __future__ import annotations

from collections.abc import Iterator

from manyheads.checks.findings import Finding, count_finding
from manyheads.checks.split import Split, quote_texts
from manyheads.data.text_lists import split_texts


def check_matches(split: Split) -> Iterator[Finding]:
    """Answers that are their own query, and wrong answers that some row calls right, of equal queries."""
    right: dict[str, set[str]] = {}
    for row in split.usable_rows:
        query, answer = split.texts[row]
        right.setdefault(query, set()).add(answer)
    equal = [row for row in split.usable_rows if split.texts[row][0] == split.texts[row][1]]
    share = (len(equal), len(split.usable_rows))
    text = f"rows of {split.name} {{have}} a query as its own answer"
    yield from count_finding(split.task, split.name, "own-answer", "warning", share, text, split.quotes(equal))
    if split.table.negatives is None:
        return
    negatives = split.table.negatives.to_pylist()
    contradictions: list[tuple[int, str]] = []
    for row in split.usable_rows:
        wrong_but_right = right[split.texts[row][0]].intersection(split_texts(negatives[row]))
        contradictions += [(row, answer) for answer in sorted(wrong_but_right)]
    rows = {row for row, _ in contradictions}
    text = f"rows of {split.name} {{have}} a wrong answer that is right for the query"
    examples = (f"{split.location(row)}: {quote_texts((answer,))}" for row, answer in contradictions)
    share = (len(rows), len(split.usable_rows))
    yield from count_finding(split.task, split.name, "right-negatives", "warning", share, text, examples)
