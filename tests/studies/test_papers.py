"""The papers' studies: none is missing, every published figure has its place, and each still runs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.parts.metrics import measured_by, score
from manyheads.parts.samplers import SamplerInput
from manyheads.studies.columns import OVERALL
from manyheads.studies.config import SCALES
from manyheads.studies.cost import describe_cost
from manyheads.studies.folder import StudyFolder
from manyheads.studies.load import load_study, shipped_studies
from manyheads.studies.smoke import try_studies
from manyheads.studies.study import OpenStudy
from manyheads.studies.variants import base_recipe, make_rows, variant_recipe
from manyheads.tasks.load import load_tasks
from manyheads.training.schedule import plan_schedule

# every table and ablation that the catalogue of the papers lists
CATALOGUE = {
    "A": [
        *(
            "T1",
            "T2",
            "T3",
            "T4",
            "T5",
            "T6",
            "T7a",
            "T7b",
            "T8",
            "T9",
            "T10",
            "T11",
            "T12",
            "T13",
            "T14",
            "T15",
            "T16",
        ),
        *("F1", "F2", "F3", "F4"),
        "rates at long training, appendix E",
    ],
    "B": [
        *("T1", "T1 last rows", "T2", "F2", "F3", "F4", "F5", "F6", "F7"),
        *("reversed order", "QQP + STS only", "output functions", "pooling", "dropout"),
        *("task-specific against combined loss", "six SST seeds", "higher dropout inside BERT, section 3.1"),
        *("weight decay and learning rate decay, section 4.2", "higher learning rates, section 4.3"),
        "differing segment ids, section 5.2",
    ],
    "C": [
        *("T2", "T2 E1–E3", "T3", "F3", "F5", "F6", "F7"),
        *("cosine + MSE against cosine embedding", "SMART on all tasks, §6.4"),
    ],
    "D": [
        *("T2", "T4", "T5", "F5", "F6", "cosine embedding against similarity layer, §4.2", "cap factor"),
        *("accumulation on and off, §4.6", "[CLS] against mean", "learnable scale against none, §3.5"),
        *("frozen against fine-tuned, §3.4", "initial scale, §4.7", "learning rate, §4.7", "optimizer, §4.7"),
        "distances of grades and similarities, §5.1",
    ],
    "E": ["T1", "T2", "T3", "T5", "T6", "F2", "F3", "F4"],
}
DISTANCES = ("class-mse", "off-by-two", "class-pearson")  # of grades
FULL_SIZES = {"sst": 8_544, "qqp": 141_498, "sts": 6_040}  # examples in the train files, as paper E counts them
STUDIES = {name: load_study(name) for name in shipped_studies()}


def test_none_is_missing() -> None:
    found = {
        paper: sorted(one for study in STUDIES.values() if study.paper == paper for one in study.covers)
        for paper in CATALOGUE
    }
    assert found == {paper: sorted(wanted) for paper, wanted in CATALOGUE.items()}
    assert all(study.question for study in STUDIES.values())


@pytest.mark.parametrize("name", STUDIES)
def test_every_published_figure_has_a_row_and_a_column(name: str) -> None:
    """At the scale of the paper; where rows are one per layer, of an encoder as deep as the paper's."""
    study, smoke = STUDIES[name], STUDIES[name].at("smoke")
    opened = OpenStudy(smoke, StudyFolder(Path("unused")), {})
    rows = {row.name for row in make_rows(study, opened.base)}  # of all scales together
    if any("layer" in variant.each for variant in study.variants.values()):
        rows = {f"Layer {layer}" for layer in range(1, 13)}
    assert set(study.published) <= rows
    columns = set(study.metrics or [*opened.base.tasks, OVERALL])
    for printed in study.published.values():
        if isinstance(printed, dict):
            assert set(printed) <= columns
            for column, figure in printed.items():
                assert figure >= 1 if column.endswith(".best_epoch") else -1 <= figure <= 1, column
    assert set(SCALES) >= set(study.scales)


def test_paper_d_measures_one_run_of_its_best_model() -> None:
    """Its ablation, confusion matrix, binary metrics and distances are of the same training."""
    for scale in SCALES:
        recipes = []
        for name in ("d2-ablation", "d7-confusion", "d8-binary", "d14-distances"):
            study = STUDIES[f"papers/{name}"].at(scale)
            rows = {row.name: row for row in make_rows(study, base_recipe(study, {}))}
            recipe = variant_recipe(study, rows["Pcgrad + CFIMDB"].members[""], {}, "Pcgrad + CFIMDB")
            recipes.append(recipe.model_dump(mode="json"))
        assert all(recipe == recipes[0] for recipe in recipes)


@pytest.mark.slow
def test_paper_ds_rows_with_the_figures_of_its_first_model_are_one_training() -> None:
    """Those that stand beside T2's first row: same rates, losses and poolings at full scale."""
    figures = STUDIES["papers/d2-ablation"].published["No additional layers"]
    start = full_recipes("papers/d2-ablation")["No additional layers", ""]
    compared: list[str] = []
    for name, study in STUDIES.items():
        for row, published in study.published.items():
            if study.paper == "D" and published == figures:
                recipe = full_recipes(name)[row, ""]
                if row == "Adam":  # without decay the same as AdamW
                    recipe = recipe.model_copy(update={"training": recipe.training.model_copy()})
                    recipe.training.optimizer = start.training.optimizer
                same_base = {"name": start.name, "description": start.description}
                assert recipe.model_copy(update=same_base).model_dump() == start.model_dump(), name
                compared.append(name)
    assert len(compared) == 10, compared


def test_paper_d_distances_are_those_of_its_confusion_matrix() -> None:
    """The figures of §5.1 from the counts of T4, by our metrics."""
    counts = STUDIES["papers/d7-confusion"].published["Pcgrad + CFIMDB"]
    printed = STUDIES["papers/d14-distances"].published["Pcgrad + CFIMDB"]
    assert isinstance(printed, dict)
    labels, guessed = [], []
    for label, row in enumerate(counts):
        for guess, count in enumerate(row):
            labels += [label] * count
            guessed += [guess] * count
    sst = load_tasks(base_recipe(STUDIES["papers/d14-distances"].at("smoke"), {}))["sst"].task
    assert len(labels) == 1101
    for column, metric in (("sst", "accuracy"), *((f"sst.{name}", name) for name in DISTANCES)):
        scores = score(measured_by(sst, metric), np.eye(5)[guessed], np.array(labels))
        assert scores[metric] == pytest.approx(printed[column], abs=0.0005), column


def test_paper_e_overall_scores_follow_from_its_columns() -> None:
    """(SST + QQP + (1 + STS)/2)/3 of figures that are rounded to three digits; all but the two misprints noted."""
    misprints = []
    for study in STUDIES.values():
        for row, printed in study.published.items():
            if study.paper == "E" and isinstance(printed, dict) and "overall" in printed:
                overall = (printed["sst"] + printed["qqp"] + (1 + printed["sts"]) / 2) / 3
                largest_rounding = (0.0005 + 0.0005 + 0.00025) / 3 + 0.0005
                if abs(overall - printed["overall"]) > largest_rounding + 1e-9:
                    misprints.append((row, round(overall, 3)))
    assert misprints == [("Max-size cycle", 0.771), ("SFT + SMART", 0.784)]


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.paper == "E"])
def test_paper_e_knows_no_segments(name: str, scale: str) -> None:
    """Its encoder has word and position embeddings only."""
    study = STUDIES[name].at(scale)
    for row in make_rows(study, base_recipe(study, {})):
        for settings in row.members.values():
            for task in variant_recipe(study, settings, {}, row.variant).tasks.values():
                if task.encoding is not None and task.encoding.name.startswith("cross"):
                    assert task.encoding.options == {"segments": False}, (row.name, task)


@lru_cache
def full_recipes(name: str) -> dict[tuple[str, str], Recipe]:
    """(row, member) → recipe at full scale; no data is read, nor an encoder, so rows of single layers are left out."""
    study = STUDIES[name].at("full")
    base = base_recipe(study, {})
    if any("layer" in variant.each for variant in study.variants.values()):
        return {("", ""): base}
    recipes: dict[tuple[str, str], Recipe] = {}
    for row in make_rows(study, base):
        for member, settings in row.members.items():
            recipes[row.name, member] = variant_recipe(study, settings, {}, row.variant)
    return recipes


def row_settings(name: str, row: str) -> dict[str, dict[str, object]]:
    """Member → all settings of its recipe at full scale."""
    settings: dict[str, dict[str, object]] = {}
    for (row_name, member), recipe in full_recipes(name).items():
        if row_name == row:
            settings[member] = recipe.model_dump()
    return settings


def steps_and_passes(recipe: Recipe) -> tuple[int, dict[str, float]]:
    """Optimizer steps, and how often each task is passed over, with all of the papers' data."""
    sizes = {name: FULL_SIZES[name] for name in recipe.tasks}
    batch_sizes = dict.fromkeys(sizes, recipe.training.batch_size)
    schedule = plan_schedule(recipe, SamplerInput(sizes, batch_sizes, recipe.seed))
    examples = dict.fromkeys(sizes, 0)
    for step in range(schedule.steps):
        for batches in schedule.rounds(step):
            for batch in batches:
                examples[batch.task] += len(batch.indices)
    return schedule.steps, {name: examples[name] / size for name, size in sizes.items()}


def test_one_model_has_as_many_examples_as_three() -> None:
    """3, 1 and 4 passes over what this folder's data has: 8,544, 61,991 and 6,040 examples."""
    recipes = full_recipes("own/trio")
    alone = {"sst": 3 * 8_544, "qqp": 61_991, "sts": 4 * 6_040}
    for (row, member), recipe in recipes.items():
        if row == "as version 0.1":
            assert recipe.training.budget is None
            continue
        assert recipe.training.budget is not None
        expected = alone["sst"] if row == "sentiment alone with phrases" else alone.get(member, 112_000)
        assert recipe.training.budget.examples == expected, row
    assert recipes["as version 0.1", ""].training.epochs == 1
    assert describe_cost(STUDIES["own/trio"]).startswith("7 rows, 25 runs, "), "one row has one seed"


@pytest.mark.slow
def test_how_long_paper_b_samples() -> None:
    """With α = 1 an epoch is the full data, else 2,500 steps (section 3.3)."""
    recipes = full_recipes("papers/b1-main")
    steps, passes = steps_and_passes(recipes["multitask sampling (α = 1)", ""])
    assert steps == 97_560, "10 times 534 + 8,844 + 378"
    assert all(9 < count < 11 for count in passes.values()), passes
    for row in ("α = .5", "decreasing α", "α = 1, epochs of 2,500 steps"):
        assert steps_and_passes(recipes[f"multitask sampling ({row})", ""])[0] == 25_000
    shared = full_recipes("papers/b10-shared-pooler")
    assert steps_and_passes(shared["α = 1", ""])[0] == 97_560
    assert steps_and_passes(shared["decreasing α", ""])[0] == 25_000


@pytest.mark.slow
def test_paper_bs_combined_loss_passes_ten_times_over_sst() -> None:
    for row, recipe in full_recipes("papers/b8-combined-loss").items():
        assert steps_and_passes(recipe)[1]["sst"] == 10, row


def test_paper_as_configuration_d_is_shorter() -> None:
    epochs = {row: recipe.training.epochs for (row, _), recipe in full_recipes("papers/a15-configurations").items()}
    assert epochs.pop("Config D") == 150
    assert set(epochs.values()) == {200}


@pytest.mark.parametrize(
    ("name", "row", "same_name", "same_row"),
    [
        *(
            ("papers/b1-sampling", row, "papers/b1-main", row)
            for row in STUDIES["papers/b1-sampling"].at("full").variants
        ),
        ("papers/b10-shared-pooler", "naive", "papers/b1-main", "naive multitask, sentence concat"),
        ("papers/a12-rate-long", "1e-5", "papers/a14-hidden-long", "No Hidden Layer"),
        ("papers/a15-configurations", "Config A", "papers/a6-final", "Final model"),
        ("papers/a7-confusion-sst", "Final model", "papers/a6-final", "Final model"),
        ("papers/a7-confusion-quora", "Final model", "papers/a6-final", "Final model"),
    ],
)
def test_rows_that_are_one_training_share_it_at_full_scale(name: str, row: str, same_name: str, same_row: str) -> None:
    """Where a note or a comment says so."""
    recipes, same_recipes = row_settings(name, row), row_settings(same_name, same_row)
    assert recipes
    assert recipes == same_recipes


def figures_of(published: object) -> list[float]:
    """In the order of the columns, whether they are said to be of one model or of each task's best epoch."""
    assert isinstance(published, dict)
    return list(published.values())


@pytest.mark.slow
def test_paper_bs_rows_with_the_same_figures_are_one_model() -> None:
    """The ablations start from 'naive multitask, pooling in heads' of its table 1: same encoder, poolers and pairs."""
    table = STUDIES["papers/b1-main"]
    start = full_recipes("papers/b1-main")["naive multitask, pooling in heads", ""]
    figures = figures_of(table.published["naive multitask, pooling in heads"])
    compared: list[str] = []
    for name, study in STUDIES.items():
        if study.paper != "B":
            continue
        for row, published in study.published.items():
            if figures_of(published) == figures:
                recipe = full_recipes(name)[row, ""]
                compared.append(name)
                assert recipe.encoder == start.encoder, name
                training = recipe.training.model_copy(update={"frozen_dropout": start.training.frozen_dropout})
                assert training == start.training, name
                for task, settings in recipe.tasks.items():
                    assert settings.pooling == start.tasks[task].pooling, name
                    assert settings.encoding == start.tasks[task].encoding, name
                    assert settings.head == start.tasks[task].head, name
    assert len(compared) >= 8, compared


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.paper])
def test_nothing_is_on_at_full_scale_that_no_paper_prints(name: str) -> None:
    """No clipping, the best epoch by all of dev, and full precision but for paper D, which names a lower one."""
    study = STUDIES[name].at("full")
    base = base_recipe(study, {})
    assert base.training.max_grad_norm is None
    assert base.evaluate.max_examples is None
    assert base.training.precision == "float32" or study.paper == "D"
    for variant in study.variants.values():
        keys = {*variant.set, *variant.grid}
        assert not keys & {"training.max_grad_norm", "training.precision", "evaluate.max_examples"}


@pytest.mark.slow
@pytest.mark.parametrize("paper", [*CATALOGUE, ""])
def test_each_still_runs(paper: str, tmp_path: Path) -> None:
    """The first and last row of every study, in this process."""
    names = [name for name, study in STUDIES.items() if study.paper == paper]
    console = Console(file=(tmp_path / "told.txt").open("w"), width=200)
    reporter = Reporter(quiet=True)
    reporter.console = console
    failed = try_studies(names, tmp_path / "studies", ends=True, reporter=reporter)
    told = (tmp_path / "told.txt").read_text()
    assert not failed, told
    assert told.count(" runs in ") == len(names) > 0
    assert paper != "E" or "papers/e1-encodings: 2 runs" in told, "one seed of two rows"
