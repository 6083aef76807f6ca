"""One split of one task, ready for the model: tokens and labels, row by row."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manyheads.data.dataset import Dataset
from manyheads.data.words import TextWords
from manyheads.errors import UserError
from manyheads.model.answer_windows import answer_places, answer_windows
from manyheads.model.candidates import Candidates
from manyheads.model.multitask import ManyHeads
from manyheads.model.search_texts import SearchTexts
from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.task import Task
from manyheads.tokens.column import TokenColumn, first_tokens, tokenise, tokenise_once
from manyheads.tokens.packing import Sequence
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.tokens.windows import cut_windows

FIRST_TOKEN = np.zeros(1, dtype=np.int64)
NO_TOKENS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class FrozenStates:
    """The states of a task's examples after the frozen layers."""

    layer: int  # the last frozen one
    whole: bool  # whether of all tokens, because layers above read them; else of what pooling reads
    states: np.ndarray  # [rows, width]
    starts: np.ndarray  # [sequences + 1]
    firsts: np.ndarray  # [examples + 1] the first sequence of each example

    def of(self, row: int) -> list[np.ndarray]:
        sequences = range(self.firsts[row], self.firsts[row + 1])
        return [self.states[self.starts[number] : self.starts[number + 1]] for number in sequences]


def learns_all_pieces(task: Task) -> bool:
    """Whether every piece of a word has its label in training, not the first alone."""
    return task.kind.per_word and task.pooling.options.get("pieces") == "all"


class TaskTokens:
    """Texts as tokens, labels as the loss sees them."""

    def __init__(
        self, task: Task, examples: Dataset, tokenizer: Tokenizer, cached: bool = True, row_group: str | None = None
    ) -> None:
        self.task = task
        self.examples = examples
        self.row_group = row_group  # the name of its rows, where several tasks read the same ones
        self.frozen: FrozenStates | None = None  # states of its rows after frozen layers, where they are cached
        to_tokens = tokenise if cached else tokenise_once
        self.candidates: Candidates | None = None  # where a row's second text holds several to choose from
        if task.kind.per_candidate:
            self.candidates = Candidates.of(examples.texts[1], lambda column: to_tokens(column, tokenizer))
            self.texts: tuple[TokenColumn, ...] = (to_tokens(examples.texts[0], tokenizer), self.candidates.rows)
        else:
            self.texts = tuple(to_tokens(column, tokenizer, task.kind.in_windows) for column in examples.texts)
        self.words = self._find_words()
        # of a search with right answers: its distinct texts
        self.search: SearchTexts | None = None
        if task.kind.searches and examples.labels is not None:
            self.search = SearchTexts.of(examples, tokenizer, cached)
            check_scores(task, examples, self.search)
        # as the loss sees them; end to end where rows have several
        self.labels: Tensor | None = None
        self.label_places: Ragged | None = None  # then, which of them are a row's
        self._read_labels()

    def _read_labels(self) -> None:
        if self.examples.labels is None:
            return
        if self.task.kind.per_token:
            self.labels = torch.from_numpy(answer_places(self.examples.labels, self.texts[1]))
            return
        labels = self.task.kind.targets(self.examples.labels, self.task)
        if isinstance(labels, Ragged):
            self.label_places = Ragged(np.arange(len(labels.values)), labels.starts)
            labels = labels.values
        self.labels = torch.from_numpy(labels)

    def with_all_pieces(self) -> TaskTokens:
        """The same with every piece of a word in place of the word, for training: a later one has the label of the
        inside of what the word is part of."""
        assert self.words is not None
        labels = self.examples.labels
        assert isinstance(labels, Ragged)
        pieces: list[np.ndarray] = []
        piece_labels: list[np.ndarray] = []
        inside = self.task.kind.inside_labels(self.task)
        for row, firsts in enumerate(self.words):
            tokens = np.arange(firsts[0] if len(firsts) else 0, len(self.texts[0][row]))
            pieces.append(tokens)
            word_of = np.searchsorted(firsts, tokens, side="right") - 1
            row_labels = labels[row]
            if len(row_labels):
                row_labels = np.where(firsts[word_of] == tokens, row_labels[word_of], inside[row_labels[word_of]])
            piece_labels.append(row_labels)
        changed = copy.copy(self)
        changed.words = Ragged.from_rows(pieces, np.int64)
        changed.examples = replace(self.examples, labels=Ragged.from_rows(piece_labels, np.int64))
        changed._read_labels()
        return changed

    def __len__(self) -> int:
        return len(self.examples)

    def of(self, task: Task) -> TaskTokens:
        """The same tokens for another task that reads the same texts."""
        shared = copy.copy(self)
        shared.task = task
        # which say what a word is
        if (type(task.kind), task.columns.words) != (type(self.task.kind), self.task.columns.words):
            shared.words = shared._find_words()
        return shared

    def labels_of(self, rows: np.ndarray) -> Column:
        """The labels of some rows, as people have them."""
        assert self.examples.labels is not None
        return self.examples.labels[rows]

    def _find_words(self) -> Ragged | None:
        """Of each row, which token each word begins with; None where words have no labels of their own."""
        if not self.task.kind.per_word:
            return None
        texts = self.task.kind.words(self.examples, self.task)
        words = first_tokens(self.texts[0], [text.spans for text in texts])
        labels = self.examples.labels
        if isinstance(labels, Ragged):
            unequal = np.flatnonzero(self.examples.labelled & (labels.lengths != words.lengths))
            if len(unequal):
                row = int(unequal[0])
                raise UserError(
                    f"{self.examples.location(row)}: {labels.lengths[row]} labels for {words.lengths[row]} words; "
                    f"task '{self.task.name}' needs one for each. Mend the file.",
                    code="label-count",
                )
        return words

    def spans(self, rows: np.ndarray | None = None) -> list[TextWords]:
        """What predictions of some rows are about: their words, or candidates, or tokens, and where those stand."""
        examples = self.examples if rows is None else self.examples.take(rows)
        texts = self.task.kind.words(examples, self.task)
        if not self.task.kind.per_token:
            return texts
        numbers = range(len(self)) if rows is None else rows.tolist()
        with_tokens: list[TextWords] = []
        for row, text in zip(numbers, texts, strict=True):
            offsets = self.texts[1].offsets_of(row)
            assert offsets is not None
            with_tokens.append(replace(text, spans=[(start, end) for start, end in offsets.tolist()]))
        return with_tokens

    def count_words(self, rows: np.ndarray) -> int:
        """How many words some rows have, whose labels are their own."""
        assert self.words is not None
        return int(self.words[rows].lengths.sum())

    def word_labels(self, rows: list[int]) -> Tensor:
        """The labels of all words of some rows, row after row; 0 in rows that have none, as teachers know them."""
        assert self.labels is not None
        assert self.label_places is not None
        assert self.words is not None
        numbers = np.array(rows, dtype=np.int64)
        labelled = self.examples.labelled[numbers]
        labels = self.labels[torch.from_numpy(self.label_places[numbers].values)]
        if labelled.all():
            return labels
        has_label = torch.from_numpy(np.repeat(labelled, self.words[numbers].lengths))
        return labels.new_zeros(len(has_label)).masked_scatter(has_label, labels)

    def text_numbers(self, rows: list[int], scores: bool) -> Tensor:
        """A number for each text of some rows of a search: equal where texts are, or a teacher's score of an answer."""
        assert self.search is not None
        if not scores:
            return torch.from_numpy(self.search.of_rows(rows))
        assert isinstance(self.examples.labels, Ragged)
        numbers: list[float] = []
        for row in rows:
            row_scores = self.examples.labels[row].tolist()
            if len(row_scores) == 1:
                row_scores.append(0.0)  # which leaves the margin
            numbers += [0.0, *row_scores]
        return torch.tensor(numbers)

    def inputs_to_predict(self, model: ManyHeads, row: int) -> list[Sequence]:
        """The encoder inputs of one example; of a task with `both_orders` those of both, side by side."""
        sequences = self.inputs(model, row)
        if self.search is not None:
            sequences = sequences[:2]  # without wrong answers
        if self.task.both_orders:
            sequences = [*sequences, *self.inputs(model, row, swapped=True)]
        return sequences

    def inputs(self, model: ManyHeads, row: int, swapped: bool = False) -> list[Sequence]:
        """The encoder inputs of one example; `swapped`: of a pair the second text first."""
        if swapped:
            assert self.frozen is None, "states are kept of the file's order"
            return model.inputs(self.task.name, self.texts, row, self.row_group, swapped=True)
        if self.candidates is not None:
            return self._with_states(self._candidate_inputs(model, row), row)
        if self.task.kind.per_token:
            return self._with_states(answer_windows(model, self.task.name, self.texts, row, self.row_group), row)
        if self.words is None:
            sequences = model.inputs(self.task.name, self.texts, row, self.row_group)
            if self.search is not None:
                sequences += [self.search_input(model, number) for number in self.search.negatives[row].tolist()]
            return self._with_states(sequences, row)
        return self._windows(model, row)

    def search_input(self, model: ManyHeads, number: int) -> Sequence:
        """The encoder input of one text of a search."""
        assert self.search is not None
        tokens = self.search.tokens
        return model.inputs(self.task.name, (tokens, tokens), number)[0]

    def _candidate_inputs(self, model: ManyHeads, row: int) -> list[Sequence]:
        """Those of the question with each candidate; the first of each says that a score is asked for."""
        assert self.candidates is not None
        sequences: list[Sequence] = []
        for candidate in self.candidates.of_row(row):
            tokens = (self.texts[0][row], candidate)
            framed = model.frame(self.task.name, tokens, row, self.row_group, first_side=len(sequences))
            sequences += [replace(framed[0], words=FIRST_TOKEN), *framed[1:]]
        return sequences

    def _windows(self, model: ManyHeads, row: int) -> list[Sequence]:
        """Of a text whose words have labels: itself, or windows of it where it is longer than the model reads."""
        assert self.words is not None
        special_tokens = model.tokenizer.special_tokens
        windows = cut_windows(len(self.texts[0][row]), model.max_length - special_tokens.around_single)
        sequences: list[Sequence] = []
        for number, window in enumerate(windows):
            words = window.own(self.words[row]) + len(special_tokens.start)
            tokens = slice(window.start, window.end)
            (sequence,) = model.inputs(self.task.name, self.texts, row, self.row_group, window=tokens)
            if number and sequence.origin is not None:
                sequence = replace(sequence, origin=(*sequence.origin[:2], number))
            # a word of which the tokenizer left nothing may be read at the end token
            sequences.append(replace(sequence, words=np.minimum(words, len(sequence.ids) - 1)))
        return self._with_states(sequences, row)

    def _with_states(self, sequences: list[Sequence], row: int) -> list[Sequence]:
        """Those that are kept; where they are all that heads read, in place of the tokens."""
        if self.frozen is None:
            return sequences
        with_states = []
        for sequence, array in zip(sequences, self.frozen.of(row), strict=True):
            if not self.frozen.whole:
                sequence = Sequence(NO_TOKENS, NO_TOKENS, "all", words=sequence.words)
            with_states.append(replace(sequence, origin=None, states=array, layer=self.frozen.layer))
        return with_states

    def fingerprint(self) -> str:
        """Changes with any text or label, so that a run is never resumed on other data."""
        digest = hashlib.sha256(" ".join(column.fingerprint for column in self.texts).encode())
        if self.examples.labels is not None:
            labels = self.examples.labels
            if isinstance(labels, Ragged):
                digest.update(np.ascontiguousarray(labels.lengths).data)
                labels = labels.values
            digest.update(np.ascontiguousarray(labels).data)
        if self.search is not None:
            digest.update(self.search.tokens.fingerprint.encode())
            digest.update(np.ascontiguousarray(self.search.negatives.starts).data)
        if self.candidates is not None:
            digest.update(np.ascontiguousarray(self.candidates.counts).data)
        return digest.hexdigest()[:32]

    def too_long(self, model: ManyHeads) -> int:
        """How many examples are longer than the model reads, and so are truncated, or read window by window."""
        return int(self.are_too_long(model).sum())

    def are_too_long(self, model: ManyHeads) -> np.ndarray:
        """[examples] whether each is; of candidates the longest counts."""
        lengths: tuple[np.ndarray, ...] = tuple(column.lengths for column in self.texts)
        if self.candidates is not None:
            lengths = (lengths[0], self.candidates.longest())
        untruncated = model.head(self.task.name).encoding.untruncated_length(lengths, model.tokenizer.special_tokens)
        too_long: np.ndarray = untruncated > model.max_length
        return too_long


def check_scores(task: Task, examples: Dataset, search: SearchTexts) -> None:
    """A teacher's scores are one for each answer of a row, or the margin of a single wrong one."""
    if not task.labels.scores:
        return
    assert isinstance(examples.labels, Ragged)
    scores, answers = examples.labels.lengths, search.negatives.lengths + 1
    unequal = np.flatnonzero(((scores != answers) & ((scores != 1) | (answers != 2))) | (answers == 1))
    if len(unequal):
        row = int(unequal[0])
        needs = "a score for each"
        if answers[row] == 1:
            needs = "a wrong answer in each row"
        raise UserError(
            f"{examples.location(row)}: {scores[row]} scores for {answers[row]} answers; task '{task.name}' needs "
            f"{needs}. Mend the file.",
            code="label-count",
        )
