"""When what is trained: the phases of a run, each with its sampler, rate, trainable parts and combination of losses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TypeVar

from torch import Tensor, nn

from manyheads import registry
from manyheads.config.recipe import Recipe
from manyheads.config.training import Average, PhaseSettings, Shape, trainable_layers
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.parts.regularisers import Regulariser, build_regularisers
from manyheads.parts.samplers import Batch, Sampler, SamplerInput
from manyheads.parts.scalarizers import Scalarizer
from manyheads.seeding import seed_for
from manyheads.training.budget import sampler_within
from manyheads.training.gradients.combination import Combination, build_combination
from manyheads.training.optim import rate_factor
from manyheads.training.state import Progress

Value = TypeVar("Value")
DEFAULT_EPOCHS = 3  # of a phase


@dataclass(frozen=True)
class Phase:
    """A stretch of training. Steps are numbered through the whole run."""

    name: str
    settings: PhaseSettings
    sampler: Sampler
    combination: Combination
    regularisers: tuple[Regulariser, ...]
    first: int  # its first step
    epoch_ends: tuple[int, ...]  # number of the run's steps after which each of its epochs is over
    peak: float  # learning rate
    warmup: float
    shape: Shape
    trainable: str | list[int]  # which of the encoder learns
    pass_ends: dict[int, str]  # steps after which a pass over one task is over → the task; where evaluated then

    @property
    def end(self) -> int:
        return self.epoch_ends[-1]

    @property
    def rounds(self) -> int:
        return sum(self.sampler.epochs)

    def rate_factor(self, step: int) -> float:
        """What peak rates are multiplied with at a step: warm-up and decay are the phase's own."""
        return rate_factor(step - self.first, self.end - self.first, self.warmup, self.shape)


@dataclass(frozen=True)
class Schedule:
    """All phases, and how rounds make steps."""

    phases: tuple[Phase, ...]
    accumulate: int
    uncut_steps: int  # steps if training.max_steps did not cut them
    batch_sizes: dict[str, int]

    @property
    def steps(self) -> int:
        return self.phases[-1].end

    @property
    def combiner_state(self) -> nn.ModuleDict:
        """What combinations and regularisers learn and remember: each once, by the number of its first phase."""
        modules: dict[int, tuple[str, nn.Module]] = {}
        for number, phase in enumerate(self.phases, 1):
            modules.setdefault(id(phase.combination), (f"combine-{number}", phase.combination))
            modules.setdefault(id(phase.regularisers), (f"regularise-{number}", nn.ModuleList(phase.regularisers)))
        return nn.ModuleDict(dict(modules.values()))

    def begin(self, phase: Phase, model: ManyHeads) -> None:
        """Let the phase's regularisers look at the model, unless they go on from an earlier phase."""
        for earlier in self.phases[: self.phases.index(phase)]:
            if earlier.regularisers is phase.regularisers:
                return
        for regulariser in phase.regularisers:
            regulariser.begin(model)

    @property
    def scalarizers(self) -> list[Scalarizer]:
        return list(dict.fromkeys(phase.combination.scalarizer for phase in self.phases))

    @property
    def epoch_ends(self) -> list[int]:
        return [end for phase in self.phases for end in phase.epoch_ends]

    @property
    def pass_ends(self) -> dict[int, str]:
        """Number of steps after which a pass over one task is over → the task; empty unless evaluated then."""
        ends: dict[int, str] = {}
        for phase in self.phases:
            ends |= phase.pass_ends
        return ends

    def passes_over(self, steps_taken: int) -> dict[str, str | int]:
        """For the log: whose pass is over after so many steps, and how many are by then; nothing where none is."""
        ends = self.pass_ends
        if steps_taken not in ends:
            return {}
        return {"pass": ends[steps_taken], "passes": sum(1 for step in ends if step <= steps_taken)}

    def phase(self, step: int) -> Phase:
        """The phase of a step; after the last step the last phase."""
        for phase in self.phases:
            if step < phase.end:
                return phase
        return self.phases[-1]

    def epoch_in_phase(self, step: int) -> int:
        """The epoch of a step, counted from 0 within its phase."""
        epoch_ends = self.phase(step).epoch_ends
        return min(bisect_right(epoch_ends, step), len(epoch_ends) - 1)

    def epochs_begun(self, steps_taken: int) -> int:
        """The epoch of the last step taken, counted from 1 through all phases."""
        epoch_ends = self.epoch_ends
        return min(bisect_left(epoch_ends, steps_taken) + 1, len(epoch_ends))

    def change_at(self, step: int) -> dict[str, str | float]:
        """What is new at a step that starts an epoch: its phase, and what the sampler changes; else nothing."""
        phase = self.phase(step)
        if step != phase.first and step not in phase.epoch_ends:
            return {}
        return {"phase": phase.name, **phase.sampler.state(self.epoch_in_phase(step))}

    def rounds(self, step: int) -> list[list[Batch]]:
        """The rounds of a step, as the sampler draws them."""
        phase = self.phase(step)
        first = (step - phase.first) * self.accumulate
        return [phase.sampler.round(index) for index in range(first, min(first + self.accumulate, phase.rounds))]


class CombinerState:
    """What combinations and regularisers learn and remember, as an entry of a checkpoint."""

    def __init__(self, schedule: Schedule, model: ManyHeads, progress: Progress) -> None:
        self.schedule, self.model, self.progress = schedule, model, progress

    def state_dict(self) -> dict[str, Tensor]:
        return self.schedule.combiner_state.state_dict()

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """After progress was loaded: the phases that it has reached make room for what they remember."""
        for phase in self.schedule.phases:
            if phase.first < self.progress.step:
                self.schedule.begin(phase, self.model)
        self.schedule.combiner_state.load_state_dict(tensors)


# --- built from a recipe ---------------------------------------------------------------------------------------


def plan_schedule(recipe: Recipe, sampler_input: SamplerInput) -> Schedule:
    """The phases of a recipe over the data that there is; a recipe without phases is one."""
    training = recipe.training
    task_names = list(recipe.tasks)
    average = default_average(recipe)
    combination = build_combination(recipe.combine, task_names, average)  # goes on from phase to phase
    regularisers = build_regularisers(recipe.regularise, task_names)  # so do they
    phases: list[Phase] = []
    first = uncut_steps = 0
    for number, settings in enumerate(recipe.phases or [PhaseSettings()]):
        sampler, rounds = _phase_sampler(recipe, number, settings, sampler_input)
        epoch_ends = [first + steps for steps in _steps_at_epoch_ends(sampler, training.accumulate)]
        end = epoch_ends[-1]
        end = min(end, first + -(-rounds // training.accumulate))
        if settings.steps:
            end = min(end, first + settings.steps)
        uncut_steps += end - first
        if training.max_steps is not None:
            end = min(end, training.max_steps)
        if end == first:
            continue  # training.max_steps ends the run before this phase
        phase_combination, phase_regularisers = combination, regularisers
        if settings.combine:
            phase_combination = build_combination(settings.combine, task_names, average)
        if settings.regularise is not None:
            phase_regularisers = build_regularisers(settings.regularise, task_names)
        phases.append(
            Phase(
                name=settings.name or str(number + 1),
                settings=settings,
                sampler=sampler,
                combination=phase_combination,
                regularisers=phase_regularisers,
                first=first,
                epoch_ends=_until(end, epoch_ends),
                peak=settings.learning_rate or training.learning_rate,
                warmup=_first_set(settings.warmup, training.warmup),
                shape=settings.schedule or training.schedule,
                trainable=_first_set(settings.trainable, training.trainable),
                pass_ends=_pass_ends(recipe, sampler, first, end),
            )
        )
        first = end
    _check_passes(recipe, phases)
    batch_sizes = {**sampler_input.batch_sizes}
    batch_sizes |= getattr(phases[-1].sampler, "batch_sizes", {})  # some samplers choose them
    return Schedule(tuple(phases), training.accumulate, uncut_steps, batch_sizes)


def default_average(recipe: Recipe) -> Average:
    """What tasks' losses are where `combine.average` is open: by examples as soon as a sampler deals out examples."""
    samplers = [recipe.sampler]
    for phase in recipe.phases or []:
        if phase.sampler is not None:
            samplers.append(phase.sampler)
    for sampler in samplers:
        if getattr(registry.find("samplers", sampler.name).factory, "deals_examples", False):
            return "examples"
    return "step"


def _check_passes(recipe: Recipe, phases: list[Phase]) -> None:
    if recipe.evaluate.after == "task" and not any(phase.pass_ends for phase in phases):
        raise UserError(
            f"{recipe.location('evaluate', 'after')}: no phase passes over one task after the other; take sampler "
            "'epoch-round-robin' or 'sequential', or leave it out.",
            "no-passes",
        )


def _phase_sampler(
    recipe: Recipe, number: int, settings: PhaseSettings, sampler_input: SamplerInput
) -> tuple[Sampler, int]:
    """The sampler of one phase, with as many epochs as the phase takes, and the rounds of it that are used."""
    phase_tasks = settings.tasks or list(sampler_input.sizes)
    phase_input = replace(
        sampler_input,
        sizes={task: size for task, size in sampler_input.sizes.items() if task in phase_tasks},
        epochs=settings.epochs or recipe.training.epochs or DEFAULT_EPOCHS,
    )
    if number:
        phase_input = replace(phase_input, seed=seed_for(sampler_input.seed, "phase", number))
    build = partial((settings.sampler or recipe.sampler).build, "samplers")
    budget, rounds_per_step = recipe.training.budget, recipe.training.accumulate
    try:
        if budget is not None and not recipe.phases:
            return sampler_within(budget, build, phase_input, rounds_per_step)
        if settings.steps and not settings.epochs:
            return _sampler_of_steps(build, phase_input, settings.steps, rounds_per_step)
        sampler = build(phase_input)
    except ValueError as fault:
        location, phase = recipe.location("sampler"), ""
        if settings.sampler is not None:
            location = recipe.location("phases", number, "sampler")
        if recipe.phases:
            phase = f" (phase {number + 1} trains {', '.join(phase_input.sizes)})"
        raise UserError(f"{location}: {fault}{phase}.", "bad-sampler") from None
    return sampler, sum(sampler.epochs)


def _sampler_of_steps(
    build: Callable[[SamplerInput], Sampler], phase_input: SamplerInput, steps: int, rounds_per_step: int
) -> tuple[Sampler, int]:
    """The sampler of a phase of which only its steps are known: with as many epochs as they take."""
    sampler = build(phase_input)
    steps_so_far = _steps_at_epoch_ends(sampler, rounds_per_step)[-1]
    while steps_so_far < steps:
        missing_epochs = (steps - steps_so_far) * phase_input.epochs // steps_so_far
        phase_input = replace(phase_input, epochs=phase_input.epochs + max(1, missing_epochs))
        sampler = build(phase_input)
        steps_so_far = _steps_at_epoch_ends(sampler, rounds_per_step)[-1]
    return sampler, sum(sampler.epochs)


def _steps_at_epoch_ends(sampler: Sampler, rounds_per_step: int) -> list[int]:
    """After how many steps each epoch is over."""
    return [-(-rounds // rounds_per_step) for rounds in accumulate(sampler.epochs)]


def _pass_ends(recipe: Recipe, sampler: Sampler, first: int, end: int) -> dict[int, str]:
    """Where a phase of these steps is evaluated because a pass is over; of two within a step the later counts."""
    if recipe.evaluate.after == "epoch":
        return {}
    ends = {}
    for pass_end in getattr(sampler, "pass_ends", ()):
        step = first - (-pass_end.rounds // recipe.training.accumulate)
        if step <= end:
            ends[step] = pass_end.task
    return ends


def _until(end: int, epoch_ends: list[int]) -> tuple[int, ...]:
    """Epoch ends of a phase that is cut at `end`; epochs that are over within the same step end once."""
    before_end = [step for step in dict.fromkeys(epoch_ends) if step < end]
    return (*before_end, end)


def _first_set(value: Value | None, default: Value) -> Value:
    return default if value is None else value


# --- what learns -----------------------------------------------------------------------------------------------


def set_trainable(model: ManyHeads, phase: Phase, frozen_dropout: bool = False) -> None:
    """Let learn what the phase trains. Frozen layers run without dropout: the same input gives the same states."""
    layers = trainable_layers(phase.trainable, model.encoder.depth)
    for name, parameter in model.named_parameters():
        learns = not name.startswith("encoder.") or model.encoder.layer_of(name.removeprefix("encoder.")) in layers
        parameter.requires_grad_(learns and name in model.trainable)
    model.train()
    if frozen_dropout:
        return
    if 0 not in layers:
        model.encoder.disable_embedding_dropout()
    for module in model.encoder.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()
