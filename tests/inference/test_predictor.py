"""A model folder is all that a prediction needs; threads may share a predictor; a backend needs no torch."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import CLASSES, NUMBERS, a_task, columns, labels_of, toy_inputs, toy_model
from command import check_refused, manyheads
from manyheads import Predictor, Run, UserError, load_recipe, train
from manyheads.data.labels import LabelReader
from manyheads.inference.collector import make_collector
from manyheads.inference.prediction_files import describe
from manyheads.inference.predictor import TOKENS_PER_PASS
from manyheads.inference.torch_backend import TorchBackend
from manyheads.model.multitask import ManyHeads, evaluating

NOUNS, MOODS = ["film", "book", "dog"] * 18, ["good", "dull"] * 27
TEXTS = [f"the {noun} was {mood} {number}" for number, (noun, mood) in enumerate(zip(NOUNS, MOODS, strict=True))]
PAIRS = list(zip(TEXTS, reversed(TEXTS), strict=True))


@pytest.mark.slow
def test_a_copied_folder_predicts_like_its_run(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path, tmp_path: Path
) -> None:
    run = train(load_recipe(toy_recipe()), quiet=True)
    expected = run.predict("mood", TEXTS)
    expected_pairs = run.predict_all(PAIRS)
    copied = Path(shutil.copytree(run.folder / "best", tmp_path / "elsewhere" / "a model"))
    for path in (toy_data / "mood.csv", toy_data / "near.tsv"):
        path.unlink()
    shutil.rmtree(run.folder)
    predictor = Predictor.open(copied)
    assert list(predictor.tasks) == ["mood", "near"]
    assert predictor.about["run"] == "toy"
    assert predictor.predict("mood", TEXTS) == expected
    assert predictor.predict_all(PAIRS) == expected_pairs
    (tmp_path / "rows.csv").write_text("id,sentence\n" + "".join(f"r{i},{text}\n" for i, text in enumerate(TEXTS)))
    ids, from_file = predictor.predict_file("mood", tmp_path / "rows.csv")
    assert (ids[:2], from_file) == (["r0", "r1"], expected)
    assert predictor.predict_file_all(tmp_path / "rows.csv") == (ids, {"mood": expected})
    printed = manyheads("predict", copied, tmp_path / "rows.csv", "-t", "mood", "--json")
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)[0] == {"id": "r0", **expected[0]}
    assert sorted(path.name for path in copied.parent.iterdir()) == ["a model"], "nothing is written beside it"


@pytest.mark.slow
def test_files_as_people_have_them(saved_model: Path, tmp_path: Path) -> None:
    """A text per line for every task that takes one; no header, quotes as letters, an ending that says nothing."""
    predictor = Predictor.open(saved_model)
    texts = ['"The film was good', "a dog, asleep"]
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    ids, predictions = predictor.predict_file_all(tmp_path / "lines.txt")
    assert (ids, predictions) == (["0", "1"], predictor.predict_all(texts))
    assert predictor.predict_file("length", tmp_path / "lines.txt")[1] == predictions["length"]
    (tmp_path / "pairs.txt").write_text("".join(f"{text}\t{text} it is\n" for text in texts))
    pairs = [(text, f"{text} it is") for text in texts]
    assert predictor.predict_file_all(tmp_path / "pairs.txt")[1] == predictor.predict_all(pairs)
    (column,) = predictor.tasks["mood"].columns.text
    (tmp_path / "rows.dat").write_text("".join(f"{text}\t7\n" for text in texts))
    columns = [column, "label"]
    read = predictor.predict_file("mood", tmp_path / "rows.dat", columns=columns, format="tsv", quoting="none")
    assert read == (ids, predictions["mood"])
    flags = ["--columns", f"{column}, label", "--format", "tsv", "--quoting", "none", "--json"]
    printed = manyheads("predict", saved_model, tmp_path / "rows.dat", "-t", "mood", *flags)
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)[1] == {"id": "1", **read[1][1]}
    unknown = manyheads("predict", saved_model, tmp_path / "rows.dat", "-t", "mood", "--format", "xls")
    check_refused(unknown, "format: Input should be 'csv', 'tsv'", "[bad-option]")
    without_file = manyheads("predict", saved_model, "-t", "mood", "--format", "tsv")
    check_refused(without_file, "--format is about a FILE", "[conflicting-options]")


def test_numbers_are_shown_within_the_declared_range() -> None:
    task = a_task(labels=NUMBERS)  # 0 to 5
    numbers = np.array([-0.4, 0.0, 2.5, 5.819, np.inf])
    assert [shown["prediction"] for shown in describe(task, numbers)] == [0.0, 0.0, 2.5, 5.0, np.inf]
    open_range = replace(task, labels=LabelReader("regression"))
    assert [shown["prediction"] for shown in describe(open_range, numbers)] == numbers.tolist()


def test_metrics_see_numbers_beyond_the_declared_range(toy_encoder: Path, tmp_path: Path) -> None:
    task = a_task(name="length", labels=NUMBERS, encoding="single")
    model = toy_model(toy_encoder, [task]).eval()
    linear = model.head("length").head.linear_map
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.fill_(10.0)  # times 1.6 plus 2.5 is 18.5
    predictor = Predictor(TorchBackend(model, {}, TOKENS_PER_PASS), "in memory")
    assert predictor.predict("length", ["a good book"]) == [{"prediction": 5.0}]
    (tmp_path / "rows.csv").write_text("text,label\na good book,2.5\n")
    assert predictor.evaluate([tmp_path / "rows.csv"]).losses["length"] == pytest.approx((16 / 1.6) ** 2)


@pytest.mark.slow
def test_evaluate_reads_files_as_people_have_them(saved_model: Path, tmp_path: Path) -> None:
    predictor = Predictor.open(saved_model)
    labels = predictor.tasks["mood"].labels.names
    (column,) = predictor.tasks["mood"].columns.text
    label_column = predictor.tasks["mood"].columns.label
    rows = [(text, labels[number % len(labels)]) for number, text in enumerate(TEXTS)]
    (tmp_path / "plain.csv").write_text(f"{column},{label_column}\n" + "".join(f'"{a}",{b}\n' for a, b in rows))
    (tmp_path / "rows.dat").write_text("".join(f"{label}\t{text}\n" for text, label in rows))
    flags = ["--columns", f"{label_column},{column}", "--format", "tsv", "--quoting", "none"]
    plain = manyheads("evaluate", saved_model, tmp_path / "plain.csv", "-t", "mood", "--json")
    strange = manyheads("evaluate", saved_model, tmp_path / "rows.dat", "-t", "mood", "--json", *flags)
    assert plain.returncode == strange.returncode == 0, plain.stderr + strange.stderr
    assert json.loads(plain.stdout)["files"] == json.loads(strange.stdout)["files"]
    check_refused(manyheads("evaluate", saved_model, "--columns", "a,b"), "--columns is about a FILE")


def test_a_folder_that_cannot_be_written_is_enough(saved_model: Path, model_folder: Path) -> None:
    for path in (*model_folder.iterdir(), model_folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert Predictor.open(model_folder).predict_all(TEXTS) == Predictor.open(saved_model).predict_all(TEXTS)
    finally:
        model_folder.chmod(0o755)


def test_what_a_predictor_refuses(saved_model: Path, tmp_path: Path) -> None:
    predictor = Predictor.open(saved_model)
    refusals: list[tuple[str, Callable[[], object]]] = [
        ("unknown-task", lambda: predictor.task(None)),
        ("unknown-task", lambda: predictor.predict("moood", ["a"])),
        ("bad-text", lambda: predictor.predict("mood", "a film")),
        ("bad-text", lambda: predictor.predict("mood", [("a", "b")])),
        ("bad-text", lambda: predictor.predict("mood", [" "])),
        ("bad-text", lambda: predictor.predict("mood", [7])),  # type: ignore[list-item]
        ("bad-text", lambda: predictor.predict("same", ["a film"])),
        ("no-such-file", lambda: predictor.predict_file("mood", tmp_path / "absent.csv")),
        ("no-such-file", lambda: predictor.predict_file_all(tmp_path / "absent.csv")),
        ("missing-column", lambda: predictor.predict_file_all(tmp_path / "other.csv")),
    ]
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for code, call in refusals:
        with pytest.raises(UserError) as fault:
            call()
        assert fault.value.code == code, fault.value
    assert predictor.predict("mood", []) == []


# --- threads --------------------------------------------------------------------------------------------------------


def predictions_of(predictor: Predictor, number: int) -> object:
    """One of several different questions."""
    texts, pairs = TEXTS[number:] + TEXTS[:number], PAIRS[number:] + PAIRS[:number]
    calls: list[Callable[[], object]] = [
        lambda: predictor.predict("mood", texts),
        lambda: predictor.predict("near", pairs[: number + 1]),
        lambda: predictor.predict_all(texts[: 3 + number]),
        lambda: predictor.predict_all(pairs),
        lambda: predictor.predict("topics", texts[:1]),
        lambda: predictor.predict("same", pairs[:7]),
        lambda: predictor.predict("length", texts),
        lambda: predictor.predict_all(pairs[number:]),
    ]
    return calls[number % len(calls)]()


@pytest.mark.slow
def test_threads_predict_at_once_bit_for_bit(saved_model: Path) -> None:
    predictor = Predictor.open(saved_model, tokens_per_pass=64)  # many passes, so that threads meet within a call
    expected = [predictions_of(predictor, number) for number in range(8)]
    state = torch.random.get_rng_state()
    start = threading.Barrier(8)

    def repeat(number: int) -> list[object]:
        start.wait()
        return [predictions_of(predictor, number) for _ in range(25)]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(repeat, range(8)))
    for number, answers in enumerate(found):
        assert all(answer == expected[number] for answer in answers)
    assert torch.equal(torch.random.get_rng_state(), state), "predicting draws nothing"


class WatchedModes:
    """Notices every module whose mode is set while it watches, even if it is set back at once."""

    def __init__(self, model: ManyHeads) -> None:
        self.set: list[str] = []
        for module in model.modules():
            module.__class__ = self._watching(type(module))

    def _watching(self, kind: type) -> type:
        changed = self.set

        def __setattr__(module: Any, name: str, value: Any) -> None:
            if name == "training":
                changed.append(kind.__name__)
            kind.__setattr__(module, name, value)

        return type(kind.__name__, (kind,), {"__setattr__": __setattr__})


def test_a_model_in_eval_mode_is_not_touched(saved_model: Path) -> None:
    predictor = Predictor.open(saved_model)
    model = predictor.backend.model  # type: ignore[attr-defined]
    expected = predictor.predict_all(TEXTS)
    watched = WatchedModes(model)
    assert predictor.predict_all(TEXTS) == expected
    assert predictor.predict_all(PAIRS)
    assert not watched.set, "inference sets no module's mode"
    assert not any(module.training for module in model.modules())
    model.train()
    assert watched.set, "the watch would have seen it"


@pytest.mark.slow
def test_a_training_beside_a_predicting_thread_is_as_alone(saved_model: Path, toy_encoder: Path) -> None:
    """Gradients of the predictor's own model, and steps of another, while a thread predicts without pause."""
    predictor = Predictor.open(saved_model)
    shared = predictor.backend.model  # type: ignore[attr-defined]

    def gradients() -> list[torch.Tensor]:
        outputs = shared([("mood", toy_inputs(shared, "mood"))])[0]
        labels = labels_of(shared.tasks["mood"])
        shared.zero_grad()
        shared.head("mood").loss(outputs, labels).mean().backward()
        return [p.grad.clone() for p in shared.parameters() if p.grad is not None]

    def steps() -> list[torch.Tensor]:
        model = toy_model(toy_encoder, [a_task(labels=CLASSES)], dropout=0.1)
        model.train()
        torch.manual_seed(3)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        labels = labels_of(model.tasks["task"])
        for _ in range(5):
            with evaluating(model):  # as a training evaluates between its steps
                model([("task", toy_inputs(model))])
            assert model.training
            loss = model.head("task").loss(model([("task", toy_inputs(model))])[0], labels).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [tensor.clone() for tensor in model.state_dict().values()]

    alone = (gradients(), steps())
    expected = predictor.predict_all(TEXTS)
    stop = threading.Event()
    wrong: list[object] = []

    def predict_on() -> None:
        while not stop.is_set():
            answer = predictor.predict_all(TEXTS)
            if answer != expected:
                wrong.append(answer)

    thread = threading.Thread(target=predict_on)
    thread.start()
    try:
        for _ in range(5):
            assert torch.is_grad_enabled()
            beside = (gradients(), steps())
            for before, after in zip(alone, beside, strict=True):
                assert len(before) == len(after) > 0
                assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_two_threads_open_at_once(saved_model: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        opened = list(threads.map(lambda _: Predictor.open(saved_model).predict_all(TEXTS), range(4)))
    assert all(answer == opened[0] for answer in opened)


# --- the face -------------------------------------------------------------------------------------------------------


def test_a_backend_without_torch_serves_a_predictor() -> None:
    """What an exported model would bring: tasks, and arrays for texts."""

    class Lengths:
        tasks = {"task": replace(a_task(labels=CLASSES, encoding="single"))}
        about: dict[str, Any] = {}

        def run(self, tasks: list[Any], examples: Any, progress: Any) -> dict[str, np.ndarray]:
            sizes = [len(text) for text in examples.texts[0]]
            return {task.name: np.eye(3)[np.array(sizes) % 3] for task in tasks}

    found = Predictor(Lengths(), "lengths").predict(None, ["abc", "abcd"])
    assert [one["prediction"] for one in found] == ["a", "b"]


def test_collectors_bring_rows_into_order() -> None:
    collector = make_collector(a_task(), 4)
    assert collector.result().shape == (0,)
    collector.add([3, 1], np.array([[3.0, 3], [1, 1]], dtype=np.float32))
    collector.add([0, 2], np.array([[0.0, 0], [2, 2]], dtype=np.float32))
    assert collector.result().tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert collector.result().dtype == np.float32


def test_a_run_gives_its_predictor(toy_recipe: Callable[..., dict[str, Any]]) -> None:
    run = train(load_recipe(toy_recipe(training={"max_steps": 2, "batch_size": 8})), quiet=True)
    again = Run(run.folder)
    assert again.predictor is again.predictor
    assert again.model is again.predictor.backend.model  # type: ignore[attr-defined]
    assert again.predictor.backend.tokens_per_pass == TOKENS_PER_PASS  # type: ignore[attr-defined]
    assert again.predict("mood", TEXTS) == Predictor.open(run.folder / "best").predict("mood", TEXTS)
    assert np.array_equal(again.embed(TEXTS, normalize=True), again.predictor.embed(TEXTS, normalize=True))
    assert columns(again.model, 1)[0].ids.max() < len(again.model.encoder.words)
