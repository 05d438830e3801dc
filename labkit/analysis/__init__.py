"""Equations 4.1 to 4.5, the window they are taken over, and intervals over repeats."""

from labkit.analysis.breakdown import PARTS, bottleneck, explained, step_times
from labkit.analysis.equations import (
    MetricError,
    accuracy,
    batches_per_second,
    entropy,
    perplexity,
    speedup,
)
from labkit.analysis.intervals import (
    Interval,
    contrast,
    exponential,
    geometric_interval,
    interval,
    speedup_interval,
)
from labkit.analysis.scaling import (
    CIRCUMSTANCES,
    configuration,
    latest,
    settled,
    speedups,
    summarise,
    unevaluated,
)
from labkit.analysis.staleness import staleness
from labkit.analysis.window import Progress, Window, waiting_together, window

__all__ = [
    "CIRCUMSTANCES",
    "Interval",
    "MetricError",
    "PARTS",
    "Progress",
    "Window",
    "accuracy",
    "batches_per_second",
    "bottleneck",
    "configuration",
    "contrast",
    "entropy",
    "explained",
    "exponential",
    "geometric_interval",
    "interval",
    "latest",
    "perplexity",
    "settled",
    "speedup",
    "speedup_interval",
    "speedups",
    "staleness",
    "step_times",
    "summarise",
    "unevaluated",
    "waiting_together",
    "window",
]
