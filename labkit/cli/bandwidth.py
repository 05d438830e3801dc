"""How a bandwidth is written."""

from __future__ import annotations

import re
from typing import Any

import click

from labkit.errors import LabkitError

UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
"""Before ``bit``, in bits per second."""


class Bandwidth(click.ParamType):
    """Bits per second, written as ``1Gbit``, ``200Mbit`` or a plain number of bits."""

    name = "bandwidth"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        """Return the bits per second.

        Raises
        ------
        LabkitError
            If it is written in another way.
        """
        text = str(value)
        number, unit = r"([\d.]+(?:e[+-]?\d+)?)\s*", r"(?:bit(?:/s|ps)?|b/s|bps)?"
        found = None if "B" in text else re.fullmatch(rf"{number}([kmg]?){unit}", text.lower())
        try:
            return float(found[1]) * UNITS[found[2]]
        except (TypeError, ValueError):
            raise LabkitError(
                f"bandwidth: {text!r}; allowed: a number with kbit, Mbit or Gbit, such as 1Gbit"
            ) from None
