"""Figures and files, shown in a notebook and kept in a book; sliders, if somebody is there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import settings
from labkit.errors import LabkitError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(figure: str | Figure, results: Any = None, name: str | None = None) -> None:
    """Show a figure in a notebook; in a book also keep it, and the trials behind it.

    Parameters
    ----------
    figure : str or Figure
        The number of one of the thesis's, such as ``6.3``, or a drawn one.
    results : object or DataFrame, optional
        What `measure` returned, or a table of trials: what the figure shows. None if it shows no
        trials.
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
    >>> show(neurons.neuron(), name="2.1")
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
        if results is not None:
            tables(results).table.to_csv(folder / f"{name}.csv", index=False)
        number, _, title = title_of(figure).partition(" ")
        alt = f"{name} {title}" if name.startswith(number) else title_of(figure)
        metadata = {"figure": name, "trials": results is not None}
        display(Image(png.read_bytes(), width=640, alt=alt, metadata=metadata))


def explore(draw: Callable[..., Figure], name: str, **values: Sequence[Any]) -> None:
    """Show a figure with a slider for each of its values; in a book, the figure as it begins.

    Parameters
    ----------
    draw : callable
        Gives the figure of one value of each.
    name : str
        Of the figure's files in a book.
    **values : sequence
        What a slider goes through, from left to right. It begins in the middle.

    Examples
    --------
    >>> explore(valley, "2.4b", learning_rate=[0.01, 0.1, 0.5])
    """
    middle = {key: choices[len(choices) // 2] for key, choices in values.items()}
    if os.environ.get(settings.FIGURES):
        show(draw(**middle), name=name)
        return
    import ipywidgets

    def redraw(**chosen: Any) -> None:
        show(draw(**chosen), name=name)

    sliders = {
        key: ipywidgets.SelectionSlider(
            options=choices, value=middle[key], description=key.replace("_", " "),
            continuous_update=False, style={"description_width": "initial"},
        )
        for key, choices in values.items()
    }  # fmt: skip
    ipywidgets.interact(redraw, **sliders)


def attach(name: str, content: str) -> Path:
    """Write a file that belongs to a notebook, and show a link to it.

    Parameters
    ----------
    name : str
        Of the file; another one of this name is replaced.
    content : str
        Its text.

    Returns
    -------
    Path
        Where it is: in a book among its figures, otherwise in ``own`` of the outputs.

    Examples
    --------
    >>> attach("brief.html", brief(results))
    """
    from IPython.display import HTML, display

    book = os.environ.get(settings.FIGURES)
    path = Path(book or settings.outputs() / "own") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    link = f"figures/{name}" if book else os.path.relpath(path)
    display(HTML(f'<a href="{link}">{name}</a>'))
    return path
