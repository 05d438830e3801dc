"""The book as Sphinx reads it: executed notebooks, documents and a first page, in one folder."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labkit.book.edition import Shown
from labkit.settings import REPOSITORY, TEMPLATES

DOCS = REPOSITORY / "docs"

REFERENCE_PART = "Reference"
"""The title of the last part, which has the documents."""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
"""In Markdown: its text, the file, and the place in it."""

ATTACHED = re.compile(r'<a href="figures/([^"/]+)">[^<]*</a>')
"""In HTML: the link that `labkit.attach` shows."""

SPECIAL = re.compile(r"([\\`*_{}\[\]$<>#|])")
"""What means something in Markdown."""


def manuscript(shown: Sequence[Shown]) -> Iterator[tuple[str, bytes]]:
    """Yield the files from which Sphinx makes the book, with their paths in its source folder.

    Notebooks and documents lie there as in the repository, so that links between them hold.

    Parameters
    ----------
    shown : sequence of Shown
        The notebooks, in their order.
    """
    documents = sorted(DOCS.glob("*.md"))
    kept = {each.page.source.resolve() for each in shown} | set(documents)
    for each in shown:
        name, page = each.page.name, each.page
        content = json.dumps(_notebook(each, kept), indent=1)
        yield f"notebooks/{name}.ipynb", content.encode()
        if each.executed:
            yield f"executed/{name}.ipynb", page.executed.read_bytes()
        for path in page.files(page.record()):
            if path.suffix != ".png" and path.exists():
                yield f"notebooks/figures/{path.name}", path.read_bytes()
        for path in _attached(each):
            yield f"notebooks/figures/{path.name}", path.read_bytes()
    for path in documents:
        # Sphinx would have to fetch what draws such diagrams from another host.
        text = path.read_text().replace("```mermaid\n", "```text\n")
        yield f"docs/{path.name}", _links(text, DOCS, kept).encode()
    yield "index.md", _front_page(shown, documents).encode()


def _notebook(shown: Shown, kept: set[Path]) -> dict[str, Any]:
    """Return a notebook with what it shows said below its title, and how to run it at its end."""
    content = shown.content()
    place = shown.page.source.parent
    first, *others = content["cells"]
    title, _, rest = "".join(first["source"]).partition("\n")
    head = f"{title}\n\n{{.run}}\n{shown.which()} [Run it yourself](#run-it-yourself).\n\n{rest}"
    known = content["metadata"]
    return content | {
        "cells": [
            _cell(first | {"source": head}, shown, place, kept),
            *(_cell(cell, shown, place, kept) for cell in others),
            {"id": "run-it-yourself", "cell_type": "markdown", "metadata": {},
             "source": _how(shown)},
        ],
        "metadata": {k: known[k] for k in ("kernelspec", "language_info") if k in known},
    }  # fmt: skip


def _how(shown: Shown) -> str:
    """Return the last section of a page."""
    said = [f"- {each}" for each in shown.circumstances()]
    if shown.executed:
        name = f"{shown.page.name}.ipynb"
        said.append(f"- {{download}}`The executed notebook <../executed/{name}>`, as a file.")
    return "\n".join(
        [
            "## Run it yourself",
            "",
            "```sh",
            shown.command,
            "```",
            "",
            "Then `make book` shows here what you have got. `make lab` opens the notebook, to "
            "change a number and see what happens.",
            "",
            *said,
        ]
    )


def _cell(cell: dict[str, Any], shown: Shown, place: Path, kept: set[Path]) -> dict[str, Any]:
    """Return a cell with links that lead somewhere, or with its figures as they are drawn."""
    if cell["cell_type"] == "markdown":
        return cell | {"source": _links("".join(cell["source"]), place, kept)}
    if cell["cell_type"] != "code":
        return cell
    tags = cell["metadata"].get("tags", [])
    metadata: dict[str, Any] = {"tags": tags}
    if "solution" in tags:
        prompt = "Solution in code"
        metadata["mystnb"] = {"code_prompt_show": prompt, "code_prompt_hide": prompt}
    if "".join(cell["source"]).startswith("references("):  # whose output says all
        metadata["tags"] = [*tags, "remove-input"]
    outputs = [_output(output, shown) for output in cell["outputs"]]
    return cell | {"metadata": metadata, "outputs": outputs}


def _output(output: dict[str, Any], shown: Shown) -> dict[str, Any]:
    """Return an output; of a figure, a directive that shows it as SVG with its caption."""
    image = output.get("metadata", {}).get("image/png", {})
    name = image.get("figure")
    folder = shown.page.home / "figures"
    if attached := ATTACHED.fullmatch("".join(output.get("data", {}).get("text/html", ""))):
        return _markdown(f"{{download}}`{attached[1]} <figures/{attached[1]}>`")
    if not name or not (folder / f"{name}.svg").exists():
        return output
    title = " ".join(image["alt"].removeprefix(name).split())
    number = f"**Figure {name}.** " if re.fullmatch(r"\d+(\.\d+)*[a-z]?", name) else ""
    caption = number + SPECIAL.sub(r"\\\1", title)
    if (folder / f"{name}.csv").exists():
        caption += f" ({{download}}`its trials <figures/{name}.csv>`)"
    lines = [
        f"```{{figure}} figures/{name}.svg",
        f":alt: {title}",
        ":width: 640px",
        "",
        caption,
        "```",
    ]
    return _markdown("\n".join(lines))


def _markdown(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": {"text/markdown": text}}


def _attached(shown: Shown) -> Iterator[Path]:
    """Yield the files that `labkit.attach` has written for a notebook."""
    for cell in shown.content()["cells"]:
        for output in cell.get("outputs", ()):
            html = "".join(output.get("data", {}).get("text/html", ""))
            found = ATTACHED.fullmatch(html)
            if found and (path := shown.page.home / "figures" / found[1]).exists():
                yield path


def _links(text: str, place: Path, kept: set[Path]) -> str:
    """Return Markdown whose links to what is not in the book are their words alone."""

    def leads(link: re.Match[str]) -> str:
        return link[0] if (place / link[2]).resolve() in kept else link[1]

    return LINK.sub(leads, text)


def _front_page(shown: Sequence[Shown], documents: Sequence[Path]) -> str:
    """Return the first page, with the table of contents."""
    import jinja2

    parts: dict[str, list[tuple[str, str, int]]] = {}
    for each in shown:
        link = f"notebooks/{each.page.name}.ipynb"
        parts.setdefault(each.part, []).append((each.page.title, link, each.minutes))
    if documents:
        parts[REFERENCE_PART] = [
            (path.read_text().split("\n")[0].removeprefix("# "), f"docs/{path.name}", 0)
            for path in documents
        ]
    template = (TEMPLATES / "book" / "index.md.j2").read_text()
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(template).render(parts=parts, shown=_of_which(shown))


def _of_which(shown: Sequence[Shown]) -> str:
    """Say how many pages show which run."""
    counts = Counter(each.run for each in shown if each.measures)
    if len(counts) == 1:
        return f"All pages that measure something show {next(iter(counts))}."
    said = [f"{count} show{'s' * (count == 1)} {run}" for run, count in counts.items()]
    return f"Of the {counts.total()} pages that measure something {', '.join(said)}."
