"""When two runs are the same run: equal settings, package version, data and encoder, whatever folders they stand in.

Settings are all that a run was trained with, defaults and options of parts included. The hash is over what is not as in
version 0.1 (`config/defaults-0.1.yaml`, which is frozen). So a default that changes in the code changes the identity of
every recipe that leaves it open; a key that is added, and stands at the value that means "as before", changes none; and
results that version 0.1 exported are still found.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from manyheads import __version__, registry
from manyheads.config.defaults import (
    FIRST_VERSION,
    NO_EFFECT,
    NO_EFFECT_IN_DATA,
    NO_EFFECT_IN_DISTILL,
    NO_EFFECT_IN_TASKS,
    Defaults,
    code_options,
    read_defaults,
)
from manyheads.config.extends import model_folder
from manyheads.config.keys import EACH, part_families
from manyheads.config.part import AS_WRITTEN, PartConfig, dump_part, load_part
from manyheads.config.plugins import fingerprint
from manyheads.config.recipe import Recipe
from manyheads.config.renamed import with_old_keys
from manyheads.config.task import LAYOUT_KEYS, TRAIN_KEYS, TREE_KEYS, Source, TaskSettings
from manyheads.data.readers import find_file
from manyheads.storage.files import file_sha256
from manyheads.tasks.load import check_files
from manyheads.tasks.part_defaults import FAMILIES, code_rules, is_own, open_cases
from manyheads.training.teaching.teachers import teacher_fingerprints

SPLITS = ("train", "dev")  # whose content decides a result
AS_BEFORE = object()  # a value that version 0.1 would have had


def run_identity(recipe: Recipe, teacher_runs: dict[str, list[str]] | None = None) -> str:
    """A fingerprint of everything that decides a run's result. `teacher_runs`: task → identities of runs that will be
    its teachers, which need not be trained yet."""
    check_files(recipe)
    content = changed_settings(recipe)
    with_old_keys(content)  # results exported by version 0.1 still count
    content["encoder"] = {**content.get("encoder", {}), "name": _encoder_fingerprint(recipe)}
    content["init"] = recipe.init and _folder_fingerprint(Path(recipe.init) / "best")
    if recipe.extends is not None:
        content["extends"] = _folder_fingerprint(model_folder(Path(recipe.extends)))
    if recipe.teachers:
        content["teachers"] = teacher_fingerprints(recipe)
    if teacher_runs:
        content["teacher_runs"] = teacher_runs
    plugins = [fingerprint(Path(file)) for file in recipe.imports]
    text = json.dumps([__version__, content, _data_fingerprints(recipe), plugins], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- settings ---------------------------------------------------------------------------------------------------


def changed_settings(recipe: Recipe) -> dict[str, Any]:
    """Every setting that is not what version 0.1 would have trained with, had the recipe not said it."""
    return _Settings(recipe).changed()


class _Settings:
    """A recipe's settings, beside those of version 0.1."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.before = read_defaults(FIRST_VERSION)
        self.families = part_families()
        # the recipe may have been filled in by an earlier version's defaults
        self.pinned = Defaults({}, {}, {}) if recipe.defaults is None else read_defaults(recipe.defaults)

    def changed(self) -> dict[str, Any]:
        content: dict[str, Any] = self.recipe.model_dump(mode="json", context=AS_WRITTEN)
        for key in NO_EFFECT:
            del content[key]
        for key in NO_EFFECT_IN_DATA:
            del content["data"][key]
        for key in NO_EFFECT_IN_DISTILL:
            del content["distill"][key]
        for task in content["tasks"].values():
            for key in NO_EFFECT_IN_TASKS:
                del task[key]
        changed: dict[str, Any] = self._changed_section(content, "")
        changed.setdefault("data", {})
        for name, settings in self.recipe.tasks.items():
            changed["tasks"][name].update(self._changed_rules(settings))
        return changed

    def _changed(self, value: Any, key: str) -> Any:
        """The value without what is as before; AS_BEFORE where nothing is left."""
        if key in self.families:
            value = self._with_changed_options(value, self.families[key])
        if key in self.before.settings and value == self.before.settings[key]:
            return AS_BEFORE
        if isinstance(value, list):
            items = [self._changed(item, f"{key}.{EACH}") for item in value]
            return [item for item in items if item is not AS_BEFORE]
        if not isinstance(value, dict) or key in self.families:
            return value
        changed = self._changed_section(value, key)
        is_section = key not in self.before.settings and not key.endswith(EACH)
        return AS_BEFORE if is_section and not changed else changed

    def _changed_section(self, section: dict[str, Any], key: str) -> dict[str, Any]:
        named = key == "tasks"  # by the user
        changed: dict[str, Any] = {}
        for name, value in section.items():
            step = EACH if named else name
            rest = self._changed(value, f"{key}.{step}" if key else step)
            if rest is not AS_BEFORE:
                changed[name] = rest
        return changed

    def _with_changed_options(self, dumped: Any, family: str) -> Any:
        """A part with the options that it leaves open and that are not as before; all of them of a part that is new."""
        if dumped is None:
            return None
        part = load_part(dumped)
        if not is_own(registry.find(family, part.name)):
            return dumped
        before = self.before.options[family].get(part.name, {})
        today = {**code_options(family, part.name), **self.pinned.options.get(family, {}).get(part.name, {})}
        changed: dict[str, Any] = {}
        for option, value in today.items():
            is_as_before = option in before and before[option] == value
            if option not in part.options and not is_as_before:
                changed[option] = value
        return dump_part(PartConfig(name=part.name, options={**part.options, **changed}))

    def _changed_rules(self, settings: TaskSettings) -> dict[str, Any]:
        """Of parts that a task leaves open and that its data decides: the cases in which they are not as before."""
        rules = code_rules()
        changed: dict[str, Any] = {}
        for key, family in FAMILIES.items():
            if getattr(settings, key) is not None:
                continue
            today = {**rules[key], **self.pinned.task_parts.get(key, {})}
            cases = open_cases(key, settings)
            if cases is None:  # of a kind that came later only where a recipe names it: else no result would be found
                cases = iter(self.before.task_parts[key])
            for case in cases:
                if case in today:
                    part = self._with_rule_options(today[case], family)
                    if part != self.before.task_parts[key].get(case):
                        changed[f"default {key}, {case}"] = part
        return changed

    def _with_rule_options(self, names: str | list[str], family: str) -> Any:
        if isinstance(names, str):
            return self._with_changed_options(names, family)
        return [self._with_changed_options(name, family) for name in names]


# --- data and encoder -------------------------------------------------------------------------------------------


def _data_fingerprints(recipe: Recipe) -> dict[str, list[Any]]:
    fingerprints: dict[str, list[Any]] = {}
    for name, task in recipe.tasks.items():
        for split in SPLITS:
            fingerprints[f"{name} {split}"] = [_source_fingerprint(source, recipe) for source in task.sources(split)]
        for split in ("test", "unlabelled"):  # test may have labels, which are measured at the end
            sources = task.sources(split)
            if sources:
                fingerprints[f"{name} {split}"] = [_source_fingerprint(source, recipe) for source in sources]
    return fingerprints


def _source_fingerprint(source: Source, recipe: Recipe) -> Any:
    added = source.changed((*TREE_KEYS, *TRAIN_KEYS))
    if source.file is None:
        content = source.model_dump(mode="json", exclude={*LAYOUT_KEYS, *TREE_KEYS, *TRAIN_KEYS})
        return {**content, **added}
    file = find_file(source, Path(recipe.data.root or "."))
    if file is None:
        return None
    sha256 = _content_sha256(file, file.stat().st_mtime_ns)
    if source.layout or added:
        return [sha256, {**source.layout, **added}]
    return sha256


def _encoder_fingerprint(recipe: Recipe) -> str:
    folder = Path(recipe.encoder.name)
    if folder.is_dir():
        return _folder_fingerprint(folder)
    return recipe.encoder.name


def _folder_fingerprint(folder: Path) -> str:
    words: list[str] = []
    for file in sorted([*folder.glob("*"), *folder.glob("*_Pooling/config.json")]):  # which says how it is pooled
        if file.suffix in (".json", ".safetensors", ".txt"):
            words.append(f"{file.name} {_content_sha256(file, file.stat().st_mtime_ns)}")
    return " ".join(words)


@lru_cache(maxsize=1024)
def _content_sha256(file: Path, modified: int) -> str:
    """Of a file's content, compressed or not; `modified` keeps the cache right when the file changes."""
    if file.suffix != ".gz":
        return file_sha256(file)
    with gzip.open(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
