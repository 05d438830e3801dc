"""Notebooks of chapter 6 that ask for a guess first, and show all side by side at the end."""

import pytest
from made_notebooks import run

from labkit import LabkitError
from labkit.book.plan import plan
from labkit.thesis import guesses

pytestmark = pytest.mark.unit

NAMES = {
    "6-1-3-cnn-batch-512": "6.3",
    "6-1-4-cnn-batch-256": "6.4a",
    "6-1-5-cnn-batch-128": "6.6",
    "6-2-1-rnn-batch-20": "6.7",
    "6-2-2-rnn-batch-5": "6.9",
}
"""The notebooks, and the figure beside which a guess is shown."""

PARAMETER = "guess: Optional[list[float]] = None"


@pytest.fixture
def guessed(monkeypatch):
    """Return a function that runs a notebook with a guess, and what was drawn of that."""
    (pages, drawn, forecast) = (plan("laptop"), [], guesses.forecast)

    def draw(results, forecasts, guess, **how):
        drawn.append((set(forecasts), dict(guess)))
        return forecast(results, forecasts, guess, **how)

    monkeypatch.setattr(guesses, "forecast", draw)

    def of(name, guess):
        (page,) = (page for page in pages if page.name == name)
        return *run(page, monkeypatch, [(PARAMETER, f"{PARAMETER[:-4]}{guess}")]), drawn

    return of


@pytest.mark.parametrize("name", NAMES)
def test_the_guess_is_drawn_beside_prediction_and_measurement(name, guessed):
    _, found, printed, drawn = guessed(name, [1.7])
    assert drawn == [({"predicted"}, {2: 1.7})] * 2  # of each framework
    assert {f"{NAMES[name]}-prediction-{of}" for of in ("tensorflow", "mxnet")} <= set(found)
    assert "guessed speedups: 1.7 with 2 workers" in printed and "guess off [%]" in printed
    assert printed.index("guessed speedups") < printed.index("Does it scale?")


@pytest.mark.parametrize("name", NAMES)
def test_a_guess_of_a_wrong_length_is_refused_before_anything_is_measured(name, guessed):
    with pytest.raises(LabkitError, match=r"guess: \[1.7, 4.0\]; allowed: one for each of \[2\]"):
        guessed(name, [1.7, 4])


SMALL = "6-1-2-cnn-batch-5"


def test_the_end_of_a_plateau_can_be_guessed_too(guessed):
    _, _, printed, drawn = guessed(SMALL, [9000, 900])
    assert not drawn  # a table is enough
    assert "Predicted from " in printed and "guess off [%]" in printed
    assert printed.index("labkit/replicas/train_mxnet.py, Worker.__init__") < printed.index("9000")
    assert "guess off" not in guessed(SMALL, None)[2]


def test_a_plateau_is_guessed_for_each_number_of_workers(guessed):
    with pytest.raises(LabkitError, match="workers, guess: these belong together"):
        guessed(SMALL, [9000])
