"""The gradients of several tasks with respect to the same parameters, side by side.

A gradient is taken out of `.grad` by reference, so T tasks hold T copies and nothing is stacked or flattened. Of an
embedding table only the rows are held that the task's tokens touched.
"""

from __future__ import annotations

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
    owners = [model.tasks[task].head_of or task for task in model.tasks]
    common = {id(one) for task in model.tasks if owners.count(task) > 1 for one in model.head(task).parameters()}
    common |= {id(one) for one in model.groups.parameters()}
    found = {}
    for name, one in model.named_parameters():
        layer = model.encoder.layer_of(name.removeprefix("encoder.")) if name.startswith("encoder.") else None
        wanted = (layer is not None or id(one) in common) if layers is None else layer in layers
        if wanted and one.requires_grad:
            found[name] = one
    return found


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
        found: dict[str, Tensor | Rows] = {}
        for name, parameter in self.parameters.items():
            gradient, parameter.grad = parameter.grad, None
            if gradient is not None:
                found[name] = Rows.of(gradient) if gradient.is_sparse else gradient
        if self.processes.count > 1:
            found = self._add_up(found)
        if self.copies is not None:
            found = {name: _cast(one, self.copies) for name, one in found.items()}
        self.taken[task] = found

    def _add_up(self, found: dict[str, Tensor | Rows]) -> dict[str, Tensor | Rows]:
        names = list(self.parameters)
        flags = [name in found for name in names] + [isinstance(found.get(name), Rows) for name in names]
        seen = self.processes.any(flags)
        every: dict[str, Tensor | Rows] = {}
        for name, here, sparse in zip(names, seen, seen[len(names) :], strict=False):
            parameter, own = self.parameters[name], found.get(name)
            if sparse:
                own = own if isinstance(own, Rows) else Rows(torch.empty(0, dtype=torch.long), parameter.new_empty(0))
                mask = torch.zeros(len(parameter), dtype=torch.uint8, device=parameter.device)
                mask[own.rows] = 1
                self.processes.most(mask)
                every[name] = _align([own], mask.nonzero().flatten(), parameter)[0]
            elif here:
                every[name] = torch.zeros_like(parameter) if own is None else own
        self.processes.add([one.values if isinstance(one, Rows) else one for one in every.values()])
        return every

    def gramians(self) -> dict[str, Tensor]:
        """G_ij = g_i·g_j per layer group, [tasks, tasks] in float64, added up parameter by parameter."""
        size = len(self.taken)
        found = {group: torch.zeros(size, size, dtype=torch.float64) for group in dict.fromkeys(self.groups.values())}
        for name, group in self.groups.items():
            gradients = self._side_by_side(name)
            for i, one in enumerate(gradients):
                for j, other in enumerate(gradients[: i + 1]):
                    if one is not None and other is not None:
                        found[group][i, j] += torch.dot(one.flatten(), other.flatten()).cpu()
        return {group: one + one.tril(-1).T for group, one in found.items()}

    def _side_by_side(self, name: str) -> list[Tensor | None]:
        """The tasks' gradients of one parameter, for tables of the rows that any of them touched."""
        gradients = [found.get(name) for found in self.taken.values()]
        sparse = [one for one in gradients if isinstance(one, Rows)]
        if sparse:
            rows = torch.cat([one.rows for one in sparse]).unique()
            aligned = iter(_align(sparse, rows, self.parameters[name]))
            for found in self.taken.values():
                if name in found:
                    found[name] = next(aligned)
        values = [one.values if isinstance(one := found.get(name), Rows) else one for found in self.taken.values()]
        return [None if one is None else one.to(torch.promote_types(one.dtype, torch.float32)) for one in values]

    def fill(self, weights: dict[str, float]) -> None:
        """`.grad` = Σ w_i·g_i. The copies are used up on the way."""
        for name, parameter in self.parameters.items():
            gradients = self._side_by_side(name)
            held = [found.pop(name, None) for found in self.taken.values()]
            total: Tensor | None = None
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                if gradient is None:
                    continue
                total = gradient.mul_(weight) if total is None else total.add_(gradient, alpha=weight)
            if total is None:
                continue
            rows = next((one.rows for one in held if isinstance(one, Rows)), None)
            if rows is not None:
                total = self.tables.write(parameter, Rows(rows, total))
            parameter.grad = total.to(parameter.dtype)


def _cast(one: Tensor | Rows, dtype: torch.dtype) -> Tensor | Rows:
    return Rows(one.rows, one.values.to(dtype)) if isinstance(one, Rows) else one.to(dtype)


def _align(gradients: Sequence[Rows], rows: Tensor, parameter: Parameter) -> list[Rows]:
    """The same gradients, each with all these rows."""
    found = []
    for one in gradients:
        if len(one.rows) == len(rows):  # they are a subset
            found.append(one)
            continue
        values = torch.zeros(len(rows), *parameter.shape[1:], dtype=one.values.dtype, device=parameter.device)
        if len(one.rows):
            values[torch.searchsorted(rows, one.rows)] = one.values
        found.append(Rows(rows, values))
    return found
