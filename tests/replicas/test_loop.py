"""The training loop: what it asks of a network, and what it says of it."""

import argparse
import math
import os
import time
import types

import numpy as np
import pytest

from labkit.replicas import events, loop, models
from labkit.replicas.events import Evaluation, Step
from labkit.runs.sequence import read

pytestmark = pytest.mark.unit

LENET5, LSTM = (models.load(models.path_of(name)) for name in ("lenet5", "lstm"))


class Network(loop.Network):
    """Notes what is asked of it; its loss falls by 1 / 1024 a step."""

    def __init__(self, losses=None):
        self.calls = []
        self.losses = iter(losses or (2 - n / 1024 for n in range(1_000_000)))

    def train(self, inputs, labels):
        self.calls.append("train")
        return next(self.losses), 0.25

    def warm_up(self, inputs, labels):
        self.calls.append("warm up")

    def snapshot(self):
        self.calls.append("snapshot")

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


class Data:
    train_inputs = np.zeros((100, 28, 28), np.uint8)
    train_labels = np.zeros(100, np.uint8)
    test_inputs = np.zeros((260, 28, 28), np.uint8)
    test_labels = (np.arange(260) % 4 == 1).astype(np.uint8)


class Text:
    train_inputs = train_labels = np.zeros((40, 30), np.int32)
    test_inputs = test_labels = np.arange(25 * 30, dtype=np.int32).reshape(25, 30)


@pytest.fixture
def work(capfd):
    """Return a function that runs the loop, and returns the events and the network."""

    def run(network=None, model=LENET5, data=Data, **values):
        default = {"batch_size": 30, "seed": 1, "index": 0, "steps": None, "epochs": None,
                   "eval_samples": None}  # fmt: skip
        network = network or Network()
        args = argparse.Namespace(**default | values)
        loop.work(args, events.Writer("worker", args.index), model, network, data)
        return read(capfd.readouterr().out, "worker", args.index), network

    return run


def of(found, kind):
    """Return the events of a kind."""
    return [event for event in found if isinstance(event, kind)]


def test_the_loop_warms_up_meets_trains_evaluates_and_leaves(work):
    found, network = work(steps=5)
    assert [event.kind for event in found if not isinstance(event, Step)] == [
        "ready",
        "barrier",
        "eval",
        "eval",
        "end",
    ]
    calls = [call for call in network.calls if not isinstance(call, tuple)]
    assert calls == [
        *["warm up"] * loop.WARM_UP_STEPS, "finish", "barrier",
        *["train"] * 3, "finish", "snapshot", *["train"] * 2, "finish", "snapshot", "close",
    ]  # fmt: skip
    assert (found[-1].steps, found[-1].samples) == (5, 150)


@pytest.mark.parametrize(("values", "steps", "evaluations"), [
    ({"epochs": 2}, 6, 2),
    ({"steps": 6}, 6, 2),
    ({"steps": 7}, 7, 3),
    ({"steps": 2}, 2, 1),
    ({"epochs": 2, "index": 1}, 6, 0),
    ({"epochs": 2, "eval_samples": 0}, 6, 0),
])  # fmt: skip
def test_steps_and_evaluations(values, steps, evaluations, work):
    found, network = work(**values)
    assert network.calls.count("train") == steps
    assert len(of(found, Evaluation)) == evaluations
    last = of(found, Step)[-1]
    assert (last.steps, last.samples) == (steps, 30 * steps)


@pytest.mark.parametrize("every", [0.0, 1000.0])
def test_reports_lose_nothing(every, monkeypatch, work):
    """The windows' means, weighted by their steps, are the mean of all steps."""
    monkeypatch.setattr(loop, "REPORT_EVERY", every)
    found, _ = work(epochs=2)
    reported = of(found, Step)
    assert len(reported) == (6 if every == 0 else 2)
    steps = np.diff([0, *(event.steps for event in reported)])
    total = sum(n * event.loss for n, event in zip(steps, reported, strict=True))
    assert total == pytest.approx(sum(2 - n / 1024 for n in range(1, 1 + 6)) + 6 / 1024)
    assert all(event.accuracy == 25 for event in reported)


def test_evaluation_counts_each_sample_once(work):
    """260 samples are a batch of 250 and one of 10, filled up; a quarter of them is wrong."""
    found, network = work(steps=2)
    (evaluated,) = of(found, Evaluation)
    assert evaluated.metric == "accuracy"
    assert evaluated.value == pytest.approx(75)
    assert evaluated.loss == pytest.approx(1.5)
    assert evaluated.samples == 260
    sizes = [call[1] for call in network.calls if isinstance(call, tuple)]
    assert set(sizes) == {LENET5.EVAL_BATCH}  # one shape, so built once
    assert len(sizes) == 1 + 2  # the first time is not inference alone, and not counted
    (part,) = of(work(steps=2, eval_samples=100)[0], Evaluation)
    assert part.samples == 100


@pytest.fixture
def now(monkeypatch):
    """Return the time, in a list: it passes only where it is changed."""
    now = [100.0]
    clock = types.SimpleNamespace(
        monotonic=lambda: now[0], process_time=time.process_time, sleep=lambda seconds: None,
        clock_gettime=lambda which: now[0],
        CLOCK_THREAD_CPUTIME_ID=time.CLOCK_THREAD_CPUTIME_ID,
    )  # fmt: skip
    for module in (loop, events):
        monkeypatch.setattr(module, "time", clock)
    return now


def test_input_is_timed_alone(work, now, monkeypatch):
    """Neither with training nor with what comes before the barrier."""

    def slow(*args):
        for batch in batches(*args):
            now[0] += 3
            yield batch

    class Slow(Network):
        def train(self, inputs, labels):
            now[0] += 50
            return super().train(inputs, labels)

    batches = loop.batches
    monkeypatch.setattr(loop, "batches", slow)
    assert work(Slow(), steps=5)[0][-1].input == pytest.approx(5 * 3)


def test_inference_is_timed_alone(work, now):
    """Not with the copy of the weights before it, nor with what its first time has to build."""
    class Slow(Network):
        def snapshot(self):
            now[0] += 7

        def evaluate(self, inputs, labels):
            now[0] += 2
            return super().evaluate(inputs, labels)

    (evaluated,) = of(work(Slow(), steps=2)[0], Evaluation)
    assert evaluated.seconds == pytest.approx(2 * 2)
    assert evaluated.pause == pytest.approx(7 + 3 * 2)


def test_perplexity_is_the_exponential_of_the_mean_loss(work):
    found, _ = work(model=LSTM, data=Text, batch_size=20, steps=2)
    (evaluated,) = of(found, Evaluation)
    assert evaluated.metric == "perplexity"
    assert evaluated.value == pytest.approx(math.exp(2))  # half the words at 3 nats, half at 1
    assert evaluated.samples == 750  # words
    assert all("accuracy" not in event.as_dict() for event in found)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_it(loss, work):
    with pytest.raises(loop.Diverged, match=f"the loss became {loss} at step 3 of worker 1"):
        work(Network([1.0, 1.0, loss]), steps=5, index=1)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_test_loss_that_is_no_number_ends_it(loss, work):
    """The last step's loss is that of the weights before it: it may still have been one."""

    class Spoilt(Network):
        def evaluate(self, inputs, labels):
            losses, hits = super().evaluate(inputs, labels)
            losses[7] = loss
            return losses, hits

    with pytest.raises(loop.Diverged, match=f"test set became {loss} at step 2 of worker 0"):
        work(Spoilt(), steps=2)


# --- a replica ------------------------------------------------------------------------------


def arguments(**values):
    default = {"index": 0, "deadline": None, "trial": "t", "threads": 2, "model": "lenet5"}
    return argparse.Namespace(**default | values)


def test_a_replica_says_what_it_is(capfd):
    def serve(args, writer):
        writer.write(events.Ready)

    loop.main(arguments(role="server", index=3), {"framework": "1.0"}, "code", None, serve)
    start, ready, end = read(capfd.readouterr().out, "server", 3)
    assert (start.kind, ready.kind, end.kind) == ("start", "ready", "end")
    assert start.pid == os.getpid()
    assert start.cpus == len(os.sched_getaffinity(0))
    assert start.versions["framework"] == "1.0"
    assert start.versions["numpy"] == np.__version__
    assert (start.trial, start.threads) == ("t", 2)
    assert (start.code, start.model, start.data) == ("code", "", "")  # a server reads neither
    assert ready.cpu > 0
    assert end.peak_bytes > 1e6


def serve(args, writer):
    raise ConnectionError("nobody there")


@pytest.mark.parametrize(("values", "kind", "says"), [
    ({"role": "server"}, "ConnectionError", "nobody there"),
    ({"role": "worker", "dataset": "mnist"}, "FileNotFoundError", "No such file"),
    ({"role": "worker", "dataset": "mnst"}, "KeyError", "mnst"),
    ({"role": "worker", "model": "resnet"}, "FileNotFoundError", "resnet"),
])  # fmt: skip
def test_a_replica_that_fails_says_why(values, kind, says, tmp_path, capfd):
    with pytest.raises(SystemExit) as left:
        loop.main(arguments(data=tmp_path, **values), {}, "code", build=None, serve=serve)
    assert left.value.code == 1
    last = events.decode(capfd.readouterr().out.splitlines()[-1])
    assert (last.kind, last.type) == ("error", kind)
    assert says in last.message
    assert kind in last.traceback
