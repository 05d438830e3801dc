"""Publish books: their pages and figures, and the tables of their trials."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.book.edition import USUAL, published_in
from labkit.book.pages import Page
from labkit.book.plan import BookError, plan
from labkit.book.plan import profiles as all_profiles
from labkit.book.render import index, notes
from labkit.runs import Results, Run, Store
from labkit.runs.tables import modernise
from labkit.settings import NOTEBOOKS, REFERENCE, outputs

if TYPE_CHECKING:
    import pandas as pd

TABLES = {"trials": "table", "steps": "steps", "evals": "evals"}
"""Names of the published tables, and of what they are in `Results`."""


def publish(
    *profiles: str, destination: Path = REFERENCE, notebooks: Path = NOTEBOOKS
) -> Path:
    """Copy finished pages of some profiles, with the tables of their trials, to where they stay.

    Pages that were published before, and have not been made anew, stay with their trials: books
    that take hours are published as they grow. The usual profile's book lies in the destination
    itself, and is all of one run; others lie in folders of their names.

    Parameters
    ----------
    *profiles : str
        Whose pages.
    destination : Path
        A directory.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Returns
    -------
    Path
        The destination.

    Raises
    ------
    BookError
        Before anything is changed, if a page is older than what it is made from, a run that it
        shows is gone, the usual book lacks a page, or trials have been measured again of which a
        page that stays shows what they did before; at the end, if pages of the usual book show
        what was published before.
    """
    made = {name: _made(name, destination, notebooks) for name in profiles}
    paths = {path: None for name, pages in made.items() for path in _runs(name, pages)}
    results = Results(map(Run.read, paths))
    _check_repeated(results.table, made, destination, notebooks)
    before = _figures(page for name in made for page in _published(name, destination, notebooks))
    for name in made:
        shutil.copytree(
            outputs() / name, published_in(name, destination), dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(".*"),
        )  # fmt: skip
    books = {
        name: [page for page in _published(name, destination, notebooks) if page.record()]
        for name in all_profiles(notebooks)
    }
    books = {name: pages for name, pages in books.items() if pages}
    for path in before - _figures(page for pages in books.values() for page in pages):
        path.unlink(missing_ok=True)
    for name, pages in books.items():
        folder = published_in(name, destination)
        also = [other for other in books if other != USUAL] if name == USUAL else []
        (folder / "README.md").write_text(front_page(name, pages, also))
        if name in made:
            (folder / "index.html").write_text(index(name, pages, []))
    shown = {row["trial"] for pages in books.values() for page in pages for row in page.trials()}
    for name, table in TABLES.items():
        path = destination / f"{name}.parquet"
        _merged(path, getattr(results, table), shown).to_parquet(path, index=False)
    computed = [page for page in books.get(USUAL, ()) if not page.measures]
    if behind := [page.name for page in computed if page.is_stale()]:
        raise BookError(
            f"published, but {', '.join(behind)} still show what was published before; run "
            f"`labkit reproduce --profile {USUAL} --only {' --only '.join(behind)}`, then publish "
            f"{USUAL} again"
        )
    return destination


def _published(profile: str, destination: Path, notebooks: Path) -> list[Page]:
    """Return a profile's pages as they are published, or would be."""
    folder = published_in(profile, destination)
    return [replace(page, home=folder) for page in plan(profile, notebooks=notebooks)]


def _figures(pages: Iterable[Page]) -> set[Path]:
    return {path for page in pages for path in page.files(page.record())}


def _made(profile: str, destination: Path, notebooks: Path) -> list[Page]:
    """Return the pages of a profile that have been made; they can be published as they are."""
    pages = plan(profile, notebooks=notebooks)
    made = [page for page in pages if page.executed.exists()]
    due = made
    if profile == USUAL:
        there = {p.name for p in _published(profile, destination, notebooks) if p.record()}
        anew = any(page.trials() for page in made)
        due = [p for p in pages if p in made or p.name not in there or (anew and p.measures)]
    stale = [page.name for page in due or pages if not page.is_up_to_date()]
    if stale:
        raise BookError(
            f"not up to date: {', '.join(stale)}; first: labkit reproduce --profile {profile}"
        )
    return made


def _check_repeated(
    new: pd.DataFrame, made: Mapping[str, list[Page]], destination: Path, notebooks: Path
) -> None:
    """Refuse trials measured again, if a published page that stays shows what they did before.

    A trial's name tells machines apart only by what these say of themselves.
    """
    import pandas as pd

    path = destination / "trials.parquet"
    if not (path.exists() and len(new)):
        return
    both = pd.read_parquet(path).merge(new, on="trial")
    again = set(both["trial"][both["started_x"] != both["started_y"]])
    for profile in all_profiles(notebooks):
        anew = {page.name for page in made.get(profile, ())}
        for page in _published(profile, destination, notebooks):
            if page.name not in anew and again & {row["trial"] for row in page.trials()}:
                raise BookError(
                    f"{page.name} of {profile} stays published, and shows trials that have been "
                    "measured again, maybe on another machine of the same name. First: labkit "
                    f"reproduce --profile {profile} --only {page.name} --force, then publish "
                    f"{profile}, too"
                )


def _merged(path: Path, new: pd.DataFrame, shown: set[str]) -> pd.DataFrame:
    """Return a published table with new rows, and without those of trials that no page shows."""
    import pandas as pd

    if not path.exists():
        return new
    old = modernise(pd.read_parquet(path))
    names = set(new["trial"]) if len(new) else set()
    old = old[old["trial"].isin(shown - names)]
    tables = [table for table in (old, new) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else new


def _runs(profile: str, pages: list[Page]) -> list[Path]:
    """Return where the runs are that the pages show; all are there."""
    store = Store()
    names = sorted({row["trial"] for page in pages for row in page.trials()})
    if gone := [name for name in names if not (store.root / name).exists()]:
        raise BookError(
            f"no longer there: {', '.join(gone)}; first: labkit reproduce --profile {profile} "
            "--force"
        )
    return [store.root / name for name in names]


def front_page(profile: str, pages: list[Page], also: Sequence[str] = ()) -> str:
    """Return a published book's front page, in Markdown: what a git host shows of it.

    Parameters
    ----------
    profile : str
        Whose book.
    pages : list of Page
        All of them, made.
    also : sequence of str
        The profiles that are published with it.
    """
    records = [page.record() for page in pages]
    finished = max(record["finished"] for record in records)
    machines = sorted({_machine(record["machine"]) for record in records})
    trials = {row["trial"]: row for page in pages for row in page.trials()}.values()
    revisions = sorted({record["revision"] for record in records})
    versions = sorted({row["versions"] for row in trials if row.get("versions")})
    lines = [
        "# A published run",
        "",
        f"What `labkit reproduce --profile {profile}` measured"
        f"{' in pods' * (pages[0].launcher == 'kubernetes')} on one machine: "
        f"{', then on another: '.join(machines)}; finished {finished}, {len(trials)} trials, "
        f"labkit at {', '.join(revisions)}. Every heading leads to the executed notebook. Hollow "
        "points are oversubscribed: they say nothing about scaling.",
        "",
        *(f"- {each}" for each in versions),
        "",
        "`labkit results --reference` prints the table of all published trials.",
    ]
    if also:
        links = ", ".join(f"[{name}]({name}/README.md)" for name in also)
        lines += ["", f"Published with it: what other profiles measured ({links})."]
    for page, record in zip(pages, records, strict=True):
        lines += ["", f"## [{page.title}]({page.name}.ipynb)", ""]
        lines += [f"{'; '.join(notes(page.trials()))}.", ""] if page.trials() else []
        for figure in record["figures"]:
            number, title = figure["number"], figure["title"]
            trials = f" ([its trials](figures/{number}.csv))" if figure.get("trials", True) else ""
            lines += [
                f"![{title}](figures/{number}.svg)",
                "",
                f"*{title}*{trials}",
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _machine(machine: Mapping[str, Any]) -> str:
    memory = f"{machine['memory'] / 2**30:.0f} GB"
    return f"{machine['cpu_model']}, {machine['cores']} cores, {memory}, {machine['system']}"
