"""The training loop on one page, then what it calls: evaluating, keeping the best, stopping, finishing."""

from __future__ import annotations

import json
import math
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter, duration
from manyheads.errors import Interrupted, UserError
from manyheads.inference.evaluate import Evaluation
from manyheads.inference.predict import predict_tasks, write_dev_predictions, write_predictions
from manyheads.parts.metrics import better, primary
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.runs.run import Run, evaluate_with_progress
from manyheads.runs.trackers import tracking
from manyheads.storage.files import restore_folder, write_text
from manyheads.training import checkpoint as saved
from manyheads.training.conflicts import measure_conflicts
from manyheads.training.frozen_cache import close_frozen_cache, open_frozen_cache
from manyheads.training.gradients.backward import NonFiniteLoss
from manyheads.training.interrupt import stop_signals
from manyheads.training.optim import clip_gradients, relative_rates, set_rates
from manyheads.training.pausing import pause_or_resume
from manyheads.training.plan import peak_gigabytes, short_plan
from manyheads.training.schedule import Phase, set_trainable
from manyheads.training.setup import TrainingJob, prepare


def train(recipe: Recipe, overwrite: bool = False, quiet: bool = False) -> Run:
    """Train a recipe in a new run folder and return the run."""
    folder = recipe.folder
    if folder.exists() and any(folder.iterdir()):
        if not overwrite:
            raise UserError(
                f"{folder}: this run folder exists already. Resume it (manyheads resume {folder}), "
                "choose another `name`, or overwrite it (--overwrite)."
            )
        if not (folder / "recipe.yaml").is_file():
            raise UserError(f"{folder}: not overwritten, because it is not a run folder: it has no recipe.yaml.")
        if recipe.init is not None and Path(recipe.init).resolve() == folder.resolve():
            raise UserError(f"{recipe.location('init')}: a run cannot overwrite the run it starts from; change `name`.")
    return _run(recipe, folder, Reporter(quiet), overwrite)


def resume(folder: str | Path, quiet: bool = False) -> Run:
    """Go on with a run that was stopped or killed; the result is the same as if it had not been."""
    run = Run(folder)
    restore_folder(run.folder / "best")
    if not run.metrics or not (run.folder / "best").is_dir():
        _run(run.recipe, run.folder, Reporter(quiet))
    return run


# --- the loop --------------------------------------------------------------------------------------------------


def _run(recipe: Recipe, folder: Path, reporter: Reporter, overwrite: bool = False) -> Run:
    job = prepare(recipe, folder, reporter, overwrite)
    with tracking(job):
        _train(job)
        run = _finish(job)
    if recipe.report and job.processes.main:
        _report(job)
    return run


def _train(job: TrainingJob) -> None:
    """All steps, from the first or from where an old run stopped."""
    recipe = job.recipe
    for line in short_plan(job):
        job.reporter.say(f"  {line}")
    progress = job.progress
    with stop_signals() as asked, job.reporter.job("train", job.steps, progress.step) as bar:
        if recipe.evaluate.before and not progress.step:
            _evaluate(job)
        current: Phase | None = None
        while progress.step < job.steps:
            step = progress.step
            phase = job.schedule.phase(step)
            if step == phase.first:
                progress.stale = 0
                job.schedule.begin(phase, job.model)
            if progress.out_of_patience(recipe):
                phase.combination.scalarizer.end_epoch()
                job.reporter.say(f"phase {phase.name} ends after step {step:,}: {progress.why_stopped(recipe)}")
                if phase is job.schedule.phases[-1] or len(progress.paused) == len(recipe.tasks):
                    break
                progress.step = phase.end
                continue
            if phase is not current:
                set_trainable(job.model, phase, recipe.training.frozen_dropout)
                began = time.monotonic()
                open_frozen_cache(job, phase)
                progress.seconds += time.monotonic() - began
                current = phase
            rounds = job.rounds_of(step)
            stopping = False
            if any(rounds):
                stopping = _step(job, phase, rounds, bool(asked))
                bar.update(progress.step, progress.status())
            else:  # all its tasks rest
                progress.step += 1
            epoch_over = progress.step in job.schedule.epoch_ends or progress.step == job.steps
            if epoch_over:
                phase.combination.scalarizer.end_epoch()
            often = recipe.evaluate.every_steps
            if progress.moved and (epoch_over or (often and progress.step % often == 0)):
                _evaluate(job)
            every = recipe.checkpoint.every_steps
            stopping = stopping or (job.processes.count == 1 and bool(asked))
            if epoch_over or stopping or (every and progress.step % every == 0):
                job.save()
            if stopping and progress.step < job.steps:
                job.processes.wait()  # for the one that saves
                raise Interrupted.run(job.folder, progress.step, asked[0] if asked else signal.SIGTERM)
    if progress.moved or "" not in progress.best:  # the end came before an evaluation, or best/ was lost after it
        _evaluate(job)
        job.save()


def _step(job: TrainingJob, phase: Phase, rounds: list[list[Batch]], asked: bool) -> bool:
    """One optimizer step. Returns whether any process was asked to stop."""
    recipe, training, progress = job.recipe, job.recipe.training, job.progress
    step = progress.step
    began = time.monotonic()
    learning_rate = phase.peak * phase.rate_factor(step)
    set_rates(job.optimizer, phase.peak, phase.rate_factor(step))
    conflicts = measure_conflicts(job, phase, rounds)
    try:
        done = job.backward.step(rounds, phase.combination, (recipe.seed, step), phase.regularisers, asked)
    except NonFiniteLoss as fault:
        where = {fault.task: fault.rows}
        raise _not_finite(job, f"the loss of task '{fault.task}'", fault.value, where) from None
    norm = clip_gradients(job.optimizer, training.max_grad_norm)
    if not math.isfinite(norm):
        where = {batch.task: batch.rows.tolist() for one in rounds for batch in one}
        raise _not_finite(job, f"the gradient of tasks {', '.join(where)}", norm, where)
    job.optimizer.step()
    job.optimizer.zero_grad(set_to_none=True)
    phase.combination.scalarizer.observe(done.losses)
    for one in phase.regularisers:
        one.after_step(job.model)
    progress.count(rounds, time.monotonic() - began)
    change: dict[str, Any] = {**job.schedule.change_at(step)}  # a new phase or epoch, with what it changes
    if step == phase.first:
        change["learning_rates"] = relative_rates(job.optimizer, phase.peak)
    weights = {} if isinstance(phase.combination.scalarizer, Sum) else {"weights": done.factors}  # of the scalarizer
    surgery = {"surgery": done.weights} if done.weights else {}  # what the aggregator did
    terms = {"regularise": done.terms} if done.terms else {}
    more = {**weights, **surgery, **terms, **change}
    job.write_log({"event": "step", "loss": done.losses, "learning_rate": learning_rate, "gradient_norm": norm, **more})
    if conflicts is not None:
        job.write_log(conflicts.record(done, phase))
    progress.note_losses(done.losses)
    progress.moved = True
    return done.alarmed


# --- evaluating, and the end -----------------------------------------------------------------------------------


def _evaluate(job: TrainingJob) -> None:
    """Evaluate, log, and keep the model where it is the best so far, over all or for a task."""
    told: dict[str, Any] | None = None
    job.progress.moved = False
    if job.processes.main:
        told = evaluate_with_progress(job.model, job.watched, job.recipe, job.reporter, job.watched_rows)[0].to_json()
    found = Evaluation(**job.processes.tell(told))
    job.write_log({"event": "evaluate", **found.to_json(), "seen": job.progress.examples})
    shown = "  ".join(f"{task} {_shown(job, found, task)}" for task in found.metrics)
    job.reporter.say(f"step {job.progress.step:,}  epoch {job.epoch()}  {shown}  overall {found.overall:.3f}")
    if not job.progress.step:
        return  # an untrained model is not a candidate
    tasks = {name: job.model.tasks[name] for name in job.watched if job.recipe.checkpoint.best_per_task}
    scores = {"": found.overall, **{task: found.metrics[task][primary(tasks[task])] for task in tasks}}
    written: Path | None = None
    best = job.progress.best
    job.progress.stale += 1
    for task, value in scores.items():
        before = best[task]["value"] if task in best else None
        beaten = better(tasks[task], value, before) if task else before is None or found.overall > before
        if beaten or task not in best:
            best[task] = {"value": value, "step": job.progress.step}
            if not task:
                job.progress.stale = 0
            folder = job.folder / (f"best-{task}" if task else "best")
            if not job.processes.main:
                continue
            if written is None:
                saved.save_model(folder, job.model, job.encoder_folder, _about(job, found))
                written = folder
            else:
                saved.link_folder(written, folder)
    pause_or_resume(job, found)


def _about(job: TrainingJob, found: Evaluation) -> dict[str, Any]:
    """What a model folder says of itself: which step, and the figures on which best/ and best-TASK/ are chosen."""
    counts = ", ".join(f"{task} {found.examples[task]:,} of {len(job.watched[task]):,}" for task in found.examples)
    split = "dev" if job.watched is job.dev else "held-out train"
    return {
        "run": job.recipe.name,
        "step": job.progress.step,
        "epoch": job.epoch(),
        "chosen_on": f"{split} examples: {counts}; best/ by the overall score, best-TASK/ by the task's primary metric",
        "metrics": found.metrics,
        "overall": found.overall,
    }


def _shown(job: TrainingJob, found: Evaluation, task: str) -> str:
    metric = primary(job.model.tasks[task])
    value = found.metrics[task][metric]
    return f"{metric} {'undefined' if value is None else f'{value:.3f}'}"


def _not_finite(job: TrainingJob, what: str, value: float, rows: dict[str, list[int]]) -> UserError:
    places = "; ".join(
        f"{task} {', '.join(job.train[task].examples.location(row) for row in some[:4])}{' …' if len(some) > 4 else ''}"
        for task, some in rows.items()
    )
    kept = saved.find_checkpoints(job.folder / "checkpoints")
    last = f"The last good checkpoint is {kept[-1]}." if kept else "No checkpoint was written yet."
    job.write_log({"event": "not finite", "what": what, "value": str(value), "rows": rows})
    terms = ", ".join(one.name for one in job.schedule.phase(job.progress.step).regularisers)
    weaker = f" or the weight of {terms}" if terms else ""
    return UserError(
        f"Step {job.progress.step + 1:,}: {what} is {value}. Its batch: {places}.\n"
        f"{last} Lower training.learning_rate{weaker}, or look at those rows."
    )


def _finish(job: TrainingJob) -> Run:
    """Evaluate the best model on all of dev, write predictions and metrics.json."""
    run = Run(job.folder)
    if not job.processes.main:
        job.processes.leave()
        return run
    model = run.model.to(job.accelerator.device)
    close_frozen_cache(job)  # which are of the last phase's encoder
    found, predictions = evaluate_with_progress(model, job.dev, job.recipe, job.reporter)
    folder = job.folder / "predictions"
    for name, data in job.dev.items():
        write_predictions(folder, data, "dev", predictions[name], np.flatnonzero(data.examples.labelled))
    write_dev_predictions(job.folder / "dev.safetensors", job.dev, predictions)
    for name, tested in predict_tasks(model, job.test, job.recipe.evaluate.tokens_per_pass).items():
        write_predictions(folder, job.test[name], "test", tested)
    metrics = {
        "dev": found.to_json(),
        "model": run.about,
        "best": {task or "overall": value for task, value in job.progress.best.items()},
        "examples_seen": job.progress.examples,
        "pauses": job.progress.pauses,
        "steps": job.progress.step,
        "seconds": round(job.progress.seconds, 1),
        "peak_gigabytes": round(peak_gigabytes(), 3),
        "notes": job.notes,
        "data": job.data_fingerprint,
    }
    before = _first_evaluation(RunLog(job.folder / LOG_FILE))
    if before is not None and job.watched is job.dev:
        metrics["before"] = before
    job.write_log({"event": "end", "dev": found.to_json(), "notes": job.notes})
    write_text(job.folder / "metrics.json", json.dumps(metrics, indent=2) + "\n")
    job.reporter.say(f"trained {job.progress.step:,} steps in {duration(job.progress.seconds)} → {job.folder}")
    for note in job.notes:
        job.reporter.say(f"note: {note}")
    job.processes.leave()
    return run


def _report(job: TrainingJob) -> None:
    """The run's report. The run is finished already: a report that fails must not look like a run that did."""
    from manyheads.reports.write import write_report

    try:
        job.reporter.say(f"report → {write_report(job.folder)}")
    except UserError as fault:
        job.reporter.say(f"note: no report was written: {fault}")
    except Exception as error:
        job.reporter.say(f"note: no report was written: {error!r}. More: manyheads report {job.folder}")


def _first_evaluation(log: RunLog) -> dict[str, Any] | None:
    for record in log.records():
        if record["event"] == "evaluate" and record["step"] == 0:
            return {key: record[key] for key in ("metrics", "overall", "examples")}
    return None
