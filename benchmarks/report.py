"""What labkit costs a script of a user's own: as it is, and with three calls, against it alone.

    python benchmarks/report.py [--rounds 9] [--quick]

The script prints its rate. In turns it runs without labkit, with labkit as it is, and with the
three calls, each time on one core, so that a drifting machine meets all; ratios are taken round by
round. Its steps take a millisecond or so, and the calls are made at each of them. Both ways are
held to at least 0.97 of the script alone, and to 5 % of each other.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from support.script import median_of, options, parse, print_machine

from labkit import ScriptTrial
from labkit.campaign import measure
from labkit.runs import Store

SCRIPT = Path(__file__).parent / "support" / "training_script.py"
LEAST = 0.97
"""The share of its rate that the script has to keep, either way."""

APART = 0.05
"""By how much what it prints may differ from what its calls say."""


PAIRS = ("as it is, to alone", "three calls, to alone", "three calls, to as it is")


def alone(steps):
    """Return the script's rate where labkit is not around, on the core a first worker would have.

    It is the mean over the time of all its lines but the first, as labkit takes it.
    """
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, SCRIPT, str(steps)], stdout=subprocess.PIPE, text=True, check=True,
        env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    rates = [float(rate) for rate in re.findall(r"images/sec: (\S+)", done.stdout)]
    return statistics.harmonic_mean(rates[1:])


def measured(arguments):
    """Return the script's rate by labkit; not a number if it was disturbed."""
    trial = ScriptTrial(framework="mxnet", servers=0, script=str(SCRIPT), arguments=arguments)
    with tempfile.TemporaryDirectory() as directory:
        table = measure([trial], store=Store(Path(directory))).table
    return table["samples_per_second"].iloc[0]


def main():
    """Print each way's ratio to the script alone, and theirs; leave with 1 beyond the bounds."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    args = parse(parser)
    print_machine()
    rounds, steps = (1, 2000) if args.quick else (args.rounds, 6000)
    ratios = {name: [] for name in PAIRS}
    for _ in range(rounds):
        baseline = alone(steps)
        prints, reports = measured(str(steps)), measured(f"{steps} --report")
        found = (prints / baseline, reports / baseline, reports / prints)
        for kept, ratio in zip(ratios.values(), found, strict=True):
            kept.append(ratio)
    beyond = False
    print("ratio of the rates: median (95 % of the mean), rounds")
    for name, found in ratios.items():
        kept = [ratio for ratio in found if ratio == ratio]
        text = f"{median_of(kept)}, {len(kept)} of {rounds}" if kept else "not measured"
        print(f"{name:25} {text}", flush=True)
        if not kept:
            beyond = True  # nothing measured is nothing shown
        elif name.endswith("alone"):
            beyond |= statistics.median(kept) < LEAST
        else:
            beyond |= abs(statistics.median(kept) - 1) > APART
    sys.exit(int(beyond and not args.quick))


if __name__ == "__main__":
    main()
