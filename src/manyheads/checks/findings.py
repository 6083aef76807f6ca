"""What a check of data finds, and how it is printed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

Severity = Literal["error", "warning", "note"]  # error: training would stop
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
SHOWN_EXAMPLES = 3


@dataclass(frozen=True)
class Finding:
    """One fact about one split (or two of them) of one task."""

    task: str
    split: str  # train, dev, test; train/dev and train/test where two are compared
    kind: str
    severity: Severity
    count: int  # how many rows, groups or sentences it concerns
    of: int  # out of how many
    message: str
    examples: tuple[str, ...] = ()  # 'file:line: «text»'; of many classes the smallest and the largest


def count_finding(
    task: str,
    split: str,
    kind: str,
    severity: Severity,
    share: tuple[int, int],
    text: str,
    examples: Iterable[str] = (),
) -> list[Finding]:
    """'3 of 40' and a text with verbs as {have}, {are}, keep{s}; nothing where the count is 0."""
    count, total = share
    if not count:
        return []
    verbs = {"{s}": "", "{have}": "have", "{are}": "are"}
    if count == 1:
        verbs = {"{s}": "s", "{have}": "has", "{are}": "is"}
    for marker, verb in verbs.items():
        text = text.replace(marker, verb)
    message = f"{count:,} of {total:,} {text}."
    return [Finding(task, split, kind, severity, count, total, message, tuple(islice(examples, SHOWN_EXAMPLES)))]


def format_findings(findings: list[Finding], root: Path | None = None, notes: bool = False) -> str:
    """For people: a heading for each task, or for tasks with the same findings, and what was found of them.

    Paths are shown from `root` on. Of notes there is a line each, with examples only if `notes` asks for them.
    """
    tasks_of: dict[Finding, list[str]] = {}  # a finding without its task → the tasks that have it: they share rows
    for finding in findings:
        tasks_of.setdefault(replace(finding, task=""), []).append(finding.task)
    by_heading: dict[str, list[Finding]] = {}
    for finding, tasks in tasks_of.items():
        by_heading.setdefault(", ".join(tasks) or "the recipe", []).append(finding)
    lines: list[str] = []
    for heading, headed_findings in by_heading.items():
        lines.append(heading)
        for finding in headed_findings:
            lines.append(f"  {finding.severity:<8} {_from_root(finding.message, root)}")
            if notes or finding.severity != "note":
                lines += [f"             {_from_root(example, root)}" for example in finding.examples]
        lines.append("")
    lines.append(_summary(findings))
    return "\n".join(lines)


def _from_root(text: str, root: Path | None) -> str:
    return text if root is None else text.replace(f"{root}{os.sep}", "")


def _summary(findings: list[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    words: dict[Severity, str] = {}
    for severity in SEVERITIES:
        words[severity] = f"{counts[severity]} {severity}s"
        if counts[severity] == 1:
            words[severity] = f"1 {severity}"
    if not counts["error"] and not counts["warning"]:
        return f"no faults found, {words['note']}"
    return ", ".join(words.values())
