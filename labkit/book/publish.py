"""Publish a book: its pages and figures, and the tables of its trials."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from labkit.book.pages import Page
from labkit.book.plan import BookError, plan
from labkit.book.render import notes
from labkit.runs import Results, Run, Store
from labkit.settings import NOTEBOOKS, REFERENCE, outputs


def publish(
    profile: str,
    also: Sequence[str] = (),
    destination: Path = REFERENCE,
    notebooks: Path = NOTEBOOKS,
) -> Path:
    """Copy a finished book, with the tables of its trials, to where it is published.

    Parameters
    ----------
    profile : str
        Whose book.
    also : sequence of str
        Further profiles, of which those pages that have been made go into folders of their names;
        their trials are in the same tables.
    destination : Path
        A directory; what was in it is replaced.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Returns
    -------
    Path
        The destination.

    Raises
    ------
    BookError
        If a page is missing or older than what it is made from, or a run that it shows is gone; at
        the end, if pages show the published run that has just been replaced.
    """
    books = {name: plan(name, notebooks=notebooks) for name in (profile, *also)}
    for name in also:  # they take hours: what is finished is published
        books[name] = [page for page in books[name] if page.executed.exists()]
    for name, pages in books.items():
        stale = [page.name for page in pages if not page.is_up_to_date()]
        if stale:
            raise BookError(
                f"not up to date: {', '.join(stale)}; first: labkit reproduce --profile {name}"
            )
    paths = {path: None for name, pages in books.items() for path in _runs(name, pages)}
    results = Results(map(Run.read, paths))
    shutil.rmtree(destination, ignore_errors=True)
    for name, pages in books.items():
        folder = destination / name if name in also else destination
        shutil.copytree(outputs() / name, folder, ignore=shutil.ignore_patterns(".*"))
        (folder / "README.md").write_text(front_page(pages, () if name in also else also))
    for name, table in (
        ("trials", results.table),
        ("steps", results.steps),
        ("evals", results.evals),
    ):
        table.to_parquet(destination / f"{name}.parquet", index=False)
    if behind := [page.name for page in books[profile] if page.is_stale()]:
        raise BookError(
            f"published, but {', '.join(behind)} still show the run that was published before; "
            f"labkit reproduce --profile {profile}, then publish once more"
        )
    return destination


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


def front_page(pages: list[Page], also: Sequence[str] = ()) -> str:
    """Return a published book's front page, in Markdown: what a git host shows of it.

    Parameters
    ----------
    pages : list of Page
        All of them, made.
    also : sequence of str
        The profiles that are published with it.
    """
    records = [page.record() for page in pages]
    newest = max(records, key=lambda record: record["finished"])
    machine = newest["machine"]
    trials = {row["trial"]: row for page in pages for row in page.trials()}.values()
    revisions = sorted({record["revision"] for record in records})
    versions = sorted({row["versions"] for row in trials if row.get("versions")})
    lines = [
        "# A published run",
        "",
        f"What `labkit reproduce --profile {pages[0].home.name}` measured"
        f"{' in pods' * (pages[0].launcher == 'kubernetes')} on one machine: "
        f"{machine['cpu_model']}, {machine['cores']} cores, {machine['memory'] / 2**30:.0f} GB, "
        f"{machine['system']}; finished {newest['finished']}, {len(trials)} trials, labkit at "
        f"{', '.join(revisions)}. Every heading leads to the executed notebook. Hollow points are "
        "oversubscribed: they say nothing about scaling.",
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
