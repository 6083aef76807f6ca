"""The study file: everything about a comparison, as one typed model. Each key's sentence stands beneath it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from manyheads.config.location import SourceLocations
from manyheads.config.training import FileName, Layer, Model
from manyheads.errors import UserError, nearest

Overrides = dict[str, Any]  # as on the command line: {'training.epochs': 1}
SEED_IS_SET = "a study sets the seed of every run itself; `seeds: [5, 6]` says which."
SCALES = ("smoke", "small", "full")  # of the shipped studies
BY_TASK = "by_task"  # in a row with a run for every task: {by_task: {sst: 3, sts: 4}}
Margin = Annotated[float, Field(gt=0, lt=1)]


def stacked(*layers: Overrides) -> Overrides:
    """Each layer over those before it: a key that is given again counts where it comes last.

    So a row's `tasks.*.pooling` replaces the study's `tasks.sst.pooling`, though the study has a `tasks.*.pooling` too.
    """
    settings: Overrides = {}
    for layer in layers:
        for key, value in layer.items():
            settings.pop(key, None)
            settings[key] = value
    return settings


def axis_keys(axis: str) -> list[str]:
    """'encoder.dropout, encoder.attention_dropout' → the keys that take the axis' values together."""
    return [key.strip() for key in axis.split(",")]


def names_ranked_layers(value: Any) -> bool:
    """Whether a setting's value is to be read as `RankedLayers`."""
    return isinstance(value, dict) and "layers_from" in value


def names_value_by_task(value: Any) -> bool:
    """Whether a setting's value is one for each task: {by_task: {TASK: VALUE}}."""
    return isinstance(value, dict) and list(value) == [BY_TASK] and isinstance(value[BY_TASK], dict)


def check_seeds(value: Any) -> Any:
    """How many there are, or which: whole numbers from 0 on, none of them twice."""
    if type(value) is int and value > 0:
        return value
    if isinstance(value, list) and all(type(seed) is int and seed >= 0 for seed in value):
        different = len(set(value)) == len(value)
        if value and different:
            return value
    raise ValueError(f"expected a number of seeds, or a list of different ones, found {value!r}")


class Variant(Model):
    """A row of the table, or several: what it changes in the base recipe."""

    set: Overrides = {}
    """Settings that replace the base's, by dotted key; they may also stand beside `each` and `grid`, without `set`."""
    each: list[Literal["task", "layer"]] = []
    """'layer' makes a row for every layer of the encoder, 'task' a run for every task within the row. Values may say
    '{layer}', '{task}', and '{last}': all tasks in order, with this one last; or be {by_task: {TASK: VALUE}}."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Dotted key → values: a row for every combination. Several keys with commas between them take a value together;
    the row is named after the first."""
    seeds: int | None = Field(None, ge=1)
    """Fewer seeds than the study's, from its first on; a row of one seed is shown and not compared."""
    taught_by: str | None = None
    """A row with a run for every task, whose runs are the teachers of this one's."""

    @property
    def keys(self) -> list[str]:
        """Every key that a row of the variant sets."""
        keys = list(self.set)
        for axis in self.grid:
            keys += axis_keys(axis)
        return keys

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """`{training.epochs: 1, each: task}` → what is set, and what is generated."""
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise ValueError(f"expected settings by dotted key, such as {{training.epochs: 1}}, found {value!r}")
        generating: dict[str, Any] = {}
        plain: Overrides = {}
        for key, content in value.items():
            if key in ("each", "grid", "seeds", "taught_by"):
                generating[key] = content
            else:
                plain[str(key)] = content
        if isinstance(generating.get("each"), str):
            generating["each"] = [generating["each"]]
        settings = plain.pop("set", {})
        if not isinstance(settings, dict):
            raise ValueError(
                f"set: expected settings by dotted key, such as {{training.epochs: 1}}, found {settings!r}"
            )
        return {"set": {**settings, **plain}, **generating}


class RankedLayers(Model):
    """In `set`, the value of a key that lists layers: the layers that do best alone, as another study found."""

    layers_from: str
    """The study whose runs train one layer each, such as papers/a5-layers; it is read at the same scale."""
    task: list[str] = Field(min_length=1)
    """By whose primary metric layers are ranked; of several tasks, the best layers of each together."""
    top: int = Field(ge=1)
    """How many layers of each task."""
    otherwise: list[Layer] = Field(min_length=1)
    """The layers as long as that study is not finished in the same folder."""

    @field_validator("task", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [value]
        return value


class Scale(Model):
    """A size at which a study can be run."""

    base: str | None = None
    """Another base recipe."""
    seeds: int | list[int] | None = None
    """Other seeds."""
    set: Overrides = {}
    """Settings that replace the base's, before those of a variant."""
    variants: dict[str, Overrides] = {}
    """Settings of single variants at this scale alone, over those that the variant has anyway."""
    leave_out: list[str] = []
    """Variants that this scale does without."""

    @field_validator("seeds", mode="before")
    @classmethod
    def _check_seeds(cls, value: Any) -> Any:
        if value is None:
            return None
        return check_seeds(value)


class NotWorse(Model):
    """A row that the others should be no worse than, and by how much they may be."""

    than: str
    """The row that the others are held against, such as one with a run for every task."""
    margin: Margin
    """How far the mean of the tasks' primary metrics, as they are, may lie below that row's: the non-inferiority
    margin."""
    tasks: dict[str, Margin] = {}
    """The same of single tasks' primary metrics."""


class Study(Model):
    """A comparison. `base` and `variants` are all that must be given."""

    name: FileName = "study"
    """Name of the study; by default its file's name."""
    question: str = ""
    """What it asks, in a sentence."""
    paper: str = ""
    """The paper whose table it regenerates."""
    covers: list[str] = []
    """Which tables and figures of the paper, such as T8 and F1; the study's page links what shows them."""
    base: str
    """The recipe that all variants start from: a file, or a shipped recipe's name. '{scale}' stands for the scale."""
    set: Overrides = {}
    """Settings for all variants, by dotted key. A list of layers may come from another study's results:
    {layers_from: STUDY, task: TASK, top: N, otherwise: [LAYERS]}."""
    variants: dict[str, Variant] = Field(min_length=1)
    """The rows of the table by name."""
    seeds: int | list[int] = 3
    """How many seeds, from 0 on, or which."""
    to: str | None = None
    """The row that the others are compared with; by default the first."""
    not_worse: NotWorse | None = None
    """Is a row as good as another, within a margin that is named before training?"""
    metrics: list[str] | None = Field(None, min_length=1)
    """The table's columns: 'TASK' is a task's primary metric, 'TASK.METRIC' another, 'overall' the overall score; and
    'TASK.best', 'TASK.best_epoch', 'TASK.train', 'TASK.test' (see Columns). By default every task and overall."""
    layout: Literal["rows", "confusion"] = "rows"
    """'rows': a row per variant, with differences. 'confusion': each variant's confusion matrix, of the first metric's
    task."""
    baselines: Literal["single-task"] | None = None
    """'single-task' also trains every task, and every pair of tasks, apart from the others: the transfer matrix."""
    equal: list[Literal["examples", "steps"]] = Field(["examples"], min_length=1)
    """What baselines have in common with the row they are compared with: the very batches that a task gets there
    ('examples'), the number of optimizer steps ('steps'), or first one and then the other (a list)."""
    published: dict[str, dict[str, float] | list[list[int]]] = {}
    """Figures that the paper prints, by row and column; for 'confusion' rows of counts."""
    notes: list[str] = []
    """What a reader of the table should know: misprints, what differs from the paper."""
    scales: dict[str, Scale] = {}
    """What differs at a scale (smoke, small, full, or any name)."""

    _origin: SourceLocations = PrivateAttr(default_factory=SourceLocations)
    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    _has_all_variants: bool = PrivateAttr(default=True)  # False at a scale that leaves some out
    _scale: str = PrivateAttr(default="")  # at which it is opened
    _ranked: dict[str, RankedLayers] = PrivateAttr(default_factory=dict)  # key of `set` → where its layers come from

    @field_validator("variants", "published", mode="before")
    @classmethod
    def _names_as_words(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {str(name): content for name, content in value.items()}

    @field_validator("published", mode="before")
    @classmethod
    def _figures(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for row, figures in value.items():
                _check_figures(row, figures)
        return value

    @field_validator("seeds", mode="before")
    @classmethod
    def _check_seeds(cls, value: Any) -> Any:
        return check_seeds(value)

    @field_validator("equal", mode="before")
    @classmethod
    def _one_or_both(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [value]
        return value

    @model_validator(mode="after")
    def _equal_to_baselines(self) -> Study:
        if "equal" in self.model_fields_set and self.baselines is None:
            raise ValueError(
                "equal: says what baselines have in common, and there are none; add baselines: single-task"
            )
        return self

    @field_validator("metrics", "equal")
    @classmethod
    def _nothing_twice(cls, value: list[str] | None) -> list[str] | None:
        for name in value or []:
            if value is not None and value.count(name) > 1:
                raise ValueError(f"'{name}' is named twice")
        return value

    def at(self, scale: str | None) -> Study:
        """The study at a scale, with nothing left to choose."""
        scale_name = self.choose_scale(scale) or ""
        settings = self.scales.get(scale_name, Scale())
        name, seeds = self.name, self.seeds
        if scale_name:
            name = f"{self.name}-{scale_name}"
        if settings.seeds is not None:
            seeds = settings.seeds
        variants: dict[str, Variant] = {}
        for variant_name, variant in self.variants.items():
            if variant_name not in settings.leave_out:
                row_settings = stacked(variant.set, settings.variants.get(variant_name, {}))
                variants[variant_name] = variant.model_copy(update={"set": row_settings})
        overrides = stacked(self.set, settings.set)
        ranked: dict[str, RankedLayers] = {}
        for key, value in overrides.items():
            if names_ranked_layers(value):
                ranked[key] = RankedLayers.model_validate(value)
                overrides[key] = ranked[key].otherwise
        scaled = self.model_copy(
            update={
                "name": name,
                "base": (settings.base or self.base).replace("{scale}", scale_name),
                "seeds": seeds,
                "set": overrides,
                "variants": variants,
            }
        )
        scaled._origin, scaled._folder = self._origin, self._folder
        scaled._has_all_variants, scaled._scale = len(variants) == len(self.variants), scale_name
        scaled._ranked = ranked
        return scaled

    def choose_scale(self, scale: str | None) -> str | None:
        """The scale that the user names, else 'small' where the study has scales."""
        names = set(self.scales)
        if "{scale}" in self.base:
            names.update(SCALES)
        if scale is None:
            if "small" in names:
                return "small"
            return next(iter(self.scales), None)
        if scale not in names:
            raise UserError(f"{self._origin.file}: no scale '{scale}'.{nearest(scale, names)}", code="unknown-scale")
        return scale

    def location(self, *path: str) -> str:
        """'study.yaml:7: variants.plain': where a key stands in the study's file."""
        return self._origin.location(path)

    def location_of_setting(self, fault: str) -> str:
        """Where the setting for all variants stands that a fault names: in the study, or in its scale."""
        scale_settings = self.scales.get(self._scale, Scale()).set
        for key in self.set:
            if f"{key}:" in fault:
                if key in scale_settings:
                    return self.location("scales", self._scale, "set", key)
                return self.location("set", key)
        return self.location("set")

    @property
    def seed_list(self) -> list[int]:
        if isinstance(self.seeds, int):
            return list(range(self.seeds))
        return self.seeds


def _check_figures(row: str, figures: Any) -> None:
    """Figures by column, or a square of counts."""
    lines = figures
    if isinstance(figures, dict):
        lines = [list(figures.values())]
    if not _holds_numbers(lines):
        raise ValueError(f"{row}: expected figures by column, such as {{sst: .52}}, or rows of counts")
    if isinstance(figures, list) and any(len(line) != len(figures) for line in figures):
        raise ValueError(f"{row}: expected as many counts in every row as there are rows")


def _holds_numbers(lines: Any) -> bool:
    """Whether it is a list of lists of numbers."""
    if not isinstance(lines, list):
        return False
    for line in lines:
        if not isinstance(line, list) or not all(isinstance(figure, int | float) for figure in line):
            return False
    return True
