"""The book as a site: made by Sphinx, and read with nothing but a browser."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from labkit.book.edition import USUAL, edition, uncomputed
from labkit.book.manuscript import manuscript
from labkit.book.pages import Page
from labkit.book.plan import BookError
from labkit.book.render import write
from labkit.settings import NOTEBOOKS, TEMPLATES, outputs

WORK = ".build"
"""The folder in the site in which Sphinx finds its sources and remembers what it has read."""


def build(
    profile: str = USUAL,
    output: Path | None = None,
    echo: Callable[[str], object] = print,
    notebooks: Path = NOTEBOOKS,
) -> Path:
    """Make the book from the results that there are.

    Notebooks that measure nothing are run first if they have not been, or not as they are now.

    Parameters
    ----------
    profile : str
        Whose results are shown; those of the published run where they are missing.
    output : Path, optional
        The directory of the site; ``outputs/book`` if it is not given.
    echo : callable
        Prints one line.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Returns
    -------
    Path
        Its first page.

    Raises
    ------
    BookError
        Before anything starts, if the profile does not fit the notebooks, or the directory holds
        something else; at the end, if some notebooks have failed.
    """
    output = (output or outputs() / "book").absolute()
    shown = edition(profile, notebooks)
    if output.exists() and not (output / WORK).exists() and any(_within(output)):
        raise BookError(f"{output}: there is something else than a book; name another directory")
    failed = _compute(uncomputed(shown, profile, notebooks), echo)
    shown = edition(profile, notebooks)
    changed = _lay_out(dict(manuscript(shown)), output / WORK / "source")
    said = {f"notebooks/{each.page.name}": each.run for each in shown}
    for warning in _run_sphinx(output, "index.md" in changed, said, echo):
        echo(warning)
    if failed:
        raise BookError(
            f"failed, as is said above: {', '.join(failed)}; all else is in "
            f"{output / 'index.html'}"
        )
    echo(f"see {output / 'index.html'}")
    return output / "index.html"


def _within(directory: Path) -> Sequence[Path]:
    if not directory.is_dir():
        return [directory]
    return list(directory.iterdir())


def _compute(pages: list[Page], echo: Callable[[str], object]) -> list[str]:
    """Run the notebooks of some pages; return the names of those that failed."""
    from labkit.book.reproduce import prepare
    from labkit.book.status import StatusLine

    failed = []
    if pages:
        with prepare(pages, echo, StatusLine(echo)) as runner:
            for page in pages:
                try:
                    runner.run(page, page.name)
                    echo(f"{page.name}: computed")
                except BookError as error:
                    failed.append(page.name)
                    echo(f"{page.name}: {error}\n")
    return failed


def _lay_out(files: Mapping[str, bytes], folder: Path) -> set[str]:
    """Have a folder hold these files and no others; return those that are not as before.

    Others are not touched, so that Sphinx sees what it has read already.
    """
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in files:
            path.unlink()
    changed = set()
    for name, content in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            write(path, content)
            changed.add(name)
    return changed


def _run_sphinx(
    output: Path, everything: bool, said: Mapping[str, str], echo: Callable[[str], object]
) -> list[str]:
    """Make the site; return Sphinx's warnings.

    Parameters
    ----------
    output : Path
        The site's directory.
    everything : bool
        Write all pages: their tables of contents have changed.
    said : mapping of str to str
        What is to be printed of a page, beside its name, when it is read.
    """
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    work, templates = output / WORK, TEMPLATES / "book"
    warnings = io.StringIO()

    def tell(_: Sphinx, name: str, __: list[str]) -> None:
        echo(": ".join(filter(None, [name.rpartition("/")[2], said.get(name)])))

    try:
        with patch_docutils(str(templates)), docutils_namespace():
            sphinx = Sphinx(
                work / "source", templates, output, work / "doctrees", "html",
                status=None, warning=warnings,
            )  # fmt: skip
            # MyST-NB would keep the notebooks that it has read beside the site.
            read = str(work / "read")
            sphinx.env.mystnb_config = sphinx.env.mystnb_config.copy(output_folder=read)
            sphinx.connect("source-read", tell)
            sphinx.build(force_all=everything)
            names = sphinx.env.found_docs
    except SphinxError as error:
        raise BookError(f"the book cannot be made: {error}") from error
    for page in [*output.glob("notebooks/*.html"), *output.glob("docs/*.html")]:
        if str(page.relative_to(output).with_suffix("")) not in names:
            page.unlink()
    text = re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())
    return text.splitlines()
