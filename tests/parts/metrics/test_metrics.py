"""Metrics by hand, what is undefined, which value is better, and the papers' overall."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from manyheads import registry
from manyheads.config.part import PartConfig
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.parts.metrics import better, default_metrics, metric, overall, primary, score, why_incompatible
from manyheads.registry import Part, find, parts
from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.task import Task

pytestmark = pytest.mark.numeric
RANKS = ("mrr", "ndcg-at-k", "recall-at-k")  # see test_ranks.py


def a_task(kind: str, classes: int = 0, *metrics: str | PartConfig, bounds: tuple[float, float] | None = None) -> Task:
    """A task with classes a, b, c, …"""
    names = ("O", "B-x", "I-x") if kind == "tags" else tuple("abcdefgh"[:classes])
    return Task(
        name="task",
        columns=Columns(("text",), "label", None),
        labels=LabelReader(kind, names, {name: index for index, name in enumerate(names)}),
        encoding=PartConfig(name="single"),
        pooling=PartConfig(name="head-pooler"),
        head=PartConfig(name="linear"),
        loss=PartConfig(name="mse"),
        bounds=bounds,
        metrics=tuple(PartConfig(name=one) if isinstance(one, str) else one for one in metrics),
    )


def value(name: str, task: Task, predicted: Any, labels: Any, **options: Any) -> float | None:
    """One metric of a task, through `score`."""
    task = Task(**{**task.__dict__, "metrics": (PartConfig(name=name, options=options),)})
    return score(task, np.asarray(predicted), np.asarray(labels))[primary(task)]


def one_hot(classes: list[int], count: int) -> np.ndarray:
    return np.eye(count)[classes]


def second(*chances: float) -> np.ndarray:
    """Probabilities of two classes, from that of the second."""
    return np.array([[1 - chance, chance] for chance in chances])


Scores = dict[str, dict[str, float | None]]
CLASSES, TWO, ORDINAL = a_task("classification", 3), a_task("classification", 2), a_task("ordinal", 5)
MULTI, NUMBERS = a_task("multi-label", 4), a_task("regression", bounds=(0.0, 5.0))
TAGS = a_task("tags", 3)
TASKS = (CLASSES, TWO, ORDINAL, MULTI, NUMBERS, TAGS)
METRICS = parts("metrics")


# --- one class per example -------------------------------------------------------------------------------------


def test_two_classes() -> None:
    labels, guess = [1, 1, 1, 0], one_hot([1, 0, 0, 1], 2)  # of class 1: tp 1, fp 1, fn 2
    assert value("accuracy", TWO, guess, labels) == pytest.approx(1 / 4)
    assert value("precision", TWO, guess, labels) == pytest.approx(1 / 2)
    assert value("recall", TWO, guess, labels) == pytest.approx(1 / 3)
    assert value("f1", TWO, guess, labels) == pytest.approx(2 / (2 + 1 + 2))


def test_two_classes_by_rank() -> None:
    labels, chances = [1, 1, 0, 0], second(0.9, 0.4, 0.6, 0.1)
    assert value("auc", TWO, chances, labels) == pytest.approx(3 / 4)  # of 4 pairs only .4 and .6 are in wrong order
    # .9: precision 1, recall 1/2; .4: precision 2/3, recall 1
    assert value("average-precision", TWO, chances, labels) == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)
    assert value("auc", TWO, second(0.5, 0.5), [0, 1]) == pytest.approx(1 / 2)  # a tie counts half


def test_many_classes() -> None:
    guess, labels = one_hot([0, 0, 2], 3), [0, 1, 2]
    # a: tp 1, fp 1; b: fn 1; c: tp 1
    assert value("macro-f1", CLASSES, guess, labels) == pytest.approx((2 / 3 + 0 + 1) / 3)
    found = score(a_task("classification", 3, "f1-per-class"), guess, np.array(labels))
    assert found == {"f1-per-class/a": pytest.approx(2 / 3), "f1-per-class/b": 0.0, "f1-per-class/c": 1.0}


def test_a_class_that_occurs_nowhere_counts_neither_as_right_nor_as_wrong() -> None:
    guess, labels = one_hot([0, 2, 0], 3), np.array([0, 2, 2])  # a: tp 1, fp 1; c: tp 1, fn 1
    assert value("macro-f1", CLASSES, guess, labels) == pytest.approx(2 / 3)
    assert score(a_task("classification", 3, "f1-per-class"), guess, labels)["f1-per-class/b"] is None


def test_calibration_error() -> None:
    """Two with .95, one right: |1/2 − .95|. One with .65, right: |1 − .65|. One with .55, wrong: |0 − .55|."""
    chances, labels = second(0.95, 0.05, 0.65, 0.45), [1, 1, 1, 1]
    assert value("calibration-error", TWO, chances, labels) == pytest.approx((2 * 0.45 + 0.35 + 0.55) / 4)
    # one bin: 2 of 4 are right, the mean confidence is (.95 + .95 + .65 + .55) / 4 = .775
    for bins in (0, 1, 2):  # with two bins the lower one, up to .5, is empty
        assert value("calibration-error", TWO, chances, labels, bins=bins) == pytest.approx(0.275)


def test_a_bin_holds_its_upper_edge() -> None:
    """.5 and .45 share a bin of (0, .5], .6 has the other: (|2/2 − .475|·2 + |0 − .6|) / 3."""
    chances = np.array([[0.5, 0.3, 0.2], [0.45, 0.3, 0.25], [0.6, 0.2, 0.2]])
    found = value("calibration-error", CLASSES, chances, [0, 0, 1], bins=2)
    assert found == pytest.approx((2 * 0.525 + 0.6) / 3)


# --- classes in order ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [a_task("ordinal", 3), CLASSES], ids=["ordinal", "classification"])
def test_classes_in_order(task: Task) -> None:
    guess, labels = one_hot([0, 1, 2, 0], 3), [0, 1, 2, 2]  # the last is two classes off
    assert value("class-mse", task, guess, labels) == pytest.approx(4 / 4)
    assert value("class-mae", task, guess, labels) == pytest.approx(2 / 4)
    assert value("off-by-two", task, guess, labels) == pytest.approx(1 / 4)
    # deviations −.75 .25 1.25 −.75 and −1.25 −.25 .75 .75: products sum to 1.25, both squares to 2.75
    assert value("class-pearson", task, guess, labels) == pytest.approx(1.25 / 2.75)
    # Σ(g − y)² is 4; over all 16 pairs of a guess and a label it is 9 + 3 + 5 + 9 = 26, so by chance 26 / 4
    assert value("kappa", task, guess, labels) == pytest.approx(1 - 4 / 6.5)


def test_one_class_off_is_not_two() -> None:
    assert value("off-by-two", ORDINAL, one_hot([1, 2, 4, 0], 5), [0, 3, 2, 3]) == pytest.approx(2 / 4)


# --- several classes per example -------------------------------------------------------------------------------


def test_multi_label() -> None:
    labels = [[1, 0, 1, 0], [0, 0, 1, 1], [1, 0, 1, 1]]
    chances = [[0.9, 0.2, 0.5, 0.1], [0.6, 0.1, 0.7, 0.2], [0.3, 0.4, 0.2, 0.4]]  # from 0.5 on a class is guessed
    # a: tp 1, fp 1, fn 1; b: nowhere; c: tp 2, fn 1; d: fn 2
    assert value("macro-f1", MULTI, chances, labels) == pytest.approx((2 / 4 + 4 / 5 + 0) / 3)
    assert value("micro-f1", MULTI, chances, labels) == pytest.approx(2 * 3 / (2 * 3 + 1 + 4))
    assert value("exact-match", MULTI, chances, labels) == pytest.approx(1 / 3)
    # a: .9 above .6, .3 below it; d: both above .1; b and c have labels of one value only and are left out
    assert value("auc", MULTI, chances, labels) == pytest.approx((1 / 2 + 1) / 2)
    # a: precision 1 up to recall 1/2, then 2/3; d: 1
    assert value("average-precision", MULTI, chances, labels) == pytest.approx((1 / 2 + 1 / 2 * 2 / 3 + 1) / 2)
    found = score(a_task("multi-label", 4, "f1-per-class"), np.array(chances), np.array(labels))
    assert list(found.values()) == [pytest.approx(1 / 2), None, pytest.approx(4 / 5), 0.0]


# --- numbers ---------------------------------------------------------------------------------------------------


def test_numbers() -> None:
    values, labels = [1.0, 2.0, 4.0, 3.0], [0.0, 1.0, 2.0, 5.0]
    # deviations −1.5 −.5 1.5 .5 and −2 −1 0 3: products sum to 5, squares to 5 and 14
    assert value("pearson", NUMBERS, values, labels) == pytest.approx(5 / np.sqrt(5 * 14))
    # ranks 1 2 4 3 and 1 2 3 4: Σd² = 2, and 1 − 6·Σd² / (n·(n² − 1))
    assert value("spearman", NUMBERS, values, labels) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert value("mse", NUMBERS, values, labels) == pytest.approx((1 + 1 + 4 + 4) / 4)
    assert value("unit-mse", NUMBERS, values, labels) == pytest.approx((1 + 1 + 4 + 4) / 4 / 5**2)  # from 0 to 5
    unknown = a_task("regression")  # the labels found are 0 to 5 here, and 1 to 3 below
    assert value("unit-mse", unknown, [1.0, 1.0, 3.0], [1.0, 2.0, 3.0]) == pytest.approx(1 / 3 / 2**2)
    assert value("mae", NUMBERS, values, labels) == pytest.approx((1 + 1 + 2 + 2) / 4)


def test_within_is_a_share_of_the_range() -> None:
    values, labels = [1.0, 2.0, 4.0, 3.0], [0.0, 1.0, 2.0, 4.0]  # 1, 1, 2 and 1 off
    assert value("within", NUMBERS, values, labels) == pytest.approx(3 / 4)  # ± .2·5
    assert value("within", NUMBERS, values, labels, tolerance=0.4) == pytest.approx(4 / 4)  # ± .4·5
    unknown = a_task("regression")  # the labels found are 0 to 4
    assert value("within", unknown, values, labels) == pytest.approx(0 / 4)  # ± .2·4
    assert value("within", unknown, values, labels, tolerance=0.25) == pytest.approx(3 / 4)  # ± .25·4


# --- every registered metric -----------------------------------------------------------------------------------


def column(task: Task, values: np.ndarray) -> Column:
    """Of tags in sentences of five words."""
    return Ragged(values, np.arange(0, len(values) + 1, 5)) if task.kind.per_word else values


def some_labels(task: Task) -> np.ndarray:
    """Every class, with every value of it, is there."""
    if task.kind.name == "regression":
        return np.linspace(0.0, 5.0, 20)
    classes = np.arange(20) % len(task.labels.names)
    return np.eye(len(task.labels.names), dtype=int)[classes] if task.kind.name == "multi-label" else classes


def perfect(task: Task) -> np.ndarray:
    labels = some_labels(task)
    return (
        np.eye(len(task.labels.names))[labels]
        if task.kind.name in ("classification", "ordinal", "tags")
        else labels.astype(float)
    )


def random_predictions(task: Task, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    if task.kind.name == "regression":
        return draw.normal(2.5, 2.0, 20)
    chances = draw.random((20, len(task.labels.names)))
    return chances if task.kind.name == "multi-label" else chances / chances.sum(axis=1, keepdims=True)


# those of candidates, answers and searches: kinds/test_multiple_choice.py, kinds/test_answer_span.py, test_ranks.py
NOT_OF_ARRAYS = {"candidate", "answer", "match"}
OF_ARRAYS = [part for part in METRICS if not NOT_OF_ARRAYS.issuperset(part.factory.label_types)]


@pytest.mark.parametrize("part", OF_ARRAYS, ids=lambda part: part.name)
def test_every_metric_keeps_its_promises(part: Part) -> None:
    measure: Any = part.factory
    fitting = [task for task in TASKS if why_incompatible(part.name, task) is None]
    assert fitting, "it serves some task"
    best = {"share": 1.0 if measure.best == "high" else 0.0, "correlation": 1.0, "error": 0.0}[measure.scale]
    low, high = {"share": (0, 1), "correlation": (-1, 1), "error": (0, np.inf)}[measure.scale]
    for task in TASKS:
        if task not in fitting:
            assert f"'{part.name}' needs" in str(why_incompatible(part.name, task)), "a refusal has a reason"
            continue
        labels = column(task, some_labels(task))
        found = measure(column(task, perfect(task)), labels, task)
        assert isinstance(found, dict if measure.per_class else float)
        own = Task(**{**task.__dict__, "metrics": (PartConfig(name=part.name),)})
        exact = score(own, column(task, perfect(task)), labels)
        assert all(one == pytest.approx(best) for one in exact.values()), "perfect predictions give the best value"
        assert overall({"task": exact}, {"task": own}) == pytest.approx(1.0)
        assert overall({"task": exact}, {"task": own}, "geometric") == pytest.approx(1.0)
        for seed in range(5):
            predictions = column(task, random_predictions(task, seed).astype("float32"))
            for one in score(own, predictions, labels).values():
                assert type(one) is float
                assert low <= one <= high
                assert not better(own, one, best), "nothing beats the best value"
                assert better(own, best, one) or one == best
        shape = perfect(task).shape[1:]
        no_labels = np.zeros((0, *shape[: task.kind.name == "multi-label"]), dtype=int)
        nothing = score(own, column(task, np.zeros((0, *shape))), column(task, no_labels))
        assert list(nothing) == list(exact)
        assert set(nothing.values()) == {None}, "without examples it is undefined"


def test_metrics_and_their_papers() -> None:
    assert {part.name: part.paper for part in METRICS} == {
        **dict.fromkeys(("accuracy", "pearson"), "all"),
        **dict.fromkeys(("f1", "precision", "recall", "auc", "macro-f1", "f1-per-class", "mse", "within"), "D"),
        **dict.fromkeys(("class-mse", "off-by-two", "class-pearson", "unit-mse"), "D"),
        **dict.fromkeys(("average-precision", "micro-f1", "exact-match", "calibration-error"), ""),
        **dict.fromkeys(("kappa", "class-mae", "spearman", "mae", "token-accuracy"), ""),
        **dict.fromkeys(("entity-f1", "entity-precision", "entity-recall"), ""),
        **dict.fromkeys(("entity-macro-f1", "entity-f1-per-type", *RANKS), ""),
        **dict.fromkeys(("answer-f1", "answer-exact-match"), ""),
    }


def test_options_are_the_keyword_only_arguments() -> None:
    assert find("metrics", "within").check({"tolerance": "0.1"}) == {"tolerance": 0.1}
    assert find("metrics", "calibration-error").check({"bins": 15}) == {"bins": 15}
    assert not find("metrics", "accuracy").options.model_fields
    with pytest.raises(ValueError, match=r"'within' has no option 'tolerence'\. Did you mean 'tolerance'"):
        find("metrics", "within").check({"tolerence": 0.1})
    with pytest.raises(ValueError, match=r"unknown metric 'acuracy'\. Did you mean 'accuracy'"):
        why_incompatible("acuracy", TWO)


def test_refusals_say_why() -> None:
    assert why_incompatible("auc", ORDINAL) == "'auc' needs two classes, this task has 5; use 'macro-f1'."
    assert why_incompatible("pearson", CLASSES) == "'pearson' needs numbers, this task is a classification."
    assert why_incompatible("accuracy", NUMBERS) == "'accuracy' needs one class per example, this task is a regression."
    assert (
        why_incompatible("kappa", MULTI)
        == "'kappa' needs one class per example, this task is a multi-label classification."
    )
    assert why_incompatible("macro-f1", NUMBERS) == "'macro-f1' needs classes, this task is a regression."
    assert (
        why_incompatible("exact-match", ORDINAL)
        == "'exact-match' needs several classes per example, this task is an ordinal classification."
    )
    assert why_incompatible("auc", a_task("ordinal", 2)) is None
    assert why_incompatible("auc", MULTI) is None


def test_a_metric_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_parts", dict(registry._parts))

    @metric("largest", label_types=("ordered class", "number"), best="low", scale="error")
    def largest(predicted: np.ndarray, labels: np.ndarray, task: Task, *, of: int = 1) -> dict[str, float]:
        """Largest errors."""
        return {f"top {k + 1}": error for k, error in enumerate(np.sort(np.abs(predicted - labels))[::-1][:of])}

    task = a_task("regression", 0, PartConfig(name="largest", options={"of": 2}))
    found = score(task, np.array([1.0, 2.0, 4.0]), np.array([0.0, 2.0, 1.0]))
    assert found == {"largest(of=2)/top 1": 3.0, "largest(of=2)/top 2": 1.0}
    assert (
        why_incompatible("largest", TWO)
        == "'largest' needs classes in order or numbers, this task is a classification."
    )


# --- a task's metrics ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS, ids=["classes", "two classes", "ordinal", "multi-label", "regression", "tags"])
def test_default_metrics_fit_and_come_in_order(task: Task) -> None:
    names = [choice.name for choice in default_metrics(task)]
    assert [why_incompatible(name, task) for name in names] == [None] * len(names)
    found = score(task, column(task, perfect(task)), column(task, some_labels(task)))
    assert list(found) == names
    assert primary(task) == names[0]


def test_default_metrics_by_kind() -> None:
    names = [" ".join(choice.name for choice in default_metrics(task)) for task in TASKS]
    assert names == [
        "accuracy macro-f1 calibration-error",
        "accuracy f1 precision recall auc average-precision calibration-error",
        "accuracy macro-f1 kappa off-by-two class-mae calibration-error",
        "macro-f1 micro-f1 average-precision exact-match",
        "pearson spearman mse mae within",
        "entity-f1 entity-precision entity-recall token-accuracy",
    ]


def test_chosen_metrics_come_in_order_and_options_tell_them_apart() -> None:
    strict = PartConfig(name="within", options={"tolerance": 0.1})
    task = a_task("regression", 0, strict, "within", "mae", bounds=(0.0, 5.0))
    found = score(task, np.array([1.0, 2.5]), np.array([0.0, 2.0]))
    assert found == {"within(tolerance=0.1)": 0.5, "within": 1.0, "mae": 0.75}
    assert next(iter(found)) == primary(task) == "within(tolerance=0.1)"
    assert primary(a_task("ordinal", 3, "f1-per-class", "kappa")) == "f1-per-class/a"


# --- undefined -------------------------------------------------------------------------------------------------


@pytest.fixture
def _warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("_warnings_are_errors")
def test_undefined_is_none_without_a_warning() -> None:
    constant = score(NUMBERS, np.ones(4), np.arange(4.0))
    assert (constant["pearson"], constant["spearman"], constant["mae"]) == (None, None, 1.0)
    single = score(NUMBERS, np.ones(1), np.ones(1))
    assert single == {"pearson": None, "spearman": None, "mse": 0.0, "mae": 0.0, "within": 1.0}
    one_class = score(TWO, second(0.1, 0.2), np.array([0, 0]))
    assert [name for name, found in one_class.items() if found is None] == [
        *("f1", "precision", "recall", "auc", "average-precision")
    ]
    assert value("precision", TWO, second(0.1, 0.2), [0, 1]) is None  # never guessed
    assert value("f1", TWO, second(0.1, 0.2), [0, 1]) == 0.0  # but wrong for it
    for name in ("kappa", "class-pearson"):
        assert value(name, ORDINAL, one_hot([2, 2], 5), [2, 2]) is None
    for name in ("macro-f1", "micro-f1", "auc", "average-precision"):
        assert value(name, MULTI, np.zeros((3, 4)), np.zeros((3, 4), dtype=int)) is None


@pytest.mark.usefixtures("_warnings_are_errors")
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_predictions_that_are_not_finite_make_everything_undefined(broken: float) -> None:
    for task in TASKS:
        predicted = perfect(task)
        predicted[0] = broken
        assert set(score(task, predicted, some_labels(task)).values()) == {None}


# --- which is better, and over all -----------------------------------------------------------------------------


def test_better_goes_by_the_primary_metric() -> None:
    high, low = TWO, a_task("regression", 0, "mse", "pearson")
    assert better(high, 0.6, 0.5)
    assert not better(high, 0.5, 0.6)
    assert better(low, 0.5, 0.6)
    assert not better(low, 0.6, 0.5)
    for task in (high, low):
        assert not better(task, 0.5, 0.5)
        assert better(task, 0.0, None)
        assert not better(task, None, 0.0)
        assert not better(task, None, None)


PAPERS = {"sst": CLASSES, "qqp": TWO, "sts": NUMBERS}


def test_the_papers_arithmetic_overall() -> None:
    """Paper A's final test row: (.534 + .889 + (1 + .851)/2) / 3 = .783."""
    scores: Scores = {"sst": {"accuracy": 0.534}, "qqp": {"accuracy": 0.889}, "sts": {"pearson": 0.851}}
    assert overall(scores, PAPERS) == pytest.approx((0.534 + 0.889 + 0.9255) / 3)
    assert overall(scores, PAPERS) == pytest.approx(0.783, abs=5e-4)


def test_paper_bs_geometric_overall() -> None:
    """(.5·.8·.54)^(1/3) = .216^(1/3) = .6; a negative correlation counts as none."""
    scores: Scores = {"sst": {"accuracy": 0.5}, "qqp": {"accuracy": 0.8}, "sts": {"pearson": 0.54}}
    assert overall(scores, PAPERS, "geometric") == pytest.approx(0.6)
    assert overall({**scores, "sts": {"pearson": -0.5}}, PAPERS, "geometric") == 0.0


def test_weights() -> None:
    scores: Scores = {"sst": {"accuracy": 0.5}, "qqp": {"accuracy": 0.8}, "sts": {"pearson": 0.2}}
    # (2·.5 + 1·.8 + 1·.6) / 4: a task without a weight has 1
    assert overall(scores, PAPERS, weights={"sst": 2}) == pytest.approx(2.4 / 4)
    assert overall(scores, PAPERS, weights={"sst": 1, "qqp": 0, "sts": 0}) == pytest.approx(0.5)
    # (.25² · 1 · 1)^(1/4) = .5
    scores = {"sst": {"accuracy": 0.25}, "qqp": {"accuracy": 1.0}, "sts": {"pearson": 1.0}}
    assert overall(scores, PAPERS, "geometric", {"sst": 2}) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "found", "arithmetic", "geometric"),
    [
        ("accuracy", 0.3, 0.3, 0.3),
        ("calibration-error", 0.3, 0.7, 0.7),  # low is best
        ("class-mse", 3.0, 0.25, 0.25),  # 1 / (1 + 3)
        ("kappa", 0.2, 0.6, 0.2),
        ("kappa", -0.2, 0.4, 0.0),
        ("accuracy", None, 0.0, 0.0),
        ("calibration-error", None, 0.0, 0.0),
        ("class-mse", None, 0.0, 0.0),
        ("kappa", None, 0.5, 0.0),
    ],
)
def test_scales_of_the_overall(name: str, found: float | None, arithmetic: float, geometric: float) -> None:
    tasks = {"task": a_task("ordinal", 3, name, "macro-f1")}
    scores: Scores = {"task": {name: found, "macro-f1": 0.9}}
    assert overall(scores, tasks) == pytest.approx(arithmetic)
    assert overall(scores, tasks, "geometric") == pytest.approx(geometric)


@pytest.mark.slow
def test_importing_metrics_does_not_wait_for_their_libraries() -> None:
    code = "import sys, manyheads.parts.metrics; print(*{'sklearn', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_one_class_of_a_multi_label_task_is_that_class_not_its_absence() -> None:
    """10 of 100 rows have the class and no guess does: its F1 is 0, not that of the 90 without it."""
    task = a_task("multi-label", 1)
    labels = np.zeros((100, 1), dtype=int)
    labels[:10] = 1
    found = score(task, np.full((100, 1), 0.1), labels)
    assert (found["macro-f1"], found["micro-f1"]) == (0.0, 0.0)
    half = np.where(np.arange(100)[:, None] < 5, 0.9, 0.1)
    assert score(task, half, labels)["macro-f1"] == pytest.approx(2 * 5 / (2 * 5 + 0 + 5))
