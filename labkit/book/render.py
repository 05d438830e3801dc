"""HTML: an executed notebook as a page, and the index of all pages."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import provenance
from labkit.book.pages import Page
from labkit.settings import TEMPLATES

if TYPE_CHECKING:
    import jinja2
    from nbformat import NotebookNode


def keep(
    page: Page, notebook: NotebookNode, inputs: str, seconds: float, without_rate: Sequence[str]
) -> None:
    """Render an executed notebook and put it, with its figures, where they stay.

    Parameters
    ----------
    page : Page
        Its ``unfinished`` directory holds the figures.
    notebook : NotebookNode
        As papermill returns it.
    inputs : str
        The page's `Page.inputs` when it was begun.
    seconds : float
        That it took.
    without_rate : sequence of str
        The runs of its trials whose rates are missing.
    """
    import nbformat

    _clean(notebook, page.home.name)
    notebook.metadata["labkit"] = {
        "inputs": inputs,
        "finished": time.strftime("%Y-%m-%d %H:%M"),
        "seconds": round(seconds, 1),
        "without_rate": list(without_rate),
        "revision": provenance.revision(),
        "machine": {k: v for k, v in provenance.machine().items() if k != "host"},
        "figures": _figures(notebook),
    }
    old = page.files(page.record())
    for path in (page.unfinished / "figures").iterdir():
        write(page.home / "figures" / path.name, path.read_bytes())
    write(page.executed.with_suffix(".html"), _render(page, notebook))
    write(page.executed, nbformat.writes(notebook))
    for path in set(old) - set(page.files(page.record())):
        path.unlink(missing_ok=True)
    shutil.rmtree(page.unfinished)


def write(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    aside.write_bytes(content.encode() if isinstance(content, str) else content)
    aside.replace(path)


def _clean(notebook: NotebookNode, profile: str) -> None:
    """Take out what papermill has noted of this machine, and say where the values come from."""
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        if "injected-parameters" in cell.metadata.get("tags", ()):
            _, values = cell.source.split("\n", 1)
            cell.source = f"# what the profile {profile} changes\n{values}"


def _figures(notebook: NotebookNode) -> list[dict[str, Any]]:
    """Return number and title of all figures that a notebook has shown, and if of trials."""
    images = [
        output.get("metadata", {}).get("image/png", {})
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]
    return [
        {"number": i["figure"], "title": i["alt"], "trials": i["trials"]}
        for i in images
        if "figure" in i
    ]


def _render(page: Page, notebook: NotebookNode) -> str:
    """Return an executed notebook as one HTML page that needs nothing else."""
    from pygments.formatters import HtmlFormatter

    from labkit.book.equations import Exporter

    exporter = Exporter(template_name="basic", template_file=str(TEMPLATES / "cells.html.j2"))
    body, _ = exporter.from_notebook_node(notebook)
    return _template("notebook.html.j2").render(
        title=page.title,
        profile=page.home.name,
        name=page.name,
        colours=HtmlFormatter().get_style_defs(".highlight"),
        body=re.sub(r'href="([\w-]+)\.ipynb"', r'href="\1.html"', body),
    )


def _template(name: str) -> jinja2.Template:
    import jinja2

    loader = jinja2.FileSystemLoader(TEMPLATES)
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True).get_template(name)


def index(profile: str, pages: list[Page], failed: list[Page]) -> str:
    """Return the index page of a profile.

    Parameters
    ----------
    profile : str
    pages : list of Page
        All of them, also those that have not been made yet.
    failed : list of Page
        Those that should have been made and failed.
    """
    records = [page.record() for page in pages]
    rows = [page.trials() for page in pages]
    made = [record for record in records if record]
    trials = {row["trial"]: row for some in rows for row in some}.values()
    return _template("index.html.j2").render(
        profile=profile,
        pages=[
            {
                "name": page.name,
                "title": page.title,
                "record": record,
                "failed": page in failed,
                "stale": record and page.is_stale(),
                "notes": notes(some),
            }
            for page, record, some in zip(pages, records, rows, strict=True)
        ],
        newest=max(made, key=lambda record: record["finished"], default={}),
        revisions=sorted({record["revision"] for record in made}),
        versions=sorted({row["versions"] for row in trials if row["versions"]}),
        trials=len(trials),
    )


def notes(trials: list[dict[str, str]]) -> list[str]:
    """Say how many trials a page shows, and honestly what they cannot tell."""
    lost = [row["status"] for row in trials if row["status"] != "finished"]
    disturbed = [row for row in trials if row["overloaded"] == "True"]
    unjudged = [r for r in trials if r["status"] == "finished" and not r["overloaded"]]
    # of a page that was made before the column was renamed
    shared = [r for r in trials if "True" in (r.get("oversubscribed"), r.get("time_shared"))]
    counts = {
        "trial" if len(trials) == 1 else "trials": len(trials),
        f"without a result ({', '.join(sorted(set(lost)))})": len(lost),
        "without a rate (the machine was too busy)": len(disturbed),
        "not judged (too short to tell whether other programs held them up)": len(unjudged),
        "oversubscribed (more workers and dedicated servers than cores: no scaling)": len(shared),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]
