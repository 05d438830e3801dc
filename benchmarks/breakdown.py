"""Where a step's time goes, by labkit and by a profiler: the share that the first worker computes.

    python benchmarks/breakdown.py [--seconds 5] [--quick]

While a trial trains, perf has the kernel count for how long the first worker's threads are on a
core. labkit's own figure is that of `labkit.analysis.step_times`, from what workers say of their
CPU time. They may be a tenth of a step apart at most; labkit's parts have to add up to the step.

Samples of perf's would not do: of threads that change as often as TensorFlow's, 20,000 times a
second, it misses a tenth of them.

It needs perf (Debian: linux-perf) and the right to use it; without, it says so and measures
nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.script import options, parse, print_machine

from labkit.analysis import PARTS, step_times
from labkit.campaign import measure
from labkit.replicas.events import Event, Start, Step
from labkit.runs import Store
from labkit.trials import Trial

APART = 0.1
"""Of a step: how far the profiler's share may be from labkit's."""

TRAINING = 20.0
"""Seconds that a trial trains at least, so that the profiler's are of its middle."""

CASES = [
    (framework, workers, batch_size)
    for framework in ("mxnet", "tensorflow")
    for workers, batch_size in ((1, 128), (1, 8), (2, 8), (2, 128))
]

COUNT = ["perf", "stat", "-x", ",", "-e", "task-clock"]
"""Milliseconds that threads are on a core, as the first of the values that commas separate."""


class Profiler:
    """Watches a trial's first worker for some seconds, from its first report on."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.pid = self.process = None

    def __call__(self, event):
        """Take an event of the trial."""
        if not isinstance(event, Event) or (event.role, event.index) != ("worker", 0):
            return
        if isinstance(event, Start):
            self.pid, self.process = event.pid, None  # of this attempt
        elif isinstance(event, Step) and self.process is None:
            self.process = subprocess.Popen(
                [*COUNT, "-p", str(self.pid), "--", "sleep", str(self.seconds)],
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip

    def share(self):
        """Return the share of the time in which a thread was on a core."""
        said = self.process.communicate()[1]
        if (found := counted(said)) is None:
            sys.exit(f"perf has counted nothing: {said}")
        return found / 1000 / self.seconds


def counted(text):
    """Return the milliseconds in what perf has printed; None if it has not counted."""
    found = re.search(r"^([\d.]+),.*task-clock", text, re.MULTILINE)
    return float(found[1]) if found else None


def permitted():
    """Return whether perf may count here."""
    done = subprocess.run([*COUNT, "--", "true"], capture_output=True, text=True)
    return counted(done.stderr) is not None


def times_of(trial, on_event=None):
    """Return the row of `step_times` of a trial; None if other programs kept the machine busy."""
    with tempfile.TemporaryDirectory() as directory:
        table = measure([trial], store=Store(Path(directory)), on_event=on_event).table
    times = step_times(table)
    return None if times.empty else times.iloc[0]


def profiled(trial, seconds, training):
    """Return the row of a trial that trains so long, and the profiler's share; None as above."""
    pace = times_of(trial)
    if pace is None:
        return None
    profiler = Profiler(seconds)
    row = times_of(trial.replace(steps=round(1000 * training / pace["step"])), profiler)
    return None if row is None else (row, profiler.share())


def main():
    """Print both shares of each trial; leave with 1 if they are too far apart."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="that perf counts")
    args = parse(parser)
    if not shutil.which("perf"):
        print("left out: there is no perf (Debian: apt-get install linux-perf; .ci/packages)")
        return int(os.environ.get("CI") == "true")  # which brings it
    if not permitted():
        print("left out: perf may not count here (sysctl kernel.perf_event_paranoid, or root)")
        return 0
    seconds = 2.0 if args.quick else args.seconds
    print_machine()
    apart = []
    for framework, workers, batch_size in CASES[1::4] if args.quick else CASES:
        trial = Trial(
            framework=framework, model="lenet5", workers=workers, batch_size=batch_size,
            learning_rate=0.01, steps=100, eval_samples=0,
        )  # fmt: skip
        found = profiled(trial, seconds, 3 * seconds if args.quick else TRAINING)
        if found is None:
            print(f"{trial.name[:-13]}: not measured, as other programs kept the machine busy")
            continue
        row, share = found
        parts = {name: row[name] / row["step"] for name in PARTS}
        ours = sum(share for name, share in parts.items() if name != "waiting")
        apart.append(abs(ours - share))
        print(
            f"{framework:10} workers {workers} batch {batch_size:3}: step {row['step']:6.2f} ms, "
            f"on a core {ours:.1%} by labkit, {share:.1%} by perf; input {parts['input']:.2%}, "
            f"waiting {parts['waiting']:.1%}; sum {sum(parts.values()):.1%}"
        )
    if not apart:
        return 0 if args.quick else 1
    print(f"at most {max(apart):.1%} of a step apart, {APART:.0%} due")
    return int(max(apart) > APART and not args.quick)


if __name__ == "__main__":
    sys.exit(main())
