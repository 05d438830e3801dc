"""What trials of all kinds have in common: validated values that name them."""

from __future__ import annotations

import abc
import hashlib
from functools import cached_property
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from labkit.errors import LabkitError, nearest


class TrialError(LabkitError, ValueError):
    """A trial that cannot be: a name nobody knows, a value that makes no sense."""


class Described(BaseModel):
    """Something described by values, which are checked together and make up what it is.

    Attributes
    ----------
    TABLES : dict of str to mapping
        The fields that name a row of a table.
    """

    TABLES: ClassVar[dict[str, Any]] = {}

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    _given: frozenset[str] = PrivateAttr(frozenset())

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise TrialError(_explain(error, type(self))) from None
        self._given = frozenset(name for name, value in values.items() if value is not None)

    @property
    @abc.abstractmethod
    def values(self) -> dict[str, Any]:
        """The values that are not defaults; of files their names, wherever they lie."""

    @property
    @abc.abstractmethod
    def digest(self) -> str:
        """SHA-256 of what makes two of them the same."""

    @property
    @abc.abstractmethod
    def sums(self) -> dict[str, str]:
        """SHA-256 of what a run depends on beside that: ``code``, ``model`` and ``data``."""

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the digest and the sums."""
        parts = (self.digest, *self.sums.values())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.digest == other.digest

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"{type(self).__name__}({values})"

    __str__ = __repr__

    def replace(self, **values: Any) -> Self:
        """Return the same with other values, validated again.

        What was not given but followed from other values, such as the number of servers, follows
        from the new ones.
        """
        return type(self)(**({name: getattr(self, name) for name in self._given} | values))

    @classmethod
    def choices(cls, field: str) -> tuple[str, ...]:
        """Return the values that a field may have, by name; empty if it is not limited."""
        if field in cls.TABLES:
            return tuple(cls.TABLES[field])
        return tuple(v for v in get_args(cls.model_fields[field].annotation) if isinstance(v, str))


_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "{} or less"),
}


def _explain(error: ValidationError, kind: type[Described]) -> str:
    """Put pydantic's findings into one message, a line per mistake."""
    lines = []
    for finding in error.errors():
        field = ".".join(map(str, finding["loc"][:1]))
        what, value = finding["type"], finding["input"]
        if what == "extra_forbidden":
            known = list(kind.model_fields)
            hint = nearest(field, known) or f"; known: {', '.join(known)}"
            lines.append(f"{field}: no such field (value {value!r}){hint}")
        elif what == "missing":
            wanted = ", ".join(kind.choices(field)) or kind.model_fields[field].description
            lines.append(f"{field}: missing; wanted: {wanted}")
        elif what == "literal_error":
            allowed = kind.choices(field)
            lines.append(f"{field}: {value!r}{nearest(value, allowed)}; allowed: "
                         f"{', '.join(allowed)}")  # fmt: skip
        elif what in _BOUNDS:
            bound, words = _BOUNDS[what]
            lines.append(f"{field}: {value!r}; allowed: {words.format(finding['ctx'][bound])}")
        elif what == "value_error":
            lines.append(str(finding["ctx"]["error"]))
        elif field in kind.TABLES:
            lines.append(f"{field}: {value!r}; allowed: {', '.join(kind.choices(field))}")
        else:
            wanted = finding["msg"].removeprefix("Input should be ")
            lines.append(f"{field}: {value!r}; allowed: {wanted}")
    return "this trial cannot be run:\n  " + "\n".join(lines).replace("\n", "\n  ")
