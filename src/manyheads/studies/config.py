"""The study file: everything about a comparison, as one typed model. Each key's sentence stands beneath it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from manyheads.config.faults import explain_faults
from manyheads.config.load import STUDIES
from manyheads.config.location import SourceLocations
from manyheads.config.training import FileName, Model
from manyheads.config.yaml_file import parse_file
from manyheads.errors import UserError, nearest

Overrides = dict[str, Any]  # as on the command line: {'training.epochs': 1}
SEEDS = "a study sets the seed of every run itself; `seeds: [5, 6]` says which."
SECTIONS = ("data", "tasks", "training", "evaluate", "checkpoint")  # of a recipe
SCALES = ("smoke", "small", "full")  # of the shipped studies


def stacked(*layers: Overrides) -> Overrides:
    """Each layer over those before it: a key that is given again counts where it comes last.

    So a row's `tasks.*.pooling` replaces the study's `tasks.sst.pooling`, though the study has a `tasks.*.pooling` too.
    """
    found: Overrides = {}
    for layer in layers:
        found = {key: value for key, value in found.items() if key not in layer} | layer
    return found


def check_seeds(value: Any) -> Any:
    """How many there are, or which: whole numbers from 0 on, none of them twice."""
    which = isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)
    if not (type(value) is int and value > 0) and not (which and len(set(value)) == len(value) > 0):
        raise ValueError(f"expected a number of seeds, or a list of different ones, found {value!r}")
    return value


class Variant(Model):
    """A row of the table, or several: what it changes in the base recipe."""

    set: Overrides = {}
    """Settings that replace the base's, by dotted key; they may also stand beside `each` and `grid`, without `set`."""
    each: list[Literal["task", "layer"]] = []
    """'layer' makes a row for every layer of the encoder, 'task' a run for every task within the row. Values may say
    '{layer}', '{task}', and '{last}': all tasks in order, with this one last."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Dotted key → values: a row for every combination."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """`{training.epochs: 1, each: task}` → what is set, and what is generated."""
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise ValueError(f"expected settings by dotted key, such as {{training.epochs: 1}}, found {value!r}")
        own = {key: one for key, one in value.items() if key in ("each", "grid")}
        if isinstance(own.get("each"), str):
            own["each"] = [own["each"]]
        plain = {str(key): one for key, one in value.items() if key not in own}
        given = plain.pop("set", {})
        if not isinstance(given, dict):
            raise ValueError(f"set: expected settings by dotted key, such as {{training.epochs: 1}}, found {given!r}")
        return {"set": {**given, **plain}, **own}


class Scale(Model):
    """A size at which a study can be run."""

    base: str | None = None
    """Another base recipe."""
    seeds: int | list[int] | None = None
    """Other seeds."""
    set: Overrides = {}
    """Settings that replace the base's, before those of a variant."""
    leave_out: list[str] = []
    """Variants that this scale does without."""

    @field_validator("seeds", mode="before")
    @classmethod
    def _some_seeds(cls, value: Any) -> Any:
        return value if value is None else check_seeds(value)


class Study(Model):
    """A comparison. `base` and `variants` are all that must be given."""

    name: FileName = "study"
    """Name of the study; by default its file's name."""
    question: str = ""
    """What it asks, in a sentence."""
    paper: str = ""
    """The paper whose table it regenerates."""
    covers: list[str] = []
    """Which tables and figures of the paper, such as T8 and F1."""
    base: str
    """The recipe that all variants start from: a file, or a shipped recipe's name. '{scale}' stands for the scale."""
    set: Overrides = {}
    """Settings for all variants, by dotted key."""
    variants: dict[str, Variant] = Field(min_length=1)
    """The rows of the table by name."""
    seeds: int | list[int] = 3
    """How many seeds, from 0 on, or which."""
    to: str | None = None
    """The row that the others are compared with; by default the first."""
    metrics: list[str] | None = Field(None, min_length=1)
    """The table's columns: 'TASK' is a task's primary metric, 'TASK.METRIC' another, 'overall' the overall score. By
    default every task and overall."""
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
    _whole: bool = PrivateAttr(default=True)  # no variant is left out
    _scale: str = PrivateAttr(default="")  # at which it is opened

    @field_validator("variants", "published", mode="before")
    @classmethod
    def _names_as_words(cls, value: Any) -> Any:
        return {str(name): one for name, one in value.items()} if isinstance(value, dict) else value

    @field_validator("published", mode="before")
    @classmethod
    def _figures(cls, value: Any) -> Any:
        for row, printed in value.items() if isinstance(value, dict) else ():
            rows = [list(printed.values())] if isinstance(printed, dict) else printed
            counts = isinstance(rows, list) and all(isinstance(some, list) for some in rows)
            if not counts or not all(isinstance(one, int | float) for some in rows for one in some):
                raise ValueError(f"{row}: expected figures by column, such as {{sst: .52}}, or rows of counts")
            if isinstance(printed, list) and any(len(some) != len(printed) for some in printed):
                raise ValueError(f"{row}: expected as many counts in every row as there are rows")
        return value

    @field_validator("seeds", mode="before")
    @classmethod
    def _some_seeds(cls, value: Any) -> Any:
        return check_seeds(value)

    @field_validator("equal", mode="before")
    @classmethod
    def _one_or_both(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

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
        twice = next((one for one in value or [] if (value or []).count(one) > 1), None)
        if twice is not None:
            raise ValueError(f"'{twice}' is named twice")
        return value

    def at(self, scale: str | None) -> Study:
        """The study at a scale, with nothing left to choose."""
        chosen = self.choose_scale(scale)
        own = self.scales.get(chosen or "", Scale())
        variants = {name: one for name, one in self.variants.items() if name not in own.leave_out}
        found = self.model_copy(
            update={
                "name": f"{self.name}-{chosen}" if chosen else self.name,
                "base": (own.base or self.base).replace("{scale}", chosen or ""),
                "seeds": self.seeds if own.seeds is None else own.seeds,
                "set": stacked(self.set, own.set),
                "variants": variants,
            }
        )
        found._origin, found._folder = self._origin, self._folder
        found._whole, found._scale = len(variants) == len(self.variants), chosen or ""
        return found

    def choose_scale(self, scale: str | None) -> str | None:
        """The scale asked for, else 'small' where the study has scales."""
        scaled = "{scale}" in self.base
        known = {*self.scales, *(SCALES if scaled else ())}
        if scale is None:
            return "small" if "small" in known else next(iter(self.scales), None)
        if scale not in known:
            raise UserError(f"{self._origin.file}: no scale '{scale}'.{nearest(scale, known)}")
        return scale

    def place_of_set(self, fault: str) -> str:
        """Where the setting stands for all variants that a fault speaks of: the study's or its scale's."""
        own = self.scales.get(self._scale, Scale()).set
        key = next((key for key in self.set if f"{key}:" in fault), "")
        where = ("scales", self._scale, "set") if key in own else ("set",)
        return self._origin.location((*where, key) if key else where)

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds


def shipped_studies() -> dict[str, Path]:
    """The studies that come with the package, the papers' and our own: 'papers/NAME' → file."""
    folder = Path(str(resources.files("manyheads"))) / "recipes"
    files = (file for one in STUDIES for file in sorted((folder / one).glob("*.yaml")))
    return {str(file.relative_to(folder).with_suffix("")): file for file in files}


def load_study(source: str | Path) -> Study:
    """A study from a YAML file, or the name of a shipped one."""
    path, shipped = Path(source), shipped_studies()
    if not path.is_file():
        if str(source) not in shipped:
            raise UserError(
                f"No study '{source}': there is no such file, and no shipped study has that name."
                f"{nearest(str(source), shipped)}"
            )
        path = shipped[str(source)]
    origin, content = parse_file(path.resolve(), "base: recipe.yaml\n  variants:\n    plain: {}")
    content.setdefault("name", path.stem)
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        raise explain_faults(error, origin, Study) from None
    study._origin, study._folder = origin, Path.cwd() if path in shipped.values() else path.resolve().parent
    _check_names(study)
    return study


def _check_names(study: Study) -> None:
    """Names of variants that a scale leaves out, and seeds that are set as if they were any key."""
    for name, scale in study.scales.items():
        location = study._origin.location(("scales", name, "leave_out"))
        for wanted in scale.leave_out:
            if wanted not in study.variants:
                raise UserError(f"{location}: no variant '{wanted}'.{nearest(wanted, study.variants)}")
        if set(scale.leave_out) == set(study.variants):
            raise UserError(f"{location}: nothing is left to compare.")
    settings: dict[tuple[str, ...], Overrides] = {("set",): study.set}
    settings |= {("variants", name): {**one.set, **one.grid} for name, one in study.variants.items()}
    settings |= {("scales", name, "set"): one.set for name, one in study.scales.items()}
    for where, keys in settings.items():
        if "seed" in keys:
            raise UserError(f"{study._origin.location(where)}: {SEEDS}")
        for key, value in keys.items():
            if isinstance(value, dict) and (key in SECTIONS or (key.startswith("tasks.") and key.count(".") == 1)):
                raise UserError(
                    f"{study._origin.location((*where, key))}: would replace all of the base's {key}; set its keys one "
                    f"by one, such as {key}.{next(iter(value), 'KEY')}."
                )
