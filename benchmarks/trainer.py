"""What our trainer costs: its steady throughput against a plain loop of the same framework.

    python benchmarks/trainer.py [--pairs 5] [--only tensorflow-lstm] [--quick]

Trainer and plain loop run in turn, each held to the same core, so that a drifting machine meets
both; the ratio is taken pair by pair. `single` is the trainer without distribution (the ratio that
is held to at least 0.97), `async-ps` the distributed one with a single worker, whose parameter
server has a core of its own where there is one.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from support.script import cases, median_of, options, parse, print_machine, warm_processes

from labkit.campaign import measure
from labkit.runs import Store
from labkit.settings import data_directory
from labkit.trials import Trial

PLAIN = Path(__file__).parent / "support" / "plain_loop.py"
CASES = {"lenet5": {"batch_size": 128, "steps": 100}, "lstm": {"batch_size": 20, "steps": 40}}
LEAST = 0.97
"""The ratio that the trainer without distribution has to reach."""


def plain(trial):
    """Return the batches per second of the plain loop, on the core a first worker would have."""
    core = min(os.sched_getaffinity(0))
    command = [
        sys.executable, PLAIN, trial.framework, f"--model={trial.model}",
        f"--dataset={trial.dataset}",
        f"--batch-size={trial.batch_size}", f"--learning-rate={trial.learning_rate}",
        f"--steps={trial.steps}", "--eval-samples=0", f"--data={data_directory()}",
    ]  # fmt: skip
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])["batches_per_second"]


def ratio(trial):
    """Return the trial's rate over that of the plain loop; not a number if it was disturbed."""
    baseline = plain(trial)
    with tempfile.TemporaryDirectory() as directory:
        table = measure([trial], store=Store(Path(directory))).table
    return table["batches_per_second"].iloc[0] / baseline


def main():
    """Print a row for each framework, model and strategy; leave with 1 if one is too slow."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="framework-model")
    args = parse(parser)
    print_machine()
    print("framework   model   strategy   ratio to plain: median (95 % of the mean), pairs")
    with warm_processes():
        slow = [
            row
            for framework, model in cases(args, CASES)
            for row in compare(framework, model, args)
        ]
    sys.exit(any(slow) and not args.quick)


def compare(framework, model, args):
    """Print a row for each strategy; yield whether it is too slow."""
    pairs = 1 if args.quick else args.pairs
    ratios = {"single": []} if args.quick else {"single": [], "async-ps": []}
    case = CASES[model] | ({"steps": CASES[model]["steps"] // 4} if args.quick else {})
    for _ in range(pairs):
        for strategy, found in ratios.items():
            found.append(ratio(Trial(
                framework=framework, model=model, strategy=strategy, eval_samples=0,
                learning_rate=0.025, **case,
            )))  # fmt: skip
    for strategy, found in ratios.items():
        kept = [value for value in found if value == value]
        text = f"{median_of(kept)}, {len(kept)} of {pairs}" if kept else "not measured: overloaded"
        print(f"{framework:11} {model:7} {strategy:10} {text}", flush=True)
        yield strategy == "single" and not (kept and statistics.median(kept) >= LEAST)


if __name__ == "__main__":
    main()
