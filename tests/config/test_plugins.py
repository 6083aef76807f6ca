"""A user's own parts from a local file: what runs, what is said, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from command import check_refused, manyheads
from manyheads import UserError, load_recipe, registry
from manyheads.config import plugins as imports
from manyheads.registry import parts

PART = '''
from manyheads import register
from manyheads.parts.losses import Loss

@register("losses", "{name}")
class Absolute(Loss):
    """|x − y|·{factor}: by hand."""
    label_types = ("number",)
    def __call__(self, outputs, labels):
        return (outputs[:, 0] - labels).abs() * {factor}
'''


@pytest.fixture(autouse=True)
def _forget_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    parts()
    monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    monkeypatch.setattr(imports, "_imported", {})


@pytest.fixture
def own(toy_data: Path) -> Path:
    file = toy_data / "my_parts.py"
    file.write_text(PART.format(name="absolute", factor=1))
    return file


TASKS = {"near": {"train": "near.tsv", "range": [0, 5], "loss": "absolute"}}


@pytest.mark.slow
def test_own_parts_train_are_said_and_open_again(own: Path, recipe_file: Callable[..., Path], toy_data: Path) -> None:
    file = recipe_file(tasks=TASKS, imports=["my_parts.py"])
    result = manyheads("train", file, "training.epochs=1")
    assert result.returncode == 0, result.stderr
    assert f"imports: {own} (losses/absolute)" in result.stderr
    run = toy_data / "runs" / "toy"
    texts = ("--text", "a man", "--text", "a dog")
    found = manyheads("predict", run, *texts, "--imports", own)
    assert found.returncode == 0, found.stderr
    refused = manyheads("predict", run, *texts)
    check_refused(refused, "losses/absolute was registered by my_parts.py", f"--imports {own}", "[unknown-part]")
    assert refused.stderr.count("--imports") == 1, "one advice, with the full path"
    assert manyheads("predict", run / "best", *texts, "--imports", own).stdout == found.stdout
    check_refused(manyheads("predict", run / "best", *texts), "losses/absolute", "--imports my_parts.py")
    check_refused(manyheads("evaluate", run), "losses/absolute was registered by", f"--imports {own}", "[unknown-part]")
    assert manyheads("evaluate", run, "--imports", own, "-q").returncode == 0
    check_refused(manyheads("report", run), "unknown loss 'absolute'", f"--imports {own}")
    assert manyheads("report", run, "--imports", own).returncode == 0
    (run / "metrics.json").unlink()
    resumed = manyheads("resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert f"imports: {own} (losses/absolute)" in resumed.stderr, "a resume runs what was trained, and says so"
    assert f"imports:\n- {own}\n" in (run / "recipe.yaml").read_text(), "the full path: the run may be opened anywhere"
    assert not list(run.rglob("*.py")), "code is not copied"
    own.unlink()
    check_refused(manyheads("predict", run, *texts, "--imports", own), f"no Python file '{own}'")


def test_a_changed_file_is_run_anew_and_its_old_parts_are_forgotten(own: Path, toy_data: Path) -> None:
    def load() -> None:
        load_recipe({"data": {"root": str(toy_data)}, "tasks": TASKS, "imports": [str(own)]})

    def known() -> set[str]:
        return {part.name for part in parts("losses")}

    load()
    load()
    assert "absolute" in known()
    own.write_text(PART.format(name="other", factor=2))
    with pytest.raises(UserError, match="unknown loss 'absolute'"):
        load()
    assert known() >= {"other", "mse"}
    assert "absolute" not in known()
    own.write_text(PART.format(name="absolute", factor=3))
    load()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1\nraise RuntimeError('no luck')\n", "my_parts.py:2: RuntimeError: no luck"),
        ("def f(:\n", "my_parts.py:1: SyntaxError"),
        ("import no_such_module\n", "my_parts.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
        (PART.format(name="mse", factor=1), "ValueError: losses already has a part named 'mse'"),
    ],
)
def test_a_fault_in_the_file_is_told_with_its_line(
    content: str, message: str, own: Path, recipe_file: Callable[..., Path]
) -> None:
    own.write_text(content)
    refused = manyheads("train", recipe_file(tasks=TASKS, imports=["my_parts.py"]))
    check_refused(refused, "imports", message, "[import-failed]")


@pytest.mark.slow
def test_only_local_python_files_are_taken(recipe_file: Callable[..., Path]) -> None:
    for name in ("https://example.org/parts.py", "absent.py", "mood.csv"):
        refused = manyheads("train", recipe_file(imports=[name]))
        check_refused(refused, "recipe.yaml:", "takes local files only", "[no-such-import]")
    check_refused(manyheads("train", recipe_file(imports={"a": 1})), "imports: expected a list")


HEADER = "from manyheads import register\nfrom manyheads.parts.losses import Loss\n"
LOSS = (
    HEADER
    + "@register('losses', 'absolute')\nclass A(Loss):\n    def __call__(self, outputs, labels):\n        return "
)
FAULTS = {
    "scalar": (
        LOSS + "(outputs[:, 0] - labels).abs().mean()\n",
        "loss 'absolute' of task 'near' gave a tensor of shape [] for 8 examples; a loss gives one value per example",
    ),
    "raising": (LOSS + "outputs @ outputs\n", "my_parts.py:6: RuntimeError: "),
    "leaving": ("import sys\nsys.exit(3)\n", "my_parts.py:2: SystemExit: 3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_faults_of_own_parts_at_work_are_told_with_their_line(
    kind: str, own: Path, recipe_file: Callable[..., Path]
) -> None:
    content, message = FAULTS[kind]
    own.write_text(content)
    check_refused(manyheads("train", recipe_file(tasks=TASKS, imports=["my_parts.py"])), message)


@pytest.mark.slow
def test_a_metric_says_which_kinds_it_measures(own: Path, recipe_file: Callable[..., Path]) -> None:
    body = "def mine(predicted, labels, task):\n    'A number.'\n    return 0.5\n"
    own.write_text("from manyheads import register\n\n@register('metrics', 'mine')\n" + body)
    tasks = {"near": {"train": "near.tsv", "range": [0, 5], "metrics": ["mine"]}}
    file = recipe_file(tasks=tasks, imports=["my_parts.py"])
    check_refused(manyheads("train", file), "'mine' is registered without saying which labels it measures; use @metric")
    says = "@metric('mine', label_types=('number',), best='high', scale='share')\n"
    own.write_text("from manyheads.parts.metrics import metric\n\n" + says + body)
    result = manyheads("train", file, "training.epochs=1")
    assert "near mine 0.500  overall 0.500" in result.stderr, result.stderr


WIDE = """
from torch import nn
from manyheads import register
from manyheads.parts.heads import Head

@register("heads", "wide")
class Wide(Head):
    "Two layers."
    def __init__(self, features, outputs):
        super().__init__()
        self.one, self.two = nn.Linear(features, 5), nn.Linear(5, outputs)
    def forward(self, x):
        return self.two(self.one(x))
"""


@pytest.mark.slow
def test_a_run_whose_part_has_another_shape_now_is_refused(
    own: Path, recipe_file: Callable[..., Path], toy_data: Path
) -> None:
    own.write_text(WIDE)
    tasks = {"near": {"train": "near.tsv", "range": [0, 5], "head": "wide"}}
    result = manyheads("train", recipe_file(tasks=tasks, imports=["my_parts.py"]), "training.epochs=1")
    assert result.returncode == 0, result.stderr
    own.write_text(WIDE.replace("5", "6"))
    refused = manyheads("predict", toy_data / "runs" / "toy", "--text", "a", "--text", "b", "--imports", own)
    check_refused(refused, "its heads do not fit", "[invalid-model]")
    assert not (own.parent / "__pycache__").exists()
