"""Reading a recipe: YAML file, shipped name or dict, with overrides; every fault at once, each with key and line."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from manyheads.config.defaults import fill_defaults
from manyheads.config.extends import fill_from_model
from manyheads.config.faults import explain_faults
from manyheads.config.location import KeyPath, SourceLocations
from manyheads.config.overrides import apply_overrides, plain_copy
from manyheads.config.plugins import import_parts
from manyheads.config.recipe import Recipe
from manyheads.config.renamed import find_old_keys, with_new_keys
from manyheads.config.task_names import without_tasks
from manyheads.config.yaml_file import parse_file
from manyheads.errors import UserError, nearest

STUDIES = ("papers", "own")  # folders of shipped studies, beside the recipes


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package: name → file."""
    folder = Path(str(resources.files("manyheads"))) / "recipes"
    files = (file for file in sorted(folder.rglob("*.yaml")) if file.parent.name not in STUDIES)
    return {str(file.relative_to(folder).with_suffix("")): file for file in files}


def read_recipe(
    source: str | Path | dict[str, Any], overrides: dict[str, Any] | None = None, overrides_from: str = "overrides"
) -> Recipe:
    """A recipe from a YAML file, the name of a shipped recipe, or a dict; `overrides` are {dotted.key: value}.

    `overrides_from` is what messages call them. Every key has its type; whether the parts go together is checked by
    `tasks.resolve.load_recipe`.
    """
    _check_types(source, overrides)
    if isinstance(source, dict):
        locations, content, base = SourceLocations(), plain_copy(source), Path.cwd()
    else:
        path = _find_file(Path(source))
        locations, content = parse_file(path)
        content.setdefault("name", path.stem)
        base = Path.cwd() if path in shipped_recipes().values() else path.parent
    if isinstance(content.get("tasks"), dict):
        content["tasks"] = {str(name): task for name, task in content["tasks"].items()}  # YAML reads `1:` as a number
    locations.overrides_from = overrides_from
    left_out = apply_overrides(content, overrides or {}, locations)
    _refuse_old_keys(content, locations)
    recipe = _validate(content, locations, base)
    return without_tasks(recipe, left_out) if left_out else recipe


def _check_types(source: Any, overrides: Any) -> None:
    """What a Python program may hand over by mistake."""
    if not isinstance(source, str | Path | dict):
        raise UserError(
            f"recipe: expected a file, the name of a shipped recipe, or a dict, found {source!r}.", code="bad-recipe"
        )
    if overrides is None:
        return
    if not isinstance(overrides, dict) or not all(isinstance(key, str) for key in overrides):
        raise UserError(
            f"overrides: expected a dict such as {{'training.epochs': 1}}, found {overrides!r}.", code="bad-override"
        )


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
    if not isinstance(imports, list):
        return []
    return [name for name in imports if isinstance(name, str)]


def _validate(content: dict[str, Any], locations: SourceLocations, base: Path) -> Recipe:
    imports = _import_files(content, locations, base)
    try:
        recipe = Recipe.model_validate(content)
    except ValidationError as error:
        raise explain_faults(error, locations, Recipe) from None
    recipe = fill_defaults(recipe)
    recipe._locations = locations
    recipe.imports = imports
    recipe.data.root = str(_folder(base, locations, ("data", "root"), recipe.data.root or "."))
    written = ("encoder",) if ("encoder",) in locations.overridden else ("encoder", "name")  # short or long form
    encoder = _folder(base, locations, written, recipe.encoder.name)
    if encoder.is_dir():  # else it is the name of one
        recipe.encoder.name = str(encoder)
    if recipe.init is not None:
        recipe.init = str(_folder(base, locations, ("init",), recipe.init))
    if recipe.extends is not None:
        recipe.extends = str(_folder(base, locations, ("extends",), recipe.extends))
        fill_from_model(recipe)
    for task, folders in recipe.teachers.items():
        key: KeyPath = ("teachers",) if ("teachers",) in locations.overridden else ("teachers", task)
        recipe.teachers[task] = [str(_folder(base, locations, key, folder)) for folder in folders]
    return recipe


def _refuse_old_keys(content: dict[str, Any], locations: SourceLocations) -> None:
    faults = []
    for path, new_name in sorted(find_old_keys(content), key=lambda old_key: locations.line(old_key[0])):
        faults.append(f"{locations.location(path)}: this key is now called '{new_name}'.")
    if faults:
        raise UserError("\n".join(faults), code="renamed-key")


def _import_files(content: dict[str, Any], locations: SourceLocations, base: Path) -> list[str]:
    """Run the files of the user's own parts before the recipe that names them is read."""
    names = content.get("imports") or []
    if isinstance(names, str):
        names = [names]
    content["imports"] = names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return []  # which the recipe's types refuse, with all other faults
    files = [_folder(base, locations, ("imports",), name) for name in names]
    for number, file in enumerate(files):
        import_parts(file, locations.location(("imports", number)))
    return [str(file) for file in files]


def _folder(base: Path, locations: SourceLocations, path: KeyPath, value: str) -> Path:
    """A folder named in a file stands beside the file; one named in an override where the user stands."""
    return ((Path.cwd() if path in locations.overridden else base) / Path(value).expanduser()).resolve()


def _find_file(path: Path) -> Path:
    if path.is_file():
        return path.resolve()
    shipped = shipped_recipes()
    if str(path) in shipped:
        return shipped[str(path)]
    raise UserError(
        f"No recipe '{path}': there is no such file, and no shipped recipe has that name.{nearest(str(path), shipped)}",
        code="no-such-recipe",
    )
