"""What a card is written from: the run as reports read it, and what of it may be said elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from manyheads.checks.bias_file import BiasProbe, read_bias
from manyheads.checks.check import check_data
from manyheads.checks.findings import Finding as DataFinding
from manyheads.config.recipe import Recipe
from manyheads.config.task import Source
from manyheads.console import Reporter
from manyheads.data.readers import file_format, find_file, split_name
from manyheads.encoder.loading import KNOWN
from manyheads.errors import UserError
from manyheads.inference.intervals import Interval, metric_intervals
from manyheads.inference.onnx_folder import OnnxFolder, is_onnx_folder
from manyheads.publishing.portable import name_of
from manyheads.reports.facts import RunFacts
from manyheads.reports.findings import find_problems
from manyheads.reports.headlines import headlines
from manyheads.tasks.task import Task

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
SPLITS = ("train", "dev", "test")
# ending of a file → what `datasets.load_dataset` calls its kind; others go by their own name
LOADERS = {"tsv": "csv", "jsonl": "json", "txt": "text", "trees": "text"}


@dataclass(frozen=True)
class CardSettings:
    """What only whoever publishes can say."""

    licence: str | None = None
    base_licence: str | None = None
    base_model: str | None = None
    languages: tuple[str, ...] = ()
    hub_name: str | None = None


@dataclass(frozen=True)
class DataSet:
    """What a task reads as one of its splits."""

    split: str
    name: str  # file names, or the hub's
    kind: str  # what `datasets` calls it: csv, json, glue
    config: str | None
    rows: int | None  # labelled ones; None where the run has not counted them
    fingerprint: str | None  # of texts and labels as the run read them
    revision: str | None  # the hub's, where the recipe names it; of files the fingerprint


def _hub_name(name: str) -> str:
    """Of a local folder, which `datasets` reads too, the last step."""
    return name_of(name) if Path(name).exists() else name


def _name(source: Source, split: str) -> str:
    if source.demo is not None:
        return f"demo:{source.demo}"
    if source.hub is None:
        return name_of(source.file or "")
    words = [_hub_name(source.hub), source.config, f"({split_name(source, split)})"]
    if source.revision is not None:
        words.append(f"at {source.revision}")
    return " ".join(word for word in words if word)


@dataclass
class CardFacts:
    """A finished run."""

    run: RunFacts
    settings: CardSettings
    reporter: Reporter = field(default_factory=lambda: Reporter(quiet=True))
    exported_inside: tuple[str, ...] = ()  # exported folders that are published too

    @property
    def recipe(self) -> Recipe:
        return self.run.run.recipe

    @property
    def about(self) -> dict[str, Any]:
        return self.run.run.about

    @property
    def tasks(self) -> dict[str, Task]:
        """All that the model has: also those of a model that the run extends, of whose data it knows nothing."""
        return self.run.run.predictor.tasks

    @property
    def earlier_tasks(self) -> list[str]:
        return [name for name in self.tasks if name not in self.run.tasks]

    @cached_property
    def base_model(self) -> str | None:
        """Its name on the hub; None where the run does not say it."""
        if self.settings.base_model is not None:
            return self.settings.base_model
        name = self.recipe.encoder.name
        if self.recipe.extends is not None:
            return None
        if name in KNOWN:
            return KNOWN[name].hub
        return name if HUB_ID.fullmatch(name) and not Path(name).exists() else None

    @property
    def encoder_name(self) -> str:
        source = self.recipe.extends or self.recipe.encoder.name
        return self.base_model or name_of(source)

    def datasets(self, task_name: str) -> list[DataSet]:
        """Those that the run read, of each split."""
        settings, metrics = self.recipe.tasks[task_name], self.run.metrics
        fingerprints = metrics.get("data", {})
        rows: dict[str, int | None] = {"train": self.run.tasks[task_name].train_examples}
        for split in ("dev", "test"):
            rows[split] = metrics.get(split, {}).get("examples", {}).get(task_name)
        datasets: list[DataSet] = []
        for split in SPLITS:
            sources: list[Source] | None = getattr(settings, split)
            fingerprint = fingerprints.get(f"{task_name} {split}")
            if sources:
                name = ", ".join(_name(source, split) for source in sources)
            elif split == "dev" and rows[split] is not None:
                sources, name = settings.train, "held out of train"
            else:
                continue
            first = (sources or [])[0]
            datasets.append(
                DataSet(
                    split=split,
                    name=name,
                    kind=self._kind(first),
                    config=first.config,
                    rows=rows[split],
                    fingerprint=fingerprint,
                    revision=fingerprint if first.hub is None else first.revision,
                )
            )
        return datasets

    def _kind(self, source: Source) -> str:
        if source.hub is not None:
            return _hub_name(source.hub)
        if source.file is None:
            return "manyheads-demo"
        ending = Path(source.file.removesuffix(".gz")).suffix.removeprefix(".")
        file = find_file(source, Path(self.recipe.data.root or "."))
        if file is not None:
            ending = file_format(source, file)
        return LOADERS.get(ending, ending or "file")

    def intervals(self, task_name: str) -> dict[str, Interval | None]:
        """Of every metric on dev; empty where single predictions are not kept."""
        predictions = self.run.predictions.get(task_name)
        if predictions is None:
            return {}
        metrics = self.run.metrics["dev"]["metrics"][task_name]
        return metric_intervals(predictions.task, metrics, predictions.predictions, predictions.labels)

    @cached_property
    def problems(self) -> list[str]:
        return [finding.text for finding in find_problems(self.run, headlines(self.run))]

    @cached_property
    def data_findings(self) -> list[DataFinding] | None:
        """What is wrong with the data; None where it cannot be read any more."""
        try:
            findings = check_data(self.recipe, self.reporter)
        except UserError as fault:
            self.reporter.say(f"note: the data was not checked: {fault}")
            return None
        of_data: list[DataFinding] = []
        for finding in findings:
            kind = finding.kind
            if kind == "unreadable":
                return None
            if kind != "recipe" and finding.severity != "note":
                of_data.append(finding)
        return of_data

    @cached_property
    def bias(self) -> BiasProbe | None:
        """None where it was not probed, or another model of this run was."""
        probe = read_bias(self.run.folder)
        if probe is not None and probe.model != self.about:
            self.reporter.say("note: bias.json is of another model of this run; `manyheads probe-bias` again")
            return None
        return probe

    @cached_property
    def exported(self) -> dict[str, OnnxFolder]:
        """Exported folders of this very model, by their names."""
        folders: dict[str, OnnxFolder] = {}
        for folder in sorted(self.run.folder.glob("exported-*")):
            if is_onnx_folder(folder):
                opened = OnnxFolder(folder)
                if opened.description.about == self.about:
                    folders[folder.name] = opened
        return folders
