"""When what is trained: the phases of a run, each with its sampler, rate, trainable parts and combination of losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from torch import nn

from manyheads.config.recipe import Recipe
from manyheads.config.training import PhaseSettings, Shape, trainable_layers
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.parts.regularisers import Regulariser, build_regularisers
from manyheads.parts.samplers import Batch, Sampler, SamplerInput
from manyheads.parts.scalarizers import Scalarizer
from manyheads.seeding import seed_for
from manyheads.training.gradients.combination import Combination, build_combination
from manyheads.training.optim import rate_factor


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
    whole: int  # steps if training.max_steps did not cut them

    @property
    def steps(self) -> int:
        return self.phases[-1].end

    @property
    def memory(self) -> nn.ModuleDict:
        """What combinations and regularisers learn and remember: each once, by the number of its first phase."""
        found: dict[int, tuple[str, nn.Module]] = {}
        for number, phase in enumerate(self.phases, 1):
            found.setdefault(id(phase.combination), (f"combine-{number}", phase.combination))
            found.setdefault(id(phase.regularisers), (f"regularise-{number}", nn.ModuleList(phase.regularisers)))
        return nn.ModuleDict(dict(found.values()))

    def begin(self, phase: Phase, model: ManyHeads) -> None:
        """Let the phase's regularisers look at the model, unless they go on from an earlier phase."""
        earlier = self.phases[: self.phases.index(phase)]
        if not any(one.regularisers is phase.regularisers for one in earlier):
            for one in phase.regularisers:
                one.begin(model)

    @property
    def scalarizers(self) -> list[Scalarizer]:
        return list(dict.fromkeys(phase.combination.scalarizer for phase in self.phases))

    @property
    def epoch_ends(self) -> list[int]:
        return [end for phase in self.phases for end in phase.epoch_ends]

    def phase(self, step: int) -> Phase:
        """The phase of a step; after the last step the last phase."""
        return next((phase for phase in self.phases if step < phase.end), self.phases[-1])

    def epoch(self, step: int) -> int:
        """The epoch of a step, counted from 0 within its phase."""
        phase = self.phase(step)
        return next((number for number, end in enumerate(phase.epoch_ends) if step < end), len(phase.epoch_ends) - 1)

    def change_at(self, step: int) -> dict[str, str | float]:
        """What is new at a step that starts an epoch: its phase, and what the sampler changes; else nothing."""
        phase = self.phase(step)
        starts = step == phase.first or step in phase.epoch_ends
        return {"phase": phase.name, **phase.sampler.state(self.epoch(step))} if starts else {}

    def rounds(self, step: int) -> list[list[Batch]]:
        """The rounds of a step, as the sampler draws them."""
        phase = self.phase(step)
        first = (step - phase.first) * self.accumulate
        return [phase.sampler.round(index) for index in range(first, min(first + self.accumulate, phase.rounds))]


def plan_schedule(recipe: Recipe, sampler_input: SamplerInput) -> Schedule:
    """The phases of a recipe over the data that there is; a recipe without phases is one."""
    training = recipe.training
    phases: list[Phase] = []
    first = whole = 0
    names = list(recipe.tasks)
    common = build_combination(recipe.combine, names)  # goes on from phase to phase
    regularisers = build_regularisers(recipe.regularise, names)  # so do they
    for number, settings in enumerate(recipe.phases or [PhaseSettings()]):
        location = ("phases", number, "sampler") if settings.sampler is not None else ("sampler",)
        chosen = settings.tasks or list(sampler_input.sizes)
        own = SamplerInput(
            sizes={task: size for task, size in sampler_input.sizes.items() if task in chosen},
            batch_sizes=sampler_input.batch_sizes,
            seed=seed_for(sampler_input.seed, "phase", number) if number else sampler_input.seed,
            epochs=settings.epochs or training.epochs,
            rows=sampler_input.rows,
        )
        build = partial((settings.sampler or recipe.sampler).build, "samplers")
        try:
            sampler: Sampler = build(own)
            # steps alone say how long the phase is: as many epochs as it takes
            while not settings.epochs and (have := _steps(sampler, training.accumulate)[-1]) < (settings.steps or 0):
                more = (settings.steps - have) * own.epochs // have if settings.steps else 0
                own = replace(own, epochs=own.epochs + max(1, more))
                sampler = build(own)
        except ValueError as fault:
            where = f" (phase {number + 1} trains {', '.join(own.sizes)})" if recipe.phases else ""
            raise UserError(f"{recipe.location(*location)}: {fault}{where}.") from None
        ends = [first + end for end in _steps(sampler, training.accumulate)]
        last = min(ends[-1], first + settings.steps) if settings.steps else ends[-1]
        whole += last - first
        if training.max_steps is not None:
            last = min(last, training.max_steps)
        if last == first:
            continue  # training.max_steps ends the run before this phase
        ends = sorted({*(end for end in ends if end < last), last})
        phases.append(
            Phase(
                name=settings.name or str(number + 1),
                settings=settings,
                sampler=sampler,
                combination=build_combination(settings.combine, names) if settings.combine else common,
                regularisers=(
                    regularisers if settings.regularise is None else build_regularisers(settings.regularise, names)
                ),
                first=first,
                epoch_ends=tuple(ends),
                peak=settings.learning_rate or training.learning_rate,
                warmup=training.warmup if settings.warmup is None else settings.warmup,
                shape=settings.schedule or training.schedule,
                trainable=training.trainable if settings.trainable is None else settings.trainable,
            )
        )
        first = last
    return Schedule(tuple(phases), training.accumulate, whole)


def _steps(sampler: Sampler, rounds_per_step: int) -> list[int]:
    """After how many steps each epoch is over."""
    return [-(-rounds // rounds_per_step) for rounds in accumulate(sampler.epochs)]


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
        if parameters and not any(one.requires_grad for one in parameters):
            module.eval()
