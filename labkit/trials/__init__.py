"""What is to be run: trials and sweeps of them, and the tables of what a trial may name."""

from labkit.trials.described import TrialError
from labkit.trials.script import FIELDS, ScriptTrial
from labkit.trials.sweep import Sweep
from labkit.trials.trial import Trial, choices

__all__ = ["FIELDS", "ScriptTrial", "Sweep", "Trial", "TrialError", "choices"]
