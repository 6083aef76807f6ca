"""Which parts of a task go together, each with its reason. Parts are asked through the registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from manyheads import registry
from manyheads.config.part import PartConfig

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


def factory_of(family: str, part: PartConfig) -> Any:
    """What builds the part, and says of itself what it fits."""
    return registry.find(family, part.name).factory


def gives_similarity(encoding: PartConfig | None) -> bool:
    """Whether the encoding's feature is itself the prediction. No encoding is one that gives features."""
    return encoding is not None and factory_of("encodings", encoding).gives in ("cosine", "similarity")


def gives_vectors(encoding: PartConfig | None) -> bool:
    """Whether the encoding gives a vector per text."""
    return encoding is not None and factory_of("encodings", encoding).gives == "vectors"


def ignores_order(encoding: PartConfig) -> bool:
    """Whether the encoding gives the same for both orders of a pair."""
    return bool(getattr(factory_of("encodings", encoding), "symmetric", False))


def why_head_incompatible(encoding: PartConfig | None, head: PartConfig) -> str | None:
    """Why the head cannot read what the encoding gives, or None. Any reads vectors, or leaves them as they are."""
    if gives_vectors(encoding):
        return None
    reads_similarity = getattr(factory_of("heads", head), "reads_similarity", False)
    if gives_similarity(encoding) == reads_similarity:
        return None
    if encoding is not None and not reads_similarity:
        return f"'{encoding.name}' gives the prediction itself; use head 'none'."
    features = f"of what '{encoding.name}' gives" if encoding else "of features"
    return f"'{head.name}' makes no prediction {features}; use 'linear', or one of the cosine encodings."


def why_output_incompatible(encoding: PartConfig | None, output: PartConfig) -> str | None:
    """Why the output does not go with the encoding, or None."""
    similarity = gives_similarity(encoding)
    if similarity == (output.name == "similarity"):
        return None
    needed = "'similarity'" if similarity else "'raw', 'clamp' or 'sigmoid'"
    named = f"encoding '{encoding.name}'" if encoding else "this encoding"
    return f"'{output.name}' does not go with {named}; use {needed}."


def incompatible_parts(task: Task) -> list[tuple[str, str]]:
    """Every part that does not fit the task or the task's other parts: (key, reason)."""
    loss = factory_of("losses", task.loss)
    reasons: list[tuple[str, str | None]] = [
        ("encoding", factory_of("encodings", task.encoding).why_incompatible(task)),
        ("text", _why_texts_incompatible(task)),
        ("loss", _why_loss_incompatible(task, loss)),
        *_similarity_reasons(task, loss),
        ("head", why_head_incompatible(task.encoding, task.head)),
        (
            "output",
            why_output_incompatible(task.encoding, task.output)
            or factory_of("outputs", task.output).why_incompatible(task),
        ),
        ("pooling", _why_pooling_incompatible(task)),
        *_metric_reasons(task),
        *task.kind.why_parts_incompatible(task),
    ]
    return [(part, reason) for part, reason in reasons if reason]


def _why_texts_incompatible(task: Task) -> str | None:
    if task.kind.per_token and task.pair and not factory_of("encodings", task.encoding).joins_texts:
        return f"{task.kind.called} reads question and text as one input; use encoding 'cross'."
    if task.kind.per_word and task.pair:
        return f"{task.kind.called} has labels for the words of one text, this task has two text columns."
    return None


def _why_loss_incompatible(task: Task, loss: Any) -> str | None:
    if task.kind.per_token and task.kind.label_type not in loss.label_types:
        advice = task.kind.default_loss(task.labels)
        return f"'{task.loss.name}' needs a label per text, this task is {task.kind.called}; use '{advice}'."
    if task.kind.per_candidate and task.kind.label_type not in loss.label_types:
        advice = task.kind.default_loss(task.labels)
        return f"'{task.loss.name}' needs a label without candidates, this task is {task.kind.called}; use '{advice}'."
    if task.kind.word_columns and task.kind.label_type not in loss.label_types:
        advice = task.kind.default_loss(task.labels)
        return f"'{task.loss.name}' needs a label per text, this task is {task.kind.called}; use '{advice}'."
    reason: str | None = loss.why_incompatible(task)
    return reason


def _similarity_reasons(task: Task, loss: Any) -> Iterator[tuple[str, str]]:
    if not gives_similarity(task.encoding):
        return
    encoding = task.encoding.name
    if task.kind.per_candidate:
        yield "encoding", f"'{encoding}' gives one similarity, {task.kind.called} needs a score; use 'cross'."
    elif not task.kind.reads_similarity(task):
        yield (
            "encoding",
            f"'{encoding}' gives one similarity, which serves numbers or a classification of two classes; "
            f"this task is {task.kind.called} of {len(task.labels.names)} classes.",
        )
    elif loss.why_incompatible(task) is None and _outputs_of_loss(task) not in (1, None):
        yield (
            "loss",
            f"'{task.loss.name}' needs an output per class, '{encoding}' gives one similarity; "
            "use 'binary-cross-entropy'.",
        )


def _outputs_of_loss(task: Task) -> int | None:
    """How many outputs the task's loss reads; None where it cannot even be built, which is another fault."""
    try:
        return int(task.loss.build("losses", task).outputs)
    except ValueError:
        return None


def brought_pooling(head: PartConfig) -> PartConfig | None:
    """The pooling that a head brings with it, where it reads token states itself."""
    factory = factory_of("heads", head)
    if not hasattr(factory, "pooling"):
        return None
    pooling: PartConfig | None = factory.pooling(head.options)
    return pooling


def _why_pooling_incompatible(task: Task) -> str | None:
    if factory_of("pooling", task.pooling).reads_words != task.kind.in_windows:
        gives = "a vector per example" if task.kind.in_windows else "a vector per word"
        return f"'{task.pooling.name}' gives {gives}, which does not fit {task.kind.called}."
    brought = brought_pooling(task.head)
    if brought is None or brought == task.pooling:
        return None
    return f"head '{task.head.name}' reads the token states itself; leave 'pooling' out."


def _metric_reasons(task: Task) -> Iterator[tuple[str, str | None]]:
    for metric in task.metrics:
        factory = factory_of("metrics", metric)
        if not hasattr(factory, "why_incompatible"):
            reason = f"'{metric.name}' is registered without saying which labels it measures; use @metric"
            yield "metrics", f"{reason} of manyheads.parts.metrics."
            return
        yield "metrics", factory.why_incompatible(task)
    if task.metrics and getattr(factory_of("metrics", task.metrics[0]), "per_class", False):
        yield "metrics", f"'{task.metrics[0].name}' has a number per class, so it cannot be the first."
    if len({metric.model_dump_json() for metric in task.metrics}) < len(task.metrics):
        yield "metrics", "a metric is named twice."
