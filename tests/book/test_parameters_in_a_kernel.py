"""Parameters, as papermill gives them to a notebook."""

import json
import re

import nbformat
import pytest
from click.testing import CliRunner

pytestmark = pytest.mark.process

PARAMETERS = """\
framework: list[str] = ["tensorflow", "mxnet"]  # what trains
workers: list[int] = [1, 2]
epochs: float = 0.12
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Return the path of a notebook that checks its parameters and prints them."""
    cells = [
        nbformat.v4.new_code_cell("from labkit import check_parameters"),
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("check_parameters()"),
        nbformat.v4.new_code_cell("print(workers, epochs)"),
    ]
    path = tmp_path_factory.mktemp("notebooks") / "0-1-tiny.ipynb"
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata.kernelspec = {"name": "python3", "display_name": "x", "language": "python"}
    nbformat.write(book, path)
    return path


def execute(notebook, tmp_path, **parameters):
    """Run a notebook with papermill; return what it printed."""
    import papermill

    done = papermill.execute_notebook(
        notebook, tmp_path / "done.ipynb", parameters, progress_bar=False
    )
    return [o.get("text", "") for cell in done.cells for o in cell.get("outputs", ())]


def test_papermill_gives_single_values_for_lists(notebook, tmp_path):
    assert execute(notebook, tmp_path, workers=3) == ["[3] 0.12\n"]


def test_papermill_is_told_of_names_and_values_that_do_not_fit(notebook, tmp_path):
    from papermill.exceptions import PapermillExecutionError

    with pytest.raises(PapermillExecutionError) as caught:
        execute(notebook, tmp_path, wrokers=3, workers=0)
    said = re.sub(r"\x1b\[[0-9;]*m", "", str(caught.value))
    assert "wrokers: this notebook has no such parameter; did you mean 'workers'?" in said
    assert "workers: 0; allowed: 1 or more" in said
    assert "print(workers" not in said
    assert not json.loads((tmp_path / "done.ipynb").read_text())["cells"][-1]["outputs"]


def test_papermill_shows_the_types(notebook):
    from papermill.cli import papermill

    shown = CliRunner().invoke(papermill, ["--help-notebook", str(notebook)]).output
    assert "Unknown type" not in shown
    assert "workers: list[int] (default [1, 2])" in shown
    assert re.search(r"framework: list\[str\].*\n +what trains", shown)
