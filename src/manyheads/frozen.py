"""Frozen layers are computed once: their states of every train example are kept in a memory-mapped file and read again.

What is kept is a function of encoder, texts and encoding alone, in pieces of a fixed size, so it does not matter
which run wrote it. Of an encoder that is frozen altogether only the rows are kept that its tasks' pooling reads.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from manyheads.choices import dump_choice
from manyheads.encoder.bert import Bert
from manyheads.errors import UserError
from manyheads.model import ManyHeads, TaskTokens
from manyheads.schedule import Phase
from manyheads.tokens import Sequence, cache_folder, mapped, pack
from manyheads.training_settings import trained_layers

if TYPE_CHECKING:
    from manyheads.job import TrainingJob

PIECE = 64  # examples that are encoded together
WORTH = 1.5  # passes over a task in a phase, from which on it pays to keep states
LOOKED_AT = 20_000  # rounds of a phase, at most, to count passes


@dataclass(frozen=True)
class FrozenStates:
    """The states of one task's train examples after the frozen layers."""

    layer: int  # the last frozen one
    whole: bool  # whether of all tokens, because layers above read them; else of what pooling reads
    states: np.ndarray  # [rows, width]
    starts: np.ndarray  # [sequences + 1]
    sides: int  # sequences of an example

    def of(self, row: int) -> list[np.ndarray]:
        places = range(row * self.sides, (row + 1) * self.sides)
        return [self.states[self.starts[one] : self.starts[one + 1]] for one in places]


def keep_frozen(job: TrainingJob, phase: Phase) -> None:
    """Let the tasks of a phase read kept states where that is exact, possible and pays."""
    for data in job.train.values():
        data.frozen = None
    layer = _frozen_layer(job, phase)
    if not layer:
        return
    tasks = phase.settings.tasks or list(job.model.tasks)
    whole = bool(trained_layers(phase.train, job.model.encoder.depth)) or any(
        job.model.head(task).pooling.layer != layer for task in tasks
    )
    if whole and not isinstance(job.model.encoder, Bert):
        return  # only a whole pass can be run through transformers
    passes = _passes(job, phase)
    used, limit = 0.0, job.recipe.training.frozen_gigabytes
    for task in tasks:
        if passes.get(task, 0.0) < WORTH:
            continue
        data = job.train[task]
        lengths = _lengths(job.model, data, whole)
        size = lengths.sum() * job.model.encoder.width * 4 / 1e9
        if used + size > limit:
            job.reporter.say(
                f"frozen layers: {task} would take {size:.1f} GB, more than is left of training.frozen_gigabytes "
                f"({limit:g}); computed anew each time"
            )
            continue
        used += size
        data.frozen = _open(job, task, data, layer, whole, lengths)
    kept = [task for task in tasks if job.train[task].frozen is not None]
    if kept:
        what = "the encoder is" if layer == job.model.encoder.depth else f"layers 1–{layer} are"
        job.reporter.say(f"frozen layers: {what} computed once for {', '.join(kept)} ({used:.2f} GB), then read again")


def _frozen_layer(job: TrainingJob, phase: Phase) -> int:
    """Up to which layer nothing learns, drops out, is perturbed, or is read by a head below it; 0 is none."""
    training, encoder = job.recipe.training, job.model.encoder
    if (
        training.frozen_dropout
        or not training.frozen_gigabytes
        or any(one.reads_examples for one in phase.regularisers)
    ):
        return 0
    learning = trained_layers(phase.train, encoder.depth)
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
        len(one.ids) if whole or one.keep == "all" else 1 for row in range(len(data)) for one in data.inputs(model, row)
    ]
    return np.array(found, dtype=np.int64)


def _open(job: TrainingJob, task: str, data: TaskTokens, layer: int, whole: bool, lengths: np.ndarray) -> FrozenStates:
    folder = cache_folder() / "frozen" / _fingerprint(job.model, task, data, layer, whole)
    if job.processes.main and not folder.is_dir():
        try:
            _write(folder, job, task, data, layer, whole, lengths)
            _make_room(folder, 4 * job.recipe.training.frozen_gigabytes)
        except OSError as error:
            raise UserError(
                f"{folder}: the states of frozen layers cannot be kept here ({error}). Set MANYHEADS_CACHE to another "
                "folder, or training.frozen_gigabytes=0."
            ) from None
    job.processes.wait()
    starts = np.r_[0, np.cumsum(lengths)]
    states = mapped(folder / "states.bin", np.float32, int(starts[-1]) * job.model.encoder.width)
    rows = np.asarray(states).reshape(-1, job.model.encoder.width)  # slices of a plain view are quicker to make
    return FrozenStates(layer, whole, rows, starts, len(lengths) // len(data))


def _write(
    folder: Path, job: TrainingJob, task: str, data: TaskTokens, layer: int, whole: bool, lengths: np.ndarray
) -> None:
    """Piece by piece, in the order of the rows; whole or not there at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    model = job.model
    training = model.training
    model.eval()
    try:
        with (aside / "states.bin").open("wb") as file, job.reporter.job(f"freeze {task}", len(data)) as bar:
            for first in range(0, len(data), PIECE):
                rows = range(first, min(first + PIECE, len(data)))
                given = [one for row in rows for one in data.inputs(model, row)]
                file.write(_states(model, given, layer, whole).numpy().tobytes())
                bar.update(rows.stop)
        (aside / "meta.json").write_text(json.dumps({"task": task, "layer": layer, "rows": int(lengths.sum())}))
        aside.replace(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    finally:
        model.train(training)


@torch.no_grad()
def _states(model: ManyHeads, given: list[Sequence], layer: int, whole: bool) -> torch.Tensor:
    """The states of some sequences one after the other, as they were given."""
    wanted = [Sequence(one.ids, one.segments, "all" if whole else one.keep) for one in given]
    tokens = pack(wanted, model.device)
    states = model.encoder.states(model.encoder.embed(tokens), tokens, {layer})[layer]
    order = [
        torch.arange(int(start), int(start) + int(length))
        for start, length in zip(tokens.kept_starts, tokens.kept_lengths, strict=True)
    ]
    return states[torch.cat(order).to(states.device)].float().cpu()


def _fingerprint(model: ManyHeads, task: str, data: TaskTokens, layer: int, whole: bool) -> str:
    """Changes with the frozen weights, the texts, and how they become sequences."""
    digest = hashlib.sha256()
    for name, tensor in model.encoder.state_dict().items():
        if model.encoder.layer_of(name) <= layer and not name.startswith("pooler."):
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    settings = model.tasks[task]
    keep = "all" if whole else model.head(task).pooling.keep
    encoding = json.dumps(dump_choice(settings.encoding), sort_keys=True)
    columns = [column.fingerprint for column in data.texts]
    digest.update(json.dumps([columns, encoding, keep, layer, model.max_length, torch.__version__]).encode())
    return digest.hexdigest()[:32]


def _make_room(newest: Path, gigabytes: float) -> None:
    """Remove the oldest kept states until all of them together are small enough."""
    every = sorted((one for one in newest.parent.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    sizes = {one: sum(file.stat().st_size for file in one.iterdir()) / 1e9 for one in every}
    for one in every:
        if one != newest and sum(sizes.values()) > gigabytes:
            shutil.rmtree(one, ignore_errors=True)
            del sizes[one]
