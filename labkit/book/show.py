"""A figure, shown in a notebook and kept in a book."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import settings
from labkit.errors import LabkitError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(figure: str | Figure, results: Any, name: str | None = None) -> None:
    """Show a figure in a notebook; in a book also keep it, and the trials behind it.

    Parameters
    ----------
    figure : str or Figure
        The number of one of the thesis's, such as ``6.3``, or a drawn one.
    results : object or DataFrame
        What `measure` returned, or a table of trials: what the figure shows.
    name : str, optional
        Of the figure's files; of a thesis's figure it is its number.

    Raises
    ------
    LabkitError
        If a drawn figure has no name, or the thesis has none of this number.

    Examples
    --------
    >>> show("6.3", results)
    >>> show(throughput(results), results, "my-throughput")
    """
    from IPython.display import Image, display

    from labkit.figures.page import save, title_of
    from labkit.figures.selection import tables
    from labkit.thesis.figures import draw, shown

    if isinstance(figure, str):
        results = shown(figure, results)
        name, figure = name or figure, draw(figure, results)
    if not name:
        raise LabkitError('show: give the figure a name: show(figure, results, "my-figure")')
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(os.environ.get(settings.FIGURES) or scratch)
        _, png = save(figure, folder / name)
        tables(results).table.to_csv(folder / f"{name}.csv", index=False)
        number, _, title = title_of(figure).partition(" ")
        alt = f"{name} {title}" if name.startswith(number) else title_of(figure)
        display(Image(png.read_bytes(), width=640, alt=alt, metadata={"figure": name}))
