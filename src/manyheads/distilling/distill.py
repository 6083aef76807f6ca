"""`manyheads distill`: the teachers that are missing are trained, then the student.

    OUTPUT/NAME-teachers/TASK-SEED/       a run for each teacher
    OUTPUT/NAME-teachers/TASK-SEED.json   which run it is (`studies/identity.py`), written before it is trained
    OUTPUT/NAME-teachers/student.json     the same of the student, whose folder is OUTPUT/NAME

The same command goes on where an earlier one was killed: what is finished is skipped, what is not is resumed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal

from manyheads.config.load import load_run_recipe
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.distilling.teacher_recipes import plan_teachers
from manyheads.errors import Interrupted, UserError
from manyheads.runs.log import LOG_FILE
from manyheads.runs.run import Run
from manyheads.storage.files import write_text
from manyheads.studies.identity import run_identity
from manyheads.tasks.compatibility import refuse
from manyheads.tasks.resolve import load_recipe
from manyheads.tasks.teacher_faults import missing_teachers, taught_faults
from manyheads.training.device import start_accelerator
from manyheads.training.distributed import Processes, join_processes
from manyheads.training.loop import is_finished, train_to_end
from manyheads.training.run_folder import check_free, check_not_its_own_source, checkpoints_of
from manyheads.training.setup import assemble
from manyheads.training.teaching.cost import describe_cost

State = Literal["new", "unfinished", "finished", "changed"]


def distill(
    recipe: Recipe | dict[str, Any] | str | Path,
    overrides: dict[str, Any] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Run:
    """Train the teachers that a recipe lacks, then the recipe with them, and return that run.

    `overwrite`: a student that is there, and teachers whose settings or data have changed since, are trained anew.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides)
    elif overrides is not None:
        raise UserError("overrides: this recipe is loaded already; give them to `load_recipe`.", code="bad-override")
    reporter = Reporter(quiet)
    accelerator = start_accelerator(recipe, reporter)
    processes = join_processes(accelerator, recipe.training.processes, recipe.location("training", "processes"))
    if not processes.main:
        reporter = Reporter(quiet=True)
    try:
        run = _Distillation(recipe, reporter, processes, overwrite).run()
    except Interrupted as stopped:
        reason = str(stopped).partition(" Go on with")[0]
        raise Interrupted(f"{reason} The same command goes on from there.", stopped.exit_code - 128) from None
    processes.leave()
    return run


class _Distillation:
    """All runs of one distillation, one after the other."""

    def __init__(self, recipe: Recipe, reporter: Reporter, processes: Processes, overwrite: bool) -> None:
        self.recipe, self.reporter, self.processes, self.overwrite = recipe, reporter, processes, overwrite
        self.folder = Path(recipe.output) / f"{recipe.name}-teachers"

    def run(self) -> Run:
        planned = plan_teachers(self.recipe)
        self._refuse_early()
        count = sum(map(len, planned.values()))
        teachers = dict(self.recipe.teachers)
        number = 0
        for task, recipes in planned.items():
            teachers[task] = []
            for teacher in recipes:
                number += 1
                self.reporter.say(f"teacher {number} of {count}: {teacher.name}")
                self._finish(teacher, teacher.name)
                if self.processes.main:
                    shutil.rmtree(checkpoints_of(teacher.folder), ignore_errors=True)  # nobody goes on from them
                teachers[task].append(str(teacher.folder.resolve()))
        student = self.recipe.model_copy(update={"teachers": teachers})
        self.reporter.say(f"student: {student.name}")
        trained = self._finish(student, "student", anew=self.overwrite)
        run = Run(student.folder)
        if not trained:
            self.reporter.say(f"{student.folder} is finished already")
            self.reporter.say(describe_cost(run.metrics["cost"]))
        return run

    def _refuse_early(self) -> None:
        """What would stop the student, before any teacher is trained."""
        recipe = self.recipe
        if self.overwrite:
            check_not_its_own_source(recipe)
        if not (self.folder / "student.json").is_file():
            check_free(recipe.folder, self.overwrite, is_run=(recipe.folder / "recipe.yaml").is_file())
        setup = assemble(recipe, Reporter(quiet=True), to_distill=True)
        refuse(list(taught_faults(setup.model.tasks[name] for name in missing_teachers(recipe))), recipe)

    def _finish(self, recipe: Recipe, name: str, anew: bool = False) -> bool:
        """Train a run, or go on with it; False where it is finished already. `anew`: even then."""
        folder, identity_file = recipe.folder, self.folder / f"{name}.json"
        identity = run_identity(recipe)
        state: State | None = None
        if self.processes.main:
            state = _state(recipe, identity_file, identity)
        state = self.processes.tell(state)
        if state == "changed" and not self.overwrite:
            raise UserError(
                f"{folder}: it was trained with other settings, data or teachers than this recipe has now. Change "
                "`name`, or train it anew (--overwrite).",
                "run-changed",
            )
        if state == "finished" and not anew:
            return False
        if state == "unfinished" and not anew:
            recipe = load_run_recipe(folder / "recipe.yaml")
        else:
            self._make_room(folder, identity_file, identity)
        train_to_end(recipe, folder, self.reporter)
        self.processes.wait()  # for the one that writes
        return True

    def _make_room(self, folder: Path, identity_file: Path, identity: str) -> None:
        """Remove a run that may be overwritten, and say what takes its place: in this order, whenever it is killed."""
        begun_here = identity_file.is_file()
        check_free(folder, self.overwrite or begun_here, is_run=begun_here or (folder / "recipe.yaml").is_file())
        self.processes.wait()  # all have looked at what is there
        if self.processes.main:
            shutil.rmtree(folder, ignore_errors=True)
            write_text(identity_file, json.dumps({"identity": identity}) + "\n")
        self.processes.wait()


def _state(recipe: Recipe, identity_file: Path, identity: str) -> State:
    folder = recipe.folder
    if not identity_file.is_file() or not all((folder / file).is_file() for file in ("recipe.yaml", LOG_FILE)):
        return "new"
    if json.loads(identity_file.read_text(encoding="utf-8"))["identity"] != identity:
        return "changed"
    if recipe.teachers and not Run(folder).recipe.teachers:  # `train` has taken the student's place since
        return "changed"
    return "finished" if is_finished(Run(folder)) else "unfinished"
