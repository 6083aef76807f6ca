"""One encoder, many heads: the batches of several tasks go through the encoder as one packed batch."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

from manyheads.data.examples import Examples
from manyheads.encoder import Encoder
from manyheads.encodings import Encoding, Pooling
from manyheads.losses import Loss
from manyheads.seeding import draws
from manyheads.tasks import Task
from manyheads.tokens import Sequence, TokenColumn, Tokenizer, pack, tokenise, tokenise_once

Inputs = list[list[Sequence]]  # for each example its encoder inputs: one, or two for a bi-encoder


class TaskHead(nn.Module):
    """What one task owns: encoding, pooling and head."""

    def __init__(self, task: Task, encoder: Encoder) -> None:
        super().__init__()
        self.encoding: Encoding = task.encoding.build("encodings")
        self.pooling: Pooling = task.pooling.build("pooling", encoder)
        self.loss: Loss = task.loss.build("losses")
        outputs = self.loss.outputs(len(task.labels.names))
        self.head: nn.Module = task.head.build("heads", self.encoding.features(encoder.width), outputs)

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """The task's share of the encoder's states → outputs [examples, outputs]."""
        return self.head(self.encoding(self.pooling(states, starts, lengths)))


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
        if encoder.pooler is not None:
            encoder.pooler.requires_grad_(False)  # until a task's pooling reads it
        for name, task in tasks.items():
            with draws(seed, "head", name):  # a head's start does not depend on which other tasks there are
                self.heads[_key(name)] = TaskHead(task, encoder)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def head(self, task: str) -> TaskHead:
        found = self.heads[_key(task)]
        assert isinstance(found, TaskHead)
        return found

    def inputs(self, task: str, texts: tuple[TokenColumn, ...], row: int) -> list[Sequence]:
        """The encoder inputs of one example."""
        head = self.head(task)
        found = head.encoding.inputs(tuple(column[row] for column in texts), self.tokenizer.frame, self.max_length)
        return [Sequence(ids, segments, head.pooling.keep) for ids, segments in found]

    def forward(self, batches: list[tuple[str, Inputs]]) -> list[Tensor]:
        """The outputs of each (task, examples), all from one pass through the encoder."""
        tokens = pack((one for _, inputs in batches for example in inputs for one in example), self.device)
        states = self.encoder(tokens)
        outputs = []
        first = 0
        for task, inputs in batches:
            own = slice(first, first + sum(map(len, inputs)))
            outputs.append(self.head(task)(states, tokens.kept_starts[own], tokens.kept_lengths[own]))
            first = own.stop
        return outputs


def _key(task: str) -> str:
    """A ModuleDict refuses keys that are its own attributes, such as 'type' or 'train': tasks may be called so."""
    return f"{task}-head"


class TaskTokens:
    """One split of one task, ready for the model: tokens and labels, row by row."""

    def __init__(self, task: Task, examples: Examples, tokenizer: Tokenizer, cached: bool = True) -> None:
        self.task = task
        self.examples = examples
        self.texts = tuple((tokenise if cached else tokenise_once)(one, tokenizer) for one in examples.texts)
        # as the loss sees them: classes as they are, a regression's labels on its scale
        labels = examples.labels
        if labels is not None and task.kind == "regression":
            labels = (labels - task.offset) / task.unit
        self.labels = None if labels is None else torch.from_numpy(labels)

    def __len__(self) -> int:
        return len(self.examples)

    def fingerprint(self) -> str:
        """Changes with any text or label, so that a run is never resumed on other data."""
        digest = hashlib.sha256(" ".join(column.fingerprint for column in self.texts).encode())
        if self.examples.labels is not None:
            digest.update(self.examples.labels.tobytes())
        return digest.hexdigest()[:32]

    def too_long(self, model: ManyHeads) -> int:
        """How many examples are longer than the model reads, and so are truncated."""
        lengths = tuple(column.lengths for column in self.texts)
        whole = model.head(self.task.name).encoding.untruncated_length(lengths, model.tokenizer.frame)
        return int((whole > model.max_length).sum())
