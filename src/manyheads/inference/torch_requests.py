"""Inputs of many callers in one packed encoder pass: single texts and pairs, each for its own tasks."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from manyheads.data.dataset import Dataset
from manyheads.data.words import TextWords
from manyheads.inference.both_orders import mean_over_orders
from manyheads.inference.calibration import calibrate
from manyheads.inference.collector import make_collector
from manyheads.inference.embeddings import embedding_pooling
from manyheads.inference.predict import predict_outputs, way_of_reading, word_counts
from manyheads.inference.prediction_files import describe
from manyheads.inference.prepared import Answer, Prepared, TextInput, Words
from manyheads.inference.texts import Text, dataset_of_texts
from manyheads.model.multitask import Inputs, ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.tasks.task import Task
from manyheads.tokens.column import TokenColumn, tokenise_texts
from manyheads.tokens.packing import Sequence, pack

WORD = re.compile(r"\w+|[^\w\s]")
SECOND_TEXT = 1_000_000  # marks of its tokens begin there; no text has so many
Reader = Callable[[int], list[Sequence]]  # a row's number → its encoder inputs
NEARLY_ONE = 1e-12  # a probability is kept so far from 0 and 1 before its log-odds


# --- tokens -----------------------------------------------------------------------------------------------------


def prepare(model: ManyHeads, inputs: list[TextInput]) -> list[Prepared]:
    """Tokenise inputs, those that the same tasks read together."""
    prepared: dict[int, Prepared] = {}
    positions_by_reader: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for position, text_input in enumerate(inputs):
        reader = (len(text_input.texts), tuple(task.name for task in text_input.tasks))
        positions_by_reader.setdefault(reader, []).append(position)
    for positions in positions_by_reader.values():
        group = [inputs[position] for position in positions]
        prepare_group = _prepare_for_tasks if group[0].tasks else _prepare_to_embed
        prepared.update(zip(positions, prepare_group(model, group), strict=True))
    return [prepared[position] for position in range(len(inputs))]


def _prepare_for_tasks(model: ManyHeads, inputs: list[TextInput]) -> list[Prepared]:
    """Tasks that read a text the same way share its encoder inputs: most models have one way, however many heads."""
    tasks = inputs[0].tasks
    tasks_by_way: dict[tuple[object, ...], list[Task]] = {}
    for task in tasks:
        tasks_by_way.setdefault(way_of_reading(model, task), []).append(task)
    ways = list(tasks_by_way.values())
    spans_by_task: dict[str, list[TextWords]] = {}
    if any(task.kind.ragged for task in tasks):
        first = next((task for task in tasks if task.kind.in_windows), tasks[0])  # others can do with its tokens
        tokens = TaskTokens(first, _dataset(inputs), model.tokenizer, cached=False)
        readers, too_long = _readers_of_tokens(model, tokens, ways)
        spans_by_task = {task.name: tokens.of(task).spans() for task in tasks if task.kind.ragged}
    else:
        readers, too_long = _readers_of_texts(model, inputs, ways)
    prepared: list[Prepared] = []
    for row, text_input in enumerate(inputs):
        sequences: dict[str, list[Sequence]] = {}
        read: list[Sequence] = []
        for alike, read_row in zip(ways, readers, strict=True):
            shared = read_row(row)
            sequences.update(dict.fromkeys((task.name for task in alike), shared))
            read += shared
        words = {name: texts[row] for name, texts in spans_by_task.items()}
        prepared.append(
            Prepared(text_input.texts, tasks, sequences, _distinct_tokens(read), bool(too_long[row]), words)
        )
    return prepared


def _readers_of_tokens(model: ManyHeads, tokens: TaskTokens, ways: list[list[Task]]) -> tuple[list[Reader], np.ndarray]:
    """For each way of reading what makes a row's encoder inputs; and which rows are cut."""
    readers: list[Reader] = []
    too_long = np.zeros(len(tokens), dtype=bool)
    for alike in ways:
        own_tokens = tokens.of(alike[0])
        readers.append(partial(own_tokens.inputs_to_predict, model))
        if not alike[0].kind.in_windows:  # nothing of which is cut
            too_long |= own_tokens.are_too_long(model)
    return readers, too_long


def _readers_of_texts(
    model: ManyHeads, inputs: list[TextInput], ways: list[list[Task]]
) -> tuple[list[Reader], np.ndarray]:
    """The same of whole texts and pairs, which need no dataset: a request waits for less."""
    columns = _tokenise(model, inputs)
    lengths = tuple(column.lengths for column in columns)
    readers: list[Reader] = []
    too_long = np.zeros(len(inputs), dtype=bool)
    for alike in ways:
        encoding = model.head(alike[0].name).encoding
        too_long |= encoding.untruncated_length(lengths, model.tokenizer.special_tokens) > model.max_length
        readers.append(partial(_inputs_to_predict, model, alike[0], columns))
    return readers, too_long


def _inputs_to_predict(model: ManyHeads, task: Task, columns: tuple[TokenColumn, ...], row: int) -> list[Sequence]:
    """The encoder inputs of one text or pair; of a task with `both_orders` those of both, side by side."""
    sequences = model.inputs(task.name, columns, row)
    if task.both_orders:
        sequences += model.inputs(task.name, columns, row, swapped=True)
    return sequences


def _tokenise(model: ManyHeads, inputs: list[TextInput]) -> tuple[TokenColumn, ...]:
    columns: list[TokenColumn] = []
    for side in zip(*(text_input.texts for text_input in inputs), strict=True):
        columns.append(tokenise_texts([text.strip() for text in side], model.tokenizer))
    return tuple(columns)


def _prepare_to_embed(model: ManyHeads, inputs: list[TextInput]) -> list[Prepared]:
    (tokens,) = _tokenise(model, inputs)
    special_tokens = model.tokenizer.special_tokens
    prepared: list[Prepared] = []
    for row, text_input in enumerate(inputs):
        sequence = Sequence(*special_tokens.single(tokens[row], model.max_length), "all")
        truncated = len(tokens[row]) + special_tokens.around_single > model.max_length
        prepared.append(Prepared(text_input.texts, (), sequence, len(sequence.ids), truncated))
    return prepared


def _dataset(inputs: list[TextInput]) -> Dataset:
    texts: list[Text | list[str]] = []
    for text_input in inputs:
        if text_input.words_given:
            texts.append(text_input.texts[0].split(" "))
        else:
            texts.append(cast("tuple[str, str]", text_input.texts))
    return dataset_of_texts(texts, len(inputs[0].texts), "the model", words=True)


def _distinct_tokens(sequences: list[Sequence]) -> int:
    """What is read twice is encoded once."""
    lengths: dict[tuple[bytes, bytes], int] = {}
    for sequence in sequences:
        lengths[sequence.ids.tobytes(), sequence.segments.tobytes()] = len(sequence.ids)
    return sum(lengths.values())


# --- predictions ------------------------------------------------------------------------------------------------


@torch.inference_mode()
def answer(model: ManyHeads, prepared: list[Prepared]) -> list[Answer]:
    """Every task's predictions for the inputs that it reads, from one pass."""
    positions: dict[str, list[int]] = {}
    batches: dict[str, Inputs] = {}
    tasks: dict[str, Task] = {}
    for position, one_input in enumerate(prepared):
        for task in one_input.tasks:
            tasks[task.name] = task
            positions.setdefault(task.name, []).append(position)
            batches.setdefault(task.name, []).append(one_input.encoder_inputs[task.name])
    answers: list[Answer] = [{} for _ in prepared]
    outputs = model(list(batches.items()))
    for (name, inputs), task_outputs in zip(batches.items(), outputs, strict=True):
        texts = [prepared[position].words.get(name) for position in positions[name]]
        described = _describe(model, tasks[name], inputs, task_outputs, [words for words in texts if words is not None])
        for position, prediction in zip(positions[name], described, strict=True):
            answers[position][name] = prediction
    return answers


def _describe(
    model: ManyHeads, task: Task, inputs: Inputs, outputs: Tensor, words: list[TextWords]
) -> list[dict[str, object]]:
    """Calibrated, and in the user's words; `words` are those of texts whose words have predictions of their own."""
    counts = word_counts(inputs)
    predicted = predict_outputs(model.head(task.name).loss, outputs.float(), counts).cpu().numpy()
    collector = make_collector(task, len(inputs))
    collector.add(list(range(len(inputs))), mean_over_orders(task, predicted), counts)
    result = task.kind.read_out(collector.result(), task, words)
    return describe(task, calibrate(task, task.kind.in_label_units(result, task)), words)


@torch.inference_mode()
def embed(model: ManyHeads, prepared: list[Prepared]) -> np.ndarray:
    """[inputs, width] float32: mean token states."""
    tokens = pack([one_input.encoder_inputs for one_input in prepared], model.device)
    pooled = embedding_pooling(model.encoder)(model.encoder(tokens), tokens.kept_starts, tokens.kept_lengths)
    vectors: np.ndarray = pooled.float().cpu().numpy()
    return vectors


# --- which words mattered ---------------------------------------------------------------------------------------


def explain(model: ManyHeads, prepared: Prepared) -> dict[str, Words]:
    """Gradient × input of each task's prediction, summed over the tokens of each word.

    w_t = Σ_d e_td·∂s/∂e_td, e: the embedded tokens, s: the log-odds of the predicted class (of several labels their
    sum), or the value. Positive: the word speaks for the prediction.
    """
    ids, spans = model.tokenizer.encode_with_offsets([text.strip() for text in prepared.texts])
    ids = [text_ids[: model.max_length] for text_ids in ids]  # no more is read
    spans = [text_spans[: model.max_length] for text_spans in spans]
    explained: dict[str, Words] = {}
    for task in prepared.tasks:
        if not task.kind.ragged:
            weights = _token_weights(model, task, prepared.encoder_inputs[task.name], ids)
            explained[task.name] = _word_weights(prepared.texts, spans, weights)
    return explained


def _token_weights(model: ManyHeads, task: Task, inputs: list[Sequence], ids: list[list[int]]) -> list[np.ndarray]:
    """Of each text, a weight for every token; 0 for those that were cut off."""
    with torch.enable_grad():
        packed = model.pack([(task.name, [inputs])], merge=False, all_states=True)
        embedded = model.embed(packed).detach().requires_grad_()
        [outputs] = model.read(embedded, packed)
        score = _score(mean_over_orders(task, model.head(task.name).loss.predict(outputs.double())), task)
        [gradient] = torch.autograd.grad(score, embedded)
    tokens = packed.tokens  # in which sequences are sorted by length
    ends = tokens.starts + tokens.lengths
    places = [np.arange(start, end) for start, end in zip(tokens.starts.tolist(), ends.tolist(), strict=True)]
    products = (gradient * embedded).sum(dim=-1).detach().cpu().numpy()[np.concatenate(places)]
    weights = [np.zeros(len(text_ids)) for text_ids in ids]
    for mark, product in zip(_token_marks(model, task, ids), products, strict=True):
        if mark < 0:
            side, number = divmod(-1 - mark, SECOND_TEXT)
            weights[side][number] += product
    return weights


def _score(predicted: Tensor, task: Task) -> Tensor:
    if not task.kind.has_classes:
        return predicted.sum()
    probabilities = predicted[0].clamp(NEARLY_ONE, 1 - NEARLY_ONE)
    log_odds = torch.log(probabilities) - torch.log1p(-probabilities)
    chosen = task.kind.decode(predicted.detach().cpu().numpy(), task)[0]
    if np.ndim(chosen):  # several labels, or none: then what is nearest to being one
        labels = np.flatnonzero(chosen)
        return log_odds[torch.from_numpy(labels)].sum() if len(labels) else log_odds.max()
    return log_odds[int(chosen)]


def _token_marks(model: ManyHeads, task: Task, ids: list[list[int]]) -> np.ndarray:
    """Which token of which text stands at each place of the encoder inputs: a text of marks, framed like the texts."""
    marks = tuple(-1 - side * SECOND_TEXT - np.arange(len(text_ids)) for side, text_ids in enumerate(ids))
    encoding = model.head(task.name).encoding
    framed = encoding.inputs(marks, model.tokenizer.special_tokens, model.max_length)
    if task.both_orders:
        framed = [*framed, *encoding.inputs(marks[::-1], model.tokenizer.special_tokens, model.max_length)]
    return np.concatenate([places for places, _ in framed])


def _word_weights(texts: tuple[str, ...], spans: list[list[tuple[int, int]]], weights: list[np.ndarray]) -> Words:
    """The sum over each word's tokens, as far as the text is read."""
    words: Words = []
    for side, text in enumerate(texts):
        stripped_at = len(text) - len(text.lstrip())
        token_starts = np.array([start for start, _ in spans[side]], dtype=np.int64)
        sums = np.concatenate([[0.0], np.cumsum(weights[side])])
        for word in WORD.finditer(text.strip(), 0, spans[side][-1][1] if spans[side] else 0):
            first, end = np.searchsorted(token_starts, [word.start(), word.end()]).tolist()
            if end > first:
                places = {"start": word.start() + stripped_at, "end": word.end() + stripped_at}
                words.append({"side": side, **places, "weight": float(sums[end] - sums[first])})
    return words
