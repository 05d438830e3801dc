"""Models that load data of their own, as users have them: checked, run, and what is said."""

import numpy as np
import pytest
from click.testing import CliRunner
from extensions import LINEAR, OWN, READ

from labkit import Sweep, measure
from labkit.campaign import SweepFailed
from labkit.cli import main

pytestmark = pytest.mark.process

TEXT = '''
"""What follows a word: the next one of five."""

import numpy as np

METRIC = "perplexity"
EVAL_BATCH = 10
TIME_STEPS = 4


def load(folder):
    words = (np.arange(5)[:, None] + np.arange(5)) % 5
    words = np.tile(words, (20, 1))
    return words[:, :-1], words[:, 1:], words[:10, :-1], words[:10, 1:]


def mxnet(mx, words):
    net = mx.sym.Embedding(words, input_dim=5, output_dim=5)
    return mx.sym.Reshape(net, shape=(-1, 5))


def tensorflow(tf, words):
    weights = tf.get_variable("weights", [5, 5])
    return tf.reshape(tf.nn.embedding_lookup(weights, words), [-1, 5])
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("warm", "once")
def test_both_frameworks_learn_it(here, store):
    (here / "mine.py").write_text(OWN)
    sweep = Sweep.grid(framework=["mxnet", "tensorflow"], model="mine.py", **LINEAR)
    results = measure(sweep, store=store)
    table = results.table
    assert table.status.tolist() == ["finished"] * 2
    assert set(table.dataset) == {sweep[0].dataset} and table.dataset[0].startswith("own-500-")
    assert (table.accuracy > 90).all()
    run = store.find(sweep[0])
    assert {events[0].data for events in run.workers} == {sweep[0].sums["data"]}
    # Its data is not asked for any more; other data makes other trials.
    (here / "mine.py").write_text(OWN.replace("def load(folder):", "def load(folder):\n    1 / 0"))
    assert run.trial == sweep[0] and run.current
    (here / "mine.py").write_text(OWN)
    assert measure(sweep, store=store).note.startswith("2 trials: 0 run, 2 re-used")


@pytest.mark.usefixtures("warm", "once")
def test_both_frameworks_learn_sequences(here, store):
    (here / "mine.py").write_text(TEXT)
    sweep = Sweep.grid(
        framework=["mxnet", "tensorflow"], model="mine.py", loss_over_time="mean",
        **LINEAR | {"learning_rate": 2.0},
    )  # fmt: skip
    table = measure(sweep, store=store).table
    assert table.status.tolist() == ["finished"] * 2
    assert (table.perplexity < 2).all()  # of five words that are equally likely it is 5


@pytest.mark.usefixtures("warm", "once")
@pytest.mark.parametrize(("change", "says"), [
    (lambda here: (here / "x.npy").unlink(),
     r"mine\.py: load\(\) failed in line \d+: FileNotFoundError.*only this file travels to pods"),
    (lambda here: np.save(here / "x.npy", np.ones((40, 8))),
     r"mine\.py: load\(\) returned other arrays on .* instead of own-40-"),
])  # fmt: skip
def test_what_changes_after_it_was_described(change, says, here, store):
    """It is found before the training starts."""
    save(here)
    (here / "mine.py").write_text(READ)
    sweep = Sweep.grid(framework="mxnet", model="mine.py", **LINEAR)
    change(here)
    with pytest.raises(SweepFailed, match=says):
        measure(sweep, store=store)
    assert "barrier" not in (store.failure(sweep[0]).directory / "worker-0.log").read_text()


def save(here, labels=2):
    random = np.random.default_rng(1)
    for part, count in (("", 40), ("test_", 20)):
        y = np.arange(count) % labels
        np.save(here / f"{part}x.npy", random.normal(size=(count, 8)) + 4 * np.eye(8)[y])
        np.save(here / f"{part}y.npy", y)


@pytest.mark.slow
def test_the_check_of_a_model(here):
    """What is wrong with the data is found without a framework, then what does not fit it."""
    (here / "mine.py").write_text(READ)
    done = CliRunner().invoke(main, ["model", "check", "mine.py"])
    assert done.exit_code == 1 and "load() failed in line 11: FileNotFoundError" in done.output
    save(here, labels=3)
    done = CliRunner().invoke(main, ["model", "check", "mine.py"])
    assert done.exit_code == 0 and "mxnet: 2 variables, 27 weights" in done.output
    assert "nothing wrong was found" in done.output and "not compared" not in done.output
    done = CliRunner().invoke(main, ["model", "check", "mine.py", "--batch-size", "41"])
    assert "batch_size: 41 is more than the 40 training samples of own-40-" in done.output
    save(here, labels=4)
    done = CliRunner().invoke(main, ["model", "check", "mine.py", "--framework", "mxnet"])
    assert done.exit_code == 1 and "scores for 3 classes, but the labels have 4" in done.output
