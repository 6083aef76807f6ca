"""What training does at each step: get ready, step, log, evaluate, keep the best; and at the end."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from manyheads.console import counted, duration
from manyheads.errors import UserError
from manyheads.parts.scalarizers import Sum
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.runs.run import Run
from manyheads.runs.trackers import numbers_of
from manyheads.storage.files import write_text
from manyheads.training.baselines import majority_baseline
from manyheads.training.best_models import OVERALL
from manyheads.training.conflicts import ConflictMeter, Measured
from manyheads.training.datasets import batches_of
from manyheads.training.evaluator import Evaluator
from manyheads.training.extension import earlier_fingerprint
from manyheads.training.finish import figures_before_training, predict_dev, predict_test
from manyheads.training.frozen_cache import FrozenCache
from manyheads.training.gradients.backward import Step
from manyheads.training.gradients.non_finite import NonFiniteLoss, not_finite_error
from manyheads.training.mining import Mining
from manyheads.training.optim import clip_gradients, relative_rates, set_rates
from manyheads.training.pausing import PausedTasks
from manyheads.training.plan import peak_gigabytes, short_plan
from manyheads.training.probe import Prober
from manyheads.training.run_folder import checkpoints_of, open_folder, write_recipe, write_tasks
from manyheads.training.schedule import CombinerState, Phase, set_trainable
from manyheads.training.setup import Setup, machine_facts
from manyheads.training.start_weights import START_WEIGHTS, fingerprint_weights
from manyheads.training.state import (
    COMBINER_STATE,
    MODEL,
    DataUnchanged,
    MachineUnchanged,
    NamedOptimizer,
    Progress,
    TrainingState,
    find_checkpoints,
)
from manyheads.training.summary import describe_run
from manyheads.training.teaching.cost import describe_cost, distillation_cost
from manyheads.training.weight_averaging import averaging_entries


class Trainer:
    """One training under way."""

    name = "train"

    def __init__(self, setup: Setup, folder: Path) -> None:
        recipe, model, schedule = setup.recipe, setup.model, setup.schedule
        self.setup, self.recipe, self.folder = setup, recipe, folder
        self.model, self.datasets, self.schedule = model, setup.datasets, schedule
        self.steps = schedule.steps
        self.phase: Phase | None = None  # that model and cache are ready for
        self.log = RunLog(folder / LOG_FILE)
        self.cache = FrozenCache(model, setup.datasets, recipe.training, setup.reporter, setup.processes)
        self.data_fingerprints = setup.datasets.fingerprint()
        if setup.teaching:
            self.data_fingerprints |= setup.teaching.fingerprints()
        self.machine = machine_facts(recipe, setup.processes)
        self.progress, self.pausing = Progress(), PausedTasks()
        self.evaluator = Evaluator(setup, folder, self.progress, self.write_log)
        self.best, self.averaging = self.evaluator.best, self.evaluator.averaging
        self.conflicts = ConflictMeter(
            setup.backward, setup.datasets.train, schedule.batch_sizes, recipe.training.conflicts, recipe.seed
        )
        self.mining = Mining(model, setup.datasets.train, recipe.evaluate.tokens_per_pass)
        self.state = TrainingState(
            {
                "data": DataUnchanged(folder, {**self.data_fingerprints, **earlier_fingerprint(model)}),
                "machine": MachineUnchanged(self.machine, setup.reporter),
                "progress": self.progress,
                "best": self.best,
                "pausing": self.pausing,
                "conflicts": self.conflicts,
                MODEL: model,
                COMBINER_STATE: CombinerState(schedule, model, self.progress),
                "optimizer": NamedOptimizer(setup.optimizer, {"": model, COMBINER_STATE: schedule.combiner_state}),
                **averaging_entries(self.averaging),
                **({"mined": self.mining} if self.mining.of_files else {}),
            },
            recipe.checkpoint.keep,
        )

    def open(self, overwrite: bool) -> None:
        """Make the run folder, or read the checkpoint in it; say what will be done."""
        setup, reporter = self.setup, self.setup.reporter
        resumed = open_folder(self.folder, self.state, self.progress, reporter, setup.processes, overwrite)
        if resumed:
            self.best.forget_lost(self.folder, reporter)
            if self.averaging:
                self.averaging.forget_lost(reporter)
        elif setup.processes.main:
            write_recipe(self.folder, self.recipe, self.model.tasks)
            start = {"steps": self.steps, "batch_sizes": self.schedule.batch_sizes, "machine": self.machine}
            self.write_log({"event": "start", **start, "notes": self.datasets.notes})  # makes it a run: early
            write_tasks(self.folder, self.model.tasks)
        for line in describe_run(self.recipe, self.folder, self.model, self.datasets, self.schedule):
            reporter.say(line)
        for line in short_plan(self.model, self.datasets, self.schedule):
            reporter.say(f"  {line}")
        if setup.teaching:
            reporter.say(setup.teaching.describe())
            setup.teaching.open(self.steps, reporter, setup.processes)

    def start(self) -> None:
        if self.progress.step:
            return
        if self.recipe.training.probe:
            began = time.monotonic()
            self._probe()
            self.progress.seconds += time.monotonic() - began
        if self.setup.processes.main:
            self.write_log({"event": START_WEIGHTS, **fingerprint_weights(self.model)})
        if self.recipe.training.probe or self.recipe.evaluate.before:
            self.evaluate()

    def _probe(self) -> None:
        """Give the heads their start, and measure the baseline, in the main process; all get the heads."""
        setup = self.setup
        if setup.processes.main:
            prober = Prober(self.recipe, self.model, self.datasets, setup.reporter, setup.accelerator.autocast)
            probe = prober.run(setup.heads_taken_over)
            self.write_log({"event": "probe", **probe.to_json()})
            self.evaluator.say(probe.selection, "frozen encoder + linear model  ")
        setup.processes.copy_from_main(list(self.model.head_states().values()))
        if self.averaging:
            self.averaging.average.restart()

    def ready(self) -> bool:
        """Enter the phase of the next step, past phases that ended early; False where nothing is left to train."""
        while True:
            phase = self.schedule.phase(self.progress.step)
            if self.progress.step == phase.first:
                self.best.evaluations_without_improvement = 0
                self.schedule.begin(phase, self.model)
            reason = self._why_ended()
            if reason is None:
                break
            phase.combination.scalarizer.end_epoch()
            self.setup.reporter.say(f"phase {phase.name} ends after step {self.progress.step:,}: {reason}")
            if phase is self.schedule.phases[-1] or self._all_paused():
                return False
            self.progress.step = phase.end
        if phase is not self.phase:
            set_trainable(self.model, phase, self.recipe.training.frozen_dropout)
            began = time.monotonic()
            self.cache.open(phase)
            self.progress.seconds += time.monotonic() - began
            self.phase = phase
        return True

    def _why_ended(self) -> str | None:
        """Why a phase ends before its last step: nothing improves any more."""
        if self._all_paused():
            return "all tasks are paused"
        patience = self.recipe.training.patience
        if patience is not None and self.best.evaluations_without_improvement >= patience:
            return "the overall score has not improved"
        return None

    def _all_paused(self) -> bool:
        return len(self.pausing.paused) == len(self.recipe.tasks)

    def step(self, stop_requested: bool) -> bool:
        step, setup = self.progress.step, self.setup
        phase = self.schedule.phase(step)
        rounds = self.datasets.usable(self.schedule.rounds(step), self.pausing.paused)
        if not any(rounds):  # all its tasks are paused
            self.progress.step += 1
            return False
        began = time.monotonic()
        factor = phase.rate_factor(step)
        set_rates(setup.optimizer, phase.peak, factor)
        conflicts = self.conflicts.measure(phase, rounds, self.progress, self.pausing.paused)
        seeds = (self.recipe.seed, step)
        try:
            result = setup.backward.step(rounds, phase.combination, seeds, phase.regularisers, stop_requested)
        except NonFiniteLoss as fault:
            subject = f"the loss of task '{fault.task}'"
            raise self._not_finite(phase, subject, fault.value, {fault.task: fault.rows}) from None
        norm = clip_gradients(setup.optimizer, self.recipe.training.max_grad_norm)
        if not math.isfinite(norm):
            rows = {batch.task: batch.indices.tolist() for batch in batches_of(rounds)}
            raise self._not_finite(phase, f"the gradient of tasks {', '.join(rows)}", norm, rows)
        setup.optimizer.step()
        setup.optimizer.zero_grad(set_to_none=True)
        phase.combination.scalarizer.observe(result.mean_losses)
        for regulariser in phase.regularisers:
            regulariser.after_step(self.model)
        if self.averaging:
            self.averaging.average.update()
        self.progress.count(rounds, time.monotonic() - began)
        self.progress.note_losses(result.raw_losses)
        self._log_step(phase, result, phase.peak * factor, norm, conflicts)
        return result.alarmed

    def end_step(self) -> bool:
        step = self.progress.step
        epoch_over = step in self.schedule.epoch_ends
        if epoch_over:
            self.schedule.phase(step - 1).combination.scalarizer.end_epoch()
        every = self.recipe.evaluate.every_steps
        due = epoch_over or step in self.schedule.pass_ends or (every and step % every == 0)
        if self.progress.changed_since_evaluation and due:
            self.evaluate()
        if epoch_over and step < self.steps and self.mining.of_files:
            self._mine()
        return epoch_over

    def _mine(self) -> None:
        """Wrong answers for the next epoch."""
        began = time.monotonic()
        counts = self.mining.mine()
        self.progress.seconds += time.monotonic() - began
        self.write_log({"event": "mine", "negatives": counts})
        for task, count in counts.items():
            self.setup.reporter.say(f"{task}: {count:,} wrong answers mined")

    def evaluate(self) -> None:
        """Evaluate, log, keep the model where it is the best so far; pause and resume tasks."""
        self.progress.changed_since_evaluation = False
        evaluation = self.evaluator.evaluate()
        if evaluation is None:
            return
        for record in self.pausing.update(self.recipe.tasks, self.model.tasks, evaluation, self.progress):
            self.write_log(record)
            self.setup.reporter.say(f"task {record['task']} {record['what']}")

    # --- the log ---------------------------------------------------------------------------------------------------

    def write_log(self, record: dict[str, Any]) -> None:
        """To log.jsonl with where the run stands, and to trackers."""
        if not self.setup.processes.main:
            return
        step = self.progress.step
        where = {"step": step, "epoch": self.schedule.epochs_begun(step), "seconds": round(self.progress.seconds, 3)}
        self.log.append({**record, **where})
        numbers = numbers_of(record)
        if self.recipe.trackers and numbers:
            self.setup.accelerator.log(numbers, step=step)

    def _log_step(
        self, phase: Phase, result: Step, learning_rate: float, norm: float, conflicts: Measured | None
    ) -> None:
        step = self.progress.step - 1  # the one that was taken
        record: dict[str, Any] = {"event": "step", "loss": result.raw_losses}
        record |= {"learning_rate": learning_rate, "gradient_norm": norm}
        if not isinstance(phase.combination.scalarizer, Sum):
            record["weights"] = result.factors
        if result.weights:
            record["surgery"] = result.weights  # what the aggregator did
        if result.terms:
            record["regularise"] = result.terms
        if self.setup.teaching:
            record["gold_share"] = self.setup.teaching.gold_share(step)
        record |= self.schedule.change_at(step)  # a new phase or epoch, with what it changes
        if step == phase.first:
            record["learning_rates"] = relative_rates(self.setup.optimizer, phase.peak)
        self.write_log(record)
        if conflicts is not None:
            self.write_log(conflicts.record(result, phase))

    def _not_finite(self, phase: Phase, subject: str, value: float, rows: dict[str, list[int]]) -> UserError:
        self.write_log({"event": "not finite", "what": subject, "value": str(value), "rows": rows})
        checkpoints = find_checkpoints(checkpoints_of(self.folder))
        return not_finite_error(
            self.progress.step,
            subject,
            value,
            rows,
            self.datasets.train,
            checkpoints[-1] if checkpoints else None,
            [regulariser.name for regulariser in phase.regularisers],
        )

    # --- the end ---------------------------------------------------------------------------------------------------

    def _lacks_best(self) -> bool:
        """Whether best/ or best-averaged/ was lost after the last evaluation."""
        if self.averaging and self.averaging.best.best_overall is None:
            return True
        return OVERALL not in self.best.best

    def finish(self) -> None:
        """Evaluate the best model on all of dev and on test, write predictions and metrics.json."""
        main, reporter = self.setup.processes.main, self.setup.reporter
        if self.progress.changed_since_evaluation or self._lacks_best():  # the end came before an evaluation
            self.evaluate()
            if main:
                self.state.save(checkpoints_of(self.folder), self.progress.step)
        if not main:
            return
        run = Run(self.folder)
        self.cache.close()  # which is of the last phase's encoder
        model = run.model.to(self.setup.accelerator.device)
        own_predictions = self.evaluator.dev_predictions.of_best(self.datasets)
        dev, calibration = predict_dev(model, self.folder, self.datasets, self.recipe, reporter, own_predictions)
        test = predict_test(model, self.folder, self.datasets, self.recipe, reporter)
        metrics = {"dev": dev, "model": run.about, **self._training_metrics()}
        if calibration:
            metrics["calibration"] = calibration
        end = {"event": "end", "dev": dev, "notes": self.datasets.notes}
        if test:
            metrics["test"] = end["test"] = test
        if "cost" in metrics:
            reporter.say(describe_cost(metrics["cost"]))
        self.write_log(end)
        # calibrated, as those are whose predictions a report shows; a model that was extended has others too
        write_tasks(self.folder, {name: model.tasks[name] for name in self.model.tasks})
        write_text(self.folder / "metrics.json", json.dumps(metrics, indent=2) + "\n")
        steps, seconds = counted(self.progress.step, "step"), self.progress.seconds
        reporter.say(f"trained {steps} in {duration(seconds)} → {self.folder}")
        if self.averaging:
            reporter.say(self.averaging.describe_best(self.best.best[OVERALL]))
        for note in self.datasets.notes:
            reporter.say(f"note: {note}")

    def _training_metrics(self) -> dict[str, Any]:
        """What metrics.json has beside the best model's figures: what it took, and what to hold them against."""
        metrics: dict[str, Any] = {
            "best": {name or "overall": value for name, value in self.best.best.items()},
            "examples_seen": self.progress.examples,
            "pauses": self.pausing.history,
            "steps": self.progress.step,
            "seconds": round(self.progress.seconds, 1),
            "peak_gigabytes": round(peak_gigabytes(), 3),
            "notes": self.datasets.notes,
            "data": self.data_fingerprints,
            "majority": majority_baseline(self.datasets, self.recipe),
        }
        if self.setup.teaching:
            metrics["cost"] = distillation_cost(self.setup.teaching, self.progress)
        if self.averaging:
            metrics["averaged"] = self.averaging.final_metrics(self.datasets, self.recipe, self.setup.reporter)
        return {**metrics, **figures_before_training(self.log, self.datasets)}
