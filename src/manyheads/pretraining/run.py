"""Further pre-training: the encoder guesses hidden tokens of the tasks' own texts before it learns the tasks.

The result is an encoder folder that any recipe can name.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from manyheads.config.recipe import Recipe
from manyheads.config.training import Training
from manyheads.console import Reporter, duration
from manyheads.encoder import Encoder, load_encoder
from manyheads.errors import Interrupted, UserError
from manyheads.parts.samplers.base import Passes, SamplerInput
from manyheads.pretraining.head import FILE, load_head
from manyheads.pretraining.masking import Vocabulary, mask_tokens
from manyheads.pretraining.texts import collect_texts
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.seeding import generator, seeded_rng
from manyheads.storage.files import restore_folder, write_folder, write_text
from manyheads.tokens.packing import Sequence, pack
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training import checkpoint as saved
from manyheads.training.interrupt import stop_signals
from manyheads.training.optim import build_optimizer, rate_factor, set_rates
from manyheads.training.setup import check_length, start_accelerator

HELD_OUT = 500  # texts at the most, on which the guesses are judged before and after
ENCODER = "encoder"  # the folder that a recipe names afterwards


class MaskedLanguageModel(nn.Module):
    """An encoder and the head that guesses hidden tokens."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, sequences: list[Sequence], where: list[np.ndarray]) -> torch.Tensor:
        """Scores [hidden tokens, pieces], text by text."""
        device = self.encoder.words.device
        tokens = pack(sequences, device)
        states = self.encoder(tokens)
        rows = np.concatenate([int(start) + places for start, places in zip(tokens.starts, where, strict=True)])
        return self.head(states[torch.from_numpy(rows).to(device)], self.encoder.words)


@dataclass
class Work:
    """Everything that pre-training works with."""

    recipe: Recipe
    folder: Path
    reporter: Reporter
    accelerator: Any
    model: MaskedLanguageModel
    tokenizer: Tokenizer
    vocabulary: Vocabulary
    encoder_folder: Path
    optimizer: torch.optim.Optimizer
    train: list[Sequence]
    held_out: list[Sequence]
    passes: Passes
    steps: int
    step: int = 0
    seconds: float = 0.0

    def log(self, record: dict[str, Any]) -> None:
        RunLog(self.folder / LOG_FILE).append({**record, "step": self.step, "seconds": round(self.seconds, 3)})

    def save(self) -> None:
        state = {"seconds": self.seconds, "texts": fingerprint(self.train)}
        folder = self.folder / "checkpoints"
        saved.save_checkpoint(folder, self.step, self.model, nn.ModuleDict(), self.optimizer, state)


def pretrain(recipe: Recipe, overwrite: bool = False, quiet: bool = False) -> Path:
    """Pre-train the recipe's encoder further in a new folder; returns the folder of the encoder that comes of it."""
    folder = Path(recipe.output) / f"{recipe.name}-pretrained"
    if folder.exists() and any(folder.iterdir()):
        if not overwrite:
            raise UserError(
                f"{folder}: this folder exists already. Resume it (manyheads resume {folder}), choose another `name`, "
                "or overwrite it (--overwrite)."
            )
        if not is_pretraining(folder):
            raise UserError(f"{folder}: not overwritten, because no pre-training has written it.")
    return _run(recipe, folder, Reporter(quiet), overwrite)


def resume_pretraining(folder: Path, quiet: bool = False) -> Path:
    """Go on with pre-training that was stopped or killed, to the same result."""
    from manyheads.config.load import load_run_recipe

    if (folder / ENCODER).is_dir():
        return folder / ENCODER
    return _run(load_run_recipe(folder / "recipe.yaml"), folder, Reporter(quiet), overwrite=False)


def is_pretraining(folder: Path) -> bool:
    """Whether a folder was made by `pretrain`."""
    first = RunLog(folder / LOG_FILE).first()
    return first is not None and first["event"] == "pretrain"


def _run(recipe: Recipe, folder: Path, reporter: Reporter, overwrite: bool) -> Path:
    work = _prepare(recipe, folder, reporter)
    if overwrite:
        shutil.rmtree(folder, ignore_errors=True)
    _open(work)
    settings = recipe.pretrain
    with stop_signals() as asked, reporter.job("pretrain", work.steps, work.step) as bar:
        smoothed: float | None = None
        while work.step < work.steps:
            loss = _step(work)
            smoothed = loss if smoothed is None else 0.95 * smoothed + 0.05 * loss
            speed = work.step * settings.batch_size / max(work.seconds, 1e-9)
            bar.update(work.step, f"loss: {smoothed:.3f}  {speed:.0f} texts/s")
            every = recipe.checkpoint.every_steps
            if asked or work.step == work.steps or (every and work.step % every == 0):
                work.save()
            if asked and work.step < work.steps:
                raise Interrupted.run(folder, work.step, asked[0])
    return _finish(work)


def _prepare(recipe: Recipe, folder: Path, reporter: Reporter) -> Work:
    settings = recipe.pretrain
    _refuse(recipe, reporter)
    accelerator = start_accelerator(recipe, reporter)
    loaded = load_encoder(recipe.encoder)
    check_length(recipe, loaded.encoder)
    tokenizer = Tokenizer(loaded.found.folder)
    vocabulary = Vocabulary.of(tokenizer)
    head, whose = load_head(loaded.encoder, loaded.found.folder)
    reporter.say(f"encoder: {recipe.encoder.name} ({loaded.found.where}); head for hidden tokens: {whose}")
    longest = min(loaded.encoder.max_length, recipe.encoder.max_length or loaded.encoder.max_length)
    texts, cut = collect_texts(recipe, tokenizer, longest, vocabulary)
    order = generator(recipe.seed, "held out texts").permutation(len(texts)).tolist()
    judged = min(HELD_OUT, len(texts) // 20)
    held_out, train = [texts[i] for i in order[:judged]], [texts[i] for i in sorted(order[judged:])]
    if not train:
        raise UserError(f"{recipe.location('pretrain')}: there are no texts to train on.")
    model = MaskedLanguageModel(loaded.encoder, head).to(accelerator.device)
    training = Training(
        learning_rate=settings.learning_rate,
        weight_decay=recipe.training.weight_decay,
        betas=recipe.training.betas,
        epsilon=recipe.training.epsilon,
    )
    passes = Passes(SamplerInput({"texts": len(train)}, {"texts": settings.batch_size}, recipe.seed), "texts")
    steps = min(settings.epochs * passes.batches, settings.max_steps or 10**12)
    hidden = "whole words" if settings.whole_words else "tokens"
    reporter.say(
        f"texts: {len(train):,} different ones, {sum(len(one.ids) for one in train):,} tokens, {len(held_out):,} more "
        f"to judge by; {settings.share:.0%} of {hidden} are hidden; {steps:,} steps of {settings.batch_size} → {folder}"
    )
    if cut:
        reporter.say(f"note: {cut:,} pairs are longer than {longest} tokens and cut to them")
    optimizer = build_optimizer(model, training)
    return Work(
        recipe, folder, reporter, accelerator, model, tokenizer, vocabulary, loaded.found.folder, optimizer, train,
        held_out, passes, steps,
    )  # fmt: skip


def _refuse(recipe: Recipe, reporter: Reporter) -> None:
    """Settings that would be passed over in silence."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("pretrain runs in one process; start it without torchrun.")
    if recipe.init is not None:
        raise UserError(
            f"{recipe.location('init')}: pretrain starts from an encoder; name `encoder: {recipe.init}/best`."
        )
    if recipe.pretrain.files and recipe.pretrain.tasks:
        raise UserError(
            f"{recipe.location('pretrain', 'tasks')}: texts come from `files` or from tasks; name one of them."
        )
    for key in ("trainable", "layer_decay", "layer_learning_rates"):
        if getattr(recipe.training, key) != Training.model_fields[key].default:
            reporter.say(f"note: training.{key} is for training; pretrain trains all of the encoder at one rate")


def _open(work: Work) -> None:
    """A new folder, or where an old one stopped."""
    found = saved.find_checkpoints(work.folder / "checkpoints")
    if found:
        state = saved.read_state(found[-1])
        if state["texts"] != fingerprint(work.train):
            raise UserError(f"{work.folder}: its texts have changed since it was started; pre-train anew.")
        saved.load_checkpoint(found[-1], work.model, nn.ModuleDict(), work.optimizer)
        work.step, work.seconds = state["step"], state["seconds"]
        work.reporter.say(f"resumed after step {work.step:,}")
        RunLog(work.folder / LOG_FILE).cut_after(work.step)
        return
    before = _judge(work)
    work.folder.mkdir(parents=True, exist_ok=True)
    RunLog(work.folder / LOG_FILE).cut_after(-1)
    work.log({"event": "pretrain", "before": before})  # first, so that the folder is known for what it is
    write_text(work.folder / "recipe.yaml", work.recipe.to_yaml())


def _step(work: Work) -> float:
    """One optimizer step; returns the mean loss over its hidden tokens."""
    recipe, settings = work.recipe, work.recipe.pretrain
    began = time.monotonic()
    work.model.train()
    set_rates(work.optimizer, settings.learning_rate, rate_factor(work.step, work.steps, settings.warmup))
    draw = generator(recipe.seed, work.step, "masking")
    texts = [work.train[row] for row in work.passes.batch(work.step).rows]
    hidden = [mask_tokens(one, work.vocabulary, settings.share, settings.whole_words, draw) for one in texts]
    targets = [torch.from_numpy(one.ids[where]).long() for one, (_, where) in zip(texts, hidden, strict=True)]
    total, loss = sum(map(len, targets)), 0.0
    with seeded_rng(recipe.seed, work.step, "step"):
        for some in _passes(texts, recipe.training.tokens_per_pass):
            with work.accelerator.autocast():
                scores = work.model([hidden[i][0] for i in some], [hidden[i][1] for i in some]).float()
            wanted = torch.cat([targets[i] for i in some]).to(scores.device)
            part = F.cross_entropy(scores, wanted, reduction="sum") / total
            part.backward()
            loss += part.item()
    norm = nn.utils.clip_grad_norm_(work.model.parameters(), recipe.training.max_grad_norm or math.inf).item()
    if not math.isfinite(loss + norm):
        raise UserError(
            f"Step {work.step + 1:,}: the loss or its gradient is not finite; lower pretrain.learning_rate."
        )
    work.optimizer.step()
    work.optimizer.zero_grad(set_to_none=True)
    work.step += 1
    work.seconds += time.monotonic() - began
    work.log(
        {"event": "step", "loss": loss, "learning_rate": work.optimizer.param_groups[0]["lr"], "gradient_norm": norm}
    )
    return loss


def _passes(texts: list[Sequence], tokens: int) -> list[list[int]]:
    """Texts by number, cut where the next would exceed the budget of tokens."""
    found: list[list[int]] = [[]]
    used = 0
    for number, one in enumerate(texts):
        if used and used + len(one.ids) > tokens:
            found.append([])
            used = 0
        found[-1].append(number)
        used += len(one.ids)
    return found


@torch.no_grad()
def _judge(work: Work) -> dict[str, float]:
    """Loss and accuracy on the held-out texts, always with the same tokens hidden."""
    if not work.held_out:
        return {}
    work.model.eval()
    settings = work.recipe.pretrain
    draw = generator(work.recipe.seed, "judge")
    hidden = [mask_tokens(one, work.vocabulary, settings.share, settings.whole_words, draw) for one in work.held_out]
    loss, right, total = 0.0, 0, 0
    for some in _passes(work.held_out, work.recipe.evaluate.tokens_per_pass):
        scores = work.model([hidden[i][0] for i in some], [hidden[i][1] for i in some])
        wanted = torch.cat([torch.from_numpy(work.held_out[i].ids[hidden[i][1]]).long() for i in some])
        wanted = wanted.to(scores.device)
        loss += F.cross_entropy(scores, wanted, reduction="sum").item()
        right += int((scores.argmax(dim=1) == wanted).sum())
        total += len(wanted)
    return {"loss": loss / max(1, total), "accuracy": right / max(1, total)}


def _finish(work: Work) -> Path:
    before = (RunLog(work.folder / LOG_FILE).first() or {}).get("before", {})
    after = _judge(work)

    def fill(aside: Path) -> None:
        work.model.encoder.save(aside)
        saved.copy_tokenizer(work.encoder_folder, work.tokenizer, aside)
        head: Callable[..., Any] = work.model.head.state_dict
        save_file({name: one.contiguous() for name, one in head().items()}, aside / FILE)

    folder = work.folder / ENCODER
    restore_folder(folder)
    work.log({"event": "end", "before": before, "after": after})
    write_folder(folder, fill)
    told = ""
    if after:
        told = f"; hidden tokens guessed on other texts: {before['accuracy']:.1%} before, {after['accuracy']:.1%} after"
    work.reporter.say(f"pre-trained {work.step:,} steps in {duration(work.seconds)}{told}")
    work.reporter.say(f"use it: encoder: {folder}")
    return folder


def fingerprint(texts: list[Sequence]) -> str:
    """Changes with any token of any text."""
    import hashlib

    digest = hashlib.sha256()
    for one in texts:
        digest.update(one.ids.tobytes() + b"/")
    return digest.hexdigest()[:32]
