"""A trial as a model: workers compute, push and pull; servers serve; links pass messages on."""

from labkit.simulation.analysis import analyse, expected_maximum
from labkit.simulation.answer import Answer
from labkit.simulation.simulate import simulate
from labkit.simulation.system import Demands, System

__all__ = ["Answer", "Demands", "System", "analyse", "expected_maximum", "simulate"]
