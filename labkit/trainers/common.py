"""What every trainer shares: its command line, its data, its event lines, its training loop.

This file and one ``train_<framework>.py`` are all that a replica needs beside numpy and the
framework; they are started as scripts, in local processes or mounted into pods.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import resource
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

PREFIX = "@labkit "
"""Begins every event line, so that no print of a framework can be mistaken for one."""

REPORT_EVERY = 0.5
"""Seconds between two ``step`` events of a worker, at least."""

SEQUENCE_LENGTH = 30
"""Words in a sample of PTB: the time steps over which the thesis unrolled its RNN."""

VOCABULARY = 10_000
CLASSES = 10

EVAL_BATCH = {"lenet5": 250, "lstm": 20}
"""Samples a step of evaluation; not the trial's batch size, so that inference compares."""

WARM_UP_STEPS = 3
"""Untimed steps before the barrier: full training steps, but without effect on the weights."""

TRAINED_ON = {
    "fashion-mnist": (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ),
    "ptb": ("ptb.train.ids.npy", "ptb.test.ids.npy"),
}
TRAINED_ON["mnist"] = TRAINED_ON["fashion-mnist"]


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


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read a replica's command line.

    Call it before the framework is imported: ``--help`` then answers at once, and the thread
    settings are in place when the framework's libraries read them.
    """
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train one network of the study; print events as JSON lines.",
        epilog="""examples:
  one process, no distribution:
    python %(prog)s --model lenet5 --batch-size 128 --learning-rate 0.025 --steps 200
  the second of two workers (one such command a replica, with the same --hosts):
    python %(prog)s --strategy async-ps --role worker --index 1 --hosts \\
      '{"scheduler": ["h0:9000"], "server": ["h1:9000"], "worker": ["h2:9000", "h3:9000"]}'""",
    )
    job = parser.add_argument_group("this replica")
    job.add_argument("--role", default="worker", choices=("scheduler", "server", "worker"))
    job.add_argument("--index", type=int, default=0, help="of the replica in its role")
    job.add_argument("--hosts", type=json.loads, help="JSON: a list of host:port for each role")
    job.add_argument("--deadline", type=float, help="seconds after which the replica ends itself")
    job.add_argument("--data", type=Path, default=Path("data"), help="where `labkit data` put it")
    job.add_argument("--trial", default="", help="the trial's identity, repeated in the events")
    trial = parser.add_argument_group("the trial")
    trial.add_argument("--model", default="lenet5", choices=("lenet5", "lstm"))
    trial.add_argument("--dataset", choices=tuple(TRAINED_ON))
    trial.add_argument("--strategy", default="single", choices=("single", "async-ps"))
    trial.add_argument("--batch-size", type=int, default=128)
    trial.add_argument("--learning-rate", type=float, default=0.025)
    trial.add_argument("--epochs", type=int)
    trial.add_argument("--steps", type=int)
    trial.add_argument("--seed", type=int, default=1)
    trial.add_argument(
        "--initializer", default="default", choices=("default", "xavier", "uniform")
    )
    trial.add_argument("--clip-norm", type=float, help="of the whole gradient; off by default")
    trial.add_argument("--loss-over-time", default="default", choices=("default", "mean", "sum"))
    trial.add_argument("--eval-samples", type=int, help="default all test samples, 0 for none")
    trial.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    args.dataset = args.dataset or {"lenet5": "fashion-mnist", "lstm": "ptb"}[args.model]
    if args.strategy == "async-ps" and not args.hosts:
        parser.error("--strategy async-ps needs --hosts")
    if args.epochs is None and args.steps is None:
        args.epochs = 1
    limit_threads(args.threads)
    return args


def limit_threads(threads: int) -> None:
    """Set what the frameworks and their libraries read when they are imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


# --- events ---------------------------------------------------------------------------------


class Events:
    """Writes a replica's events: one JSON line each, numbered from 0 without gaps."""

    def __init__(self, role: str, index: int) -> None:
        self._who = {"role": role, "index": index}
        self._seq = 0

    def __call__(self, kind: str, **fields: Any) -> float:
        """Write one event and return its time in monotonic seconds.

        Beside it goes the CPU time, in seconds, that this process has used so far.
        """
        now = time.monotonic()
        cpu = round(time.process_time(), 4)
        event = {"seq": self._seq, "t": round(now, 6), **self._who, "kind": kind, "cpu": cpu}
        event |= fields
        self._seq += 1
        # One write a line: it cannot be torn by what a framework's threads print meanwhile.
        line = f"{PREFIX}{json.dumps(event)}\n".encode()
        if os.write(1, line) != len(line):
            raise OSError("an event line could not be written whole: is the disk full?")
        return now

    def start(self, args: argparse.Namespace, versions: dict[str, str], data_sum: str) -> None:
        """Say who this is, and on what it runs."""
        self(
            "start",
            trial=args.trial,
            data=data_sum,
            pid=os.getpid(),
            host=socket.gethostname(),
            cpus=len(os.sched_getaffinity(0)),
            threads=args.threads,
            versions={
                "python": platform.python_version(),
                "numpy": np.__version__,
                **versions,
            },
        )

    def end(self, **totals: Any) -> None:
        """Close the sequence: this replica has done all it had to do."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self("end", peak_bytes=peak, **totals)

    def error(self, error: BaseException) -> None:
        """Close the sequence: this replica has failed."""
        self(
            "error",
            type=type(error).__name__,
            message=str(error),
            traceback="".join(traceback.format_exception(error)),
        )


# --- data -----------------------------------------------------------------------------------


class Arrays:
    """A data set, memory-mapped: processes on one machine share its pages.

    Attributes
    ----------
    train_inputs, test_inputs : array of uint8, shape (n, 28, 28), or of int32, shape (n, 30)
    train_labels, test_labels : array of uint8, shape (n,), or of int32, shape (n, 30)
        Classes; for text the words that follow the inputs.
    sum : str
        SHA-256 over the checksums of the files.
    """

    def __init__(self, dataset: str, directory: Path) -> None:
        paths = [directory / dataset / name for name in TRAINED_ON[dataset]]
        lines = []
        for path in paths:
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}")
        self.sum = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        if dataset == "ptb":
            self.train_inputs, self.train_labels = _sequences(np.load(paths[0], mmap_mode="r"))
            self.test_inputs, self.test_labels = _sequences(np.load(paths[1], mmap_mode="r"))
        else:
            arrays = [_idx(path) for path in paths]
            self.train_inputs, self.train_labels, self.test_inputs, self.test_labels = arrays


def _idx(path: Path) -> np.ndarray:
    """Map an IDX file: two zero bytes, a type, the number of dimensions, then each dimension."""
    with path.open("rb") as file:
        head = file.read(4)
    if head[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes")
    shape = tuple(np.fromfile(path, ">i4", count=head[3], offset=4))
    return np.memmap(path, np.uint8, mode="r", offset=4 + 4 * head[3], shape=shape)


def _sequences(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut a text into sequences, each with the same words one place further as labels."""
    n = (len(ids) - 1) // SEQUENCE_LENGTH
    cut = n * SEQUENCE_LENGTH
    return ids[:cut].reshape(n, -1), ids[1 : cut + 1].reshape(n, -1)


def _as_inputs(batch: np.ndarray) -> np.ndarray:
    """Bring pixels to [0, 1]; leave words as they are."""
    return batch.astype(np.float32) / 255 if batch.dtype == np.uint8 else np.asarray(batch)


def batches(
    inputs: np.ndarray, labels: np.ndarray, batch_size: int, seed: int, worker: int, epoch: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield an epoch in a random order that depends on seed, worker and epoch alone.

    The batch at the end that would be smaller is left out, so that all steps are alike and all
    workers take equally many.
    """
    order = np.random.default_rng([seed, worker, epoch]).permutation(len(inputs))
    for begin in range(0, len(order) - batch_size + 1, batch_size):
        chosen = order[begin : begin + batch_size]
        yield _as_inputs(inputs[chosen]), labels[chosen].astype(np.int32)


# --- the loop -------------------------------------------------------------------------------


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
        x, y = _as_inputs(x), y.astype(np.int32)
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
