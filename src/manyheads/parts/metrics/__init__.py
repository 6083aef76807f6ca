"""(predictions, labels) → how good they are. Importing registers every metric."""

from manyheads.parts.metrics import (  # noqa: F401  (their import registers them)
    answers,
    classes,
    numbers,
    ordinal,
    ranks,
    tags,
)
from manyheads.parts.metrics.base import Metric, Scale, metric, why_incompatible
from manyheads.parts.metrics.scoring import (
    better,
    default_metrics,
    measured_by,
    metric_name,
    overall,
    primary,
    score,
    worse_by,
)

__all__ = [
    "Metric",
    "Scale",
    "better",
    "default_metrics",
    "measured_by",
    "metric",
    "metric_name",
    "overall",
    "primary",
    "score",
    "why_incompatible",
    "worse_by",
]
