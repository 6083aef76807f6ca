"""Frozen layers are computed once: their states of every example are kept in a memory-mapped file and read again.

What is kept is a function of encoder, texts and encoding alone, in pieces of a fixed size, so it does not matter
which run wrote it. Of an encoder that is frozen altogether only the rows are kept that its tasks' pooling reads.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from manyheads.config.part import dump_part
from manyheads.config.training import trainable_layers
from manyheads.encoder.bert import Bert
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
from manyheads.tokens.packing import Sequence, pack
from manyheads.training.schedule import Phase

if TYPE_CHECKING:
    from manyheads.training.setup import TrainingJob

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
    gigabytes: float


def open_frozen_cache(job: TrainingJob, phase: Phase) -> None:
    """Let the tasks of a phase read kept states where that is exact, possible and pays."""
    close_frozen_cache(job)
    found = worth_caching(job, phase)
    for one in found:
        one.data.frozen = _open(job, one)
    if found:
        job.reporter.say(f"{describe_frozen_cache(job, found)}, then read again")


def close_frozen_cache(job: TrainingJob) -> None:
    for data in [*job.train.values(), *job.watched.values()]:
        data.frozen = None


def describe_frozen_cache(job: TrainingJob, found: list[CacheEntry]) -> str:
    layer = found[0].layer
    what = "the encoder is" if layer == job.model.encoder.depth else f"layers 1–{layer} are"
    tasks = ", ".join(dict.fromkeys(one.task for one in found if one.split == "train"))
    dev = " and their dev examples" if any(one.split != "train" for one in found) else ""
    return f"frozen layers: {what} computed once for {tasks}{dev} ({sum(one.gigabytes for one in found):.2f} GB)"


def worth_caching(job: TrainingJob, phase: Phase) -> list[CacheEntry]:
    """What of a phase is read often enough to be kept, as far as there is room."""
    layer = _frozen_layer(job, phase)
    if not layer:
        return []
    tasks = phase.settings.tasks or list(job.model.tasks)
    whole = bool(trainable_layers(phase.trainable, job.model.encoder.depth)) or any(
        job.model.head(task).pooling.layer != layer for task in tasks
    )
    if whole and not isinstance(job.model.encoder, Bert):
        return []  # only a whole pass can be run through transformers
    perturbed = {task for one in phase.regularisers if one.reads_examples for task in one.tasks}
    passes = _passes(job, phase)
    found: list[CacheEntry] = []
    limit = job.recipe.training.frozen_gigabytes
    for task in tasks:
        if passes.get(task, 0.0) < WORTH or task in perturbed:
            continue
        splits = {"train": job.train[task]}
        if len(phase.epoch_ends) * len(job.watched_rows[task]) >= WORTH * len(job.watched[task]):
            splits["dev"] = job.watched[task]
        for split, data in splits.items():
            lengths = _lengths(job.model, data, whole)
            size = lengths.sum() * job.model.encoder.width * 4 / 1e9
            if sum(one.gigabytes for one in found) + size > limit:
                job.reporter.say(
                    f"frozen layers: {task} would take {size:.1f} GB, more than is left of training.frozen_gigabytes "
                    f"({limit:g}); computed anew each time"
                )
                break
            found.append(CacheEntry(task, split, data, layer, whole, lengths, size))
    return found


def _frozen_layer(job: TrainingJob, phase: Phase) -> int:
    """Up to which layer nothing learns, drops out, or is read by a head below it; 0 is none."""
    training, encoder = job.recipe.training, job.model.encoder
    if training.frozen_dropout or not training.frozen_gigabytes:
        return 0
    learning = trainable_layers(phase.trainable, encoder.depth)
    read = [job.model.head(task).pooling.layer for task in phase.settings.tasks or job.model.tasks]
    return max(0, min([encoder.depth, *(layer - 1 for layer in learning), *read]))


def _passes(job: TrainingJob, phase: Phase) -> dict[str, float]:
    """How often each task's examples are passed over in the phase."""
    seen: dict[str, int] = {}
    rounds = min(phase.rounds, LOOKED_AT, (phase.end - phase.first) * job.schedule.accumulate)
    for index in range(rounds):
        for batch in phase.sampler.round(index):
            seen[batch.task] = seen.get(batch.task, 0) + len(batch.rows)
    return {task: count / len(job.train[task]) for task, count in seen.items()}


def _lengths(model: ManyHeads, data: TaskTokens, whole: bool) -> np.ndarray:
    """How many states each sequence has."""
    found = [
        len(one.ids) if whole or one.positions_needed == "all" else 1
        for row in range(len(data))
        for one in data.inputs(model, row)
    ]
    return np.array(found, dtype=np.int64)


def _open(job: TrainingJob, one: CacheEntry) -> FrozenStates:
    """The kept states, computed now where they are not there, or not whole."""
    fingerprint = _fingerprint(job.model, one)
    if job.processes.main:
        try:
            open_entry("frozen", fingerprint)
        except UserError:
            remove_entry("frozen", fingerprint)  # damaged
        cached("frozen", fingerprint, lambda writer: _write(writer, job, one))
        remove_least_recently_used("frozen", ROOM * job.recipe.training.frozen_gigabytes, keep=fingerprint)
    job.processes.wait()
    states = Entry(entry_folder("frozen", fingerprint)).column("states")
    starts = np.r_[0, np.cumsum(one.lengths)]
    return FrozenStates(one.layer, one.whole, states, starts, len(one.lengths) // len(one.data))


def _write(writer: EntryWriter, job: TrainingJob, one: CacheEntry) -> None:
    """Piece by piece, in the order of the rows."""
    model, data = job.model, one.data
    name = f"freeze {one.task}" if one.split == "train" else f"freeze {one.task} {one.split}"
    with job.reporter.job(name, len(data)) as bar, evaluating(model):
        for first in range(0, len(data), PIECE):
            rows = range(first, min(first + PIECE, len(data)))
            given = [sequence for row in rows for sequence in data.inputs(model, row)]
            writer.append("states", _states(model, given, one.layer, one.whole).numpy())
            bar.update(rows.stop)


@torch.no_grad()
def _states(model: ManyHeads, given: list[Sequence], layer: int, whole: bool) -> torch.Tensor:
    """The states of some sequences one after the other, as they were given."""
    wanted = [Sequence(one.ids, one.segments, "all" if whole else one.positions_needed) for one in given]
    tokens = pack(wanted, model.device)
    states = model.encoder.states(model.encoder.embed(tokens), tokens, {layer})[layer]
    order = [
        torch.arange(int(start), int(start) + int(length))
        for start, length in zip(tokens.kept_starts, tokens.kept_lengths, strict=True)
    ]
    return states[torch.cat(order).to(states.device)].float().cpu()


def _fingerprint(model: ManyHeads, one: CacheEntry) -> str:
    """Changes with the frozen weights and what the encoder does with them, the texts, and how they become sequences."""
    encoder = model.encoder
    digest = hashlib.sha256(f"{type(encoder).__name__} {encoder.config}".encode())
    for name, tensor in encoder.state_dict().items():
        if encoder.layer_of(name) <= one.layer and not name.startswith("pooler."):
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    positions_needed = "all" if one.whole else model.head(one.task).pooling.positions_needed
    encoding = json.dumps(dump_part(model.tasks[one.task].encoding), sort_keys=True)
    columns = [column.fingerprint for column in one.data.texts]
    digest.update(
        json.dumps([columns, encoding, positions_needed, one.layer, model.max_length, torch.__version__]).encode()
    )
    return digest.hexdigest()[:32]
