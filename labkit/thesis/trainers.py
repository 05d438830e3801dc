"""The few lines of a trainer that matter, read from its source: what is shown is what runs.

The source is read, not imported, so that no framework is needed to look at it.
"""

from __future__ import annotations

import ast
import html
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LabkitError, nearest
from labkit.settings import REPOSITORY
from labkit.trials.frameworks import FRAMEWORKS

GAP = "..."
"""What stands for lines that are left out."""


class SourceError(LabkitError):
    """Lines that the source does not have."""


@dataclass(frozen=True, repr=False)
class Source:
    """Some lines of a file.

    Attributes
    ----------
    path : str
        Of the file, in labkit's repository.
    name : str
        Of the function that they are of.
    text : str
        They, without the indentation that they have in common.
    """

    path: str
    name: str
    text: str

    def __repr__(self) -> str:
        return f"# {self.path}, {self.name}\n{self.text}"

    def _repr_html_(self) -> str:
        return f"<pre><code>{html.escape(repr(self))}</code></pre>"


def lines(framework: str, name: str, *having: str) -> Source:
    """Return the lines of a function of a framework's trainer, as they are now.

    Parameters
    ----------
    framework : str
    name : str
        Of the function; of a method with its class, such as ``Worker.train``.
    *having : str
        Only the statements that have one of these in them; without any, the whole function.

    Returns
    -------
    Source

    Raises
    ------
    SourceError
        If there is no such framework or function, or no such statement in it.

    Examples
    --------
    >>> lines("mxnet", "Worker.train", "forward_backward", "module.update")
    """
    if framework not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise SourceError(
            f"framework: {framework!r}{nearest(framework, FRAMEWORKS)}; allowed: {known}"
        )
    path = FRAMEWORKS[framework].trainer
    text = path.read_text()
    functions = dict(_functions(ast.parse(text).body))
    if name not in functions:
        raise SourceError(f"{path.name} has no function {name!r}{nearest(name, functions)}")
    function = functions[name]
    chosen = [_statement(function, phrase, text, path) for phrase in having] or [function]
    return Source(str(path.relative_to(REPOSITORY)), name, _cut(text.splitlines(), chosen))


def _functions(body: Iterable[ast.stmt], of: str = "") -> Iterable[tuple[str, ast.FunctionDef]]:
    """Yield all functions, and methods by their classes' names before their own."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield of + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{node.name}.")


def _statement(function: ast.FunctionDef, phrase: str, text: str, path: Path) -> ast.stmt:
    """Return the smallest statement that has a phrase in it, the first one of several."""
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    having = [s for s in statements if phrase in (ast.get_source_segment(text, s) or "")]
    inside = [s for s in having if s is not function]
    if not inside:
        raise SourceError(f"{path.name}: no statement of {function.name} has {phrase!r} in it")
    return min(inside, key=lambda s: (s.end_lineno - s.lineno, s.lineno))


def _cut(every: list[str], chosen: list[ast.stmt]) -> str:
    """Return the lines of some statements in their order, gaps between them marked."""
    parts, last = [], None
    for begin, end in sorted({(s.lineno - 1, s.end_lineno) for s in chosen}):
        if last is not None and begin > last:
            parts.append(GAP)
        parts.append(textwrap.dedent("\n".join(every[begin:end])))
        last = end
    return "\n".join(parts)
