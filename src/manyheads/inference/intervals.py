"""95 % intervals of a task's metrics over the choice of examples."""

from __future__ import annotations

import numpy as np

from manyheads.inference.bootstrap import drawn_metrics
from manyheads.tasks.kind import Labels, Predictions
from manyheads.tasks.task import Task

Z = 1.96  # of a 95 % interval
Interval = tuple[float, float]


def metric_intervals(
    task: Task, metrics: dict[str, float | None], predictions: Predictions, labels: Labels
) -> dict[str, Interval | None]:
    """The percentile bootstrap's 95 % interval of each metric; None where a metric, or its interval, is undefined.

    m*_1 … m*_B are the metric on n examples drawn with replacement from the n that there are. The interval reaches
    from the 0.025 to the 0.975 quantile of the m*_b that are defined. B = 1000; 200 for metrics other than accuracy
    and Pearson's correlation. The draws depend on n alone: two models measured on the same examples have the same ones.

    The interval always reaches the metric itself, which draws of a biased metric may leave out: average precision and
    calibration error rise where examples repeat. An accuracy of 0 or 1 is the same in every draw, which says nothing of
    how sure it is: it has Wilson's interval.
    """
    defined = {metric: value for metric, value in metrics.items() if value is not None}
    intervals: dict[str, Interval | None] = dict.fromkeys(metrics)
    if len(labels) < 2 or not defined:
        return intervals
    drawn = drawn_metrics(task, list(defined), predictions, labels, "intervals")
    for metric, value in defined.items():
        values = drawn[metric][np.isfinite(drawn[metric])]
        if len(values) > 1 and values.min() < values.max():
            low, high = np.quantile(values, [0.025, 0.975])
            intervals[metric] = (min(float(low), value), max(float(high), value))
        elif metric == "accuracy":
            intervals[metric] = wilson_interval(value, len(labels))
    return intervals


def wilson_interval(share: float, count: int) -> Interval:
    """Wilson's 95 % interval of a share p of n examples; it holds for p = 0 and p = 1 too.

    (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)
    """
    centre = share + Z * Z / (2 * count)
    half_width = Z * (share * (1 - share) / count + (Z / (2 * count)) ** 2) ** 0.5
    scale = 1 + Z * Z / count
    return (centre - half_width) / scale, (centre + half_width) / scale
