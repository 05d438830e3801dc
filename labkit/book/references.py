"""What a notebook refers to, from the one bibliography."""

from __future__ import annotations

from labkit.errors import LabkitError, nearest
from labkit.settings import NOTEBOOKS

BIBLIOGRAPHY = NOTEBOOKS / "references.bib"


def references(*keys: str) -> None:
    """Show entries of ``notebooks/references.bib`` as a list, in the order of their authors.

    Parameters
    ----------
    *keys : str
        Such as ``lecun1998``.

    Raises
    ------
    LabkitError
        If there is no entry of that key.
    """
    from IPython.display import Markdown, display
    from pybtex.backends.markdown import Backend
    from pybtex.database import parse_file
    from pybtex.plugin import find_plugin

    entries = parse_file(str(BIBLIOGRAPHY), "bibtex").entries
    for key in keys:
        if key not in entries:
            raise LabkitError(f"references.bib: {key!r} is unknown{nearest(key, entries)}")
    style = find_plugin("pybtex.style.formatting", "plain")(abbreviate_names=True)
    chosen = style.sort([entries[key] for key in keys])
    texts = [
        entry.text.render(Backend()).replace("\n", " ") for entry in style.format_entries(chosen)
    ]
    display(Markdown("\n".join(f"- {text}" for text in texts)))
