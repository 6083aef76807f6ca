"""Study files: rows, grids, one row per layer, one run per task; what is the same run; faults."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from manyheads.errors import UserError
from manyheads.studies.cost import describe_cost
from manyheads.studies.folder import StudyFolder
from manyheads.studies.identity import run_identity
from manyheads.studies.load import load_study
from manyheads.studies.study import OpenStudy
from manyheads.tasks.resolve import load_recipe

BASE = "scales/smoke"


def opened(folder: Path, scale: str | None = None, more: dict[str, Any] | None = None, /, **content: Any) -> OpenStudy:
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({"base": BASE, **content}, sort_keys=False))
    return OpenStudy(load_study(file).at(scale), StudyFolder(folder / "studies"), more or {})


def test_rows_and_seeds_in_order(tmp_path: Path) -> None:
    study = opened(tmp_path, variants={"a": {}, "b": {"training.epochs": 1}}, seeds=2, set={"training.batch_size": 4})
    assert [(one.row, one.member, one.seed) for _, one in study.runs] == [
        ("a", "", 0), ("a", "", 1), ("b", "", 0), ("b", "", 1),
    ]  # fmt: skip
    assert [one.recipe.training.epochs for _, one in study.runs] == [2, 2, 1, 1]
    assert {one.recipe.training.batch_size for _, one in study.runs} == {4}
    assert len({identity for identity, _ in study.runs}) == 4


def test_a_grid_is_the_product_of_its_values(tmp_path: Path) -> None:
    grid = {"training.batch_size": [8, 16], "training.learning_rate": [0.1, 0.2, 0.3]}
    study = opened(tmp_path, variants={"size {batch_size}": {"grid": grid}}, seeds=[3])
    assert [row.name for row in study.variant_rows][:2] == ["size 8 (learning_rate 0.1)", "size 8 (learning_rate 0.2)"]
    found = [(one.recipe.training.batch_size, one.recipe.training.learning_rate, one.seed) for _, one in study.runs]
    assert found == [(8, 0.1, 3), (8, 0.2, 3), (8, 0.3, 3), (16, 0.1, 3), (16, 0.2, 3), (16, 0.3, 3)]


def test_an_axis_of_several_keys_moves_them_together(tmp_path: Path) -> None:
    """Paper C's dropout: one number for the encoder's states, its attention and the heads."""
    axis = "encoder.dropout, encoder.attention_dropout, tasks.*.head.dropout"
    variants = {"{dropout}, {batch_size}": {"grid": {axis: [0.1, 0.3], "training.batch_size": [8, 16]}}}
    study = opened(tmp_path, variants=variants, seeds=1)
    assert [row.name for row in study.variant_rows] == ["0.1, 8", "0.1, 16", "0.3, 8", "0.3, 16"]
    for (_, run), rate in zip(study.runs, (0.1, 0.1, 0.3, 0.3), strict=True):
        encoder = run.recipe.encoder
        assert (encoder.dropout, encoder.attention_dropout) == (rate, rate)
        assert {task.head.options["dropout"] for task in run.recipe.tasks.values() if task.head} == {rate}
        assert all(task.head for task in run.recipe.tasks.values())
    with pytest.raises(UserError, match=r"sets encoder\.attention_dropout itself"):
        opened(tmp_path, None, {"encoder.attention_dropout": 0.2}, variants=variants).check()
    with pytest.raises(UserError, match="a study sets the seed of every run itself"):
        opened(tmp_path, variants={"a": {"grid": {"training.epochs, seed": [1, 2]}}})


def test_a_row_for_every_layer_and_a_run_for_every_task(tmp_path: Path) -> None:
    """Paper A's table 5, and paper B's smart round robin."""
    study = opened(
        tmp_path,
        variants={
            "Layer {layer}": {"each": ["layer", "task"], "training.trainable": ["{layer}"], "tasks": ["{task}"]},
            "smart": {"each": "task", "sampler": {"name": "epoch-round-robin", "order": "{last}"}},
        },
        seeds=1,
    )
    assert [row.name for row in study.variant_rows] == ["Layer 1", "Layer 2", "smart"], "the toy has two layers"
    runs = {(one.row, one.member): one.recipe for _, one in study.runs}
    assert len(runs) == 9
    assert runs["Layer 2", "qqp"].training.trainable == [2]
    assert list(runs["Layer 2", "qqp"].tasks) == ["qqp"]
    assert runs["smart", "qqp"].sampler.options["order"] == ["sst", "sts", "qqp"]
    assert runs["smart", "qqp"].evaluate.weights == {"sst": 0.0, "qqp": 1.0, "sts": 0.0}, "its best model is qqp's"


def test_a_scale_changes_single_rows(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "base": "scales/{scale}",
        "variants": {"a": {}, "b": {"training.epochs": 9, "training.batch_size": 3}},
        "scales": {"smoke": {"seeds": 1, "set": {"training.epochs": 4}, "variants": {"b": {"training.epochs": 5}}}},
    }
    runs = [planned for _, planned in opened(tmp_path, "smoke", **content).runs]
    epochs_and_sizes = [(run.row, run.recipe.training.epochs, run.recipe.training.batch_size) for run in runs]
    assert epochs_and_sizes == [("a", 4, 16), ("b", 5, 3)]
    assert opened(tmp_path, "small", **content).study.variants["b"].set["training.epochs"] == 9
    content["scales"]["smoke"]["variants"] = {"c": {}}
    with pytest.raises(UserError, match="variants: no variant 'c'"):
        opened(tmp_path, "smoke", **content)
    content["scales"]["smoke"]["variants"] = {"b": {"seed": 1}}
    with pytest.raises(UserError, match="a study sets the seed of every run itself"):
        opened(tmp_path, "smoke", **content)


def test_scales_change_base_seeds_and_settings(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "base": "scales/{scale}",
        "variants": {"a": {}, "b": {"training.epochs": 9}},
        "scales": {
            "smoke": {"seeds": 1, "leave_out": ["b"], "set": {"training.batch_size": 3}},
            "tiny": {"base": BASE, "seeds": [5]},
        },
    }
    smoke = opened(tmp_path, "smoke", **content)
    assert [(one.row, one.seed, one.recipe.training.batch_size) for _, one in smoke.runs] == [("a", 0, 3)]
    assert smoke.study.name == "mine-smoke"
    assert [(one.row, one.seed) for _, one in opened(tmp_path, "tiny", **content).runs] == [("a", 5), ("b", 5)]
    assert opened(tmp_path, None, **content).study.base == "scales/small"
    with pytest.raises(UserError, match=r"no scale 'tny'\. Did you mean 'tiny'") as refused:
        opened(tmp_path, "tny", **content)
    assert refused.value.code == "unknown-scale"


def test_one_variant_does_not_change_the_next(tmp_path: Path) -> None:
    common = {"combine": {"losses": "mean"}}
    study = opened(tmp_path, set=common, variants={"a": {"combine.gradients": "pcgrad"}, "b": {}}, seeds=1)
    assert [one.recipe.combine.gradients is None for _, one in study.runs] == [False, True]


def test_what_a_row_says_has_the_last_word(tmp_path: Path) -> None:
    study = opened(
        tmp_path,
        set={"tasks.*.pooling": "mean", "tasks.sst.pooling": "first", "sampler": "proportional", "sampler.alpha": 0.5},
        variants={"a": {}, "b": {"tasks.*.pooling": "last", "sampler": "epoch-round-robin"}},
        seeds=1,
    )
    first, second = (one.recipe for _, one in study.runs)
    assert [task.pooling.name for task in first.tasks.values() if task.pooling] == ["first", "mean", "mean"]
    assert [task.pooling.name for task in second.tasks.values() if task.pooling] == ["last", "last", "last"]
    assert (first.sampler.options, second.sampler.options) == ({"alpha": 0.5}, {})


def test_what_is_the_same_run(tmp_path: Path, toy_encoder: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("text,label\ngood film,1\nbad film,0\n" * 5)

    def identity(**changes: Any) -> str:
        recipe = {"tasks": {"a": {"train": "a.csv"}}, "data": {"root": str(data)}, "encoder": str(toy_encoder)}
        return run_identity(load_recipe({**recipe, **changes}))

    same = identity()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(toy_encoder, elsewhere)
    moved = tmp_path / "moved"
    shutil.copytree(data, moved)
    assert identity(name="other", description="x", output="y", encoder=str(elsewhere)) == same
    assert identity(data={"root": str(moved)}) == same, "the same bytes in another folder"
    assert identity(checkpoint={"every_steps": 7}) == same
    assert identity(training={"budget": {"passes": 3}}) == same, "which is the default"
    assert identity(seed=1) != same
    assert identity(training={"epochs": 4}) != same
    (data / "a.csv").write_text("text,label\ngood film,1\nbad book,0\n" * 5)
    assert identity() != same
    assert identity(data={"root": str(moved)}, encoder="toy") != same


@pytest.mark.parametrize(
    ("content", "message", "code"),
    [
        ({"variants": {}}, "variants", None),
        (
            {"variants": {"a": {"training.epochs": 0}}},
            r"(?s)mine\.yaml:\d+: variants\.a: .*training\.epochs",
            None,
        ),
        ({"variants": {"a": {"nonsense": 1}}}, "nonsense: unknown key", None),
        ({"variants": {"a": {}}, "sed": 3}, "sed: unknown key. Did you mean 'seeds'", None),
        ({"variants": {"a": "epochs"}}, "expected settings by dotted key", None),
        ({"variants": {"a": {}}, "seeds": 0}, "seeds: expected a number of seeds", None),
        ({"variants": {"a": {}}, "seeds": "three"}, "seeds: expected a number of seeds", None),
        ({"variants": {"a": {}}, "seeds": []}, "seeds: expected a number of seeds", None),
        (
            {"variants": {"a": {}}, "scales": {"x": {"seeds": [1, 1]}}},
            "scales.x.seeds: expected a number of seeds",
            None,
        ),
        (
            {"variants": {"a": {}}, "scales": {"x": {"leave_out": ["b"]}}},
            "leave_out: no variant 'b'",
            "unknown-variant",
        ),
        (
            {"variants": {"a": {}}, "scales": {"x": {"leave_out": ["a"]}}},
            "nothing is left to compare",
            "nothing-to-compare",
        ),
        ({"variants": {"a": {"seed": 5}}}, "variants.a: a study sets the seed", "seed-is-set"),
        (
            {"variants": {"a": {"training.epochs": None, "training.budget.minutes": 5}}},
            "minutes differ from run to run",
            "minutes-in-study",
        ),
        ({"variants": {"a": {"grid": {"training.epochs": []}}}}, "grid.training.epochs", None),
        ({"variants": {"a": {}}, "metrics": ["sst", "sst"]}, "'sst' is named twice", None),
        ({"variants": {"a": {}}, "metrics": ["sts", "st"]}, "metrics: no task 'st'. Did you mean", "unknown-task"),
        ({"variants": {"a": {}}, "metrics": ["sst.acuracy"]}, "metrics: .*Did you mean 'accuracy'", "unknown-metric"),
        ({"variants": {"a": {}}, "metrics": ["overall"], "layout": "confusion"}, "is of one task", "no-task"),
        ({"variants": {"a": {}}, "published": {"b": {"sst": 0.5}}}, "published.b: no row 'b'", "unknown-row"),
        (
            {"variants": {"a": {}}, "published": {"a": {"sat": 0.5}}},
            "published.a.sat: no column 'sat'",
            "unknown-column",
        ),
        ({"variants": {"a": {}}, "base": "nowhere.yaml"}, "No recipe 'nowhere.yaml'", None),
        ({"variants": {"a": {}}, "to": "b"}, "no row 'b'", "unknown-row"),
        ({"variants": {"a": {"each": "task"}}, "baselines": "single-task"}, "is not one run", "several-runs"),
        (
            {"variants": {"a": {}, "sst alone": {}}, "baselines": "single-task"},
            "two rows are called 'sst alone'",
            "repeated-row",
        ),
        (
            {"variants": {"a": {"phases": [{"epochs": 1}]}}, "baselines": "single-task", "equal": "steps"},
            "equal: row 'a' has phases",
            "has-phases",
        ),
        (
            {"variants": {"a": {}}, "published": {"a": {"sst": "high"}}},
            "published: a: expected figures by column",
            None,
        ),
        ({"variants": {"a": {}}, "published": {"a": 0.5}}, "published: a: expected figures by column", None),
        ({"variants": {"a": {}}, "published": {"a": [1, 2]}}, "published: a: expected figures by column", None),
        ({"variants": {"a": {"set": 1}}}, "set: expected settings by dotted key", None),
        ({"variants": {"a": {}}, "metrics": ["overall.f1"]}, "'overall' has no metrics of its own", "unknown-metric"),
        (
            {"variants": {"a": {}}, "published": {"a": [[1, 2], [3]]}},
            "a: expected as many counts in every row",
            None,
        ),
        (
            {"variants": {"a": {}}, "published": {"a": [[1, 2], [3, 4]]}},
            "expected figures by column, .* is 'rows'",
            "published-figures",
        ),
        (
            {"variants": {"a": {}}, "published": {"a": {"sst": 0.5}}, "metrics": ["sst"], "layout": "confusion"},
            "expected rows of counts, for the layout is 'confusion'",
            "published-figures",
        ),
        ({"variants": {"a": {}}, "equal": "steps"}, "there are none; add baselines", None),
        (
            {"variants": {"a": {"training": {"epochs": 1}}}},
            r"variants\.a\.training: would replace .*training\.epochs",
            "section-replaced",
        ),
        (
            {"variants": {"a": {}}, "set": {"tasks.sst": {"loss": "mse"}}},
            r"set\.tasks\.sst: would replace",
            "section-replaced",
        ),
        ({"variants": {"a": {}}, "name": "../b"}, "name: '../b' cannot be a file's or folder's name", None),
    ],
)
def test_faults_are_said(content: dict[str, Any], message: str, code: str | None, tmp_path: Path) -> None:
    def open_all() -> None:
        study = opened(tmp_path, **content)
        _ = study.reference
        study.check()

    with pytest.raises(UserError, match=message) as refused:
        open_all()
    assert code in (refused.value.code, None), "faults of types and recipes have the codes of those"


@pytest.mark.parametrize(
    ("content", "more", "location"),
    [
        (
            {"variants": {"a": {"grid": {"training.epochs": [1, "x"]}}}},
            {},
            r"mine\.yaml:\d+: variants\.a: smoke.yaml .*\n +training",
        ),
        (
            {"variants": {"a": {"each": "layer", "training.epocs": 1}}},
            {},
            r"mine\.yaml:\d+: variants\.a: smoke.yaml .*\n +training",
        ),
        ({"variants": {"a": {"tasks.sst.train": "no.csv"}}}, {}, r"mine\.yaml:\d+: variants\.a: .*no file 'no\.csv'"),
        (
            {"set": {"training.epocs": 1}},
            {},
            r"mine\.yaml:\d+: set\.training\.epocs: smoke.yaml .*\n +training\.epocs: unknown",
        ),
        (
            {"scales": {"s": {"set": {"seeed": 1}}}},
            {},
            r"mine\.yaml:\d+: scales\.s\.set\.seeed: smoke.yaml .*\n +seeed: unknown",
        ),
        ({}, {"training.epocs": 1}, r"^smoke.yaml .*\n +command line: training\.epocs: unknown"),
        ({"base": "base.yaml"}, {}, r"mine\.yaml:1: base: base.yaml .*\n +base\.yaml:2: training\.epocs: unknown"),
        ({"set": {"encoder": "no"}, "variants": {"a": {"each": "layer"}}}, {}, r"mine\.yaml:\d+: variants\.a\.each: "),
    ],
)
def test_a_fault_is_found_where_it_was_written(
    content: dict[str, Any], more: dict[str, Any], location: str, tmp_path: Path
) -> None:
    (tmp_path / "base.yaml").write_text("tasks: {sst: {train: a.csv}}\ntraining: {epocs: 3}\n")
    with pytest.raises(UserError, match=location):
        opened(tmp_path, "s" if "scales" in content else None, more, **{"variants": {"a": {}}, **content}).check()


@pytest.mark.parametrize(
    ("more", "own", "message"),
    [
        ({"sampler": "uniform"}, {"sampler": "proportional"}, "sampler: row 'b' sets sampler itself"),
        ({"sampler.alpha": 1}, {"sampler": "proportional"}, "sampler.alpha: row 'b' sets sampler itself"),
        ({"tasks.sst.loss": "mse"}, {"tasks.*.loss": "mse"}, r"tasks.sst.loss: row 'b' sets tasks.\*.loss itself"),
        ({"training.epochs": 1}, {"grid": {"training.epochs": [1]}}, "training.epochs: row 'b' sets training.epochs"),
        ({"tasks": ["sst", "sts"]}, {"tasks": ["qqp"]}, "tasks: row 'b' trains 'qqp', which is left out"),
    ],
)
def test_the_command_line_changes_nothing_that_tells_rows_apart(
    more: dict[str, Any], own: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"command line: {message}") as refused:
        opened(tmp_path, None, more, variants={"a": {}, "b": own}).check()
    assert refused.value.code == "set-by-row"


def test_fewer_tasks_for_all_rows_leave_a_run_for_each_of_them(tmp_path: Path) -> None:
    single = {"each": "task", "tasks": ["{task}"], "set": {"training.epochs": 1}}
    study = opened(
        tmp_path,
        None,
        {"tasks": ["sst", "sts"], "tasks.sst.loss": "ordinal-log-loss", "sampler": "proportional"},
        variants={"all": {}, "single": single},
        seeds=1,
        baselines="single-task",
        equal="steps",
    )
    study.check()
    found = {(one.row, one.member): one.recipe for _, one in study.runs}
    assert {key: list(recipe.tasks) for key, recipe in found.items()} == {
        ("all", ""): ["sst", "sts"], ("single", "sst"): ["sst"], ("single", "sts"): ["sts"],
        ("sst alone, equal steps", ""): ["sst"], ("sts alone, equal steps", ""): ["sts"],
    }  # fmt: skip
    assert {recipe.tasks["sst"].loss.name for recipe in found.values() if "sst" in recipe.tasks} == {"ordinal-log-loss"}
    assert found["single", "sst"].training.epochs == 1
    assert found["all", ""].sampler.name == "proportional"
    assert found["sst alone, equal steps", ""].sampler.name == "batch-round-robin", "what a baseline is is not for all"


def test_at_equal_steps_a_task_alone_has_the_steps_of_the_row_it_is_compared_with(tmp_path: Path) -> None:
    variants = {"base": {}, "short": {"training.epochs": 1}}
    study = opened(tmp_path, variants=variants, to="short", baselines="single-task", equal="steps", seeds=1)
    alone = [one.recipe for _, one in study.runs if "alone" in one.row]
    assert [one.phases[0].steps for one in alone] == [6, 6, 6], "96 examples of qqp in batches of 16; the base has 8"


def test_what_a_study_costs(tmp_path: Path) -> None:
    variants = {"all": {}, "short": {"training.max_steps": 3}, "one": {"tasks": ["sts"], "training.epochs": 1}}
    cost = describe_cost(opened(tmp_path, variants=variants, seeds=2).study)
    # a step has 16 examples of each of three tasks; sts alone has 32 in one epoch
    assert cost == f"3 rows, 6 runs, {2 * (8 * 48 + 3 * 48 + 32):,} examples"
    free = {"variants": {"all": {"tasks.sst.max_train": None}}, "seeds": 1}
    assert describe_cost(opened(tmp_path, **free).study) == "1 row, 1 run", "only the data would tell"


def test_leaving_tasks_out_leaves_out_what_names_them() -> None:
    recipe = load_recipe(
        BASE,
        {
            "tasks": ["sst"],
            "tasks.qqp.encoding": "bi-concat",
            "tasks.*.pooling": "mean",
            "combine.losses": {"name": "fixed", "weights": {"sst": 0.5, "qqp": 1}},
            "sampler": {"name": "batch-round-robin", "until": "qqp"},
            "regularise": [{"name": "smart", "tasks": ["sst", "qqp"]}],
            "evaluate.weights": {"qqp": 1},
        },
    )
    assert list(recipe.tasks) == ["sst"]
    assert recipe.combine.losses.options == {"weights": {"sst": 0.5}}
    assert recipe.sampler.options == {}
    assert recipe.regularise[0].options["tasks"] == ["sst"]
    assert recipe.evaluate.weights == {}


def test_what_was_for_left_out_tasks_alone_is_not_for_the_others() -> None:
    """A regulariser, or a phase, that names no tasks is for all of them."""
    smart = {"name": "smart", "tasks": ["sst", "qqp"]}
    phases = [{"tasks": ["qqp"], "epochs": 1}, {"epochs": 2, "regularise": [smart]}, {"epochs": 3, "regularise": "l2"}]
    recipe = load_recipe(BASE, {"tasks": ["sts"], "regularise": [smart, "r-drop"], "phases": phases})
    assert [part.name for part in recipe.regularise] == ["r-drop"]
    assert recipe.phases is not None
    assert [phase.epochs for phase in recipe.phases] == [2, 3]
    assert recipe.phases[0].regularise == [], "not the recipe's own, which it replaced"
