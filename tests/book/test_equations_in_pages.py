"""Equations in the pages: MathML in place of LaTeX."""

import re

import nbformat
import pytest

from labkit.book.equations import Exporter
from labkit.settings import NOTEBOOKS

pytestmark = pytest.mark.unit


def page(source):
    """Return the HTML of a notebook of one cell of Markdown."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source)])
    return Exporter(template_name="basic").from_notebook_node(notebook)[0]


def test_an_equation_is_mathml():
    html = page("Speedup is $S(N)$, and efficiency\n\n$$E(N) = \\frac{S(N)}{N}$$\n\nfor `$HOME`.")
    inline, block = re.findall(r"<math.*?</math>", html, re.DOTALL)
    assert 'display="inline"' in inline and "<mi>S</mi>" in inline
    assert 'display="block"' in block and "<mfrac>" in block
    assert "$HOME" in html and "frac{" not in html


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_latex_is_left_in_any_notebook(path):
    cells = nbformat.read(path, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    html = page(text)
    prose = re.sub(r"<(code|pre).*?</\1>", "", html, flags=re.DOTALL)
    assert "$$" not in prose
    for equation in re.findall(r"<math.*?</math>", prose, re.DOTALL):
        assert "\\" not in re.sub(r"<[^>]*>", "", equation), equation
    assert prose.count("<math") >= text.count("$$") // 2
