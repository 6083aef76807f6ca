"""What a regulariser may do: add a term to every example of its tasks, or a penalty on weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from manyheads.parts.task_names import check_tasks
from manyheads.seeding import RngState, rng_from

if TYPE_CHECKING:
    from manyheads.encoder import Encoder
    from manyheads.parts.losses import Loss
    from manyheads.tasks.task import Task
    from manyheads.tokens.packing import PackedTokens, Words
    from manyheads.tokens.packing import Sequence as TokenSequence


class TaskHead(Protocol):
    """What regularisers use of a task's head."""

    loss: Loss


class RegularisedModel(Protocol):
    """What regularisers use of the multi-task model."""

    encoder: Encoder
    tasks: dict[str, Task]

    def head(self, task: str) -> TaskHead: ...

    def read(self, embedded: Tensor, packed: Any) -> list[Tensor]: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...


class PackedTasks(Protocol):
    """What regularisers use of a packed batch."""

    @property
    def tasks(self) -> list[str]: ...

    @property
    def tokens(self) -> PackedTokens: ...

    @property
    def where(self) -> tuple[Tensor, ...]: ...

    @property
    def words(self) -> tuple[Words | None, ...]: ...

    @property
    def all_states(self) -> bool: ...


@dataclass(frozen=True)
class ForwardPass:
    """One pass through the model as it was just done, for terms that do it again a little differently."""

    model: Any  # a RegularisedModel that is an nn.Module
    batches: list[tuple[str, list[list[TokenSequence]]]]
    packed: PackedTasks
    embedded: Tensor  # [tokens, width]
    states: dict[int, Tensor]  # of each layer that heads read; the last one's where a regulariser `reads_states`
    outputs: list[Tensor]  # of each task, [examples, outputs]
    counts: list[float]  # of each task, what its examples' losses are divided by: by default its examples in the step
    rng_before: RngState  # where torch's generators stood before the embeddings …
    rng_after: RngState  # … and after them
    autocast: Callable[[], AbstractContextManager[None]]

    def read(self, embedded: Tensor, same_masks: bool) -> list[Tensor]:
        """The outputs for other embeddings, with the dropout masks of the pass or with new ones."""
        masks = rng_from(self.rng_after, embedded.device) if same_masks else nullcontext()
        with masks, self.autocast():
            return self.model.read(embedded, self.packed)

    def redrawn(self) -> list[Tensor]:
        """The outputs of the same inputs once more, all dropout masks drawn anew, those of the embeddings too."""
        with self.autocast():
            embedded = self.model.embed(self.packed)
        return self.read(embedded, same_masks=False)

    def again(self, weights: dict[str, Tensor]) -> list[Tensor]:
        """The outputs that the model would give with other weights, with the masks of the pass."""
        with rng_from(self.rng_before, self.embedded.device), self.autocast():
            return torch.func.functional_call(self.model, weights, (self.batches, False, self.packed.all_states))


class Regulariser(nn.Module):
    """An extra term, `weight` (λ) times as strong as the loss. Built with the names of the run's tasks.

    One that `reads_examples` gives `terms`, a value for each example, which are added to the task's loss before tasks
    are combined. Any other adds the gradient of a penalty on weights after that. Buffers are its memory.
    """

    reads_examples: ClassVar[bool] = True
    reruns: ClassVar[bool] = True  # whether its own passes change inputs one by one: equal ones must not be merged then
    reads_states: ClassVar[bool] = False  # whether it reads the last layer's states of all tokens
    name: str = ""  # as recipes call it

    def __init__(self, names: Sequence[str], weight: float, tasks: Sequence[str] | None = None) -> None:
        super().__init__()
        if tasks is not None and not tasks:
            raise ValueError("'tasks' names none; leave the regulariser out instead")
        check_tasks("tasks", tasks or [], names)
        self.weight = weight
        self.tasks = list(names if tasks is None else tasks)  # those it is on for

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        """Why it can add nothing to a task's loss, or None."""
        if cls.reads_examples and task.kind.searches:
            return f"task '{task.name}' is {task.kind.called}, which has no outputs of single examples to hold"
        return None

    def leave_out_incompatible(self, tasks: Mapping[str, Task]) -> None:
        """Be off for the tasks to whose loss it can add nothing."""
        self.tasks = [name for name in self.tasks if self.why_incompatible(tasks[name]) is None]

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        """A value for each example of each task in the pass, without the weight."""
        raise NotImplementedError

    def penalise(self, model: RegularisedModel) -> float:
        """Add λ·∇R to the gradients of what is trained; returns λ·R."""
        raise NotImplementedError

    def describe(self, model: RegularisedModel) -> str:
        """For people: its name, strength, and what it costs besides time."""
        some = "" if len(self.tasks) == len(model.tasks) else f" on {', '.join(self.tasks)}"
        return f"{self.name} {self.weight:g}{some}"

    def begin(self, model: RegularisedModel) -> None:
        """Called once before the first step of a phase that has it."""

    def after_step(self, model: RegularisedModel) -> None:
        """Called after every optimizer step."""


def divergence(loss: Loss, first: Tensor, second: Tensor) -> Tensor:
    """How far two outputs of a task are apart, [examples]: symmetric KL of what they predict, or a squared difference.

    KL(p‖q) + KL(q‖p) = Σ (p − q)·(ln p − ln q), over classes, or over yes and no of each class of a multi-label task.
    """
    if not loss.task.kind.has_classes:
        return ((first - second) ** 2).mean(dim=-1)
    if loss.reads_sentences:  # of its words one by one
        p, q = loss.task.kind.activate(first), loss.task.kind.activate(second)
    else:
        p, q = loss.predict(first), loss.predict(second)
    apart = _symmetric(p, q)
    if not loss.task.kind.exclusive:
        apart = apart + _symmetric(1 - p, 1 - q)
    return apart.sum(dim=-1)


def _symmetric(p: Tensor, q: Tensor) -> Tensor:
    tiny = torch.finfo(p.dtype).tiny
    return (p - q) * (p.clamp(min=tiny).log() - q.clamp(min=tiny).log())
