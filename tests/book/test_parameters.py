"""Parameters are checked in one call, before anything runs."""

import pytest

from labkit.book.parameters import ParameterError, check_parameters
from labkit.errors import LabkitError

pytestmark = pytest.mark.unit

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


def check(given="", together=(), parameters=PARAMETERS, more=""):
    """Check a notebook's parameters, with those that papermill was given; return all names."""
    injected = f"# Parameters\n{given}\n"
    names = {"In": ["", parameters, injected], "check_parameters": check_parameters}
    exec(parameters + injected + f"check_parameters(*{together!r}, {more})", names)
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


GUESS = PARAMETERS + "from typing import Optional\nguess: Optional[list[float]] = None\n"


def test_a_guess_is_one_speedup_for_each_number_of_workers_above_one():
    how = {"parameters": GUESS, "more": 'guess="workers"'}
    assert check(**how)["guess"] is None
    assert check("guess = 1.9", **how)["guess"] == [1.9]
    assert check("workers = [5, 1, 10]\nguess = [4, 7.5]", **how)["guess"] == [4.0, 7.5]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "workers = [1, 5, 10]\nguess = [4]",
            "guess: [4.0]; allowed: one for each of [5, 10], as these are speedups of the workers "
            "above one",
        ),
        ("guess = [1, 1.9]", "guess: [1.0, 1.9]; allowed: one for each of [2], as these are"),
        ("workers = 1\nguess = [1]", "guess: [1.0]; allowed: None, as these are speedups of"),
        ("guess = []", "guess: an empty list; give at least one value"),
        ("guess = [-2]", "guess: -2.0; allowed: numbers above 0"),
        ("guess = float('nan')", "guess: nan; allowed: numbers above 0"),
        ("guess = 'two'", "guess: 'two'; allowed: a valid number"),
    ],
)
def test_a_guess_that_does_not_fit_is_refused(given, said):
    (line,) = refused(given, parameters=GUESS, more='guess="workers"')
    assert line.startswith(said)


def test_parameter_errors_are_labkits():
    assert issubclass(ParameterError, LabkitError)
