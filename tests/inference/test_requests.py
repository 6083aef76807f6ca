"""Inputs of many callers: the same predictions together as alone, and words weighed by the formula."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.inference.predict import way_of_reading
from manyheads.inference.prepared import TextInput
from manyheads.inference.torch_backend import TorchBackend
from manyheads.inference.torch_requests import explain
from manyheads.model.folder import load_model


@pytest.fixture
def backend(saved_model: Path) -> TorchBackend:
    return TorchBackend.open(saved_model, 4096)


def test_single_texts_and_pairs_share_a_pass(backend: TorchBackend) -> None:
    single = tuple(task for task in backend.tasks.values() if len(task.columns.text) == 1)
    pairs = tuple(task for task in backend.tasks.values() if len(task.columns.text) == 2)
    inputs = [TextInput(("a good film",), single), TextInput(("a", "b"), pairs), TextInput(("why ?",), single[:1])]
    together = backend.answer(backend.prepare(inputs))
    assert [set(answer) for answer in together] == [{task.name for task in one.tasks} for one in inputs]
    for text_input, answer in zip(inputs, together, strict=True):
        [alone] = backend.answer(backend.prepare([text_input]))
        for name, described in answer.items():
            for key, value in described.items():
                if isinstance(value, float):
                    assert value == pytest.approx(alone[name][key], abs=1e-5)


def test_tokens_that_tasks_read_alike_count_once(backend: TorchBackend) -> None:
    single = tuple(task for task in backend.tasks.values() if len(task.columns.text) == 1)
    [for_one], [for_all] = (backend.prepare([TextInput(("a good film",), tasks)]) for tasks in (single[:1], single))
    assert for_one.tokens == for_all.tokens == 5  # with [CLS] and [SEP]
    made = {id(sequences) for sequences in for_all.encoder_inputs.values()}
    assert len(made) == len({way_of_reading(backend.model, task) for task in single}) < len(single)


def test_a_words_weight_is_gradient_times_input(saved_model: Path) -> None:
    """Against a finite difference: with e_t·(1 + h) in place of e_t the score changes by h·w_t."""
    model, _ = load_model(saved_model)
    model = model.double().eval()
    task = model.tasks["near"]
    backend = TorchBackend(model, {}, 4096)
    [prepared] = backend.prepare([TextInput(("a good film", "no end"), (task,))])
    words = explain(model, prepared)["near"]
    packed = model.pack([("near", [prepared.encoder_inputs["near"]])], merge=False, all_states=True)
    starts = packed.tokens.starts.tolist()
    step = 1e-6
    expected = []
    for side, text in enumerate(prepared.texts):
        ends = np.cumsum([len(ids) for ids in model.tokenizer.encode(text.split())]).tolist()
        for first, end in zip([0, *ends], ends, strict=False):
            values = []
            for factor in (1 + step, 1 - step):
                with torch.no_grad():
                    embedded = model.embed(packed).clone()
                    embedded[starts[side] + 1 + first : starts[side] + 1 + end] *= factor
                    [outputs] = model.read(embedded, packed)
                    values.append(float(model.head("near").loss.predict(outputs).sum()))
            expected.append((values[0] - values[1]) / (2 * step))
    np.testing.assert_allclose([word["weight"] for word in words], expected, rtol=1e-4, atol=1e-9)
    assert [word["side"] for word in words] == [0, 0, 0, 1, 1]


def test_a_classs_score_is_its_log_odds(saved_model: Path) -> None:
    model, _ = load_model(saved_model)
    model = model.double().eval()
    task = model.tasks["mood"]
    backend = TorchBackend(model, {}, 4096)
    [prepared] = backend.prepare([TextInput(("a good film",), (task,))])
    words = explain(model, prepared)["mood"]
    packed = model.pack([("mood", [prepared.encoder_inputs["mood"]])], merge=False, all_states=True)
    with torch.no_grad():
        probabilities = model.head("mood").loss.predict(model.read(model.embed(packed), packed)[0])[0]
    chosen = int(probabilities.argmax())
    step, expected = 1e-6, []
    for token in range(3):
        values = []
        for factor in (1 + step, 1 - step):
            with torch.no_grad():
                embedded = model.embed(packed).clone()
                embedded[1 + token] *= factor
                probability = float(model.head("mood").loss.predict(model.read(embedded, packed)[0])[0, chosen])
                values.append(np.log(probability / (1 - probability)))
        expected.append((values[0] - values[1]) / (2 * step))
    np.testing.assert_allclose([word["weight"] for word in words], expected, rtol=1e-4, atol=1e-9)


def test_one_bad_input_spoils_no_other(backend: TorchBackend) -> None:
    from manyheads.serving.encoder_thread import EncoderThread, Pending, WorkItem
    from manyheads.serving.errors import RequestError
    from manyheads.serving.metrics import ServingMetrics

    task = backend.tasks["mood"]
    prepared = backend.prepare([TextInput((text,), (task,)) for text in ("a film", "bad", "why ?")])
    prepared[1].encoder_inputs["mood"][0].ids[1] = 10**6  # no such token
    thread = EncoderThread(ServingMetrics(), 1000)
    pending = Pending("model", backend)
    items = [WorkItem(pending, index, one_input) for index, one_input in enumerate(prepared)]
    outcomes = {item.index: outcome for item, outcome in thread._answer(items)}
    assert isinstance(outcomes[1], RequestError)
    assert outcomes[1].status == 500
    [first], [third] = (backend.answer([prepared[index]]) for index in (0, 2))
    assert outcomes[0]["mood"]["prediction"] == first["mood"]["prediction"]
    assert outcomes[2]["mood"]["prediction"] == third["mood"]["prediction"]
