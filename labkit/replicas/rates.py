"""How fast a script is, read from what it prints."""

import math
import re
from typing import NamedTuple, Optional

UNITS = ("samples", "steps")

_NUMBER = (
    r"(?<![\w.,])(?P<{}>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
    r"(?P<factor>[kM])?"
)
_END = r"(?![\w%]|[.,]\d)"
_PER_SECOND = r"\s?(?:/|_?\s?per[_\s]?)\s?(?:seconds?|secs?|s)\b"
_WORDS = {
    "samples": r"(?:samples?|images?|imgs?|examples?|sequences?)",
    "steps": r"(?:(?:global[_ ])?steps?|batch(?:es)?|iterations?|iters?|its?)",
}
_FACTORS = {"k": 1e3, "m": 1e6, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}

PHRASES = [
    re.compile(template.format(number=_NUMBER.format(unit), per=_WORDS[unit] + _PER_SECOND), re.I)
    for unit in UNITS
    for template in (
        r"\b{per}\s*[:=]\s*{number}" + _END,  # 10 images/sec: 1234.5, global_step/sec: 9.7
        r"{number}\s*{per}",  # 1234.5 samples/sec, as MXNet's Speedometer has it
        r"\b{per}\s*{number}" + _END,
    )
]
PHRASES.append(  # 1.25s/it, as tqdm has it below one step per second; 6ms/step, as Keras has it
    re.compile(
        r"(?<![\w.,])(?P<each>\d+(?:\.\d+)?)\s?(?:(?P<factor>ms|us|µs)|s|secs?|seconds?)\s?/\s?"
        r"(?:steps?|batch|iteration|iter|it)\b"
    )
)
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
            f"{pattern!r} needs exactly one group named samples or steps, around the number per "
            r"second, such as 'speed (?P<samples>[\d.]+)'"
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
            found = match.groupdict()
            unit = "samples" if "samples" in found else "steps"
            try:
                number = float((found.get(unit) or found.get("each") or "").replace(",", ""))
            except ValueError:
                return None  # what a user's own pattern found is no number
            number *= _FACTORS.get((found.get("factor") or "").lower(), 1)
            if "each" in found:
                number = 1 / number if number else math.inf
            return Rate(number, unit) if math.isfinite(number) and number >= 0 else None
    return None
