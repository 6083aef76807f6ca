"""A run that adds tasks to a model (`extends`): the model's encoder is read, frozen; its heads are kept as they are.

The training knows the new tasks only. Every model folder that it saves holds the old ones too (`model/earlier.py`), so
a run that is killed at any moment leaves whole models behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from manyheads.config.extends import model_folder
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.model.earlier import ABOUT_KEY, EarlierModel
from manyheads.model.folder import load_model
from manyheads.model.folder_checks import HEADS_FILE, MODEL_FILE, read_json
from manyheads.model.multitask import ManyHeads
from manyheads.model.saved_tasks import UnknownParts, read_model_file
from manyheads.storage.files import CHECKSUMS, restore_folder
from manyheads.tasks.compatibility import Fault, refuse


def extended_folder(recipe: Recipe, resumed: Path | None) -> Path:
    """Where the extended model is read from: best/ of a run that is resumed holds it too, else its own folder."""
    if resumed is not None:
        own = _own_model(resumed)
        restore_folder(own)
        if own.is_dir():
            return own
    folder = model_folder(Path(str(recipe.extends)))
    restore_folder(folder)
    if not folder.is_dir():
        reason = f"'{recipe.extends}' is neither a run folder with a model in best/ nor a model folder."
        raise UserError(f"{recipe.location('extends')}: {reason}", "no-model")
    return folder


def _own_model(run: Path) -> Path:
    return run / "best"


def open_earlier(recipe: Recipe, model: ManyHeads, resumed: Path | None, reporter: Reporter) -> EarlierModel:
    """What is kept of the model that a run extends. `model` has the new tasks. Changes of old ones are refused."""
    folder = extended_folder(recipe, resumed)
    try:
        earlier, old_about = load_model(folder)
    except UnknownParts as fault:
        advice = "If you trust the files that register them, name them in the recipe's `imports`."
        raise UserError(f"{fault.reason}\n  {advice}", fault.code) from None
    content, _ = read_model_file(folder)
    tasks = {saved["name"]: saved for saved in content.tasks}
    if resumed is not None and folder == _own_model(resumed):  # which holds the new tasks too
        for name in recipe.tasks:
            tasks.pop(name, None)
        old_about = old_about.get(ABOUT_KEY, {})
    else:
        old_about = {"tasks": list(tasks), **old_about}
    refuse(list(_changes_of_old_tasks(recipe, model, earlier, list(tasks))), recipe)
    tensors = load_file(folder / HEADS_FILE)
    heads: dict[str, Tensor] = {}
    for name in tasks:
        for tensor_name in earlier.head_names(name):  # tasks that share a head name its tensors again
            heads[tensor_name] = tensors[tensor_name]
    files = dict(read_json(folder / CHECKSUMS))
    for name in (MODEL_FILE, HEADS_FILE):  # which are written anew
        files.pop(name, None)
    reporter.say(f"extends: {recipe.extends}: its encoder and its tasks stay as they are ({', '.join(tasks)})")
    return EarlierModel(folder, files, heads, tasks, old_about, content.imports)


def reopen_model(run: Path, recipe: Recipe, reporter: Reporter) -> ManyHeads:
    """best/ of a run as its training had the model: of one that extends another with the new tasks alone."""
    model, _ = load_model(_own_model(run))
    if recipe.extends is None:
        return model
    new_tasks = {name: task for name, task in model.tasks.items() if name in recipe.tasks}
    trained = ManyHeads(model.encoder, new_tasks, model.tokenizer, model.max_length, seed=0)
    weights = model.state_dict()
    trained.load_state_dict({name: weights[name] for name in trained.state_dict()})
    trained.earlier = open_earlier(recipe, trained, run, reporter)
    return trained.eval()


def _changes_of_old_tasks(
    recipe: Recipe, model: ManyHeads, earlier: ManyHeads, old_tasks: list[str]
) -> Iterator[Fault]:
    """What of a recipe would train, replace or cut what the old tasks have."""
    old_groups: dict[str | None, str] = {}  # layers that tasks share → a task that has it
    for name in old_tasks:
        old_groups.setdefault(earlier.head(name).encoding.group, name)
    for name in recipe.tasks:
        if name in old_tasks:
            reason = f"'{recipe.extends}' has a task of this name, which stays as it is; choose another name."
            yield Fault(("tasks", name), reason, "extends-old-task")
        group = model.head(name).encoding.group
        if group is not None and group in old_groups:
            reason = (
                f"the layer of group '{group}' is that of task '{old_groups[group]}' of '{recipe.extends}', and stays "
                "as it is; name another `group`."
            )
            yield Fault(("tasks", name, "encoding"), reason, "extends-old-layer")
    if model.max_length != earlier.max_length:
        reason = f"'{recipe.extends}' reads at most {earlier.max_length} tokens, and so do its new tasks; leave it out."
        yield Fault(("encoder", "max_length"), reason, "extends-other-length")


def earlier_fingerprint(model: ManyHeads) -> dict[str, str]:
    """Beside those of data: a run is not resumed on another model than it extends. Empty where it extends none."""
    return {} if model.earlier is None else {"the model that it extends": model.earlier.fingerprint()}
