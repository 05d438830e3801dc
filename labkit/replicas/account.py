"""What a script says of its training, by reports or by prints, made into events."""

import math
import time

from labkit.replicas import events, machine, rates

FEWEST_RATES = 3
"""Of a worker: the first one is of the warm-up, and one alone would say nothing of the others."""

ROUNDING = 2e-6
"""Seconds that a pause is said to be shorter, so that it does not reach into the step before it:
events have their times in microseconds."""


class Account:
    """What one replica's script has said so far.

    Parameters
    ----------
    args : Namespace
        The replica's command line.
    writer : Writer
        Of its events.

    Attributes
    ----------
    diverged : str
        What is no number any more; empty as long as all are.
    totals : dict of str to int
        Steps and samples so far; empty of a script that does not report.
    t : float
        When it said the last of it, in monotonic seconds.
    """

    def __init__(self, args, writer):
        self._args, self._writer = args, writer
        # What others than the first worker print, where only that prints rates, is none.
        self._prints = args.role == "worker" and (args.rates == "each" or args.index == 0)
        self.diverged, self.totals = "", {}
        self._rates, self._began = 0, None
        self._counts = {}  # of each unit: when it was counted last, and how many
        self._reports = self._may_report = False
        self.t = 0.0

    def printed(self, line, pid):
        """Look for a rate in a line of the process; a script that reports has better to say."""
        if not self._prints or self._reports:
            return
        found = rates.read(line, self._args.pattern, total=self._args.rates == "total")
        if isinstance(found, rates.Count):
            found = self._counted(*found)
        if found:
            self._rates += 1
            cpu = machine.cpu_seconds(pid)
            self._write(events.Rate, cpu=cpu, rate=found.rate, unit=found.unit)

    def seconds(self):
        """Return for how many it has trained; 0 before there is enough to measure.

        A worker that has nothing to say for itself has trained as long as anybody asks.
        """
        if self._reports or self._may_report:
            return self.t - self._began if self.totals else 0.0
        if not self._prints:
            return math.inf
        return self.t - self._began if self._rates >= FEWEST_RATES else 0.0

    def _counted(self, count, unit):
        """Return the rate since the last count, None if this one is the first, or of an epoch."""
        now = time.monotonic()
        then, before = self._counts.setdefault(unit, (now, count))
        if count == before:
            return None
        self._counts[unit] = now, count
        # Fewer than before are those of the next epoch.
        if count < before or now == then:
            return None
        return rates.Rate((count - before) / (now - then), unit)

    def reported(self, what, **values):
        """Take a message of `labkit.report`."""
        getattr(self, "_" + what)(**values)

    def _imported(self, **times):
        self._may_report = True

    def _ready(self, **times):
        self._reports = True
        self._write(events.Ready, **times)

    def _barrier(self, **times):
        self._write(events.Barrier, **times)

    def _step(self, steps, samples, metrics, **times):
        self.totals = {"steps": steps, "samples": samples}
        known = {name: metrics.pop(name, None) for name in ("loss", "accuracy")}
        said = dict(self.totals, **known)
        self._write(events.Step, metrics=metrics or None, **dict(times, **said))

    def _evaluation(self, metrics, pause, **times):
        pause = max(0.0, round(pause - ROUNDING, 6))
        for name, value in metrics.items():
            steps = self.totals.get("steps", 0)
            self._write(events.Evaluation, steps=steps, metric=name, value=value, pause=pause,
                        **times)  # fmt: skip
            pause = 0.0  # of all together

    def _diverged(self, message, **times):
        self.diverged = message

    def _write(self, kind, cpu, t=None, **values):
        """Write an event with the script's own times, which must not run backwards."""
        self.t = max(self.t, time.monotonic() if t is None else t)
        # What it has printed before its barrier, as of loading data, is no training.
        if kind is events.Barrier or (kind is events.Rate and self._began is None):
            self._began = self.t
        self._writer.write(kind, t=self.t, cpu=cpu, **values)

    def complaint(self):
        """Return why there is nothing to measure although the script ended well, if so."""
        if self._args.role != "worker" or self.totals:
            return ""
        if self._reports:
            return "the script called report.ready(), but never report.step()"
        if self._rates >= FEWEST_RATES or not self._prints:
            return ""
        wanted = (
            "that --pattern describes" if self._args.pattern
            else "such as '123.4 images/sec', 'samples/sec: 123.4' or '12.3 steps/sec'"
        )  # fmt: skip
        alone = ", or by --rates that only the first worker prints" if self._args.index else ""
        return (
            "the script ended without having called report.ready(), and printed {} rates {}; at "
            "least {} are needed, so that one can be left out as warm-up. Print one more often, "
            "take more steps, or say by --pattern how a rate or a count looks{}"
        ).format(self._rates or "no", wanted, FEWEST_RATES, alone)
