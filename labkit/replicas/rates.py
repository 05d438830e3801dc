"""How fast a script is, read from what it prints."""

import math
import re
from typing import NamedTuple, Optional

UNITS = ("samples", "steps")

_NUMBER = r"(?<![\w.,])(?P<{}>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
_PER_SECOND = r"\s?(?:/|_?\s?per[_\s]?)\s?(?:seconds?|secs?|s)\b"
_WORDS = {
    "samples": r"(?:samples?|images?|imgs?|examples?|sequences?)",
    "steps": r"(?:(?:global[_ ])?steps?|batch(?:es)?|iterations?|iters?|its?)",
}

PHRASES = [
    re.compile(template.format(number=_NUMBER.format(unit), per=_WORDS[unit] + _PER_SECOND), re.I)
    for unit in UNITS
    for template in (
        r"\b{per}\s*[:=]\s*{number}",  # 10 images/sec: 1234.5, global_step/sec: 9.7
        r"{number}\s*{per}",  # 1234.5 samples/sec, as MXNet's Speedometer has it
        r"\b{per}\s*{number}",
    )
]
"""The usual ways to say it, those that count samples first; what comes first holds."""


class Rate(NamedTuple):
    """What a line says.

    Attributes
    ----------
    rate : float
        Per second.
    unit : str
        Of what: one of `UNITS`.
    """

    rate: float
    unit: str


def compiled(pattern: str):
    """Return a pattern of a user's own.

    Raises
    ------
    ValueError
        If it is no regular expression, or does not have one group named after one of `UNITS`.
    """
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    if len(set(UNITS) & set(found.groupindex)) != 1:
        raise ValueError(
            f"{pattern!r} has not one group that is named samples or steps, around the number per "
            r"second; wanted is something like 'speed (?P<samples>[\d.]+)'"
        )
    return found


def read(line: str, pattern: Optional[str] = None) -> Optional[Rate]:
    """Return the rate in a line, None if there is none.

    Parameters
    ----------
    line : str
    pattern : str, optional
        How it looks, instead of `PHRASES`.
    """
    for phrase in [compiled(pattern)] if pattern else PHRASES:
        match = phrase.search(line)
        if match:
            (unit,) = set(UNITS) & set(phrase.groupindex)
            try:
                rate = float((match.group(unit) or "").replace(",", ""))
            except ValueError:
                return None  # what a user's own pattern found is no number
            return Rate(rate, unit) if math.isfinite(rate) and rate >= 0 else None
    return None
