"""What a study would cost, said before it is run."""

from __future__ import annotations

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.samplers import SamplerInput
from manyheads.studies.config import Study
from manyheads.studies.transfer import baseline_rows
from manyheads.studies.variants import base_recipe, plan_runs, rows_of
from manyheads.training.schedule import plan_schedule


def describe_cost(study: Study) -> str:
    """'4 rows, 18 runs, 360,000 examples', at the scale that is run by default."""
    at = study.at(None)
    try:
        base = base_recipe(at, {})
        rows = rows_of(at, base)
        shared = next((row for row in rows if row.name == at.to), rows[0])
        one_seed = at.model_copy(update={"seeds": at.seed_list[:1]})
        runs = plan_runs(one_seed, [*rows, *baseline_rows(at, base, shared, {})], {})
    except UserError:  # its base is not here, or an encoder that must be fetched
        return f"{len(at.variants)} variants × {_count(len(at.seed_list), 'seed')}"
    seeds = len(at.seed_list)
    words = [_count(len(rows), "row"), _count(len(runs) * seeds, "run")]
    examples = [_examples(one.recipe) for one in runs]
    if None not in examples:
        words.append(f"{sum(one or 0 for one in examples) * seeds:,} examples")
    return ", ".join(words)


def _examples(recipe: Recipe) -> int | None:
    """How many a run trains on, as its caps and sampler say; None where the data alone would tell."""
    sizes = {name: task.max_train for name, task in recipe.tasks.items()}
    capped = {name: size for name, size in sizes.items() if size is not None}
    if len(capped) < len(sizes):
        return None
    batches = {name: task.batch_size or recipe.training.batch_size for name, task in recipe.tasks.items()}
    schedule = plan_schedule(recipe, SamplerInput(capped, batches, recipe.seed))
    return sum(
        len(batch.rows)
        for step in range(schedule.steps)
        for one in schedule.rounds(step)
        for batch in one
        if batch.task in (recipe.training.active_tasks or capped)
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
