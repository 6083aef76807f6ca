"""What a user would train three tasks with instead: each as a stretch of training on given examples, timed.

All start from the same weights, pool the first token through a dense tanh layer, have dropout of 0.1, clip to 1, and
take a step of AdamW after the same number of examples: a batch of 16 of every task. Texts are tokenised before, except
where the rival itself does that in its collator.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.trainer_pt_utils import get_length_grouped_indices

BATCH = 16
SETTINGS: dict[str, Any] = {  # of both trainers
    "per_device_train_batch_size": BATCH,
    "num_train_epochs": 1,
    "learning_rate": 1e-6,
    "use_cpu": True,
    "save_strategy": "no",
    "logging_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


@dataclass(frozen=True)
class Example:
    """One row as users have it."""

    task: str
    texts: tuple[str, ...]
    label: float


@dataclass(frozen=True)
class Plan:
    """The tasks, and how many classes each has: 2 is one yes-or-no output, 1 a number."""

    encoder: Path
    tasks: dict[str, int]


Steps = Sequence[Sequence[Sequence[Example]]]  # optimizer steps of batches, one for each task


transformers.logging.disable_progress_bar()


class ThreeHeads(nn.Module):
    """A transformers encoder with a linear head per task on its pooled first token; batches may mix tasks."""

    def __init__(self, plan: Plan, attention: str) -> None:
        super().__init__()
        self.encoder = transformers.AutoModel.from_pretrained(plan.encoder, attn_implementation=attention)
        _set_dropout(self.encoder, 0.1)
        self.plan = plan
        width = self.encoder.config.hidden_size
        self.heads = nn.ModuleDict(
            {name: nn.Linear(width, max(1, n if n > 2 else 1)) for name, n in plan.tasks.items()}
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, task: Tensor, labels: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
        pooled = self.dropout(self.encoder(**inputs).pooler_output)
        total = pooled.new_zeros(())
        for number, (name, classes) in enumerate(self.plan.tasks.items()):
            chosen = task == number
            if chosen.any():
                found, wanted = self.heads[name](pooled[chosen]), labels[chosen]
                total = total + _loss(found, wanted, classes)
        return {"loss": total}


def _loss(found: Tensor, wanted: Tensor, classes: int) -> Tensor:
    if classes > 2:
        return F.cross_entropy(found, wanted.long())
    return (F.binary_cross_entropy_with_logits if classes == 2 else F.mse_loss)(found.squeeze(1), wanted.float())


def _set_dropout(model: nn.Module, rate: float) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate


class TrainerRival:
    """transformers' Trainer with a model of several heads, mixed batches, as its users write it."""

    def __init__(self, plan: Plan, grouped: bool) -> None:
        self.plan, self.grouped = plan, grouped
        self.model = ThreeHeads(plan, "sdpa")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(plan.encoder)

    def __call__(self, steps: Steps) -> float:
        rows, first = ([self._row(one) for one in _flat(some)] for some in (steps, steps[:1]))
        order = torch.randperm(len(rows)).tolist()
        if self.grouped:  # its own grouping, over all of the stretch: of so few it would group a quarter at a time
            lengths = [len(one["input_ids"]) for one in rows]
            order = get_length_grouped_indices(lengths, len(first), mega_batch_mult=len(steps))
        # the first step is for warming up
        data = datasets.Dataset.from_list([*first, *(rows[number] for number in order)])
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                output_dir=folder,
                gradient_accumulation_steps=len(steps[0]),
                **SETTINGS,
                remove_unused_columns=False,
                train_sampling_strategy="sequential",
            )
            watch = _Watch()
            collator = transformers.DataCollatorWithPadding(self.tokenizer)
            with _quiet():
                transformers.Trainer(
                    self.model, arguments, train_dataset=data, data_collator=collator, callbacks=[watch]
                ).train()
        return watch.seconds

    def _row(self, one: Example) -> dict[str, Any]:
        found = dict(self.tokenizer(*one.texts, truncation=True))
        return {**found, "task": list(self.plan.tasks).index(one.task), "labels": one.label}


class CrossEncoderRival:
    """sentence-transformers' CrossEncoderTrainer with a dataset and a loss per pair task."""

    def __init__(self, plan: Plan) -> None:
        from sentence_transformers import CrossEncoder
        from sentence_transformers.cross_encoder import losses

        self.plan = plan
        with _quiet():
            self.model = CrossEncoder(str(plan.encoder), num_labels=1, device="cpu")
        _set_dropout(self.model, 0.1)
        kinds = {2: losses.BinaryCrossEntropyLoss, 1: losses.MSELoss}
        self.losses = {name: kinds[classes](self.model) for name, classes in plan.tasks.items()}

    def __call__(self, steps: Steps) -> float:
        from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments

        examples: dict[str, list[Example]] = {name: [] for name in self.plan.tasks}
        for one in _flat([*steps[:1], *steps]):  # the first step is for warming up
            examples[one.task].append(one)
        data = {
            name: datasets.Dataset.from_list(
                [{"one": one.texts[0], "other": one.texts[1], "label": float(one.label)} for one in some]
            )
            for name, some in examples.items()
        }
        with tempfile.TemporaryDirectory() as folder, _quiet():
            arguments = CrossEncoderTrainingArguments(
                output_dir=folder,
                gradient_accumulation_steps=len(steps[0]),
                **SETTINGS,
                multi_dataset_batch_sampler="round_robin",
            )
            watch = _Watch()
            CrossEncoderTrainer(self.model, arguments, train_dataset=data, loss=self.losses, callbacks=[watch]).train()
        return watch.seconds


class StarterLoop:
    """A plain loop as the course's starter code has it: a batch of one task at a time, padded to its longest, eager
    attention with separate query, key and value."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.model = ThreeHeads(plan, "eager")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(plan.encoder)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6)

    def __call__(self, steps: Steps) -> float:
        padded = [[self._padded(batch) for batch in step] for step in steps]
        self.model.train()
        began = time.perf_counter()
        for step in padded:
            self.optimizer.zero_grad()
            for batch in step:
                self.model(**batch)["loss"].backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return time.perf_counter() - began

    def _padded(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        sides = list(zip(*(one.texts for one in batch), strict=True))
        found = self.tokenizer(*map(list, sides), padding=True, truncation=True, return_tensors="pt")
        number = list(self.plan.tasks).index(batch[0].task)
        labels = torch.tensor([one.label for one in batch])
        return {**found, "task": torch.full((len(batch),), number), "labels": labels}


def _flat(steps: Steps) -> list[Example]:
    return [one for step in steps for batch in step for one in batch]


class _Watch(transformers.TrainerCallback):
    """Only the loop is timed: not how long a trainer takes to be set up, nor its first step, which makes a state."""

    seconds = 0.0
    began = 0.0

    def on_step_end(self, *given: Any, **named: Any) -> None:
        self.began = self.began or time.perf_counter()

    def on_train_end(self, *given: Any, **named: Any) -> None:
        self.seconds = time.perf_counter() - self.began


@contextlib.contextmanager
def _quiet() -> Any:
    """Trainers print; a table does not want that."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
