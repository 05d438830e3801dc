"""What a notebook on foundations computes, for tests of it, and what a figure shows."""

import ast
import contextlib
import io
import re

import nbformat
import numpy as np
from PIL import Image

from labkit.settings import NOTEBOOKS


def names_of(name, before="## Exercises", **parameters):
    """Return what is called how after a notebook's cells, without its figures.

    Parameters
    ----------
    name : str
    before : str
        The heading at which to stop.
    **parameters
        Instead of the notebook's own.
    """
    space = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells:
            if cell.cell_type == "markdown" and re.search(rf"^{before}", cell.source, re.M):
                return space
            if cell.cell_type == "code":
                tree = ast.parse(cell.source)
                tree.body = [node for node in tree.body if not _draws(node)]
                exec(compile(tree, f"{name}: {cell.id}", "exec"), space)
            if "parameters" in cell.metadata.get("tags", ()):
                space |= parameters
    raise AssertionError(f"{name} has no {before}")


def _draws(node):
    call = getattr(node, "value", None)
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("show", "explore")


def words(figure):
    """Return all that is written in a figure."""
    texts = [figure.get_suptitle(), *(text.get_text() for text in figure.texts)]
    for axes in figure.axes:
        texts += [axes.get_title("left"), axes.get_title(), axes.get_xlabel()]
        texts += [text.get_text() for text in axes.texts]
        legend = axes.get_legend()
        texts += [text.get_text() for text in legend.get_texts()] if legend else []
    return [text for text in texts if text]


def is_drawn(figure):
    """Return whether at least a hundredth of a figure is not white, within its edges."""
    pixels = np.array(Image.open(io.BytesIO(figure._repr_png_())).convert("L"))
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    return (pixels < 250).mean() > 0.01 and (edge > 250).all()
