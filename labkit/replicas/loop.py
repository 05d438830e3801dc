"""The training loop: the same for all frameworks and models."""

import abc
import math
import os
import platform
import signal
import socket
import time
from typing import Iterator, List, Optional, Tuple

import numpy as np

from labkit.replicas import events, models
from labkit.replicas.arrays import as_inputs, batches, learned
from labkit.replicas.pace import Pace

REPORT_EVERY = 0.5
"""Seconds between two ``step`` events of a worker, at least."""

WARM_UP_STEPS = 3
"""Untimed steps before the barrier: full training steps, but without effect on the weights."""

METRICS = {
    "accuracy": lambda loss, hits: 100 * float(hits.mean()),
    "perplexity": lambda loss, hits: float(np.exp(loss)),
}
"""How a model is judged, by its ``METRIC``: from the mean loss and each target's hit."""


Batch = Tuple[np.ndarray, np.ndarray]
"""Inputs and labels."""


class Diverged(ArithmeticError):
    """The loss is no longer a number.

    Parameters
    ----------
    loss : str
        Which, and what it became.
    steps : int
    worker : int
    """

    def __init__(self, loss, steps, worker):
        super().__init__(
            f"the {loss} at step {steps} of worker {worker}: a smaller learning rate, fewer "
            "workers or clip_norm may help"
        )


class Input:
    """Hands out batches, and adds up the CPU time that preparing them takes.

    Attributes
    ----------
    seconds : float
        Of this thread alone: a framework's threads compute and send meanwhile.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def of(self, found: Iterator[Batch]) -> Iterator[Batch]:
        """Yield what another iterator does."""
        while True:
            before = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
            batch = next(found, None)
            self.seconds += time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - before
            if batch is None:
                return
            yield batch


class Network(abc.ABC):
    """What a trainer's worker offers to the training loop.

    Attributes
    ----------
    pace : Pace or None
        Told by `train` when a gradient's computing begins and ends; None if nobody asks.
    variables : list of int or None
        Elements of each variable, in the order in which the framework has them; None if unknown.
    """

    pace: Optional[Pace] = None
    variables: Optional[List[int]] = None

    @abc.abstractmethod
    def train(self, inputs: np.ndarray, labels: np.ndarray) -> Tuple[float, float]:
        """Take one step; return the batch's mean loss (nats per target) and share of hits."""

    @abc.abstractmethod
    def warm_up(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        """Take a step that changes no weight, over all the paths that training will use."""

    @abc.abstractmethod
    def snapshot(self) -> None:
        """Copy the weights as they are now, for `evaluate`; whoever trains on moves others."""

    @abc.abstractmethod
    def evaluate(self, inputs: np.ndarray, labels: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Return each target's loss (nats) and whether its likeliest class is right.

        Judged are the weights of the last `snapshot`; the batch has the model's ``EVAL_BATCH``.
        """

    @abc.abstractmethod
    def finish(self) -> None:
        """Wait until everything that was started has been computed."""

    @abc.abstractmethod
    def barrier(self) -> None:
        """Return when all workers have called it."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leave the job in good order."""


def work(args, writer, model, network, data):
    """Train as the trial says: warm up, meet the others, take the steps, evaluate, leave.

    All workers call `Network.train` and `Network.warm_up` equally often: in lock step each of
    these calls waits for the others'.
    """
    size = args.batch_size
    steps_per_epoch = len(data.train_inputs) // size
    total = args.steps or args.epochs * steps_per_epoch
    warm = next(batches(data.train_inputs, data.train_labels, size, args.seed, args.index, 0))
    for _ in range(WARM_UP_STEPS):
        network.warm_up(*warm)
    network.finish()
    writer.write(events.Ready, variables=network.variables)
    network.barrier()
    turn = network.pace.turn(args) if network.pace else 0.0
    writer.write(events.Barrier, turn=round(turn, 6))
    time.sleep(turn)
    reported = time.monotonic()
    if network.pace:
        network.pace.start()

    steps = 0
    losses, hits = [], []
    taken = Input()

    def report():
        accuracy = 100 * float(np.mean(hits)) if model.METRIC == "accuracy" else None
        now = writer.write(
            events.Step,
            steps=steps,
            samples=steps * size,
            loss=float(np.mean(losses)),
            accuracy=accuracy,
        )
        losses.clear()
        hits.clear()
        return now

    for epoch in range(math.ceil(total / steps_per_epoch)):
        shuffled = batches(
            data.train_inputs, data.train_labels, size, args.seed, args.index, epoch
        )
        for inputs, labels in taken.of(shuffled):
            loss, hit = network.train(inputs, labels)
            steps += 1
            if not math.isfinite(loss):
                raise Diverged(f"loss became {loss}", steps, args.index)
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
            evaluate(args, writer, model, network, data, steps, reported)
            reported = time.monotonic()
    network.close()
    if network.pace:
        writer.write(events.Computed, **network.pace.summary())
    writer.end(steps=steps, samples=steps * size, input=round(taken.seconds, 6))


def evaluate(args, writer, model, network, data, steps, since):
    """Judge the network on the test set, by the model's metric."""
    inputs = data.test_inputs[: args.eval_samples]
    labels = data.test_labels[: args.eval_samples]
    size = model.EVAL_BATCH
    losses, hits = [], []
    seconds = 0.0
    network.snapshot()
    for begin in range(0, len(inputs), size):
        x, y = inputs[begin : begin + size], labels[begin : begin + size]
        real = len(x)
        # The last batch is filled up to the common shape; what fills it is not counted.
        x, y = np.resize(x, (size,) + x.shape[1:]), np.resize(y, (size,) + y.shape[1:])
        x, y = as_inputs(x), y.astype(np.int32)
        if begin == 0:
            network.evaluate(x, y)  # the first time builds what evaluates: not inference
        clock = time.monotonic()
        loss, hit = network.evaluate(x, y)
        seconds += time.monotonic() - clock
        losses.append(np.reshape(loss, y.shape)[:real])
        hits.append(np.reshape(hit, y.shape)[:real])
    loss = float(np.concatenate(losses).mean())
    if not math.isfinite(loss):
        raise Diverged(f"loss on the test set became {loss}", steps, args.index)
    writer.write(
        events.Evaluation,
        steps=steps,
        metric=model.METRIC,
        value=METRICS[model.METRIC](loss, np.concatenate(hits)),
        loss=loss,
        samples=int(labels.size),
        seconds=round(seconds, 6),
        pause=round(time.monotonic() - since, 6),
    )


def main(args, versions, code, build, serve):
    """Be the replica that the command line asks for, and say how it ended.

    Parameters
    ----------
    args : Namespace
        From `labkit.replicas.arguments.parse`.
    versions : dict of str to str
        Of the framework, for the ``start`` event.
    code : str
        The trainer's `labkit.replicas.checksum` when it was imported.
    build : callable
        Makes a worker's network from the arguments, the model and the data, and connects it to the
        others.
    serve : callable
        Is a server or scheduler until the workers have finished.

    Raises
    ------
    SystemExit
        With 1 if the replica failed, after its ``error`` event.
    """
    writer = events.Writer(args.role, args.index)
    if args.deadline:
        # The launcher ends late replicas; this is for the case that it is no longer there.
        signal.setitimer(signal.ITIMER_REAL, args.deadline)
    start = dict(
        trial=args.trial,
        code=code,
        pid=os.getpid(),
        host=socket.gethostname(),
        cpus=len(os.sched_getaffinity(0)),
        threads=args.threads,
        versions=dict(versions, python=platform.python_version(), numpy=np.__version__),
    )
    try:
        if args.role == "worker":
            model = models.load(models.path_of(args.model))
            data = learned(model, args.dataset, args.data)
            writer.write(events.Start, model=model.SUM, data=data.sum, **start)
            work(args, writer, model, build(args, model, data), data)
        else:
            writer.write(events.Start, model="", data="", **start)
            serve(args, writer)
            writer.end()
    except Exception as error:
        writer.error(error)
        raise SystemExit(1) from error
