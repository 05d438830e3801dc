"""Learning is real: what networks know after training, ours beside a plain loop.

    python benchmarks/learning.py [--only mxnet-lenet5]

One worker with its parameter server beside the plain loop of `bare.py`, with the same seeds, batch
order and number of steps. The CNN is held to at least 80 % test accuracy at batch 128 and rate
0.025; the RNN to a test perplexity below 400 in the setting in which both frameworks take the same
step: a gradient summed over time steps, clipped. Takes about an hour; a trial that has been run
before is not run again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from labkit import data, provenance
from labkit.measure import measure
from labkit.trials import Trial

BARE = Path(__file__).with_name("bare.py")
SEEDS = (1, 2)
CASES = {
    "lenet5": {"batch_size": 128, "learning_rate": 0.025, "epochs": 4},
    "lstm": {
        "batch_size": 20, "learning_rate": 1.0, "steps": 1000,
        "clip_norm": 5.0, "loss_over_time": "sum",
    },
}  # fmt: skip
JUDGE = {
    "lenet5": ("accuracy", lambda value: value >= 80, "at least 80 %"),
    "lstm": ("perplexity", lambda value: value < 400, "below 400"),
}


def plain(trial):
    """Return what the plain loop's network knows at the end."""
    flags = trial.model_dump(
        exclude_none=True, exclude={"framework", "strategy", "workers", "servers"}
    )
    command = [sys.executable, BARE, trial.framework, f"--data={data.default_directory()}"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Print a row for each framework, model and seed; leave with 1 if one did not learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="framework-model")
    only = parser.parse_args().only
    print(f"revision {provenance.revision()}")
    print("framework   model   seed  metric      ours     plain    due")
    failed = False
    for framework in ("mxnet", "tensorflow"):
        for model, case in CASES.items():
            if only not in ("", f"{framework}-{model}"):
                continue
            metric, learned, due = JUDGE[model]
            for seed in SEEDS:
                trial = Trial(framework=framework, model=model, seed=seed, **case)
                ours = measure([trial]).table[metric].iloc[0]
                other = plain(trial)[metric]
                failed |= not (learned(ours) and learned(other))
                print(
                    f"{framework:11} {model:7} {seed:4}  {metric:10} {ours:7.2f}  {other:7.2f}  "
                    f"{due}",
                    flush=True,
                )
    sys.exit(failed)


if __name__ == "__main__":
    main()
