"""What a trial costs beside training: start-up and end, against an import of the framework.

    python benchmarks/overhead.py [--repeats 3] [--quick]

The first trial of a sweep imports the framework once and forks its replicas; the following ones
find it warm. Held to at most 2.0 imports for TensorFlow and 3.0 for MXNet, and at most 10 % of a
sweep's time outside its trials.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.script import options, parse, print_machine

from labkit.campaign import LAUNCHERS, measure
from labkit.launchers.local.launcher import LocalLauncher
from labkit.runs import Store
from labkit.trials import Sweep
from labkit.trials.frameworks import FRAMEWORKS

IMPORT = "import numpy; 'bool' in vars(numpy) or setattr(numpy, 'bool', numpy.bool_); import {}"
LIMIT = {"tensorflow": 2.0, "mxnet": 3.0}
CASES = {
    "lenet5": {"batch_size": 128, "steps": 60},
    "lstm": {"batch_size": 20, "steps": 20},
}


OUTSIDE = 0.1
"""The share of a sweep that may pass outside its trials."""


class TimedLauncher(LocalLauncher):
    """The local launcher, with the seconds that it took: for each trial's last run, and in all."""

    last: dict[str, float] = {}
    total = 0.0

    def run(self, trial, directory, on_event):
        """Run a trial and note how long it took."""
        begin = time.monotonic()
        try:
            return super().run(trial, directory, on_event)
        finally:
            seconds = time.monotonic() - begin
            TimedLauncher.last[trial] = seconds
            TimedLauncher.total += seconds


def import_seconds(module):
    """Return how long a process takes that imports a framework and nothing else."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", IMPORT.format(module)], check=True, capture_output=True)
    return time.monotonic() - begin


def sweep_seconds(sweep):
    """Return each trial's seconds outside its training window, and the sweep's outside its trials.

    The latter are a share of the whole.
    """
    TimedLauncher.last.clear()
    TimedLauncher.total = 0.0
    with tempfile.TemporaryDirectory() as directory:
        begin = time.monotonic()
        table = measure(sweep, store=Store(Path(directory))).table
        whole = time.monotonic() - begin
    beside = [
        TimedLauncher.last[trial] - duration
        for trial, duration in zip(sweep, table["duration_s"], strict=True)
    ]
    return beside, 1 - TimedLauncher.total / whole


def main():
    """Print imports, trials outside their windows, sweeps outside trials; 1 if one is too long."""
    parser = options(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    args = parse(parser)
    LAUNCHERS["local"] = TimedLauncher
    print_machine()
    print("framework   model   import   first trial (ratio, limit)   next trials   sweep outside")
    late = False
    cases = {"lenet5": CASES["lenet5"] | {"steps": 20}} if args.quick else CASES
    for framework, row in FRAMEWORKS.items():
        for model, case in cases.items():
            imports, firsts, laters, outside = [], [], [], []
            for _ in range(1 if args.quick else args.repeats):
                imports.append(import_seconds(row.modules[0]))
                beside, share = sweep_seconds(Sweep.grid(
                    framework=framework, model=model, workers=2, learning_rate=0.025,
                    eval_samples=0, repeats=2 if args.quick else 3, **case,
                ))  # fmt: skip
                firsts.append(beside[0] / imports[-1])
                laters += beside[1:]
                outside.append(share)
            late |= statistics.median(firsts) > LIMIT[framework]
            late |= statistics.median(outside) > OUTSIDE
            print(
                f"{framework:11} {model:7} {statistics.median(imports):5.1f} s   "
                f"{statistics.median(firsts):4.2f} (at most {LIMIT[framework]})   "
                f"{statistics.median(laters):6.1f} s   {statistics.median(outside):6.1%}",
                flush=True,
            )
    sys.exit(late and not args.quick)


if __name__ == "__main__":
    main()
