"""The report of a study: what is real, how sure it is, what it costs, who helps whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from manyheads.reports.errors import suspicious_labels
from manyheads.reports.facts import TaskPredictions, add_texts
from manyheads.reports.figures import study as draw_study
from manyheads.reports.figures.style import styled
from manyheads.reports.pages.page import FigureBook, Section, write_page
from manyheads.reports.pages.run import error_row
from manyheads.studies import tables as render
from manyheads.studies.comparison import FinishedResults, StudyTable
from manyheads.studies.footer import all_missing, footer
from manyheads.studies.store import Result
from manyheads.studies.study import OpenStudy
from manyheads.studies.transfer import TransferMatrix
from manyheads.studies.variants import ALL

MEANS = "Points: seeds. Lines: mean with its 95 % interval over seeds and dev examples. Diamond: the paper's figure."
DIFFERENCES = "Difference with its 95 % interval: green is better, orange worse, grey not distinguishable (Holm)."
COST = "Numbers are those of rows in the table above. Quality with its 95 % interval, against what it took."
TRANSFER = "Change against training alone; bold is real, ≈ not distinguishable."


def study_report(opened: OpenStudy) -> tuple[str, FigureBook]:
    """The page of a study, of what is finished, and its figures."""
    found = opened.finished_results()
    results, matrices = opened.tables()
    book = FigureBook()
    notes: list[str] = []
    with styled():
        sections = [
            _results(opened, results, found, book),
            _cost(results, book),
            _transfer(matrices, book),
            _labels(opened, results, found, notes),
            _runs(opened),
        ]
        title = f"{opened.study.name}: report of a study"
        page = write_page(title, _lead(opened, results, matrices), sections, [*footer(results, matrices), *notes])
    return page, book


def _lead(opened: OpenStudy, results: StudyTable, matrices: Sequence[TransferMatrix]) -> list[str]:
    """The question, what was run, and the answer."""
    study = opened.study
    lead = [f"<p><strong>{escape(study.question)}</strong></p>"] if study.question else []
    tasks = ", ".join(opened.base.tasks)
    seeds = len(study.seed_list)
    paper = f" Paper {study.paper}, {', '.join(study.covers)}." if study.paper else ""
    lead.append(
        f'<p class="soft">{len(opened.variant_rows)} rows × {seeds} seed{"s" if seeds > 1 else ""} on {escape(tasks)}, '
        f"with {escape(opened.base.encoder.name)}.{escape(paper)}</p>"
    )
    told = verdicts(results, matrices)
    items = "".join(f'<li>{escape(text)} <a href="#{where}">see</a></li>' for text, where in told)
    lead.append(f'<div class="look" id="look"><strong>What was found</strong><ul>{items}</ul></div>')
    return lead


def verdicts(results: StudyTable, matrices: Sequence[TransferMatrix]) -> list[tuple[str, str]]:
    """What may be said, a sentence each, with the section that shows it."""
    told = []
    alike = 0
    for row in results.rows:
        for column, title in results.columns.items():
            cell = row.cells[column]
            if cell.difference is None:
                continue
            if cell.verdict == "not distinguishable":
                alike += 1
                continue
            change = render.shown_difference(cell).rsplit(" ", 1)[0]
            told.append((f"{row.name} is {cell.verdict} than {results.reference} on {title}: {change}.", "results"))
    if alike:
        rest = ("one other" if alike == 1 else f"{alike} others") if told else ("one" if alike == 1 else f"all {alike}")
        told.append((f"Not distinguishable: {rest} of the differences that were looked at.", "results"))
    for matrix in matrices:
        for task, cells in matrix.cells.items():
            for other, cell in cells.items():
                if cell.verdict in ("better", "worse"):
                    does = "gains" if cell.verdict == "better" else "loses"
                    change = render.shown_difference(cell).rsplit(" ", 1)[0]
                    told.append(
                        (f"{task} {does} from the company of {other} at equal {matrix.equal}: {change}.", "transfer")
                    )
    missing = all_missing(results, matrices)
    if missing:
        count = sum(missing.values())
        told.append((f"Not finished: {count} row-seed{'s' if count > 1 else ''} of the study.", "runs"))
    return told


def _results(opened: OpenStudy, results: StudyTable, found: FinishedResults, book: FigureBook) -> Section:
    section = Section("results", "Results")
    columns = list(results.columns)
    if opened.study.layout == "confusion":
        task = columns[0].partition(".")[0]
        for number, (name, grid) in enumerate(render.confusions(results, found, task)):
            section.heading(f"{name}: {task}")
            section.table(grid, f"confusion-{number + 1}")
        return section
    section.table(_values(results), "values")
    section.text("In brackets: 95 % intervals over seeds and dev examples.", "soft")
    for column, title in results.columns.items():
        drawn = draw_study.means(results, [column])
        section.figure(drawn, f"means-{column}", f"{title}: means of rows with seeds", f"{title}. {MEANS}", book)
    shown = render.differences(results)
    if shown:
        section.heading(f"Differences from {results.reference}")
        section.table(shown, "differences")
        for column, title in results.columns.items():
            drawn = draw_study.differences(results, [column])
            named = f"{title}: differences from {results.reference}"
            section.figure(drawn, f"differences-{column}", named, f"{title}. {DIFFERENCES}", book)
    return section


def _values(results: StudyTable) -> list[dict[str, object]]:
    """The table of means, with their intervals, and rows numbered for the figure of costs."""
    rows = []
    for location, (row, shown) in enumerate(zip(results.rows, render.values(results), strict=True), 1):
        line: dict[str, object] = {"": str(location), **shown}
        for column, title in results.columns.items():
            cell = row.cells[column]
            if cell.spread is not None:
                low, high = cell.mean - cell.spread.half_width, cell.mean + cell.spread.half_width
                line[title] = f"{render.number(cell.mean)} ({render.number(low)} to {render.number(high)})"
            if line.pop(f"paper's {column}", ""):
                line[title] = f"{line[title]}\npaper {render.number(cell.published or 0.0)}"
        rows.append(line)
    return rows


def _cost(results: StudyTable, book: FigureBook) -> Section:
    section = Section("cost", "What it costs")
    return section.figure(draw_study.cost(results), "cost-plot", "Quality against time and memory", COST, book)


def _transfer(matrices: Sequence[TransferMatrix], book: FigureBook) -> Section:
    section = Section("transfer", "Who helps whom")
    for matrix in matrices:
        if matrix.alone:
            section.text(f"At equal {matrix.equal}: what company changes against training alone.")
            drawn, title = draw_study.transfer(matrix), f"Transfer matrix at equal {matrix.equal}"
            section.figure(drawn, f"transfer-{matrix.equal}", title, TRANSFER, book)
            section.table(render.transfers(matrix), f"transfer-table-{matrix.equal}")
    return section


def _labels(opened: OpenStudy, results: StudyTable, found: FinishedResults, notes: list[str]) -> Section:
    """Labels that every seed of the row that is compared with contradicts with confidence."""
    section = Section("labels", "Labels to look at")
    seeds = found.get(results.reference, {})
    answered: dict[str, list[Result]] = {}
    for members in seeds.values():
        for task in opened.base.tasks:
            result = members.get(task) or members.get(ALL)
            if result is not None and task in result.predictions:
                answered.setdefault(task, []).append(result)
    every = {
        task: TaskPredictions(
            some[0].tasks[task], some[0].predictions[task], some[0].labels[task], ids=some[0].ids[task]
        )
        for task, some in answered.items()
    }
    notes += add_texts(every, opened.base)
    for task, one in every.items():
        some = [result.predictions[task] for result in answered[task]]
        doubtful = suspicious_labels(one, some) if len(some) > 1 else []
        if doubtful:
            section.heading(
                f"{task}: all {len(some)} seeds of {results.reference} contradict these labels with confidence"
            )
            section.table([error_row(one, error) for error in doubtful], f"suspicious-{task}")
    return section


def _runs(opened: OpenStudy) -> Section:
    """Which runs are not finished, and why any has failed."""
    section = Section("runs", "Runs")
    standings = opened.run_statuses()
    counts = Counter(one.state for one in standings)
    section.text(", ".join(f"{count} {state}" for state, count in counts.items()) + ".")
    section.table(
        [
            {"run": one.planned.label, "state": one.state, "at": f"{one.share:.0%}", "reason": one.reason}
            for one in standings
            if one.state not in ("finished", "to do")
        ],
        "open-runs",
    )
    return section
