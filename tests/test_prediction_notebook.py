"""Notebook 8: guess, predict, measure, in this order."""

import pytest
from made_notebooks import run

import labkit
from labkit import LabkitError
from labkit.book.plan import plan
from labkit.runs import demands

pytestmark = pytest.mark.unit


@pytest.fixture
def predicted(monkeypatch):
    """Return a function that runs the notebook of predictions, with what it hands to each step."""
    seen = {"points": [], "demands": [], "guesses": []}
    predict, measured, forecast = labkit.predict, demands.measured, labkit.forecast

    def fit(points, **how):
        seen["points"].append(set(points))
        return predict(points, **how)

    def take(table, *which, **how):
        seen["demands"].append(set(table["workers"]))
        return measured(table, *which, **how)

    def draw(results, forecasts, guess, **how):
        seen["guesses"].append(guess)
        return forecast(results, forecasts, guess, **how)

    monkeypatch.setattr(labkit, "predict", fit)
    monkeypatch.setattr(demands, "measured", take)
    monkeypatch.setattr(labkit, "forecast", draw)
    (page,) = (page for page in plan("laptop") if page.name == "8-prediction")

    def of(*edits):
        return *run(page, monkeypatch, edits), seen

    return of


def test_predictions_know_nothing_of_what_they_predict(predicted):
    trials, found, printed, seen = predicted()
    assert {trial.workers for trial in trials} == {1, 2, 5, 10}
    each = [{1, 2, 5}] * 2  # of each framework; what an exercise predicts comes after
    assert seen["points"][:2] == seen["demands"] == each
    assert [trial.workers == 10 for trial in trials] == [False] * 6 + [True] * 2
    assert "no guess yet" in printed and seen["guesses"] == [{}, {}]
    for title, _ in found.values():
        assert "slow nodes (computing takes 20 times as long)" in title
    assert all(f"{name}, batch size 128, {how}\n" in printed for name in ("tensorflow", "mxnet")
               for how in ("from throughput", "simulated"))  # fmt: skip


def test_each_batch_size_has_its_own_points(predicted):
    trials, found, *_, seen = predicted(("= [128]", "= [32, 128]"))
    assert len(trials) == 16 and len(found) == 4
    assert seen["points"][:4] == seen["demands"] == [{1, 2, 5}] * 4


def test_a_guess_is_drawn(predicted):
    _, _, printed, seen = predicted(("= None  # the speedups", "= [7.5]  # the speedups"))
    assert seen["guesses"] == [{10: 7.5}] * 2
    assert "no guess yet" not in printed


def test_a_guess_for_each_number_of_workers(predicted):
    with pytest.raises(LabkitError, match="more_workers, guess: these belong together"):
        predicted(("= None  # the speedups", "= [7.5, 9]  # the speedups"))


def test_pods_are_slow_nodes_too(predicted):
    trials, *_ = predicted(('launcher: str = "local"', 'launcher: str = "kubernetes"'))
    assert {trial.slowdown for trial in trials} == {20.0}
