"""The plan of a book: a profile's notebooks with their parameters, every name checked."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from labkit.book.pages import Page, cells
from labkit.errors import LabkitError, nearest
from labkit.settings import NOTEBOOKS, outputs

COMMON = "common"
"""The table of a profile whose values are for all notebooks that know them."""

BOOK = "book"
"""The list of the notebooks that are part of the book; without it these are all."""

SOME = "notebooks"
"""The list of those that a profile runs; without it these are all of the book."""


class BookError(LabkitError):
    """A profile that does not fit the notebooks, or notebooks that failed."""


def launcher_of(profile: str, notebooks: Path = NOTEBOOKS) -> str:
    """Return where a profile's trials run, if nothing else is asked for.

    Raises
    ------
    BookError
        If there is no such profile.
    """
    return _common(_tables(profile, _read(notebooks)[0]))["launcher"]


def home(profile: str, launcher: str | None = None, notebooks: Path = NOTEBOOKS) -> Path:
    """Return the directory of the pages of a profile that were made with a launcher.

    That of the profile's own launcher, which is the default, bears the profile's name alone.
    """
    own = launcher_of(profile, notebooks)
    return outputs() / (profile if launcher in (None, own) else f"{profile}-{launcher}")


def plan(profile: str, launcher: str | None = None, notebooks: Path = NOTEBOOKS) -> list[Page]:
    """Return the pages of a profile, in their order, after every name has been checked.

    Parameters
    ----------
    profile : str
        A table of ``profiles.toml``.
    launcher : str, optional
        The notebooks' parameter of this name; by default the profile's, which is ``local`` unless
        it says another.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Raises
    ------
    BookError
        If the profile, or a notebook or parameter that it names, does not exist, or
        ``profiles.toml`` is not TOML.
    TrialError
        If there is no such launcher.
    """
    from labkit.campaign import check_launcher  # which takes long to import

    profiles, listed = _read(notebooks)
    tables = dict(_tables(profile, profiles))
    some = tables.pop(SOME, listed)
    for name in some:
        if name not in listed:
            raise BookError(
                f"profiles.toml, profile {profile!r}, {SOME}: "
                + _unknown("notebook", name, listed)
            )
    sources = {name: path for name, path in listed.items() if name in some}
    known = {name: parameters(path) for name, path in sources.items()}
    common = _common(tables)
    tables.pop(COMMON, None)
    common["launcher"] = check_launcher(launcher or common["launcher"])
    where = f"profiles.toml, profile {profile!r}: "
    for name, values in tables.items():
        if name not in sources:
            raise BookError(where + _unknown("notebook", name, sources))
        for parameter in values:
            if parameter not in known[name]:
                raise BookError(where + _unknown(f"{name}: parameter", parameter, known[name]))
    everywhere = {parameter for values in known.values() for parameter in values}
    for parameter in common:
        if parameter not in everywhere:
            raise BookError(where + _unknown(f"{COMMON}: parameter", parameter, everywhere))
    pages, directory = [], home(profile, launcher, notebooks)
    for name, path in sources.items():
        values = {k: v for k, v in common.items() if k in known[name]} | tables.get(name, {})
        changed = {k: v for k, v in values.items() if v != known[name][k]}
        pages.append(Page(path, changed, directory))
    return pages


def _tables(profile: str, profiles: dict[str, Any]) -> dict[str, Any]:
    if profile not in profiles:
        raise BookError(_unknown("profile", profile, profiles))
    return profiles[profile]


def _common(profile: dict[str, Any]) -> dict[str, Any]:
    """Return what a profile gives to all notebooks, with the launcher."""
    return {"launcher": "local"} | profile.get(COMMON, {})


def profiles(notebooks: Path = NOTEBOOKS) -> list[str]:
    """Return the names of the profiles."""
    return list(_read(notebooks)[0])


def chapters(notebooks: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of the book in their order, also those that not every profile runs.

    Raises
    ------
    BookError
        If one that is listed does not exist, or ``profiles.toml`` is not TOML.
    """
    return list(_read(notebooks)[1].values())


def _read(notebooks: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the profiles, and the notebooks of the book by their names."""
    there = {path.stem: path for path in sorted(notebooks.glob("*.ipynb"))}
    try:
        profiles = tomllib.loads((notebooks / "profiles.toml").read_text())
    except tomllib.TOMLDecodeError as error:
        raise BookError(f"{notebooks / 'profiles.toml'}: {error}") from None
    listed = profiles.pop(BOOK, list(there))
    for name in listed:
        if name not in there:
            raise BookError(f"profiles.toml, {BOOK}: " + _unknown("notebook", name, there))
    return profiles, {name: there[name] for name in listed}


def parameters(notebook: Path) -> dict[str, Any]:
    """Return the parameters of a notebook with their default values.

    They may be annotated: ``workers: list[int] = [1, 2]``.

    Raises
    ------
    BookError
        If it has no cell with the tag ``parameters``, or one that holds anything but names and
        literals.
    """
    found = next(cells(notebook, tag="parameters"), None)
    if found is None:
        raise BookError(f"{notebook}: no cell has the tag 'parameters'")
    values = {}
    try:
        statements = ast.parse(found).body
    except SyntaxError as error:
        where = f"{notebook}: the parameters cell, line {error.lineno}"
        raise BookError(f"{where}: {error.msg}") from None
    for statement in statements:
        try:
            (target,) = (
                [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
            )
            values[target.id] = ast.literal_eval(statement.value)
        except (AttributeError, ValueError):
            raise BookError(
                f"{notebook}: the parameters cell may only give literals to names, not: "
                f"{ast.unparse(statement)}"
            ) from None
    return values


def select(pages: list[Page], only: Iterable[str]) -> list[Page]:
    """Return the pages whose names begin with one of these numbers; all if there are none.

    Raises
    ------
    BookError
        If no page is called so.
    """
    chosen = []
    for number in only:
        found = [page for page in pages if f"{page.name}-".startswith(f"{number}-")]
        if not found:
            raise BookError(_unknown("notebook", number, [page.name for page in pages]))
        chosen += found
    return [page for page in pages if page in chosen or not chosen]


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    return f"{what} {name!r} is unknown{nearest(name, known)}; known: {', '.join(known)}"
