"""The report of a run: every promised figure and table, hostile texts as text, runs that are cut short or lack much."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from building import NUMBERS, ORDINAL, TWO, a_task
from command import check_refused, manyheads
from hostile import HOSTILE
from manyheads import load_recipe, train
from manyheads.errors import UserError
from manyheads.inference.intervals import wilson_interval
from manyheads.reports.error_analysis import slices, suspicious_labels, word_pieces, worst_errors
from manyheads.reports.facts import RunFacts
from manyheads.reports.finding import Finding
from manyheads.reports.findings import find_problems
from manyheads.reports.headlines import headlines
from manyheads.reports.pages.run import run_report
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.reports.write import check_figure_format, write_report
from manyheads.tokens.tokenizer import Tokenizer


class Page(HTMLParser):
    """What a browser would make of a page: ids, tags, texts of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.slow
def test_every_promised_figure_and_table_is_there(smoke_run: Path) -> None:
    result = manyheads("report", smoke_run, "--figures", smoke_run / "figures", "--format", "png")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(smoke_run / "report.html")
    text = (smoke_run / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    promised = {
        *("headline", "dev-metrics", "losses", "examples-seen", "rates", "weights", "gradients"),
        *("conflict-map", "conflict-table", "confusion-sst", "classes-sst", "curves-sst", "calibration-sst"),
        *("error-sizes-sst", "confusion-qqp", "curves-qqp", "scatter-sts", "pca-sst", "pca-qqp", "pca-sts"),
        *("slices-sst", "slices-qqp", "slices-sts", "errors-sst", "errors-sts", "recipe"),
    }
    assert promised <= set(page.ids)
    assert len(page.ids) == len(set(page.ids)), "no name stands twice"
    links = [value[1:] for name, value in page.attributes if name == "href" and value.startswith("#")]
    assert set(links) <= set(page.ids)
    assert "script" not in page.tags
    loads = [value for name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(value.startswith(("#", "data:image/png")) for value in loads), "nothing is loaded from elsewhere"
    assert "url(http" not in text
    drawn = {file.stem for file in (smoke_run / "figures").glob("*.png")}
    assert {"dev-metrics", "confusion-sst", "pca-sts"} <= drawn
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert len(labels) == len(drawn), "every figure can be listened to"


@pytest.mark.slow
def test_letters_in_figures_are_letters_and_take_the_pages_colour(smoke_run: Path) -> None:
    text = run_report(smoke_run).html
    figure = text[text.index('id="confusion-sst"') :]
    figure = figure[: figure.index("</figure>")]
    assert ">predicted</text>" in figure.replace("\n", "")
    assert "currentColor" in figure
    assert "var(--faint)" in figure


@pytest.mark.slow
def test_hostile_texts_are_shown_as_text(toy_recipe: Callable[..., dict[str, Any]], toy_data: Path) -> None:
    rows = [f'{i},"{HOSTILE[i % 5].replace(chr(34), chr(34) * 2)} {i}",{i % 3}' for i in range(40)]
    (toy_data / "mood.csv").write_text("id,sentence,label\n" + "\n".join(rows) + "\n")
    (toy_data / "dev.csv").write_text("id,sentence,label\n" + "\n".join(rows[:20]) + "\n")
    tasks = {"mood": {"train": "mood.csv", "dev": "dev.csv"}}
    run = train(load_recipe(toy_recipe(tasks=tasks, name="<b>bold")), quiet=True)
    page = Page(run_report(run.folder).html)
    assert not page.tags & {"script", "img", "b"}
    words = "".join(page.words)
    assert any(sentence[:300] in words for sentence in HOSTILE)
    assert ("dir", "auto") in page.attributes


@pytest.mark.slow
def test_a_run_cut_short_still_has_a_report(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    stop = """
import os
from manyheads.training.trainer import Trainer
step = Trainer.step
Trainer.step = lambda *given: (step(*given), os._exit(9))
"""
    assert manyheads("train", recipe_file(), before=stop).returncode == 9
    folder = toy_data / "runs" / "toy"
    result = manyheads("report", folder)
    assert result.returncode == 0, result.stderr
    assert "It is not finished: 1 of 10 steps are done." in (folder / "report.html").read_text()
    check_refused(manyheads("report", toy_data), "not a run folder")
    check_refused(manyheads("report", folder, "--format", "gif"), "unknown figure format 'gif'")


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": {"mood": {"train": "mood.csv"}}},
        {"tasks": {"near": {"train": "near.tsv", "range": [0, 5]}}},
        {"tasks": {"mood": {"train": "mood.csv", "labels": ["0", "1", "2", "3", "never"]}}},
    ],
    ids=["one classification", "one regression", "a class without examples"],
)
def test_runs_that_lack_things(changes: dict[str, Any], toy_recipe: Callable[..., dict[str, Any]]) -> None:
    run = train(load_recipe(toy_recipe(**changes)), quiet=True)
    report = run_report(run.folder)
    assert report.figures
    assert "conflict-map" not in report.figures
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", report.html, flags=re.DOTALL).lower().replace("nano", "")


MOOD = {"mood": {"train": "mood.csv"}}  # a page of one task has half as many figures to draw


def moods_shown(page: str) -> list[str]:
    """The texts of task mood in the page's tables."""
    return re.findall(r'<td class="text"[^>]*>(the \w+ was \w+ \d+)</td>', page)


@pytest.mark.slow
def test_a_finished_run_needs_no_data_for_its_report(toy_recipe: Callable[..., dict[str, Any]], toy_data: Path) -> None:
    """The page is the same after the data is deleted; a run of version 0.1 reads its texts from the data."""
    folder = train(load_recipe(toy_recipe(tasks=MOOD)), quiet=True).folder
    page = run_report(folder).html
    assert moods_shown(page)
    (folder / "dev.parquet").rename(toy_data / "dev.parquet")
    assert run_report(folder).html == page, "the data has the same texts"
    (toy_data / "mood.csv").unlink()
    gone = run_report(folder).html
    assert "Texts are not shown, because the data cannot be read: " in gone
    assert not moods_shown(gone)
    (toy_data / "dev.parquet").rename(folder / "dev.parquet")
    assert run_report(folder).html == page


@pytest.mark.slow
def test_texts_of_changed_or_damaged_files_are_not_shown(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path
) -> None:
    folder = train(load_recipe(toy_recipe(tasks=MOOD)), quiet=True).folder
    (folder / "dev.parquet").write_bytes(b"PAR1")
    page = run_report(folder).html
    assert "Texts are read from the recipe&#39;s data: " in page
    assert "dev.parquet: damaged" in page
    assert moods_shown(page)
    rows = (toy_data / "mood.csv").read_text().splitlines()
    (toy_data / "mood.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    page = run_report(folder).html
    assert "Texts of mood are not shown: its dev data has changed since the run." in page
    assert not moods_shown(page)


# --- what is said ------------------------------------------------------------------------------------------------


def predictions_of(reader: Any, predictions: Any, labels: Any, texts: list[tuple[str, ...]]) -> TaskPredictions:
    return TaskPredictions(a_task(labels=reader), np.array(predictions, dtype=float), np.array(labels), texts)


def test_worst_errors_by_kind() -> None:
    ordinal = predictions_of(
        ORDINAL,
        [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.7, 0.2, 0.1]],
        [2, 0, 2, 0],
        [("far too low",), ("one too high",), ("right",), ("right too",)],
    )
    worst = worst_errors(ordinal)
    assert {error_type: [error.texts[0] for error in errors] for error_type, errors in worst.items()} == {
        "one class too high": ["one too high"], "two or more too low": ["far too low"]
    }  # fmt: skip
    two = predictions_of(TWO, [[0.1, 0.9], [0.8, 0.2]], [0, 1], [("a", "b"), ("c", "d")])
    assert list(worst_errors(two)) == ["false positives: predicted yes", "false negatives: missed yes"]
    numbers = predictions_of(NUMBERS, [4.5, 1.0, 2.6, 3.9], [2.0, 2.5, 2.5, 2.4], [("a", "b")] * 4)
    worst = worst_errors(numbers)
    assert {error_type: [error.row for error in errors] for error_type, errors in worst.items()} == {
        "too high by more than 2": [0], "too high by 1 to 2": [3], "too low by 1 to 2": [1]
    }  # fmt: skip


def test_a_label_is_suspicious_only_if_every_seed_contradicts_it() -> None:
    sure, unsure = [[0.02, 0.98]], [[0.4, 0.6]]
    predictions = predictions_of(TWO, sure, [0], [("a", "b")])
    assert len(suspicious_labels(predictions)) == 1
    assert len(suspicious_labels(predictions, [np.array(sure), np.array(sure)])) == 1
    assert suspicious_labels(predictions, [np.array(sure), np.array([[0.9, 0.1]])]) == []
    assert suspicious_labels(predictions_of(TWO, unsure, [0], [("a", "b")])) == []


def test_slices_by_hand() -> None:
    texts = [
        ("not good", "not good"),
        ("fine film", "a dull book here"),
        ("I don't know", "you know"),
        ("x y z", "x y z w"),
    ]
    predictions = predictions_of(TWO, [[0.1, 0.9]] * 4, [1, 0, 1, 1], texts)
    found = {dev_slice.name: dev_slice for dev_slice in slices(predictions)}
    assert (found["all"].examples, found["all"].value) == (4, 0.75)
    assert (found["all"].low, found["all"].high) == pytest.approx((0.3006, 0.9544), abs=1e-4)  # Wilson's, of 3 in 4
    assert (found["with a negation"].examples, found["with a negation"].value) == (2, 1.0)
    assert found["most words shared (0.7 and more)"].examples == 2
    assert found["few words shared (under 0.3)"].examples == 2


def problems_of(facts: RunFacts) -> list[Finding]:
    return find_problems(facts, headlines(facts))


@pytest.mark.slow
def test_what_to_look_at_follows_from_the_log(smoke_run: Path, tmp_path: Path) -> None:
    """Over-fitting and forgetting are put into a copy of a log, and are then said with their figures."""

    folder = tmp_path / "copy"
    shutil.copytree(smoke_run, folder)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    evaluations = [record for record in lines if record["event"] == "evaluate"]
    for number, record in enumerate(evaluations):
        record["losses"]["sst"] = 1.0 + 0.2 * number
        record["metrics"]["sst"]["accuracy"] = 0.5 - 0.1 * number
        record["losses"]["qqp"] = 0.7 - 0.01 * number
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in lines))
    sections = {finding.text.split(":")[0]: finding.section for finding in problems_of(RunFacts(folder))}
    assert sections["sst over-fits"] == "losses"
    assert sections["sst was better before"] == "dev-metrics"
    assert not any(text.startswith("qqp over-fits") for text in sections)
    assert "What to look at" in run_report(folder).html


def test_slices_by_how_words_are_cut(toy_encoder: Path) -> None:
    """The toy's pieces are known: 'plays' is one, a strange sign is unknown, a strange word is cut into letters."""
    tokenizer = Tokenizer(toy_encoder)
    texts = [("the film plays", "the film"), ("the film ☃", "film"), ("the mxqzw", "film")]
    pieces = word_pieces(texts, tokenizer)
    counts = [len(tokenizer.encode([word])[0]) for word in ("plays", "mxqzw")]
    assert counts[0] == 1
    assert pieces.unknown_words[1] == 1
    assert pieces.longest_word.tolist() == [1, 1, max(1, counts[1])]
    predictions = predictions_of(TWO, [[0.1, 0.9]] * 3, [1, 0, 1], texts)
    examples = {dev_slice.name: dev_slice.examples for dev_slice in slices(predictions, pieces)}
    assert examples["with pieces that the encoder does not know"] == int((pieces.unknown_words > 0).sum())
    assert examples["with common words only (at most 1 piece)"] == int((pieces.longest_word <= 1).sum())


@pytest.mark.slow
def test_rates_are_drawn_by_group(smoke_run: Path) -> None:
    """The heads learn at a hundredth: their line is that many times the phase's rate."""
    from manyheads.reports.figures.style import figure_style
    from manyheads.reports.figures.training import learning_rates

    facts = RunFacts(smoke_run)
    first = facts.events("step")[0]
    assert first["learning_rates"]["heads"] == pytest.approx(1e-2 / facts.run.recipe.training.learning_rate)
    with figure_style():
        figure = learning_rates(facts)
    assert figure is not None
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert len(lines["heads"]) == len(facts.events("step"))
    assert max(lines["heads"]) == pytest.approx(1e-2, rel=0.2)


@pytest.mark.slow
def test_seeds_beside_a_run_join_in_doubting_labels(toy_recipe: Callable[..., dict[str, Any]]) -> None:
    folders = [train(load_recipe(toy_recipe(name=f"seed-{seed}", seed=seed)), quiet=True).folder for seed in range(2)]
    train(load_recipe(toy_recipe(name="other", seed=5, training={"epochs": 1})), quiet=True)
    facts = RunFacts(folders[0])
    seeds = facts.predictions_of_seeds("mood")
    assert len(seeds) == 2
    assert np.array_equal(seeds[1], RunFacts(folders[1]).tensors["mood.predictions"])


@pytest.mark.slow
def test_a_run_killed_while_it_finishes(smoke_run: Path, tmp_path: Path) -> None:
    """Predictions without metrics: the report of an unfinished run, with its last evaluation on top."""
    folder = tmp_path / "copy"
    shutil.copytree(smoke_run, folder)
    (folder / "metrics.json").unlink()
    result = manyheads("report", folder)
    assert result.returncode == 0, result.stderr
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "dev at step" in text
    assert f"manyheads resume {folder}" in text
    assert "confusion-sst" not in text


@pytest.mark.slow
def test_damaged_files_are_named(smoke_run: Path, tmp_path: Path) -> None:
    for name in ("dev.safetensors", "tasks.json"):
        folder = tmp_path / name
        shutil.copytree(smoke_run, folder)
        (folder / name).write_bytes(b"{")
        check_refused(manyheads("report", folder), name, "damaged")
        with pytest.raises(UserError) as refused:
            run_report(folder)
        assert refused.value.code == "damaged-file"


@pytest.mark.slow
def test_reports_that_cannot_be_written(smoke_run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as refused:
        write_report(smoke_run, tmp_path / "file" / "report.html")
    assert refused.value.code == "cannot-write"
    with pytest.raises(UserError) as refused:
        check_figure_format("gif")
    assert refused.value.code == "unknown-format"


@pytest.mark.slow
def test_sharing_is_measured_against_the_most_alike_run(toy_recipe: Callable[..., dict[str, Any]]) -> None:
    """A hardly trained run beside is no fair baseline where a better one is; and what differs is said."""
    alone = {"mood": toy_recipe()["tasks"]["mood"]}
    short = {**toy_recipe()["training"], "max_steps": 1, "learning_rate": 1e-9}
    train(load_recipe(toy_recipe(name="aa-hardly", tasks=alone, seed=7, training=short)), quiet=True)
    shared = train(load_recipe(toy_recipe(name="shared")), quiet=True).folder
    facts = RunFacts(shared)
    sharing = {headline.task: headline.sharing for headline in headlines(facts)}
    assert "against aa-hardly, which also differs in" in sharing["mood"]
    assert "training.max_steps" in sharing["mood"]
    assert sharing["near"] == ""
    train(load_recipe(toy_recipe(name="fair", tasks=alone)), quiet=True)
    sharing = {headline.task: headline.sharing for headline in headlines(RunFacts(shared))}
    assert "against fair; one seed each" in sharing["mood"]
    # a neighbour that cannot be read is left out, and named
    (shared.parent / "fair" / "recipe.yaml").write_text("tasks: [")
    assert "The run fair in the same folder cannot be read" in run_report(shared).html


@pytest.mark.slow
def test_a_starved_task_and_constant_predictions_are_findings(smoke_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(smoke_run, folder)
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["examples_seen"]["qqp"] = 9
    (folder / "metrics.json").write_text(json.dumps(metrics))
    facts = RunFacts(folder)
    facts.predictions["sst"].predictions[:] = [0.0, 0.0, 1.0, 0.0, 0.0]
    texts = [finding.text for finding in problems_of(facts)]
    assert any(text.startswith("qqp was starved: ") for text in texts)
    assert any(text.startswith("sst always predicts 2") for text in texts)


def test_wilsons_interval() -> None:
    """Of 0 in 10: 0 to 0.278; of 5 in 10: 0.237 to 0.763 (textbook figures)."""
    assert wilson_interval(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-3)
    assert wilson_interval(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3)


@pytest.mark.slow
def test_a_large_dev_set_makes_no_large_page(toy_recipe: Callable[..., dict[str, Any]], toy_data: Path) -> None:
    """20,000 dev examples: what is drawn is thinned. How long it takes: benchmarks/report.py."""
    rows = [f"{i},the film was {['dull', 'good', 'great'][i % 3]} {i % 97},{i % 3}" for i in range(20_000)]
    (toy_data / "dev.csv").write_text("id,sentence,label\n" + "\n".join(rows) + "\n")
    tasks = {"mood": {"train": "mood.csv", "dev": "dev.csv", "labels": ["0", "1", "2", "3"], "kind": "ordinal"}}
    run = train(load_recipe(toy_recipe(tasks=tasks, training={"max_steps": 2})), quiet=True)
    page = run_report(run.folder).html
    assert len(page.encode()) < 3_000_000
    assert "20,000" in page


@pytest.mark.slow
def test_a_run_that_kept_no_predictions(smoke_run: Path, tmp_path: Path) -> None:
    """No predictions on dev, no evaluation in the log, no model: the page shows what is left, and makes nothing up."""
    folder = tmp_path / "copy"
    shutil.copytree(smoke_run, folder)
    (folder / "dev.safetensors").unlink()
    shutil.rmtree(folder / "best")
    lines = (folder / "log.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["event"] not in ("evaluate", "conflicts")]
    (folder / "log.jsonl").write_text("\n".join(kept) + "\n")
    report = run_report(folder)
    assert {"losses", "examples-seen", "rates"} <= set(report.figures)
    assert not {"dev-metrics", "conflict-map", "confusion-sst", "pca-sst"} & set(report.figures)
    assert 'id="headline"' not in report.html
