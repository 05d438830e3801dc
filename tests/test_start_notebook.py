"""The notebook that the README starts from."""

import os
import re

import nbformat
import pytest
from nbclient import NotebookClient
from processes import REPOSITORY

from labkit.book.plan import plan
from labkit.settings import OUTPUTS

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm"),
]

START = "notebooks/start.ipynb"


def test_the_first_notebook_runs_as_it_stands(tmp_path):
    """From its own folder, as JupyterLab runs it: a table of contents with links, and a trial."""
    environment = os.environ | {OUTPUTS: str(tmp_path)}
    notebook = nbformat.read(REPOSITORY / START, as_version=4)
    client = NotebookClient(notebook, timeout=None, resources={"metadata": {"path": "notebooks"}})
    client.execute(cwd=str((REPOSITORY / START).parent), env=environment)
    shown = {cell.source: cell.outputs[-1].get("data") for cell in notebook.cells
             if cell.get("outputs")}  # fmt: skip
    links = re.findall(r"\]\(([\w-]+)\.ipynb\)", shown["contents()"]["text/markdown"])
    assert links == [page.name for page in plan("laptop")]
    assert "1 run" in shown["results"]["text/html"]
    (reports,) = (data for source, data in shown.items() if source.startswith("results.steps"))
    assert "100" in reports["text/html"]
