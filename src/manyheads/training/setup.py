"""Everything a training works with, made ready from a recipe: data, model, schedule, optimizer. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from manyheads.config.distill import DistillSettings
from manyheads.config.plugins import fingerprint, imported_parts
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.encoder.loading import LoadedEncoder, load_encoder
from manyheads.errors import UserError
from manyheads.inference.both_orders import relative_cost
from manyheads.inference.evaluate import fixed_subset
from manyheads.model.head import IncompatiblePart
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens, learns_all_pieces
from manyheads.parts.pooling import pooling_of
from manyheads.parts.samplers import SamplerInput
from manyheads.tasks.compatibility import batch_faults, encoder_faults, refuse, regulariser_faults
from manyheads.tasks.load import TaskData, load_tasks
from manyheads.tasks.teacher_faults import teachers_to_come
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training.datasets import Datasets, Round
from manyheads.training.device import start_accelerator
from manyheads.training.distributed import Processes, join_processes
from manyheads.training.extension import open_earlier
from manyheads.training.gradients.backward import Backward
from manyheads.training.loss_scale import constant_losses
from manyheads.training.measured_budget import measure_budget, with_examples
from manyheads.training.optim import build_optimizer
from manyheads.training.schedule import Schedule, plan_schedule
from manyheads.training.task_adamw import TaskAdamW
from manyheads.training.teaching.teaching import Teaching, build_teaching
from manyheads.training.warm_start import encoder_source, take_over_heads

SHOWN_NAMES = 6


@dataclass(frozen=True)
class Setup:
    """What `assemble` makes; the loop hands each function what it uses of it."""

    recipe: Recipe
    reporter: Reporter
    accelerator: Any
    processes: Processes
    encoder_folder: Path
    model: ManyHeads
    datasets: Datasets
    schedule: Schedule
    optimizer: torch.optim.Optimizer
    backward: Backward
    heads_taken_over: set[str]  # tasks whose heads come from another run
    teaching: Teaching | None  # what tasks learn from other models

    def rounds(self, step: int) -> list[Round]:
        """What a step trains on while no task is paused."""
        return self.datasets.usable(self.schedule.rounds(step))


def assemble(recipe: Recipe, reporter: Reporter, resumed: Path | None = None, to_distill: bool = False) -> Setup:
    """All of it, before anything is written. `resumed` is the folder of a run that goes on; `to_distill`: missing
    teachers are no fault, for `manyheads distill` may train them first."""
    accelerator = start_accelerator(recipe, reporter)
    processes = join_processes(accelerator, recipe.training.processes, recipe.location("training", "processes"))
    if not processes.main:
        reporter = Reporter(quiet=True)
    _describe_imports(recipe, reporter)
    loaded = load_tasks(recipe)
    encoder = load_encoder(encoder_source(recipe, resumed))
    _describe_encoder(recipe, encoder, reporter)
    _name_trained_pooling(loaded, encoder)
    tokenizer = Tokenizer(encoder.found.folder)
    refuse(list(encoder_faults(recipe, encoder.encoder)), recipe)
    model = _build_model(recipe, loaded, encoder, tokenizer)
    heads_taken_over: set[str] = set()
    if recipe.init is not None and resumed is None:
        heads_taken_over = take_over_heads(model, recipe, reporter)
    if recipe.extends is not None:
        model.earlier = open_earlier(recipe, model, resumed, reporter)
    refuse(batch_faults(recipe, model.tasks, processes.count), recipe)
    refuse(list(regulariser_faults(recipe, model.tasks)), recipe)
    model.to(accelerator.device).train()
    datasets = _tokenise(recipe, loaded, tokenizer)
    to_come = teachers_to_come(recipe) if to_distill else {}
    datasets.notes.extend(_teacher_notes(recipe, to_come, to_distill))
    teaching = build_teaching(recipe, loaded, datasets.train, to_come)
    budget = recipe.training.budget
    if budget is not None and budget.minutes is not None:
        one_pass = sum(map(datasets.pass_size, datasets.train))
        trial = _plan_schedule(with_examples(recipe, one_pass), model, datasets)
        measured = measure_budget(recipe, model, datasets, trial, accelerator.autocast, processes, teaching)
        reporter.say(measured.describe(budget.minutes))
        recipe = measured.written_into(recipe)
    schedule = _plan_schedule(recipe, model, datasets)
    datasets.notes.extend(_truncation_notes(model, datasets))
    datasets.notes.extend(_both_orders_notes(model, datasets))
    layer_factors = _layer_factors(recipe, encoder.encoder.depth)
    optimizer = build_optimizer(model, recipe.training, schedule.scalarizers, layer_factors)
    backward = Backward(model, datasets.train, recipe.training.tokens_per_pass, accelerator.autocast, processes)
    backward.pass_losses.teaching = teaching
    if any(phase.combination.loss_scale == "constant" for phase in schedule.phases):
        backward.pass_losses.constant_losses = constant_losses(model, datasets.train, recipe)
    if isinstance(optimizer, TaskAdamW):
        backward.task_optimizer = optimizer
    else:
        backward.layer_factors = layer_factors
    return Setup(
        recipe=recipe,
        reporter=reporter,
        accelerator=accelerator,
        processes=processes,
        encoder_folder=encoder.found.folder,
        model=model,
        datasets=datasets,
        schedule=schedule,
        optimizer=optimizer,
        backward=backward,
        heads_taken_over=heads_taken_over,
        teaching=teaching,
    )


def _describe_imports(recipe: Recipe, reporter: Reporter) -> None:
    for file in map(Path, recipe.imports):
        reporter.say(f"imports: {file} ({', '.join(imported_parts(file)) or 'registers no part'})")


def _name_trained_pooling(loaded: dict[str, TaskData], encoder: LoadedEncoder) -> None:
    """Write out which pooling 'trained' is, so that a model folder does not depend on the encoder's files."""
    for data in loaded.values():
        if data.task.pooling.name == "trained":
            pooling = pooling_of(encoder.encoder, **data.task.pooling.options)
            data.task = replace(data.task, pooling=pooling)


def _describe_encoder(recipe: Recipe, encoder: LoadedEncoder, reporter: Reporter) -> None:
    source = recipe.init or recipe.extends
    origin = f"that of {source}" if source else f"{recipe.encoder.name} ({encoder.found.where})"
    reporter.say(f"encoder: {origin}")
    for verb, names in (("lacks", encoder.missing), ("also holds, unused", encoder.unexpected)):
        if names:
            shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
            reporter.say(f"encoder: its file {verb}: {shown} ({len(names)} in all)")


def _build_model(
    recipe: Recipe, loaded: dict[str, TaskData], encoder: LoadedEncoder, tokenizer: Tokenizer
) -> ManyHeads:
    tasks = {name: data.task for name, data in loaded.items()}
    try:
        return ManyHeads(encoder.encoder, tasks, tokenizer, recipe.encoder.max_length, recipe.seed)
    except IncompatiblePart as fault:
        location = recipe.location("tasks", fault.task, fault.part)
        raise UserError(f"{location}: {fault}.", "incompatible-part") from None


def _tokenise(recipe: Recipe, loaded: dict[str, TaskData], tokenizer: Tokenizer) -> Datasets:
    """All splits of all tasks; of tasks that are not active the training data only, which the sampler draws from."""
    active = recipe.training.active_tasks or list(loaded)
    active_data = {name: data for name, data in loaded.items() if name in active}
    train = _tokenise_split("train", loaded, tokenizer)
    dev = _tokenise_split("dev", active_data, tokenizer)
    select = _tokenise_split("select", active_data, tokenizer)
    selection = {**dev, **select} if select else dev
    selection_rows = {}
    train_rows = {}
    for name, tokens in selection.items():
        selection_rows[name] = fixed_subset(tokens, recipe.evaluate.max_examples, recipe.seed)
        if recipe.evaluate.train_examples is not None:
            train_rows[name] = fixed_subset(train[name], recipe.evaluate.train_examples, recipe.seed)
    return Datasets(
        train=train,
        dev=dev,
        selection=selection,
        selection_rows=selection_rows,
        test=_tokenise_split("test", active_data, tokenizer),
        train_rows=train_rows,
        notes=[note for data in loaded.values() for note in data.notes],
        unlabelled=frozenset(name for name, data in loaded.items() if data.unlabelled_rows),
        visits={name: data.visits for name, data in loaded.items() if data.visits is not None},
        left_out={name: data.left_out for name, data in loaded.items() if data.left_out is not None},
    )


def _tokenise_split(split: str, loaded: dict[str, TaskData], tokenizer: Tokenizer) -> dict[str, TaskTokens]:
    """Of the tasks that have it."""
    tokens = {}
    for name, data in loaded.items():
        examples = getattr(data, split)
        if examples is not None:
            tokens[name] = TaskTokens(data.task, examples, tokenizer, row_group=data.row_group)
            if split == "train" and learns_all_pieces(data.task):
                tokens[name] = tokens[name].with_all_pieces()
    return tokens


def _plan_schedule(recipe: Recipe, model: ManyHeads, datasets: Datasets) -> Schedule:
    sampler_input = SamplerInput(
        sizes={name: datasets.pass_size(name) for name in datasets.train},
        batch_sizes={name: task.batch_size or recipe.training.batch_size for name, task in recipe.tasks.items()},
        seed=recipe.seed,
        row_groups={name: tokens.row_group for name, tokens in datasets.train.items()},
        round_size=recipe.training.batch_size,
        whole_batch=frozenset(name for name in model.tasks if model.head(name).loss.whole_batch),
        visits=datasets.visits,
    )
    schedule = plan_schedule(recipe, sampler_input)
    for phase in schedule.phases:
        for regulariser in phase.regularisers:
            regulariser.leave_out_incompatible(model.tasks)
    return schedule


def _layer_factors(recipe: Recipe, depth: int) -> dict[str, dict[int, float]]:
    """Task → layer → what its gradient, or its update, is multiplied with, of the tasks that say so."""
    return {name: task.layer_factors.of(depth) for name, task in recipe.tasks.items() if task.layer_factors}


def _truncation_notes(model: ManyHeads, datasets: Datasets) -> Iterator[str]:
    for split in ("train", "dev", "test"):
        for name, data in getattr(datasets, split).items():
            count = data.too_long(model)
            if count and data.task.kind.in_windows:
                yield f"{name}: {count:,} of {len(data):,} {split} texts are read in windows of {model.max_length}"
            elif count:
                yield f"{name}: {count:,} of {len(data):,} {split} inputs are cut to {model.max_length} tokens"


def _teacher_notes(recipe: Recipe, to_come: dict[str, str], to_distill: bool) -> Iterator[str]:
    for name, sentence in to_come.items():
        yield f"{name}: {sentence}"
    if not (to_distill or recipe.teachers) and recipe.distill != DistillSettings():
        yield "no task has teachers, so `distill` changes nothing; `manyheads distill` trains them first"


def _both_orders_notes(model: ManyHeads, datasets: Datasets) -> Iterator[str]:
    for name, data in datasets.dev.items():
        if data.task.both_orders:
            cost = relative_cost(model, data)
            yield f"{name}: predictions are the mean over both orders of a pair, at {cost:.2f} times the tokens"


@cache  # it reads a file
def _package_version(package: str) -> str:
    return version(package)


def machine_facts(recipe: Recipe, processes: Processes) -> dict[str, str | int]:
    """What must be equal for two runs to agree to the last bit: versions, threads, processes, imported files."""
    facts: dict[str, str | int] = {}
    for package in ("manyheads", "torch", "transformers", "tokenizers"):
        facts[package] = _package_version(package)
    facts["threads"] = torch.get_num_threads()
    facts["processes"] = processes.count
    for file in recipe.imports:
        facts[file] = fingerprint(Path(file))[:16]
    return facts
