"""Reading a recipe: YAML file, shipped name or dict, with overrides; every fault at once, each with key and line."""

from __future__ import annotations

import types
import typing
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ValidationError

from manyheads.config.location import KeyPath, SourceLocations
from manyheads.config.plugins import import_parts
from manyheads.config.recipe import Recipe, source_mapping
from manyheads.config.renamed import find_old_keys, with_new_keys
from manyheads.errors import UserError, nearest

EXAMPLE = "tasks:\n    reviews:\n      train: reviews.csv"


class _Loader(yaml.SafeLoader):
    """YAML in which 'yes', 'no', 'on' and 'off' are words, as labels may be; booleans are 'true' and 'false'."""


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL or letter in "tTfF"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


STUDIES = ("papers", "own")  # folders of shipped studies, beside the recipes


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package: name → file."""
    folder = Path(str(resources.files("manyheads"))) / "recipes"
    files = (file for file in sorted(folder.rglob("*.yaml")) if file.parent.name not in STUDIES)
    return {str(file.relative_to(folder).with_suffix("")): file for file in files}


def load_recipe(source: str | Path | dict[str, Any], overrides: dict[str, Any] | None = None) -> Recipe:
    """A recipe from a YAML file, the name of a shipped recipe, or a dict; `overrides` are {dotted.key: value}."""
    if isinstance(source, dict):
        locations, content, base = SourceLocations(), _copy(source), Path.cwd()
    else:
        path = _find_file(Path(source))
        locations, content = parse_file(path)
        content.setdefault("name", path.stem)
        base = Path.cwd() if path in shipped_recipes().values() else path.parent
    if isinstance(content.get("tasks"), dict):
        content["tasks"] = {str(name): task for name, task in content["tasks"].items()}  # YAML reads `1:` as a number
    overrides = _copy(overrides or {})
    dropped: set[str] = set()
    if isinstance(overrides.get("tasks"), list):
        dropped = _keep_tasks(content, overrides.pop("tasks"), locations.file)
    _check_tasks(overrides, content, dropped)
    for key, value in _for_every_task(overrides, content).items():
        if not (key.startswith("tasks.") and key.split(".")[1] in dropped):
            _override(content, locations, key, value)
    if dropped:
        content = _without_mentions(content, dropped)
    _refuse_old_keys(content, locations)
    return _validate(content, locations, base)


def load_run_recipe(file: Path, run_imports: bool = True) -> Recipe:
    """The recipe of a run folder, which version 0.1 may have written with its own keys.

    Its imports are code: `run_imports` False reads the recipe without running them.
    """
    locations, content = parse_file(file)
    with_new_keys(content)
    content.setdefault("name", file.stem)
    if run_imports:
        return _validate(content, locations, file.parent.resolve())
    content["imports"] = []
    recipe = _validate(content, locations, file.parent.resolve())
    recipe.imports = named_imports(file)
    return recipe


def named_imports(file: Path) -> list[str]:
    """The files that a run's recipe imports, which it names in full."""
    imports = parse_file(file)[1].get("imports")
    return [name for name in imports if isinstance(name, str)] if isinstance(imports, list) else []


def _validate(content: dict[str, Any], locations: SourceLocations, base: Path) -> Recipe:
    imports = _import_files(content, locations, base)
    try:
        recipe = Recipe.model_validate(content)
    except ValidationError as error:
        raise explain_faults(error, locations, Recipe) from None
    recipe._origin = locations
    recipe.imports = imports
    recipe.data.root = str(_folder(base, locations, ("data", "root"), recipe.data.root or "."))
    written = ("encoder",) if ("encoder",) in locations.overridden else ("encoder", "name")  # short or long form
    encoder = _folder(base, locations, written, recipe.encoder.name)
    if encoder.is_dir():  # else it is the name of one
        recipe.encoder.name = str(encoder)
    if recipe.init is not None:
        recipe.init = str(_folder(base, locations, ("init",), recipe.init))
    return recipe


def _refuse_old_keys(content: dict[str, Any], locations: SourceLocations) -> None:
    faults = []
    for path, new_name in find_old_keys(content):
        faults.append(f"{locations.location(path)}: this key is now called '{new_name}'.")
    if faults:
        raise UserError("\n".join(faults))


def _import_files(content: dict[str, Any], locations: SourceLocations, base: Path) -> list[str]:
    """Run the files of the user's own parts before the recipe that names them is read."""
    given = content.get("imports") or []
    content["imports"] = given = [given] if isinstance(given, str) else given
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return []  # which the recipe's types refuse, with all other faults
    files = [_folder(base, locations, ("imports",), one) for one in given]
    for number, file in enumerate(files):
        import_parts(file, locations.location(("imports", number)))
    return [str(file) for file in files]


def _folder(base: Path, locations: SourceLocations, path: KeyPath, value: str) -> Path:
    """A folder named in a file stands beside the file; one named on the command line where the user stands."""
    return ((Path.cwd() if path in locations.overridden else base) / Path(value).expanduser()).resolve()


def parse_overrides(words: list[str]) -> dict[str, Any]:
    """['training.epochs=1'] → {'training.epochs': 1}; values are YAML."""
    result = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UserError(f"Override '{word}': expected key.path=value, for example training.epochs=1.")
        try:
            result[key] = yaml.load(value, Loader=_Loader)
        except yaml.YAMLError:
            raise UserError(f"Override '{word}': the value is not valid YAML; quote it.") from None
    return result


def _find_file(path: Path) -> Path:
    if path.is_file():
        return path.resolve()
    shipped = shipped_recipes()
    if str(path) in shipped:
        return shipped[str(path)]
    raise UserError(
        f"No recipe '{path}': there is no such file, and no shipped recipe has that name.{nearest(str(path), shipped)}"
    )


def parse_file(path: Path, example: str = EXAMPLE) -> tuple[SourceLocations, dict[str, Any]]:
    """A YAML file's content, and on which line each of its keys stands."""
    locations = SourceLocations(path.name)
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_Loader)
        content = yaml.load(text, Loader=_Loader)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file in UTF-8.") from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path.name}{line}: not valid YAML: {error.problem}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path.name}: not valid YAML: {error}.") from None
    if not isinstance(content, dict) or node is None:
        raise UserError(f"{path.name}: expected keys and values, such as\n  {example}")
    repeated: list[str] = []
    try:
        _note_lines(node, (), locations, repeated)
    except RecursionError:
        raise UserError(f"{path.name}: an anchor (&) contains its own alias (*).") from None
    if repeated:
        raise UserError("\n".join(repeated))
    return locations, content


def _note_lines(node: yaml.Node, path: KeyPath, locations: SourceLocations, repeated: list[str]) -> None:
    """Remember the line of every key; a key that stands twice would silently lose its first value."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[KeyPath, int] = {}
        for key, value in node.value:
            here = (*path, str(key.value))
            line = key.start_mark.line + 1
            if here in seen:
                what = "task" if path == ("tasks",) else "key"
                repeated.append(
                    f"{locations.file}:{line}: {'.'.join(map(str, here))}: this {what} already stands in line "
                    f"{seen[here]}. Give each {what} a name of its own."
                )
            seen[here] = locations.lines[here] = line
            _note_lines(value, here, locations, repeated)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            locations.lines[*path, index] = value.start_mark.line + 1
            _note_lines(value, (*path, index), locations, repeated)


def _copy(value: Any) -> Any:
    """Nothing that a caller gave is changed, however deep it lies."""
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _for_every_task(overrides: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """{'tasks.*.loss': …} → the same of each task by name."""
    found: dict[str, Any] = {}
    for key, value in overrides.items():
        if key.startswith("tasks.*.") and isinstance(content.get("tasks"), dict):
            found |= {f"tasks.{name}.{key.removeprefix('tasks.*.')}": _copy(value) for name in content["tasks"]}
        else:
            found[key] = value
    return found


def _check_tasks(overrides: dict[str, Any], content: dict[str, Any], dropped: set[str]) -> None:
    """A task that the recipe has not must at least be given files; else its name is misspelt."""
    tasks = content.get("tasks")
    known = {"*", *dropped, *(tasks if isinstance(tasks, dict) else {})}
    for key in overrides:
        root, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        if root == "tasks" and "." in rest and name not in known and f"tasks.{name}.train" not in overrides:
            raise UserError(f"command line: {key}: no task '{name}'.{nearest(name, known - {'*'})}")


def _keep_tasks(content: dict[str, Any], names: list[Any], file: str) -> set[str]:
    """`tasks=[sst, sts]`: these of the recipe's tasks, in this order; returns the others."""
    tasks = content.get("tasks")
    known = tasks if isinstance(tasks, dict) else {}
    missing = next((str(name) for name in names if str(name) not in known), None)
    if missing is not None or not names:
        raise UserError(f"command line: tasks: no task '{missing or ''}' in {file}.{nearest(missing or '', known)}")
    content["tasks"] = {str(name): known[str(name)] for name in names}
    return {str(name) for name in known if name not in content["tasks"]}


NAMING_TASKS = ("weights", "tasks", "only", "order", "until", "probabilities")  # keys whose values name tasks


def _without_mentions(value: Any, dropped: set[str], naming: bool = False) -> Any:
    """Weights, orders and lists without the tasks that were left out; a key that named only those goes as well."""
    if isinstance(value, dict):
        found = {}
        for key, one in value.items():
            if naming and str(key) in dropped:
                continue
            kept = _without_mentions(one, dropped, key in NAMING_TASKS)
            if not (key in NAMING_TASKS and one and (kept is None or kept in ([], {}))):
                found[key] = kept
        return found
    if isinstance(value, list):
        return [
            _without_mentions(one, dropped, naming)
            for one in value
            if not (naming and isinstance(one, str) and one in dropped)
        ]
    return None if naming and isinstance(value, str) and value in dropped else value


def _override(content: dict[str, Any], locations: SourceLocations, key: str, value: Any) -> None:
    *parents, last = path = tuple(key.split("."))
    location = content
    for depth, step in enumerate(parents, start=1):
        inner = location.get(step)
        if inner is None:
            locations.overridden.add(path[:depth])
        if isinstance(inner, str):  # `train: FILE`, `encoder: NAME` and `loss: NAME` are short for mappings
            inner = source_mapping(inner) if step in ("train", "dev", "test") else {"name": inner}
        if inner is not None and not isinstance(inner, dict):
            raise UserError(f"command line: {key}: '{step}' is not a mapping in {locations.file}.")
        location[step] = inner = inner or {}
        location = inner
    location[last] = value
    locations.overridden.add(path)
    locations.lines = {known: line for known, line in locations.lines.items() if known[: len(path)] != path}


def explain_faults(error: ValidationError, locations: SourceLocations, model: type[BaseModel]) -> UserError:
    """Every fault that a model found in a file, each with its key and line."""
    faults = [_explain(dict(fault), locations, model) for fault in error.errors()]
    count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
    return UserError(f"{locations.file} has {count}:\n" + "\n".join(f"  {fault}" for fault in faults))


def _explain(fault: dict[str, Any], locations: SourceLocations, model: type[BaseModel]) -> str:
    path: KeyPath = fault["loc"]
    if fault["type"] == "extra_forbidden":
        message = f"unknown key.{nearest(str(path[-1]), _known_keys(path[:-1], model))}"
    elif fault["type"] == "missing":
        message = "missing."
        if path == ("tasks",):
            message = "missing. A recipe needs at least one task with its training data."
    else:
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] != "value_error":
            message += f" (found {fault['input']!r})"
    return f"{locations.location(path)}: {message}"


def _known_keys(path: KeyPath, model: type[BaseModel]) -> list[str]:
    """The keys that a model allows at a place."""
    annotation: Any = model
    for step in path:
        annotation = _strip(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            annotation = annotation.model_fields[str(step)].annotation
        else:
            annotation = typing.get_args(annotation)[-1]  # dict[str, X] or list[X] → X
    annotation = _strip(annotation)
    return list(annotation.model_fields) if issubclass(annotation, BaseModel) else []


def _strip(annotation: Any) -> Any:
    """X | None → X; Annotated[X, …] → X."""
    locations = typing.get_origin(annotation)
    if locations is Annotated:
        return _strip(typing.get_args(annotation)[0])
    if locations in (typing.Union, types.UnionType):
        return _strip(next(one for one in typing.get_args(annotation) if one is not type(None)))
    return annotation
