"""An exported graph predicts what the model does, whatever its parts; what cannot be in one is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModel, DistilBertConfig, RobertaConfig

from building import CLASSES, MULTI, NUMBERS, ORDINAL, SIDES, TAGS, TWO, a_task, fitting_task, toy_model
from conftest import made_once
from manyheads import Predictor, UserError
from manyheads.config.part import PartConfig
from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import load_encoder
from manyheads.exporting.channels import channel_maxima
from manyheads.exporting.folder import ExportSettings, export
from manyheads.exporting.onnx_file import to_onnx
from manyheads.exporting.quantise import quantise
from manyheads.inference.onnx_backend import OnnxBackend
from manyheads.inference.prepared import TextInput
from manyheads.model.folder import save_model
from manyheads.model.multitask import ManyHeads
from manyheads.registry import parts
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.numeric
PAIRS = list(zip(*SIDES, strict=True))
LAYOUTS = ("packed", "padded")
NOT_EXPORTED = {
    ("pooling", "lstm"),  # reads inputs one after the other
    ("heads", "lstm"),
    ("pooling", "words"),  # kinds whose predictions are of words, candidates, tokens or vectors are refused by name
    ("losses", "tag-cross-entropy"),
    ("losses", "crf"),
    ("losses", "choice-cross-entropy"),
    ("losses", "span-cross-entropy"),
    ("encodings", "bi-vectors"),
    ("losses", "multiple-negatives"),
    ("losses", "margin-mse"),
}
NEEDS_SIMILARITY = {("heads", "none"), ("outputs", "similarity")}  # beside encodings that give one


def tasks_with_every_part() -> list[Task]:
    tasks: list[Task] = []
    for family, key in (("encodings", "encoding"), ("pooling", "pooling"), ("heads", "head"), ("outputs", "output")):
        for part in parts(family):
            if part.factory.__module__.startswith("manyheads.") and (family, part.name) not in (
                NOT_EXPORTED | NEEDS_SIMILARITY
            ):
                encoding = part.name if family == "encodings" else "single"
                task = fitting_task(name=f"{key}-{part.name}", **{"encoding": encoding, key: part.name})
                assert task is not None, part.name
                tasks.append(task)
    for loss in parts("losses"):
        if loss.factory.__module__.startswith("manyheads.") and ("losses", loss.name) not in NOT_EXPORTED:
            named = {"name": f"loss-{loss.name}", "loss": loss.name}
            task = fitting_task(**named, encoding="single") or fitting_task(**named, encoding="bi-cosine")
            assert task is not None, loss.name
            tasks.append(task)
    return tasks


def calibrated_tasks() -> list[Task]:
    return [
        a_task(name="type", labels=CLASSES, encoding="single", temperature=1.7),  # a module has an attribute so called
        a_task(name="stars", labels=ORDINAL, encoding="single", temperature=0.3),
        a_task(name="topics", labels=MULTI, encoding="single", thresholds=(0.2, 0.6, 0.5)),
        a_task(name="grade", labels=NUMBERS, encoding="single"),
        a_task(name="same", labels=TWO, encoding="cross", symmetric=True, both_orders=True),
        a_task(name="near", labels=NUMBERS, encoding="bi-concat", symmetric=True, both_orders=True),
    ]


def write_exports(folder: Path, encoder: Path) -> None:
    tasks = [*tasks_with_every_part(), *calibrated_tasks()]
    save_model(folder / "best", toy_model(encoder, tasks), encoder, {"run": "toy", "step": 3})
    for layout in LAYOUTS:
        export(folder / "best", folder / layout, ExportSettings(layout=layout))


@pytest.fixture(scope="session")
def exports(toy_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """best/ with every part, packed/ and padded/."""
    return made_once(tmp_path_factory, "exports", lambda folder: write_exports(folder, toy_encoder))


def texts_of(task: Task) -> list[Any]:
    return PAIRS if task.pair else SIDES[0]


def differences(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[float]:
    """Between values, or between probabilities; predicted classes must be the same."""
    found: list[float] = []
    for one, other in zip(ours, theirs, strict=True):
        if "probabilities" not in one:
            found.append(abs(one["prediction"] - other["prediction"]))
            continue
        assert one["prediction"] == other["prediction"]
        for name, probability in one["probabilities"].items():
            found.append(abs(probability - other["probabilities"][name]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_part_predicts_the_same(exports: Path, layout: str) -> None:
    original, exported = Predictor.open(exports / "best"), Predictor.open(exports / layout)
    assert list(exported.tasks) == list(original.tasks)
    for name, task in original.tasks.items():
        texts = texts_of(task)
        expected = original.predict(name, texts)
        assert max(differences(expected, exported.predict(name, texts))) <= 1e-5, name
        assert max(differences(expected[:1], exported.predict(name, texts[:1]))) <= 1e-5, f"{name}, alone"
    for texts in (SIDES[0], PAIRS):
        expected_of_all, predicted = original.predict_all(texts), exported.predict_all(texts)
        for name, expected in expected_of_all.items():
            assert max(differences(expected, predicted[name])) <= 1e-5, f"{name}, with all others"
    assert np.abs(original.embed(SIDES[0]) - exported.embed(SIDES[0])).max() <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_and_short_texts_share_a_pass(exports: Path, layout: str) -> None:
    original, exported = Predictor.open(exports / "best"), Predictor.open(exports / layout)
    texts = ["a", "the film was dull " * 40, "a good book", "the film was dull " * 39]  # two are truncated
    assert max(differences(original.predict("type", texts), exported.predict("type", texts))) <= 1e-5
    pairs = [(texts[1], "a"), ("a", texts[1]), (texts[1], texts[3])]
    assert max(differences(original.predict("same", pairs), exported.predict("same", pairs))) <= 1e-5


@pytest.mark.slow
def test_the_graph_itself_says_what_is_predicted(exports: Path) -> None:
    """Thresholds, ranges and classes, for readers that have no manyheads."""
    backend = OnnxBackend.open(exports / "packed", 4096)
    for name in ("type", "stars", "topics", "grade", "same"):
        task = backend.tasks[name]
        texts = [tuple(pair) for pair in PAIRS] if task.pair else [(text,) for text in SIDES[0]]
        prepared = backend.prepare([TextInput(text, (task,)) for text in texts])
        described = backend.answer(prepared)
        [predicted] = backend.run_graph({name: [one.encoder_inputs[name] for one in prepared]}, predictions=True)
        for answer, value in zip(described, predicted, strict=True):
            expected = answer[name]["prediction"]
            if task.kind.has_classes and task.kind.exclusive:
                assert task.labels.names[int(value)] == expected
            elif task.kind.has_classes:
                assert [task.labels.names[place] for place in np.flatnonzero(value)] == expected
            else:
                assert value == pytest.approx(expected, abs=1e-6)


def test_all_parts_are_tried_or_known_not_to_export() -> None:
    tried = {name for task in tasks_with_every_part() for name in (task.loss.name, task.name.partition("-")[2])}
    for family in ("encodings", "pooling", "heads", "outputs", "losses"):
        for part in parts(family):
            if part.factory.__module__.startswith("manyheads."):
                known = (family, part.name) in NOT_EXPORTED | NEEDS_SIMILARITY
                assert known or part.name in tried, f"{family}/{part.name}"


def refused(model: ManyHeads, encoder: Path, folder: Path, **settings: Any) -> UserError:
    save_model(folder / "best", model, encoder, {"run": "toy", "step": 3})
    with pytest.raises(UserError) as fault:
        export(folder / "best", folder / "exported", ExportSettings(**settings))
    assert not (folder / "exported").exists()
    return fault.value


def test_a_part_without_a_form_is_refused_by_name(toy_encoder: Path, tmp_path: Path) -> None:
    fault = refused(toy_model(toy_encoder, [a_task(name="near", head="lstm")]), toy_encoder, tmp_path)
    assert fault.code == "cannot-export"
    assert "task 'near': pooling 'lstm'" in str(fault)
    tags = toy_model(toy_encoder, [a_task(name="names", labels=TAGS)])
    assert "task 'names': kind 'tags' has a prediction per word" in str(refused(tags, toy_encoder, tmp_path / "tags"))


AUTO = {
    "roberta": lambda pieces: RobertaConfig(
        vocab_size=pieces, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=66, type_vocab_size=1, pad_token_id=1,
    ),
    "distilbert": lambda pieces: DistilBertConfig(
        vocab_size=pieces, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", AUTO)
def test_encoders_of_transformers_export_padded(name: str, toy_encoder: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer(toy_encoder)
    encoder = tmp_path / "encoder"
    AutoModel.from_config(AUTO[name](tokenizer.backend.get_vocab_size())).save_pretrained(encoder)
    (encoder / "tokenizer.json").write_bytes((toy_encoder / "tokenizer.json").read_bytes())
    tasks = {
        "mood": a_task(name="mood", encoding="single", pooling="mean"),
        "inner": a_task(name="inner", encoding="single", pooling=PartConfig(name="first", options={"layer": 1})),
        "same": a_task(name="same", labels=TWO, encoding="cross"),
    }
    model = ManyHeads(load_encoder(EncoderSettings(name=str(encoder))).encoder.eval(), tasks, tokenizer, None, seed=0)
    fault = refused(model, encoder, tmp_path)
    assert fault.code == "cannot-export"
    assert "--layout padded" in str(fault)
    exported = Predictor.open(export(tmp_path / "best", tmp_path / "padded", ExportSettings(layout="padded")).folder)
    original = Predictor.open(tmp_path / "best")
    for task in tasks.values():
        ours, theirs = original.predict(task.name, texts_of(task)), exported.predict(task.name, texts_of(task))
        assert max(differences(ours, theirs)) <= 1e-5
    graph = to_onnx(model, "padded", int8_words=True)
    quantise(graph, channel_maxima(graph, "padded", tokenizer.backend.get_vocab_size(), model.max_length))
    assert sum(node.op_type == "MatMulInteger" for node in graph.graph.node) == 12  # six of each layer
