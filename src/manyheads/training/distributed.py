"""Several processes, one training: each takes its slice of every round, and sums go over all of them.

Started by torchrun; without it there is one process, and everything here does nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import Parameter

from manyheads.errors import UserError
from manyheads.parts.samplers import Batch


@dataclass(frozen=True)
class Processes:
    """This process among all."""

    rank: int = 0
    count: int = 1
    device: torch.device | str = "cpu"

    @property
    def main(self) -> bool:
        """Whether this is the one that writes files and speaks."""
        return self.rank == 0

    def share(self, rounds: list[list[Batch]]) -> list[list[Batch]]:
        """This process's slice of every batch; together the slices are the batches. A slice may be empty."""
        if self.count == 1:
            return rounds
        shared_rounds = []
        for batches in rounds:
            slices = [Batch(batch.task, batch.indices[self.rank :: self.count]) for batch in batches]
            shared_rounds.append([batch for batch in slices if len(batch.indices)])
        return shared_rounds

    def any(self, flags: list[bool]) -> list[bool]:
        """Which of the flags any process raised."""
        if self.count == 1:
            return flags
        raised = torch.tensor(flags, dtype=torch.uint8, device=self.device)
        self.most(raised)
        return [bool(flag) for flag in raised.tolist()]

    def most(self, tensor: Tensor) -> None:
        """The largest of all processes' values, in place."""
        if self.count > 1:
            distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX)

    def add(self, tensors: list[Tensor]) -> None:
        """The sum of all processes' values, in place; every process gives tensors of the same shapes."""
        if self.count == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        first = 0
        for tensor in tensors:
            tensor.copy_(flat[first : first + tensor.numel()].view_as(tensor))
            first += tensor.numel()

    def add_numbers(self, numbers: dict[str, float]) -> None:
        """The same for numbers, of which every process names the same."""
        if self.count > 1:
            values = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
            self.add([values])
            numbers.update(zip(numbers, values.tolist(), strict=True))

    def add_gradients(self, parameters: list[Parameter]) -> None:
        """The same for `.grad`. What has none in any process keeps none, so that the optimizer leaves it alone."""
        if self.count == 1:
            return
        used_anywhere = self.any([parameter.grad is not None for parameter in parameters])
        for parameter, used in zip(parameters, used_anywhere, strict=True):
            if used and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.add([parameter.grad for parameter in parameters if parameter.grad is not None])

    def tell(self, content: Any) -> Any:
        """What the main process has, in all of them (JSON: nothing is pickled)."""
        if self.count == 1:
            return content
        raw = torch.tensor(list(json.dumps(content).encode()), dtype=torch.uint8, device=self.device)
        length = torch.tensor([len(raw)], device=self.device)
        distributed.broadcast(length, src=0)
        if not self.main:
            raw = torch.zeros(int(length), dtype=torch.uint8, device=self.device)
        distributed.broadcast(raw, src=0)
        return json.loads(bytes(raw.tolist()))

    def copy_from_main(self, tensors: list[Tensor]) -> None:
        """The main process's values, in all of them, in place."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def leave(self) -> None:
        """The end of the work in common."""
        if self.count > 1:
            distributed.barrier()
            distributed.destroy_process_group()

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            distributed.barrier()


def join_processes(accelerator: Any, asked: int | None, location: str) -> Processes:
    """The processes that came up, which must be as many as were asked for."""
    processes = Processes(accelerator.process_index, accelerator.num_processes, accelerator.device)
    if asked is not None and processes.count != asked:
        raise UserError(
            f"{location}: {asked} processes were asked for, {processes.count} came up. Start them with torchrun: "
            f"torchrun --standalone --nproc_per_node {asked} -m manyheads train RECIPE (or resume RUN)",
            "wrong-process-count",
        )
    return processes
