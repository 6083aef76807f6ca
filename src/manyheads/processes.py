"""Several processes, one training: each takes its slice of every round, and sums go over all of them.

Started by torchrun; without it there is one process, and everything here does nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed
from torch.nn import Parameter

from manyheads.errors import UserError
from manyheads.sampling import Batch


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
        sliced = [[Batch(one.task, one.rows[self.rank :: self.count]) for one in batches] for batches in rounds]
        return [[one for one in batches if len(one.rows)] for batches in sliced]

    def add_up(self, parameters: list[Parameter], losses: dict[str, float], alarms: list[bool]) -> list[bool]:
        """Sum gradients and losses over all processes, in place; returns which alarms any process raised.

        The first alarm says that there is no gradient to sum.

        A parameter that got no gradient anywhere keeps none, so that the optimizer leaves it alone.
        """
        if self.count == 1:
            return alarms
        flags = [one.grad is not None for one in parameters] + alarms
        seen = torch.tensor(flags, dtype=torch.float32, device=self.device)
        distributed.all_reduce(seen, op=distributed.ReduceOp.MAX)
        told = [bool(one) for one in seen[len(parameters) :].tolist()]
        if told[0]:  # a loss that is not finite: there is nothing to add up
            return told
        used = [one for one, flag in zip(parameters, seen.tolist(), strict=False) if flag]
        for one in used:
            one.grad = torch.zeros_like(one) if one.grad is None else one.grad
        pieces = [one.grad.reshape(-1) for one in used if one.grad is not None]
        values = torch.tensor(list(losses.values()), dtype=torch.float32, device=self.device)
        flat = torch.cat([values, *pieces])
        distributed.all_reduce(flat)
        losses.update(zip(losses, flat[: len(losses)].tolist(), strict=True))
        first = len(losses)
        for one in used:
            assert one.grad is not None
            one.grad.copy_(flat[first : first + one.numel()].view_as(one))
            first += one.numel()
        return told

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

    def leave(self) -> None:
        """The end of the work in common."""
        if self.count > 1:
            distributed.barrier()
            distributed.destroy_process_group()

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            distributed.barrier()


def join_processes(accelerator: Any, asked: int | None, place: str) -> Processes:
    """The processes that came up, which must be as many as were asked for."""
    found = Processes(accelerator.process_index, accelerator.num_processes, accelerator.device)
    if asked is not None and found.count != asked:
        raise UserError(
            f"{place}: {asked} processes were asked for, {found.count} came up. Start them with torchrun: "
            f"torchrun --standalone --nproc_per_node {asked} -m manyheads train RECIPE (or resume RUN)"
        )
    return found
