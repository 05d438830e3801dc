"""Parameters are checked in one call, before anything runs."""

import json
import re

import nbformat
import pytest
from click.testing import CliRunner

from labkit.book.parameters import ParameterError, check_parameters
from labkit.errors import LabkitError

PARAMETERS = """\
framework: list[str] = ["tensorflow", "mxnet"]  # what trains
workers: list[int] = [1, 2]
cnn_learning_rate: float = 0.025
higher_workers: list[int] = [2, 10]
higher_steps: list[int] = [350, 120]
larger_batch_sizes: list[int] = [256]
epochs: float = 0.12
launcher: str = "local"
"""


def check(given="", together=(), parameters=PARAMETERS):
    """Check a notebook's parameters, with those that papermill was given; return all names."""
    injected = f"# Parameters\n{given}\n"
    names = {"In": ["", parameters, injected], "check_parameters": check_parameters}
    exec(parameters + injected + f"check_parameters(*{together!r})", names)
    return names


def refused(given, **more):
    with pytest.raises(ParameterError) as caught:
        check(given, **more)
    first, *lines = str(caught.value).split("\n")
    assert first == "these parameters do not fit:"
    return [line.strip() for line in lines]


def test_what_fits_is_left_as_it_is():
    names = check("workers = [3]")
    assert names["workers"] == [3]
    assert names["framework"] == ["tensorflow", "mxnet"]


def test_a_single_value_is_a_list_of_one_where_a_list_is_meant():
    names = check('workers = 3\nframework = "mxnet"')
    assert (names["workers"], names["framework"]) == ([3], ["mxnet"])


def test_a_whole_number_is_a_fraction_where_one_is_meant():
    names = check("epochs = 1")
    assert names["epochs"] == 1.0 and isinstance(names["epochs"], float)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("workers = 0", "workers: 0; allowed: 1 or more"),
        ("workers = [1, -2]", "workers: -2; allowed: 1 or more"),
        ("workers = 1.5", "workers: 1.5; allowed: a valid integer"),
        ('workers = "two"', "workers: 'two'; allowed: a valid integer"),
        ("workers = []", "workers: an empty list; give at least one value"),
        ("higher_workers = [1, 0]", "higher_workers: 0; allowed: 1 or more"),
        ("larger_batch_sizes = [0]", "larger_batch_sizes: 0; allowed: 1 or more"),
        ("cnn_learning_rate = -1", "cnn_learning_rate: -1.0; allowed: more than 0"),
        ("cnn_learning_rate = [1, 2]", "cnn_learning_rate: [1, 2]; allowed: a valid number"),
        ("epochs = 0", "epochs: 0.0; allowed: more than 0"),
        ('framework = "mxnt"', "framework: 'mxnt'; did you mean 'mxnet'?"),
        ('launcher = "locl"', "launcher: 'locl'; did you mean 'local'?"),
        ("wrokers = 3", "wrokers: this notebook has no such parameter; did you mean 'workers'?"),
        ("xyz = 3", "xyz: this notebook has no such parameter; it has framework, workers,"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    (line,) = refused(given)
    assert line.startswith(said)


def test_all_mistakes_are_in_one_message():
    lines = refused('workers = 0\nlauncher = "k8s"\nwrokers = 3')
    assert [line.partition(":")[0] for line in lines] == ["wrokers", "workers", "launcher"]


def test_lists_that_belong_together_are_equally_long():
    (line,) = refused("higher_workers = 2", together=[["higher_workers", "higher_steps"]])
    assert line == (
        "higher_workers, higher_steps: these belong together, but there are 1 of higher_workers, "
        "2 of higher_steps"
    )
    check("higher_workers = 2\nhigher_steps = 9", together=[["higher_workers", "higher_steps"]])


def test_parameter_errors_are_labkits():
    assert issubclass(ParameterError, LabkitError)


# --- in a real kernel -----------------------------------------------------------------------


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
