"""Figures of anybody's trials: from tidy tables to matplotlib."""

from labkit.figures.breakdown import breakdown
from labkit.figures.deployment import deployment
from labkit.figures.forecast import forecast
from labkit.figures.learning import learning_curve
from labkit.figures.page import save
from labkit.figures.scaling import epoch_time, speedup, throughput
from labkit.figures.selection import AmbiguousFigure, FigureError, Tables, select
from labkit.figures.slowdown import slowdown

__all__ = [
    "AmbiguousFigure",
    "FigureError",
    "Tables",
    "breakdown",
    "deployment",
    "epoch_time",
    "forecast",
    "learning_curve",
    "save",
    "select",
    "slowdown",
    "speedup",
    "throughput",
]
