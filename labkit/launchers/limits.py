"""How long a trial may take."""

from __future__ import annotations

DEADLINE = 3600.0
"""Seconds a trial may take, if its caller does not say."""


STALL = 300.0
"""Seconds without any event after which a trial counts as hung."""

GRACE = 3.0
"""Seconds a process has to leave after it was told to."""
