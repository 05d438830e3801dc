"""How a core is calibrated: once for all trials whose gradients are alike, on a quiet machine."""

import json
from concurrent.futures import ThreadPoolExecutor

import made_runs
import pytest
from made_runs import trial

from labkit import provenance
from labkit.launchers.calibration import FEWEST, TRIES, Calibrations, alone_of
from labkit.launchers.protocol import TrialFailed, Waiting
from labkit.runs import circumstances
from labkit.settings import OUTPUTS

pytestmark = pytest.mark.unit


def here(framework):
    return {"host": "here"}


def there(framework):
    return {"host": "there"}


class Machine:
    """Runs calibrations without a trainer: each finds gradients of 20 ms."""

    def __init__(self, *overloaded):
        self.overloaded, self.ran, self.record = list(overloaded), [], {}
        self.low, self.median, self.tells = 0.019, 0.02, True

    def __call__(self, trial, directory, on_event, compute=None):
        if compute is not None:
            return self.record | {"compute": compute}
        assert list(directory.iterdir()) == []
        made_runs.write(trial, directory, self._change)
        self.ran.append(trial)
        on_event(Waiting("nothing"))
        return {"overloaded": self.overloaded.pop(0) if self.overloaded else False} | self.record


    def _change(self, role, index, lines):
        made = '"low": 0.01, "median": 0.02, "high": 0.03'
        times = f'"low": {self.low}, "median": {self.median}, "high": 0.021'
        return [line.replace(made, times) for line in lines if self.tells or made not in line]


@pytest.fixture(autouse=True)
def outputs(tmp_path, monkeypatch):
    """Have calibrations kept in a folder of the test's own."""
    monkeypatch.setenv(OUTPUTS, str(tmp_path / "outputs"))


@pytest.fixture
def calibrated(tmp_path):
    """Return what runs a slow trial; what it says is in its list ``said``."""

    def run(trial):
        record = calibrations.run(run.machine, trial, scratch, run.said.append)
        assert record["compute"] == record["calibration"]["median"] == 0.02
        return record["calibration"]

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    calibrations = Calibrations(here)
    run.said, run.machine = [], Machine()
    return run


def test_what_is_not_slow_needs_none(tmp_path):
    machine = Machine()
    tmp_path.joinpath("run").mkdir()
    record = Calibrations(here).run(machine, trial(), tmp_path / "run", print)
    assert "calibration" not in record
    assert machine.ran == [trial()]


def test_alone_and_not_stretched(calibrated):
    slow = trial(slowdown=20, workers=10, seed=3)
    assert calibrated(slow)["cpu_model"] == provenance.machine()["cpu_model"]
    (ran,) = calibrated.machine.ran
    assert ran == alone_of(slow)
    assert (ran.strategy, ran.workers, ran.slowdown, ran.eval_samples) == ("single", 1, 1.0, 0)
    assert (ran.batch_size, ran.model, ran.framework) == (50, "lenet5", "mxnet")
    assert calibrated.said == [Waiting("the calibration of a core")]


def test_once_for_all_whose_gradients_are_alike(calibrated):
    for values in ({}, {"workers": 5}, {"seed": 2}, {"slowdown": 3.0}, {"learning_rate": 0.2},
                   {"steps": 7}, {"eval_samples": 0}, {"servers": 1},
                   {"slowdown_spread": 2.0}, {"initializer": "xavier"}):  # fmt: skip
        calibrated(trial(**{"slowdown": 20} | values))
    assert len(calibrated.machine.ran) == 1
    for values in ({"batch_size": 20}, {"framework": "tensorflow"}, {"model": "lstm"},
                   {"threads": 2}, {"clip_norm": 5.0}):  # fmt: skip
        calibrated(trial(**{"slowdown": 20} | values))
    assert len(calibrated.machine.ran) == 6


@pytest.mark.parametrize(("batch_size", "steps"), [(50, 80), (4, 1000), (60_000, 1)])
def test_how_many_gradients(batch_size, steps):
    if steps == 1:  # no more than the data have
        steps = min(FEWEST, 60_000 // batch_size)
    assert alone_of(trial(slowdown=2, batch_size=batch_size)).total_steps == max(steps, 2)


def test_one_that_does_not_say_how_long_a_gradient_took_has_failed(calibrated):
    calibrated.machine.tells = False
    with pytest.raises(TrialFailed, match="the calibration of a core failed: worker 0"):
        calibrated(trial(slowdown=2))


def test_a_busy_machine_is_calibrated_again(calibrated):
    calibrated.machine = Machine(True, False)
    assert not calibrated(trial(slowdown=2))["overloaded"]
    assert len(calibrated.machine.ran) == 2
    assert "other programs are busy" in calibrated.said[-1].for_


def test_a_core_that_others_took_now_and_then_is_calibrated_again(calibrated):
    """The machine may have had room for both: yet some gradients took much longer than others."""
    calibrated.machine.low = 0.01
    assert calibrated(trial(slowdown=2))["overloaded"]
    assert len(calibrated.machine.ran) == TRIES


def test_a_machine_that_stays_busy_is_said_to_be(calibrated):
    calibrated.machine = Machine(*[True] * TRIES, False)
    assert calibrated(trial(slowdown=2))["overloaded"]
    assert len(calibrated.machine.ran) == TRIES


def test_a_calibration_that_fails_is_named(tmp_path):
    def fail(trial, directory, on_event, compute=None):
        raise TrialFailed("worker-0 was killed")

    with pytest.raises(TrialFailed, match="the calibration of a core failed: worker-0 was killed"):
        Calibrations(here).run(fail, trial(slowdown=2), tmp_path, print)


def test_nodes_of_another_kind_than_the_one_that_was_calibrated(tmp_path):
    """Of a cluster's nodes; what a gradient takes on one says nothing about the other."""
    machine = Machine()
    machine.record = {"machine": {"cpu_model": "old"}, "nodes": {"a": {"cpu_model": "old"}}}
    Calibrations(there).run(machine, trial(slowdown=2), tmp_path, print)
    machine.record["nodes"]["b"] = {"cpu_model": "new"}
    with pytest.raises(TrialFailed, match="on a node with old, but .* on nodes with new, old"):
        Calibrations(there).run(machine, trial(slowdown=2), tmp_path, print)


def test_a_machine_has_its_own(tmp_path):
    machine = Machine()
    for where in (here, there):
        Calibrations(where).run(machine, trial(slowdown=2), tmp_path, print)
    assert len(machine.ran) == 2


def test_other_versions_are_calibrated_anew(tmp_path, monkeypatch):
    machine = Machine()
    for version in "1", "2":
        monkeypatch.setattr(provenance, "versions", lambda framework, v=version: {"numpy": v})
        Calibrations(circumstances.here).run(machine, trial(slowdown=2), tmp_path, print)
    assert len(machine.ran) == 2


def test_a_busy_machine_is_calibrated_anew_by_the_next_trial(calibrated):
    calibrated.machine = Machine(*[True] * TRIES)
    assert calibrated(trial(slowdown=2))["overloaded"]
    assert not calibrated(trial(slowdown=3))["overloaded"]
    assert len(calibrated.machine.ran) == TRIES + 1


def test_of_two_sweeps_at_once_both_take_the_first_calibration(tmp_path):
    """Each has begun to calibrate before the other has finished."""

    class Slower(Machine):
        def __call__(self, trial, directory, on_event, compute=None):
            if compute is None:
                (directory.parent / "other").mkdir()
                first.append(Calibrations(here).run(Machine(), slow, directory.parent / "other",
                                                    print))  # fmt: skip
            return super().__call__(trial, directory, on_event, compute) | {"overloaded": False}

    slow, first, slower = trial(slowdown=2), [], Slower()
    slower.low, slower.median = 0.029, 0.03
    second = Calibrations(here).run(slower, slow, tmp_path, print)
    assert [second["calibration"]] == [record["calibration"] for record in first]
    (kept,) = (tmp_path / "outputs" / "calibrations").iterdir()
    assert kept.suffix == ".json"


def test_trials_that_run_at_once_wait_for_the_same_one(tmp_path):
    machine, calibrations = Machine(), Calibrations(there)
    for name in "ab":
        (tmp_path / name).mkdir()
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(calibrations.run, machine, trial(slowdown=2, seed=i), tmp_path / d, print)
            for i, d in enumerate("ab")
        ]
    assert len({str(run.result()["calibration"]) for run in runs}) == len(machine.ran) == 1


def test_later_sweeps_have_the_same_nodes(tmp_path):
    """A speedup between two sweeps would be of different nodes otherwise."""
    machine = Machine()
    for _ in range(2):  # as two calls of measure do
        Calibrations(here).run(machine, trial(slowdown=20), tmp_path, print)
    assert len(machine.ran) == 1


@pytest.mark.parametrize("content", ["", "{", "{}", '{"colour": 1}', "[]"])
def test_a_damaged_one_is_measured_anew(tmp_path, content):
    machine = Machine()
    for _ in range(2):
        Calibrations(here).run(machine, trial(slowdown=20), tmp_path, print)
        (kept,) = (tmp_path / "outputs" / "calibrations").glob("*.json")
        whole = kept.read_text()
        kept.write_text(content)
    Calibrations(here).run(machine, trial(slowdown=20), tmp_path, print)
    assert len(machine.ran) == 3
    assert json.loads(kept.read_text()).keys() == json.loads(whole).keys()
