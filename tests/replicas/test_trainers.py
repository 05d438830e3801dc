"""The trainers: as scripts by themselves, and that they train what the thesis trained."""

import argparse
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labkit.trainers import common

from labkit import datasets
from labkit.runs.check import parse
from labkit.settings import data_directory
from labkit.trials.frameworks import FRAMEWORKS, HERE

# both frameworks are imported several times
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

# --- by themselves --------------------------------------------------------------------------


def script(framework, *arguments, **options):
    return subprocess.run(
        [sys.executable, FRAMEWORKS[framework].trainer, *arguments],
        capture_output=True, text=True, timeout=100, **options,
    )  # fmt: skip


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_help(framework):
    done = script(framework, "--help", env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    for piece in (f"python train_{framework}.py --model lenet5", "--learning-rate", "--hosts"):
        assert piece in done.stdout
    # It answers before the framework is imported.
    assert "numpy" in done.stderr
    assert FRAMEWORKS[framework].modules[0] not in done.stderr.replace(str(HERE), "")


@pytest.mark.parametrize(("arguments", "says"), [
    (["--strategy=async-ps"], "needs --hosts"),
    (["--model=resnet"], "invalid choice: 'resnet'"),
    (["--steps=many"], "invalid int value: 'many'"),
])  # fmt: skip
def test_mistakes_on_the_command_line(arguments, says):
    done = script("mxnet", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.usefixtures("datasets")
def test_one_process_without_labkit(framework, tmp_path):
    """What a pod mounts is enough: two files, the data, and nothing of labkit."""
    for name in ("common.py", f"train_{framework}.py"):
        (tmp_path / name).write_bytes((HERE / name).read_bytes())
    done = subprocess.run(
        [sys.executable, f"train_{framework}.py", "--data", data_directory(),
         "--batch-size=32", "--steps=3", "--eval-samples=300", "--trial=by hand"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = parse(done.stdout, "worker", 0)
    assert [event["kind"] for event in events if event["kind"] != "step"] == [
        "start", "ready", "barrier", "eval", "end",
    ]  # fmt: skip
    start, end = events[0], events[-1]
    assert start["trial"] == "by hand"
    assert start["data"] == datasets.checksum("fashion-mnist")
    assert framework in start["versions"]
    assert (end["steps"], end["samples"]) == (3, 96)
    assert end["peak_bytes"] > 100e6
    (evaluated,) = [event for event in events if event["kind"] == "eval"]
    assert evaluated["samples"] == 300


# --- the networks ---------------------------------------------------------------------------

PROBE = """
import json, sys
import numpy as np
import common

RATE = 0.01
base = ["--steps=2", "--batch-size=4", "--initializer=xavier", f"--learning-rate={RATE}"]
common.parse(base)  # sets the threads
trainer = __import__(f"train_{sys.argv[1]}")

random = np.random.default_rng(1)
batches = {
    "lenet5": (random.random((4, 28, 28), np.float32), np.array([0, 1, 2, 3], np.int32)),
    "lstm": tuple(random.integers(0, 10_000, (4, 30)).astype(np.int32) for _ in range(2)),
}


def make(*options):
    return trainer.Worker(common.parse([*base, *options]))


def weights(worker):
    if sys.argv[1] == "mxnet":
        return [array.asnumpy() for array in worker.module.get_params()[0].values()]
    return worker.session.run(worker.session.graph.get_collection("trainable_variables"))


def apart(some, others):
    squares = [((one - other) ** 2).sum() for one, other in zip(some, others, strict=True)]
    return float(np.sqrt(sum(squares)))


def step(model, worker, rate=RATE):
    before = weights(worker)
    loss, hits = worker.train(*batches[model])
    return {"loss": loss, "gradient": apart(weights(worker), before) / rate}


found = {}
for model in ("lenet5", "lstm"):
    worker = make(f"--model={model}")
    before = weights(worker)
    worker.warm_up(*batches[model])
    worker.finish()
    losses, hits = worker.evaluate(*batches[model])
    found[model] = {
        "shapes": [array.shape for array in before],
        "dtypes": sorted({str(array.dtype) for array in before}),
        "warm-up": apart(weights(worker), before),
        "losses": np.shape(losses),
        "hits": np.shape(hits),
        "evaluated": float(np.mean(losses)),
        "step": step(model, worker),
    }
first = weights(make())
found["seeds"] = [apart(weights(make(f"--seed={seed}")), first) for seed in (1, 2)]
found["largest"] = {
    name: max(float(abs(array).max()) for array in weights(make(f"--initializer={name}")))
    for name in ("default", "xavier", "uniform")
}
found["ten times"] = step("lenet5", make(f"--learning-rate={10 * RATE}"), 10 * RATE)
found["clipped"] = step("lenet5", make("--clip-norm=0.001"))
found["other"] = step("lstm", make("--model=lstm", f"--loss-over-time={sys.argv[2]}"))
print(common.PREFIX + json.dumps(found))
"""


OTHER = {"tensorflow": "sum", "mxnet": "mean"}
"""How the lstm's gradient is taken over time if the framework's own way is not wanted."""


@pytest.fixture(scope="module")
def probes():
    """Ask both frameworks at once, each in a process of its own."""
    running = {
        framework: subprocess.Popen(
            [sys.executable, "-c", PROBE, framework, OTHER[framework]], cwd=HERE,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for framework in FRAMEWORKS
    }  # fmt: skip
    found = {}
    try:
        for framework, process in running.items():
            output, errors = process.communicate()
            assert process.returncode == 0, errors
            found[framework] = json.loads(output.splitlines()[-1].removeprefix(common.PREFIX))
    finally:
        for process in running.values():
            process.kill()
    return found


@pytest.fixture(params=FRAMEWORKS)
def probe(request, probes):
    return probes[request.param]


def test_lenet5_is_the_networks_of_the_thesis(probes):
    """Two convolutions of 5 x 5 with 20 and 50 filters, 500 units, 10 classes, all with bias."""
    sizes = [5 * 5 * 1 * 20, 20, 5 * 5 * 20 * 50, 50, 4 * 4 * 50 * 500, 500, 500 * 10, 10]
    for found in probes.values():
        assert sorted(map(math.prod, found["lenet5"]["shapes"])) == sorted(sizes)
        assert sum(map(math.prod, found["lenet5"]["shapes"])) == 431_080
        assert found["lenet5"]["dtypes"] == ["float32"]


def test_lstm_is_the_network_of_the_thesis(probes):
    """An embedding, two layers of 200 units with four gates each, 10,000 words."""
    ends = [10_000 * 200, 200 * 10_000, 10_000]
    layer = {
        "tensorflow": [(200 + 200) * 800, 800],
        "mxnet": [200 * 800, 200 * 800, 800, 800],  # input and state apart, each with a bias
    }
    for framework, found in probes.items():
        sizes = sorted(ends + 2 * layer[framework])
        assert sorted(map(math.prod, found["lstm"]["shapes"])) == sizes


@pytest.mark.parametrize(("model", "targets", "classes"), [
    ("lenet5", 4, 10), ("lstm", 4 * 30, 10_000),
])  # fmt: skip
def test_loss_and_hits(probe, model, targets, classes):
    found = probe[model]
    assert math.prod(found["losses"]) == math.prod(found["hits"]) == targets
    assert found["evaluated"] == pytest.approx(math.log(classes), rel=0.1)  # untrained
    # What training reports is the same measure: the mean over all words, whatever the gradient.
    assert found["step"]["loss"] == pytest.approx(found["evaluated"], rel=1e-5)


@pytest.mark.parametrize("model", ["lenet5", "lstm"])
def test_warm_up_leaves_the_weights_as_they_are(probe, model):
    assert probe[model]["warm-up"] == 0


def test_the_seed_decides_the_first_weights(probe):
    same, other = probe["seeds"]
    assert same == 0
    assert other > 1


def test_initializers(probes):
    for framework, found in probes.items():
        largest = found["largest"]
        # Glorot's bound is widest in the first layer: 25 inputs, and 25 outputs for each filter.
        assert largest["xavier"] == pytest.approx(math.sqrt(6 / (25 + 25 * 20)), rel=0.05)
        assert 0.0099 < largest["uniform"] <= 0.01
        own = {"tensorflow": "xavier", "mxnet": "uniform"}[framework]
        assert largest["default"] == largest[own]


def test_clipping_bounds_the_global_norm(probe):
    assert probe["lenet5"]["step"]["gradient"] > 0.1
    assert probe["clipped"]["gradient"] == pytest.approx(0.001, rel=0.02)


def test_a_step_is_the_rate_times_the_gradient(probe):
    found = [probe["lenet5"]["step"]["gradient"], probe["ten times"]["gradient"]]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_loss_over_time(probes):
    """TensorFlow's own gradient is of the mean over the 30 words, MXNet's of the sum."""
    own = {framework: found["lstm"]["step"] for framework, found in probes.items()}
    other = {framework: found["other"] for framework, found in probes.items()}
    for mean, total in ((own["tensorflow"], other["tensorflow"]), (other["mxnet"], own["mxnet"])):
        assert total["gradient"] == pytest.approx(30 * mean["gradient"], rel=0.02)
        assert total["loss"] == pytest.approx(mean["loss"], rel=1e-5)


# --- batches --------------------------------------------------------------------------------


@given(
    n=st.integers(1, 40), size=st.integers(1, 40), seed=st.integers(0, 2**31 - 1),
    worker=st.integers(0, 99), epoch=st.integers(0, 99),
)  # fmt: skip
def test_an_epoch_is_whole_batches_of_different_samples(n, size, seed, worker, epoch):
    inputs = np.arange(n, dtype=np.uint8).reshape(n, 1)
    labels = np.arange(n, dtype=np.uint8)
    epochs = [list(common.batches(inputs, labels, size, seed, worker, epoch)) for _ in range(2)]
    assert len(epochs[0]) == n // size
    seen = []
    for (x, y), (x_again, y_again) in zip(*epochs, strict=True):
        np.testing.assert_array_equal(x, x_again)  # the same each time
        np.testing.assert_array_equal(y, y_again)
        assert x.shape == (size, 1)
        assert (x.dtype, y.dtype) == (np.float32, np.int32)
        np.testing.assert_allclose(x[:, 0] * 255, y, atol=1e-4)  # its label, and 0 to 1
        seen += y.tolist()
    assert len(set(seen)) == len(seen)


def test_orders_differ_between_workers_epochs_and_seeds():
    numbers = np.arange(1000, dtype=np.int32)
    orders = {
        tuple(next(common.batches(numbers, numbers, 1000, *which))[1])
        for which in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)]
    }
    assert len(orders) == 4


def test_words_stay_words():
    words = np.arange(60, dtype=np.int32).reshape(2, 30)
    x, y = next(common.batches(words, words + 1, 2, 1, 0, 0))
    assert (x.dtype, y.dtype) == (np.int32, np.int32)
    np.testing.assert_array_equal(x + 1, y)


def write_idx(path, array):
    path.parent.mkdir(exist_ok=True)
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(head + array.astype(np.uint8).tobytes())


def test_arrays_of_images(tmp_path):
    made = {}
    for name, shape in zip(
        common.TRAINED_ON["mnist"], [(6, 28, 28), (6,), (3, 28, 28), (3,)], strict=True
    ):
        made[name] = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
        write_idx(tmp_path / "mnist" / name, made[name])
    arrays = common.Arrays("mnist", tmp_path)
    for array, due in zip(
        (arrays.train_inputs, arrays.train_labels, arrays.test_inputs, arrays.test_labels),
        made.values(), strict=True,
    ):  # fmt: skip
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, due)
    before = arrays.sum
    write_idx(tmp_path / "mnist" / "t10k-labels-idx1-ubyte", np.array([1, 2, 4]))
    assert common.Arrays("mnist", tmp_path).sum != before
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"<html>")
    with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte is not an IDX file"):
        common.Arrays("mnist", tmp_path)


@pytest.mark.parametrize(("words", "sequences"), [(31, 1), (60, 1), (61, 2), (100, 3)])
def test_arrays_of_text(words, sequences, tmp_path):
    """Labels are the words that follow; what does not fill a sequence at the end is left out."""
    (tmp_path / "ptb").mkdir()
    for name in common.TRAINED_ON["ptb"]:
        np.save(tmp_path / "ptb" / name, np.arange(words, dtype=np.int32))
    arrays = common.Arrays("ptb", tmp_path)
    assert arrays.train_inputs.shape == arrays.train_labels.shape == (sequences, 30)
    np.testing.assert_array_equal(arrays.train_inputs.ravel(), np.arange(30 * sequences))
    np.testing.assert_array_equal(arrays.train_labels, arrays.train_inputs + 1)


@pytest.mark.usefixtures("datasets")
@pytest.mark.parametrize("name", ["fashion-mnist", "mnist", "ptb"])
def test_the_real_arrays(name):
    arrays = common.Arrays(name, data_directory())
    assert arrays.sum == datasets.checksum(name)
    assert len(arrays.train_inputs) == len(arrays.train_labels) == datasets.samples(name)
    if name == "ptb":
        assert arrays.train_inputs.max() == common.VOCABULARY - 1
    else:
        assert arrays.test_inputs.shape == (10_000, 28, 28)
        assert set(arrays.test_labels) == set(range(common.CLASSES))


# --- the loop -------------------------------------------------------------------------------


class Network:
    """Notes what is asked of it; its loss falls by 1 / 1024 a step."""

    def __init__(self, losses=None):
        self.calls = []
        self.losses = iter(losses or (2 - n / 1024 for n in range(1_000_000)))

    def train(self, inputs, labels):
        self.calls.append("train")
        return next(self.losses), 0.25

    def warm_up(self, inputs, labels):
        self.calls.append("warm up")

    def evaluate(self, inputs, labels):
        self.calls.append(("evaluate", len(inputs)))
        # Right where the label is even; what a batch is filled up with would change the mean.
        return np.where(labels % 2, 3.0, 1.0).ravel(), (labels % 2 == 0).ravel()

    def finish(self):
        self.calls.append("finish")

    def barrier(self):
        self.calls.append("barrier")

    def close(self):
        self.calls.append("close")


class Events(list):
    def __call__(self, kind, **fields):
        self.append({"kind": kind} | fields)
        return 0.0

    def end(self, **totals):
        self("end", **totals)


class Data:
    train_inputs = np.zeros((100, 28, 28), np.uint8)
    train_labels = np.zeros(100, np.uint8)
    test_inputs = np.zeros((260, 28, 28), np.uint8)
    test_labels = (np.arange(260) % 4 == 1).astype(np.uint8)


def work(network=None, **values):
    default = {"model": "lenet5", "batch_size": 30, "seed": 1, "index": 0, "steps": None,
               "epochs": None, "eval_samples": None}  # fmt: skip
    events = Events()
    network = network or Network()
    common.work(argparse.Namespace(**default | values), events, network, Data())
    return events, network


def test_the_loop_warms_up_meets_trains_evaluates_and_leaves():
    events, network = work(steps=5)
    kinds = [event["kind"] for event in events]
    assert [kind for kind in kinds if kind != "step"] == [
        "ready",
        "barrier",
        "eval",
        "eval",
        "end",
    ]
    calls = [call for call in network.calls if not isinstance(call, tuple)]
    assert calls == [
        *["warm up"] * common.WARM_UP_STEPS, "finish", "barrier",
        *["train"] * 3, "finish", *["train"] * 2, "finish", "close",
    ]  # fmt: skip
    assert events[-1] == {"kind": "end", "steps": 5, "samples": 150}


@pytest.mark.parametrize(("values", "steps", "evaluations"), [
    ({"epochs": 2}, 6, 2),
    ({"steps": 6}, 6, 2),
    ({"steps": 7}, 7, 3),
    ({"steps": 2}, 2, 1),
    ({"epochs": 2, "index": 1}, 6, 0),
    ({"epochs": 2, "eval_samples": 0}, 6, 0),
])  # fmt: skip
def test_steps_and_evaluations(values, steps, evaluations):
    events, network = work(**values)
    assert network.calls.count("train") == steps
    assert [e["kind"] for e in events].count("eval") == evaluations
    reported = [event for event in events if event["kind"] == "step"]
    assert reported[-1]["steps"] == steps
    assert reported[-1]["samples"] == 30 * steps


@pytest.mark.parametrize("every", [0.0, 1000.0])
def test_reports_lose_nothing(every, monkeypatch):
    """The windows' means, weighted by their steps, are the mean of all steps."""
    monkeypatch.setattr(common, "REPORT_EVERY", every)
    events, _ = work(epochs=2)
    reported = [event for event in events if event["kind"] == "step"]
    steps = np.diff([0, *(event["steps"] for event in reported)])
    total = sum(n * event["loss"] for n, event in zip(steps, reported, strict=True))
    assert total == pytest.approx(sum(2 - n / 1024 for n in range(1, 1 + 6)) + 6 / 1024)
    assert all(event["accuracy"] == 25 for event in reported)


def test_evaluation_counts_each_sample_once():
    """260 samples are a batch of 250 and one of 10, filled up; a quarter of them is wrong."""
    events, network = work(steps=2)
    (found,) = [event for event in events if event["kind"] == "eval"]
    assert found["metric"] == "accuracy"
    assert found["value"] == pytest.approx(75)
    assert found["loss"] == pytest.approx(1.5)
    assert found["samples"] == 260
    sizes = [call[1] for call in network.calls if isinstance(call, tuple)]
    assert set(sizes) == {common.EVAL_BATCH["lenet5"]}  # one shape, so built once
    assert len(sizes) == 1 + 2  # the first time is not inference alone, and not counted
    (part,) = [e for e in work(steps=2, eval_samples=100)[0] if e["kind"] == "eval"]
    assert part["samples"] == 100


def test_perplexity_is_the_exponential_of_the_mean_loss():
    class Text:
        train_inputs = train_labels = np.zeros((40, 30), np.int32)
        test_inputs = test_labels = np.arange(25 * 30, dtype=np.int32).reshape(25, 30)

    events = Events()
    args = argparse.Namespace(model="lstm", batch_size=20, seed=1, index=0, steps=2, epochs=None,
                              eval_samples=None)  # fmt: skip
    common.work(args, events, Network(), Text())
    (found,) = [event for event in events if event["kind"] == "eval"]
    assert found["metric"] == "perplexity"
    assert found["value"] == pytest.approx(math.exp(2))  # half the words at 3 nats, half at 1
    assert found["samples"] == 750  # words
    assert all("accuracy" not in event for event in events)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_it(loss):
    with pytest.raises(common.Diverged, match=f"the loss became {loss} at step 3 of worker 1"):
        work(Network([1.0, 1.0, loss]), steps=5, index=1)


# --- events ---------------------------------------------------------------------------------


def test_events_are_numbered_lines(capfd):
    events = common.Events("server", 3)
    args = argparse.Namespace(trial="t", threads=2)
    events.start(args, {"framework": "1.0"}, "sum")
    then = events("ready", more=1)
    events.end(steps=5)
    lines = capfd.readouterr().out
    start, ready, end = parse(lines, "server", 3)
    assert start["pid"] == os.getpid()
    assert start["versions"]["framework"] == "1.0"
    assert (start["trial"], start["data"], start["threads"]) == ("t", "sum", 2)
    assert ready["t"] == pytest.approx(then, abs=1e-5)
    assert ready["more"] == 1
    assert ready["cpu"] > 0
    assert end["steps"] == 5
    assert end["peak_bytes"] > 1e6


def test_an_event_that_cannot_be_written_whole_is_an_error(monkeypatch):
    monkeypatch.setattr(os, "write", lambda number, line: len(line) - 1)
    with pytest.raises(OSError, match="is the disk full"):
        common.Events("worker", 0)("step")


def serve(args, events):
    raise ConnectionError("nobody there")


@pytest.mark.parametrize(("values", "kind", "says"), [
    ({"role": "server"}, "ConnectionError", "nobody there"),
    ({"role": "worker", "dataset": "mnist"}, "FileNotFoundError", "No such file"),
])  # fmt: skip
def test_a_replica_that_fails_says_why(values, kind, says, tmp_path, capfd):
    args = argparse.Namespace(
        index=0, deadline=None, trial="t", threads=1, data=tmp_path, **values
    )
    with pytest.raises(SystemExit) as left:
        common.main(args, {}, build=None, serve=serve)
    assert left.value.code == 1
    last = json.loads(capfd.readouterr().out.splitlines()[-1].removeprefix(common.PREFIX))
    assert (last["kind"], last["type"]) == ("error", kind)
    assert says in last["message"]
    assert kind in last["traceback"]
