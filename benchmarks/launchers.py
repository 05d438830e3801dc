"""What a cluster costs against local processes: the same two-worker trial, in turns.

    python benchmarks/launchers.py [--pairs 5]

Runs on the cluster of the current kubeconfig, used as ``cluster.toml`` says. To compare like with
like, the cluster should be on this machine or on nodes of its kind. Printed are the seconds of a
trial outside its training window, and the ratio of throughput inside it (held to at least 0.95).
The local trials find their framework imported, as all but the first of a sweep do; pods never do.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from labkit import provenance
from labkit.analysis.intervals import interval
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


def timed(trial, launcher):
    """Return the throughput of a trial, and its seconds outside the window."""
    with tempfile.TemporaryDirectory() as directory:
        begin = time.monotonic()
        row = measure([trial], launcher, store=Store(Path(directory))).table.iloc[0]
        return row.samples_per_second, time.monotonic() - begin - row.duration_s


def main():
    """Print a row for each framework; leave with 1 if a ratio is too low."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    pairs = parser.parse_args().pairs
    here = provenance.machine()
    print(f"{here['cpu_model']}, {here['cores']} cores, revision {provenance.revision()}")
    print("framework  batch  outside: local  cluster  throughput ratio (median, 95 % of the mean)")
    low = False
    for (framework, batch_size), steps in STEPS.items():
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
        here, there = (f"{statistics.median(outside[name]):.1f} s" for name in outside)
        row = f"{framework:10} {batch_size:5} {here:>15} {there:>8}  "
        if not ratios:
            print(row + "not measured: overloaded", flush=True)
            continue
        spread = interval(ratios)
        low |= statistics.median(ratios) < 0.95
        print(
            f"{row}{statistics.median(ratios):.3f} ({spread.low:.3f} to {spread.high:.3f}), "
            f"{len(ratios)} of {pairs} pairs",
            flush=True,
        )
    sys.exit(low)


if __name__ == "__main__":
    main()
