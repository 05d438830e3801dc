"""Tell labkit what a training script does: three calls, which do nothing where it is not around.

    from labkit import report          # or copy this file beside the script, and: import report

    report.ready()                     # all is built: wait here until all workers have come
    for images, labels in batches:
        loss = ...
        report.step(len(images), loss=loss)
    report.evaluation(accuracy=97.5)   # in percent

It needs the standard library alone, of Python 3.6 or later. `labkit run --script` gives each
worker a socket, on which this file writes one JSON object a line; `labkit.replicas.script` makes
events of them.
"""

import atexit
import json
import math
import os
import socket
import time

VARIABLE = "LABKIT_REPORT"
"""Environment variable with the socket's file descriptor and inode, separated by a colon."""

EVERY = 0.5
"""Seconds between two messages about steps, at least."""


def ready():
    """Say that this worker can train, and return when all can: the clock starts here.

    Raises
    ------
    RuntimeError
        If it is called a second time, or in a process that the script has forked.
    """
    if _reporter:
        _reporter.ready()


def step(samples, loss=None, **metrics):
    """Say that this worker has taken a step.

    Parameters
    ----------
    samples : int
        On which it has trained in this step.
    loss : float, optional
        Mean over the batch.
    **metrics : float
        Whatever else there is, such as ``accuracy``, in percent.

    Raises
    ------
    RuntimeError
        If `ready` has not been called, or in another process.
    ValueError
        If the samples are fewer than 0.
    ArithmeticError
        If the loss, or another of the numbers, is not finite: the trial has diverged.
    """
    if _reporter:
        _reporter.step(samples, metrics if loss is None else dict(metrics, loss=loss))


def evaluation(**metrics):
    """Say how good the model is on data that it was not trained on.

    The time since this worker's last step is no part of the time in which all workers train.

    Parameters
    ----------
    **metrics : float
        Such as ``accuracy``, in percent, or ``perplexity``.

    Raises
    ------
    RuntimeError, ArithmeticError
        As `step` does.
    ValueError
        If there is no metric.
    """
    if _reporter:
        _reporter.evaluation(metrics)


class _Reporter:
    """Adds up steps, and says how far they are twice a second."""

    def __init__(self, channel):
        self._channel = channel
        self._process = os.getpid()
        self._steps = self._samples = self._told = 0
        self._sums = {}  # of each metric since the last message: sum and count
        self._last = None  # times of the last step, evaluation or barrier

    def introduce(self):
        self._send("imported", _times())

    def ready(self):
        self._check_process("ready")
        if self._last:
            raise RuntimeError("report.ready() is called a second time")
        self._send("ready", _times())
        if not self._channel.recv(16):
            raise RuntimeError("labkit does not answer any more")
        self._last = self._sent = _times()
        self._send("barrier", self._last)

    def step(self, samples, metrics):
        self._check("step")
        samples = int(samples)
        if samples < 0:
            raise ValueError(f"report.step(): {samples} samples")
        self._steps += 1
        self._samples += samples
        for name, value in self._numbers(metrics, math.isfinite).items():
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = total + value, count + 1
        self._last = _times()
        if self._last["t"] - self._sent["t"] >= EVERY:
            self.flush()

    def evaluation(self, metrics):
        self._check("evaluation")
        if not metrics:
            raise ValueError("report.evaluation(): what was found? Give accuracy=97.5, say")
        metrics = self._numbers(metrics, lambda value: not math.isnan(value))
        self.flush()
        now = _times()
        self._send("evaluation", now, pause=now["t"] - self._last["t"], metrics=metrics)
        self._last = now

    def flush(self):
        """Say what has not been said of the steps."""
        if self._steps > self._told and os.getpid() == self._process:
            means = {name: total / count for name, (total, count) in self._sums.items()}
            self._send(
                "step", self._last, steps=self._steps, samples=self._samples, metrics=means
            )
            self._sums, self._told, self._sent = {}, self._steps, self._last

    def _check_process(self, name):
        if os.getpid() != self._process:
            raise RuntimeError(f"report.{name}() is called in a forked process")

    def _check(self, name):
        self._check_process(name)
        if not self._last:
            raise RuntimeError(f"report.{name}() is called before report.ready()")

    def _numbers(self, metrics, good):
        """Return metrics as floats; say that the trial has diverged if one is no number."""
        numbers = {name: float(value) for name, value in metrics.items()}
        for name, value in numbers.items():
            if not good(value):
                message = f"the {name} became {value} at step {self._steps}"
                self._send("diverged", _times(), message=message)
                raise ArithmeticError(message)
        return numbers

    def _send(self, what, times, **values):
        line = json.dumps(dict(values, what=what, **times)) + "\n"
        self._channel.sendall(line.encode())


def _times():
    return {"t": time.monotonic(), "cpu": time.process_time()}


def _connect():
    """Return a reporter, None where labkit has not started this very process."""
    number, _, inode = os.environ.get(VARIABLE, "").partition(":")
    try:
        # A process that the script has started finds the variable, but not the socket.
        if os.fstat(int(number)).st_ino != int(inode):
            return None
        os.set_inheritable(int(number), False)
    except (OSError, ValueError):
        return None
    reporter = _Reporter(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=int(number)))
    atexit.register(reporter.flush)
    reporter.introduce()
    return reporter


_reporter = _connect()
