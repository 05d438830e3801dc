"""The three calls alone: of no effect without labkit, and what they say with it."""

import importlib.util
import json
import math
import os
import shutil
import socket
import subprocess
import sys

import pytest
from processes import REPOSITORY

import labkit
from labkit import report
from labkit.replicas import script

pytestmark = pytest.mark.unit

FILE = REPOSITORY / "labkit" / "report.py"

CALLS = """
import report
report.ready()
report.step(8, loss=float("nan"), accuracy=50.0)
report.evaluation(accuracy=float("nan"))
report.step(-1)
print("done")
"""


def test_without_labkit_nothing_happens(tmp_path):
    """A copy of the file beside a script, with labkit out of reach."""
    shutil.copy(FILE, tmp_path)
    (tmp_path / "train.py").write_text(CALLS)
    done = subprocess.run([sys.executable, "-I", "-c", "import sys; sys.path.insert(0, '.');"
                           "import runpy; runpy.run_path('train.py')"],
                          cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_it_is_in_the_face_and_names_the_variable_as_its_reader_does():
    assert labkit.report is report
    assert report.VARIABLE == script.VARIABLE


@pytest.mark.parametrize("value", ["", "x", "1:2", "99999:1", ":", "3"])
def test_a_variable_that_names_no_socket_of_ours_is_passed_over(value, monkeypatch):
    monkeypatch.setenv(report.VARIABLE, value)
    assert load()._reporter is None


def load():
    spec = importlib.util.spec_from_file_location("a_copy", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def heard(monkeypatch):
    """Return a copy of the file that talks to us, and a function that returns what it has said."""
    ours, theirs = socket.socketpair()
    number = os.dup(theirs.fileno())
    monkeypatch.setenv(report.VARIABLE, f"{number}:{os.fstat(number).st_ino}")
    module = load()
    ours.sendall(b"go\n")

    def said():
        ours.setblocking(False)
        try:
            return [json.loads(line) for line in ours.recv(1 << 16).splitlines()]
        except BlockingIOError:
            return []

    assert [message["what"] for message in said()] == ["imported"]
    yield module, said
    # What it does at the exit of the interpreter must find nobody to talk to, and nothing to say.
    module._reporter._told = module._reporter._steps
    ours.close()
    theirs.close()


def test_steps_are_added_up_and_said_twice_a_second(heard):
    module, said = heard
    module.ready()
    assert [message["what"] for message in said()] == ["ready", "barrier"]
    module.step(8, loss=1.0)
    module.step(8, loss=3.0, accuracy=50)
    assert said() == []
    module._reporter._sent = {"t": -math.inf}  # as if that was long ago
    module.step(4, loss=5.0)
    (message,) = said()
    assert (message["what"], message["steps"], message["samples"]) == ("step", 3, 20)
    assert message["metrics"] == {"loss": 3.0, "accuracy": 50.0}
    module.step(4)
    module.evaluation(accuracy=75, perplexity=math.inf)
    step, evaluation = said()
    assert step["steps"] == 4 and step["metrics"] == {}
    assert evaluation["metrics"] == {"accuracy": 75.0, "perplexity": math.inf}
    assert evaluation["pause"] == pytest.approx(evaluation["t"] - step["t"])


@pytest.mark.parametrize("call", [lambda r: r.step(1), lambda r: r.evaluation(accuracy=1)])
def test_what_comes_before_ready_is_refused(heard, call):
    with pytest.raises(RuntimeError, match=r"before report\.ready\(\)"):
        call(heard[0])


def test_ready_comes_once(heard):
    heard[0].ready()
    with pytest.raises(RuntimeError, match="second time"):
        heard[0].ready()


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_none_is_said_and_raised(heard, loss):
    module, said = heard
    module.ready()
    with pytest.raises(ArithmeticError, match=f"the loss became {loss} at step 1"):
        module.step(1, loss=loss)
    assert said()[-1]["what"] == "diverged"


def test_fewer_samples_than_none_are_refused(heard):
    heard[0].ready()
    with pytest.raises(ValueError, match="-1 samples"):
        heard[0].step(-1)


def test_an_evaluation_without_a_metric_is_refused(heard):
    heard[0].ready()
    with pytest.raises(ValueError, match="accuracy=97.5"):
        heard[0].evaluation()


@pytest.mark.parametrize("call", [lambda r: r.ready(), lambda r: r.step(1)])
def test_a_forked_process_is_not_the_worker(heard, call):
    module, said = heard
    module.ready()
    module._reporter._process += 1  # as in a child
    with pytest.raises(RuntimeError, match="in a forked process"):
        call(module)
    assert len(said()) == 2


def test_what_a_script_starts_does_not_get_its_socket(heard):
    number = int(os.environ[report.VARIABLE].partition(":")[0])
    assert not os.get_inheritable(number)
