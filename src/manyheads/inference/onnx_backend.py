"""The backend that runs an exported folder: neither torch nor transformers is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from manyheads.data.dataset import Dataset
from manyheads.errors import UserError
from manyheads.inference.collector import ArrayCollector
from manyheads.inference.graph_session import Feeds, GraphSession, Runtime, open_session
from manyheads.inference.onnx_folder import (
    EMBEDDINGS,
    PACKED_INPUTS,
    PADDED_INPUTS,
    OnnxFolder,
    numbers_input,
    output_names,
)
from manyheads.inference.predictor import Progress
from manyheads.inference.prepared import Answer, Prepared, TextInput, Words
from manyheads.inference.texts import dataset_of_texts
from manyheads.model.folder_checks import guarded, refused
from manyheads.storage.ragged import Column
from manyheads.tasks.task import Task
from manyheads.tokens.column import TokenColumn, tokenise_once
from manyheads.tokens.framing import Frame, SingleFrame
from manyheads.tokens.packing import Sequence, merge_equal
from manyheads.tokens.tokenizer import Tokenizer

MOST_WASTE = 20_000  # pairs of places that attention computes in vain: what a pass of its own costs in time
EncoderInputs = dict[str, list[Sequence]]  # of one example, by task


class OnnxBackend:
    """An exported model and its session, which threads share."""

    explains = False  # a graph has no gradients

    def __init__(self, folder: OnnxFolder, session: GraphSession, tokenizer: Tokenizer, tokens_per_pass: int) -> None:
        description = folder.description
        self.tasks, self.frames = folder.tasks, folder.frames
        self.about: dict[str, Any] = {**description.about, "precision": description.precision}
        self.max_length = description.max_length
        self.tokens_per_pass = tokens_per_pass
        self.width, self.padded = description.width, description.layout == "padded"
        self.session, self.tokenizer = session, tokenizer

    @classmethod
    def open(cls, folder: Path, tokens_per_pass: int, runtime: Runtime = "onnxruntime") -> OnnxBackend:
        exported = OnnxFolder(folder)
        if runtime != "onnxruntime" and exported.description.precision == "int8":
            reason = f"{runtime} cannot run int8; ONNX Runtime can, and OpenVINO runs an export in fp32"
            raise UserError(f"{folder}: {reason}.", code="conflicting-options")
        with guarded(folder / "tokenizer.json"):
            tokenizer = Tokenizer(folder)
        session = open_session(exported.graph_file, runtime)
        expected = {numbers_input(name) for name in exported.tasks}
        if not expected <= set(session.inputs):
            raise refused(exported.graph_file, "its tasks are not those of onnx.json.")
        return cls(exported, session, tokenizer, tokens_per_pass)

    # --- texts of one file or list ------------------------------------------------------------------------------

    def run(self, tasks: list[Task], examples: Dataset, progress: Progress) -> dict[str, Column]:
        columns = self._tokenise(examples)
        collectors = {task.name: ArrayCollector(len(examples)) for task in tasks}
        inputs = [self._encoder_inputs(tasks, columns, row) for row in range(len(examples))]
        completed = 0
        for rows in self._plan_passes(inputs):
            by_task = {task.name: [inputs[row][task.name] for row in rows] for task in tasks}
            for name, predicted in self._predict(by_task).items():
                collectors[name].add(rows, predicted)
            completed += len(rows) * len(tasks)
            progress(completed)
        return {name: collector.result() for name, collector in collectors.items()}

    def embed(self, examples: Dataset, task: str | None = None) -> np.ndarray:
        column = self._tokenise(examples)[0]
        embeddings = np.empty((len(examples), self.width), dtype=np.float32)
        sequences = [self._frame(SingleFrame(), (column[row],)) for row in range(len(examples))]
        for rows in self._plan_passes([{EMBEDDINGS: [sequence]} for sequence in sequences]):
            embeddings[rows] = self._embed([sequences[row] for row in rows])
        return embeddings

    def _plan_passes(self, inputs: list[EncoderInputs]) -> list[list[int]]:
        """Which examples share a pass: at most `tokens_per_pass`, the longest first, and of like length.

        Attention sees a pass as [sequences, longest]: a sequence of l tokens beside one of L computes L² − l² pairs of
        places in vain. More than `MOST_WASTE` of them cost more than another pass.
        """
        lengths = [_distinct_lengths(example) for example in inputs]
        passes: list[list[int]] = []
        tokens = waste = longest = 0
        for row in sorted(range(len(inputs)), key=lambda row: -max(lengths[row])):
            row_tokens = sum(lengths[row])
            row_waste = sum(longest**2 - length**2 for length in lengths[row])
            if not passes or tokens + row_tokens > self.tokens_per_pass or waste + row_waste > MOST_WASTE:
                passes.append([])
                tokens = waste = 0
                longest = max(lengths[row])
                row_waste = sum(longest**2 - length**2 for length in lengths[row])
            passes[-1].append(row)
            tokens += row_tokens
            waste += row_waste
        return passes

    def _tokenise(self, examples: Dataset) -> tuple[TokenColumn, ...]:
        return tuple(tokenise_once(column, self.tokenizer) for column in examples.texts)

    def _encoder_inputs(
        self, tasks: list[Task] | tuple[Task, ...], columns: tuple[TokenColumn, ...], row: int
    ) -> EncoderInputs:
        """Of each task the inputs of an example; of one with `both_orders` those of both, side by side."""
        texts = tuple(column[row] for column in columns)
        inputs: EncoderInputs = {}
        framed: dict[tuple[Frame, bool], Sequence] = {}  # what tasks read alike is framed once
        for task in tasks:
            orders = (False, True) if task.both_orders else (False,)
            sequences: list[Sequence] = []
            for swapped in orders:
                for frame in self.frames[task.name]:
                    if (frame, swapped) not in framed:
                        framed[frame, swapped] = self._frame(frame, texts[::-1] if swapped else texts)
                    sequences.append(framed[frame, swapped])
            inputs[task.name] = sequences
        return inputs

    def _frame(self, frame: Frame, texts: tuple[np.ndarray, ...]) -> Sequence:
        return Sequence(*frame.apply(texts, self.tokenizer.special_tokens, self.max_length))

    # --- inputs of many callers -----------------------------------------------------------------------------------

    def prepare(self, inputs: list[TextInput]) -> list[Prepared]:
        prepared: dict[int, Prepared] = {}
        for text_count in (1, 2):
            positions = [at for at, text_input in enumerate(inputs) if len(text_input.texts) == text_count]
            if positions:
                texts = [cast("tuple[str, str]", inputs[at].texts) for at in positions]
                columns = self._tokenise(dataset_of_texts(texts, text_count, "the model"))
                for row, at in enumerate(positions):
                    prepared[at] = self._prepare_one(inputs[at], columns, row)
        return [prepared[at] for at in range(len(inputs))]

    def _prepare_one(self, text_input: TextInput, columns: tuple[TokenColumn, ...], row: int) -> Prepared:
        special_tokens = self.tokenizer.special_tokens
        lengths = tuple(np.array(len(column[row])) for column in columns)
        if not text_input.tasks:
            alone = SingleFrame()
            sequence = self._frame(alone, (columns[0][row],))
            truncated = bool(alone.untruncated_length(lengths, special_tokens) > self.max_length)
            return Prepared(text_input.texts, (), sequence, len(sequence.ids), truncated)
        truncated = False
        for task in text_input.tasks:
            for frame in self.frames[task.name]:
                truncated |= bool(frame.untruncated_length(lengths, special_tokens) > self.max_length)
        inputs = self._encoder_inputs(text_input.tasks, columns, row)
        return Prepared(text_input.texts, text_input.tasks, inputs, sum(_distinct_lengths(inputs)), truncated)

    def answer(self, prepared: list[Prepared]) -> list[Answer]:
        answers: list[Answer] = [{} for _ in prepared]
        for pass_positions in self._plan_passes([one_input.encoder_inputs for one_input in prepared]):
            positions: dict[str, list[int]] = {}
            by_task: dict[str, list[list[Sequence]]] = {}
            for position in pass_positions:
                for task in prepared[position].tasks:
                    positions.setdefault(task.name, []).append(position)
                    by_task.setdefault(task.name, []).append(prepared[position].encoder_inputs[task.name])
            for name, predicted in self._predict(by_task).items():
                task = self.tasks[name]
                for position, described in zip(positions[name], task.kind.describe(predicted, task), strict=True):
                    answers[position][name] = described
        return answers

    def embed_prepared(self, prepared: list[Prepared]) -> np.ndarray:
        embeddings = np.empty((len(prepared), self.width), dtype=np.float32)
        for positions in self._plan_passes([{EMBEDDINGS: [text.encoder_inputs]} for text in prepared]):
            embeddings[positions] = self._embed([prepared[position].encoder_inputs for position in positions])
        return embeddings

    def explain(self, prepared: Prepared) -> dict[str, Words]:
        raise UserError("an exported model has no gradients, so it cannot explain.", code="no-gradients")

    # --- the graph --------------------------------------------------------------------------------------------------

    def _predict(self, inputs_by_task: dict[str, list[list[Sequence]]]) -> dict[str, np.ndarray]:
        """Of each task its examples' probabilities [examples, classes] or values [examples], calibrated."""
        return dict(zip(inputs_by_task, self.run_graph(inputs_by_task), strict=True))

    def run_graph(self, inputs_by_task: dict[str, list[list[Sequence]]], predictions: bool = False) -> list[np.ndarray]:
        """The graph's first output for each task, or what it predicts; equal sequences are encoded once."""
        sequences: list[Sequence] = []
        for examples in inputs_by_task.values():
            for inputs in examples:
                sequences += inputs
        distinct, indices = merge_equal(sequences, everywhere=True)
        feeds = self._lay_out(distinct)
        end = 0
        for name, examples in inputs_by_task.items():
            start, end = end, end + len(examples) * self._inputs_of_example(self.tasks[name])
            feeds[numbers_input(name)] = np.array(indices[start:end], dtype=np.int64).reshape(len(examples), -1)
        names = [output_names(self.tasks[name])[predictions] for name in inputs_by_task]
        return self.session.run(names, feeds)

    def _embed(self, sequences: list[Sequence]) -> np.ndarray:
        distinct, indices = merge_equal(sequences, everywhere=True)
        [vectors] = self.session.run([EMBEDDINGS], self._lay_out(distinct))
        embeddings: np.ndarray = vectors[indices]
        return embeddings

    def _inputs_of_example(self, task: Task) -> int:
        return len(self.frames[task.name]) * (2 if task.both_orders else 1)

    def _lay_out(self, sequences: list[Sequence]) -> Feeds:
        """The graph's inputs for these sequences, and no examples of any task."""
        feeds: Feeds = {}
        for name, task in self.tasks.items():
            feeds[numbers_input(name)] = np.zeros((0, self._inputs_of_example(task)), dtype=np.int64)
        lengths = np.array([len(sequence.ids) for sequence in sequences], dtype=np.int64)
        ids = np.concatenate([sequence.ids for sequence in sequences]).astype(np.int64)
        segments = np.concatenate([sequence.segments for sequence in sequences]).astype(np.int64)
        if not self.padded:
            return feeds | dict(zip(PACKED_INPUTS, (ids, segments, lengths), strict=True))
        real = np.arange(lengths.max()) < lengths[:, None]
        for name, values in zip(PADDED_INPUTS, (ids, 1, segments), strict=True):
            feeds[name] = np.zeros(real.shape, dtype=np.int64)
            feeds[name][real] = values
        return feeds


def _distinct_lengths(inputs: EncoderInputs) -> list[int]:
    """Of the sequences of an example; what tasks read alike is encoded once."""
    lengths: dict[int, int] = {}
    for sequences in inputs.values():
        for sequence in sequences:
            lengths[id(sequence)] = len(sequence.ids)
    return list(lengths.values())
