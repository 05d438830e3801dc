"""How fast a script is, read from what it prints."""

import math
import re
from typing import NamedTuple, Optional, Union

UNITS = ("samples", "steps")

SO_FAR = "_so_far"
"""By which the name of a group goes on that counts, instead of saying how many per second."""

_GROUPS = (*UNITS, *(unit + SO_FAR for unit in UNITS))

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
        # 10 images/sec: 1234.5, global_step/sec: 9.7; a total is of all time, or of all workers
        r"(?<!total )\b{per}\s*[:=]\s*{number}" + _END,
        r"{number}\s*{per}",  # 1234.5 samples/sec, as MXNet's Speedometer has it
        r"\b{per}\s*{number}" + _END,
    )
]
_TOTAL = re.compile(r"\btotal ", re.I)
_STEP = r"(?:steps?|batch|iteration|iter|it)\b"
PHRASES += [
    # Keras's bar, since its milliseconds per step are whole ones: 12/469 ━━━━ 1s 5ms/step
    re.compile(
        r"(?:^|\x1b\[1m|[\s\b]) *(?P<steps_so_far>\d+)/\d+(?:\x1b\[0m)? +(?:\x1b\[\d+m)?"
        r"(?:━|\[[=>.]+\])"
    ),
    # 1.25s/it, as tqdm has it below one step per second; 6ms/step, as Keras has it
    re.compile(
        r"(?<![\w.,])(?P<each>\d+(?:\.\d+)?)\s?(?:(?P<factor>ms|us|µs)|s|secs?|seconds?)\s?/\s?"
        + _STEP
    ),
    # and three ways of PyTorch's examples: ms/batch 12.34,
    re.compile(r"\b(?P<factor>ms|us|µs)/" + _STEP + r"\s*[:=]?\s*(?P<each>\d+(?:\.\d+)?)" + _END),
    # Train Epoch: 1 [640/60000 (1%)], and Epoch: [0][ 10/5005]
    re.compile(r"\bEpoch:? ?\d+\s*\[(?P<samples_so_far>\d+)/\d+ \(\d+%\)\]"),
    re.compile(r"\bEpoch: ?\[\d+\]\s*\[ *(?P<steps_so_far>\d+)/\d+\]"),
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


class Count(NamedTuple):
    """What a line says that does not say how fast it is, but how far.

    Attributes
    ----------
    count : float
        Since the beginning, or since that of an epoch.
    unit : str
        Of what: one of `UNITS`.
    """

    count: float
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
    if len(set(_GROUPS) & set(found.groupindex)) != 1:
        raise ValueError(
            f"{pattern!r} needs exactly one group named samples or steps, around the number per "
            r"second, such as 'speed (?P<samples>[\d.]+)', or samples_so_far or steps_so_far, "
            r"around a count, such as 'step (?P<steps_so_far>\d+) done'"
        )
    return found


def read(
    line: str, pattern: Optional[str] = None, total: bool = False
) -> Union[Rate, Count, None]:
    """Return the rate in a line, or the count, None if there is none.

    Parameters
    ----------
    line : str
    pattern : str, optional
        How it looks, instead of `PHRASES`.
    total : bool
        Whether rates of all workers are wanted, which some say of them.
    """
    if total and not pattern:
        line = _TOTAL.sub("", line)
    for phrase in [compiled(pattern)] if pattern else PHRASES:
        match = phrase.search(line)
        if match:
            return _said({name: text for name, text in match.groupdict().items() if text})
    return None


def _said(found):
    """Return what the named groups of a match say."""
    name = next((name for name in (*_GROUPS, "each") if name in found), "")
    try:
        number = float(found[name].replace(",", ""))
    except (KeyError, ValueError):
        return None  # what a user's own pattern found is no number
    number *= _FACTORS.get(found.get("factor", "").lower(), 1)
    if name == "each":
        name, number = "steps", 1 / number if number else math.inf
    if not (math.isfinite(number) and number >= 0):
        return None
    unit = name[: -len(SO_FAR)] if name.endswith(SO_FAR) else name
    return Rate(number, unit) if unit == name else Count(number, unit)
