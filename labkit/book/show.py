"""A figure, shown in a notebook and kept in a book."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from labkit import settings

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def show(figure: Figure, number: str, trials: pd.DataFrame) -> None:
    """Show a figure in a notebook; in a book also keep it, and the trials behind it.

    Parameters
    ----------
    figure : Figure
    number : str
        Of the figure, such as ``6.3``: the name of its files.
    trials : DataFrame
        The table of the trials that it shows.
    """
    from IPython.display import Image, display

    from labkit.figures.style import save

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(os.environ.get(settings.FIGURES) or scratch)
        _, png = save(figure, folder / number)
        trials.drop(columns="host", errors="ignore").to_csv(folder / f"{number}.csv", index=False)
        _, _, title = figure.axes[0].get_title("left").partition(" ")
        alt = f"{number} {title}"
        display(Image(png.read_bytes(), width=640, alt=alt, metadata={"figure": number}))
