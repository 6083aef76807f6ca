"""The recipe's sections about tasks: which data goes in, which label comes out, through which parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from manyheads import registry
from manyheads.config.label_text import normalise
from manyheads.config.part import (
    EncodingConfig,
    HeadConfig,
    LossConfig,
    MetricConfig,
    OutputConfig,
    PoolingConfig,
)
from manyheads.config.training import LayerFactors, Model


def _known_kind(name: str) -> str:
    return registry.find("kinds", name).name


KindName = Annotated[str, AfterValidator(_known_kind)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_name(value: Any) -> Any:
    """Columns of CoNLL files go by number too, which YAML reads as one."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _different_names(names: list[str]) -> list[str]:
    if not all(name.strip() for name in names) or len(set(names)) < len(names):
        raise ValueError("expected the file's columns in order, each with a name of its own")
    return names


ColumnNames = Annotated[list[str], Field(min_length=1), BeforeValidator(_as_list), AfterValidator(_different_names)]
FileFormat = Literal["csv", "tsv", "jsonl", "parquet", "txt", "trees", "conll"]
Quoting = Literal["csv", "none"]
SOURCE_KEYS = ("train", "dev", "test", "unlabelled")  # a task's keys that name data
LAYOUT_KEYS = ("columns", "format", "quoting")  # how a file is read; a task says it for all its files
LeftOutSplit = Literal["dev", "test"]
TREE_KEYS = ("phrases", "escapes")  # how trees are read
TRAIN_KEYS = ("weight", "limit", "leave_out")  # which rows are trained on, and how often


class Source(Model):
    """Where rows come from: exactly one of file, hub, demo. A plain string is a file, 'hub:NAME' or 'demo:TASK'."""

    file: str | None = None
    """csv, tsv, jsonl, parquet, txt, trees or conll, each optionally .gz, relative to data.root. 'x.csv' also finds
    'x.csv.gz'."""
    columns: ColumnNames | None = None
    """The columns' names in a file without a header, whose first line is then a row; by default the task's."""
    format: FileFormat | None = None
    """What the file is, where its ending does not say; by default the task's, else by the ending."""
    quoting: Quoting | None = None
    """'none': a quote mark is a letter and each line a row, as in GLUE's tsv; by default the task's, else 'csv'."""
    phrases: bool = False
    """Of trees every phrase is a row, with its own label; else whole sentences are."""
    escapes: Literal["undo", "keep"] = "undo"
    """Of trees: whether -LRB- becomes a bracket and \\/ a slash, or both stay as the file has them."""
    weight: float = Field(1.0, gt=0, le=100)
    """How often a pass over train visits each of these rows: 0.5 every other time, 2 twice."""
    limit: int | None = Field(None, ge=1)
    """Train on at most so many of these rows, a random part that is the same for every seed."""
    leave_out: list[LeftOutSplit] | None = None
    """These rows are extra: nothing is held out of them, and those whose text is in these splits are left out, case and
    spaces aside. By default [dev, test] for phrases, nothing else."""
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
        if self.file is None and self.layout:
            raise ValueError(f"only files have {', '.join(self.layout)}")
        if self.file is None and self.changed(TREE_KEYS):
            raise ValueError(f"only trees in files have {', '.join(self.changed(TREE_KEYS))}")
        return self

    @property
    def layout(self) -> dict[str, Any]:
        """What is said of how the file is read."""
        return {key: getattr(self, key) for key in LAYOUT_KEYS if getattr(self, key) is not None}

    def changed(self, keys: Iterable[str]) -> dict[str, Any]:
        """Those of the keys that do not stand at their defaults."""
        return {key: getattr(self, key) for key in keys if getattr(self, key) != type(self).model_fields[key].default}

    @property
    def left_out_splits(self) -> list[LeftOutSplit]:
        """The splits whose texts are left out of these rows; none unless they are extra."""
        if self.leave_out is None and self.phrases:
            return ["dev", "test"]
        return self.leave_out or []


def source_mapping(short: str) -> dict[str, str]:
    """What a source written as one word stands for."""
    kind, colon, rest = short.partition(":")
    return {kind: rest} if colon and kind in ("hub", "demo") else {"file": short}


def _read_sources(value: Any) -> Any:
    if value is None:
        return None
    sources = value if isinstance(value, list) else [value]
    return [source_mapping(source) if isinstance(source, str) else source for source in sources]


Sources = Annotated[list[Source], Field(min_length=1), BeforeValidator(_read_sources)]


class PredictionFile(Model):
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


class Fold(Model):
    """One of several parts of train, of about the same size; rows with equal texts are in one of them."""

    number: int = Field(ge=1)
    """Which one."""
    of: int = Field(ge=2)
    """How many there are."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Fold:
        if self.number > self.of:
            raise ValueError(f"there are {self.of} folds, found number {self.number}")
        return self


class TaskSettings(Model):
    """One task: which columns go in, which label comes out, and through which parts."""

    train: Sources
    """Training data: a file, 'hub:NAME', 'demo:TASK', a mapping, or a list of these."""
    dev: Sources | None = None
    """Data to evaluate on; by default a share of train."""
    test: Sources | None = None
    """Data to predict at the end. Where it has labels, best/ is measured on them, once, when all else is decided."""
    unlabelled: Sources | None = None
    """Texts without labels, trained on as the task's `teachers` predict them; a label column, if there is one, is not
    read. They count as examples of the task."""
    columns: ColumnNames | None = None
    """The columns' names in files without a header, for all the task's files; a source may say otherwise."""
    format: FileFormat | None = None
    """What all the task's files are, where their endings do not say; a source may say otherwise."""
    quoting: Quoting | None = None
    """'none': a quote mark is a letter and each line a row, in all the task's files; a source may say otherwise."""
    text: list[str] | None = Field(None, min_length=1, max_length=2)
    """The text column, or the two of a pair; by default recognised by name."""
    candidates: ColumnNames | None = None
    """Of multiple choice: the column with a row's list of candidates, or a column for each; by default a column of
    lists that is called choices, candidates or options. `text` is then the question, or a context and the question."""
    label: str | list[str] | None = None
    """The label column, or several with a yes or no for each class; by default recognised by name."""
    negatives: list[str] | None = None
    """Of a similarity search the columns of wrong answers, a text each or a list; by default `negative`, `negatives`,
    `negative_1` and so on."""
    id: str | None = None
    """The column that identifies a row in prediction files; by default 'id' if there is one, else the row's number."""
    kind: KindName | None = None
    """By default seen from the labels: numbers with fractions are regression, lists multi-label, all else
    classification; tags and multiple choice are seen from the columns. Ordinal is a classification whose classes are in
    order."""
    labels: list[str] | dict[str, str] | None = None
    """The classes in order, or a map from the file's values to class names; by default those found in train."""
    range: tuple[float, float] | None = None
    """Smallest and largest label of a regression; a label outside is a bad row."""
    separator: str | None = Field(None, min_length=1)
    """What stands between the classes in a cell of a multi-label task; by default '|', ';' or ',', as seen in train."""
    scheme: Literal["BIO", "IOB1", "BIOES", "plain"] | None = None
    """How files write the tags of words; by default as train's look. Entities are learnt as BIO whatever it is; plain
    tags, such as parts of speech, as they are."""
    words: Literal["spaces", "edges", "letters"] | None = None
    """How a plain text is cut into words that are tagged: at spaces; the same with punctuation cut off at the edges; or
    runs of letters. By default letters where train has spans of characters, else edges. Lists of words stay as they
    are."""
    scale: Literal["standard", "unit", "raw"] = "standard"
    """What a regression's loss sees: labels with mean 0 and deviation 1, or 0 to 1, or as they are. Predictions are
    always in the labels' own units."""
    encoding: EncodingConfig = None
    """How one or two sentences become input; by default 'single' or 'cross'."""
    pooling: PoolingConfig = None
    """How token states become one vector; by default as the encoder was trained, 'mean' for cosine encodings."""
    head: HeadConfig = None
    """How the vector becomes outputs; by default 'linear', 'none' for cosine encodings."""
    output: OutputConfig = None
    """What becomes of a regression's outputs: by default they stay 'raw'."""
    loss: LossConfig = None
    """By default cross-entropy, binary-cross-entropy for two classes and multi-label tasks, mse for regression."""
    symmetric: bool = False
    """The two texts of a pair have no order: training draws one for every visit, by seed and step."""
    both_orders: bool = False
    """A symmetric task predicts both orders of a pair and averages them, at up to twice the cost."""
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
    without_fold: Fold | None = None
    """Train without one fold of train: so a model is trained that can predict those rows as it would new ones."""
    row_group: str | None = None
    """The name under which the rows of train are drawn and held out. By default the tasks that read the same rows,
    'coarse+fine', also where `tasks=[fine]` leaves some of them out: so a task alone has the splits that it has beside
    them."""
    layer_factors: LayerFactors | None = None
    """Factors on what this task sends to the encoder's layers, by default 1 everywhere; what they multiply
    training.layer_factors_on says."""
    patience: int | None = Field(None, ge=1)
    """The task is paused after so many evaluations without a better primary metric."""
    resume_margin: float | None = Field(0.01, ge=0)
    """A paused task resumes when its primary metric is behind its best by more than this; null never."""
    bad_rows: Literal["error", "skip"] | None = None
    """By default data.bad_rows."""
    predictions: PredictionFile = PredictionFile()
    """How prediction files look."""

    def sources(self, split: str) -> list[Source]:
        """A split's sources. How a file is read the task says where the source does not."""
        sources: list[Source] = []
        for source in getattr(self, split) or []:
            if source.file is not None:
                task_layout = {key: getattr(self, key) for key in LAYOUT_KEYS}
                source = source.model_copy(update={**task_layout, **source.layout})
            sources.append(source)
        return sources

    @field_validator("dev", "test", "unlabelled")
    @classmethod
    def _not_trained_on(cls, value: list[Source] | None) -> list[Source] | None:
        for source in value or []:
            keys = ", ".join(source.changed(TRAIN_KEYS))
            if keys:
                raise ValueError(f"{keys}: only for sources of train")
        return value

    @field_validator("text", mode="before")
    @classmethod
    def _one_or_two(cls, value: Any) -> Any:
        value = _as_name(value)
        return [value] if isinstance(value, str) else value

    @field_validator("negatives", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        return _as_list(value)

    @field_validator("label", mode="before")
    @classmethod
    def _name_or_number(cls, value: Any) -> Any:
        return _as_name(value)

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
            return [normalise(name) for name in value]
        if isinstance(value, dict):
            return {normalise(key): normalise(name) for key, name in value.items()}
        if value is not None:
            raise ValueError(f"expected a list of classes, or a map from the file's values to classes, found {value!r}")
        return value

    @field_validator("range")
    @classmethod
    def _smallest_first(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"expected the smallest label, then the largest, found {list(value)}")
        return value
