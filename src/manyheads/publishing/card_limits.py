"""What a model card says against the model: findings, slices, suspicious labels, bias probes, what int8 changes."""

from __future__ import annotations

import math

from manyheads.checks.bias_file import WHAT_IT_DOES_NOT_SHOW, WHAT_IT_SHOWS, bias_lines
from manyheads.exporting.check import Measured
from manyheads.exporting.folder import as_lines
from manyheads.publishing.facts import CardFacts
from manyheads.publishing.markdown import as_cells, bullets, code, plain, prose, table
from manyheads.publishing.portable import without_paths
from manyheads.reports.error_analysis import CONFIDENT, LABELS_LISTED, Slice, slices, suspicious_labels, word_pieces
from manyheads.reports.findings import nothing_found
from manyheads.reports.task_predictions import TaskPredictions

NO_SLICE = Slice("all", 0, math.nan, math.nan, math.nan)
FEWEST = 30  # examples of a slice that is worth a line


def limits_section(facts: CardFacts) -> str:
    parts = [bullets([prose(text) for text in facts.problems]) or prose(nothing_found(facts.run))]
    weak = _weak_slices(facts)
    if weak:
        parts.append("Parts of dev on which it is clearly worse (their 95 % interval leaves out the value of all):")
        parts.append(table(weak))
    elif facts.run.predictions:
        parts.append(
            "By length, negation, word overlap and rare words, no part of dev is clearly worse than the whole."
        )
    suspicious = _suspicious(facts)
    if suspicious:
        parts.append(bullets(suspicious))
    parts.append(_data_findings(facts))
    return "\n\n".join(parts)


def _weak_slices(facts: CardFacts) -> list[dict[str, str]]:
    lines: list[dict[str, str]] = []
    for task_name, predictions in facts.run.predictions.items():
        pieces = None
        if facts.run.tokenizer is not None and predictions.texts:
            pieces = word_pieces(predictions.texts, facts.run.tokenizer)
        whole, *others = slices(predictions, pieces) or [NO_SLICE]
        for part in others:
            if part.examples >= FEWEST and _is_worse(predictions, part, whole):
                lines.append(
                    {
                        "task": code(task_name),
                        "part": plain(part.name),
                        "examples": f"{part.examples:,}",
                        "measure": "mean absolute error" if predictions.is_regression else "accuracy",
                        "there": f"{part.value:.3f} ({part.low:.3f} to {part.high:.3f})",
                        "all": f"{whole.value:.3f}",
                    }
                )
    return lines


def _is_worse(predictions: TaskPredictions, part: Slice, whole: Slice) -> bool:
    return part.low > whole.value if predictions.is_regression else part.high < whole.value


def _suspicious(facts: CardFacts) -> list[str]:
    """How many, and not which: texts stay in the run's report."""
    lines: list[str] = []
    for task_name, predictions in facts.run.predictions.items():
        count = len(suspicious_labels(predictions, facts.run.predictions_of_seeds(task_name)))
        if count:
            shown = f"{count} or more" if count >= LABELS_LISTED else str(count)
            share = f"of {len(predictions.labels):,} dev labels"
            reason = f"the model contradicts with a confidence of at least {CONFIDENT}"
            lines.append(f"{code(task_name)}: {shown} {share} look suspicious: {reason}.")
    return lines


def _data_findings(facts: CardFacts) -> str:
    if facts.data_findings is None:
        return "The data was not at hand when this card was written, so it was not checked again."
    if not facts.data_findings:
        return "`manyheads check` finds no faults in the data."
    lines: dict[str, None] = {}  # tasks that share rows have the same findings
    for finding in facts.data_findings:
        lines[f"{code(finding.task)}: {prose(without_paths(finding.message))}"] = None
    return "`manyheads check` finds in the data:\n\n" + bullets(list(lines))


def bias_section(facts: CardFacts) -> str:
    probe = facts.bias
    if probe is None:
        return "Not probed: whether predictions depend on names or group words is not known."
    parts = [WHAT_IT_SHOWS]
    for task_name, task in probe.tasks.items():
        score = f" Lowest and highest group: {plain(task.score)}, from the mean of all groups." if task.score else ""
        parts.append(f"{code(task_name)}, {task.templates} templates, 95 % intervals over them.{score}")
        parts.append(table(as_cells(bias_lines(task))))
    for task_name, reason in probe.left_out.items():
        parts.append(f"{code(task_name)} was not probed: {plain(reason)}.")
    return "\n\n".join([*parts, WHAT_IT_DOES_NOT_SHOW])


def exported_section(facts: CardFacts) -> str:
    """What was measured when the model was exported."""
    parts: list[str] = []
    for name, folder in facts.exported.items():
        description = folder.description
        place = f"in the folder {code(name)} here" if name in facts.exported_inside else "not published here"
        parts.append(f"{plain(description.precision)}, {description.layout} ({place}), beside the model, on dev:")
        measured = {task: Measured(**values) for task, values in description.measured.items()}
        if measured:
            parts.append(table(as_cells(as_lines(measured))))
    return "\n\n".join(parts)
