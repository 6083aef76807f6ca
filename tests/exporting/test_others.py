"""Folders in the forms of other packages, opened by these packages: the same predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from building import CLASSES, MULTI, NUMBERS, SIDES, TWO, a_task, toy_model
from command import manyheads
from conftest import made_once
from manyheads import Predictor, UserError
from manyheads.exporting.others import export_form
from manyheads.model.folder import save_model
from manyheads.tasks.task import Task

pytestmark = pytest.mark.numeric
PAIRS = list(zip(*SIDES, strict=True))
LONG = "the film was dull " * 60  # is truncated


def write_model(folder: Path, encoder: Path) -> None:
    tasks = [
        a_task(name="mood", labels=CLASSES, encoding="single", temperature=1.7),
        a_task(name="yes", labels=TWO, encoding="single", pooling="shared-pooler", temperature=0.6),
        a_task(name="topics", labels=MULTI, encoding="single", thresholds=(0.2, 0.6, 0.5)),
        a_task(name="grade", labels=NUMBERS, encoding="single"),
        a_task(name="same", labels=TWO, encoding="cross", pooling="mean", temperature=2.0),
        a_task(name="near", labels=NUMBERS, encoding="cross", pooling="last", head="mlp"),
        a_task(name="relation", labels=CLASSES, encoding="cross", head="hidden"),
        a_task(name="apart", labels=TWO, encoding="bi-features"),
        a_task(name="raised", labels=NUMBERS, encoding="single", output="sigmoid"),
        a_task(name="dual", labels=CLASSES, encoding="single", loss="dual-cross-entropy"),
        a_task(name="both", labels=TWO, encoding="cross", symmetric=True, both_orders=True),
    ]
    save_model(folder / "best", toy_model(encoder, tasks), encoder, {"run": "toy", "step": 3})


@pytest.fixture(scope="session")
def best(toy_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "other-forms", lambda folder: write_model(folder, toy_encoder)) / "best"


def texts_of(task: Task) -> list[Any]:
    return [*PAIRS, (LONG, "a film"), ("a film", LONG)] if task.pair else [*SIDES[0], LONG]


def numbers_of(task: Task, described: list[dict[str, Any]]) -> np.ndarray:
    """[examples, classes] or [examples, 1]"""
    if task.kind.has_classes:
        return np.array([[one["probabilities"][name] for name in task.labels.names] for one in described])
    return np.array([[one["prediction"]] for one in described])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mood", "yes", "topics", "grade"])
def test_transformers_opens_it(name: str, best: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = export_form(best, tmp_path / "theirs", "transformers", name)
    predictor = Predictor.open(best)
    task = predictor.task(name)
    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    given = tokenizer(texts_of(task), padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**given).logits
    if not task.kind.has_classes:
        found = logits.clamp(0, 5)
    else:
        found = logits.softmax(-1) if task.kind.exclusive else logits.sigmoid()
        assert [model.config.id2label[index] for index in range(len(task.labels.names))] == list(task.labels.names)
    assert np.abs(found.numpy() - numbers_of(task, predictor.predict(name, texts_of(task)))).max() <= 1e-5
    if task.thresholds:
        assert model.config.thresholds == dict(zip(task.labels.names, task.thresholds, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["same", "near", "relation"])
def test_a_cross_encoder_opens_it(name: str, best: Path, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    folder = export_form(best, tmp_path / "theirs", "cross-encoder", name)
    predictor = Predictor.open(best)
    task = predictor.task(name)
    texts = texts_of(task)
    scores = np.asarray(CrossEncoder(str(folder)).predict(texts, apply_softmax=name == "relation"))
    expected = numbers_of(task, predictor.predict(name, texts))
    if name == "same":
        expected = expected[:, 1:]  # the probability of the second class
    if name == "near":
        scores = scores.clip(0, 5)
    assert np.abs(scores.reshape(expected.shape) - expected).max() <= 1e-5


@pytest.mark.slow
def test_a_sentence_transformer_opens_it(best: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = export_form(best, tmp_path / "theirs", "sentence-transformers")
    model = SentenceTransformer(str(folder))
    texts = [*SIDES[0], LONG]
    assert np.abs(model.encode(texts) - Predictor.open(best).embed(texts)).max() <= 1e-5
    for file in folder.rglob("*"):
        assert file.suffix not in (".bin", ".pt", ".pkl"), "weights are safetensors"
    with safe_open(folder / "model.safetensors", "pt") as weights:
        assert weights.metadata() == {"format": "pt"}


@pytest.mark.parametrize(
    ("form", "name", "words"),
    [
        ("transformers", "same", "one pooler"),
        ("transformers", "relation", "--to cross-encoder"),
        ("cross-encoder", "apart", "bi-features"),
        ("cross-encoder", "raised", "output 'sigmoid'"),
        ("cross-encoder", "dual", "dual-cross-entropy"),
        ("cross-encoder", "both", "both orders"),
    ],
)
def test_what_has_no_such_form_is_refused(form: Any, name: str, words: str, best: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError) as fault:
        export_form(best, tmp_path / "theirs", form, name)
    assert fault.value.code == "cannot-export"
    assert words in str(fault.value)
    assert not (tmp_path / "theirs").exists()


@pytest.mark.slow
def test_the_command_says_which_task_is_needed(best: Path, tmp_path: Path) -> None:
    printed = manyheads("export", best, "--to", "transformers", "--folder", tmp_path / "theirs")
    assert printed.returncode == 2
    assert "--task" in printed.stderr
    printed = manyheads("export", best, "--to", "transformers", "--task", "mood", "--folder", tmp_path / "theirs")
    assert printed.returncode == 0, printed.stderr
    assert (tmp_path / "theirs" / "config.json").is_file()
    assert str(tmp_path / "theirs") in printed.stdout
