"""A model as one function of tensors, for ONNX: encoder, every head, label units, temperatures and thresholds.

    packed   ids, segments [tokens]; lengths [sequences]
    padded   input_ids, attention_mask, token_type_ids [sequences, longest]
    both     of each task [examples, inputs]: which sequences an example's inputs are, by number

Everything but attention runs on [tokens, width], as in `encoder/bert.py`. Attention sees the tokens as
[sequences, longest]: `slots` says which token stands at each place of that view, `places` where each token stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.encoder.auto import AutoEncoder
from manyheads.encoder.bert import Bert, Layer
from manyheads.errors import UserError
from manyheads.inference.both_orders import mean_over_orders
from manyheads.inference.onnx_folder import Layout
from manyheads.model.multitask import ManyHeads
from manyheads.parts.kinds.calibration import SMALLEST_PROBABILITY, THRESHOLD
from manyheads.parts.pooling import FirstToken, HeadPooler, LastToken, Mean, Pooling, SharedPooler, Trained
from manyheads.tasks.task import Task

Position = Literal["first", "last", "mean"]


@dataclass(frozen=True)
class View:
    """Packed tokens seen as [sequences, longest]."""

    slots: Tensor | None  # [sequences, longest] which token; None: tokens are padded, and stand there already
    places: Tensor | None  # [tokens] which place, counted row by row; None as above
    real: Tensor  # [sequences, longest] whether there is a token

    @property
    def sequences(self) -> int:
        return self.real.shape[0]

    @property
    def longest(self) -> int:
        return self.real.shape[1]

    def of(self, rows: Tensor) -> Tensor:
        """[tokens, …] → [sequences · longest, …]"""
        return rows if self.slots is None else rows[self.slots.reshape(-1)]

    def back(self, rows: Tensor) -> Tensor:
        """[sequences · longest, …] → [tokens, …]"""
        return rows if self.places is None else rows[self.places]

    def ends(self, lengths: Tensor, position: Position) -> Tensor:
        """[sequences] each sequence's first or last token."""
        if self.slots is not None:
            return self.slots[:, 0 if position == "first" else -1]  # places past a sequence's end repeat its last token
        first = torch.arange(self.sequences) * self.longest
        return first if position == "first" else first + lengths - 1

    def positions(self) -> Tensor:
        """[tokens] each token's position in its sequence."""
        grid = torch.arange(self.longest).expand(self.sequences, -1)
        return self.back(grid.reshape(-1))


class Product(nn.Module):
    """x·W + b, as a product and a sum: ONNX's tools for int8 know these, and not the two in one."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight: Tensor
        self.bias: Tensor
        self.register_buffer("weight", weight.detach().T.contiguous())  # [in, out]
        self.register_buffer("bias", bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class LayerGraph(nn.Module):
    """One transformer layer; see `encoder.bert.Layer`. 1/√d is part of Q's weights."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.heads = layer.heads
        width = layer.attention_out.weight.shape[0]
        scale = torch.ones(3 * width)
        scale[:width] = 1 / math.sqrt(width // self.heads)
        joint = layer.query_key_value
        self.query_key_value = Product(joint.weight * scale[:, None], joint.bias * scale)
        self.attention_out = Product(layer.attention_out.weight, layer.attention_out.bias)
        self.up = Product(layer.up.weight, layer.up.bias)
        self.down = Product(layer.down.weight, layer.down.bias)
        self.attention_norm, self.norm = layer.attention_norm, layer.norm

    def forward(self, x: Tensor, view: View, mask: Tensor) -> Tensor:
        width = x.shape[1]
        shape = (view.sequences, view.longest, 3, self.heads, width // self.heads)
        q, k, v = view.of(self.query_key_value(x)).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-1, -2) + mask, dim=-1)  # [sequences, heads, longest, longest]
        attended = (weights @ v).transpose(1, 2).reshape(view.sequences * view.longest, width)
        a = self.attention_norm(x + self.attention_out(view.back(attended)))
        return self.norm(a + self.down(F.gelu(self.up(a))))


class BertGraph(nn.Module):
    """Ids, segments and view → the states of every layer, the embeddings first."""

    def __init__(self, bert: Bert, int8_words: bool) -> None:
        super().__init__()
        self.word = Int8Table(bert.word.weight) if int8_words else bert.word
        self.position, self.segment, self.norm = bert.position, bert.segment, bert.norm
        self.layers = nn.ModuleList(LayerGraph(layer) for layer in bert.layers if isinstance(layer, Layer))

    def forward(self, ids: Tensor, segments: Tensor, view: View) -> list[Tensor]:
        x = self.norm(self.word(ids) + self.position(view.positions()) + self.segment(segments))
        mask = torch.where(view.real, 0.0, float("-inf"))[:, None, None, :]
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1], view, mask))
        return states


class Int8Table(nn.Module):
    """Embeddings in a byte per number: w ≈ s·round(w / s), s = max|w| / 127 for each row."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scale = (weight.detach().abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-12)
        self.rows: Tensor
        self.scale: Tensor
        self.register_buffer("rows", torch.round(weight.detach() / scale).to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, ids: Tensor) -> Tensor:
        return self.rows[ids].float() * self.scale[ids]


class AutoGraph(nn.Module):
    """The same of any transformers encoder, on padded tokens as it knows them."""

    def __init__(self, encoder: AutoEncoder) -> None:
        super().__init__()
        self.model = encoder.model
        self.takes_segments = encoder.takes_segments

    def forward(self, ids: Tensor, segments: Tensor, view: View) -> list[Tensor]:
        shape = (view.sequences, view.longest)
        options = {"token_type_ids": segments.view(shape)} if self.takes_segments else {}
        output = self.model(
            input_ids=ids.view(shape), attention_mask=view.real.long(), output_hidden_states=True, **options
        )
        # the last of `hidden_states` lacks the final norm that some models have
        states = [*output.hidden_states[:-1], output.last_hidden_state]
        return [layer_states.flatten(0, 1) for layer_states in states]


class Readings:
    """The states that poolings read, each made once for all sequences: tasks take their rows of them."""

    def __init__(self, states: list[Tensor], view: View, lengths: Tensor) -> None:
        self.states, self.view, self.lengths = states, view, lengths
        self._made: dict[tuple[int, Position], Tensor] = {}

    def read(self, layer: int, position: Position) -> Tensor:
        """[sequences, width]"""
        if (layer, position) not in self._made:
            self._made[layer, position] = self._read(self.states[layer], position)
        return self._made[layer, position]

    def _read(self, states: Tensor, position: Position) -> Tensor:
        view = self.view
        if position != "mean":
            return states[view.ends(self.lengths, position)]
        grid = view.of(states).view(view.sequences, view.longest, -1)
        return (grid * view.real[..., None]).sum(dim=1) / self.lengths[:, None]

    def pool(self, pooling: Pooling) -> Tensor:
        """[sequences, width of the pooling]"""
        if isinstance(pooling, Trained):
            return self.pool(pooling.pooling)
        if isinstance(pooling, HeadPooler):
            return torch.tanh(pooling.dense(self.pool(pooling.reader)))
        if isinstance(pooling, SharedPooler):
            return torch.tanh(pooling.pooler(self.read(pooling.layer, "first")))
        return self.read(pooling.layer, POSITIONS[type(pooling)])


POSITIONS: dict[type[Pooling], Position] = {FirstToken: "first", LastToken: "last", Mean: "mean"}
EXPORTED_POOLINGS = (*POSITIONS, Trained, HeadPooler, SharedPooler)


class ModelGraph(nn.Module):
    """What both layouts share. Outputs: of each task its probabilities or values, and what is predicted; embeddings."""

    def __init__(self, model: ManyHeads, layout: Layout, int8_words: bool = False) -> None:
        super().__init__()
        for task in model.tasks.values():
            _check_exports(model, task)
        if isinstance(model.encoder, Bert):
            self.encoder: nn.Module = BertGraph(model.encoder, int8_words)
        elif isinstance(model.encoder, AutoEncoder) and layout == "padded":
            self.encoder = AutoGraph(model.encoder)
        else:
            raise cannot_export(
                f"the encoder '{model.encoder.config.model_type}' is run by transformers, which pads", "--layout padded"
            )
        self.model_heads, self.groups = model.heads, model.groups
        self.tasks = list(model.tasks.values())
        self.task_heads = [model.head(task.name) for task in self.tasks]
        self.depth = model.encoder.depth

    def outputs(
        self, ids: Tensor, segments: Tensor, lengths: Tensor, view: View, numbers: list[Tensor]
    ) -> list[Tensor]:
        readings = Readings(self.encoder(ids, segments, view), view, lengths)
        outputs: list[Tensor] = []
        for task, head, task_numbers in zip(self.tasks, self.task_heads, numbers, strict=True):
            pooled = readings.pool(head.pooling)[task_numbers.reshape(-1)]
            predicted = head.loss.predict(head.output(head.head(head.encoding(pooled))))
            predicted = task.kind.in_label_units(mean_over_orders(task, predicted), task)
            outputs += for_people(task, predicted)
        return [*outputs, readings.read(self.depth, "mean")]


class PackedGraph(ModelGraph):
    """Sequences end to end."""

    def forward(
        self, ids: Tensor, segments: Tensor, lengths: Tensor, slots: Tensor, places: Tensor, numbers: list[Tensor]
    ) -> list[Tensor]:
        real = torch.arange(slots.shape[1]) < lengths[:, None]
        return self.outputs(ids, segments, lengths, View(slots, places, real), numbers)


class PaddedGraph(ModelGraph):
    """Sequences padded to the longest, as transformers has them."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, numbers: list[Tensor]
    ) -> list[Tensor]:
        view = View(None, None, attention_mask > 0)
        lengths = attention_mask.sum(dim=1)
        return self.outputs(input_ids.reshape(-1), token_type_ids.reshape(-1), lengths, view, numbers)


def for_people(task: Task, predicted: Tensor) -> list[Tensor]:
    """Calibrated probabilities or values; and the class, the classes as 0 and 1, or the value in its range.

    As `kind.calibrate`, `kind.decode` and `kind.describe` do it with numpy.
    """
    if not task.kind.has_classes:
        within = predicted if task.labels.range is None else predicted.clamp(*task.labels.range)
        return [predicted, within]
    if not task.kind.exclusive:
        thresholds = torch.tensor(task.thresholds or [THRESHOLD] * len(task.labels.names), dtype=torch.float64)
        return [predicted, (predicted.double() >= thresholds).long()]
    chosen = predicted.argmax(dim=-1)
    if task.temperature != 1.0:
        logarithms = predicted.double().clamp(min=SMALLEST_PROBABILITY).log()
        predicted = torch.softmax(logarithms / task.temperature, dim=-1)
    return [predicted, chosen]


def _check_exports(model: ManyHeads, task: Task) -> None:
    """A part that cannot be part of a graph is refused by name."""
    head = model.head(task.name)
    if task.kind.per_token:
        raise cannot_export(f"task '{task.name}': kind '{task.labels.kind}' has a prediction per token")
    if task.kind.per_candidate:
        raise cannot_export(f"task '{task.name}': kind '{task.labels.kind}' has a prediction per candidate")
    if task.kind.per_word:
        raise cannot_export(f"task '{task.name}': kind '{task.labels.kind}' has a prediction per word")
    if task.kind.searches:
        reason = f"task '{task.name}': kind '{task.labels.kind}' gives vectors"
        raise cannot_export(reason, "--to sentence-transformers")
    pooling = head.pooling
    if type(pooling) not in EXPORTED_POOLINGS:
        raise cannot_export(f"task '{task.name}': pooling '{task.pooling.name}' has no form as a graph")
    if not head.encoding.frames:
        raise cannot_export(f"task '{task.name}': encoding '{task.encoding.name}' does not say its inputs as `frames`")


def cannot_export(reason: str, advice: str | None = None) -> UserError:
    advised = "" if advice is None else f" Use {advice}."
    return UserError(f"export: {reason}; it cannot be exported so.{advised}", code="cannot-export")
