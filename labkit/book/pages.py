"""The pages of a book, and when one has to be made again.

``outputs/<profile>`` holds

    index.html
    <notebook>.ipynb, .html         executed, and rendered
    figures/<number>.svg, .png      what it shows
    figures/<number>.csv            the trials that a figure shows, if it shows any

An executed notebook says in its metadata from which inputs it was made: that is all the state
there is, and it is put in place last. Until then everything lies in ``.unfinished``.
"""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError
from labkit.settings import NOTEBOOKS, REFERENCE, REPOSITORY, TEMPLATES


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
        """Where the page and its figures are until the page is complete."""
        return self.home / ".unfinished" / self.name

    @property
    def measures(self) -> bool:
        """Whether the notebook runs trials; others say by no parameter where these would run."""
        return any("launcher:" in cell for cell in cells(self.source, tag="parameters"))

    def inputs(self) -> str:
        """Return the SHA-256 of all that the page is made from.

        What measures nothing may show the published run.
        """
        digest = hashlib.sha256(code_hash())
        if not self.measures:
            for path in sorted(REFERENCE.glob("*.parquet")):
                digest.update(path.read_bytes())
        digest.update(json.dumps(_content(self.source)).encode())
        digest.update(json.dumps(self.parameters, sort_keys=True).encode())
        return digest.hexdigest()

    def record(self) -> dict[str, Any]:
        """Return what the executed notebook says of itself; nothing if there is none."""
        try:
            return json.loads(self.executed.read_text())["metadata"].get("labkit", {})
        except (FileNotFoundError, ValueError, KeyError):  # never made, or spoilt since
            return {}

    def is_up_to_date(self) -> bool:
        """Return whether the page is there, whole, and made from what it would be made from now.

        Without the rate of a trial, because other programs disturbed it, a page is not whole.
        """
        return not self.is_stale() and not self.record().get("without_rate")

    def is_stale(self) -> bool:
        """Return whether the page is not what its inputs would give now, were all measured."""
        record = self.record()
        files = [self.executed.with_suffix(".html"), *self.files(record)]
        return record.get("inputs") != self.inputs() or not all(map(Path.exists, files))

    def differs(self) -> bool:
        """Return whether the notebook says something else now than when it was executed."""
        executed = _content(self.executed)
        kept = [cell for cell in executed if "injected-parameters" not in cell[2]]
        return kept != _content(self.source)

    def files(self, record: Mapping[str, Any]) -> list[Path]:
        """Return the files of its figures."""
        return [
            self.home / "figures" / f"{figure['number']}{suffix}"
            for figure in record.get("figures", ())
            for suffix in (".svg", ".png", ".csv")
            if suffix != ".csv" or figure.get("trials", True)
        ]

    def trials(self) -> list[dict[str, str]]:
        """Return the rows of all trials that its figures show."""
        rows = {}
        for path in self.files(self.record()):
            if path.suffix == ".csv" and path.exists():
                with path.open(newline="") as file:
                    rows |= {row["trial"]: row for row in csv.DictReader(file)}
        return list(rows.values())


def changed(pages: Iterable[Page]) -> list[str]:
    """Return the names of the pages whose notebooks git has in another form.

    Outputs that JupyterLab has saved are no difference. Of notebooks that git does not know, or
    without git, nothing can be said.
    """
    found = []
    for page in pages:
        try:
            committed = subprocess.run(
                ["git", "show", f"HEAD:./{page.source.name}"],
                cwd=page.source.parent, capture_output=True, text=True, check=True, timeout=30,
            ).stdout  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            continue
        if _said(json.loads(committed)["cells"]) != _content(page.source):
            found.append(page.name)
    return found


def _content(notebook: Path) -> list[Any]:
    """Return what a notebook says, without its outputs and all else that a run leaves in it."""
    return _said(_cells(notebook))


def _said(cells: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [
        [cell["cell_type"], "".join(cell["source"]), cell["metadata"].get("tags", [])]
        for cell in cells
    ]


def _cells(notebook: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook; a LabkitError if it is none."""
    try:
        return json.loads(notebook.read_text())["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise LabkitError(f"{notebook}: not a notebook: {error}") from None


def cells(notebook: Path, tag: str | None = None) -> Iterator[str]:
    """Yield the sources of a notebook's cells, or of those with a tag."""
    for cell in _cells(notebook):
        if tag is None or tag in cell["metadata"].get("tags", ()):
            yield "".join(cell["source"])


@cache
def code_hash() -> bytes:
    """Return a hash of what all pages depend on: labkit, its templates, data, environment."""
    paths = [
        *sorted((REPOSITORY / "labkit").rglob("*.py")),
        *sorted(TEMPLATES.glob("*.j2")),
        *sorted(p for p in (REPOSITORY / "data").glob("[!.]*.*") if p.is_file()),
        NOTEBOOKS / "references.bib",
        REPOSITORY / "requirements.lock",
    ]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.digest()
