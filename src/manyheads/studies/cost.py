"""What a study would cost, before it is run."""

from __future__ import annotations

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.samplers import SamplerInput
from manyheads.studies.config import Study
from manyheads.studies.transfer import baseline_rows
from manyheads.studies.variants import base_recipe, make_rows, plan_runs
from manyheads.training.schedule import plan_schedule


def describe_cost(study: Study) -> str:
    """'4 rows, 18 runs, 360,000 examples', at the scale that is run by default."""
    scaled = study.at(None)
    seeds = len(scaled.seed_list)
    try:
        base = base_recipe(scaled, {})
        rows = make_rows(scaled, base)
        reference = rows[0]
        for row in rows:
            if row.name == scaled.to:
                reference = row
        first_seed = scaled.model_copy(update={"seeds": scaled.seed_list[:1]})
        runs = plan_runs(first_seed, [*rows, *baseline_rows(scaled, base, reference, {})], {})
    except UserError:  # its base is not here, or an encoder that must be downloaded
        return f"{len(scaled.variants)} variants × {_count(seeds, 'seed')}"
    row_seeds = {row.name: row.seed_count(scaled) for row in rows}  # others are baselines
    run_count = sum(row_seeds.get(planned.row, seeds) for planned in runs)
    words = [_count(len(rows), "row"), _count(run_count, "run")]
    examples = 0
    for planned in runs:
        run_examples = _examples(planned.recipe)
        if run_examples is None:
            return ", ".join(words)
        examples += run_examples * row_seeds.get(planned.row, seeds)
    words.append(f"{examples:,} examples")
    return ", ".join(words)


def _examples(recipe: Recipe) -> int | None:
    """How many a run trains on, as its caps and sampler say; None where it depends on the data."""
    sizes: dict[str, int] = {}
    for name, task in recipe.tasks.items():
        if task.max_train is None:
            return None
        sizes[name] = task.max_train
    batch_sizes = {name: task.batch_size or recipe.training.batch_size for name, task in recipe.tasks.items()}
    schedule = plan_schedule(recipe, SamplerInput(sizes, batch_sizes, recipe.seed))
    active_tasks = recipe.training.active_tasks or list(sizes)
    examples = 0
    for step in range(schedule.steps):
        for batches in schedule.rounds(step):
            for batch in batches:
                if batch.task in active_tasks:
                    examples += len(batch.indices)
    return examples


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {noun}s"
