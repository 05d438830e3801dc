"""The one family of errors that labkit shows to its users, and a hint for what is mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any


class LabkitError(Exception):
    """Something the user can act on; its message says what was wrong, where, and what to do."""


def nearest(name: str, known: Sequence[str] | Mapping[str, Any], alike: float = 0.6) -> str:
    """Return ``"; did you mean ...?"`` for the known name nearest to a mistyped one, if any is.

    `alike` is the least share of characters that both have in common; short names need less.
    """
    close = difflib.get_close_matches(str(name).lower(), list(known), n=1, cutoff=alike)
    return f"; did you mean {close[0]!r}?" if close else ""
