"""How long a trial of 1, 2, 5, 10, 25 workers takes to start in a cluster.

    python benchmarks/startup.py [--workers 1 2 5 10] [--only mxnet] [--quick]

Runs on the cluster that LABKIT_TEST_CLUSTER names, in a namespace of its own, else on that of the
current kubeconfig, used as ``cluster.toml`` says: for more workers than cores it has to give a
small ``cpu_request`` and ``memory_request``. Printed are the seconds from the submission of a
trial to its last worker's passing of the barrier.
"""

import tempfile
from pathlib import Path

from support.cluster import own_namespace
from support.script import options, parse, print_machine

from labkit.campaign import measure
from labkit.runs import Store
from labkit.trials import Trial
from labkit.trials.frameworks import FRAMEWORKS


def seconds(framework, workers):
    """Return the seconds from the submission of a trial to its last worker's barrier."""
    trial = Trial(
        framework=framework, model="lenet5", workers=workers, batch_size=32,
        learning_rate=0.05, steps=10, eval_samples=0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        return measure([trial], "kubernetes", store=Store(Path(directory))).table["startup_s"][0]


def main():
    """Print a row for each framework."""
    parser = options(__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 5, 10, 25])
    parser.add_argument("--only", choices=tuple(FRAMEWORKS))
    args = parse(parser)
    counts = [2] if args.quick else args.workers
    print_machine()
    print("workers    " + "".join(f"{workers:>8}" for workers in counts))
    with own_namespace():
        for framework in [args.only] if args.only else FRAMEWORKS:
            print(f"{framework:10}", end=" ", flush=True)
            for workers in counts:
                print(f"{seconds(framework, workers):6.1f} s", end="", flush=True)
            print()


if __name__ == "__main__":
    main()
