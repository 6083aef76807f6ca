"""Sections of a study's page that show its rows: curves over epochs, bars, and each row's own figures."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.config.recipe import Recipe
from manyheads.reports.figures import bars as draw_bars
from manyheads.reports.figures import predictions as draw_predictions
from manyheads.reports.figures.projection import draw_projection
from manyheads.reports.figures.study_curves import compare_rows, row_progress
from manyheads.reports.pages.page import Section
from manyheads.reports.study_rows import StudyRow, first_predictions, primary_of_rows, tasks_of_rows
from manyheads.studies.columns import OVERALL
from manyheads.studies.comparison import StudyTable
from manyheads.studies.folder import StudyFolder

CURVES_TEXT = (
    "Lines are means over seeds, bands reach from the lowest to the highest seed. Numbers are those of the table."
)
SELECT_TEXT = "Here dev is the part of train that checkpoints are chosen on (evaluate.select)."
CURVE_CAPTION = "on dev, against the epoch."
TRAIN_CAPTION = "on dev and on a part of train, against the epoch."
LOSS_CAPTION = (
    "loss on dev and, where it was measured, on a part of train, against the epoch. Where dev rises again, "
    "the row over-fits."
)
BARS_CAPTION = (
    "A bar per row, means over seeds; the dotted line is the mean of all rows. Numbers are those of the table."
)
TASK_BARS_CAPTION = "A bar per row and task, means over seeds; dotted lines are the means of all rows."
PROGRESS_CAPTION = (
    "Primary metric and loss of each task against the epoch: dev (line) and, where it was measured, train (dashed)."
)
CONFUSION_CAPTION = "Examples by true class (rows) and predicted class (columns), and their share of the true class."
ROC_CAPTION = "Each class against all others; for two classes the second."
SCATTER_CAPTION = "Predicted against true: a point per dev example."
DISTRIBUTIONS_CAPTION = "Absolute differences, and the distributions of true and predicted values."
PCA_CAPTION = "Dev examples by the first two principal components of their embeddings, coloured by label."
ROWS_TEXT = "Confusion, predictions and embeddings are those of a row's first seed."
POINTS_OF_PAGE = 6000  # of all scatter plots of a kind together, so that many rows do not make a huge page
MOST_POINTS, FEWEST_POINTS = 400, 60  # of one of them


def curve_section(rows: list[StudyRow], base: Recipe) -> Section:
    """Of every task a figure of the metric and one of the loss, a line per row."""
    section = Section("curves", "Curves")
    with_history = [row for row in rows if row.has_history]
    if with_history:
        section.text(CURVES_TEXT, "soft")
        if base.evaluate.select:
            section.text(SELECT_TEXT, "soft")
    for task_name in tasks_of_rows(with_history, base):
        _add_task_curves(section, with_history, task_name)
    overall = {row.number: row.overall_curve(base) for row in with_history}
    if len(base.tasks) > 1:
        figure = compare_rows(with_history, overall, title=OVERALL)
        section.figure(figure, "curves-overall", "Overall score against the epoch", f"Overall score {CURVE_CAPTION}")
    without = [row.name for row in rows if not row.has_history]
    if without:
        section.text(f"No curves of {'; '.join(without)}: an older version wrote these results, without a history.")
    return section


def _add_task_curves(section: Section, rows: list[StudyRow], task_name: str) -> None:
    title = f"{task_name} {primary_of_rows(rows, task_name)}"
    dev = {row.number: row.metric_curve(task_name) for row in rows}
    train = {row.number: row.metric_curve(task_name, "train") for row in rows}
    losses = {row.number: row.loss_curve(task_name) for row in rows}
    train_losses = {row.number: row.loss_curve(task_name, "train_losses") for row in rows}
    caption = TRAIN_CAPTION if any(train.values()) else CURVE_CAPTION
    metric_figure = compare_rows(rows, dev, train, title)
    section.figure(metric_figure, f"curves-{task_name}", f"{title} against the epoch", f"{title} {caption}")
    loss_figure = compare_rows(rows, losses, train_losses, f"{task_name} loss")
    loss_title = f"{task_name}: loss against the epoch"
    section.figure(loss_figure, f"losses-{task_name}", loss_title, f"{task_name}: {LOSS_CAPTION}")


def bar_section(table: StudyTable) -> Section:
    """A bar per row: all tasks together, then each column."""
    section = Section("bars", "Rows side by side")
    section.figure(draw_bars.task_bars(table), "task-bars", "Metrics of all rows and tasks", TASK_BARS_CAPTION)
    for column, title in table.columns.items():
        figure = draw_bars.column_bars(table, column)
        section.figure(figure, f"bars-{column}", f"{title} of all rows", f"{title}. {BARS_CAPTION}")
    return section


def row_section(rows: Sequence[StudyRow], folder: StudyFolder) -> Section:
    """What opens on a click: each row's progress, and its first seed's predictions and embeddings."""
    section = Section("rows", "Row by row")
    section.text(ROWS_TEXT, "soft")
    most_points = max(FEWEST_POINTS, min(MOST_POINTS, POINTS_OF_PAGE // max(1, len(rows))))
    for row in rows:
        group = Section(f"row-{row.number}", f"{row.number} {row.name}")
        for text in _folder_texts(row, folder):
            group.text(text, "soft")
        metrics = {task_name: primary_of_rows([row], task_name) for task_name in row.results}
        figure = row_progress(row, metrics)
        section_title = f"{row.name}: progress of training"
        group.figure(figure, f"progress-{row.number}", section_title, PROGRESS_CAPTION)
        for task_name in row.results:
            _add_predictions(group, row, task_name, most_points)
            _add_projection(group, row, task_name, most_points)
        section.group(group)
    return section


def _folder_texts(row: StudyRow, folder: StudyFolder) -> list[str]:
    """Which run the figures are of: one for all tasks, or one for each."""
    tasks_of_run: dict[str, list[str]] = {}
    seeds: dict[str, int] = {}
    for task_name, results in row.results.items():
        first = results[0]
        tasks_of_run.setdefault(first.identity, []).append(task_name)
        seeds[first.identity] = first.seed
    texts = []
    for identity, tasks in tasks_of_run.items():
        texts.append(f"{', '.join(tasks)}: {folder.run(identity)}, seed {seeds[identity]}.")
    return texts


def _add_predictions(group: Section, row: StudyRow, task_name: str, most_points: int) -> None:
    predictions = first_predictions(row.results[task_name], task_name)
    if not len(predictions.labels):
        return
    end = f"{row.number}-{task_name}"
    title = f"{row.name}, {task_name}"
    if predictions.is_regression:
        scatter = draw_predictions.predicted_against_true(predictions, most_points)
        group.figure(
            scatter, f"scatter-{end}", f"{title}: predicted against true", _caption(task_name, SCATTER_CAPTION)
        )
        distributions = draw_predictions.error_distributions(predictions, absolute=True)
        caption = _caption(task_name, DISTRIBUTIONS_CAPTION)
        group.figure(distributions, f"distributions-{end}", f"{title}: errors and distributions", caption)
        return
    if not predictions.is_multi_label:
        confusion = draw_predictions.confusion(predictions)
        group.figure(
            confusion, f"confusion-{end}", f"{title}: confusion matrix", _caption(task_name, CONFUSION_CAPTION)
        )
    if predictions.is_multi_label or len(predictions.class_names) == 2:
        roc = draw_predictions.curves(predictions)
        group.figure(roc, f"roc-{end}", f"{title}: ROC and precision-recall curves", _caption(task_name, ROC_CAPTION))


def _add_projection(group: Section, row: StudyRow, task_name: str, most_points: int) -> None:
    pca = row.results[task_name][0].pca.get(task_name)
    if pca is None:
        return
    predictions = first_predictions(row.results[task_name], task_name)
    figure = draw_projection(predictions, pca, most_points)
    title = f"{row.name}, {task_name}: principal components"
    group.figure(figure, f"pca-{row.number}-{task_name}", title, _caption(task_name, PCA_CAPTION))


def _caption(task_name: str, caption: str) -> str:
    return f"{task_name}. {caption}"
