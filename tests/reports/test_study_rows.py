"""Curves, bars and row figures of a study's page: the numbers drawn are the results' own."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import yaml

from constructed_study import EPOCHS, construct_results, expected_metric
from manyheads.reports.pages.page import figures_of
from manyheads.reports.pages.study import study_content, study_report
from manyheads.reports.study_rows import epochs_of, seed_curve
from manyheads.studies.study import OpenStudy, open_study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOSTILE_ROW = '<b>bold</b> "quoted" & $x_{ #1b1b1c'
SEEDS = [0, 1, 2]


@pytest.fixture
def opened(tmp_path: Path) -> OpenStudy:
    """Two rows of one run, one of a run per task; nothing is trained yet."""
    content = {
        "base": "scales/smoke",
        "variants": {"plain": {}, HOSTILE_ROW: {"training.learning_rate": 2e-3}, "alone": {
            "each": "task", "tasks": ["{task}"]}},
        "seeds": SEEDS,
    }  # fmt: skip
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return open_study(str(file), None, tmp_path / "studies", {})


def page_figures(opened: OpenStudy) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for section in study_content(opened).sections:
        figures |= figures_of(section.blocks)
    return figures


def line_values(axes: Axes, label: str) -> tuple[list[float], list[float]]:
    for line in axes.get_lines():
        if line.get_label() == label:
            return list(np.asarray(line.get_xdata())), list(np.asarray(line.get_ydata()))
    raise AssertionError(f"no line '{label}' among {[line.get_label() for line in axes.get_lines()]}")


def test_evaluations_within_an_epoch_lie_evenly_in_it() -> None:
    assert epochs_of([{"epoch": epoch} for epoch in (0, 1, 2, 3)]) == [0.0, 1.0, 2.0, 3.0]
    assert epochs_of([{"epoch": epoch} for epoch in (1, 1, 1, 1, 2, 2)]) == [0.25, 0.5, 0.75, 1.0, 1.5, 2.0]


def test_a_band_reaches_from_the_lowest_to_the_highest_seed() -> None:
    curve = seed_curve([{1.0: 0.2, 2.0: 0.4}, {1.0: 0.6, 2.0: 0.5}, {1.0: 0.1}])
    assert curve is not None
    assert curve.epochs == [1.0, 2.0]
    assert curve.mean == pytest.approx([0.3, 0.45])
    assert curve.low == [0.1, 0.4]
    assert curve.high == [0.6, 0.5]
    assert seed_curve([{}, {}]) is None


@pytest.mark.slow
def test_figures_show_the_results_own_numbers(opened: OpenStudy, tmp_path: Path) -> None:
    construct_results(opened, tmp_path)
    figures = page_figures(opened)
    _check_curves(figures["curves-sst"], figures["losses-sst"])
    _check_progress(figures["progress-3"])
    _check_bars(opened, figures["bars-sst"])
    results = opened.finished_results()["plain"][0][""]
    confusion = figures["confusion-1-sst"].axes[0]
    counts = [text.get_text().partition("\n")[0] for text in confusion.texts]
    predicted = results.predictions["sst"].argmax(axis=1)
    for (true_class, predicted_class), count in zip(np.ndindex(5, 5), counts, strict=True):
        matches = (results.labels["sst"] == true_class) & (predicted == predicted_class)
        assert int(count) == matches.sum()
    pca = figures["pca-1-qqp"].axes[0]
    drawn = {tuple(point) for line in pca.get_lines() for point in np.asarray(line.get_xydata()).tolist()}
    assert drawn == {tuple(point) for point in results.pca["qqp"]["points"]}
    assert "40%" in pca.get_xlabel()
    assert {"roc-1-qqp", "scatter-1-sts", "distributions-1-sts", "pca-1-sts", "confusion-3-qqp"} < set(figures)


def _check_curves(metric_figure: Figure, loss_figure: Figure) -> None:
    epochs = list(range(1, EPOCHS + 1))
    means = [np.mean([expected_metric("plain", seed, epoch) for seed in SEEDS]) for epoch in epochs]
    dev, train = metric_figure.axes
    assert line_values(dev, "1 plain") == (pytest.approx(epochs), pytest.approx(means))
    assert line_values(train, "1 plain")[1] == pytest.approx([mean + 0.05 for mean in means])
    assert line_values(loss_figure.axes[0], "1 plain")[1] == pytest.approx([2 - mean for mean in means])
    low, high = dev.collections[0].get_paths()[0].get_extents().intervaly
    assert (low, high) == pytest.approx((expected_metric("plain", 0, 1), expected_metric("plain", 2, EPOCHS)))
    assert dev.get_ylim() == train.get_ylim(), "the gap between dev and train shows"


def _check_progress(figure: Figure) -> None:
    """A row with a run for each task has a panel of metric and loss for each."""
    titles = [axes.get_title("left") for axes in figure.axes if axes.get_visible()]
    assert titles == ["sst accuracy", "sst loss", "qqp accuracy", "qqp loss", "sts pearson", "sts loss"]
    means = [np.mean([expected_metric("alone", seed, epoch) for seed in SEEDS]) for epoch in range(1, EPOCHS + 1)]
    assert line_values(figure.axes[2], "dev")[1] == pytest.approx(means)
    assert line_values(figure.axes[2], "train")[1] == pytest.approx([mean + 0.05 for mean in means])
    assert line_values(figure.axes[3], "dev")[1] == pytest.approx([2 - mean for mean in means])


def _check_bars(opened: OpenStudy, figure: Figure) -> None:
    table, _ = opened.tables()
    means = [row.cells["sst"].mean for row in table.rows]
    axes = figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(means)
    assert np.asarray(axes.get_lines()[0].get_ydata()) == pytest.approx(np.mean(means))


@pytest.mark.slow
def test_a_page_escapes_its_rows_and_its_links_lead_somewhere(opened: OpenStudy, tmp_path: Path) -> None:
    """And it names the folder of every run, whether it is finished or not."""
    construct_results(opened, tmp_path, [HOSTILE_ROW])
    html = study_report(opened).html
    assert "<b>bold" not in html
    assert "<summary>1 &lt;b&gt;bold&lt;/b&gt; &#34;quoted&#34; &amp; $x_{ #1b1b1c</summary>" in html
    assert f"{HOSTILE_ROW}: progress of training" in unescape(html), "a title is not restyled"
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(ids)
    for identity, planned in opened.runs:
        shown = f"{identity} (result only)" if planned.row == HOSTILE_ROW else str(opened.folder.run(identity))
        assert f">{shown}</td>" in html, planned.label


@pytest.mark.slow
def test_results_without_history_have_a_page_that_says_so(opened: OpenStudy, tmp_path: Path) -> None:
    opened.study.paper, opened.study.covers = "A", ["T1", "F1"]
    construct_results(opened, tmp_path, ["plain"], kept=())
    report = study_report(opened)
    assert not [key for key in report.figures if key.startswith(("curves", "losses", "progress", "pca"))]
    assert {"confusion-1-sst", "scatter-1-sts", "roc-1-qqp"} < set(report.figures)
    assert "No curves of plain: an older version wrote these results, without a history." in report.html
    assert re.search(r'<li id="covers-F1">F1: [^<]* <span class="soft">\(not on this page yet', report.html)
