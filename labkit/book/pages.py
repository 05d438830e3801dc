"""The pages of a book: when one has to be made again, and what is kept of a notebook that ran.

``outputs/<profile>`` holds

    index.html
    <notebook>.ipynb, .html         executed, and rendered
    figures/<number>.svg, .png      what it shows
    figures/<number>.csv            the trials that a figure shows

An executed notebook says in its metadata from which inputs it was made: that is all the state
there is, and it is put in place last. Until then everything lies in ``.unfinished``.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import provenance
from labkit.settings import REPOSITORY, TEMPLATES

if TYPE_CHECKING:
    import jinja2
    from nbformat import NotebookNode



@dataclass(frozen=True)
class Page:
    """A notebook of a book.

    Attributes
    ----------
    source : Path
        The notebook as it is written.
    parameters : dict
        The values it is run with where they are not its own.
    home : Path
        The directory of the book.
    """

    source: Path
    parameters: Mapping[str, Any]
    home: Path

    @property
    def name(self) -> str:
        """The notebook's name, without a suffix."""
        return self.source.stem

    @property
    def launcher(self) -> str:
        """Where its trials run."""
        return self.parameters.get("launcher", "local")

    @property
    def title(self) -> str:
        """The notebook's first heading."""
        return next(cells(self.source)).removeprefix("# ").split("\n")[0]

    @property
    def executed(self) -> Path:
        """The executed notebook."""
        return self.home / f"{self.name}.ipynb"

    @property
    def unfinished(self) -> Path:
        """Where all is put together."""
        return self.home / ".unfinished" / self.name

    def inputs(self) -> str:
        """Return the SHA-256 of all that the page is made from."""
        digest = hashlib.sha256(_code())
        digest.update(self.source.read_bytes())
        digest.update(json.dumps(self.parameters, sort_keys=True).encode())
        return digest.hexdigest()

    def record(self) -> dict[str, Any]:
        """Return what the executed notebook says of itself; nothing if there is none."""
        try:
            return json.loads(self.executed.read_text())["metadata"].get("labkit", {})
        except FileNotFoundError:
            return {}

    def is_up_to_date(self) -> bool:
        """Return whether the page is there and made from what it would be made from now."""
        record = self.record()
        files = [self.executed.with_suffix(".html"), *self.files(record)]
        return record.get("inputs") == self.inputs() and all(map(Path.exists, files))

    def files(self, record: Mapping[str, Any]) -> list[Path]:
        """Return the files of its figures."""
        return [
            self.home / "figures" / f"{figure['number']}{suffix}"
            for figure in record.get("figures", ())
            for suffix in (".svg", ".png", ".csv")
        ]

    def trials(self) -> list[dict[str, str]]:
        """Return the rows of all trials that its figures show."""
        rows = {}
        for path in self.files(self.record()):
            if path.suffix == ".csv":
                with path.open(newline="") as file:
                    rows |= {row["trial"]: row for row in csv.DictReader(file)}
        return list(rows.values())


def cells(notebook: Path, tag: str | None = None) -> Iterator[str]:
    """Yield the sources of a notebook's cells, or of those with a tag."""
    for cell in json.loads(notebook.read_text())["cells"]:
        if tag is None or tag in cell["metadata"].get("tags", ()):
            yield "".join(cell["source"])


@cache
def _code() -> bytes:
    """Return a hash of what all pages depend on: labkit, its templates, data, environment."""
    root = REPOSITORY
    paths = [
        *sorted((root / "labkit").rglob("*.py")),
        *sorted(TEMPLATES.glob("*.j2")),
        root / "data" / "sources.toml",
        root / "requirements.lock",
    ]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.digest()


# --- one page -------------------------------------------------------------------------------


def keep(page: Page, notebook: NotebookNode, inputs: str, seconds: float) -> None:
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
    """
    import nbformat

    _clean(notebook, page.home.name)
    notebook.metadata["labkit"] = {
        "inputs": inputs,
        "finished": time.strftime("%Y-%m-%d %H:%M"),
        "seconds": round(seconds, 1),
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


def _figures(notebook: NotebookNode) -> list[dict[str, str]]:
    """Return number and title of all figures that a notebook has shown."""
    images = [
        output.get("metadata", {}).get("image/png", {})
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]
    return [{"number": i["figure"], "title": i["alt"]} for i in images if "figure" in i]


def _render(page: Page, notebook: NotebookNode) -> str:
    """Return an executed notebook as one HTML page that needs nothing else."""
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    exporter = HTMLExporter(template_name="basic", template_file=str(TEMPLATES / "cells.html.j2"))
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


# --- the page that leads to all -------------------------------------------------------------


def index(pages: list[Page], failed: list[Page]) -> str:
    """Return the page that leads to all others of a profile.

    Parameters
    ----------
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
        profile=pages[0].home.name,
        pages=[
            {
                "name": page.name,
                "title": page.title,
                "record": record,
                "failed": page in failed,
                "stale": record and not page.is_up_to_date(),
                "notes": _notes(some),
            }
            for page, record, some in zip(pages, records, rows, strict=True)
        ],
        newest=max(made, key=lambda record: record["finished"], default={}),
        revisions=sorted({record["revision"] for record in made}),
        versions=sorted({row["versions"] for row in trials if row["versions"]}),
        trials=len(trials),
    )


def _notes(trials: list[dict[str, str]]) -> list[str]:
    """Say how many trials a page shows, and honestly what they cannot tell."""
    lost = [row["status"] for row in trials if row["status"] != "finished"]
    disturbed = [row for row in trials if row["overloaded"] == "True"]
    shared = [row for row in trials if row["oversubscribed"] == "True"]
    counts = {
        "trials": len(trials),
        f"without a result ({', '.join(sorted(set(lost)))})": len(lost),
        "without a rate (other programs kept the machine busy)": len(disturbed),
        "oversubscribed (more workers than cores: no scaling)": len(shared),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]
