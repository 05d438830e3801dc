"""Sweeps: every combination, each once, and what is no sweep."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from labkit.trials import Sweep, Trial, TrialError

pytestmark = pytest.mark.unit

GOOD = {
    "framework": "mxnet",
    "model": "lenet5",
    "workers": 2,
    "batch_size": 128,
    "learning_rate": 0.025,
    "steps": 200,
}

def test_grid_is_every_combination_repeats_outermost():
    sweep = Sweep.grid(2, **GOOD | {"workers": [1, 2], "framework": ["mxnet", "tensorflow"]})
    assert [(t.seed, t.framework, t.workers) for t in sweep] == [
        (seed, framework, workers)
        for seed in (1, 2)
        for framework in ("mxnet", "tensorflow")
        for workers in (1, 2)
    ]


def test_repeats_go_on_from_the_seed():
    assert [t.seed for t in Sweep.grid(3, **GOOD, seed=7)] == [7, 8, 9]


@given(
    repeats=st.integers(1, 4),
    seeds=st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True),
    workers=st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
)
def test_every_repeat_of_every_seed_is_a_trial_of_its_own(repeats, seeds, workers):
    sweep = Sweep.grid(repeats, **GOOD | {"seed": seeds, "workers": workers})
    assert len(sweep) == repeats * len(seeds) * len(workers)
    first = list(sweep)[: len(seeds) * len(workers)]
    assert {trial.seed for trial in first} == set(seeds)


def test_a_changed_number_of_workers_brings_its_servers_along():
    trial = Trial(**GOOD)
    assert trial.replace(workers=8) == Trial(**GOOD | {"workers": 8})
    assert trial.replace(workers=8).servers == 8


def test_a_sweep_holds_a_trial_once():
    one, other = Trial(**GOOD), Trial(**GOOD | {"workers": 4})
    both = Sweep([one, other]) + [Trial(**GOOD)]
    assert list(both) == [one, other]
    assert len(both) == 2
    assert both[1] == other
    assert other in both
    assert repr(both).startswith("Sweep of 2 trials: framework mxnet; model lenet5; ")
    assert "workers 2, 4" in repr(both)
    assert both.axes == {"workers": [2, 4], "servers": [2, 4]}
    assert "<td style='text-align:left'>2, 4</td>" in both._repr_html_()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"workers": [1, 0]}, "workers: 0"),
        ({"workers": []}, "workers: an empty list"),
        ({"repeats": 0}, "repeats: 0; allowed: a whole number from 1"),
        ({"repeats": 1.5}, "repeats: 1.5"),
        ({"repeats": True}, "repeats: True"),
        ({"repeats": 2, "seed": 2**31 - 1}, f"seed: {2**31}"),
        ({"wokers": [1, 2]}, "did you mean 'workers'"),
    ],
)
def test_what_is_no_sweep(values, says):
    with pytest.raises(TrialError, match=says):
        Sweep.grid(**GOOD | values)


def test_an_empty_sweep():
    with pytest.raises(TrialError, match="at least one trial"):
        Sweep([])


def test_a_grid_shows_the_fields_of_a_trial():
    parameters = inspect.signature(Sweep.grid).parameters
    assert list(parameters) == ["repeats", *Trial.model_fields]
    fields = inspect.signature(Trial).parameters
    assert all(parameters[name] == fields[name] for name in fields)


@pytest.mark.parametrize("call", ["Trial(", "Sweep.grid("])
def test_completion_offers_the_fields(call):
    """As the kernel of a notebook offers them on Tab."""
    shell = InteractiveShell.instance()
    shell.user_ns.update(Trial=Trial, Sweep=Sweep)
    text = f"{call}learn"
    with provisionalcompleter():
        offered = [found.text for found in shell.Completer.completions(text, len(text))]
    assert any(text.startswith("learning_rate") for text in offered)
