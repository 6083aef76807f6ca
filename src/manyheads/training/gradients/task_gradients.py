"""The gradients of several tasks with respect to the same parameters, side by side.

A gradient is taken out of `.grad` by reference, so T tasks hold T copies and nothing is stacked or flattened. Of an
embedding table only the rows are held that the task's tokens touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from manyheads.model.multitask import ManyHeads
from manyheads.training.distributed import Processes
from manyheads.training.gradients.tables import Rows, WholeTables

SHARED_HEADS = "shared heads"  # the layer group of parameters that are not the encoder's


def shared_parameters(model: ManyHeads, layers: Sequence[int] | None = None) -> dict[str, Parameter]:
    """What more than one task may train: the encoder, or some layers of it, and heads and layers used in common."""
    of_heads = set() if layers is not None else _shared_by_heads(model)
    shared: dict[str, Parameter] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if name.startswith("encoder."):
            is_shared = layers is None or model.encoder.layer_of(name.removeprefix("encoder.")) in layers
        else:
            is_shared = parameter in of_heads
        if is_shared:
            shared[name] = parameter
    return shared


def _shared_by_heads(model: ManyHeads) -> set[Parameter]:
    """Parameters of heads and of layers behind the encoder that several tasks use."""
    users = Counter(task.head_of or name for name, task in model.tasks.items())
    shared = set(model.groups.parameters())
    for name in model.tasks:
        if users[name] > 1:
            shared |= set(model.head(name).parameters())
    return shared


def layer_group(model: ManyHeads, name: str) -> str:
    """Where a parameter stands, for people: 'embeddings', 'layer 1' …, or 'shared heads'."""
    if not name.startswith("encoder."):
        return SHARED_HEADS
    return layer_name(model.encoder.layer_of(name.removeprefix("encoder.")))


def layer_name(layer: int) -> str:
    return f"layer {layer}" if layer else "embeddings"


class TaskGradients:
    """Task by task: `take` after its backward; then `gramians`; then `fill` puts Σ w_i·g_i into `.grad`."""

    def __init__(
        self,
        model: ManyHeads,
        parameters: dict[str, Parameter],
        processes: Processes,
        copies: torch.dtype | None = None,
        tables: WholeTables | None = None,
    ) -> None:
        self.parameters = parameters
        self.groups = {name: layer_group(model, name) for name in parameters}
        self.processes = processes
        self.copies = copies
        self.tables = tables or WholeTables()
        self.taken: dict[str, dict[str, Tensor | Rows]] = {}  # task → parameter → its gradient, where it has one

    @property
    def tasks(self) -> list[str]:
        return list(self.taken)

    def take(self, task: str) -> None:
        """Move the gradient of one task aside, summed over all processes."""
        gradients: dict[str, Tensor | Rows] = {}
        for name, parameter in self.parameters.items():
            gradient, parameter.grad = parameter.grad, None
            if gradient is not None:
                gradients[name] = Rows.of(gradient) if gradient.is_sparse else gradient
        if self.processes.count > 1:
            gradients = self._add_up(gradients)
        if self.copies is not None:
            gradients = {name: _cast(gradient, self.copies) for name, gradient in gradients.items()}
        self.taken[task] = gradients

    def _add_up(self, gradients: dict[str, Tensor | Rows]) -> dict[str, Tensor | Rows]:
        """The sums over all processes, of the parameters that any process has a gradient of."""
        names = list(self.parameters)
        flags = [name in gradients for name in names] + [isinstance(gradients.get(name), Rows) for name in names]
        in_any_process = self.processes.any(flags)
        sums: dict[str, Tensor | Rows] = {}
        for name, present, sparse in zip(names, in_any_process, in_any_process[len(names) :], strict=False):
            parameter, gradient = self.parameters[name], gradients.get(name)
            if sparse:
                if not isinstance(gradient, Rows):
                    gradient = Rows(torch.empty(0, dtype=torch.long), parameter.new_empty(0))
                mask = torch.zeros(len(parameter), dtype=torch.uint8, device=parameter.device)
                mask[gradient.rows] = 1
                self.processes.most(mask)
                sums[name] = _align([gradient], mask.nonzero().flatten(), parameter)[0]
            elif present:
                sums[name] = torch.zeros_like(parameter) if gradient is None else gradient
        self.processes.add([_values(gradient) for gradient in sums.values()])
        return sums

    def gramians(self) -> dict[str, Tensor]:
        """G_ij = g_i·g_j per layer group, [tasks, tasks] in float64, added up parameter by parameter."""
        size = len(self.taken)
        lower: dict[str, Tensor] = {}  # triangles
        for name, group in self.groups.items():
            if group not in lower:
                lower[group] = torch.zeros(size, size, dtype=torch.float64)
            gradients = self._side_by_side(name)
            for i, gradient in enumerate(gradients):
                for j, earlier in enumerate(gradients[: i + 1]):
                    if gradient is not None and earlier is not None:
                        lower[group][i, j] += torch.dot(gradient.flatten(), earlier.flatten()).cpu()
        return {group: triangle + triangle.tril(-1).T for group, triangle in lower.items()}

    def _side_by_side(self, name: str) -> list[Tensor | None]:
        """The tasks' gradients of one parameter, for tables of the rows that any of them touched."""
        sparse = []
        for gradients in self.taken.values():
            gradient = gradients.get(name)
            if isinstance(gradient, Rows):
                sparse.append(gradient)
        if sparse:
            rows = torch.cat([gradient.rows for gradient in sparse]).unique()
            aligned = iter(_align(sparse, rows, self.parameters[name]))
            for gradients in self.taken.values():
                if name in gradients:
                    gradients[name] = next(aligned)
        side_by_side: list[Tensor | None] = []
        for gradients in self.taken.values():
            gradient = gradients.get(name)
            if gradient is None:
                side_by_side.append(None)
                continue
            values = _values(gradient)
            side_by_side.append(values.to(torch.promote_types(values.dtype, torch.float32)))
        return side_by_side

    def fill(self, weights: dict[str, float]) -> None:
        """`.grad` = Σ w_i·g_i. The copies are used up on the way."""
        for name, parameter in self.parameters.items():
            gradients = self._side_by_side(name)
            copies = [taken.pop(name, None) for taken in self.taken.values()]
            total: Tensor | None = None
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                if gradient is None:
                    continue
                total = gradient.mul_(weight) if total is None else total.add_(gradient, alpha=weight)
            if total is None:
                continue
            rows = next((copy.rows for copy in copies if isinstance(copy, Rows)), None)
            if rows is not None:
                total = self.tables.write(parameter, Rows(rows, total))
            parameter.grad = total.to(parameter.dtype)


class KeptGradients(TaskGradients):
    """Task gradients that the optimizer still needs beside their sum."""

    def add_up(self) -> dict[Parameter, dict[str, Tensor | Rows]]:
        """`.grad` = Σ g_i; returns the gradients themselves, parameter by parameter."""
        kept: dict[Parameter, dict[str, Tensor | Rows]] = {}
        for name, parameter in self.parameters.items():
            self._side_by_side(name)  # gives tables the same rows
            gradients = {task: taken[name] for task, taken in self.taken.items() if name in taken}
            if not gradients:
                continue
            values = [_values(gradient) for gradient in gradients.values()]
            total = values[0].clone()
            for value in values[1:]:
                total.add_(value)
            rows = next((gradient.rows for gradient in gradients.values() if isinstance(gradient, Rows)), None)
            parameter.grad = total if rows is None else self.tables.write(parameter, Rows(rows, total))
            kept[parameter] = gradients
        return kept


def _values(gradient: Tensor | Rows) -> Tensor:
    return gradient.values if isinstance(gradient, Rows) else gradient


def _cast(gradient: Tensor | Rows, dtype: torch.dtype) -> Tensor | Rows:
    if isinstance(gradient, Rows):
        return Rows(gradient.rows, gradient.values.to(dtype))
    return gradient.to(dtype)


def _align(gradients: Sequence[Rows], rows: Tensor, parameter: Parameter) -> list[Rows]:
    """The same gradients, each with all these rows."""
    aligned = []
    for gradient in gradients:
        if len(gradient.rows) == len(rows):  # they are a subset
            aligned.append(gradient)
            continue
        values = torch.zeros(len(rows), *parameter.shape[1:], dtype=gradient.values.dtype, device=parameter.device)
        if len(gradient.rows):
            values[torch.searchsorted(rows, gradient.rows)] = gradient.values
        aligned.append(Rows(rows, values))
    return aligned
