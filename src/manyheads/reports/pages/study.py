"""The report of a study: which differences are real, what they cost, which tasks help which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.reports.dev_texts import add_texts
from manyheads.reports.error_analysis import suspicious_labels
from manyheads.reports.figures import study as draw_study
from manyheads.reports.figures.style import figure_style
from manyheads.reports.finding import Finding
from manyheads.reports.pages.page import Report, Section, figures_of, render_report
from manyheads.reports.pages.study_rows import bar_section, curve_section, row_section
from manyheads.reports.pages.task import error_row
from manyheads.reports.paper_figures import coverage
from manyheads.reports.study_rows import StudyRow, first_predictions, study_rows
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.studies import tables
from manyheads.studies.comparison import Cell, FinishedResults, StudyTable
from manyheads.studies.folder import status_line
from manyheads.studies.footer import all_missing, footer
from manyheads.studies.margin_tables import margins, shown_margin, signed
from manyheads.studies.store import Result
from manyheads.studies.study import OpenStudy
from manyheads.studies.transfer import TransferMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEANS_CAPTION = (
    "Points: seeds. Lines: mean with its 95 % interval over seeds and dev examples. Diamond: the paper's figure."
)
DIFFERENCES_CAPTION = (
    "Difference with its 95 % interval: green is better, orange worse, grey not distinguishable (Holm)."
)
COST_CAPTION = "Numbers are those of rows in the table above. Quality with its 95 % interval, against its cost."
TRANSFER_CAPTION = "Change against single-task training; bold is real, ≈ not distinguishable."
MARGIN_TEXT = (
    "Above 0 the row is better. ±: the 95 % interval over seeds and dev examples. Lower end: of the one-sided 95 % "
    "interval; above −margin the row is not worse. The smallest margin is the one that the row's own figures show."
)
CALIBRATION_TEXT = "Metrics on dev, means over seeds: as the model predicts → with its temperature or thresholds."


@dataclass(frozen=True)
class StudyContent:
    """What a study's page is rendered from."""

    sections: list[Section]
    notes: list[str]
    lead: dict[str, Any]  # what stands before the first section


def study_report(opened: OpenStudy) -> Report:
    """The page of a study, of its finished runs."""
    content = study_content(opened)
    title = f"{opened.study.name}: report of a study"
    return render_report("study.html.jinja", title, content.sections, content.notes, content.lead)


def study_content(opened: OpenStudy) -> StudyContent:
    """Sections with their figures drawn, and which of them show what the study covers of its paper."""
    results, matrices = opened.tables()
    finished = opened.finished_results()
    notes = footer(results, matrices)
    rows = study_rows(results, finished, opened.base)
    with figure_style():
        sections = [
            _result_section(opened, results, finished),
            _margin_section(results),
            bar_section(results),
            curve_section(rows, opened.base),
            _cost_section(results),
            _calibration_section(results),
            _transfer_section(matrices),
            row_section(rows, opened.folder),
            _label_section(opened, results, rows, notes),
            _run_section(opened),
        ]
    figures: dict[str, Figure] = {}
    for section in sections:
        figures |= figures_of(section.blocks)
    row_numbers = {row.name: row.number for row in rows}
    lead = _lead(opened, results, matrices)
    lead["covers"] = coverage(opened.study.paper, opened.study.covers, row_numbers, figures)
    return StudyContent(sections, notes, lead)


def _lead(opened: OpenStudy, results: StudyTable, matrices: Sequence[TransferMatrix]) -> dict[str, Any]:
    """The question, what was run, and what was found."""
    study = opened.study
    return {
        "question": study.question,
        "row_count": len(opened.variant_rows),
        "seed_count": len(study.seed_list),
        "tasks": list(opened.base.tasks),
        "encoder": opened.base.encoder.name,
        "paper": study.paper,
        "findings": study_findings(results, matrices),
    }


def study_findings(results: StudyTable, matrices: Sequence[TransferMatrix]) -> list[Finding]:
    """What the tables show, a sentence each."""
    findings = [*_margin_findings(results), *_difference_findings(results)]
    for matrix in matrices:
        findings += _transfer_findings(matrix)
    missing = sum(all_missing(results, matrices).values())
    if missing == 1:
        findings.append(Finding("Not finished: 1 row-seed of the study.", "runs"))
    elif missing:
        findings.append(Finding(f"Not finished: {missing} row-seeds of the study.", "runs"))
    return findings


def _margin_findings(results: StudyTable) -> list[Finding]:
    """'one model is not worse than each alone on the mean of 3 metrics (margin .01): −.0031, at least −.0083.'"""
    findings: list[Finding] = []
    if results.margins is None:
        return findings
    reference = results.margins.request.than
    for row_name, cells in results.margins.rows.items():
        for measure, cell in cells.items():
            if cell.judged is None:
                continue
            title = results.margins.measures[measure]
            figures = f"{signed(cell.difference.mean)}, lower end {signed(cell.difference.lower_end())}"
            margin = shown_margin(cell)
            text = f"{row_name} is {cell.judged.verdict} than {reference} on {title} {margin}: {figures}."
            if cell.judged.verdict == "not shown":
                text = f"{row_name} is not shown to be as good as {reference} on {title} {margin}: {figures}."
            findings.append(Finding(text, "margins"))
    return findings


def _difference_findings(results: StudyTable) -> list[Finding]:
    findings = []
    undecided = 0
    for row in results.rows:
        for column, title in results.columns.items():
            cell = row.cells[column]
            if cell.difference is None:
                continue
            if cell.verdict == "not distinguishable":
                undecided += 1
                continue
            text = f"{row.name} is {cell.verdict} than {results.reference} on {title}: {_change(cell)}."
            findings.append(Finding(text, "results"))
    if undecided:
        total = len(findings) + undecided
        findings.append(Finding(f"Not distinguishable: {undecided} of {total} differences.", "results"))
    return findings


def _transfer_findings(matrix: TransferMatrix) -> list[Finding]:
    effects = {"better": "gains", "worse": "loses"}
    findings = []
    for task, cells in matrix.cells.items():
        for partner, cell in cells.items():
            if cell.verdict not in effects:
                continue
            training = f"joint training with {partner} at equal {matrix.equal}"
            text = f"{task} {effects[cell.verdict]} from {training}: {_change(cell)}."
            findings.append(Finding(text, "transfer"))
    return findings


def _change(cell: Cell) -> str:
    """'+.010 ± .004', without the verdict."""
    return tables.shown_difference(cell).rsplit(" ", 1)[0]


def _result_section(opened: OpenStudy, results: StudyTable, finished: FinishedResults) -> Section:
    section = Section("results", "Results")
    if opened.study.layout == "confusion":
        task = next(iter(results.columns)).partition(".")[0]
        for number, (row_name, grid) in enumerate(tables.confusions(results, finished, task), 1):
            section.heading(f"{row_name}: {task}")
            section.table(grid, f"confusion-{number}")
        return section
    section.table(_value_rows(results), "values")
    section.text("In brackets: 95 % intervals over seeds and dev examples.", "soft")
    baselines = tables.trivial(results)
    if baselines:
        section.heading(f"What {results.reference} is held against")
        section.table(baselines, "trivial")
    for column, title in results.columns.items():
        figure = draw_study.means(results, column)
        section.figure(figure, f"means-{column}", f"{title}: means of rows with seeds", f"{title}. {MEANS_CAPTION}")
    differences = tables.differences(results)
    if differences:
        section.heading(f"Differences from {results.reference}")
        section.table(differences, "differences")
        for column, title in results.columns.items():
            figure = draw_study.differences(results, column)
            figure_title = f"{title}: differences from {results.reference}"
            section.figure(figure, f"differences-{column}", figure_title, f"{title}. {DIFFERENCES_CAPTION}")
    return section


def _margin_section(results: StudyTable) -> Section:
    """Whether rows are as good as the one that the study names."""
    section = Section("margins", "As good?")
    if results.margins is not None and results.margins.rows:
        section.heading(f"Not worse than {results.margins.request.than}?")
        section.table(margins(results), "margins-table")
        section.text(MARGIN_TEXT, "soft")
    return section


def _calibration_section(results: StudyTable) -> Section:
    section = Section("calibration", "Before and after calibration")
    if results.calibration:
        section.text(CALIBRATION_TEXT, "soft")
        section.table(tables.calibration_details(results), "calibration-table")
    return section


def _value_rows(results: StudyTable) -> list[dict[str, object]]:
    """The table of means with their intervals; its rows are numbered for the figure of costs."""
    rows = []
    for number, (table_row, cells) in enumerate(zip(results.rows, tables.values(results), strict=True), 1):
        row: dict[str, object] = {"": str(number), **cells}
        for column, title in results.columns.items():
            cell = table_row.cells[column]
            if cell.spread is not None:
                low = tables.number(cell.mean - cell.spread.half_width)
                high = tables.number(cell.mean + cell.spread.half_width)
                row[title] = f"{tables.number(cell.mean)} ({low} to {high})"
            if row.pop(f"paper's {column}", ""):
                row[title] = f"{row[title]}\npaper {tables.number(cell.published or 0.0, cell.digits)}"
        rows.append(row)
    return rows


def _cost_section(results: StudyTable) -> Section:
    section = Section("cost", "What it costs")
    section.figure(draw_study.cost(results), "cost-plot", "Quality against time and memory", COST_CAPTION)
    return section


def _transfer_section(matrices: Sequence[TransferMatrix]) -> Section:
    section = Section("transfer", "Which tasks help which")
    for matrix in matrices:
        if not matrix.alone:
            continue
        section.text(f"At equal {matrix.equal}: what joint training changes against single-task training.")
        title = f"Transfer matrix at equal {matrix.equal}"
        section.figure(draw_study.transfer(matrix), f"transfer-{matrix.equal}", title, TRANSFER_CAPTION)
        section.table(tables.transfers(matrix), f"transfer-table-{matrix.equal}")
    return section


def _label_section(opened: OpenStudy, results: StudyTable, rows: list[StudyRow], notes: list[str]) -> Section:
    """Labels that every seed of the reference row contradicts with confidence."""
    section = Section("labels", "Labels to look at")
    results_of_task: dict[str, list[Result]] = {}
    predictions: dict[str, TaskPredictions] = {}
    folders: dict[Path, None] = {}
    for row in rows:
        if row.name == results.reference:
            results_of_task = row.results
    for task_name, seed_results in results_of_task.items():
        predictions[task_name] = first_predictions(seed_results, task_name)
        folders[opened.folder.run(seed_results[0].identity)] = None
    notes += add_texts(predictions, list(folders), opened.base)
    for task_name, task_predictions in predictions.items():
        seeds = [result.predictions[task_name] for result in results_of_task[task_name]]
        if len(seeds) < 2:
            continue
        suspicious = suspicious_labels(task_predictions, seeds)
        if suspicious:
            section.heading(
                f"{task_name}: all {len(seeds)} seeds of {results.reference} contradict these labels with confidence"
            )
            error_rows = [error_row(task_predictions, error) for error in suspicious]
            section.table(error_rows, f"suspicious-{task_name}")
    return section


def _run_section(opened: OpenStudy) -> Section:
    """Which folder is which row, which runs are not finished, and why some failed."""
    section = Section("runs", "Runs")
    statuses = opened.run_statuses()
    counts = Counter(status.state for status in statuses)
    section.text(", ".join(f"{count} {state}" for state, count in counts.items()) + ".")
    rows = []
    for status in statuses:
        if status.state not in ("finished", "to do"):
            share = f"{status.share:.0%}"
            rows.append({"run": status.planned.label, "state": status.state, "at": share, "reason": status.reason})
    section.table(rows, "open-runs")
    folders = Section("run-folders", "Which folder is which row")
    folders.table([status_line(opened.folder, status) for status in statuses], "run-table")
    section.group(folders)
    return section
