"""`make lab`: JupyterLab opens what the README names, and own work is not part of the book."""

import os
import re
import subprocess

import nbformat
import pytest
from lab import Lab
from nbclient import NotebookClient
from processes import REPOSITORY

from labkit.book.plan import plan
from labkit.settings import OUTPUTS

pytestmark = pytest.mark.process

OWN = "notebooks/my/experiment.ipynb"

START = "notebooks/start.ipynb"


@pytest.fixture
def lab(tmp_path):
    with Lab(tmp_path) as started:
        yield started


def test_the_server_opens_what_the_readme_starts_from(lab):
    for path in (START, OWN, "templates/experiment.ipynb", "notebooks/6-1-2-cnn-batch-5.ipynb"):
        assert lab.contents(path)["type"] == "notebook"
    ignored = subprocess.run(["git", "check-ignore", OWN], cwd=REPOSITORY, capture_output=True)
    assert ignored.returncode == 0  # and what lies deeper than notebooks/ is no part of the book


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("warm")
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
