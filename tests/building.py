"""Tasks and models for tests, built part by part: whatever a test does not name is chosen to fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.config.part import PartConfig
from manyheads.config.recipe import EncoderSettings
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.encoder import load_encoder
from manyheads.encoder.bert import Bert, BertConfig, random_bert
from manyheads.model.multitask import Inputs, ManyHeads
from manyheads.parts.losses import Loss
from manyheads.registry import find
from manyheads.storage.strings import Strings
from manyheads.tasks.kind import find_kind
from manyheads.tasks.part_compatibility import incompatible_parts
from manyheads.tasks.task import Task
from manyheads.tokens.column import TokenColumn, tokenise_once
from manyheads.tokens.tokenizer import Tokenizer

CLASSES = LabelReader("classification", ("a", "b", "c"), {"a": 0, "b": 1, "c": 2})
TWO = LabelReader("classification", ("no", "yes"), {"no": 0, "yes": 1})
ORDINAL = LabelReader("ordinal", ("1", "2", "3"), {"1": 0, "2": 1, "3": 2})
MULTI = LabelReader("multi-label", ("a", "b", "c"), {"a": 0, "b": 1, "c": 2}, separator="|")
NUMBERS = LabelReader("regression", range=(0, 5))
TAGS = LabelReader("tags", ("O", "B-a", "I-a"), {"O": 0, "B-a": 1, "I-a": 2}, scheme="BIO")
SEARCH, SCORED = LabelReader("similarity-search"), LabelReader("similarity-search", scores=True)
CHOICE, ANSWERS = LabelReader("multiple-choice", candidate_labels="index"), LabelReader("answer-span")
KINDS = (CLASSES, TWO, ORDINAL, MULTI, NUMBERS, TAGS, SEARCH, SCORED, CHOICE, ANSWERS)
PAIR, SINGLE = Columns(("sentence1", "sentence2"), "label", None), Columns(("text",), "label", None)
SIDES = (["the film was dull", "a good book", "one dog runs"] * 2, ["not very good", "a cat sleeps", "red tea"] * 2)


def choice(value: str | PartConfig) -> PartConfig:
    return PartConfig(name=value) if isinstance(value, str) else value


def a_task(**given: Any) -> Task:
    """A task on pairs; parts by name or Choice. Parts not given are the defaults of the encoding and the labels."""
    labels: LabelReader = given.pop("labels", CLASSES)
    kind = find_kind(labels.kind)
    numbers = labels.kind == "regression"
    encoding = choice(given.pop("encoding", "single" if kind.per_word else kind.encoding or "cross"))
    gives = find("encodings", encoding.name).factory.gives
    own_head = PartConfig(name="linear", options={"dropout": 0.0}) if gives == "features" else "none"
    head = choice(given.pop("head", own_head))
    brought = find("heads", head.name).factory.pooling(head.options)
    pooling = kind.pooling or ("head-pooler" if gives == "features" else "mean")
    settings: dict[str, Any] = {
        "name": "task",
        "columns": SINGLE if find("encodings", encoding.name).factory.texts == 1 else PAIR,
        "labels": labels,
        "encoding": encoding,
        "pooling": choice(given.pop("pooling", brought or pooling)),
        "head": head,
        "output": choice(given.pop("output", "similarity" if gives in ("cosine", "similarity") else "raw")),
        "loss": choice(given.pop("loss", kind.default_loss(labels))),
        "bounds": (0.0, 5.0) if numbers else None,
        "offset": 2.5 if numbers else 0.0,
        "unit": 1.6 if numbers else 1.0,
        "train_examples": 6,
        "counts": (2,) * len(labels.names),
    }
    return Task(**{**settings, **given})


def fitting_task(**given: Any) -> Task | None:
    """The same with the first kind of labels that all its parts can serve, if there is one."""
    return next((task for task in (a_task(labels=one, **given) for one in KINDS) if not incompatible_parts(task)), None)


def labels_of(task: Task, rows: int = 6) -> torch.Tensor:
    """Labels as a loss sees them."""
    if task.kind.searches:
        return torch.arange(12)  # of six pairs, or four triples
    if task.kind.per_candidate:
        return torch.tensor([2])  # of six candidates
    if task.kind.per_token:
        return torch.tensor([[2, 3]])
    if task.kind.name == "regression":
        return (torch.tensor([0.5, 2.5, 4.5] * 2)[:rows].double() - task.offset) / task.unit
    wanted = torch.tensor([0, 1, 2] * 2)[:rows] % len(task.labels.names)
    return torch.nn.functional.one_hot(wanted, len(task.labels.names)) if task.kind.name == "multi-label" else wanted


def small_bert(width: int = 16) -> Bert:
    return random_bert(BertConfig(20, width, 1, 2, 4, 16), seed=0)


def toy_model(folder: Path, tasks: list[Task], **encoder: Any) -> ManyHeads:
    """The toy encoder with these tasks, no dropout unless asked for."""
    settings = EncoderSettings(name=str(folder), **{"dropout": 0.0, "attention_dropout": 0.0, **encoder})
    made = {task.name: task for task in tasks}
    return ManyHeads(load_encoder(settings).encoder, made, Tokenizer(folder), None, seed=0)


def columns(model: ManyHeads, texts: int = 2) -> tuple[TokenColumn, ...]:
    return tuple(tokenise_once(Strings.of(side), model.tokenizer) for side in SIDES[:texts])


def toy_inputs(model: ManyHeads, task: str = "task") -> Inputs:
    """Six examples of a task; where words, candidates or tokens have outputs of their own, of one each."""
    tokens = columns(model, len(model.tasks[task].columns.text))
    inputs = [model.inputs(task, tokens, row) for row in range(6)]
    kind = model.tasks[task].kind
    if not kind.ragged:
        return inputs
    at = np.array([0 if kind.per_candidate else 1])
    return [[replace(sequences[0], words=at), *sequences[1:]] for sequences in inputs]


def one_word_each(loss: Loss, outputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a loss is given besides, where it reads the words of an example together."""
    return (torch.ones(len(outputs), dtype=torch.long),) if loss.reads_sentences else ()


def one_sentence(loss: Loss, outputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same with all of them in one sentence."""
    if loss.reads_inputs:  # a query and two answers
        return (torch.full((len(outputs) // 3,), 3),)
    return (torch.tensor([len(outputs)]),) if loss.reads_sentences else ()
