"""What is about the thesis alone: its figures by number, its words, its notebooks' steps."""

import importlib
from typing import Any

_MODULES = (
    "claims", "deployment", "figures", "guesses", "plateaus", "rates", "thresholds", "trainers",
    "words",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'labkit.thesis' has no attribute {name!r}")
    return importlib.import_module(f"labkit.thesis.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
