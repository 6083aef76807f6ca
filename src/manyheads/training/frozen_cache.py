"""Frozen layers are computed once: their states of every example are kept in a memory-mapped file and read again.

What is kept is a function of encoder, texts and encoding alone, in pieces of a fixed size, so it does not matter
which run wrote it. Of an encoder that is frozen altogether only the rows are kept that its tasks' pooling reads.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import torch

from manyheads.config.part import dump_part
from manyheads.config.training import Training, trainable_layers
from manyheads.console import Reporter
from manyheads.encoder.bert import Bert
from manyheads.encoder.onednn import arithmetic
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads, evaluating
from manyheads.model.task_tokens import FrozenStates, TaskTokens
from manyheads.storage.cache import (
    Entry,
    EntryWriter,
    cached,
    entry_folder,
    open_entry,
    remove_entry,
    remove_least_recently_used,
)
from manyheads.storage.ragged import starts_of
from manyheads.tokens.packing import Sequence, pack
from manyheads.training.datasets import Datasets
from manyheads.training.distributed import Processes
from manyheads.training.schedule import Phase

PIECE = 64  # examples that are encoded together
ROOM = 4  # runs whose kept states may lie side by side
WORTH = 1.5  # passes over a task in a phase, from which on it pays to keep states
LOOKED_AT = 20_000  # rounds of a phase, at most, to count passes


@dataclass(frozen=True)
class CacheEntry:
    """Examples of a task whose states are worth keeping."""

    task: str
    split: str
    data: TaskTokens
    layer: int
    whole: bool
    lengths: np.ndarray  # [sequences] how many states each has
    counts: np.ndarray  # [examples] how many sequences each has
    gigabytes: float


class FrozenCache:
    """Opens and closes kept states for the tasks of a phase: where that is exact, possible and pays."""

    def __init__(
        self, model: ManyHeads, datasets: Datasets, training: Training, reporter: Reporter, processes: Processes
    ) -> None:
        self.model, self.datasets, self.training = model, datasets, training
        self.reporter, self.processes = reporter, processes

    def open(self, phase: Phase) -> None:
        """Let the tasks of a phase read kept states, computed now where they are not on disk."""
        self.close()
        entries = self.entries(phase)
        for entry in entries:
            entry.data.frozen = self._read(entry)
        if entries:
            self.reporter.say(f"{self.describe(entries)}, then read again")

    def close(self) -> None:
        for data in [*self.datasets.train.values(), *self.datasets.selection.values()]:
            data.frozen = None

    def describe(self, entries: list[CacheEntry]) -> str:
        layer = entries[0].layer
        layers = "the encoder is" if layer == self.model.encoder.depth else f"layers 1–{layer} are"
        tasks = ", ".join(dict.fromkeys(entry.task for entry in entries if entry.split == "train"))
        dev = " and their dev examples" if any(entry.split != "train" for entry in entries) else ""
        size = sum(entry.gigabytes for entry in entries)
        return f"frozen layers: {layers} computed once for {tasks}{dev} ({size:.2f} GB)"

    def entries(self, phase: Phase) -> list[CacheEntry]:
        """What of a phase is read often enough to be kept, as far as there is room."""
        layer = self._last_frozen_layer(phase)
        if not layer:
            return []
        tasks = phase.settings.tasks or list(self.model.tasks)
        whole = bool(trainable_layers(phase.trainable, self.model.encoder.depth))
        whole = whole or any(self.model.head(task).pooling.layer != layer for task in tasks)
        if whole and not isinstance(self.model.encoder, Bert):
            return []  # only a whole pass can be run through transformers
        entries: list[CacheEntry] = []
        for task in self._tasks_worth_keeping(tasks, phase):
            for split, data in self._splits(task, phase).items():
                lengths, counts = _lengths(self.model, data, whole)
                size = lengths.sum() * self.model.encoder.width * 4 / 1e9
                if not self._has_room(task, size, entries):
                    break
                entries.append(CacheEntry(task, split, data, layer, whole, lengths, counts, size))
        return entries

    def _tasks_worth_keeping(self, tasks: list[str], phase: Phase) -> list[str]:
        """Those whose examples are read often enough, and always as the same inputs."""
        perturbed: set[str] = set()
        for regulariser in phase.regularisers:
            if regulariser.reads_examples:
                perturbed |= set(regulariser.tasks)
        passes = self._passes(phase)
        often_read = [task for task in tasks if passes.get(task, 0.0) >= WORTH and task not in perturbed]
        return [task for task in often_read if self._has_fixed_inputs(task)]

    def _has_fixed_inputs(self, task: str) -> bool:
        """Whether a task is active, and reads its texts in one order."""
        if task not in self.datasets.selection:
            return False
        if self.model.head(task).loss.mined:  # other wrong answers in every epoch
            return False
        if self.model.tasks[task].symmetric:
            self.reporter.say(f"frozen layers: {task} draws the order of its pairs; computed anew each time")
            return False
        return True

    def _last_frozen_layer(self, phase: Phase) -> int:
        """Up to which layer nothing learns, drops out, or is read by a head below it; 0 is none."""
        if self.training.frozen_dropout or not self.training.frozen_gigabytes:
            return 0
        depth = self.model.encoder.depth
        below_learning = [layer - 1 for layer in trainable_layers(phase.trainable, depth)]
        pooled = [self.model.head(task).pooling.layer for task in phase.settings.tasks or self.model.tasks]
        return max(0, min([depth, *below_learning, *pooled]))

    def _passes(self, phase: Phase) -> dict[str, float]:
        """How often each task's examples are passed over in the phase."""
        examples: dict[str, int] = {}
        rounds = min(phase.rounds, LOOKED_AT, (phase.end - phase.first) * self.training.accumulate)
        for index in range(rounds):
            for batch in phase.sampler.round(index):
                examples[batch.task] = examples.get(batch.task, 0) + len(batch.indices)
        return {task: count / len(self.datasets.train[task]) for task, count in examples.items()}

    def _splits(self, task: str, phase: Phase) -> dict[str, TaskTokens]:
        """Train, and what is evaluated where that is read often enough."""
        splits = {"train": self.datasets.train[task]}
        selection = self.datasets.selection[task]
        if len(phase.epoch_ends) * len(self.datasets.selection_rows[task]) >= WORTH * len(selection):
            splits["dev"] = selection
        return splits

    def _has_room(self, task: str, size: float, entries: list[CacheEntry]) -> bool:
        limit = self.training.frozen_gigabytes
        if sum(entry.gigabytes for entry in entries) + size <= limit:
            return True
        self.reporter.say(
            f"frozen layers: {task} would take {size:.1f} GB, more than is left of training.frozen_gigabytes "
            f"({limit:g}); computed anew each time"
        )
        return False

    def _read(self, entry: CacheEntry) -> FrozenStates:
        """The kept states, computed now where they are not there, or not whole."""
        fingerprint = _fingerprint(self.model, entry)
        if self.processes.main:
            try:
                open_entry("frozen", fingerprint)
            except UserError:
                remove_entry("frozen", fingerprint)  # damaged
            cached("frozen", fingerprint, lambda writer: _write(writer, self.model, entry, self.reporter))
            remove_least_recently_used("frozen", ROOM * self.training.frozen_gigabytes, keep=fingerprint)
        self.processes.wait()
        states = Entry(entry_folder("frozen", fingerprint)).column("states")
        starts = starts_of(entry.lengths)
        return FrozenStates(entry.layer, entry.whole, states, starts, starts_of(entry.counts))


def _lengths(model: ManyHeads, data: TaskTokens, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """How many states each sequence has, and how many sequences each example."""
    lengths, counts = [], []
    for row in range(len(data)):
        sequences = data.inputs(model, row)
        counts.append(len(sequences))
        for sequence in sequences:
            every_token = whole or sequence.positions_needed == "all"
            lengths.append(len(sequence.ids) if every_token else 1)
    return np.array(lengths, dtype=np.int64), np.array(counts, dtype=np.int64)


def _write(writer: EntryWriter, model: ManyHeads, entry: CacheEntry, reporter: Reporter) -> None:
    """Piece by piece, in the order of the rows."""
    data = entry.data
    name = f"freeze {entry.task}" if entry.split == "train" else f"freeze {entry.task} {entry.split}"
    with reporter.job(name, len(data)) as bar, evaluating(model):
        for first in range(0, len(data), PIECE):
            rows = range(first, min(first + PIECE, len(data)))
            sequences = [sequence for row in rows for sequence in data.inputs(model, row)]
            writer.append("states", states_of(model, sequences, entry.layer, entry.whole).numpy())
            bar.update(rows.stop)


@torch.no_grad()
def states_of(model: ManyHeads, sequences: list[Sequence], layer: int, whole: bool) -> torch.Tensor:
    """The states of some sequences one after the other, in their order."""
    inputs = []
    for sequence in sequences:
        inputs.append(Sequence(sequence.ids, sequence.segments, "all" if whole else sequence.positions_needed))
    tokens = pack(inputs, model.device)
    states = model.encoder.states(model.encoder.embed(tokens), tokens, {layer})[layer]
    order = []
    for start, length in zip(tokens.kept_starts.tolist(), tokens.kept_lengths.tolist(), strict=True):
        order.append(torch.arange(start, start + length))
    return states[torch.cat(order).to(states.device)].float().cpu()


def _fingerprint(model: ManyHeads, entry: CacheEntry) -> str:
    """Changes with the frozen weights and what the encoder does with them, the texts, and how they become sequences."""
    encoder = model.encoder
    digest = hashlib.sha256(f"{type(encoder).__name__} {encoder.config}".encode())
    for name, tensor in encoder.state_dict().items():
        if encoder.layer_of(name) <= entry.layer and not name.startswith("pooler."):
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    positions_needed = "all" if entry.whole else model.head(entry.task).pooling.positions_needed
    encoding = json.dumps(dump_part(model.tasks[entry.task].encoding), sort_keys=True)
    columns = [column.fingerprint for column in entry.data.texts]
    digest.update(
        json.dumps([columns, encoding, positions_needed, entry.layer, model.max_length, arithmetic()]).encode()
    )
    return digest.hexdigest()[:32]
