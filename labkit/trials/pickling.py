"""A function as bytes: the same for the same function, or the names of what cannot be pickled."""

from __future__ import annotations

import contextlib
import dis
import inspect
import io
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle


def pickled(thing: Any) -> tuple[bytes, set[str]]:
    """Return the pickle of a thing, and the statements that import what it needs.

    Of a function the bytes do not depend on where it was defined, but on its text, on the values
    that it uses, and on its line breaks, as tracebacks name them.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    pickler.dump(thing)
    return buffer.getvalue(), pickler.imports


def held(function: types.FunctionType) -> dict[str, Any]:
    """Return the values that a function brings along, by the names by which it uses them."""
    reduced = _Pickler(io.BytesIO()).reducer_override(function)
    if reduced is NotImplemented:  # it is found by its name in its module
        return {}
    parameters = inspect.signature(function).parameters.values()
    found = {each.name: each.default for each in parameters if each.default is not each.empty}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return reduced[2][1]["__globals__"] | found


def culprits(function: types.FunctionType, seen: tuple[object, ...] = ()) -> Iterator[str]:
    """Yield what a function uses and cannot be pickled, by name, and why; also in functions."""
    seen = (*seen, function)
    for name, value in held(function).items():
        try:
            pickled(value)
        except Exception as error:  # whatever an object's own way of being pickled may raise
            if any(value is each for each in seen):
                continue
            inner = culprits(value, seen) if inspect.isfunction(value) else ()
            yield from [f"{each}, in {name}" for each in inner] or [f"{name}: {said(error)}"]


def said(error: Exception) -> str:
    """Return the first line of an error."""
    return (str(error) or type(error).__name__).splitlines()[0]


class _Pickler(cloudpickle.Pickler):
    """Leaves out what differs from one start of Python to the next; notes what is imported."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.imports: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        """Return how an object is pickled."""
        if isinstance(obj, io.TextIOWrapper):  # of which cloudpickle would take the text along
            raise TypeError(f"cannot pickle {type(obj).__name__!r} object")
        if isinstance(obj, types.ModuleType):
            self.imports.add(f"import {obj.__name__}")
        if isinstance(obj, types.CodeType):
            self.imports.update(_imports(obj))
            return _code(obj, self.dispatch_table[types.CodeType])
        reduced = super().reducer_override(obj)
        if not isinstance(obj, type | types.FunctionType):
            return reduced
        if reduced is NotImplemented:
            self.imports.add(f"import {obj.__module__}")
        elif isinstance(obj, types.FunctionType):
            _settle(reduced)
        elif len(reduced[1]) > 2:  # a class that was not defined in a module
            make, (*what, _, extra), *state = reduced
            reduced = make, (*what, None, extra), *state  # without its random number
        return reduced


def _imports(code: types.CodeType) -> Iterator[str]:
    """Yield the statements in some code that import something."""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module = step.argval
            yield f"import {module}"
        elif step.opname == "IMPORT_FROM":
            yield f"from {module} import {step.argval}"


def _code(code: types.CodeType, reduce: Callable[[types.CodeType], Any]) -> Any:
    """Have code not say where it was defined, and not depend on the order of sets."""
    name = re.sub(r"\W", "", code.co_name)
    code = code.replace(co_filename=f"<{name}>", co_firstlineno=1)
    consts = tuple(_Sorted(c) if isinstance(c, frozenset) else c for c in code.co_consts)
    make, arguments = reduce(code)
    return make, tuple(consts if each is code.co_consts else each for each in arguments)


class _Sorted:
    """Is pickled as a set whose order does not differ from one start of Python to the next."""

    def __init__(self, content: frozenset[Any]) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        return frozenset, (sorted(self.content, key=repr),)


def _settle(reduced: tuple[Any, ...]) -> None:
    """Have a function's pickle not depend on where its file is and what else was imported."""
    _, (_, names, *_), (_, state), *_ = reduced
    names.pop("__file__", None)
    state["_cloudpickle_submodules"].sort(key=lambda module: module.__name__)
