"""What is shown of a sweep while it is measured, and the line in which it ends."""

from labkit.progress.course import duration
from labkit.progress.sweep import SweepProgress
from labkit.progress.tally import Tally

__all__ = ["SweepProgress", "Tally", "duration"]
