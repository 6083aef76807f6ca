"""One encoder, many heads: the batches of several tasks go through the encoder as one packed batch."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.data.dataset import Dataset
from manyheads.encoder import Encoder
from manyheads.parts.encodings import Encoding
from manyheads.parts.losses import Loss
from manyheads.parts.pooling import Pooling
from manyheads.seeding import seeded_rng
from manyheads.tasks.task import Task
from manyheads.tokens.column import TokenColumn, tokenise, tokenise_once
from manyheads.tokens.packing import PackedTokens, Sequence, merge_equal, pack
from manyheads.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from manyheads.training.frozen_cache import FrozenStates

NOTHING = np.empty(0, dtype=np.int64)
Inputs = list[list[Sequence]]  # for each example its encoder inputs: one, or two for a bi-encoder


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards every module is as it was, so that frozen layers of a training stay without."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


class IncompatiblePart(ValueError):
    """A part that does not fit this encoder, or the other tasks of its group."""

    def __init__(self, task: str, part: str, reason: str) -> None:
        super().__init__(reason)
        self.task, self.part = task, part


class TaskHead(nn.Module):
    """What one task owns, or shares with tasks that say `head_of`: pooling, encoding and head."""

    def __init__(self, task: Task, encoder: Encoder) -> None:
        super().__init__()
        self.pooling: Pooling = _build(task, "pooling", "pooling", encoder)
        self.encoding: Encoding = _build(task, "encoding", "encodings", self.pooling.width)
        self.loss: Loss = _build(task, "loss", "losses", task)
        self.head: nn.Module = _build(task, "head", "heads", self.encoding.features, self.loss.outputs)
        self.output: nn.Module = _build(task, "output", "outputs", task)

    def forward(self, states: dict[int, Tensor], starts: Tensor, lengths: Tensor) -> Tensor:
        """The task's share of the encoder's states → outputs [examples, outputs]."""
        pooled = self.pooling(states[self.pooling.layer], starts, lengths)
        return self.output(self.head(self.encoding(pooled)))


def _build(task: Task, part: str, family: str, *given: Any) -> Any:
    try:
        return getattr(task, part).build(family, *given)
    except ValueError as fault:
        raise IncompatiblePart(task.name, part, str(fault)) from None


@dataclass(frozen=True)
class PackedBatches:
    """Batches of several tasks as one encoder input."""

    tasks: list[str]
    tokens: PackedTokens
    where: tuple[Tensor, ...]  # of each task: which of the packed sequences are its own, example by example


class ManyHeads(nn.Module):
    """The shared encoder and every task's head."""

    def __init__(
        self, encoder: Encoder, tasks: dict[str, Task], tokenizer: Tokenizer, max_length: int | None, seed: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tasks = tasks
        self.tokenizer = tokenizer
        self.max_length = min(encoder.max_length, max_length or encoder.max_length)
        self.heads = nn.ModuleDict()
        self.groups = nn.ModuleDict()  # layers that the tasks of a group share
        if encoder.pooler is not None:
            encoder.pooler.requires_grad_(False)  # until a task's pooling reads it
        for name, task in tasks.items():
            if task.head_of is None:
                with seeded_rng(seed, "head", name):  # a head's start does not depend on which other tasks there are
                    self.heads[_key(name)] = TaskHead(task, encoder)
                self._join_group(name)
        # what a phase of training may let learn: an encoder's own pooler only if a task reads it
        self.trainable = frozenset(name for name, one in self.named_parameters() if one.requires_grad)

    def _join_group(self, task: str) -> None:
        encoding = self.head(task).encoding
        if encoding.group is not None:
            key = f"{encoding.group}-group"
            if key not in self.groups:
                self.groups[key] = encoding.layer
            try:
                encoding.share(self.groups[key])
            except ValueError as fault:
                raise IncompatiblePart(task, "encoding", str(fault)) from None

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def head(self, task: str) -> TaskHead:
        found = self.heads[_key(self.tasks[task].head_of or task)]
        assert isinstance(found, TaskHead)
        return found

    def head_states(self) -> dict[str, Tensor]:
        """Every tensor that is not the encoder's, by name."""
        return {name: one for name, one in self.state_dict().items() if not name.startswith("encoder.")}

    def head_names(self, task: str) -> list[str]:
        """Names of the tensors that the task's head, or its group, owns."""
        encoding = self.head(task).encoding
        owners = [f"heads.{_key(self.tasks[task].head_of or task)}."]
        if encoding.group is not None:
            owners.append(f"groups.{encoding.group}-group.")
        return [name for name in self.head_states() if name.startswith(tuple(owners))]

    def inputs(self, task: str, texts: tuple[TokenColumn, ...], row: int, rows: str | None = None) -> list[Sequence]:
        """The encoder inputs of one example. `rows` names the rows where several tasks read the same ones."""
        head = self.head(task)
        found = head.encoding.inputs(
            tuple(column[row] for column in texts), self.tokenizer.special_tokens, self.max_length
        )
        return [
            Sequence(ids, segments, head.pooling.positions_needed, None if rows is None else (rows, row, side))
            for side, (ids, segments) in enumerate(found)
        ]

    def forward(self, batches: list[tuple[str, Inputs]], merge: bool = True) -> list[Tensor]:
        """The outputs of each (task, examples), all from one pass through the encoder."""
        packed = self.pack(batches, merge)
        return self.read(self.embed(packed), packed)

    def embed(self, packed: PackedBatches) -> Tensor:
        """Embedded tokens, or their states after layers that are frozen and were kept."""
        tokens = packed.tokens
        return self.encoder.embed(tokens) if tokens.states is None else tokens.states

    def pack(self, batches: list[tuple[str, Inputs]], merge: bool = True) -> PackedBatches:
        """The sequences of all examples end to end, what is equal once if wanted, and where each task's are."""
        sequences = [one for _, inputs in batches for example in inputs for one in example]
        distinct, places = sequences, list(range(len(sequences)))
        if merge and sequences[0].states is None:
            distinct, places = merge_equal(sequences, everywhere=not self.encoder.uses_dropout)
        tokens = pack(distinct, self.device)
        where = torch.tensor(places, device=self.device).split([sum(map(len, inputs)) for _, inputs in batches])
        return PackedBatches([task for task, _ in batches], tokens, where)

    def read(self, embedded: Tensor, packed: PackedBatches) -> list[Tensor]:
        """Embedded tokens → every task's outputs: what comes after the place where regularisers perturb."""
        layers = {self.head(task).pooling.layer for task in packed.tasks}
        states = self.encoder.states(embedded, packed.tokens, layers)
        starts, lengths = packed.tokens.kept_starts, packed.tokens.kept_lengths
        return [
            self.head(task)(states, starts[own], lengths[own])
            for task, own in zip(packed.tasks, packed.where, strict=True)
        ]


def _key(task: str) -> str:
    """A ModuleDict refuses keys that are its own attributes, such as 'type' or 'train': tasks may be called so."""
    return f"{task}-head"


class TaskTokens:
    """One split of one task, ready for the model: tokens and labels, row by row."""

    def __init__(
        self, task: Task, examples: Dataset, tokenizer: Tokenizer, cached: bool = True, rows: str | None = None
    ) -> None:
        self.task = task
        self.examples = examples
        self.rows = rows  # the name of its rows, where other tasks read the same ones
        self.frozen: FrozenStates | None = None  # states of its rows after frozen layers, where they are kept
        self.texts = tuple((tokenise if cached else tokenise_once)(one, tokenizer) for one in examples.texts)
        # as the loss sees them: classes as they are, a regression's labels on its scale
        labels = examples.labels
        if labels is not None:
            labels = task.kind.targets(labels, task)
        self.labels = None if labels is None else torch.from_numpy(labels)

    def __len__(self) -> int:
        return len(self.examples)

    def of(self, task: Task) -> TaskTokens:
        """The same tokens for another task that reads the same texts."""
        other = copy.copy(self)
        other.task = task
        return other

    def inputs(self, model: ManyHeads, row: int) -> list[Sequence]:
        """The encoder inputs of one example."""
        if self.frozen is None:
            return model.inputs(self.task.name, self.texts, row, self.rows)
        states, layer = self.frozen.of(row), self.frozen.layer
        if not self.frozen.whole:
            return [Sequence(NOTHING, NOTHING, "all", None, one, layer) for one in states]
        given = model.inputs(self.task.name, self.texts, row)
        return [replace(one, states=some, layer=layer) for one, some in zip(given, states, strict=True)]

    def fingerprint(self) -> str:
        """Changes with any text or label, so that a run is never resumed on other data."""
        digest = hashlib.sha256(" ".join(column.fingerprint for column in self.texts).encode())
        if self.examples.labels is not None:
            digest.update(np.ascontiguousarray(self.examples.labels).data)
        return digest.hexdigest()[:32]

    def too_long(self, model: ManyHeads) -> int:
        """How many examples are longer than the model reads, and so are truncated."""
        lengths: tuple[np.ndarray, ...] = tuple(column.lengths for column in self.texts)
        whole = model.head(self.task.name).encoding.untruncated_length(lengths, model.tokenizer.special_tokens)
        return int((whole > model.max_length).sum())
