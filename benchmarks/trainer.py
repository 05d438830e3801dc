"""What our trainer costs: its steady throughput against a bare loop of the same framework.

    python benchmarks/trainer.py [--pairs 5] [--only tensorflow-lstm]

Trainer and bare loop run in turn, each held to the same core, so that a drifting machine meets
both; the ratio is taken pair by pair. `single` is the trainer without distribution (the ratio that
is held to at least 0.97), `async-ps` the distributed one with a single worker, whose parameter
server has a core of its own where there is one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from labkit import provenance
from labkit.analysis.intervals import interval
from labkit.campaign import measure
from labkit.runs import Store
from labkit.settings import data_directory
from labkit.trials import Trial

BARE = Path(__file__).with_name("bare.py")
CASES = {"lenet5": {"batch_size": 128, "steps": 100}, "lstm": {"batch_size": 20, "steps": 40}}


def bare(trial):
    """Return the batches per second of the bare loop, on the core a first worker would have."""
    core = min(os.sched_getaffinity(0))
    command = [
        sys.executable, BARE, trial.framework, f"--model={trial.model}",
        f"--batch-size={trial.batch_size}", f"--learning-rate={trial.learning_rate}",
        f"--steps={trial.steps}", "--eval-samples=0", f"--data={data_directory()}",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])["batches_per_second"]


def main():
    """Print a row for each framework, model and strategy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="framework-model")
    args = parser.parse_args()
    pairs = args.pairs
    here = provenance.machine()
    print(f"{here['cpu_model']}, {here['cores']} cores, revision {provenance.revision()}")
    print("framework   model   strategy   ratio to bare (median, 95 % of the mean)   pairs")
    for framework in ("mxnet", "tensorflow"):
        for model, case in CASES.items():
            if args.only not in ("", f"{framework}-{model}"):
                continue
            ratios = {"single": [], "async-ps": []}
            for _ in range(pairs):
                for strategy, found in ratios.items():
                    trial = Trial(
                        framework=framework, model=model, strategy=strategy, eval_samples=0,
                        learning_rate=0.025, **case,
                    )  # fmt: skip
                    baseline = bare(trial)
                    with tempfile.TemporaryDirectory() as directory:
                        table = measure([trial], store=Store(Path(directory))).table
                    found.append(table["batches_per_second"].iloc[0] / baseline)
            for strategy, found in ratios.items():
                kept = [ratio for ratio in found if ratio == ratio]
                if not kept:
                    print(f"{framework:11} {model:7} {strategy:10} not measured: overloaded")
                    continue
                spread = interval(kept)
                print(
                    f"{framework:11} {model:7} {strategy:10} {statistics.median(kept):.3f}   "
                    f"({spread.low:.3f} to {spread.high:.3f})   {len(kept)} of {pairs}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
