"""What is to be run: trials and sweeps of them, and the tables of what a trial may name."""

from labkit.trials.sweep import Sweep
from labkit.trials.trial import Trial, TrialError, choices

__all__ = ["Sweep", "Trial", "TrialError", "choices"]
