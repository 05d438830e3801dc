"""What a cluster costs against local processes: the same two-worker trial, in turns.

    python benchmarks/launchers.py [--pairs 5] [--quick]

Runs on the cluster that LABKIT_TEST_CLUSTER names, in a namespace of its own, else on that of the
current kubeconfig, used as ``cluster.toml`` says. To compare like with like, the cluster should be
on this machine or on nodes of its kind. Printed are the seconds of a trial outside its training
window, and the ratio of throughput inside it (held to at least 0.95). The local trials find their
framework imported, as all but the first of a sweep do; pods never do.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from support.cluster import own_namespace
from support.script import median_of, options, parse, print_machine, warm_processes

from labkit.campaign import measure
from labkit.runs import Store
from labkit.trials import Trial

STEPS = {
    ("mxnet", 128): 300,
    ("tensorflow", 128): 400,
    ("mxnet", 512): 100,
    ("tensorflow", 512): 120,
}
"""Of each framework and batch size: a larger batch computes more between two exchanges. Shorter
windows than these, of some 15 s, vary by 3 % on a cloud machine."""

LEAST = 0.95
"""The ratio of throughput that pods have to reach."""


def timed(trial, launcher):
    """Return the throughput of a trial, and its seconds outside the window."""
    with tempfile.TemporaryDirectory() as directory:
        begin = time.monotonic()
        row = measure([trial], launcher, store=Store(Path(directory))).table.iloc[0]
        return row.samples_per_second, time.monotonic() - begin - row.duration_s


def compare(framework, batch_size, steps, pairs):
    """Print a row for a framework and batch size; return whether pods are too slow."""
    ratios, outside = [], {"local": [], "kubernetes": []}
    for number in range(pairs):
        trial = Trial(
            framework=framework, model="lenet5", workers=2, batch_size=batch_size,
            learning_rate=0.025, steps=steps, eval_samples=0, seed=1 + number,
        )  # fmt: skip
        rates = {}
        for launcher in outside:
            rates[launcher], seconds = timed(trial, launcher)
            outside[launcher].append(seconds)
        if all(rate == rate for rate in rates.values()):
            ratios.append(rates["kubernetes"] / rates["local"])
    local, cluster = (f"{statistics.median(seconds):.1f} s" for seconds in outside.values())
    found = f"{median_of(ratios)}, {len(ratios)} of {pairs}" if ratios else "overloaded"
    print(f"{framework:10} {batch_size:5} {local:>15} {cluster:>8}  {found}", flush=True)
    return not (ratios and statistics.median(ratios) >= LEAST)


def main():
    """Print a row for each framework and batch size; leave with 1 if a ratio is too low."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    args = parse(parser)
    print_machine()
    print("framework  batch  outside: local  cluster  throughput ratio: median (95 % of the mean)")
    with own_namespace(), warm_processes():
        slow = [
            compare(framework, batch_size, steps=20 if args.quick else steps,
                    pairs=1 if args.quick else args.pairs)
            for (framework, batch_size), steps in STEPS.items()
            if batch_size == 128 or not args.quick
        ]  # fmt: skip
    sys.exit(any(slow) and not args.quick)


if __name__ == "__main__":
    main()
