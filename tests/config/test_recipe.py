"""Reading recipes: defaults, faults with their places, overrides, paths, shipped recipes, writing back."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from manyheads import train
from manyheads.config.load import load_run_recipe, shipped_recipes
from manyheads.config.location import COMMAND_LINE
from manyheads.config.overrides import parse_overrides
from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.registry import parts
from manyheads.tasks.load import load_tasks
from manyheads.tasks.resolve import load_recipe

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        file = tmp_path / "mine.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return to_file


def faults(source: Path | dict[str, Any], overrides: list[str] | None = None) -> list[str]:
    """The lines of the message, without its first one, which counts them."""
    with pytest.raises(UserError) as caught:
        load_recipe(source, parse_overrides(overrides or []), COMMAND_LINE)
    first, *rest = str(caught.value).split("\n")
    assert first.endswith(f"has {len(rest)} faults:" if len(rest) > 1 else "has a fault:")
    return [line.strip() for line in rest]


def one_task(**settings: Any) -> dict[str, Any]:
    return {"tasks": {"t": {"train": "x.csv", **settings}}}


# --- what need not be said -------------------------------------------------------------------------------------


def test_three_lines_are_a_whole_recipe(toy_data: Path) -> None:
    file = toy_data / "short.yaml"
    file.write_text("tasks:\n  mood:\n    train: mood.csv\n")
    recipe = load_recipe(file)
    assert (recipe.name, recipe.folder) == ("short", Path("runs/short"))
    assert (recipe.encoder.name, recipe.sampler.name, recipe.combine.losses.name) == (
        "all-MiniLM-L6-v2",
        "mixture",
        "sum",
    )
    data = load_tasks(recipe)["mood"]
    assert data.task.columns.text == ("sentence",)
    assert data.task.columns.label == "label"
    assert data.task.kind.name == "classification"
    assert data.task.labels.names == ("0", "1", "2", "3")
    assert (data.task.encoding.name, data.task.loss.name) == ("single", "cross-entropy")
    assert (len(data.train), len(data.dev), data.test) == (36, 4, None)
    assert data.notes == [
        "mood: no dev data; 4 rows of train are held out as dev",
        "mood: too few rows to hold some out, so its dev chooses checkpoints",
    ]


def test_short_forms_of_sources() -> None:
    task = load_recipe(one_task(dev=["a.tsv", "demo:sentiment"], test="hub:some/name")).tasks["t"]
    assert [source.file for source in task.train] == ["x.csv"]
    assert task.dev is not None
    assert task.test is not None
    assert [(source.file, source.demo) for source in task.dev] == [("a.tsv", None), (None, "sentiment")]
    assert task.test[0].hub == "some/name"
    windows = load_recipe(one_task(train="C:/data/x.csv")).tasks["t"]
    assert windows.train[0].file == "C:/data/x.csv"


def test_parts_are_a_name_or_a_name_with_options() -> None:
    task = load_recipe(one_task(encoding={"name": "cross", "segments": "false"}, loss="mse")).tasks["t"]
    assert task.encoding is not None
    assert (task.encoding.name, task.encoding.options) == ("cross", {"segments": False})
    (frame,) = task.encoding.build("encodings", 16).frames
    assert frame.segments is False
    assert task.loss is not None
    assert (task.loss.name, task.loss.options) == ("mse", {})


def test_yes_and_no_are_words_so_that_labels_can_be_called_so(write: Write) -> None:
    recipe = load_recipe(
        write("evaluate: {before: yes}\ntasks: {t: {train: x.csv, labels: [no, yes, On, true, 0, 1.5, 'off']}}\n")
    )
    assert recipe.tasks["t"].labels == ["no", "yes", "On", "true", "0", "1.5", "off"]
    assert recipe.evaluate.before is True


def test_a_task_may_be_called_by_a_number(write: Write) -> None:
    assert list(load_recipe(write("tasks:\n  2024:\n    train: x.csv\n")).tasks) == ["2024"]


# --- faults ----------------------------------------------------------------------------------------------------


def test_every_fault_is_reported_at_once_with_key_and_line(write: Write) -> None:
    file = write(
        """\
# a comment moves the lines
encodr: bert-base-uncased
tasks:
  near:
    train:
      fil: near.tsv
      split: train
    batch_size: 0
  mood:
    train:
      - mood.csv
      - {file: more.csv, optinal: true}
    loss: msee
    predictions:
      column: x
      format: xml
  far:
    dev: far.csv
sampler:
  name: batch-round-robin
  untl: near
training:
  epochs: many
"""
    )
    assert sorted(faults(file), key=lambda line: int(line.split(":")[1])) == [
        "mine.yaml:2: encodr: unknown key. Did you mean 'encoder'? Known: checkpoint, combine, data, defaults, "
        "description, distill, encoder, evaluate, extends, imports, init, name, output, phases, pretrain, regularise, "
        "report, sampler, seed, tasks, teachers, trackers, training.",
        "mine.yaml:6: tasks.near.train.fil: unknown key. Did you mean 'file'? Known: columns, config, demo, "
        "escapes, file, format, hub, leave_out, limit, optional, phrases, quoting, revision, split, weight.",
        "mine.yaml:8: tasks.near.batch_size: Input should be greater than or equal to 1 (found 0)",
        "mine.yaml:12: tasks.mood.train.optinal: unknown key. Did you mean 'optional'? Known: columns, config, demo, "
        "escapes, file, format, hub, leave_out, limit, optional, phrases, quoting, revision, split, weight.",
        "mine.yaml:13: tasks.mood.loss: unknown loss 'msee'. Did you mean 'mse'? "
        f"Known: {', '.join(part.name for part in parts('losses'))}.",
        "mine.yaml:16: tasks.mood.predictions.format: Input should be 'csv' or 'course' (found 'xml')",
        "mine.yaml:17: tasks.far.train: missing.",
        "mine.yaml:19: sampler: 'batch-round-robin' has no option 'untl'. Did you mean 'until'? Known: step, until.",
        "mine.yaml:23: training.epochs: expected a whole number (found 'many')",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, "tasks: missing. A recipe needs at least one task"),
        ({"tasks": {}}, "tasks: Dictionary should have at least 1 item"),
        ({"tasks": {"a b": {"train": "x.csv"}}}, "tasks: task name 'a b': use letters, digits"),
        (one_task(train=[]), "tasks.t.train: List should have at least 1 item"),
        (one_task(train={"file": "x.csv", "hub": "y"}), "tasks.t.train: expected exactly one of 'file', 'hub', 'demo'"),
        (one_task(train={"split": "train"}), "tasks.t.train: expected exactly one of 'file', 'hub', 'demo'"),
        (one_task(text=["a", "b", "c"]), "tasks.t.text: List should have at most 2 items"),
        (one_task(labels=5), "tasks.t.labels: expected a list of classes, or a map"),
        (one_task(range=[5, 0]), "tasks.t.range: expected the smallest label, then the largest, found [5.0, 0.0]"),
        (one_task(pooling=3), "tasks.t.pooling: expected a name, or a mapping with 'name' and options, found 3"),
        (one_task(encoding={"name": "cross", "segments": 7}), "tasks.t.encoding: option 'segments' of 'cross': Input"),
        (one_task(predictions={"file": "{tsk}-{split}"}), "'{tsk}-{split}': only {task} and {split} are filled in"),
        (
            one_task(predictions={"file": "x.csv"}),
            "tasks.t.predictions.file: 'x.csv': expected a file's name with {split}",
        ),
        ({**one_task(), "budget": {"minutes": 8}}, "budget: unknown key. Did you mean 'training.budget'? Known: "),
        ({**one_task(), "label": "mood"}, "label: unknown key. Did you mean 'tasks.NAME.label'? Known: "),
        (
            {**one_task(), "training": {"budget": 8}},
            "training.budget: expected a mapping with examples, minutes, passes, steps (found 8)",
        ),
        ({**one_task(), "report": "maybe"}, "report: expected true or false (found 'maybe')"),
        ({**one_task(), "name": "a/b"}, "name: 'a/b' cannot be a file's or folder's name"),
        ({**one_task(), "training": {"betas": [0.9, 1]}}, "training.betas: Input should be less than 1"),
        ({**one_task(), "encoder": {"dropout": 1}}, "encoder.dropout: Input should be less than 1"),
        ({**one_task(), "distill": {"gold": 2}}, "distill.gold: Input should be 'annealed' or less than or equal to 1"),
        ({**one_task(), "evaluate": {"select": 2}}, "evaluate.select: Input should be less than 1 or 'auto' (found 2)"),
    ],
)
def test_impossible_values_are_refused(content: dict[str, Any], expected: str) -> None:
    (fault,) = faults(content)
    assert expected in fault


def test_two_tasks_may_not_write_the_same_prediction_file() -> None:
    same = {"train": "x.csv", "predictions": {"file": "{split}.csv"}}
    (fault,) = faults({"tasks": {"a": same, "b": same}})
    assert "tasks 'a' and 'b' would both write their predictions to dev.csv" in fault
    load_recipe({"tasks": {"a": same, "b": {"train": "x.csv"}}})


def test_tasks_that_share_a_name_are_refused_with_both_lines(write: Write) -> None:
    file = write("tasks:\n  a:\n    train: x.csv\n    train: y.csv\n  b: {train: z.csv}\n  a: {train: z.csv}\n")
    with pytest.raises(UserError) as caught:
        load_recipe(file)
    assert str(caught.value).split("\n") == [
        "mine.yaml:4: tasks.a.train: this key already stands in line 3. Give each key a name of its own.",
        "mine.yaml:6: tasks.a: this task already stands in line 2. Give each task a name of its own.",
    ]


@pytest.mark.parametrize(
    ("text", "expected", "code"),
    [
        ("tasks:\n  a: [1, 2\n", "mine.yaml:3: not valid YAML: expected ',' or ']'", "bad-yaml"),
        ("tasks:\n\ta: 1\n", "mine.yaml:2: not valid YAML: found character '\\t'", "bad-yaml"),
        ("tasks: \x07", "mine.yaml: not valid YAML", "bad-yaml"),
        ("", "mine.yaml: expected keys and values, such as\n  tasks:", "no-keys"),
        ("- a\n- b\n", "mine.yaml: expected keys and values", "no-keys"),
    ],
)
def test_broken_yaml_is_refused_with_its_line(write: Write, text: str, expected: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(write(text))
    assert str(caught.value).startswith(expected)
    assert caught.value.code == code


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"tasks: caf\xe9")
    with pytest.raises(UserError, match="not a text file in UTF-8") as caught:
        load_recipe(tmp_path / "bad.yaml")
    assert caught.value.code == "not-utf-8"


# --- overrides -------------------------------------------------------------------------------------------------


def test_override_values_are_yaml() -> None:
    words = ["a.b=1", "c=1e-5", "d=[x, 2]", "e=null", "f={g: true}", "h=yes", "i=a=b", "j="]
    assert parse_overrides(words) == {
        "a.b": 1,
        "c": "1e-5",  # YAML wants 1.0e-5; the recipe's types make it a number
        "d": ["x", 2],
        "e": None,
        "f": {"g": True},
        "h": "yes",
        "i": "a=b",
        "j": None,
    }


@pytest.mark.parametrize("word", ["training.epochs", "=1", "a=[1"])
def test_malformed_override_is_quoted_back(word: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_overrides([word])
    assert str(caught.value).startswith(f"Override '{word}': ")


def test_overrides_replace_and_add_by_dotted_key(write: Write) -> None:
    file = write(
        "encoder: my-encoder\nsampler: mixture\ntasks: {a: {train: x.csv}}\ntraining: {epochs: 2, max_grad_norm: 3}\n"
    )
    words = [
        "training.epochs=7",
        "training.learning_rate=1e-5",
        "encoder.dropout=0.2",
        "sampler.max_passes=2",
        "tasks.b.train=y.csv",
        "data.bad_rows=skip",
    ]
    recipe = load_recipe(file, parse_overrides(words))
    assert (recipe.training.epochs, recipe.training.max_grad_norm, recipe.training.learning_rate) == (7, 3.0, 1e-5)
    assert (recipe.encoder.name, recipe.encoder.dropout) == ("my-encoder", 0.2)
    assert (recipe.sampler.name, recipe.sampler.options) == ("mixture", {"max_passes": 2.0})
    assert [task.train[0].file for task in recipe.tasks.values()] == ["x.csv", "y.csv"]
    assert recipe.data.bad_rows == "skip"


def test_a_number_with_an_exponent_is_a_number_in_the_file_too(write: Write) -> None:
    file = write("tasks: {a: {train: x.csv}}\ntraining:\n  learning_rate: 1e-5\n")
    assert load_recipe(file).training.learning_rate == 1e-5


def test_faults_of_overrides_name_the_command_line(write: Write) -> None:
    file = write("tasks:\n  a:\n    train: x.csv\n    pooling: head-pooler\ntraining:\n  epochs: 2\n  warmup: 7\n")
    words = [
        "training.epochs=0",
        "traning.max_grad_norm=1",
        "tasks.a.pooling=maxx",
        "data.bad_rows=drop",
        "tasks.a.train={fil: x}",
    ]
    assert [fault.split(" ")[:3] for fault in faults(file, words)] == [
        ["command", "line:", "data.bad_rows:"],
        ["command", "line:", "tasks.a.train.fil:"],
        ["command", "line:", "tasks.a.pooling:"],
        ["command", "line:", "training.epochs:"],
        ["mine.yaml:7:", "training.warmup:", "Input"],
        ["command", "line:", "traning:"],
    ]


def test_faults_of_a_programs_overrides_do_not_blame_the_command_line(write: Write) -> None:
    file = write("tasks: {a: {train: x.csv}}\n")
    with pytest.raises(UserError) as caught:
        load_recipe(file, {"training.epochs": 0, "tasks.a.los": "mse"})
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()[1:]] == [
        ["  overrides", "tasks.a.los"],
        ["  overrides", "training.epochs"],
    ]
    with pytest.raises(UserError, match=r"^overrides: tasks: no task 'b' in mine\.yaml"):
        load_recipe(file, {"tasks": ["b"]})


@pytest.mark.parametrize(
    ("source", "overrides", "code"),
    [
        (None, None, "bad-recipe"),
        ([one_task()], None, "bad-recipe"),
        (3, None, "bad-recipe"),
        (one_task(), [("seed", 1)], "bad-override"),
        (one_task(), {1: 2}, "bad-override"),
        (one_task(), True, "bad-override"),
    ],
)
def test_what_is_no_recipe_or_no_override_is_refused(source: Any, overrides: Any, code: str) -> None:
    for read in (load_recipe, train):
        with pytest.raises(UserError, match="expected a ") as caught:
            read(source, overrides)
        assert caught.value.code == code
    with pytest.raises(UserError, match="give them to `load_recipe`"):
        train(load_recipe(one_task()), {"seed": 1})


def test_paths_may_be_paths(tmp_path: Path) -> None:
    content = {"tasks": {"a": {"train": [tmp_path / "a.csv"]}}, "encoder": tmp_path, "data": {"root": tmp_path}}
    recipe = load_recipe(content, {"output": tmp_path / "runs", "tasks.a.dev": tmp_path / "b.csv"})
    assert recipe.tasks["a"].train[0].file == str(tmp_path / "a.csv")
    assert recipe.tasks["a"].dev is not None
    assert recipe.tasks["a"].dev[0].file == str(tmp_path / "b.csv")
    assert (recipe.encoder.name, recipe.data.root, recipe.folder) == (
        str(tmp_path),
        str(tmp_path),
        tmp_path / "runs/run",
    )
    assert content["encoder"] is tmp_path, "what was given is not changed"


def test_an_override_cannot_go_below_a_plain_value(write: Write) -> None:
    with pytest.raises(UserError, match=r"overrides: seed\.x: 'seed' is not a mapping in mine\.yaml"):
        load_recipe(write("seed: 3\ntasks: {a: {train: x.csv}}\n"), {"seed.x": 1})


def test_an_override_of_a_task_that_is_not_there_is_misspelt_unless_it_brings_files(write: Write) -> None:
    file = write("tasks: {mood: {train: x.csv}}\n")
    with pytest.raises(UserError, match=r"overrides: tasks\.mod\.loss: no task 'mod'\. Did you mean 'mood'\?"):
        load_recipe(file, {"tasks.mod.loss": "mse"})
    added = load_recipe(file, {"tasks.new.train": "y.csv", "tasks.new.loss": "mse"})
    assert list(added.tasks) == ["mood", "new"]


def test_overrides_leave_the_given_dict_alone() -> None:
    content = one_task()
    assert load_recipe(content, {"tasks.t.label": "y"}).tasks["t"].label == "y"
    assert content == one_task()


# --- files and folders -----------------------------------------------------------------------------------------


def test_data_root_is_relative_to_the_recipe_or_on_the_command_line_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipes").mkdir()
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    plain, rooted = tmp_path / "recipes" / "plain.yaml", tmp_path / "recipes" / "rooted.yaml"
    plain.write_text("tasks: {a: {train: x.csv}}")
    rooted.write_text("data: {root: ../data}\ntasks: {a: {train: x.csv}}")

    def root(source: Path | str | dict[str, Any], **overrides: Any) -> str | None:
        return load_recipe(source, {f"data.{key}": value for key, value in overrides.items()}).data.root

    assert root(plain) == str(tmp_path / "recipes")
    assert root(Path("../recipes/plain.yaml")) == str(tmp_path / "recipes")
    assert root(rooted) == str(tmp_path / "data")
    assert root(plain, bad_rows="skip") == str(tmp_path / "recipes")
    assert root(rooted, root="files") == str(here / "files")
    assert root(rooted, root=str(tmp_path)) == str(tmp_path)
    assert root(rooted, root="~/files") == str(tmp_path / "files")
    assert root(one_task()) == str(here)
    assert root("best") == str(here)  # a shipped recipe's own folder holds no data


def test_a_recipe_written_out_reads_back_as_the_same(tmp_path: Path) -> None:
    content = {
        "encoder": {"name": "x", "dropout": 0.1},
        "tasks": {
            "a": {"train": "x.csv", "labels": {0: "no", 1: "yes"}, "encoding": {"name": "cross", "segments": False}},
            "b": {"train": ["hub:x", {"file": "y.csv", "optional": True}], "dev": "demo:similarity", "range": [0, 5]},
        },
        "sampler": {"name": "batch-round-robin", "until": "b"},
        "training": {"learning_rate": 1e-7, "max_grad_norm": None},
        "description": "café",
    }
    recipe = load_recipe(content)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    again = load_recipe(tmp_path / "recipe.yaml")
    assert again.model_dump() == recipe.model_dump()
    assert again.tasks["a"].labels == {"0": "no", "1": "yes"}
    assert again.sampler.options == {"until": "b"}
    assert again.training.max_grad_norm is None
    written = yaml.safe_load(recipe.to_yaml())
    assert set(written["training"]) == set(type(recipe.training).model_fields), "every default is written out"


def test_a_shipped_recipe_goes_by_its_name() -> None:
    recipe = load_recipe("best", {"training.epochs": 2})
    assert (recipe.name, list(recipe.tasks), recipe.training.epochs) == ("best", ["sst", "qqp", "sts"], 2)
    with pytest.raises(UserError, match=r"No recipe 'bset': there is no such file.*Did you mean 'best'"):
        load_recipe("bset")


def test_three_lines_get_what_the_best_recipe_says(tmp_path: Path) -> None:
    """Without all that is not about data, it is the same recipe: its settings are the defaults."""
    (tmp_path / "ids-sst-train.csv").write_text("sentence,sentiment\n" + "".join(f"a {i},{i % 5}\n" for i in range(40)))
    for file, label in (("quora-train.csv", "is_duplicate"), ("sts-train.csv", "similarity")):
        rows = "".join(f"one {i},other {i},{i % 2}\n" for i in range(40))
        (tmp_path / file).write_text(f"sentence1,sentence2,{label}\n{rows}")
    about_data = {"train", "text", "label", "kind", "labels", "range"}
    best = yaml.safe_load((resources.files("manyheads") / "recipes" / "best.yaml").read_text())
    said = set(best) | {key for task in best["tasks"].values() for key in task}
    assert {"sampler", "combine", "training", "encoding", "pooling", "head", "loss"} <= said
    short = {name: {key: one for key, one in task.items() if key in about_data} for name, task in best["tasks"].items()}
    long = {name: {key: one for key, one in task.items() if key not in ("dev", "test", "predictions")}
            for name, task in best["tasks"].items()}  # fmt: skip
    here = {"data": {"root": str(tmp_path)}, "name": "same"}
    one = load_recipe({**{key: value for key, value in best.items() if key != "description"}, **here, "tasks": long})
    other = load_recipe({**here, "tasks": short})
    assert {**one.model_dump(), "tasks": None} == {**other.model_dump(), "tasks": None}
    for (name, full), brief in zip(load_tasks(one).items(), load_tasks(other).values(), strict=True):
        assert full.task == brief.task, name


def test_a_file_goes_before_a_shipped_recipe_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_text("tasks: {mine: {train: x.csv}}")
    assert list(load_recipe("demo").tasks) == ["mine"]


def test_every_shipped_recipe_loads_and_says_what_it_is() -> None:
    shipped = shipped_recipes()
    scales = [
        f"scales/{scale}{more}" for scale in ("full", "small", "smoke") for more in ("-reviews", "-board", "-trio", "")
    ]
    assert sorted(shipped) == sorted(["demo", "best", *scales])
    for name in shipped:
        recipe = load_recipe(name)
        assert recipe.name == Path(name).name
        assert recipe.description.endswith(".")


def test_demo_recipe_reads_its_three_tasks() -> None:
    data = load_tasks(load_recipe("demo"))
    assert {name: (one.task.kind.name, one.task.encoding.name, one.task.loss.name) for name, one in data.items()} == {
        "sentiment": ("ordinal", "single", "cross-entropy"),
        "paraphrase": ("classification", "cross", "binary-cross-entropy"),
        "similarity": ("regression", "cross", "mse"),
    }
    assert data["sentiment"].task.labels.names[0] == "very negative"
    assert not any(one.notes for one in data.values())


# --- places ----------------------------------------------------------------------------------------------------


def test_place_names_the_nearest_line_that_the_file_has(write: Write) -> None:
    text = "tasks:\n  a:\n    train:\n      - x.csv\n      - y.csv\n    dev: z.csv\n"
    recipe = load_recipe(write(text), {"tasks.a.dev": "w.csv", "training.epochs": 1})
    assert recipe.location("tasks", "a", "train", 1) == "mine.yaml:5: tasks.a.train"
    assert recipe.location("tasks", "a", "label") == "mine.yaml:2: tasks.a.label"
    assert recipe.location("tasks", "a", "dev", 0) == "overrides: tasks.a.dev"
    assert recipe.location("seed") == "mine.yaml: seed"
    assert Recipe.model_validate(one_task()).location("tasks", "t") == "recipe: tasks.t"


def test_override_below_a_source_written_as_one_word() -> None:
    recipe = load_recipe({"tasks": {"a": {"train": "demo:sentiment"}}}, {"tasks.a.train.split": "test"})
    source = recipe.tasks["a"].train[0]
    assert (source.demo, source.split) == ("sentiment", "test")


def test_folders_named_in_a_file_stand_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("there/encoder", "there/earlier", "here/encoder"):
        (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / "there" / "recipe.yaml"
    file.write_text("encoder: encoder\ninit: earlier\ntasks: {a: {train: a.csv}}\n")
    monkeypatch.chdir(tmp_path / "here")
    recipe = load_recipe(file)
    assert recipe.encoder.name == str(tmp_path / "there" / "encoder")
    assert recipe.init == str(tmp_path / "there" / "earlier")
    assert load_recipe(file, {"encoder": "encoder"}).encoder.name == str(tmp_path / "here" / "encoder")
    assert load_recipe(file, {"encoder": "bert-base-uncased"}).encoder.name == "bert-base-uncased"


def test_options_alone_belong_to_the_default_part() -> None:
    recipe = load_recipe({"tasks": {"a": {"train": "a.csv"}}}, {"sampler.alpha": 0.7, "tasks.a.head.dropout": 0.3})
    assert (recipe.sampler.name, recipe.sampler.options) == ("mixture", {"alpha": 0.7})
    assert (recipe.tasks["a"].head.name, recipe.tasks["a"].head.options) == ("linear", {"dropout": 0.3})


def test_a_task_named_by_a_number_can_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "numbers.yaml").write_text("tasks:\n  1: {train: a.csv}\n")
    assert load_recipe(tmp_path / "numbers.yaml", {"tasks.1.batch_size": 4}).tasks["1"].batch_size == 4


@pytest.mark.parametrize("text", ["tasks: &t\n  a: *t\n", "tasks: {a: {train: 2020-99-99}}\n"])
def test_yaml_that_parses_to_nonsense_is_a_fault_not_a_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(UserError):
        load_recipe(tmp_path / "odd.yaml")


def test_old_keys_are_listed_in_the_files_order(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    phases = "phases:\n- train: heads\n- train: all\n"
    file.write_text(f"{phases}tasks: {{a: {{train: x.csv, comes_back: 1}}}}\ntraining:\n  clip: 3\n  train: all\n")
    with pytest.raises(UserError) as caught:
        load_recipe(file, {"training.head_rate": 1e-3})
    places = [line.partition(": this key")[0].removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()]
    assert places == [
        "recipe.yaml:2: phases.1.train",
        "recipe.yaml:3: phases.2.train",
        "recipe.yaml:4: tasks.a.comes_back",
        "recipe.yaml:6: training.clip",
        "recipe.yaml:7: training.train",
        "overrides: training.head_rate",
    ]


@pytest.mark.parametrize(
    ("settings", "where", "new_name"),
    [
        ("training: {clip: 3}", "recipe.yaml:2: training.clip", "max_grad_norm"),
        ("phases: [{train: heads}]", "recipe.yaml:2: phases.1.train", "trainable"),
        ("combine: {losses: {name: uncertainty, rate: 0.1}}", "recipe.yaml:2: combine.losses.rate", "learning_rate"),
    ],
)
def test_an_old_key_is_refused_with_its_new_name(tmp_path: Path, settings: str, where: str, new_name: str) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(f"tasks: {{a: {{train: x.csv}}}}\n{settings}\n")
    with pytest.raises(UserError) as caught:
        load_recipe(file)
    assert str(caught.value) == f"{where}: this key is now called '{new_name}'."
    assert load_run_recipe(file).tasks, "the recipe of an old run still opens"


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"train": {"demo": "sentiment", "columns": ["a"]}}, "tasks.t.train: only files have columns"),
        ({"train": {"hub": "glue", "quoting": "none", "format": "tsv"}}, "only files have format, quoting"),
        ({"train": "x.tsv", "columns": ["a", "a"]}, "tasks.t.columns: expected the file's columns in order"),
        ({"train": "x.tsv", "columns": ["a", " "]}, "each with a name of its own"),
        ({"train": "x.tsv", "columns": []}, "tasks.t.columns: List should have at least 1 item"),
        (
            {"train": "x.xls", "format": "xls"},
            "tasks.t.format: Input should be 'csv', 'tsv', 'jsonl', 'parquet', 'txt', 'trees' or 'conll'",
        ),
        ({"train": {"file": "x.tsv", "quoting": "yes"}}, "tasks.t.train.quoting: Input should be 'csv' or 'none'"),
    ],
)
def test_layouts_that_make_no_sense_are_refused(task: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe({"tasks": {"t": task}})
    assert expected in str(caught.value)


def test_a_sources_layout_can_be_set_on_the_command_line() -> None:
    recipe = load_recipe(
        {"tasks": {"t": {"train": "x.dat"}}}, {"tasks.t.format": "tsv", "tasks.t.train.columns": "text"}
    )
    (source,) = recipe.tasks["t"].sources("train")
    assert (source.file, source.format, source.columns, source.quoting) == ("x.dat", "tsv", ["text"], None)
