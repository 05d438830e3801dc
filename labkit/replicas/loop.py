"""The training loop."""

from __future__ import annotations

import argparse
import math
import signal
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from labkit.replicas.arrays import Arrays, as_inputs, batches
from labkit.replicas.events import Events

REPORT_EVERY = 0.5
"""Seconds between two ``step`` events of a worker, at least."""


VOCABULARY = 10_000


CLASSES = 10


EVAL_BATCH = {"lenet5": 250, "lstm": 20}
"""Samples a step of evaluation; not the trial's batch size, so that inference compares."""


WARM_UP_STEPS = 3
"""Untimed steps before the barrier: full training steps, but without effect on the weights."""


class Diverged(ArithmeticError):
    """The loss is no longer a number."""


class Network(Protocol):
    """What a trainer's worker offers to the training loop."""

    def train(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Take one step; return the batch's mean loss (nats a target) and share of hits."""

    def warm_up(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        """Take a step that changes no weight, over all the paths that training will use."""

    def evaluate(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each target's loss (nats) and whether its likeliest class is right."""

    def finish(self) -> None:
        """Wait until everything that was started has been computed."""

    def barrier(self) -> None:
        """Return when all workers have called it."""

    def close(self) -> None:
        """Leave the job in good order."""


def work(args: argparse.Namespace, events: Events, network: Network, data: Arrays) -> None:
    """Train as the trial says: warm up, meet the others, take the steps, evaluate, take leave."""
    size = args.batch_size
    steps_per_epoch = len(data.train_inputs) // size
    total = args.steps or args.epochs * steps_per_epoch
    warm = next(batches(data.train_inputs, data.train_labels, size, args.seed, args.index, 0))
    for _ in range(WARM_UP_STEPS):
        network.warm_up(*warm)
    network.finish()
    events("ready")
    network.barrier()
    reported = events("barrier")

    steps = 0
    losses: list[float] = []
    hits: list[float] = []

    def report() -> float:
        fields = {"loss": float(np.mean(losses))}
        if args.model == "lenet5":
            fields["accuracy"] = 100 * float(np.mean(hits))
        now = events("step", steps=steps, samples=steps * size, **fields)
        losses.clear()
        hits.clear()
        return now

    for epoch in range(math.ceil(total / steps_per_epoch)):
        for inputs, labels in batches(
            data.train_inputs, data.train_labels, size, args.seed, args.index, epoch
        ):
            loss, hit = network.train(inputs, labels)
            steps += 1
            if not math.isfinite(loss):
                raise Diverged(
                    f"the loss became {loss} at step {steps} of worker {args.index}: a smaller "
                    "learning rate, fewer workers or clip_norm may help"
                )
            losses.append(loss)
            hits.append(hit)
            if steps == total:
                break
            if time.monotonic() - reported >= REPORT_EVERY:
                reported = report()
        network.finish()
        if losses:
            reported = report()
        if args.index == 0 and args.eval_samples != 0:
            _evaluate(args, events, network, data, steps, since=reported)
            reported = time.monotonic()
    network.close()
    events.end(steps=steps, samples=steps * size)


def _evaluate(
    args: argparse.Namespace,
    events: Events,
    network: Network,
    data: Arrays,
    steps: int,
    since: float,
) -> None:
    """Judge the network on the test set: accuracy of images, perplexity of text."""
    inputs = data.test_inputs[: args.eval_samples]
    labels = data.test_labels[: args.eval_samples]
    size = EVAL_BATCH[args.model]
    losses, hits = [], []
    seconds = 0.0
    for begin in range(0, len(inputs), size):
        x, y = inputs[begin : begin + size], labels[begin : begin + size]
        real = len(x)
        # The last batch is filled up to the common shape; what fills it is not counted.
        x, y = np.resize(x, (size, *x.shape[1:])), np.resize(y, (size, *y.shape[1:]))
        x, y = as_inputs(x), y.astype(np.int32)
        if begin == 0:
            network.evaluate(x, y)  # the first time builds what evaluates: not inference
        clock = time.monotonic()
        loss, hit = network.evaluate(x, y)
        seconds += time.monotonic() - clock
        losses.append(np.reshape(loss, y.shape)[:real])
        hits.append(np.reshape(hit, y.shape)[:real])
    targets = int(labels.size)
    loss = float(np.concatenate(losses).mean())
    if args.model == "lenet5":
        metric, value = "accuracy", 100 * float(np.concatenate(hits).mean())
    else:
        metric, value = "perplexity", float(np.exp(loss))
    events(
        "eval",
        steps=steps,
        metric=metric,
        value=value,
        loss=loss,
        samples=targets,
        seconds=round(seconds, 6),
        pause=round(time.monotonic() - since, 6),
    )


def main(
    args: argparse.Namespace,
    versions: dict[str, str],
    build: Callable[[argparse.Namespace], Network],
    serve: Callable[[argparse.Namespace, Events], None],
) -> None:
    """Be the replica that the command line asks for, and say how it ended.

    Parameters
    ----------
    args : Namespace
        From `parse`.
    versions : dict of str to str
        Of the framework, for the ``start`` event.
    build : callable
        Makes a worker's network and connects it to the others.
    serve : callable
        Is a server or scheduler until the workers have finished.

    Raises
    ------
    SystemExit
        With 1 if the replica failed, after its ``error`` event.
    """
    events = Events(args.role, args.index)
    if args.deadline:
        # The launcher ends late replicas; this is for the case that it is no longer there.
        signal.setitimer(signal.ITIMER_REAL, args.deadline)
    try:
        if args.role == "worker":
            data = Arrays(args.dataset, args.data)
            events.start(args, versions, data.sum)
            work(args, events, build(args), data)
        else:
            events.start(args, versions, "")
            serve(args, events)
            events.end()
    except Exception as error:
        events.error(error)
        raise SystemExit(1) from error
