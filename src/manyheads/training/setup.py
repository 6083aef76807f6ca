"""Everything a training works with, made ready: data, model, optimizer, order of batches, run folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads import registry
from manyheads.config.plugins import fingerprint, imported_parts
from manyheads.config.recipe import EncoderSettings, Recipe
from manyheads.console import Reporter
from manyheads.encoder import Encoder, load_encoder
from manyheads.errors import UserError
from manyheads.inference.evaluate import fixed_subset
from manyheads.model.multitask import IncompatiblePart, ManyHeads, TaskTokens
from manyheads.parts.samplers import Batch, SamplerInput
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.runs.trackers import check_trackers, numbers_of, tracker_settings
from manyheads.storage.files import restore_folder
from manyheads.tasks.load import load_tasks
from manyheads.tasks.task import PARTS, Task
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training import checkpoint as saved
from manyheads.training.device import check_bfloat16
from manyheads.training.distributed import Processes, join_processes
from manyheads.training.gradients.backward import Backward
from manyheads.training.optim import build_optimizer
from manyheads.training.run_folder import make_folder, open_folder
from manyheads.training.schedule import Schedule, plan_schedule
from manyheads.training.summary import announce


@dataclass
class Progress:
    """What changes while training, apart from weights: all of it is in every checkpoint."""

    step: int = 0
    examples: dict[str, int] = field(default_factory=dict)  # seen so far, per task
    seconds: float = 0.0
    best: dict[str, dict[str, Any]] = field(default_factory=dict)  # '' or task → {"value", "step"}
    moved: bool = False  # since the last evaluation
    stale: int = 0  # evaluations since the overall score was last beaten
    paused: list[str] = field(default_factory=list)  # tasks that have left the rotation
    peaks: dict[str, float | None] = field(default_factory=dict)  # best primary metric of tasks that may rest
    waited: dict[str, int] = field(default_factory=dict)  # evaluations since then, of those that trained on it
    seen_at: dict[str, int] = field(default_factory=dict)  # its examples at the last evaluation
    pauses: list[dict[str, Any]] = field(default_factory=list)  # who left or came back, and when
    measured: int = 0  # examples spent on measuring conflicts
    running: dict[str, float] = field(default_factory=dict)  # smoothed losses, for display
    speed: float = 0.0  # smoothed examples per second, for display

    def count(self, rounds: list[list[Batch]], seconds: float) -> None:
        batches = [batch for one in rounds for batch in one]
        for batch in batches:
            self.examples[batch.task] = self.examples.get(batch.task, 0) + len(batch.rows)
        self.step += 1
        self.seconds += seconds
        speed = sum(len(batch.rows) for batch in batches) / max(seconds, 1e-9)
        self.speed = speed if not self.speed else 0.95 * self.speed + 0.05 * speed

    def note_losses(self, losses: dict[str, float]) -> None:
        for task, loss in losses.items():
            self.running[task] = 0.95 * self.running.get(task, loss) + 0.05 * loss

    def status(self) -> str:
        shown = "  ".join(f"{task} {loss:.3f}" for task, loss in self.running.items())
        return f"loss: {shown}  {self.speed:.0f} examples/s"

    def out_of_patience(self, recipe: Recipe) -> bool:
        """Whether nothing improves any more: the overall score, or every single task."""
        return bool(self.why_stopped(recipe))

    def why_stopped(self, recipe: Recipe) -> str:
        if len(self.paused) == len(recipe.tasks):
            return "all tasks rest"
        patience = recipe.training.patience
        return "the overall score has not improved" if patience is not None and self.stale >= patience else ""


@dataclass
class TrainingJob:
    """Everything the loop works with."""

    recipe: Recipe
    folder: Path
    reporter: Reporter
    accelerator: Any
    processes: Processes
    encoder_folder: Path
    model: ManyHeads
    optimizer: torch.optim.Optimizer
    backward: Backward
    schedule: Schedule
    batch_sizes: dict[str, int]
    train: dict[str, TaskTokens]
    dev: dict[str, TaskTokens]
    watched: dict[str, TaskTokens]  # what is evaluated while training: dev, or what `evaluate.select` held out
    watched_rows: dict[str, np.ndarray]
    test: dict[str, TaskTokens]
    notes: list[str]
    progress: Progress

    @property
    def steps(self) -> int:
        return self.schedule.steps

    def rounds_of(self, step: int) -> list[list[Batch]]:
        """The rounds of a step: what the sampler draws, without resting tasks and rows without a label for a task."""
        left_out = {*self.progress.paused, *(name for name in self.train if name not in self.dev)}
        drawn = [[b for b in one if b.task not in left_out] for one in self.schedule.rounds(step)]
        return [[kept for batch in one if len((kept := self._labelled(batch)).rows)] for one in drawn]

    def _labelled(self, batch: Batch) -> Batch:
        data = self.train[batch.task]
        return batch if data.rows is None else Batch(batch.task, batch.rows[data.examples.labelled[batch.rows]])

    def epoch(self) -> int:
        """The epoch of the last step done, counted from 1 through all phases."""
        ends = self.schedule.epoch_ends
        return next((number for number, end in enumerate(ends, 1) if self.progress.step <= end), len(ends))

    def write_log(self, record: dict[str, Any]) -> None:
        if not self.processes.main:
            return
        record = {
            **record,
            "step": self.progress.step,
            "epoch": self.epoch(),
            "seconds": round(self.progress.seconds, 3),
        }
        RunLog(self.folder / LOG_FILE).append(record)
        if self.recipe.trackers and (numbers := numbers_of(record)):
            self.accelerator.log(numbers, step=record["step"])

    def save(self) -> None:
        if not self.processes.main:
            return
        state = {"progress": self.progress.__dict__, "data": self.data_fingerprint, "machine": self.machine}
        saved.save_checkpoint(
            self.folder / "checkpoints",
            self.progress.step,
            self.model,
            self.schedule.memory,
            self.optimizer,
            state,
        )

    @cached_property
    def machine(self) -> dict[str, str | int]:
        """What must be equal for two runs to agree to the last bit."""
        packages = ("manyheads", "torch", "transformers", "tokenizers")
        own = {file: fingerprint(Path(file))[:16] for file in self.recipe.imports}
        here = {"threads": torch.get_num_threads(), "processes": self.processes.count}
        return {**{name: version(name) for name in packages}, **here, **own}

    @cached_property
    def data_fingerprint(self) -> dict[str, str]:
        splits = {"train": self.train, "dev": self.dev}
        if self.watched is not self.dev:
            splits["select"] = self.watched
        return {
            f"{name} {split}": data.fingerprint() for split, tasks in splits.items() for name, data in tasks.items()
        }


def prepare(recipe: Recipe, folder: Path, reporter: Reporter, overwrite: bool) -> TrainingJob:
    """Everything a training needs, and its run folder: a new one, or where an old one stopped."""
    going_on = not overwrite and bool(saved.find_checkpoints(folder / "checkpoints"))
    job = assemble(recipe, folder, reporter, going_on)
    job.processes.wait()  # all have seen whether there is an old run
    if job.processes.main:
        if overwrite:
            shutil.rmtree(folder, ignore_errors=True)
        make_folder(job)
    job.processes.wait()
    open_folder(job)
    job.processes.wait()  # all have read the checkpoint, which the next ones may remove
    announce(job)
    return job


def assemble(recipe: Recipe, folder: Path, reporter: Reporter, going_on: bool = False) -> TrainingJob:
    """The same before anything is written."""
    accelerator = start_accelerator(recipe, reporter)
    processes = join_processes(accelerator, recipe.training.processes, recipe.location("training", "processes"))
    if not processes.main:
        reporter = Reporter(quiet=True)
    for file in map(Path, recipe.imports):
        reporter.say(f"imports: {file} ({', '.join(imported_parts(file)) or 'registers no part'})")
    loaded = load_tasks(recipe)
    encoder = load_encoder(_encoder_settings(recipe, folder, going_on))
    origin = f"that of {recipe.init}" if recipe.init else f"{recipe.encoder.name} ({encoder.found.where})"
    reporter.say(f"encoder: {origin}")
    for what, names in (("lacks", encoder.missing), ("also holds, unused", encoder.unexpected)):
        if names:
            shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
            reporter.say(f"encoder: its file {what}: {shown} ({len(names)} in all)")
    tokenizer = Tokenizer(encoder.found.folder)
    check_length(recipe, encoder.encoder)
    tasks = {name: data.task for name, data in loaded.items()}
    try:
        model = ManyHeads(encoder.encoder, tasks, tokenizer, recipe.encoder.max_length, recipe.seed)
    except IncompatiblePart as fault:
        raise UserError(f"{recipe.location('tasks', fault.task, fault.part)}: {fault}.") from None
    if recipe.init is not None and not going_on:
        _start_heads(model, recipe, reporter)
    _check_whole_batches(recipe, tasks, processes.count)
    model.to(accelerator.device).train()
    splits = {
        split: {
            name: TaskTokens(data.task, examples, tokenizer, rows=data.rows)
            for name, data in loaded.items()
            if (examples := getattr(data, split)) is not None
            and (split == "train" or name in (recipe.training.active_tasks or loaded))
        }
        for split in ("train", "dev", "select", "test")
    }
    sizes = {name: len(data) for name, data in splits["train"].items()}
    batch_sizes = {name: task.batch_size or recipe.training.batch_size for name, task in recipe.tasks.items()}
    rows = {name: data.rows for name, data in loaded.items()}
    schedule = plan_schedule(recipe, SamplerInput(sizes, batch_sizes, recipe.seed, rows=rows))
    batch_sizes |= getattr(schedule.phases[-1].sampler, "batch_sizes", {})  # some samplers choose them
    _check_layers(recipe, encoder.encoder)
    watched_rows = {
        name: fixed_subset(data, recipe.evaluate.max_examples, recipe.seed)
        for name, data in (splits["select"] or splits["dev"]).items()
    }
    job = TrainingJob(
        recipe=recipe,
        folder=folder,
        reporter=reporter,
        accelerator=accelerator,
        processes=processes,
        encoder_folder=encoder.found.folder,
        model=model,
        optimizer=build_optimizer(model, recipe.training, schedule.scalarizers),
        backward=Backward(
            model,
            splits["train"],
            recipe.training.tokens_per_pass,
            accelerator.autocast,
            processes,
            _layer_factors(recipe, encoder.encoder.depth),
        ),
        schedule=schedule,
        batch_sizes=batch_sizes,
        train=splits["train"],
        dev=splits["dev"],
        watched=splits["select"] or splits["dev"],
        watched_rows=watched_rows,
        test=splits["test"],
        notes=[note for data in loaded.values() for note in data.notes],
        progress=Progress(),
    )
    _note_truncation(job)
    return job


def start_accelerator(recipe: Recipe, reporter: Reporter) -> Any:
    """accelerate, with the recipe's device and precision."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import InitProcessGroupKwargs

    check_trackers(recipe)
    precision = {"float32": "no"}.get(recipe.training.precision, recipe.training.precision)
    AcceleratorState._reset_state()  # accelerate keeps the first run's precision for the life of the process
    on_cpu = recipe.training.device == "cpu" or not torch.accelerator.is_available()
    patient = InitProcessGroupKwargs(timeout=timedelta(hours=12))  # the first process evaluates alone
    trackers = tracker_settings(recipe, recipe.folder)
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=precision, kwargs_handlers=[patient], **trackers)
    if precision == "bf16" and accelerator.device.type == "cpu" and accelerator.is_main_process:
        check_bfloat16(recipe.location("training", "precision"))
        reporter.say("warning: on a processor bf16 is mostly slower than float32 (training.precision)")
    return accelerator


def check_length(recipe: Recipe, encoder: Encoder) -> None:
    if (recipe.encoder.max_length or 0) > encoder.max_length:
        location = recipe.location("encoder", "max_length")
        raise UserError(f"{location}: this encoder reads at most {encoder.max_length} tokens.")


def _check_whole_batches(recipe: Recipe, tasks: dict[str, Task], processes: int) -> None:
    for name, task in tasks.items():
        if processes > 1 and registry.find("losses", task.loss.name).factory.whole_batch:
            location = recipe.location("tasks", name, "loss")
            reason = f"'{task.loss.name}' compares the examples of a batch, which several processes would cut up"
            raise UserError(f"{location}: {reason}; train it in one.")


def _check_layers(recipe: Recipe, encoder: Encoder) -> None:
    """Refuse layers that this encoder does not have, wherever a recipe names some."""
    training, depth = recipe.training, encoder.depth
    layer_rates = training.layer_learning_rates
    named: dict[tuple[str | int, ...], Any] = {
        ("combine", "layers"): recipe.combine.layers,
        ("training", "trainable"): training.trainable,
        ("training", "layer_learning_rates", "layers"): layer_rates and layer_rates.layers,
    }
    for number, phase in enumerate(recipe.phases or []):
        named["phases", number, "trainable"] = phase.trainable
        named["phases", number, "combine", "layers"] = phase.combine and phase.combine.layers
    for name, task in recipe.tasks.items():
        named["tasks", name, "layer_factors", "layers"] = task.layer_factors and task.layer_factors.layers
    if not len(encoder.layers) and training.layer_decay != 1:
        location = recipe.location("training", "layer_decay")
        raise UserError(f"{location}: this encoder's layers share their weights, and so their rate; leave it out.")
    for path, layers in named.items():
        if not len(encoder.layers) and layers not in (None, "all", "heads"):
            raise UserError(
                f"{recipe.location(*path)}: this encoder's layers share their weights; no layer can be chosen."
            )
        if isinstance(layers, str) and layers.startswith("top-") and int(layers.removeprefix("top-")) > depth:
            raise UserError(f"{recipe.location(*path)}: this encoder has {depth} layers, found '{layers}'.")
        if isinstance(layers, list) and any(layer > depth for layer in layers):
            raise UserError(
                f"{recipe.location(*path)}: layers are 1 to {depth} here, 0 is the embeddings; found {layers}."
            )


def _layer_factors(recipe: Recipe, depth: int) -> dict[str, dict[int, float]]:
    """Task → layer → what its gradient is multiplied with, of the tasks that say so."""
    return {name: task.layer_factors.of(depth) for name, task in recipe.tasks.items() if task.layer_factors}


def _encoder_settings(recipe: Recipe, folder: Path, going_on: bool) -> EncoderSettings:
    """Where the encoder comes from: the recipe's name, the run to start from, or this run where it goes on."""
    if recipe.init is None:
        return recipe.encoder
    own = folder / "best"
    source = own if going_on and own.is_dir() else _init_folder(recipe)
    return recipe.encoder.model_copy(update={"name": str(source)})


def _init_folder(recipe: Recipe) -> Path:
    folder = Path(str(recipe.init))
    model = folder / "best"
    restore_folder(model)
    if not model.is_dir():
        raise UserError(f"{recipe.location('init')}: '{folder}' is not a run folder with a model in best/.")
    return model


def _start_heads(model: ManyHeads, recipe: Recipe, reporter: Reporter) -> None:
    """Give heads of the same name the weights they have in the run that this one starts from."""
    earlier, _ = saved.load_model(_init_folder(recipe))
    shared = [name for name in model.tasks if name in earlier.tasks]
    for name in shared:
        before, here = (", ".join(one.tasks[name].labels.names) or "numbers" for one in (earlier, model))
        if before != here:
            raise UserError(
                f"{recipe.location('init')}: the labels of task '{name}' are {before} in '{recipe.init}' and {here} "
                "here. Give this run's task another name."
            )
        wanted = {key: one for key, one in model.head_states().items() if key in model.head_names(name)}
        found = {key: one for key, one in earlier.head_states().items() if key in earlier.head_names(name)}
        if {key: one.shape for key, one in wanted.items()} != {key: one.shape for key, one in found.items()}:
            raise UserError(
                f"{recipe.location('init')}: the head of task '{name}' in '{recipe.init}' has another shape "
                "(other classes or parts). Give this run's task another name."
            )
        model.load_state_dict(found, strict=False)
        for one in _differences(earlier.tasks[name], model.tasks[name]):
            reporter.say(f"init: task {name}: {one}; its head is taken over all the same")
    fresh = [name for name in model.tasks if name not in shared]
    kept, new = ", ".join(shared) or "none", ", ".join(fresh) or "none"
    reporter.say(f"init: encoder and heads of {recipe.init} (heads taken over: {kept}; new: {new})")


def _differences(before: Task, here: Task) -> list[str]:
    """In which parts two tasks of one name differ, though their weights fit."""
    found = [
        f"{part} was {getattr(before, part).name}, is {getattr(here, part).name}"
        for part in PARTS
        if getattr(before, part) != getattr(here, part)
    ]
    if (before.offset, before.unit) != (here.offset, here.unit):
        scales = (f"(y − {one.offset:.3g})/{one.unit:.3g}" for one in (before, here))
        found.append("its loss saw labels as {}, sees them as {}".format(*scales))
    return found


def _note_truncation(job: TrainingJob) -> None:
    for split in ("train", "dev", "test"):
        for name, data in getattr(job, split).items():
            count = data.too_long(job.model)
            if count:
                longest = job.model.max_length
                job.notes.append(f"{name}: {count:,} of {len(data):,} {split} inputs are cut to {longest} tokens")
