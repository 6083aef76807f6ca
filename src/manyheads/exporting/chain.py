"""A task's head as other packages know heads: a pooling of token states, linear layers with activations, and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from manyheads.encoder.bert import Bert
from manyheads.exporting.graph import POSITIONS, Position, cannot_export
from manyheads.model.multitask import ManyHeads
from manyheads.parts.heads import Hidden, Linear, Mlp, NoHead
from manyheads.parts.losses.base import Loss
from manyheads.parts.losses.binary_cross_entropy import BinaryCrossEntropy
from manyheads.parts.outputs import Raw
from manyheads.parts.pooling import HeadPooler, Pooling, SharedPooler, Trained
from manyheads.tasks.task import Task
from manyheads.tokens.framing import PairFrame, SingleFrame

Activation = Literal["tanh", "relu", "none"]
Scores = Literal["classes", "one of two", "labels", "value"]


@dataclass(frozen=True)
class Step:
    """activation(x·Wᵀ + b)"""

    weight: Tensor  # [out, in]
    bias: Tensor
    activation: Activation


@dataclass(frozen=True)
class Chain:
    """What a head computes. The last step gives `scores`: logits, calibrated; or a value in the labels' units."""

    position: Position
    steps: tuple[Step, ...]
    scores: Scores


def chain_of(model: ManyHeads, task: Task) -> Chain:
    """A UserError names the part that has no place in such a chain."""
    head = model.head(task.name)
    reason = _why_not(model, task)
    if reason is not None:
        raise cannot_export(f"task '{task.name}': {reason}")
    position, steps = _pooling_steps(head.pooling)
    steps += _head_steps(head.head)
    last, scores = _scaled(task, head.loss, steps[-1])
    return Chain(position, (*steps[:-1], last), scores)


def vector_chain_of(model: ManyHeads, task: Task) -> tuple[Position, tuple[Step, ...]]:
    """The same of a task that searches, whose steps give its vectors."""
    head = model.head(task.name)
    if head.pooling.layer != model.encoder.depth:
        reason = f"its pooling reads layer {head.pooling.layer}, not the last"
        raise cannot_export(f"task '{task.name}': {reason}")
    if not isinstance(head.head, NoHead | Linear | Hidden | Mlp):
        raise cannot_export(f"task '{task.name}': head '{task.head.name}' is not made of linear layers")
    position, steps = _pooling_steps(head.pooling)
    return position, (*steps, *_head_steps(head.head))


def _why_not(model: ManyHeads, task: Task) -> str | None:
    head = model.head(task.name)
    if task.kind.searches:
        return "it gives vectors, which --to sentence-transformers exports"
    if not isinstance(model.encoder, Bert):
        return "the encoder is not a BERT of ours"
    if head.encoding.frames not in ((SingleFrame(0),), (PairFrame(),)):
        return f"encoding '{task.encoding.name}' is neither one text nor a pair as the tokenizer frames it"
    if head.pooling.layer != model.encoder.depth:
        return f"its pooling reads layer {head.pooling.layer}, not the last"
    if task.both_orders:
        return "it is predicted as the mean over both orders of a pair"
    if not isinstance(head.output, Raw):
        return f"output '{task.output.name}' is not a linear layer's"
    if not isinstance(head.head, Linear | Hidden | Mlp):
        return f"head '{task.head.name}' is not made of linear layers"
    plain = type(head.loss).predict is Loss.predict
    if not plain and not isinstance(head.loss, BinaryCrossEntropy):
        return f"loss '{task.loss.name}' reads probabilities off its outputs in a way of its own"
    return None


def _pooling_steps(pooling: Pooling) -> tuple[Position, list[Step]]:
    if isinstance(pooling, Trained):
        return _pooling_steps(pooling.pooling)
    if isinstance(pooling, HeadPooler):
        position, _ = _pooling_steps(pooling.reader)
        return position, [_step(pooling.dense, "tanh")]
    if isinstance(pooling, SharedPooler):
        assert isinstance(pooling.pooler, nn.Linear)
        return "first", [_step(pooling.pooler, "tanh")]
    if type(pooling) not in POSITIONS:
        raise cannot_export("pooling 'lstm' is not made of linear layers")
    return POSITIONS[type(pooling)], []


def _head_steps(head: nn.Module) -> list[Step]:
    if isinstance(head, NoHead):
        return []
    if isinstance(head, Linear):
        return [_step(head.dense, "none")]
    if isinstance(head, Hidden):
        return [_step(head.hidden, "relu"), _step(head.out, "none")]
    assert isinstance(head, Mlp)
    hidden = [_step(layer, "relu") for layer in head.hidden if isinstance(layer, nn.Linear)]
    return [*hidden, _step(head.out, "none")]


def _step(layer: nn.Linear, activation: Activation) -> Step:
    return Step(layer.weight.detach(), layer.bias.detach(), activation)


def _scaled(task: Task, loss: Loss, last: Step) -> tuple[Step, Scores]:
    """The last step with temperature or unit in its weights: softmax(log p / T) of p = softmax(x) is softmax(x / T)."""
    if not task.kind.has_classes:
        weight, bias = last.weight * task.unit, last.bias * task.unit + task.offset
        return Step(weight, bias, "none"), "value"
    if not task.kind.exclusive:
        return last, "labels"
    step = Step(last.weight / task.temperature, last.bias / task.temperature, "none")
    return step, "one of two" if isinstance(loss, BinaryCrossEntropy) else "classes"


def as_two_classes(step: Step) -> Step:
    """σ(x) as softmax(0, x)."""
    return Step(
        torch.cat([torch.zeros_like(step.weight), step.weight]),
        torch.cat([torch.zeros_like(step.bias), step.bias]),
        "none",
    )
