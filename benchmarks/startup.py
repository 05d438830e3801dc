"""How long a trial of 1, 2, 5, 10, 25 workers takes to start in a cluster.

    python benchmarks/startup.py [--workers 1 2 5 10] [--only mxnet]

Runs on the cluster of the current kubeconfig, used as ``cluster.toml`` says: for more workers than
cores it has to give a small ``cpu_request`` and ``memory_request``. Printed are the seconds from
the submission of a trial to its last worker's passing of the barrier.
"""

import argparse
import tempfile
from pathlib import Path

from labkit import provenance
from labkit.campaign import measure
from labkit.runs import Store
from labkit.trials import Trial


def main():
    """Print a row for each framework."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 5, 10, 25])
    parser.add_argument("--only", default="", help="framework")
    args = parser.parse_args()
    here = provenance.machine()
    print(f"{here['cpu_model']}, {here['cores']} cores, revision {provenance.revision()}")
    print("workers    " + "".join(f"{workers:>8}" for workers in args.workers))
    for framework in ("mxnet", "tensorflow"):
        if args.only not in ("", framework):
            continue
        print(f"{framework:10}", end=" ", flush=True)
        for workers in args.workers:
            trial = Trial(
                framework=framework, model="lenet5", workers=workers, batch_size=32,
                learning_rate=0.05, steps=10, eval_samples=0,
            )  # fmt: skip
            with tempfile.TemporaryDirectory() as directory:
                row = measure([trial], "kubernetes", store=Store(Path(directory))).table.iloc[0]
            print(f"{row.startup_s:6.1f} s", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
