"""A notebook's parameters, checked in one call before anything runs."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError

from labkit.errors import LabkitError, nearest
from labkit.trials import Trial, TrialError

INJECTED = "# Parameters\n"
"""How the cell begins that papermill puts behind the parameters cell."""


class ParameterError(LabkitError, ValueError):
    """Parameters that do not fit the notebook."""


def check_parameters(*together: Sequence[str], guess: str | None = None) -> None:
    """Check the notebook's parameters: the annotated names of the cell before this one.

    Each value must be what its annotation says; where a list is meant, a single value is taken as
    a list of one. A parameter that is called like a field of a trial, or ends like one (as in
    ``higher_workers``), must have values that such a field may have. Names that papermill was
    given must be parameters of the notebook.

    Parameters
    ----------
    *together : sequence of str
        Parameters whose lists belong together, item by item, and so must be equally long.
    guess : str, optional
        The parameter with the numbers of workers of which ``guess`` has speedups: one for each
        that is above one, if it is not None.

    Raises
    ------
    ParameterError
        With all mistakes in one message.

    Examples
    --------
    >>> workers: list[int] = [1, 2]
    >>> steps: list[int] = [480, 120]  # for each number of workers
    >>> check_parameters(["workers", "steps"])
    """
    notebook = sys._getframe(1).f_globals
    annotations = dict(notebook.get("__annotations__", {}))
    wrong = [
        f"{name}: this notebook has no such parameter"
        f"{nearest(name, annotations) or '; it has ' + ', '.join(annotations)}"
        for name in _injected(notebook.get("In", ()))
        if name not in annotations
    ]
    for name, kind in annotations.items():
        value = notebook[name]
        if _means_list(kind) and not isinstance(value, list | tuple | None):
            value = [value]
        try:
            value = TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(value)
        except ValidationError as error:
            wrong += _explain(name, error)
        else:
            notebook[name] = value
            wrong += _misfits(name, value)
    for names in together:
        lengths = {name: len(notebook[name]) for name in names if isinstance(notebook[name], list)}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{length} of {name}" for name, length in lengths.items())
            wrong.append(f"{', '.join(names)}: these belong together, but there are {found}")
    if guess:
        wrong += _misguessed(notebook["guess"], guess, notebook[guess])
    if wrong:
        raise ParameterError("these parameters do not fit:\n  " + "\n  ".join(wrong))


def _means_list(kind: Any) -> bool:
    return any(get_origin(each) is list for each in (kind, *get_args(kind)))


def _misguessed(guess: Any, name: str, numbers: Any) -> Iterator[str]:
    """Say if there are not as many guesses as numbers of workers to guess the speedup of."""
    if not (guess and isinstance(guess, list) and isinstance(numbers, list)):
        return
    more = [number for number in numbers if isinstance(number, int) and number > 1]
    if len(guess) != len(more):
        wanted = f"one for each of {more}" if more else "None"
        yield (
            f"guess: {guess!r}; allowed: {wanted}, as these are speedups of the {name} above one"
        )


def _injected(cells: Sequence[str]) -> list[str]:
    """Return the names that papermill has given values to."""
    found = [cell for cell in cells if cell.startswith(INJECTED)]
    return [
        target.id
        for statement in (ast.parse(found[-1]).body if found else ())
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]


def _explain(name: str, error: ValidationError) -> Iterator[str]:
    for finding in error.errors():
        wanted = finding["msg"].removeprefix("Input should be ")
        yield f"{name}: {finding['input']!r}; allowed: {wanted}"


def _misfits(name: str, value: Any) -> Iterator[str]:
    """Say which values the thing that a parameter is called after cannot have."""
    values = value if isinstance(value, list) else [value]
    if not values:
        yield f"{name}: an empty list; give at least one value"
    if name == "guess":
        for each in values:
            if each is not None and not 0 < each < math.inf:
                yield f"{name}: {each!r}; allowed: numbers above 0"
    if name == "launcher":
        yield from _unknown_launchers(name, values)
    field = _field(name, Trial.model_fields)
    for each in values if field else ():
        if isinstance(each, float) and not _takes_fractions(field):  # such as 0.12 epochs
            if not each > 0:
                yield f"{name}: {each!r}; allowed: more than 0"
            continue
        try:
            Trial(**{field: each})
        except TrialError as error:  # always, as other fields are missing
            for line in str(error).splitlines():
                found = line.strip().removeprefix(f"{field}: ")
                if found != line.strip() and not found.startswith("missing"):
                    yield f"{name}: {found}"


def _unknown_launchers(name: str, values: list[str]) -> Iterator[str]:
    from labkit.campaign import LAUNCHERS

    for each in values:
        if each not in LAUNCHERS:
            yield f"{name}: {each!r}{nearest(each, LAUNCHERS)}; allowed: {', '.join(LAUNCHERS)}"


def _takes_fractions(field: str) -> bool:
    kind = Trial.model_fields[field].annotation
    return float in (get_args(kind) or (kind,))


def _field(name: str, fields: Mapping[str, Any]) -> str | None:
    """Return the field after which a parameter is called; it may be in the plural."""
    for singular in (name, name.removesuffix("s")):
        found = [f for f in fields if singular == f or singular.endswith(f"_{f}")]
        if found:
            return max(found, key=len)
    return None
