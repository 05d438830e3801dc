"""Learning is real: what networks know after training, ours beside a plain loop.

    python benchmarks/learning.py [--only mxnet-lenet5]

One worker with its parameter server, and at the same time the plain loop of `bare.py`, with the
same seed, batch order and number of steps: nothing is timed here. The CNN is held to at least 80 %
test accuracy at batch 128 and rate 0.025; the RNN to a test perplexity below 400 in the setting in
which both frameworks take the same step: a gradient summed over time steps, clipped. Takes about
half an hour on two cores; a trial that has been run before is not run again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from labkit import campaign, provenance
from labkit.settings import data_directory
from labkit.trials import Trial

BARE = Path(__file__).with_name("bare.py")
CASES = {
    "lenet5": {"batch_size": 128, "learning_rate": 0.025, "epochs": 12},
    "lstm": {
        "batch_size": 20, "learning_rate": 1.0, "steps": 1000,
        "clip_norm": 5.0, "loss_over_time": "sum",
    },
}  # fmt: skip
JUDGE = {
    "lenet5": ("accuracy", lambda value: value >= 80, "at least 80 %"),
    "lstm": ("perplexity", lambda value: value < 400, "below 400"),
}


def start_plain(trial):
    """Start the plain loop; what its network knows at the end is its last line of output."""
    flags = trial.model_dump(
        exclude_none=True, exclude={"framework", "strategy", "workers", "servers"}
    )
    command = [sys.executable, BARE, trial.framework, f"--data={data_directory()}"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main():
    """Print a row for each framework, model and seed; leave with 1 if one did not learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="framework-model")
    only = parser.parse_args().only
    print(f"revision {provenance.revision()}")
    print("framework   model   metric        ours     plain    due")
    campaign.OVERLOAD_RETRIES = 0  # the plain loop beside it disturbs the rate, which nobody reads
    failed = False
    for framework in ("mxnet", "tensorflow"):
        for model, case in CASES.items():
            if only not in ("", f"{framework}-{model}"):
                continue
            metric, learned, due = JUDGE[model]
            trial = Trial(framework=framework, model=model, **case)
            beside = start_plain(trial)
            ours = campaign.measure([trial]).table[metric].iloc[0]
            plain = json.loads(beside.communicate()[0].splitlines()[-1])[metric]
            failed |= not (learned(ours) and learned(plain))
            row = f"{framework:11} {model:7} {metric:10} {ours:7.2f} {plain:9.2f}    {due}"
            print(row, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
