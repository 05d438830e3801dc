"""A function of a user's own, taken along to the replicas as the script of a trial."""

from __future__ import annotations

import ast
import base64
import contextlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import tokenize
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from labkit.replicas.function import NO_CLOUDPICKLE, OTHER_VERSION, Job
from labkit.trials.described import TrialError
from labkit.trials.pickling import culprits, held, pickled, said
from labkit.trials.sweep import Sweep
from labkit.trials.trial import Trial

SCRIPT = "labkit_function.py"
"""The file that calls the function; no module of the user's own is called like that."""

MOST = 16 << 20
"""Bytes of a function with all that it uses: they are kept with each of its runs."""


@contextlib.contextmanager
def trials_of(
    work: Sequence[Trial] | Callable[[Job], object], launcher: str, **values: Any
) -> Iterator[Sequence[Trial]]:
    """Hold trials as long as they may be run: those that are given, or those of a function.

    Parameters
    ----------
    work : sequence of Trial, or function
        A function is called in each replica, with its `Job`.
    launcher : str
        Where they will run. What interpreter there is in pods turns out there.
    **values
        Of a function: as `Sweep.grid` takes them of a script; a list or tuple is an axis.

    Raises
    ------
    TypeError
        If it is neither, or not a function of one argument.
    TrialError
        If a trial is impossible, or the function cannot be taken along: with all that it uses
        and cannot be pickled, or for an interpreter of another version.
    """
    if isinstance(work, Sequence) and not isinstance(work, str):
        if values:
            raise TypeError(f"{', '.join(values)}: only of a function; a sweep has said all")
        yield work
        return
    _check(work, launcher, values)
    values = {"servers": 0} | values  # they would call the function, too: who wants some says so
    with tempfile.TemporaryDirectory(prefix="labkit-function-") as folder:
        script = Path(folder) / SCRIPT
        content, homes = _packed(work)
        script.write_text(content)
        _put_beside(script, homes)
        yield Sweep.grid(script=str(script), function=_name(work), **values)


def _name(function: types.FunctionType) -> str:
    """Return a function's name; ``lambda`` of one without."""
    return re.sub(r"\W", "", function.__name__)


def _check(function: Any, launcher: str, values: dict[str, Any]) -> None:
    if not inspect.isfunction(function):
        raise TypeError(
            f"{function!r} is neither trials, such as a Sweep, nor a function, such as train(job)"
        )
    name = _name(function)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{name}: a call of it does nothing yet, as it awaits or yields")
    signature = inspect.signature(function)
    try:
        signature.bind(None)
    except TypeError:
        raise TypeError(f"{name}{signature}: it must take one argument, the job") from None
    for field in ("script", "function", "arguments"):
        if field in values:
            raise TrialError(
                f"{field}: {values[field]!r}: only of a script; a function brings along what it "
                "uses, such as the variables around it"
            )
    given = values.get("python") if launcher == "local" else None  # else it is the image's
    for python in given if isinstance(given, list | tuple) else filter(None, [given]):
        _check_interpreter(name, python)


def _check_interpreter(name: str, python: str) -> None:
    """Make sure that an interpreter can take up what this one has pickled."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    probe = "import sys; print('{}.{}'.format(*sys.version_info)); import cloudpickle"
    try:
        told = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise TrialError(f"python: {python}: cannot be run as Python: {error}") from None
    there = told.stdout.strip() or "of no known version"
    if there != here:
        raise TrialError(f"python: {OTHER_VERSION.format(python, there, name, here)}")
    if told.returncode:
        raise TrialError(f"python: {NO_CLOUDPICKLE.format(python)}")


def _packed(function: types.FunctionType) -> tuple[str, set[Path]]:
    """Return a script that calls a function, and where modules of the user's own are for it."""
    name = _name(function)
    try:
        content, imports = pickled(function)
    except Exception as error:  # whatever an object's own way of being pickled may raise
        found = list(dict.fromkeys(culprits(function))) or [said(error)]
        raise TrialError(
            f"{name} cannot be taken along to the workers:\n  "
            + "\n  ".join(found)
            + "\nMake in the function what cannot be taken along."
        ) from None
    if len(content) > MOST:
        raise TrialError(_too_large(function, len(content)))
    own = {statement: home for statement in sorted(imports) if (home := _home(statement))}
    needs = ["def needs():", *(f"    {statement}" for statement in own), "", ""] if own else []
    lines = [
        '"""A function that `labkit.measure` has taken along: its text, and all that it is."""',
        "",
        "from labkit.replicas.function import call",
        "",
        "",
        *needs,
        "call(",
        f"    {name!r},",
        "    [",
        *(f"        {line!r}," for line in _source(function)),
        "    ],",
        f"    {base64.b85encode(content).decode()!r},",
        f"    {tuple(sys.version_info[:2])},",
        ")",
    ]
    return "\n".join(lines) + "\n", set(own.values())


def _too_large(function: types.FunctionType, size: int) -> str:
    sizes = {name: len(pickled(value)[0]) for name, value in held(function).items()}
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:3]
    return (
        f"{_name(function)} uses {size / 2**20:.0f} MiB of values, and at most {MOST >> 20} MiB "
        "are taken along: "
        + ", ".join(f"{name} ({sizes[name] / 2**20:.1f} MiB)" for name in largest)
        + "\nRead large data in the function."
    )


def _source(function: types.FunctionType) -> list[str]:
    """Return the lines of a function; none where they cannot be had, as after its file changed."""
    if function.__name__ == "<lambda>":
        return []  # they would be the whole statement in which it stands
    try:
        text = textwrap.dedent(inspect.getsource(function))
        (found,) = ast.parse(text).body
    except (OSError, TypeError, ValueError, SyntaxError, tokenize.TokenError):
        return []
    named = getattr(found, "name", None) == function.__name__
    return text.splitlines(keepends=True) if named else []


# --- the user's own modules -----------------------------------------------------------------


def _home(statement: str) -> Path | None:
    """Return the folder from which a statement imports; None if that is installed."""
    top = statement.split()[1].partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # __main__ has none
        return None
    if top == "labkit" or not spec or not spec.has_location:
        return None
    file = Path(spec.origin)
    home = file.parent.parent if spec.submodule_search_locations else file.parent
    installed = {"site-packages", "dist-packages"} & set(home.parts)
    return None if installed or home.is_relative_to(sysconfig.get_path("stdlib")) else home


def _put_beside(script: Path, homes: set[Path]) -> None:
    """Have the modules in some folders found beside a script."""
    for home in homes:
        for path in home.iterdir():
            link = script.with_name(path.name)
            module = path.suffix == ".py" or os.path.isfile(path / "__init__.py")
            if module and path.name != "labkit" and not link.exists():
                link.symlink_to(path.resolve())
