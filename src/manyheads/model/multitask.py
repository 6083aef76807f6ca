"""One encoder, many heads: the batches of several tasks go through the encoder as one packed batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from manyheads.encoder import Encoder
from manyheads.encoder.bfloat16 import to_float32
from manyheads.model.earlier import EarlierModel
from manyheads.model.head import IncompatiblePart, TaskHead
from manyheads.seeding import seeded_rng
from manyheads.tasks.task import Task
from manyheads.tokens.column import TokenColumn
from manyheads.tokens.framing import Ids
from manyheads.tokens.packing import PackedTokens, Sequence, Words, merge_equal, pack
from manyheads.tokens.tokenizer import Tokenizer

Inputs = list[list[Sequence]]  # for each example its encoder inputs: one, or two for a bi-encoder


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards every module is as it was, so that frozen layers of a training stay without.

    A model that is in eval mode already is not touched: several threads may predict with it at once.
    """
    modes = {module: module.training for module in model.modules()}
    if True not in modes.values():
        yield
        return
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@dataclass(frozen=True)
class PackedBatches:
    """Batches of several tasks as one encoder input."""

    tasks: list[str]
    tokens: PackedTokens
    where: tuple[Tensor, ...]  # of each task: which of the packed sequences are its own, example by example
    words: tuple[Words | None, ...]  # of each task: where the words are, if they have labels of their own
    all_states: bool = False  # whether the last layer's states of all tokens are wanted, whatever heads read


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
        self.earlier: EarlierModel | None = None  # whose heads are saved with these, where a run extends it
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
        self.trainable = frozenset(name for name, parameter in self.named_parameters() if parameter.requires_grad)

    def _join_group(self, task: str) -> None:
        encoding = self.head(task).encoding
        if encoding.group is None:
            return
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
        head = self.heads[_key(self.tasks[task].head_of or task)]
        assert isinstance(head, TaskHead)
        return head

    def head_states(self) -> dict[str, Tensor]:
        """Every tensor that is not the encoder's, by name."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("encoder.")}

    def head_names(self, task: str) -> list[str]:
        """Names of the tensors that the task's head, or its group, owns."""
        encoding = self.head(task).encoding
        owners = [f"heads.{_key(self.tasks[task].head_of or task)}."]
        if encoding.group is not None:
            owners.append(f"groups.{encoding.group}-group.")
        return [name for name in self.head_states() if name.startswith(tuple(owners))]

    def inputs(
        self,
        task: str,
        texts: tuple[TokenColumn, ...],
        row: int,
        row_group: str | None = None,
        swapped: bool = False,
        window: slice = slice(None),
    ) -> list[Sequence]:
        """The encoder inputs of one example. `row_group` names the rows where several tasks read the same ones;
        `swapped` reads the second text of a pair first, `window` only these tokens of each text."""
        tokens = tuple(column[row][window] for column in texts)
        if swapped:
            tokens = tokens[::-1]
        return self.frame(task, tokens, row, row_group)

    def frame(
        self, task: str, tokens: tuple[Ids, ...], row: int, row_group: str | None = None, first_side: int = 0
    ) -> list[Sequence]:
        """The encoder inputs of the tokens of an example's texts; `first_side` numbers them where a row has others."""
        head = self.head(task)
        framed = head.encoding.inputs(tokens, self.tokenizer.special_tokens, self.max_length)
        sequences = []
        for side, (ids, segments) in enumerate(framed, start=first_side):
            origin = None if row_group is None else (row_group, row, side)
            sequences.append(Sequence(ids, segments, head.pooling.positions_needed, origin))
        return sequences

    def forward(self, batches: list[tuple[str, Inputs]], merge: bool = True, all_states: bool = False) -> list[Tensor]:
        """The outputs of each (task, examples), all from one pass through the encoder."""
        packed = self.pack(batches, merge, all_states)
        return self.read(self.embed(packed), packed)

    def embed(self, packed: PackedBatches) -> Tensor:
        """Embedded tokens, or their cached states after frozen layers."""
        if packed.tokens.states is not None:
            return packed.tokens.states
        return self.encoder.embed(packed.tokens)

    def pack(self, batches: list[tuple[str, Inputs]], merge: bool = True, all_states: bool = False) -> PackedBatches:
        """The sequences of all examples end to end, equal ones once if `merge`, and where each task's are."""
        sequences: list[Sequence] = []
        tasks, counts, words = [], [], []
        for task, inputs in batches:
            tasks.append(task)
            count_before = len(sequences)
            for example in inputs:
                sequences.extend(example)
            counts.append(len(sequences) - count_before)
            words.append(Words.of(inputs, self.device))
        if all_states:
            sequences = [replace(sequence, positions_needed="all") for sequence in sequences]
        distinct, indices = sequences, list(range(len(sequences)))
        if merge and sequences[0].states is None:
            distinct, indices = merge_equal(sequences, everywhere=not self.encoder.uses_dropout)
        tokens = pack(distinct, self.device)
        where = torch.tensor(indices, device=self.device).split(counts)
        return PackedBatches(tasks, tokens, where, tuple(words), all_states)

    def read(self, embedded: Tensor, packed: PackedBatches) -> list[Tensor]:
        """Embedded tokens → every task's outputs: what comes after the place where regularisers perturb."""
        return self.outputs(self.states(embedded, packed), packed)

    def features(self, batches: list[tuple[str, Inputs]]) -> list[Tensor]:
        """What the head of each (task, examples) reads, all from one pass through the encoder."""
        packed = self.pack(batches)
        return self._apply_heads(self.states(self.embed(packed), packed), packed, TaskHead.features)

    def states(self, embedded: Tensor, packed: PackedBatches) -> dict[int, Tensor]:
        """Embedded tokens → the states of each layer that is wanted."""
        layers = {self.head(task).pooling.layer for task in packed.tasks}
        if packed.all_states:
            layers.add(self.encoder.depth)
        return self.encoder.states(embedded, packed.tokens, layers)

    def outputs(self, states: dict[int, Tensor], packed: PackedBatches) -> list[Tensor]:
        """States → every task's outputs."""
        return self._apply_heads(states, packed, TaskHead.__call__)

    def _apply_heads(
        self, states: dict[int, Tensor], packed: PackedBatches, apply: Callable[..., Tensor]
    ) -> list[Tensor]:
        starts, lengths = packed.tokens.kept_starts, packed.tokens.kept_lengths
        results = []
        with torch.autocast(self.device.type, enabled=False):  # losses are never computed in half precision
            states = {layer: to_float32(layer_states) for layer, layer_states in states.items()}
            for task, sequences, words in zip(packed.tasks, packed.where, packed.words, strict=True):
                results.append(apply(self.head(task), states, starts[sequences], lengths[sequences], words))
        return results


def _key(task: str) -> str:
    """A ModuleDict refuses keys that are its own attributes, such as 'type' or 'train': tasks may be called so."""
    return f"{task}-head"
