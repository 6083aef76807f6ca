"""Further pre-training: the encoder predicts masked tokens of the tasks' own texts before it learns the tasks.

The result is an encoder folder that any recipe can name. Loop, run folder, log and resume are training's.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from manyheads.config.load import load_run_recipe
from manyheads.config.recipe import Recipe
from manyheads.config.training import Training
from manyheads.console import Reporter, duration
from manyheads.encoder import load_encoder
from manyheads.errors import UserError
from manyheads.model.folder import copy_tokenizer
from manyheads.parts.samplers.base import Passes, SamplerInput
from manyheads.pretraining.head import FILE, load_head
from manyheads.pretraining.masked_lm import MaskedLanguageModel, MaskedTask
from manyheads.pretraining.masking import Vocabulary
from manyheads.pretraining.texts import collect_texts
from manyheads.runs.lock import check_not_training
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.seeding import generator
from manyheads.storage.files import restore_folder, write_folder, write_text
from manyheads.tasks.compatibility import length_faults, refuse
from manyheads.tokens.packing import Sequence
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training.device import start_accelerator
from manyheads.training.distributed import Processes
from manyheads.training.loop import run_steps
from manyheads.training.optim import build_optimizer, rate_factor, set_rates
from manyheads.training.run_folder import check_free, has_checkpoint, locked_folder, open_folder
from manyheads.training.setup import machine_facts
from manyheads.training.state import DataUnchanged, MachineUnchanged, NamedOptimizer, Progress, TrainingState

HELD_OUT = 500  # texts at the most, on which predictions are evaluated before and after
ENCODER = "encoder"  # the folder that a recipe names afterwards
TEXTS = "texts"  # what progress counts


def pretrain(recipe: Recipe, overwrite: bool = False, quiet: bool = False) -> Path:
    """Pre-train the recipe's encoder further in a new folder; returns the folder of the encoder that comes of it."""
    folder = Path(recipe.output) / f"{recipe.name}-pretrained"
    check_free(folder, overwrite, is_run=is_pretraining(folder))
    return _pretrain(recipe, folder, Reporter(quiet), overwrite)


def resume_pretraining(folder: Path, quiet: bool = False, take_lock: bool = False) -> Path:
    """Go on with pre-training that was stopped or killed, to the same result."""
    if (folder / ENCODER).is_dir():
        return folder / ENCODER
    check_not_training(folder, take_lock)
    recipe = load_run_recipe(folder / "recipe.yaml")
    return _pretrain(recipe, folder, Reporter(quiet), overwrite=False, take_lock=take_lock)


def is_pretraining(folder: Path) -> bool:
    """Whether a folder was made by `pretrain`."""
    first = RunLog(folder / LOG_FILE).first()
    return first is not None and first["event"] == "pretrain"


def _pretrain(recipe: Recipe, folder: Path, reporter: Reporter, overwrite: bool, take_lock: bool = False) -> Path:
    _check_settings(recipe, reporter)
    accelerator = start_accelerator(recipe, reporter)
    pretrainer = Pretrainer(recipe, folder, accelerator, _load(recipe, accelerator.device, reporter))
    reporter.say(f"{pretrainer.describe()} → {folder}")
    before: dict[str, float] = {}
    if overwrite or not has_checkpoint(folder):
        before = pretrainer.evaluate()  # before anything is written
    with locked_folder(folder, Processes(), take_lock):
        pretrainer.open(reporter, overwrite, before)
        run_steps(pretrainer, recipe.checkpoint.every_steps, reporter, Processes())
        return pretrainer.finish(reporter)


def _check_settings(recipe: Recipe, reporter: Reporter) -> None:
    """Settings that would be passed over in silence."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("pretrain runs in one process; start it without torchrun.", "wrong-process-count")
    if recipe.init is not None:
        raise UserError(
            f"{recipe.location('init')}: pretrain starts from an encoder; name `encoder: {recipe.init}/best`.",
            "init-not-allowed",
        )
    if recipe.extends is not None:
        raise UserError(
            f"{recipe.location('extends')}: pretrain changes an encoder, which a model that is extended keeps; leave "
            "it out.",
            "extends-not-allowed",
        )
    if recipe.pretrain.files and recipe.pretrain.tasks:
        raise UserError(
            f"{recipe.location('pretrain', 'tasks')}: texts come from `files` or from tasks; name one of them.",
            "two-text-sources",
        )
    for key in ("trainable", "layer_decay", "layer_learning_rates"):
        if getattr(recipe.training, key) != Training.model_fields[key].default:
            reporter.say(f"note: training.{key} is for training; pretrain trains all of the encoder at one rate")


# --- what it works with ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loaded:
    """The model and its texts."""

    model: MaskedLanguageModel
    tokenizer: Tokenizer
    vocabulary: Vocabulary
    encoder_folder: Path
    train: list[Sequence]
    held_out: list[Sequence]


def _load(recipe: Recipe, device: torch.device, reporter: Reporter) -> Loaded:
    loaded = load_encoder(recipe.encoder)
    refuse(list(length_faults(recipe, loaded.encoder)), recipe)
    tokenizer = Tokenizer(loaded.found.folder)
    vocabulary = Vocabulary.of(tokenizer)
    head, origin = load_head(loaded.encoder, loaded.found.folder)
    reporter.say(f"encoder: {recipe.encoder.name} ({loaded.found.where}); head for masked tokens: {origin}")
    max_length = min(loaded.encoder.max_length, recipe.encoder.max_length or loaded.encoder.max_length)
    texts, truncated = collect_texts(recipe, tokenizer, max_length, vocabulary)
    if truncated:
        reporter.say(f"note: {truncated:,} pairs are longer than {max_length} tokens and cut to them")
    order = generator(recipe.seed, "held out texts").permutation(len(texts)).tolist()
    count = min(HELD_OUT, len(texts) // 20)
    train = [texts[index] for index in sorted(order[count:])]
    if not train:
        raise UserError(f"{recipe.location('pretrain')}: there are no texts to train on.", "no-texts")
    held_out = [texts[index] for index in order[:count]]
    model = MaskedLanguageModel(loaded.encoder, head).to(device)
    return Loaded(model, tokenizer, vocabulary, loaded.found.folder, train, held_out)


def fingerprint(texts: list[Sequence]) -> str:
    """Changes with any token of any text."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.ids.tobytes() + b"/")
    return digest.hexdigest()[:32]


# --- what it does ------------------------------------------------------------------------------------------------


class Pretrainer:
    """One pre-training under way; training's `run_steps` drives it."""

    name = "pretrain"

    def __init__(self, recipe: Recipe, folder: Path, accelerator: Any, loaded: Loaded) -> None:
        settings = recipe.pretrain
        self.recipe, self.folder, self.accelerator, self.loaded = recipe, folder, accelerator, loaded
        self.model, self.log = loaded.model, RunLog(folder / LOG_FILE)
        self.task = MaskedTask(loaded.model, loaded.vocabulary, settings, recipe.seed)
        self.passes = Passes(SamplerInput({TEXTS: len(loaded.train)}, {TEXTS: settings.batch_size}, recipe.seed), TEXTS)
        self.steps = settings.epochs * self.passes.batches
        if settings.max_steps is not None:
            self.steps = min(self.steps, settings.max_steps)
        optimizer_settings = Training(
            learning_rate=settings.learning_rate,
            weight_decay=recipe.training.weight_decay,
            betas=recipe.training.betas,
            epsilon=recipe.training.epsilon,
        )
        self.optimizer = build_optimizer(self.model, optimizer_settings)
        self.progress = Progress()

    def describe(self) -> str:
        settings, train = self.recipe.pretrain, self.loaded.train
        unit = "whole words" if settings.whole_words else "tokens"
        tokens = sum(len(text.ids) for text in train)
        return (
            f"texts: {len(train):,} different ones, {tokens:,} tokens, {len(self.loaded.held_out):,} more to evaluate "
            f"on; {settings.share:.0%} of {unit} are masked; {self.steps:,} steps of {settings.batch_size}"
        )

    def open(self, reporter: Reporter, overwrite: bool, before: dict[str, float]) -> None:
        """A new folder, or where an old one stopped. `before`: how a new one predicts before its first step."""
        self.state = TrainingState(
            {
                "data": DataUnchanged(self.folder, {TEXTS: fingerprint(self.loaded.train)}),
                "machine": MachineUnchanged(machine_facts(self.recipe, Processes()), reporter),
                "progress": self.progress,
                "model": self.model,
                "optimizer": NamedOptimizer(self.optimizer, {"": self.model}),
            }
        )
        if open_folder(self.folder, self.state, self.progress, reporter, overwrite=overwrite):
            return
        self._write_log({"event": "pretrain", "before": before})  # first, so that the folder is known for what it is
        write_text(self.folder / "recipe.yaml", self.recipe.to_yaml())

    def start(self) -> None:
        """Nothing is done before the first step."""

    def ready(self) -> bool:
        return True

    def step(self, stop_requested: bool) -> bool:
        step, settings = self.progress.step, self.recipe.pretrain
        began = time.monotonic()
        set_rates(self.optimizer, settings.learning_rate, rate_factor(step, self.steps, settings.warmup))
        batch = self.passes.batch(step)
        texts = [self.loaded.train[row] for row in batch.indices]
        loss = self.task.backward(texts, step, self.recipe.training.tokens_per_pass, self.accelerator.autocast)
        max_norm = self.recipe.training.max_grad_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm).item()
        if not math.isfinite(loss + norm):
            raise UserError(
                f"Step {step + 1:,}: the loss or its gradient is not finite; lower pretrain.learning_rate.",
                "not-finite",
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.count([[batch]], time.monotonic() - began)
        self.progress.note_losses({"masked tokens": loss})
        learning_rate = self.optimizer.param_groups[0]["lr"]
        self._write_log({"event": "step", "loss": loss, "learning_rate": learning_rate, "gradient_norm": norm})
        return stop_requested

    def end_step(self) -> bool:
        return self.progress.step == self.steps

    def evaluate(self) -> dict[str, float]:
        return self.task.evaluate(self.loaded.held_out, self.recipe.evaluate.tokens_per_pass)

    def _write_log(self, record: dict[str, Any]) -> None:
        self.log.append({**record, "step": self.progress.step, "seconds": round(self.progress.seconds, 3)})

    def finish(self, reporter: Reporter) -> Path:
        """Evaluate again, and write the encoder folder."""
        before, after = (self.log.first() or {})["before"], self.evaluate()
        folder = self.folder / ENCODER
        restore_folder(folder)
        self._write_log({"event": "end", "before": before, "after": after})
        write_folder(folder, self._write_encoder)
        accuracies = ""
        if after:
            accuracies = (
                f"; masked tokens of other texts predicted: {before['accuracy']:.1%} before, "
                f"{after['accuracy']:.1%} after"
            )
        reporter.say(f"pre-trained {self.progress.step:,} steps in {duration(self.progress.seconds)}{accuracies}")
        reporter.say(f"use it: encoder: {folder}")
        return folder

    def _write_encoder(self, folder: Path) -> None:
        self.model.encoder.save(folder)
        copy_tokenizer(self.loaded.encoder_folder, self.loaded.tokenizer, folder)
        head = {name: tensor.contiguous() for name, tensor in self.model.head.state_dict().items()}
        save_file(head, folder / FILE)
