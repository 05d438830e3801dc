"""Guess, prediction and measurement: what each knows, and what is said where one is missing."""

import numpy as np
import pytest
from made_notebooks import made_up

from labkit import analysis
from labkit.figures.page import title_of
from labkit.thesis import guesses
from labkit.trials import Sweep

pytestmark = pytest.mark.unit


def measured(workers=(1, 2, 5), framework=("tensorflow", "mxnet"), cores=64, **setting):
    """Return made-up results of a sweep: rates that grow with the workers, but not quite."""
    sweep = Sweep.grid(
        2, framework=list(framework), workers=list(workers), model="lenet5", batch_size=128,
        learning_rate=0.025, steps=8, **setting,
    )  # fmt: skip
    results = made_up(sweep, cores=cores)
    results.table["batches_per_second"] *= 0.95 ** (results.table["workers"] - 1)
    return results


def lose(results, **where):
    rows = np.logical_and.reduce([results.table[name] == value for name, value in where.items()])
    results.table.loc[rows, "batches_per_second"] = np.nan
    return results


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


# --- the guess ------------------------------------------------------------------------------


def test_a_guess_is_of_the_workers_above_one_in_their_order():
    assert guesses.of([1, 2, 5], [1.9, 4]) == {2: 1.9, 5: 4}
    assert guesses.of([10, 1, 2], [7, 2]) == {10: 7, 2: 2}
    assert repr(guesses.of([1, 2, 5], [1.9, 4])) == "guessed speedups: 1.9 with 2 workers, " \
        "4 with 5 workers"  # fmt: skip
    assert guesses.of([1, 2], None) == {} and repr(guesses.of([1], None)) == "no guess yet"


# --- the prediction -------------------------------------------------------------------------


def test_the_prediction_knows_one_worker_alone():
    results = measured()
    before = [side.speedups for side in guesses.compare(results, {}).sides]
    many = results.table["workers"] > 1
    results.table.loc[many, ["batches_per_second", "cpu_ms_per_step"]] /= 3
    after = [side.speedups for side in guesses.compare(results, {}).sides]
    for one, other in zip(before, after, strict=True):
        assert one["predicted"].tolist() == other["predicted"].tolist()
        assert one["measured"].to_numpy() == pytest.approx(3 * other["measured"].to_numpy())


def test_speedups_are_those_of_the_figure():
    results = measured()
    for side in guesses.compare(results, {}).sides:
        table = results.table[results.table["framework"] == side.framework]
        speedups = analysis.speedups(table).set_index("workers")["speedup"]
        assert side.speedups["measured"].to_dict() == pytest.approx(speedups.drop(1).to_dict())
        assert side.speedups["predicted"].to_dict() == pytest.approx({2: 2, 5: 5}, rel=0.05)


@pytest.mark.parametrize(("cpu", "speedup"), [(None, 5), (0.1, 2.05)])
def test_a_share_of_a_core_makes_servers_slow_in_the_prediction_too(cpu, speedup):
    """Twelve milliseconds of a server take 120 there: no more than 8.3 updates a second."""
    results = measured(framework=["tensorflow"], slowdown=10.0, cpu=cpu)
    results.table["server_cpu_ms_per_update"] = 12.0
    results.table["launcher"] = "kubernetes"  # nowhere else is there such a node
    (side,) = guesses.compare(results, {}).sides
    assert side.speedups["predicted"][5] == pytest.approx(speedup, rel=0.03)


@pytest.mark.parametrize(("launcher", "cores"), [("local", 4), ("kubernetes", None)])
def test_what_one_machine_ran_is_predicted_on_its_cores(launcher, cores):
    results = measured(cores=4)
    results.table["launcher"] = launcher
    results.table["cpu_ms_per_step"] = 190.0  # of some 250
    for side in guesses.compare(results, {}).sides:
        assert side.predicted.asked["cores"] == cores
    (found,) = (side.speedups["predicted"][5] for side in guesses.compare(results, {}).sides
                if side.framework == "mxnet")  # fmt: skip
    assert (found < 4.5) == (launcher == "local")


def test_the_prediction_is_of_the_same_setting():
    (side,) = guesses.compare(measured(framework=["tensorflow"], servers=2), {}).sides
    assert side.predicted.asked["servers"] == 2
    for side in guesses.compare(measured(slowdown=20.0), {}).sides:
        assert side.predicted.asked["slowdown"] == 20.0
        assert "servers" not in side.predicted.asked
    for side in guesses.compare(measured(strategy="sync-ps"), {}).sides:
        assert side.predicted.asked["strategy"] == "sync-ps"


# --- side by side ---------------------------------------------------------------------------


def test_each_framework_has_a_figure():
    compared = guesses.compare(measured(), {2: 1.5, 5: 3})
    figures = {name: (figure, trials) for figure, trials, name in compared.figures("6.3")}
    assert list(figures) == ["6.3-prediction-tensorflow", "6.3-prediction-mxnet"]
    for name, (figure, trials) in figures.items():
        assert set(trials.table["framework"]) == {name.rpartition("-")[2]}
        assert title_of(figure).startswith("6.3 Prediction, ")
        assert legend(figure) == ["measured", "predicted", "guess", "ideal"]
    without = [figure for figure, *_ in guesses.compare(measured(), {}).figures("6.3")]
    assert all(legend(figure) == ["measured", "predicted", "ideal"] for figure in without)


def test_what_is_off_is_so_many_percent_of_what_was_measured():
    near, _ = guesses.compare(measured(), {2: 1.5}).findings
    table = near.table
    assert table["guess"].dropna().to_dict() == {("TensorFlow", 2): 1.5, ("MXNet", 2): 1.5}
    two = table.loc[("MXNet", 2)]
    assert two["measured"] == pytest.approx(1.9, abs=0.01)
    assert two["guess off [%]"] == pytest.approx(100 * (1.5 / 1.9 - 1), abs=0.1)
    assert two["predicted off [%]"] > 0
    assert table.loc[("MXNet", 5), "efficiency [%]"] == pytest.approx(100 * 0.95**4, abs=0.1)
    assert "guess" not in guesses.compare(measured(), {}).findings[0].table


def test_a_step_is_own_work_and_waiting_below_the_servers_bound():
    sides = guesses.compare(measured(), {}).sides
    for side in sides:
        steps = side.steps
        assert (steps["own work"] + steps["waiting"]).tolist() == pytest.approx(
            steps["step"].tolist()
        )
        assert (1000 * steps.index / steps["batches/s"]).tolist() == pytest.approx(
            steps["step"].tolist()
        )
        assert (steps["batches/s"] < steps["1/D"]).all()
    tensorflow, mxnet = (side.steps["1/D"] for side in sides)
    assert tensorflow.tolist() == pytest.approx([500] * 3)  # one server, 2 ms an update
    assert mxnet[5] > mxnet[2] > mxnet[1]  # which is shared out among more of them
    _, why = guesses.compare(measured(), {}).findings
    assert "Compared with one worker, a step changes by " in why.reading
    assert "MXNet, 5 workers: " in why.reading and "predicted were " in why.reading


# --- what is missing ------------------------------------------------------------------------


def test_without_a_run_with_one_worker_there_is_no_prediction():
    compared = guesses.compare(lose(measured(), framework="mxnet", workers=1), {2: 1.5, 5: 3})
    tensorflow, mxnet = compared.sides
    assert tensorflow.predicted and mxnet.predicted is None
    assert len(list(compared.figures("6.3"))) == 2
    said = repr(compared)
    assert "No prediction of MXNet: no run with one worker and its servers, on whole cores" in said
    assert "No measured speedup of MXNet with 2, MXNet with 5 (workers)" in said
    assert "nan" not in said and "nan" not in compared._repr_html_()


def test_one_worker_alone_predicts_nothing():
    compared = guesses.compare(measured(workers=[1]), {})
    assert len(list(compared.figures("6.3"))) == 2
    assert "Only one worker was measured: there is nothing to predict." in repr(compared)


def test_without_servers_there_is_nothing_to_predict():
    compared = guesses.compare(measured(workers=[1], strategy="single"), {})
    assert [side.predicted for side in compared.sides] == [None, None]
    assert "nothing to predict" in repr(compared)


def test_speedups_on_too_few_cores_are_not_taken_for_measured():
    compared = guesses.compare(measured(cores=2), {2: 1.5, 5: 3})
    assert "No measured speedup of TensorFlow with 5, MXNet with 5 (workers): oversubscribed" in (
        repr(compared)
    )
    _, why = compared.findings
    assert "mostly for a core: all share 2" in why.reading


def test_nothing_at_all_is_said_so():
    results = measured()
    results.table["batches_per_second"] = np.nan
    compared = guesses.compare(results, {2: 1.5, 5: 3})
    assert all(figure.empty for figure, *_ in compared.figures("6.3"))
    assert "No prediction of TensorFlow or MXNet" in repr(compared)
    assert len(compared.findings) == 1
