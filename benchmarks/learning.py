"""Learning is real: what networks know after training, ours beside a plain loop.

    python benchmarks/learning.py [--only mxnet-lenet5] [--quick]

One worker with its parameter server, and at the same time the plain loop of
`support/plain_loop.py`, with the same seed, batch order and number of steps: nothing is timed
here. Both have to end with the same network, up to rounding. The CNN is held to at least 80 % test
accuracy at batch 128 and rate 0.025; the RNN to a test perplexity below 400 in the setting in
which both frameworks take the same step: a gradient summed over time steps, clipped. Takes about
half an hour on two cores; a trial that has been run before is not run again. The quick form takes
too few steps to learn much, and holds ours to the plain loop only: each framework with one model.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from support.script import cases, options, parse, print_machine, warm_processes

from labkit import campaign
from labkit.runs import Store
from labkit.settings import data_directory
from labkit.trials import Trial

PLAIN = Path(__file__).parent / "support" / "plain_loop.py"
CASES = {
    "lenet5": {"batch_size": 128, "learning_rate": 0.025, "epochs": 12},
    "lstm": {
        "batch_size": 20, "learning_rate": 1.0, "steps": 1000,
        "clip_norm": 5.0, "loss_over_time": "sum",
    },
}  # fmt: skip
QUICK = {
    "lenet5": {"epochs": None, "steps": 30, "eval_samples": 1000, "clip_norm": 5.0},
    "lstm": {"steps": 10, "eval_samples": 100},
}
DUE = {
    "lenet5": ("accuracy", lambda value: value >= 80, "at least 80 %"),
    "lstm": ("perplexity", lambda value: value < 400, "below 400"),
}
SAME = 0.01
"""How far ours and the plain loop may be apart, as a share: the order of sums may differ."""


def start_plain(trial):
    """Start the plain loop; what its network knows at the end is its last line of output."""
    flags = trial.model_dump(
        exclude_none=True, exclude={"framework", "strategy", "workers", "servers"}
    )
    command = [sys.executable, PLAIN, trial.framework, f"--data={data_directory()}"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def learned(framework, model, quick, store):
    """Print a row for one framework and model; return whether it is as it should be."""
    metric, reached, due = DUE[model]
    case = CASES[model] | QUICK[model] if quick else CASES[model]
    trial = Trial(framework=framework, model=model, **case)
    beside = start_plain(trial)
    ours = campaign.measure([trial], store=store).table[metric].iloc[0]
    plain = json.loads(beside.communicate()[0].splitlines()[-1])[metric]
    print(f"{framework:11} {model:7} {metric:10} {ours:7.2f} {plain:9.2f}    "
          f"{'the same' if quick else due}", flush=True)  # fmt: skip
    same = math.isclose(ours, plain, rel_tol=SAME)
    return same and (quick or (reached(ours) and reached(plain)))


def main():
    """Print a row for each framework and model; leave with 1 if one did not learn."""
    parser = options(__doc__)
    parser.add_argument("--only", default="", help="framework-model")
    args = parse(parser)
    print_machine()
    print("framework   model   metric        ours     plain    due")
    campaign.OVERLOAD_RETRIES = 0  # the plain loop beside it disturbs the rate, which nobody reads
    with warm_processes(), tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory)) if args.quick else Store()
        good = [
            learned(framework, model, args.quick, store)
            for framework, model in cases(args, CASES)
        ]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
