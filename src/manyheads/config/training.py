"""The recipe's sections about training: the loop, its phases, how tasks are combined, evaluation, checkpoints."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from manyheads import registry
from manyheads.config.part import (
    OptionalAggregatorConfig,
    OptionalSamplerConfig,
    PartConfig,
    RegulariserConfig,
    ScalarizerConfig,
)
from manyheads.errors import nearest
from manyheads.registry import Share, TaskName

Layer = Annotated[int, Field(ge=0)]  # of the encoder, from 1; 0 is the embeddings


def _no_path(value: str) -> str:
    if not value or value in (".", "..") or any(letter in value for letter in "/\\\0"):
        raise ValueError(f"'{value}' cannot be a file's or folder's name")
    return value


Average = Literal["step", "batch", "examples"]
LossScale = Literal["raw", "constant"]
FileName = Annotated[str, AfterValidator(_no_path)]


class Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        coerce_numbers_to_str=True,  # a run or a column may be called 3
    )


class CombineSettings(Model):
    """How the tasks' losses and gradients become one step. A plain name is that of a scalarizer or an aggregator."""

    losses: ScalarizerConfig = PartConfig(name="sum")
    """The scalarizer: how the tasks' losses are weighted."""
    gradients: OptionalAggregatorConfig = None
    """The aggregator: what becomes of task gradients that disagree; null adds them up."""
    layers: list[Layer] | None = Field(None, min_length=1)
    """Encoder layers on which the aggregator acts (0 is the embeddings); by default on all that tasks share."""
    loss_scale: LossScale = "constant"
    """What a task's loss is divided by, before weights act on it: nothing ('raw'), or its value for the best 'constant'
    prediction, so that 1 means "knows the base rate only" for every task. The log keeps raw losses."""
    copies: Literal["float32", "bf16"] = "float32"
    """What the aggregator keeps task gradients in, one copy per task: bf16 takes half the memory."""
    average: Average | None = None
    """What a task's loss is: the mean over its examples of the 'step', so that tasks weigh alike; their sum divided by
    all 'examples' of the step, so that tasks weigh as the sampler's shares; or the mean over rounds of each 'batch'
    mean, so that a task in 4 of 4 rounds (training.accumulate) weighs 4 times one in 1. By default what the sampler
    needs: 'examples' for 'mixture', 'step' for all others."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """`combine: pcgrad`, `combine: {name: uncertainty, learning_rate: 0.01}` → which of the two it is."""
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, dict):
            raise ValueError(f"expected a name, or a mapping with 'losses' and 'gradients', found {value!r}")
        if "name" not in value:
            return value
        fields = {key: setting for key, setting in value.items() if key in cls.model_fields}
        named = {key: setting for key, setting in value.items() if key not in cls.model_fields}
        families = {"losses": "scalarizers", "gradients": "aggregators"}
        key_of = {}
        for key, family in families.items():
            for part in registry.parts(family):
                key_of[part.name] = key
        if named["name"] not in key_of:
            raise ValueError(
                f"unknown scalarizer or aggregator '{named['name']}'.{nearest(str(named['name']), key_of)}"
            )
        key = key_of[named["name"]]
        if key in fields:
            raise ValueError(f"'{named['name']}' stands for '{key}', which is given as well; name one of them")
        return {**fields, key: named}


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


Regularisers = Annotated[list[RegulariserConfig], BeforeValidator(_one_or_more)]


class LayerFactors(Model):
    """A factor for some layers of the encoder, and one for the others (paper A, selective rates)."""

    layers: list[Layer] = Field(min_length=1)
    """The chosen layers."""
    chosen: float = Field(1.0, ge=0)
    """The factor of the chosen layers."""
    others: float = Field(1.0, ge=0)
    """The factor of all other layers; the embeddings (0) are none of them."""

    def of(self, depth: int) -> dict[int, float]:
        """Layer → factor."""
        return dict.fromkeys(range(1, depth + 1), self.others) | dict.fromkeys(self.layers, self.chosen)


def _read_trained(value: Any) -> Any:
    layers = isinstance(value, list) and value and all(type(layer) is int and layer >= 0 for layer in value)
    named = isinstance(value, str) and re.fullmatch(r"all|heads|layers|top-[1-9]\d*", value)
    if value is not None and not layers and not named:
        raise ValueError(
            f"expected 'all', 'heads', 'layers', 'top-N' or a list of layers such as [0, 11], found {value!r}"
        )
    return value


Trainable = Annotated[str | list[Layer], BeforeValidator(_read_trained)]
Shape = Literal["linear", "cosine", "constant"]
Optimizer = Literal["adamw", "adam", "sgd"]
LayerFactorsOn = Literal["gradients", "updates", "own-updates"]


def trainable_layers(trained: str | list[int], depth: int) -> list[int]:
    """The encoder's layers that learn; 0 is the embeddings."""
    if isinstance(trained, list):
        return trained
    named = {"all": range(depth + 1), "heads": range(0), "layers": range(1, depth + 1)}
    if trained in named:
        return list(named[trained])
    return list(range(max(1, depth + 1 - int(trained.removeprefix("top-"))), depth + 1))


class Budget(Model):
    """How much is trained in all: exactly one of these."""

    passes: float | None = Field(None, gt=0)
    """So many times the examples of all tasks; the sampler deals them out."""
    examples: int | None = Field(None, ge=1)
    """So many examples of all tasks."""
    steps: int | None = Field(None, ge=1)
    """So many optimizer steps."""
    minutes: float | None = Field(None, gt=0)
    """About so long, evaluations included: measured before the first step and written into the run's recipe as
    examples. Not in studies, whose rows must train alike on every machine."""

    @model_validator(mode="after")
    def _one_measure(self) -> Budget:
        if sum(value is not None for value in (self.passes, self.examples, self.steps, self.minutes)) != 1:
            raise ValueError("expected exactly one of 'passes', 'examples', 'steps', 'minutes'")
        return self


class Training(Model):
    """The loop and the optimizer."""

    budget: Budget | None = Budget(passes=3)
    """How much is trained in all: passes, examples, steps or minutes. `epochs` and `phases` take its place."""
    epochs: int | None = Field(None, ge=1)
    """In place of a budget, epochs of the sampler, which says what one is; in phases 3 unless they say otherwise."""
    max_steps: int | None = Field(None, ge=1)
    """Stop after so many optimizer steps."""
    batch_size: int = Field(32, ge=1)
    """Examples per batch: of each task, or of all tasks together where the sampler mixes them in a round."""
    accumulate: int = Field(1, ge=1)
    """Rounds per optimizer step."""
    optimizer: Optimizer = "adamw"
    """'adamw' has decoupled weight decay; 'adam' adds the decay to the gradient; 'sgd' has no moments of gradients, and
    needs a learning rate of another size."""
    momentum: Share = 0.0
    """Momentum of 'sgd'."""
    learning_rate: float = Field(1e-4, gt=0)
    """Peak learning rate."""
    schedule: Shape = "linear"
    """How the rate goes on after the warm-up: to 0 in a line or a half cosine wave, or 'constant'."""
    warmup: float = Field(0.1, ge=0, le=1)
    """Share of the steps in which the rate rises from 0 to its peak."""
    head_learning_rate: float | None = Field(1e-3, gt=0)
    """Peak learning rate of the heads; null is learning_rate."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """What each layer's rate is of that of the layer above it; the topmost has learning_rate."""
    layer_learning_rates: LayerFactors | None = None
    """Factors on the rates of some layers, and of the others."""
    layer_factors_on: LayerFactorsOn = "gradients"
    """What tasks' layer_factors multiply: their 'gradients', before the optimizer; each task's part of AdamW's
    'updates', which makes them rates; or 'own-updates', with an AdamW for every task."""
    trainable: Trainable = "all"
    """What learns besides the heads: 'all' of the encoder, nothing ('heads'), all but the embeddings ('layers'), the
    topmost N layers ('top-N'), or a list of layers (0 is the embeddings)."""
    active_tasks: list[TaskName] | None = Field(None, min_length=1)
    """Leave out the batches of all other tasks, which are then not evaluated either: what these tasks learn from the
    same batches without the others. By default none is left out."""
    frozen_dropout: bool = False
    """Whether layers that do not learn still have dropout, as in the papers; their outputs then cannot be kept."""
    frozen_gigabytes: float = Field(4.0, ge=0)
    """Room for outputs of frozen layers, which are then computed once; 0 computes them every time."""
    weight_decay: float = Field(0.01, ge=0)
    """Decay, not applied to biases and norms; how it is done the optimizer says."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Adam's decay rates of the two moments."""
    epsilon: float = Field(1e-6, gt=0)
    """Adam's guard of the division."""
    max_grad_norm: float | None = Field(1.0, gt=0)
    """Largest norm of the gradient; null switches clipping off."""
    precision: Literal["float32", "bf16"] = "float32"
    """Arithmetic of the forward pass, through accelerate."""
    device: Literal["auto", "cpu"] = "auto"
    """'auto' takes what accelerate finds."""
    processes: int | None = Field(None, ge=1)
    """Refuse to start unless so many processes came up (under torchrun); null takes what there is."""
    tokens_per_pass: int = Field(8192, ge=1)
    """A round of more tokens goes through the encoder in several passes: bounds memory, and gives the same gradient
    but for other dropout masks."""
    average_weights: float | None = Field(None, gt=0, lt=1)
    """Decay of a moving average of the weights, such as 0.999. It is evaluated beside the raw weights: best/ is the
    better of the two, best-averaged/ the best of the averaged ones. null averages nothing."""
    probe: bool = True
    """Before the first step, solve every head on the frozen encoder's features, and measure the baseline: a linear
    model on them. The start is then a candidate for best/."""
    probe_tokens: int = Field(200_000, ge=1)
    """How many tokens of each task's train data the probe reads at most: 20,000 questions of ten tokens, or 8,000 pairs
    of sentences; half as many where a head reads other features than the baseline. A budget in minutes lowers it."""
    patience: int | None = Field(None, ge=1)
    """Stop after so many evaluations without a better overall score."""
    conflicts: float = Field(0.02, ge=0, le=1)
    """Share of the training's work that may be spent on measuring how far the tasks' gradients agree; 0 never does."""

    @model_validator(mode="after")
    def _epochs_or_budget(self) -> Training:
        if self.epochs is None:
            return self
        if "budget" in self.model_fields_set and self.budget is not None:
            raise ValueError("'epochs' and 'budget' both say how long the training is; name one of them")
        self.__dict__["budget"] = None  # past `model_fields_set`: the recipe did not say it
        return self


class PhaseSettings(Model):
    """A stretch of training with settings of its own; what it leaves out is as in the rest of the recipe."""

    name: str | None = None
    """For the log; by default its number."""
    epochs: int | None = Field(None, ge=1)
    """Its length; by default training.epochs."""
    steps: int | None = Field(None, ge=1)
    """Its length in optimizer steps, where the epochs have more."""
    tasks: list[TaskName] | None = Field(None, min_length=1)
    """The tasks it trains; by default all. All are evaluated."""
    trainable: Trainable | None = None
    """By default training.trainable."""
    sampler: OptionalSamplerConfig = None
    """By default the recipe's sampler."""
    regularise: Regularisers | None = None
    """In place of the recipe's regularisers; by default those go on."""
    combine: CombineSettings | None = None
    """In place of the recipe's combine, as a whole; by default that goes on, with what it has learnt."""
    learning_rate: float | None = Field(None, gt=0)
    """By default training.learning_rate."""
    warmup: float | None = Field(None, ge=0, le=1)
    """Share of the phase's steps; by default training.warmup."""
    schedule: Shape | None = None
    """By default training.schedule."""


class PretrainSettings(Model):
    """Further pre-training by `manyheads pretrain`: the encoder predicts masked tokens."""

    epochs: int = Field(1, ge=1)
    """Passes over the texts."""
    max_steps: int | None = Field(None, ge=1)
    """Stop after so many optimizer steps."""
    batch_size: int = Field(32, ge=1)
    """Texts per step."""
    learning_rate: float = Field(5e-5, gt=0)
    """Peak learning rate; it then falls linearly to 0."""
    warmup: float = Field(0.06, ge=0, le=1)
    """Share of the steps in which the rate rises."""
    share: float = Field(0.15, gt=0, lt=1)
    """Share of a text's tokens that are hidden, at least one."""
    whole_words: bool = False
    """Mask all pieces of a word, or none."""
    tasks: list[TaskName] | None = Field(None, min_length=1)
    """Whose train texts are used; by default all tasks'."""
    files: Annotated[list[str], BeforeValidator(_one_or_more)] = []
    """Text files, a text per line, in place of the tasks' texts; relative to data.root."""


class EvaluateSettings(Model):
    """When and on what the model is evaluated."""

    every_steps: int | None = Field(None, ge=1)
    """Also evaluate so often within an epoch; null evaluates at the end of every epoch only."""
    after: Literal["epoch", "task"] = "epoch"
    """Evaluate after every epoch, or also within it whenever the pass over a 'task' is over, where the sampler takes
    one task after the other."""
    max_examples: int | None = Field(2000, ge=1)
    """Per task, a fixed random part of dev used while training; the end uses all of it."""
    train_examples: int | None = Field(None, ge=1)
    """Per task, a fixed random part of train that is measured at every evaluation too, without dropout: where train and
    dev part, the model over-fits; null measures dev only."""
    before: bool = False
    """Also evaluate before the first step."""
    select: Annotated[float, Field(gt=0, lt=1)] | Literal["auto"] | None = "auto"
    """Share of train held out to choose best/ by, and when to pause or stop, so that dev is looked at only once, at the
    end; rows of equal texts stay together. 'auto' is 5 %, but at least 100 rows, of which a small task gives at most a
    tenth of its own, and one of fewer than 100 none: its dev chooses. null chooses on dev."""
    calibrate: bool = True
    """Fit a temperature of each task with one right class, and a threshold of each class where several may be right, to
    the examples on which best/ is chosen; they are saved with the model, and every prediction uses them."""
    overall: Literal["arithmetic", "geometric"] = "arithmetic"
    """The mean of the tasks' primary metrics by which best/ is chosen."""
    weights: dict[TaskName, Annotated[float, Field(ge=0)]] = {}
    """How much a task counts in the overall score; 1 where it is not named."""
    tokens_per_pass: int = Field(4096, ge=1)
    """Tokens that go through the encoder at once."""


class CheckpointSettings(Model):
    """What is kept to resume from."""

    every_steps: int | None = Field(500, ge=1)
    """Save so often, and at the end of every epoch; null saves at epochs only."""
    best_per_task: bool = True
    """Keep best-TASK/ beside best/."""
    keep: int = Field(2, ge=2)
    """How many of the last checkpoints stay; `manyheads average RUN --checkpoints` averages them."""
