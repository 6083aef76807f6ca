"""The head of a model card, as the hub reads it: YAML with licence, base model, and metrics as a `model-index`."""

from __future__ import annotations

from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from manyheads.parts.metrics.scoring import metric_name
from manyheads.publishing.facts import CardFacts, DataSet
from manyheads.publishing.licences import licence_fields

LIBRARY = "manyheads"
# ours → the hub's id of the same figure; others keep their names
METRIC_IDS = {
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "macro-f1": "f1",
    "micro-f1": "f1",
    "f1-per-class": "f1",
    "auc": "roc_auc",
    "exact-match": "accuracy",
}
DIGITS = 6


def card_data(facts: CardFacts, name: str) -> ModelCardData:
    task_types = {task.kind.hub_task for task in facts.run.tasks.values()}
    task_type = task_types.pop() if len(task_types) == 1 else "text-classification"
    if "token-classification" in task_types:
        task_type = "token-classification"
    fields: dict[str, Any] = licence_fields(facts.settings.licence)
    if facts.base_model is not None:
        fields |= {"base_model": facts.base_model, "base_model_relation": "finetune"}
    if facts.settings.languages:
        fields["language"] = list(facts.settings.languages)
    return ModelCardData(
        model_name=name,
        eval_results=_results(facts),
        library_name=LIBRARY,
        pipeline_tag=task_type,
        tags=_tags(facts),
        datasets=_hub_datasets(facts) or None,
        metrics=_metric_ids(facts) or None,
        **fields,
    )


def _tags(facts: CardFacts) -> list[str]:
    tags = [LIBRARY, "bert", "text-classification"]
    if len(facts.run.tasks) > 1:
        tags.append("multi-task-learning")
    for task in facts.run.tasks.values():
        if task.kind.name not in tags:
            tags.append(task.kind.name)
    return tags


def _hub_datasets(facts: CardFacts) -> list[str]:
    """Ids of data sets on the hub; files have none."""
    ids: dict[str, None] = {}
    for settings in facts.recipe.tasks.values():
        for source in settings.train or []:
            if source.hub is not None and "/" in source.hub and not source.hub.startswith((".", "/", "~")):
                ids[source.hub] = None
    return list(ids)


def _metric_ids(facts: CardFacts) -> list[str]:
    ids: dict[str, None] = {}
    for metrics in facts.run.metrics["dev"]["metrics"].values():
        for metric in metrics:
            ids[_metric_id(metric)] = None
    return list(ids)


def _metric_id(metric: str) -> str:
    name = metric_name(metric)
    return METRIC_IDS.get(name, name)


def _results(facts: CardFacts) -> list[EvalResult]:
    """A result per task, split and metric that is defined."""
    results: list[EvalResult] = []
    for task_name, task in facts.run.tasks.items():
        for dataset in facts.datasets(task_name):
            metrics = facts.run.metrics.get(dataset.split, {}).get("metrics", {}).get(task_name, {})
            for metric, value in metrics.items():
                if value is not None:
                    results.append(_result(task_name, dataset, metric, value, task.kind.hub_task))
    return results


def _result(task_name: str, dataset: DataSet, metric: str, value: float, task_type: str) -> EvalResult:
    return EvalResult(
        task_type=task_type,
        task_name=task_name,
        dataset_type=dataset.kind,
        dataset_name=f"{task_name}: {dataset.name}",
        dataset_config=dataset.config or task_name,  # keeps results apart of tasks that read one file
        dataset_split=dataset.split,
        dataset_revision=dataset.revision,
        metric_type=_metric_id(metric),
        metric_name=metric,
        metric_value=round(value, DIGITS),
    )
